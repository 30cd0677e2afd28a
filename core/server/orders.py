"""What an operator may tell a protocol to do with one of its links or sessions, in neutral words.

The order mostly comes from a connection in the middle of its own input, and it may be about that very connection. So an
order is checked at once, which changes nothing, and carried out in the turn that follows. Orders are not stored: an
order ends with its link.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from core.clock import Now


@dataclass(frozen=True, slots=True)
class PauseLink:
    """Let no message come or go on this link until it is resumed."""

    identity: str


@dataclass(frozen=True, slots=True)
class ResumeLink:
    """Undo a pause of this link."""

    identity: str


@dataclass(frozen=True, slots=True)
class BoundLink:
    """Limit the link credit of the publisher on this link, to 1 or more; None removes the limit."""

    identity: str
    link_credit: int | None


@dataclass(frozen=True, slots=True)
class CloseLink:
    """Detach this link, and tell its peer the reason."""

    identity: str
    reason: str


@dataclass(frozen=True, slots=True)
class CloseSession:
    """End this session with all its links, and tell its peer the reason."""

    identity: str
    reason: str


Order = PauseLink | ResumeLink | BoundLink | CloseLink | CloseSession


@runtime_checkable
class TakesOrders(Protocol):
    """A front end that takes orders."""

    def check(self, order: Order) -> None:
        """Check an order. Raises NotFound where there is no such link or session, Invalid where it makes no sense for
        it."""

    def obey(self, order: Order, now: Now) -> None:
        """Carry out an order; output waits for ``data_to_send``. An order that no longer applies is ignored."""
