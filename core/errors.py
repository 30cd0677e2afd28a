"""What the engine refuses, in no protocol's words.

Each front end owns one total table from these errors to its protocol's conditions. An engine error is a client's or
operator's mistake, or a limit, never a bug of ours: bugs are assertions.
"""

from core.slices import WhenOver


class EngineError(Exception):
    """A refusal that a front end tells its peer. ``str(error)`` names the value, the limit and the remedy."""


class NotFound(EngineError):
    """The queue or exchange does not exist."""


class Locked(EngineError):
    """The queue is exclusive to another connection."""


class Inequivalent(EngineError):
    """The declaration differs from the existing queue or exchange."""


class PreconditionFailed(EngineError):
    """The request is well formed, but the present state forbids it."""


class StillGoing(EngineError):
    """The thing of this name is just being made or deleted: its deletion or declaration is being recorded, or some of
    its bindings are not removed yet, or the nodes of a cluster have not agreed on it yet. The same can soon be asked
    for again."""

    def __init__(self, text: str, when_over: WhenOver | None = None) -> None:
        """``when_over`` takes a function that is to be called when it is time to ask again; None for the next turn."""
        super().__init__(text)
        self.when_over = when_over


class Invalid(EngineError):
    """A name, type or argument that can never be right."""


class Forbidden(EngineError):
    """A reserved name, a thing that clients may not touch, or a right that the user does not have."""


class LimitReached(EngineError):
    """A configured limit is used up. The text names the limit."""


class HomeLost(EngineError):
    """The node that leads the queue is lost, or not known. The queue is there, and can be attached to again."""


class ResourceDeleted(EngineError):
    """The queue or exchange behind a publisher or consumer was deleted."""
