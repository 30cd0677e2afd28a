"""The one table from what the engine refuses to AMQP 1.0 error conditions [2.8.15].

It is total: every kind of engine error has an entry, so an engine error never becomes an internal error by
accident.
"""

from collections.abc import Mapping

from amqp10.errors import ErrorCondition, LinkFault
from core.errors import (
    EngineError,
    Forbidden,
    Inequivalent,
    Invalid,
    LimitReached,
    Locked,
    NotFound,
    PreconditionFailed,
    ResourceDeleted,
)

CONDITIONS: Mapping[type[EngineError], ErrorCondition] = {
    NotFound: ErrorCondition.NOT_FOUND,
    Locked: ErrorCondition.RESOURCE_LOCKED,
    Inequivalent: ErrorCondition.PRECONDITION_FAILED,
    PreconditionFailed: ErrorCondition.PRECONDITION_FAILED,
    Invalid: ErrorCondition.INVALID_FIELD,
    Forbidden: ErrorCondition.UNAUTHORIZED_ACCESS,
    LimitReached: ErrorCondition.RESOURCE_LIMIT_EXCEEDED,
    ResourceDeleted: ErrorCondition.RESOURCE_DELETED,
}

DESCRIPTION_BYTES_MAX = 400
"""Every peer takes frames of 512 bytes [2.4.1]. Frame header, performative, handle, condition and the
constructors of all of them stay under 110."""


def link_fault(error: EngineError) -> LinkFault:
    """The detach that tells a peer about an engine error."""
    return LinkFault(CONDITIONS[type(error)], description(error))


def description(error: EngineError) -> str:
    """The error's text, cut so that a frame with it fits every peer."""
    encoded = str(error).encode()
    if len(encoded) <= DESCRIPTION_BYTES_MAX:
        return str(error)
    return encoded[: DESCRIPTION_BYTES_MAX - 3].decode(errors="ignore") + "…"
