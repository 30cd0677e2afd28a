"""What the engine refuses, in no protocol's words.

Each front end owns one total table from these to its protocol's conditions. An engine error is always somebody's
mistake or a limit, never a bug of ours: bugs are assertions.
"""


class EngineError(Exception):
    """A refusal that a front end tells its peer. ``str(error)`` names the value, the limit and the remedy."""


class NotFound(EngineError):
    """The queue or exchange does not exist."""


class Locked(EngineError):
    """An exclusive queue of another connection."""


class Inequivalent(EngineError):
    """A declaration that differs from what exists."""


class PreconditionFailed(EngineError):
    """The request is well formed, but the state of things forbids it."""


class StillGoing(EngineError):
    """What has this name is deleted, and some of its bindings are still there: soon it can be declared again."""


class Invalid(EngineError):
    """A name, type or argument that can never be right."""


class Forbidden(EngineError):
    """A reserved name, or a thing that clients may not touch."""


class LimitReached(EngineError):
    """A configured limit is used up. The text names the limit."""


class ResourceDeleted(EngineError):
    """The queue or exchange behind a publisher or consumer was deleted."""
