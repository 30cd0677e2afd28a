"""Messages that consumers returned, in the order of their positions.

They all come before the messages that are still in the backing. Consumers that were served in turn return positions
that interleave, so the stretches are merged: they are kept in a heap by their first position, and a stretch is taken
only up to where the next one begins.

A message is barred for consumers that called it undeliverable. There is one heap for each set of barred consumers
(rarely more than one or two), so that a consumer finds its next message without a search through messages that are
barred for it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from operator import itemgetter

from core.engine.ready.stretch import Stretch

Heap = list[tuple[int, Stretch]]

JOINED_MAX = 256
"""The most messages joined into one stretch, because joining copies the positions joined so far. It is the largest
queue grant of front ends."""

NOBODY: frozenset[object] = frozenset()


class Returned:
    """The returned messages of one queue."""

    __slots__ = ("_heaps", "bytes", "count")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        """Bytes of their entries that are in memory."""
        self._heaps: dict[frozenset[object], Heap] = {}

    @property
    def has_barred(self) -> bool:
        """Whether some message is barred for a consumer."""
        return len(self._heaps) > 1 or (self.count > 0 and NOBODY not in self._heaps)

    @property
    def head_sequence(self) -> int | None:
        """The position of the first message, barred or not; None if there is none."""
        return min((heap[0][0] for heap in self._heaps.values()), default=None)

    @property
    def head_expires_at(self) -> float | None:
        """When the first message, barred or not, expires (wall-clock seconds); None if never, and if there is none."""
        _, head = min((heap[0] for heap in self._heaps.values()), default=(0, None), key=itemgetter(0))
        return None if head is None else head.expires_at

    def stretches(self) -> Iterator[Stretch]:
        """All stretches, in no order."""
        return (stretch for heap in self._heaps.values() for _, stretch in heap)

    def paged_out(self) -> None:
        """Some stretches were paged out: count the bytes again."""
        self.bytes = sum(sum(map(len, stretch.entries)) for stretch in self.stretches())

    def add(self, stretch: Stretch) -> None:
        """Add returned messages at their positions."""
        heappush(self._heaps.setdefault(stretch.barred, []), (stretch.sequences[0], stretch))
        self.count += len(stretch)
        self.bytes += sum(map(len, stretch.entries))

    def fetch(self, n: int) -> Stretch | None:
        """Take up to ``n`` of the first messages that are alike. Only while not ``has_barred``."""
        heap = self._heaps.get(NOBODY)
        return self._fetch(heap, n) if heap else None

    def fetch_for(self, consumer: object, n: int) -> Stretch | None:
        """Take up to ``n`` of the first messages that are alike and not barred for this consumer."""
        heaps = [heap for barred, heap in self._heaps.items() if consumer not in barred]
        if not heaps:
            return None
        return self._fetch(min(heaps, key=_head), n)

    def lift_bars(self, consumer: object) -> None:
        """The consumer is gone: messages are not barred for it any more."""
        for barred in [barred for barred in self._heaps if consumer in barred]:
            for _, stretch in self._heaps.pop(barred):
                stretch.barred = barred - {consumer}
                heappush(self._heaps.setdefault(stretch.barred, []), (stretch.sequences[0], stretch))

    def take_all(self) -> list[Heap]:
        """Take out all messages, without looking at each; returns them by the consumers that they are barred for."""
        heaps = list(self._heaps.values())
        self._heaps = {}
        self.count = self.bytes = 0
        return heaps

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
    """Take up to ``n`` more messages from the head of the heap, while they are like the stretch."""
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
