"""q3 of a variable queue: betas and gammas that are next to be read, and what was read of them.

Bodies are read some hundred at a time, when somebody fetches: a read for each would cost a system call each. What was
read and not fetched yet stays in front, in memory, and still counts as q3.
"""

from collections.abc import Iterator, Sequence

from core.engine.residency import Paging
from core.engine.stretch import Stretch
from core.engine.variable_betas import Betas, DiskRun, Unplaced, between, next_boundary
from core.store.places import SEGMENT_BITS, StoredRun
from core.store.queue_index import QueueIndex


class Q3:
    """A list of runs on disk, oldest first, that can be fetched."""

    __slots__ = ("_ahead", "_index", "_paging", "ahead_bytes", "betas")

    def __init__(self, index: QueueIndex, paging: Paging) -> None:
        self.betas = Betas()
        """Those whose bodies are on disk only."""
        self.ahead_bytes = 0
        """Bytes of what was read and not fetched."""
        self._index = index
        self._paging = paging
        self._ahead: Stretch | None = None

    @property
    def ahead(self) -> int:
        """Messages that were read and not fetched."""
        return len(self._ahead) if self._ahead else 0

    @property
    def count(self) -> int:
        """All messages."""
        return self.betas.count + (len(self._ahead) if self._ahead else 0)

    @property
    def first(self) -> int:
        """Sequence number of the oldest message; there has to be one."""
        return self._ahead.sequences[0] if self._ahead else self.betas.head.first

    @property
    def head_expires_at(self) -> float | None:
        """Of the oldest message; there has to be one."""
        return self._ahead.expires_at if self._ahead else self.betas.head.expires_at

    def runs(self) -> Iterator[DiskRun]:
        """All messages, run by run."""
        if self._ahead is not None:
            yield unplaced(self._ahead)
        yield from self.betas

    def prepend(self, run: DiskRun) -> None:
        """Older messages than all others, which cannot come once something was read."""
        assert self._ahead is None, "what was read is the oldest"
        self.betas.prepend(run)

    def fetch(self, n: int) -> Stretch:
        """Take the oldest messages, ``n`` (at least 1) at most, as far as they are alike. There has to be one."""
        stretch = self._ahead or self._read()
        if n < len(stretch):
            self._ahead = stretch.part(n, len(stretch))
            stretch = stretch.part(0, n)
        else:
            self._ahead = None
        self.ahead_bytes -= sum(map(len, stretch.entries))
        return stretch

    def forget_ahead(self) -> None:
        """Let go of what was read: nobody comes for it."""
        if self._ahead is not None:
            self.betas.prepend(unplaced(self._ahead))
            self._ahead = None
            self.ahead_bytes = 0

    def clear(self) -> None:
        """Drop all messages."""
        self.betas.clear()
        self._ahead = None
        self.ahead_bytes = 0

    def _read(self) -> Stretch:
        """The bodies of the first messages."""
        betas = self.betas
        if isinstance(betas.head, Unplaced):
            self._place_head()
        head = betas.head
        assert isinstance(head, StoredRun)
        run = betas.take_first(_readable(head.sizes, self._paging))
        assert isinstance(run, StoredRun)
        entries = self._index.read(run)
        self.ahead_bytes = sum(map(len, entries))
        return Stretch(
            run.sequences,
            entries,
            run.attributes,
            first_acquirer=not run.redelivered,
            expires_at=run.expires_at,
            route=run.route,
            stored=True,
        )

    def _place_head(self) -> None:
        """Find out where the bodies are of all runs in the first one's segment."""
        betas = self.betas
        before = betas.count
        numbers = betas.take_segment()
        for run in reversed(between(self._index.load(numbers.start >> SEGMENT_BITS), numbers)):
            betas.prepend(run)
        assert betas.count == before, f"{before - betas.count} messages of {numbers} are not in the index"

    def load_next(self, start: int, end: int) -> list[StoredRun]:
        """Append what is live in the first segment between these numbers in which something is. Returns that."""
        runs: list[StoredRun] = []
        while not runs:
            assert start < end, "messages are not in the index"
            boundary = next_boundary(start)
            if (segment := start >> SEGMENT_BITS) in self._index.segments:
                runs = between(self._index.load(segment), range(start, min(boundary, end)))
            start = boundary
        for run in runs:
            self.betas.append(run)
        return runs


def unplaced(stretch: Stretch) -> Unplaced:
    """Consecutive messages as a run on disk."""
    return Unplaced(
        stretch.sequences[0],
        len(stretch.sequences),
        stretch.attributes,
        stretch.expires_at,
        stretch.route,
    )


def _readable(sizes: Sequence[int], paging: Paging) -> int:
    """How many bodies of these sizes to read in one go; at least one."""
    total = 0
    for count, size in enumerate(sizes[: paging.read_messages]):
        total += size
        if total > paging.read_bytes:
            return max(1, count)
    return min(len(sizes), paging.read_messages)
