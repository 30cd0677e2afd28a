"""Which link owns which name on a connection: a name and direction belong to one link at a time [2.6.1].

Attaching a name again steals it from the link that owned it, also when that is on another session.
"""

from typing import Generic, NamedTuple, TypeVar

from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink

SessionT = TypeVar("SessionT")
"""A :class:`~amqp10.protocol.session.Session`, which uses this module."""


class NameOwner(NamedTuple, Generic[SessionT]):
    """A link that owns a name, and the session it is on."""

    session: SessionT
    link: SenderLink | ReceiverLink


class LinkNames(Generic[SessionT]):
    """The names in use on one connection, by name and role of our end. There is one entry for each link."""

    __slots__ = ("_owners",)

    def __init__(self) -> None:
        self._owners: dict[tuple[str, bool], NameOwner[SessionT]] = {}

    def claim(self, name: str, role: bool) -> NameOwner[SessionT] | None:
        """Take a name from the link that owns it, and return that link and its session; None for a free name."""
        return self._owners.pop((name, role), None)

    def set_owner(self, name: str, role: bool, session: SessionT, link: SenderLink | ReceiverLink) -> None:
        """A link owns the name from now on."""
        self._owners[name, role] = NameOwner(session, link)

    def release(self, name: str, role: bool, link: SenderLink | ReceiverLink) -> None:
        """The link is over; its name is free, unless another link owns it by now."""
        owner = self._owners.get((name, role))
        if owner is not None and owner.link is link:
            del self._owners[name, role]

    def clear(self) -> None:
        """The connection is over, and every link with it."""
        self._owners.clear()
