"""File descriptors: their division between sockets and files, and the notice that few connections are left.

Sockets come first, because refusing a connection is worse than opening a file again. Files get a tenth, and all
descriptors that sockets do not use.
"""

from core.alarms.registry import AlarmRegistry

RESERVED = 64
"""Descriptors that neither connections nor the store's files may use: 32 for connections being refused, the others for
listeners, the event loop's own, the log and the spare."""
FILES_MIN = 8
"""The fewest files that the store needs at once: one being written for each lane, and some being read."""


def sockets_allowed(total_limit: int) -> int:
    """Return how many of all descriptors may be sockets: nine tenths, less two."""
    return max(0, total_limit * 9 // 10 - 2)


def files_allowed(total_limit: int, sockets_used: int) -> int:
    """Return how many files may be open beside ``sockets_used`` sockets."""
    return max(FILES_MIN, total_limit - RESERVED - sockets_used)


class DescriptorNotice:
    """The notice that the broker will soon have to refuse connections."""

    def __init__(self, registry: AlarmRegistry, *, share: float) -> None:
        self._registry = registry
        self._share = share

    def sample(self, *, sockets_used: int, sockets_limit: int) -> None:
        """Raise or clear the notice, given the connections in use and the most that are possible."""
        self._registry.measured("descriptors", {"limit": sockets_limit, "used": sockets_used})
        cause = f"{sockets_used} of {sockets_limit} possible connections are in use"
        self._registry.notice("descriptors", sockets_used > self._share * sockets_limit, cause)
