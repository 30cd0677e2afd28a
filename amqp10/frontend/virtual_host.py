"""The virtual host that a client asks for, in the hostname of its open [2.7.1], and whether it may use it. There is
one."""

from amqp10.errors import ConnectionFault, ErrorCondition
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
        return None if why is None else ConnectionFault(ErrorCondition.UNAUTHORIZED_ACCESS, why)
    text = f"there is no virtual host {wanted!r}; this broker has {VIRTUAL_HOST!r}"
    return ConnectionFault(ErrorCondition.NOT_FOUND, text)
