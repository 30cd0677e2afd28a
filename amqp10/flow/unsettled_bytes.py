"""The bytes that a consumer holds: the sizes of its unsettled deliveries, and how many more it may get.

Link credit counts messages, and the size of a message is known only when its queue has handed it over. So two things
keep a consumer to a bound in bytes: the queue is asked for as many messages of the last ones' size as there is room
for, and what exceeds the bound nevertheless goes back before it is sent. Then the queue is asked for nothing until the
consumer has settled something, because the same messages would come again. A consumer that holds nothing gets one
message, however large.

Sizes are kept in runs of consecutive delivery numbers, so that a number costs eight bytes, and settling any range costs
no more than its length.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence

RUN_MAX = 128
"""Sizes in one run. Settling them one by one copies the rest of the run each time, 1 KiB at most."""
MEAN_FALLS = 0.1
"""The share of a smaller mean in the new one: a mean that is too high costs one more request, one that is too low costs
messages that come in vain."""


class UnsettledBytes:
    """The sizes of one consumer's unsettled deliveries, by delivery number. Sizes are in bytes, without header
    sections.

    Invariants: runs are in ascending order of their numbers, do not overlap, and none is empty. ``held`` and ``count``
    are the totals over all runs.
    """

    __slots__ = ("_firsts", "_mean", "_runs", "count", "full", "held")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[array[int]] = []
        self._mean = 0.0
        self.held = 0
        self.count = 0
        """Deliveries whose sizes are known here."""
        self.full = False
        """Messages went back because there was no room for them, and nothing has been settled since."""

    def delivered(self, first: int, sizes: Sequence[int]) -> None:
        """Add deliveries with numbers from ``first`` up, which are higher than all numbers before."""
        total = sum(sizes)
        mean = total / len(sizes)
        self._mean = max(mean, self._mean + MEAN_FALLS * (mean - self._mean))
        self.held += total
        self.count += len(sizes)
        runs, firsts = self._runs, self._firsts
        if runs and firsts[-1] + len(runs[-1]) == first and len(runs[-1]) + len(sizes) <= RUN_MAX:
            runs[-1].extend(sizes)
            return
        for start in range(0, len(sizes), RUN_MAX):
            firsts.append(first + start)
            runs.append(array("Q", sizes[start : start + RUN_MAX]))

    def gone(self, first: int, last: int) -> None:
        """Forget the deliveries in a range of numbers, both inclusive: they were settled, or go back to their queue.
        Numbers in it that are not known are skipped."""
        firsts, runs = self._firsts, self._runs
        low, high = max(0, bisect_right(firsts, first) - 1), bisect_right(firsts, last)
        kept: list[tuple[int, array[int]]] = []
        for number, run in zip(firsts[low:high], runs[low:high], strict=True):
            begin = min(max(first - number, 0), len(run))
            end = max(begin, min(last + 1 - number, len(run)))
            self.held -= sum(run[begin:end])
            self.count -= end - begin
            kept += [(number, run[:begin])] * (begin > 0) + [(number + end, run[end:])] * (end < len(run))
        firsts[low:high] = [number for number, _ in kept]
        runs[low:high] = [run for _, run in kept]
        self.full = False

    def room(self, most: int) -> int:
        """How many more messages to ask for, with a bound of ``most`` bytes. Until the first has come, one."""
        if self.count and (self.full or self.held >= most):
            return 0
        return max(1, int((most - self.held) / self._mean)) if self._mean else 1

    def excess(self, most: int, waiting: int) -> int:
        """How many of the newest ``waiting`` deliveries have to go back, so that the bound of ``most`` bytes holds. Of
        all that the consumer holds one always stays."""
        over, found, waiting = self.held - most, 0, min(waiting, self.count - 1)
        for run in reversed(self._runs):
            for size in reversed(run):
                if over <= 0 or found >= waiting:
                    return found
                over -= size
                found += 1
        return found
