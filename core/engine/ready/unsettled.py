"""The unsettled deliveries of one consumer, by delivery number.

Delivery numbers ascend without gaps, so a list of batches with the first number of each is enough. A settled range is
found in the list by two bisections, whatever its size. Most often it is the front of the list.

Invariants: the batches are in ascending order, none is empty, and they do not overlap. ``count`` is their
total.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from core.engine.ready.batch import Batch

BATCH_ENTRIES_MAX = 128
"""The most single deliveries that are joined into one batch: 70 bytes each instead of 400. Settling them one by one
removes the front of the batch each time, which copies 1 KiB at most."""


class Unsettled:
    """The unsettled deliveries of one consumer, as batches."""

    __slots__ = ("_batches", "_firsts", "count")

    def __init__(self) -> None:
        self.count = 0
        self._firsts: list[int] = []
        self._batches: list[Batch] = []

    def append(self, first: int, batch: Batch) -> None:
        """Add deliveries with numbers from ``first`` up. They must be higher than all numbers added before."""
        added = len(batch.sequences)
        self.count += added
        if self._batches and added < BATCH_ENTRIES_MAX:
            last = self._batches[-1]
            held = len(last.sequences)
            adjoins = self._firsts[-1] + held == first
            if adjoins and held + added <= BATCH_ENTRIES_MAX and last.like(batch):
                last.join(batch)
                return
        self._firsts.append(first)
        self._batches.append(batch)

    def remove(self, first: int, last: int) -> list[Batch]:
        """Remove and return the unsettled deliveries in the range (both inclusive), in ascending order."""
        if self._firsts and self._firsts[0] == first and first + len(self._batches[0].sequences) == last + 1:
            del self._firsts[0]  # the front, whole: a consumer that settles each delivery as it comes
            self.count -= last + 1 - first
            return [self._batches.pop(0)]
        low, high = self._touched(first, last)
        if low >= high:
            return []
        removed = self._batches[low:high]
        kept: list[tuple[int, Batch]] = []
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
        self._batches[low:high] = [batch for _, batch in kept]
        if len(removed) == 1:
            self.count -= len(removed[0])
        elif len(removed) <= len(self._batches):
            self.count -= sum(map(len, removed))
        else:  # counting the rest is faster
            self.count = sum(map(len, self._batches))
        return removed

    def numbers(self, below: int) -> list[tuple[int, int]]:
        """Return the unsettled delivery numbers below this one, as ranges (both inclusive) that do not adjoin."""
        ranges: list[tuple[int, int]] = []
        for first, batch in zip(self._firsts, self._batches, strict=True):
            if first >= below:
                break
            last = min(below, first + len(batch)) - 1
            if ranges and ranges[-1][1] + 1 == first:
                ranges[-1] = (ranges[-1][0], last)
            else:
                ranges.append((first, last))
        return ranges

    def numbered(self) -> Iterable[tuple[int, Batch]]:
        """The batches, each with the delivery number of its first, in ascending order. The caller must not change
        them."""
        return zip(self._firsts, self._batches, strict=True)

    def numbered_from(self, number: int) -> Iterator[tuple[int, Batch]]:
        """The same, from the batch with this delivery number on, or the next one."""
        low = bisect_right(self._firsts, number) - 1
        if low >= 0 and self._firsts[low] + len(self._batches[low]) <= number:
            low += 1
        low = max(low, 0)
        return zip(islice(self._firsts, low, None), islice(self._batches, low, None), strict=True)

    def batches(self) -> Sequence[Batch]:
        """All unsettled deliveries, in ascending order of delivery numbers. The caller must not change them."""
        return self._batches

    def remove_all(self) -> list[Batch]:
        """Remove and return all deliveries, in ascending order of delivery numbers."""
        removed = self._batches
        self._batches = []
        self._firsts = []
        self.count = 0
        return removed

    def _touched(self, first: int, last: int) -> tuple[int, int]:
        """The slice of the list whose batches intersect the range."""
        firsts = self._firsts
        if not firsts or last < first:
            return 0, 0
        low = max(0, bisect_right(firsts, first) - 1)
        if firsts[low] + len(self._batches[low]) <= first:
            low += 1
        return low, bisect_right(firsts, last, low)
