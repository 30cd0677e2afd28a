"""The time that things such as links stand still, added up exactly and without a clock of its own.

The code that sees something stop or go on reports it, with the time of its turn; a reader asks for the sum. A
:class:`StandingTime` does not know which thing stands still: the sum over any number of like things is the integral of
how many there are. So nothing is kept for each of them, and the sum does not go down when one is gone.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class StandingTime:
    """Seconds that like things have stood still, those that still do included. Times are monotonic, in seconds."""

    __slots__ = ("_counted_until", "_seconds", "count")

    def __init__(self) -> None:
        self.count = 0
        """Things that stand still now."""
        self._seconds = 0.0
        self._counted_until = 0.0

    def begin(self, now: float) -> None:
        """Count one more thing that stands still."""
        self._count(now)
        self.count += 1

    def end(self, now: float) -> None:
        """Count one thing less: it goes on, or is gone."""
        assert self.count > 0
        self._count(now)
        self.count -= 1

    def seconds(self, now: float) -> float:
        """The seconds so far. They never go down: a reader's ``now`` may be ahead of the turn that reports next."""
        self._count(now)
        return self._seconds

    def _count(self, now: float) -> None:
        if now > self._counted_until:
            self._seconds += self.count * (now - self._counted_until)
            self._counted_until = now


class StandingTimes(Generic[Key]):
    """A standing time for each key. Keys must be from a closed list: their number is not limited here."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: defaultdict[Key, StandingTime] = defaultdict(StandingTime)

    def begin(self, key: Key, now: float) -> None:
        """Count one more thing of this key that stands still."""
        self._times[key].begin(now)

    def end(self, key: Key, now: float) -> None:
        """Count one thing of this key less: it goes on, or is gone."""
        self._times[key].end(now)

    def seconds(self, now: float) -> dict[Key, float]:
        """The seconds of each key that was ever used."""
        return {key: time.seconds(now) for key, time in self._times.items()}
