"""What an operator may tell a protocol to do with one of its links or sessions, in neutral words.

The order mostly comes from a connection in the middle of its own input, and it may be about that very connection. So an
order is checked at once, which changes nothing, and carried out in the turn that follows. Orders are not stored: an
order ends with its link.
"""

from dataclasses import dataclass


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
    """Limit a link to this many messages, 1 or more; None removes the limit.

    For a publisher's link they are its link credit, for a consumer's the messages that it holds unsettled.
    """

    identity: str
    messages: int | None


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
