"""The messages that a variable queue has handed out and that are not settled: their counts, and their paging.

These messages stay in memory until they are settled or paged out; returned messages that wait for redelivery are among
them. The queue keeps the batches themselves; this module only counts how much memory they take.
"""

from collections.abc import Iterable, Iterator, Sequence

from core.engine.ready.batch import Batch
from core.message import Run, RunPart, part_of
from core.store.queue_index import QueueIndex


class HandedOut:
    """Messages that were handed out. ``taken`` and ``settled`` never decrease."""

    __slots__ = ("_index", "bytes", "on_disk", "paged", "settled", "taken")

    def __init__(self, index: QueueIndex) -> None:
        self._index = index
        self.taken = 0
        """Messages ever handed out by the backing. A redelivery does not count again."""
        self.settled = 0
        self.paged = 0
        """Unsettled messages that are not in memory."""
        self.on_disk = 0
        """Unsettled messages that are on disk, whether in memory too or not."""
        self.bytes = 0
        """Bytes of messages in memory. It decreases by the mean size for each message that leaves, because adding up
        real sizes would add a fifth to the cost of a message that never goes to disk. It is exact when no message is
        left."""

    @property
    def in_ram(self) -> int:
        """How many unsettled messages are in memory."""
        return self.taken - self.settled - self.paged

    def take(self, batch: Batch, count: int, size: int) -> None:
        """Count messages and bytes that are handed out."""
        self.taken += count
        self.bytes += size
        if batch.stored:
            self.on_disk += count

    def settle(self, batch: Batch) -> None:
        """Forget messages that are settled."""
        count = len(batch.sequences)
        if batch.stored:
            self.on_disk -= count
            self._index.settle(batch.sequences)
        if batch.paged:
            self.paged -= count
        else:
            self.bytes -= self.bytes * count // (self.taken - self.settled - self.paged)
        self.settled += count

    def page_out(self, batches: Iterable[Batch], wanted: int) -> int:
        """Page out batches with ``wanted`` messages in all, or slightly more. Returns how many messages were paged
        out.

        The highest sequence numbers are paged out first: they were handed out last, so they will probably be settled
        last.
        """
        in_memory = [batch for batch in batches if not batch.paged]
        in_memory.sort(key=_last_sequence, reverse=True)
        paged = 0
        for batch in in_memory:
            if paged >= wanted:
                break
            self._page_out(batch)
            paged += len(batch)
        return paged

    def _page_out(self, batch: Batch) -> None:
        count = len(batch)
        if not batch.stored:
            for start, stop in _consecutive(batch.sequences):
                write(self._index, batch, start, stop)
            batch.stored = True
            self.on_disk += count
        self.bytes -= self.bytes * count // self.in_ram
        self.paged += count
        batch.entries = []
        batch.paged = True

    def restore(self, batch: Batch) -> None:
        """Read a paged-out batch back."""
        assert batch.paged
        batch.entries = self._index.read_sequences(batch.sequences)
        batch.paged = False
        self.paged -= len(batch)
        self.bytes += sum(map(len, batch.entries))


def write(index: QueueIndex, batch: Batch, start: int, stop: int) -> int:
    """Write consecutive messages that are in memory only to disk. Returns their offset in the file."""
    run = Run(0, batch.entries, batch.attributes, routes=batch.routes)
    _, at = index.publish(batch.sequences[start], RunPart(run, start, stop, part_of(batch.expires_at, start, stop)))
    return at


def _last_sequence(batch: Batch) -> int:
    return batch.sequences[-1]


def _consecutive(sequences: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield start and stop index of each run of consecutive numbers; ``sequences`` is ascending."""
    start = 0
    for at in range(1, len(sequences)):
        if sequences[at] != sequences[at - 1] + 1:
            yield start, at
            start = at
    yield start, len(sequences)
