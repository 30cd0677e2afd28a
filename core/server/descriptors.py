"""File descriptors: how many there are, their division between sockets and files, and a spare one for the listener.

Sockets come first, because refusing a connection is worse than opening a file again. Files get a tenth, and all
descriptors that sockets do not use.

Without a spare one, a full table leaves new connections in the listen queue: the peer believes it is connected and
hears nothing. With one, the listener closes the spare, accepts, closes the connection at once and takes the spare
again.

New connections alone never get that far: a connection is refused earlier if the store might then lack descriptors,
since a store that cannot open a file ends the broker.
"""

import os
import resource
from types import TracebackType

from core.server.connections import REFUSALS_MAX

FILES_MIN = 8
"""The fewest files that the store needs at once: one being written for each lane, and some being read."""
OWN = 56
"""Descriptors that are neither connections nor the store's open files: an idle broker with one listener uses 23. The
others are for more listeners, for the operator's interface, and for the journals and folders that the definitions open
while they sync."""
RESERVED = REFUSALS_MAX + FILES_MIN + OWN
"""Descriptors that no connection that is served may use."""


def sockets_allowed(total_limit: int) -> int:
    """Return how many of all descriptors may be sockets: nine tenths, less two."""
    return max(0, total_limit * 9 // 10 - 2)


def files_allowed(total_limit: int, sockets_used: int) -> int:
    """Return how many files may be open beside ``sockets_used`` sockets."""
    return max(FILES_MIN, total_limit - REFUSALS_MAX - OWN - sockets_used)


def raise_limit() -> int:
    """Raise the soft limit on open files to the hard one. Returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return total_limit()


def total_limit() -> int:
    """The soft limit on open files."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def total_used() -> int:
    """How many descriptors are open now. Where the kernel does not count them, as Linux before 6.2, a directory is
    listed, so this is not for hot paths."""
    there = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    counted = os.stat(there).st_size if there.startswith("/proc") else 0
    return counted or len(os.listdir(there))


def sockets_limit(connections_max: int | None) -> int:
    """How many connections may be served: the configured number, or fewer if the descriptors do not suffice."""
    room = max(1, min(sockets_allowed(total_limit()), total_limit() - RESERVED))
    return room if connections_max is None else min(room, connections_max)


def too_few_left(descriptor: int) -> bool:
    """Whether the store may lack descriptors if a connection keeps this one, which it was just given.

    The kernel gives the lowest free descriptor, so all below it are in use and need not be counted.
    """
    return descriptor >= total_limit() - FILES_MIN


class Spare:
    """A descriptor held in reserve. Inside its context (``with``) it is closed and so can be used for something
    else."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._take()

    def _take(self) -> None:
        try:
            self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = None  # another open took the descriptor; the next exit tries again

    def close(self) -> None:
        """Close it for good."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> None:
        self.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._take()
