"""The virtual host that a client asks for, in the hostname of its open [2.7.1], and whether it may use it. And the
limits of its user on connections and sessions."""

from amqp10.errors import ConnectionFault, ErrorCondition, SessionFault, cut
from amqp10.frontend.conditions import CONDITIONS
from amqp10.protocol.session import Session
from core.access.checked_engine import CheckedEngine
from core.access.entering import VirtualHostsByName, entered
from core.access.rights import Rights
from core.errors import EngineError
from core.virtual_hosts import VIRTUAL_HOST

HOST_PREFIX = "vhost:"
"""A hostname that begins so selects a virtual host; other hostnames only name the machine."""


def wanted_host(hostname: str | None) -> str:
    """Return the virtual host that a hostname selects."""
    given = hostname or ""
    return given.removeprefix(HOST_PREFIX) if given.startswith(HOST_PREFIX) else VIRTUAL_HOST


def enter_host(
    engine: CheckedEngine, hosts: VirtualHostsByName, hostname: str | None, rights: Rights
) -> ConnectionFault | None:
    """Use the virtual host that a client asks for, if its user may, and may have this connection too. Returns what ends
    the connection if not."""
    try:
        engine.enter(*entered(hosts, wanted_host(hostname), rights, operators=True, audit=engine.audit))
    except EngineError as error:
        return ConnectionFault(CONDITIONS[type(error)], cut(str(error)))
    why = engine.connection_refusal()
    return None if why is None else ConnectionFault(ErrorCondition.RESOURCE_LIMIT_EXCEEDED, cut(why))


def leaving_fault(engine: CheckedEngine) -> ConnectionFault | None:
    """What ends an open connection after a change of its user's rights; None if it may go on."""
    if (why := engine.refusal(operators=True)) is None:
        return None
    gone = engine.rights.gone
    return ConnectionFault(ErrorCondition.CONNECTION_FORCED if gone else ErrorCondition.UNAUTHORIZED_ACCESS, cut(why))


def begin_within_limits(session: Session, engine: CheckedEngine) -> None:
    """Answer a begin, and end the session if the user has too many."""
    why = engine.begin_channel()
    session.begin()
    if why is not None:
        session.fail(SessionFault(ErrorCondition.RESOURCE_LIMIT_EXCEEDED, why))
