"""The deliveries of one consumer that are not settled, by delivery number.

Delivery numbers count up without gaps, so what is kept is a list of stretches and the number each begins
with. A range that is settled is intersected with what exists by two bisections; its size does not matter.
Most often it is the front of the list.

Invariants: the stretches are in ascending order, none is empty, and they do not overlap. ``count`` is their
total.
"""

from bisect import bisect_right
from collections.abc import Sequence

from core.engine.stretch import Stretch

STRETCH_ENTRIES_MAX = 128
"""Single deliveries that are alike share a stretch up to here: 70 bytes each instead of 400. Settling
them one by one cuts the front off each time, which copies 1 KiB at most."""


class Unsettled:
    """Outstanding deliveries, in runs."""

    __slots__ = ("_firsts", "_stretches", "count")

    def __init__(self) -> None:
        self.count = 0
        self._firsts: list[int] = []
        self._stretches: list[Stretch] = []

    def append(self, first: int, stretch: Stretch) -> None:
        """Deliveries with the numbers from ``first`` up, all beyond what was appended before."""
        self.count += len(stretch)
        if self._stretches and len(stretch) < STRETCH_ENTRIES_MAX:
            last = self._stretches[-1]
            adjoins = self._firsts[-1] + len(last) == first
            if adjoins and len(last) + len(stretch) <= STRETCH_ENTRIES_MAX and last.like(stretch):
                last.join(stretch)
                return
        self._firsts.append(first)
        self._stretches.append(stretch)

    def remove(self, first: int, last: int) -> list[Stretch]:
        """Take out the deliveries in the range (both inclusive) that are outstanding, in ascending order."""
        low, high = self._touched(first, last)
        if low >= high:
            return []
        removed = self._stretches[low:high]
        kept: list[tuple[int, Stretch]] = []
        tail_first = self._firsts[high - 1]
        tail = removed[-1]
        beyond = last + 1 - tail_first
        if beyond < len(tail):
            kept.append((last + 1, tail.part(beyond, len(tail))))
            removed[-1] = tail.part(0, beyond)
        head_first = self._firsts[low]
        if head_first < first:
            head = removed[0]
            kept.insert(0, (head_first, head.part(0, first - head_first)))
            removed[0] = head.part(first - head_first, len(head))
        self._firsts[low:high] = [number for number, _ in kept]
        self._stretches[low:high] = [stretch for _, stretch in kept]
        if len(removed) == 1:
            self.count -= len(removed[0])
        elif len(removed) <= len(self._stretches):
            self.count -= sum(map(len, removed))
        else:  # what is left is fewer to count
            self.count = sum(map(len, self._stretches))
        return removed

    def numbers(self, below: int) -> list[tuple[int, int]]:
        """The outstanding delivery numbers below this one, as ranges (both inclusive) that do not adjoin."""
        ranges: list[tuple[int, int]] = []
        for first, stretch in zip(self._firsts, self._stretches, strict=True):
            if first >= below:
                break
            last = min(below, first + len(stretch)) - 1
            if ranges and ranges[-1][1] + 1 == first:
                ranges[-1] = (ranges[-1][0], last)
            else:
                ranges.append((first, last))
        return ranges

    def stretches(self) -> Sequence[Stretch]:
        """What is outstanding, in ascending order of delivery numbers; to be looked at only."""
        return self._stretches

    def remove_all(self) -> list[Stretch]:
        """Take out everything, in ascending order of delivery numbers."""
        removed = self._stretches
        self._stretches = []
        self._firsts = []
        self.count = 0
        return removed

    def _touched(self, first: int, last: int) -> tuple[int, int]:
        """The slice of the list whose stretches intersect the range."""
        firsts = self._firsts
        if not firsts or last < first:
            return 0, 0
        low = max(0, bisect_right(firsts, first) - 1)
        if firsts[low] + len(self._stretches[low]) <= first:
            low += 1
        return low, bisect_right(firsts, last, low)
