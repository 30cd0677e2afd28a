"""What a variable queue has handed out and is not settled: counts, and its paging.

It stays in memory until it is settled, with what came back and waits to be handed out again, unless it is paged out.
The stretches themselves are the queue's; counts are enough to know how much memory they take.
"""

from collections.abc import Iterable, Iterator, Sequence

from core.engine.stretch import Stretch
from core.message import Portion, Run
from core.store.queue_index import QueueIndex


class HandedOut:
    """Messages on their way. ``taken`` and ``settled`` only grow."""

    __slots__ = ("_index", "bytes", "on_disk", "paged", "settled", "taken")

    def __init__(self, index: QueueIndex) -> None:
        self._index = index
        self.taken = 0
        """Ever handed out by the backing. What comes back and is handed out again does not count again."""
        self.settled = 0
        self.paged = 0
        """Not settled, and not in memory."""
        self.on_disk = 0
        """Not settled, and on disk: in memory too or not."""
        self.bytes = 0
        """Of what is in memory. Messages leave it with their mean size: adding them up would cost a fifth of the way of
        a message that never sees the disk. Exact when nothing is left."""

    @property
    def in_ram(self) -> int:
        """Messages in memory."""
        return self.taken - self.settled - self.paged

    def take(self, stretch: Stretch, count: int, size: int) -> None:
        """So many messages and bytes are handed out."""
        self.taken += count
        self.bytes += size
        if stretch.stored:
            self.on_disk += count

    def settle(self, stretch: Stretch) -> None:
        """They are gone for good."""
        count = len(stretch.sequences)
        if stretch.stored:
            self.on_disk -= count
            self._index.settle(stretch.sequences)
        if stretch.paged:
            self.paged -= count
        else:
            self.bytes -= self.bytes * count // (self.taken - self.settled - self.paged)
        self.settled += count

    def page_out(self, stretches: Iterable[Stretch], wanted: int) -> int:
        """Empty stretches of ``wanted`` messages together, or of some more. Returns how many.

        The largest sequence numbers first: they have waited for the shortest time, so they will wait longest.
        """
        in_memory = [stretch for stretch in stretches if not stretch.paged]
        in_memory.sort(key=_last_sequence, reverse=True)
        paged = 0
        for stretch in in_memory:
            if paged >= wanted:
                break
            self._page_out(stretch)
            paged += len(stretch)
        return paged

    def _page_out(self, stretch: Stretch) -> None:
        count = len(stretch)
        if not stretch.stored:
            for start, stop in _consecutive(stretch.sequences):
                write(self._index, stretch, start, stop)
            stretch.stored = True
            self.on_disk += count
        self.bytes -= self.bytes * count // self.in_ram
        self.paged += count
        stretch.entries = []
        stretch.paged = True

    def restore(self, stretch: Stretch) -> None:
        """Read a stretch back that was paged out."""
        assert stretch.paged
        stretch.entries = self._index.read_sequences(stretch.sequences)
        stretch.paged = False
        self.paged -= len(stretch)
        self.bytes += sum(map(len, stretch.entries))


def write(index: QueueIndex, stretch: Stretch, start: int, stop: int) -> int:
    """Put consecutive messages on disk that are in memory only. Returns where in their file they begin."""
    run = Run(0, stretch.entries, stretch.attributes)
    _, at = index.publish(stretch.sequences[start], Portion(run, start, stop, stretch.expires_at, stretch.route))
    return at


def _last_sequence(stretch: Stretch) -> int:
    return stretch.sequences[-1]


def _consecutive(sequences: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where runs of consecutive numbers start and stop in ascending ones."""
    start = 0
    for at in range(1, len(sequences)):
        if sequences[at] != sequences[at - 1] + 1:
            yield start, at
            start = at
    yield start, len(sequences)
