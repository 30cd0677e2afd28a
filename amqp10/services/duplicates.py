"""A window of message ids: the commands that were executed, and those being executed. Sans-IO; the caller gives times.

A message comes a second time when its sender or the broker could not know that it had arrived. Within the window the
id shows that it is a duplicate. The window is bounded in count and in time, by the options ``duplicates_max`` and
``duplicates_kept_s``. It survives a reconnect, but not a restart of the process.
"""

from collections import OrderedDict
from enum import Enum


class Seen(Enum):
    """What the window knows about an id."""

    NEW = "new"
    RUNNING = "running"
    DONE = "done"


class DuplicateWindow:
    """Ids in the order in which they were done. Ids of running commands are kept while these run, and count too."""

    __slots__ = ("_done", "_ids_max", "_kept_s", "_running")

    def __init__(self, *, ids_max: int, kept_s: float) -> None:
        self._ids_max = ids_max
        self._kept_s = kept_s
        self._running: set[bytes] = set()
        self._done: OrderedDict[bytes, float] = OrderedDict()
        """When each was done, in that order. A plain dict would be slow here: its search for the first key passes over
        the slots of all keys deleted before it, which with 100,000 ids takes longer than a call."""

    def __len__(self) -> int:
        return len(self._running) + len(self._done)

    def look(self, identity: bytes, now: float) -> Seen:
        """The state of an id at this time, in seconds."""
        if identity in self._running:
            return Seen.RUNNING
        done = self._done.get(identity)
        return Seen.NEW if done is None or now - done >= self._kept_s else Seen.DONE

    def begin(self, identity: bytes) -> None:
        """Note that the command with this id is being executed."""
        self._done.pop(identity, None)
        self._running.add(identity)

    def end(self, identity: bytes, now: float) -> None:
        """Note that it was executed at this time. Times must not decrease."""
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
