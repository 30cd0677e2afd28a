"""q3 of a variable queue: the betas and gammas that are fetched next, and bodies of them that were read ahead.

A fetch reads some hundred bodies at once, because a separate read for each would cost a system call each. Bodies that
were read and not fetched yet stay in memory in front of the others, and still count as q3.
"""

from collections.abc import Iterator, Sequence

from core.engine.classic.betas import Betas, Delta, DiskRun, Unplaced, between, next_boundary
from core.engine.classic.residency import Paging
from core.engine.ready.batch import Batch
from core.engine.ready.remains import Objects
from core.store.places import SEGMENT_BITS, StoredRun
from core.store.queue_index import QueueIndex


class Q3:
    """A list of runs on disk, oldest first, from which messages can be fetched."""

    __slots__ = ("_ahead", "_ahead_run", "_index", "_paging", "ahead_bytes", "betas", "lost", "place_reads")

    def __init__(self, index: QueueIndex, paging: Paging) -> None:
        self.betas = Betas()
        """Messages whose bodies are on disk only."""
        self.ahead_bytes = 0
        """Bytes of bodies that were read and not fetched."""
        self.lost = 0
        """Messages that turned out to be lost when they were to be fetched, because damaged records are skipped."""
        self.place_reads = 0
        """How many times the places of betas were looked up."""
        self._index = index
        self._paging = paging
        self._ahead: Batch | None = None
        self._ahead_run: StoredRun | None = None
        """The run from which ``_ahead`` was read. Its rear part is ``_ahead``."""

    @property
    def ahead(self) -> int:
        """How many messages were read and not fetched."""
        return len(self._ahead) if self._ahead else 0

    @property
    def count(self) -> int:
        """How many messages there are in all."""
        return self.betas.count + (len(self._ahead) if self._ahead else 0)

    @property
    def first(self) -> int:
        """The sequence number of the oldest message. The list must not be empty."""
        return self._ahead.sequences[0] if self._ahead else self.betas.head.first

    @property
    def head_expires_at(self) -> float | None:
        """When the oldest message expires; None if never. The list must not be empty."""
        return self._ahead.first_expires_at if self._ahead else self.betas.head.expires_at

    def runs(self) -> Iterator[DiskRun]:
        """Iterate over all messages, run by run."""
        if self._ahead is not None:
            yield self._unread()
        yield from self.betas

    def prepend(self, run: DiskRun) -> None:
        """Add messages older than all others. Not allowed while messages are read ahead."""
        assert self._ahead is None, "what was read is the oldest"
        self.betas.prepend(run)

    def fetch(self, n: int) -> Batch | None:
        """Take up to ``n`` (at least 1) of the oldest messages, as far as they are alike. None if there are none
        left."""
        batch = self._ahead or self._read()
        if batch is None:
            return None
        if n < len(batch):
            self._ahead = batch.part(n, len(batch))
            batch = batch.part(0, n)
        else:
            self._ahead = None
        self.ahead_bytes -= sum(map(len, batch.entries))
        return batch

    def forget_ahead(self) -> None:
        """Drop the bodies that were read ahead: they will not be fetched soon."""
        if self._ahead is not None:
            self.betas.prepend(self._unread())
            self._ahead = None
            self.ahead_bytes = 0

    def _unread(self) -> StoredRun:
        """Return the messages that were read ahead as a run on disk."""
        assert self._ahead is not None
        assert self._ahead_run is not None
        return self._ahead_run.part(len(self._ahead_run) - len(self._ahead), len(self._ahead_run))

    def clear(self) -> Objects:
        """Drop all messages. Returns the objects that are to be freed."""
        self._ahead = None
        self.ahead_bytes = 0
        return self.betas.clear()

    def _read(self) -> Batch | None:
        """Read the bodies of the first messages. None if there are none."""
        betas = self.betas
        while betas.count and isinstance(betas.head, Unplaced):
            self._place_head()
        if not betas.count:
            return None
        head = betas.head
        assert isinstance(head, StoredRun)
        run = betas.take_first(_readable(head.sizes, self._paging))
        assert isinstance(run, StoredRun)
        entries = self._index.read(run)
        if betas.count and isinstance(following := betas.head, StoredRun):
            self._index.will_need(following)
        self.ahead_bytes = sum(map(len, entries))
        self._ahead_run = run
        return Batch(
            run.sequences,
            entries,
            run.attributes,
            first_acquirer=not run.redelivered,
            expires_at=run.expires_at,
            routes=run.route,
            stored=True,
        )

    def _place_head(self) -> None:
        """Look up the places of the first messages' bodies."""
        betas = self.betas
        cut = len(betas.head) > self._paging.place_messages
        taken = betas.take_unplaced(self._paging.place_messages)
        last = taken[-1]
        stop = last.first + last.length
        count = sum(run.length for run in taken)
        runs, at = self._index.find(range(taken[0].first, stop), taken[0].at, count)
        self.place_reads += 1
        self._lose(count - sum(map(len, runs)))
        if cut and isinstance(rest := betas.head, Unplaced):
            rest.at = at
        for run in reversed(runs):
            betas.prepend(run)

    def load_next(self, delta: Delta, live_from: int) -> list[StoredRun]:
        """Move the next segment, or a part of it, from delta to q3. Returns the moved runs; none if all messages are
        lost.

        Messages with sequence numbers from ``live_from`` on were published after the start, so all of them in delta are
        live.
        """
        runs: list[StoredRun] = []
        while not runs and delta.count:
            start = delta.start
            segment = start >> SEGMENT_BITS
            if segment not in self._index.segments:  # each unclean start skips tens of thousands of segments
                segment = min((number for number in self._index.segments if number > segment), default=segment)
                start = min(max(start, segment << SEGMENT_BITS), delta.end)
            boundary = next_boundary(start)
            numbers = range(start, min(boundary, delta.end))
            at = 0
            if segment in self._index.segments:
                if self._goes_by_parts(segment, delta, live_from):
                    self._index.index_reads += 1
                    runs, at = self._index.find(numbers, delta.at, self._paging.place_messages)
                else:
                    runs = between(self._index.load(segment), numbers)
            behind = runs[-1].first + len(runs[-1]) if at else boundary
            self._lose(delta.advance(behind, sum(map(len, runs)), 0 if behind == boundary else at))
        for run in runs:
            self.betas.append(run)
        return runs

    def _goes_by_parts(self, segment: int, delta: Delta, live_from: int) -> bool:
        """Return whether all of the segment's messages in delta are certainly live, and in order in the file."""
        if not self._index.is_in_order(segment):
            return False
        known = self._index.segments[segment]
        return delta.at > 0 or delta.start >= live_from or known.live == known.published

    def _lose(self, count: int) -> None:
        assert not count or self._index.salvage, f"{count} messages are not in the index"
        self.lost += count


def _readable(sizes: Sequence[int], paging: Paging) -> int:
    """Return how many bodies of these sizes to read at once; at least one."""
    total = 0
    for count, size in enumerate(sizes[: paging.read_messages]):
        total += size
        if total > paging.read_bytes:
            return max(1, count)
    return min(len(sizes), paging.read_messages)
