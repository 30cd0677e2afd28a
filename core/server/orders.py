"""What an operator may tell a protocol to do with one of its links or sessions, in no protocol's words.

Who gives an order is mostly a connection itself, in the middle of its own input, and the order may be about that very
connection. So an order is checked at once, which changes nothing, and obeyed in the turn that follows. Nothing of it
is kept: it is gone with its link.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from core.clock import Now


@dataclass(frozen=True, slots=True)
class PauseLink:
    """Nothing comes or goes on this link, until it is resumed."""

    identity: str


@dataclass(frozen=True, slots=True)
class ResumeLink:
    """Nobody pauses this link any more."""

    identity: str


@dataclass(frozen=True, slots=True)
class BoundLink:
    """The publisher on this link gets so much link credit at most, 1 or more; None for no such bound."""

    identity: str
    link_credit: int | None


@dataclass(frozen=True, slots=True)
class CloseLink:
    """Detach this link, and tell its peer why."""

    identity: str
    reason: str


@dataclass(frozen=True, slots=True)
class CloseSession:
    """End this session with all its links, and tell its peer why."""

    identity: str
    reason: str


Order = PauseLink | ResumeLink | BoundLink | CloseLink | CloseSession


@runtime_checkable
class Obedient(Protocol):
    """A front end that takes orders."""

    def check(self, order: Order) -> None:
        """Raises NotFound where there is no such link or session, Invalid where the order makes no sense for it."""

    def obey(self, order: Order, now: Now) -> None:
        """Do it; output waits for ``data_to_send``. What does not suit any more is passed over."""
