"""Which link holds which name on a connection: a name and direction belong to one link at a time [2.6.1].

Attaching a name again steals the link from its former holder, on whichever session that is.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from amqp10.receiver_link import ReceiverLink
    from amqp10.sender_link import SenderLink
    from amqp10.session import Session


class Holder(NamedTuple):
    """A link and the session it is on."""

    session: "Session"
    link: "SenderLink | ReceiverLink"


class LinkNames:
    """The names in use on one connection, by name and role of our end. As many as there are links."""

    __slots__ = ("_holders",)

    def __init__(self) -> None:
        self._holders: dict[tuple[str, bool], Holder] = {}

    def claim(self, name: str, role: bool) -> Holder | None:
        """Take a name from whoever holds it; returns the former holder."""
        return self._holders.pop((name, role), None)

    def hold(self, name: str, role: bool, session: "Session", link: "SenderLink | ReceiverLink") -> None:
        """A link has the name from now on."""
        self._holders[name, role] = Holder(session, link)

    def release(self, name: str, role: bool, link: "SenderLink | ReceiverLink") -> None:
        """The link is over; its name is free, unless somebody else holds it by now."""
        holder = self._holders.get((name, role))
        if holder is not None and holder.link is link:
            del self._holders[name, role]

    def clear(self) -> None:
        """The connection is over, and every link with it."""
        self._holders.clear()
