"""Time that things stand still, added up exactly and without a clock of its own.

A :class:`StandingTime` is asked by whoever shows it and told by whoever sees something stop or go on, with the time of
the turn that is at hand. It does not know what stands still: the sum over any number of like things is the integral of
how many there are. So nothing is kept for each of them, and the sum does not go down when one is gone.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class StandingTime:
    """Seconds that like things have stood still, those that still do included. Times are monotonic."""

    __slots__ = ("_counted_until", "_seconds", "count")

    def __init__(self) -> None:
        self.count = 0
        """Things that stand still now."""
        self._seconds = 0.0
        self._counted_until = 0.0

    def begin(self, now: float) -> None:
        """One more stands still."""
        self._count(now)
        self.count += 1

    def end(self, now: float) -> None:
        """One of them goes on, or is gone."""
        assert self.count > 0
        self._count(now)
        self.count -= 1

    def seconds(self, now: float) -> float:
        """Of all time. Never goes down: who reads may be ahead of the turn that reports next."""
        self._count(now)
        return self._seconds

    def _count(self, now: float) -> None:
        if now > self._counted_until:
            self._seconds += self.count * (now - self._counted_until)
            self._counted_until = now


class StandingTimes(Generic[Key]):
    """The same by what is worth telling apart. Keys are from a closed list: there is no limit here."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: defaultdict[Key, StandingTime] = defaultdict(StandingTime)

    def begin(self, key: Key, now: float) -> None:
        """One more of these stands still."""
        self._times[key].begin(now)

    def end(self, key: Key, now: float) -> None:
        """One of these goes on, or is gone."""
        self._times[key].end(now)

    def seconds(self, now: float) -> dict[Key, float]:
        """Of each key that there ever was."""
        return {key: time.seconds(now) for key, time in self._times.items()}
