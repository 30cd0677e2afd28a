"""When numbered things came, approximately: no time is kept for each of them; a list of marks is kept instead.

A mark is a number and a time. The thing with this number, and all up to the next mark, came at this time or a little
later. A queue numbers its messages and sets a mark at most every ``GRAIN_S`` seconds; a session numbers its deliveries
and is looked at less often. Marks are thinned from time to time, older ones more than newer ones. So an age is never
too low; it is too high by at most the time between two marks or ``AGE_SHARE`` of the age, whichever is more. The first
mark also stands for all things before it.

Bound: after thinning, each mark is older than the next but one by more than ``AGE_SHARE``, and at most 10 marks are
younger than ``GRAIN_S`` / ``AGE_SHARE`` (1 second). So 249 marks are left after a day and 421 after ten years, at 16
bytes each. Up to twice as many gather before the next thinning.
"""

from array import array
from bisect import bisect_right

GRAIN_S = 0.1
"""Seconds. Operators need no finer age, and ten marks a second cost a busy queue nothing."""
AGE_SHARE = 0.1
"""A relative error. Operators need to tell a minute from an hour, not more."""
THINNED_FROM = 64
"""Fewer marks are not thinned: they take 1 KiB, and a busy queue sets them in six seconds."""


class Times:
    """The times of numbered things. Numbers ascend; times are monotonic seconds."""

    __slots__ = ("_numbers", "_thin_at", "_times", "due")

    def __init__(self) -> None:
        self.due = 0.0
        """When the next mark is to be set."""
        self._numbers = array("Q")
        self._times = array("d")
        self._thin_at = THINNED_FROM

    def __len__(self) -> int:
        return len(self._times)

    def mark(self, number: int, now: float) -> None:
        """Record that things from this number up come now, or later."""
        self._numbers.append(number)
        self._times.append(now)
        self.due = now + GRAIN_S
        if len(self._times) >= self._thin_at:
            self._thin(now)
            self._thin_at = max(THINNED_FROM, 2 * len(self._times))

    def age(self, number: int | None, now: float) -> float | None:
        """Return the seconds since the thing with this number came; None if ``number`` is None and before the first
        mark."""
        if number is None or not self._times:
            return None
        return max(0.0, now - self._times[max(0, bisect_right(self._numbers, number) - 1)])

    def clear(self) -> None:
        """Forget all marks: no thing is left that came before now."""
        del self._numbers[:], self._times[:]
        self._thin_at = THINNED_FROM

    def _thin(self, now: float) -> None:
        """Drop each mark whose things the mark before it can stand for: the time from that mark to the last of these
        things is at most ``AGE_SHARE`` of the thing's age."""
        times = self._times
        kept = [0]
        for place in range(1, len(times) - 1):
            if times[place + 1] - times[kept[-1]] > AGE_SHARE * (now - times[place + 1]):
                kept.append(place)
        kept.append(len(times) - 1)
        self._numbers = array("Q", [self._numbers[place] for place in kept])
        self._times = array("d", [times[place] for place in kept])
