"""The time that things such as session windows or sockets are blocked, added up exactly and without a clock of its own.

The code that sees a thing become blocked or unblocked reports it, with the time of its turn; a reader asks for the sum.
A :class:`BlockedTime` does not know which thing is blocked: the sum over any number of like things is the integral of
how many are blocked. So nothing is kept for each of them, a reading takes the same time for any number of them, and the
sum does not go down when one is gone. All blocked seconds of the broker are counted here: those of stalls, of parties
without stage credit, of session windows and of sockets, and how long alarms are on.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class BlockedTime:
    """Seconds that like things have been blocked, those that still are included. Times are monotonic, in seconds."""

    __slots__ = ("_counted_until", "_seconds", "_unblocked", "count")

    def __init__(self) -> None:
        self.count = 0
        """Things that are blocked now."""
        self._seconds = 0.0
        self._counted_until = 0.0
        self._unblocked = 0
        """Things that were unblocked since the last report with a time."""

    def begin(self, now: float) -> None:
        """Count one more thing that is blocked."""
        self._count(now)
        self.count += 1

    def end(self, now: float) -> None:
        """Count one thing less: it is not blocked any more, or is gone."""
        assert self.count > 0
        self._count(now)
        self.count -= 1

    def unblocked(self) -> None:
        """Count one thing less, at the time of the next report or reading: the reporter does not know the time."""
        assert self.count > 0
        self.count -= 1
        self._unblocked += 1

    def seconds(self, now: float) -> float:
        """The seconds so far. They never go down: a reader's ``now`` may be ahead of the turn that reports next."""
        self._count(now)
        return self._seconds

    def _count(self, now: float) -> None:
        if now > self._counted_until:
            self._seconds += (self.count + self._unblocked) * (now - self._counted_until)
            self._counted_until = now
        self._unblocked = 0


class BlockedTimes(Generic[Key]):
    """A blocked time for each key. Keys must be from a closed list: their number is not limited here."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: defaultdict[Key, BlockedTime] = defaultdict(BlockedTime)

    def of(self, key: Key) -> BlockedTime:
        """The blocked time of one key."""
        return self._times[key]

    def begin(self, key: Key, now: float) -> None:
        """Count one more thing of this key that is blocked."""
        self._times[key].begin(now)

    def end(self, key: Key, now: float) -> None:
        """Count one thing of this key less: it is not blocked any more, or is gone."""
        self._times[key].end(now)

    def seconds(self, now: float) -> dict[Key, float]:
        """The seconds of each key that was ever used."""
        return {key: time.seconds(now) for key, time in self._times.items()}

    def counts(self) -> dict[Key, int]:
        """How many things of each key that was ever used are blocked now."""
        return {key: time.count for key, time in self._times.items()}
