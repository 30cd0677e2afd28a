"""A window of message ids: what was executed, and what is being executed. Sans-IO; time is handed in.

A message comes a second time when its sender or the broker could not know that it had arrived. Within the window the
second one is known by its id. The window is bounded in count and in time, and both bounds have names in the options:
``duplicates_max`` and ``duplicates_kept_s``. It survives a reconnect, not a restart of the process.
"""

from collections import OrderedDict
from enum import Enum


class Seen(Enum):
    """What the window knows about an id."""

    NEW = "new"
    RUNNING = "running"
    DONE = "done"


class DuplicateWindow:
    """Ids in the order in which they were done. What is running is kept as long as it runs, and counts too."""

    __slots__ = ("_done", "_ids_max", "_kept_s", "_running")

    def __init__(self, *, ids_max: int, kept_s: float) -> None:
        self._ids_max = ids_max
        self._kept_s = kept_s
        self._running: set[bytes] = set()
        self._done: OrderedDict[bytes, float] = OrderedDict()
        """When each was done; in that order. In a plain dict the search for the first one passes over the places of all
        that were deleted before it: with 100,000 ids that is longer than a call takes."""

    def __len__(self) -> int:
        return len(self._running) + len(self._done)

    def look(self, identity: bytes, now: float) -> Seen:
        """What is known about an id at this time, in seconds."""
        if identity in self._running:
            return Seen.RUNNING
        done = self._done.get(identity)
        return Seen.NEW if done is None or now - done >= self._kept_s else Seen.DONE

    def begin(self, identity: bytes) -> None:
        """The command is being executed."""
        self._done.pop(identity, None)
        self._running.add(identity)

    def end(self, identity: bytes, now: float) -> None:
        """It was executed, at this time. Times do not go back."""
        self._running.discard(identity)
        self._done.pop(identity, None)
        self._done[identity] = now
        self._forget(now)

    def _forget(self, now: float) -> None:
        done, room = self._done, self._ids_max - len(self._running)
        while done:
            oldest = next(iter(done))
            if len(done) <= room and now - done[oldest] < self._kept_s:
                return
            del done[oldest]
