"""Messages that came back from consumers, in the order of their positions.

They all stand before anything that is still in the backing. Two consumers that were served in turn give back
positions that interleave, so this is a merge: a heap of stretches by their first position, from which no more
is taken at a time than up to where the next stretch begins.

A message may be barred for the consumers that called it undeliverable. Stretches are kept apart by the set of
consumers that they are barred for (there are rarely more than one or two such sets), so that a consumer finds
its next message without walking over those it must not have.
"""

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from operator import itemgetter

from core.engine.stretch import Stretch

Heap = list[tuple[int, Stretch]]

JOINED_MAX = 256
"""Joining copies the positions joined so far; this bounds it. The largest queue grant that front ends give."""

NOBODY: frozenset[object] = frozenset()


class Returned:
    """The returned messages of one queue."""

    __slots__ = ("_heaps", "bytes", "count")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        """Of their entries, as far as they are in memory."""
        self._heaps: dict[frozenset[object], Heap] = {}

    @property
    def has_barred(self) -> bool:
        """True when some message must not go to every consumer."""
        return len(self._heaps) > 1 or (self.count > 0 and NOBODY not in self._heaps)

    @property
    def head_sequence(self) -> int | None:
        """The position of the first message, whichever consumer may have it; None when there is none."""
        return min((heap[0][0] for heap in self._heaps.values()), default=None)

    @property
    def head_expires_at(self) -> float | None:
        """When the first message expires, whichever consumer may have it; None for never, and when there is none."""
        _, head = min((heap[0] for heap in self._heaps.values()), default=(0, None), key=itemgetter(0))
        return None if head is None else head.expires_at

    def stretches(self) -> Iterator[Stretch]:
        """Everything that is here, in no order."""
        return (stretch for heap in self._heaps.values() for _, stretch in heap)

    def paged_out(self) -> None:
        """Entries of what is here have left the memory: count anew."""
        self.bytes = sum(sum(map(len, stretch.entries)) for stretch in self.stretches())

    def add(self, stretch: Stretch) -> None:
        """Take messages back at their positions."""
        heappush(self._heaps.setdefault(stretch.barred, []), (stretch.sequences[0], stretch))
        self.count += len(stretch)
        self.bytes += sum(map(len, stretch.entries))

    def fetch(self, n: int) -> Stretch | None:
        """The first messages, ``n`` at most and alike. Only for when no message ``has_barred``."""
        heap = self._heaps.get(NOBODY)
        return self._fetch(heap, n) if heap else None

    def fetch_for(self, consumer: object, n: int) -> Stretch | None:
        """The first messages that this consumer may have, ``n`` at most and alike."""
        heaps = [heap for barred, heap in self._heaps.items() if consumer not in barred]
        if not heaps:
            return None
        return self._fetch(min(heaps, key=_head), n)

    def lift_bars(self, consumer: object) -> None:
        """The consumer is gone; so is every bar against it."""
        for barred in [barred for barred in self._heaps if consumer in barred]:
            for _, stretch in self._heaps.pop(barred):
                stretch.barred = barred - {consumer}
                heappush(self._heaps.setdefault(stretch.barred, []), (stretch.sequences[0], stretch))

    def purge(self) -> int:
        """Drop all messages; returns how many."""
        dropped = self.count
        self._heaps.clear()
        self.count = self.bytes = 0
        return dropped

    def _fetch(self, heap: Heap, n: int) -> Stretch:
        stretch = _take(heap, n)
        self.count -= len(stretch)
        for piece in _alike(heap, stretch, min(n, JOINED_MAX) - len(stretch)):
            stretch.join(piece)
            self.count -= len(piece)
        self.bytes -= sum(map(len, stretch.entries))
        if not heap:
            del self._heaps[stretch.barred]
        return stretch


def _alike(heap: Heap, stretch: Stretch, n: int) -> Iterator[Stretch]:
    """More from the heap's head, up to ``n`` messages, as long as it is like the stretch."""
    while heap and n > 0 and stretch.like(heap[0][1]):
        piece = _take(heap, n)
        n -= len(piece)
        yield piece


def _take(heap: Heap, n: int) -> Stretch:
    _, stretch = heappop(heap)
    count = min(n, len(stretch))
    if heap:
        count = min(count, bisect_left(stretch.sequences, heap[0][0]))
    if count < len(stretch):
        rest = stretch.part(count, len(stretch))
        heappush(heap, (rest.sequences[0], rest))
        return stretch.part(0, count)
    return stretch


def _head(heap: Heap) -> int:
    return heap[0][0]
