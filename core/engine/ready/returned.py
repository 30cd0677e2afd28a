"""Messages that consumers returned, in the order of their positions.

They all come before the messages that are still in the backing. Consumers that were served in turn return positions
that interleave, so the batches are merged: they are kept in a heap by their first position, and a batch is taken
only up to where the next one begins.

A message is barred for consumers that called it undeliverable. There is one heap for each set of barred consumers
(rarely more than one or two), so that a consumer finds its next message without a search through messages that are
barred for it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from operator import itemgetter

from core.engine.ready.batch import Batch

Heap = list[tuple[int, Batch]]

JOINED_MAX = 256
"""The most messages joined into one batch, because joining copies the positions joined so far. It is the largest
queue grant of front ends."""

NO_CONSUMER: frozenset[object] = frozenset()


class ReturnedMessages:
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
        return len(self._heaps) > 1 or (self.count > 0 and NO_CONSUMER not in self._heaps)

    @property
    def head_sequence(self) -> int | None:
        """The position of the first message, barred or not; None if there is none."""
        return min((heap[0][0] for heap in self._heaps.values()), default=None)

    @property
    def head_expires_at(self) -> float | None:
        """When the first message, barred or not, expires (wall-clock seconds); None if never, and if there is none."""
        _, head = min((heap[0] for heap in self._heaps.values()), default=(0, None), key=itemgetter(0))
        return None if head is None else head.first_expires_at

    def batches(self) -> Iterator[Batch]:
        """All batches, in no order."""
        return (batch for heap in self._heaps.values() for _, batch in heap)

    def paged_out(self) -> None:
        """Some batches were paged out: count the bytes again."""
        self.bytes = sum(sum(map(len, batch.entries)) for batch in self.batches())

    def add(self, batch: Batch) -> None:
        """Add returned messages at their positions."""
        heappush(self._heaps.setdefault(batch.barred, []), (batch.sequences[0], batch))
        self.count += len(batch)
        self.bytes += sum(map(len, batch.entries))

    def fetch(self, n: int) -> Batch | None:
        """Take up to ``n`` of the first messages that are alike. Only while not ``has_barred``."""
        heap = self._heaps.get(NO_CONSUMER)
        return self._fetch(heap, n) if heap else None

    def fetch_for(self, consumer: object, n: int) -> Batch | None:
        """Take up to ``n`` of the first messages that are alike and not barred for this consumer."""
        heaps = [heap for barred, heap in self._heaps.items() if consumer not in barred]
        if not heaps:
            return None
        return self._fetch(min(heaps, key=_head), n)

    def lift_bars(self, consumer: object) -> None:
        """The consumer is gone: messages are not barred for it any more."""
        for barred in [barred for barred in self._heaps if consumer in barred]:
            for _, batch in self._heaps.pop(barred):
                batch.barred = barred - {consumer}
                heappush(self._heaps.setdefault(batch.barred, []), (batch.sequences[0], batch))

    def take_all(self) -> list[Heap]:
        """Take out all messages, without looking at each; returns them by the consumers that they are barred for."""
        heaps = list(self._heaps.values())
        self._heaps = {}
        self.count = self.bytes = 0
        return heaps

    def _fetch(self, heap: Heap, n: int) -> Batch:
        batch = _take(heap, n)
        self.count -= len(batch)
        for piece in _alike(heap, batch, min(n, JOINED_MAX) - len(batch)):
            batch.join(piece)
            self.count -= len(piece)
        self.bytes -= sum(map(len, batch.entries))
        if not heap:
            del self._heaps[batch.barred]
        return batch


def _alike(heap: Heap, batch: Batch, n: int) -> Iterator[Batch]:
    """Take up to ``n`` more messages from the head of the heap, while they are like the batch."""
    while heap and n > 0 and batch.like(heap[0][1]):
        piece = _take(heap, n)
        n -= len(piece)
        yield piece


def _take(heap: Heap, n: int) -> Batch:
    _, batch = heappop(heap)
    count = min(n, len(batch))
    if heap:
        count = min(count, bisect_left(batch.sequences, heap[0][0]))
    if count < len(batch):
        rest = batch.part(count, len(batch))
        heappush(heap, (rest.sequences[0], rest))
        return batch.part(0, count)
    return batch


def _head(heap: Heap) -> int:
    return heap[0][0]
