"""The virtual host that a client asks for, in the hostname of its open [2.7.1], and whether it may use it. There is
one. And the limits of its user on connections and sessions."""

from amqp10.errors import ConnectionFault, ErrorCondition, SessionFault
from amqp10.protocol.session import Session
from core.access.checked_engine import CheckedEngine

VIRTUAL_HOST = "/"
HOST_PREFIX = "vhost:"
"""A hostname that begins so selects a virtual host; other hostnames only name the machine."""


def host_fault(hostname: str | None, engine: CheckedEngine) -> ConnectionFault | None:
    """What ends a connection whose open has this hostname, for the user whose rights the engine has; None if it may
    go on."""
    wanted = (hostname or "").removeprefix(HOST_PREFIX)
    if wanted in (hostname or "", VIRTUAL_HOST):
        why = None if engine.rights.operates else engine.refusal()
        if why is not None:
            return ConnectionFault(ErrorCondition.UNAUTHORIZED_ACCESS, why)
        why = engine.connection_refusal()
        return None if why is None else ConnectionFault(ErrorCondition.RESOURCE_LIMIT_EXCEEDED, why)
    text = f"there is no virtual host {wanted!r}; this broker has {VIRTUAL_HOST!r}"
    return ConnectionFault(ErrorCondition.NOT_FOUND, text)


def begin_within_limits(session: Session, engine: CheckedEngine) -> None:
    """Answer a begin, and end the session if the user has too many."""
    why = engine.begin_channel()
    session.begin()
    if why is not None:
        session.fail(SessionFault(ErrorCondition.RESOURCE_LIMIT_EXCEEDED, why))
