"""The virtual host that a client asks for, in the hostname of its open [2.7.1]. There is one."""

from amqp10.errors import ConnectionFault, ErrorCondition

VIRTUAL_HOST = "/"
HOST_PREFIX = "vhost:"
"""A hostname that begins so selects a virtual host; other hostnames only name the machine."""


def host_fault(hostname: str | None) -> ConnectionFault | None:
    """What ends a connection whose open has this hostname; None if it asks for no other virtual host."""
    wanted = (hostname or "").removeprefix(HOST_PREFIX)
    if wanted in (hostname or "", VIRTUAL_HOST):
        return None
    text = f"there is no virtual host {wanted!r}; this broker has {VIRTUAL_HOST!r}"
    return ConnectionFault(ErrorCondition.NOT_FOUND, text)
