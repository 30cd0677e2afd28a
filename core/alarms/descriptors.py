"""File descriptors: how sockets and files share them, and the notice that connections are running out.

Sockets come first: a connection that is refused hurts more than a file that must be opened again. Files get a tenth,
and what the sockets do not use.
"""

from core.alarms.registry import AlarmRegistry

RESERVED = 64
"""Descriptors that neither connections nor the store's files may use: 32 for connections being refused, the others for
listeners, the event loop's own, the log and the spare."""
FILES_MIN = 8
"""The store needs so many at once whatever the sockets do: one that is written for each lane, and some to be read."""


def sockets_allowed(total_limit: int) -> int:
    """How many of all descriptors may be sockets: nine tenths, less two."""
    return max(0, total_limit * 9 // 10 - 2)


def files_allowed(total_limit: int, sockets_used: int) -> int:
    """How many files may be open beside so many sockets. It shrinks as they grow."""
    return max(FILES_MIN, total_limit - RESERVED - sockets_used)


class DescriptorNotice:
    """How near the broker is to refusing connections."""

    def __init__(self, registry: AlarmRegistry, *, share: float) -> None:
        self._registry = registry
        self._share = share

    def sample(self, *, sockets_used: int, sockets_limit: int) -> None:
        """So many connections there are, of so many that are possible."""
        self._registry.measured("descriptors", {"limit": sockets_limit, "used": sockets_used})
        cause = f"{sockets_used} of {sockets_limit} possible connections are in use"
        self._registry.notice("descriptors", sockets_used > self._share * sockets_limit, cause)
