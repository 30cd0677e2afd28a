"""The only table from engine errors to AMQP 1.0 error conditions [2.8.15].

It is total: every kind of engine error has an entry, so an engine error never becomes an internal error by
accident.
"""

from collections.abc import Mapping

from amqp10.errors import AmqpError, ErrorCondition, LinkFault, cut
from amqp10.protocol.leader import LEADER_LOST
from amqp10.wire.messaging import ACCEPTED, RELEASED, DeliveryState, Modified
from core.errors import (
    EngineError,
    Forbidden,
    HomeLost,
    Inequivalent,
    Invalid,
    LimitReached,
    Locked,
    NotFound,
    PreconditionFailed,
    ResourceDeleted,
    StillGoing,
)
from core.flow_facts import Settled

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
    HomeLost: ErrorCondition.DETACH_FORCED,
}


UNCERTAIN = Modified(delivery_failed=True)
"""The answer to a message that a queue may have or not: a delivery of it was attempted, and failed [3.4.5]."""


def link_fault(error: EngineError) -> LinkFault:
    """The link fault that reports an engine error to the peer."""
    info = LEADER_LOST if isinstance(error, HomeLost) else None
    return LinkFault(CONDITIONS[type(error)], cut(str(error)), info)


def fault_of(error: EngineError | AmqpError) -> AmqpError:
    """The link fault for the error that refused an attach."""
    return link_fault(error) if isinstance(error, EngineError) else error


def settled_as(state: DeliveryState) -> Settled:
    """The broker's answer, for flow events."""
    if state is ACCEPTED:
        return Settled.ACCEPTED
    if state is RELEASED:
        return Settled.RELEASED
    return Settled.MODIFIED if state is UNCERTAIN else Settled.REJECTED
