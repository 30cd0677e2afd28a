"""The only table from engine errors to AMQP 1.0 error conditions [2.8.15].

It is total: every kind of engine error has an entry, so an engine error never becomes an internal error by
accident.
"""

from collections.abc import Mapping

from amqp10.errors import ErrorCondition, LinkFault, cut
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
    StillGoing,
)

CONDITIONS: Mapping[type[EngineError], ErrorCondition] = {
    NotFound: ErrorCondition.NOT_FOUND,
    Locked: ErrorCondition.RESOURCE_LOCKED,
    Inequivalent: ErrorCondition.PRECONDITION_FAILED,
    PreconditionFailed: ErrorCondition.PRECONDITION_FAILED,
    StillGoing: ErrorCondition.PRECONDITION_FAILED,
    Invalid: ErrorCondition.INVALID_FIELD,
    Forbidden: ErrorCondition.UNAUTHORIZED_ACCESS,
    LimitReached: ErrorCondition.RESOURCE_LIMIT_EXCEEDED,
    ResourceDeleted: ErrorCondition.RESOURCE_DELETED,
}


def link_fault(error: EngineError) -> LinkFault:
    """The link fault that reports an engine error to the peer."""
    return LinkFault(CONDITIONS[type(error)], cut(str(error)))
