"""Which link holds which name on a connection: a name and direction belong to one link at a time [2.6.1].

Attaching a name again steals it from the link that had it, also when that is on another session.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from amqp10.protocol.receiver_link import ReceiverLink
    from amqp10.protocol.sender_link import SenderLink
    from amqp10.protocol.session import Session


class Holder(NamedTuple):
    """A link and the session it is on."""

    session: "Session"
    link: "SenderLink | ReceiverLink"


class LinkNames:
    """The names in use on one connection, by name and role of our end. There is one entry for each link."""

    __slots__ = ("_holders",)

    def __init__(self) -> None:
        self._holders: dict[tuple[str, bool], Holder] = {}

    def claim(self, name: str, role: bool) -> Holder | None:
        """Take a name from the link that has it, and return that link and its session; None for a free name."""
        return self._holders.pop((name, role), None)

    def hold(self, name: str, role: bool, session: "Session", link: "SenderLink | ReceiverLink") -> None:
        """A link has the name from now on."""
        self._holders[name, role] = Holder(session, link)

    def release(self, name: str, role: bool, link: "SenderLink | ReceiverLink") -> None:
        """The link is over; its name is free, unless another link has it by now."""
        holder = self._holders.get((name, role))
        if holder is not None and holder.link is link:
            del self._holders[name, role]

    def clear(self) -> None:
        """The connection is over, and every link with it."""
        self._holders.clear()
