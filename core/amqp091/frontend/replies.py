"""The one table from engine errors to AMQP 0.9.1 reply codes [0-9-1 1.8].

It is total: every kind of engine error has an entry, so an engine error never becomes an internal error by accident.
All of them close the channel only.
"""

from collections.abc import Mapping

from core.access.audit import AuditedPeer
from core.access.checked_engine import CheckedEngine
from core.access.entering import VirtualHostsByName, entered
from core.access.rights import Rights
from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ReplyCode
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

REPLY_CODES: Mapping[type[EngineError], ReplyCode] = {
    NotFound: ReplyCode.NOT_FOUND,
    Locked: ReplyCode.RESOURCE_LOCKED,
    Inequivalent: ReplyCode.PRECONDITION_FAILED,
    PreconditionFailed: ReplyCode.PRECONDITION_FAILED,
    StillGoing: ReplyCode.PRECONDITION_FAILED,
    Invalid: ReplyCode.PRECONDITION_FAILED,
    Forbidden: ReplyCode.ACCESS_REFUSED,
    LimitReached: ReplyCode.PRECONDITION_FAILED,
    ResourceDeleted: ReplyCode.NOT_FOUND,
    HomeLost: ReplyCode.NOT_FOUND,
}


def channel_fault(error: EngineError) -> ChannelFault:
    """The channel.close that reports an engine error to a peer."""
    return ChannelFault(REPLY_CODES[type(error)], str(error))


def held_too_long(channel: int) -> ChannelFault:
    """The channel.close for a delivery that was not acknowledged in time, as in RabbitMQ."""
    text = f"delivery acknowledgement on channel {channel} timed out"
    return ChannelFault(ReplyCode.PRECONDITION_FAILED, text)


def host_refusal(hosts: VirtualHostsByName, virtual_host: str, rights: Rights, audit: AuditedPeer | None) -> str | None:
    """Why a user must not open a connection to a virtual host; None when it may. ``rights`` are the user's on any."""
    try:
        found = entered(hosts, virtual_host, rights, operators=False, audit=audit)
    except NotFound:
        return f"vhost {virtual_host} not found"
    except EngineError as error:
        return str(error)
    return CheckedEngine(*found, audit).connection_refusal()


def rights_fault(engine: CheckedEngine) -> Amqp091ConnectionFault | None:
    """The connection.close for a user that may not use the virtual host any more, or whose token has expired, or where
    the virtual host is gone; None if the connection may go on."""
    why = engine.refusal()
    if why is None:
        return None
    forced = engine.rights.expired or engine.rights.gone
    return Amqp091ConnectionFault(ReplyCode.CONNECTION_FORCED if forced else ReplyCode.NOT_ALLOWED, why)
