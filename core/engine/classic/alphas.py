"""Ready messages whose bodies are in memory: q1 and q4 of a variable queue.

They are kept as in the memory backing: encoded entries and one record for each run; single publishes that follow each
other closely share a record. The messages of a record are all on disk as well, or none is. Messages are taken from the
front to be handed out, and from the rear to be paged out, because those at the rear wait longest.

No record crosses the boundary of a segment, because its offset is one in the file of one segment.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from core.engine.classic.betas import next_boundary
from core.engine.ready.backing import ARRIVAL_GRAIN, RECORD_ENTRIES_MAX
from core.engine.ready.batch import Batch
from core.engine.ready.remains import Objects
from core.engine.ready.returned import NO_CONSUMER
from core.message import Expiries, Routes, RunAttributes, RunPart, first_of, joined, may_join, part_of
from core.store.places import SEGMENT_BITS, SEGMENT_MESSAGES


@dataclass(eq=False, slots=True)
class _Record:
    first: int
    arrival: float
    attributes: RunAttributes
    entries: list[bytes]
    expires_at: Expiries
    routes: Routes
    stored: bool
    at: int

    def cut_off(self, n: int) -> "_Record":
        """Remove the first ``n`` messages, and return them."""
        attributes, entries, expires_at, routes = self.attributes, self.entries, self.expires_at, self.routes
        cut = _Record(
            self.first, self.arrival, part_of(attributes, 0, n), entries[:n], part_of(expires_at, 0, n),
            part_of(routes, 0, n), self.stored, self.at,
        )  # fmt: skip
        self.first += n
        self.attributes = part_of(attributes, n, len(entries))
        self.expires_at = part_of(expires_at, n, len(entries))
        self.routes = part_of(routes, n, len(entries))
        del entries[:n]
        return cut


class Alphas:
    """A list of runs of messages in memory, oldest first."""

    __slots__ = ("_records", "count")

    def __init__(self) -> None:
        self.count = 0
        self._records: deque[_Record] = deque()

    def append(
        self, entries: list[bytes], run_part: RunPart, first: int, arrival: float, *, stored: bool, at: int
    ) -> None:
        """Append messages. The caller keeps the ownership of the list. ``stored``: whether they are on disk too.
        ``at``: see :attr:`first_at`."""
        self.count += len(entries)
        routes = run_part.routes
        if self._extend_last(entries, run_part, routes, first, arrival, stored=stored):
            return
        attributes, expires_at = run_part.attributes, run_part.expires_at
        start, count = 0, len(entries)
        while start < count:
            stop = min(start + RECORD_ENTRIES_MAX, count, next_boundary(first + start) - first)
            self._records.append(
                _Record(
                    first + start, arrival, part_of(attributes, start, stop), entries[start:stop],
                    part_of(expires_at, start, stop), part_of(routes, start, stop), stored, at,
                )
            )  # fmt: skip
            start = stop
            if not (first + start) & (SEGMENT_MESSAGES - 1):
                at = 0  # the offset is one in the file of the segment before

    def _extend_last(
        self, entries: list[bytes], run_part: RunPart, routes: Routes, first: int, arrival: float, *, stored: bool
    ) -> bool:
        if not self._records:
            return False
        last = self._records[-1]
        attributes = run_part.run.attributes
        count, further = len(last.entries), len(entries)
        if (
            count + further > RECORD_ENTRIES_MAX
            or arrival - last.arrival > ARRIVAL_GRAIN
            or last.first + count != first
            or last.first >> SEGMENT_BITS != (first + further - 1) >> SEGMENT_BITS
            or last.stored is not stored
            or (last.attributes is not attributes and not may_join(last.attributes, attributes))
        ):
            return False
        if last.attributes is not attributes:
            last.attributes = joined(last.attributes, count, run_part.attributes, further)
        if last.expires_at is not run_part.expires_at:
            last.expires_at = joined(last.expires_at, count, run_part.expires_at, further)
        if last.routes is not routes:
            last.routes = joined(last.routes, count, routes, further)
        last.entries += entries
        return True

    def take_first(self, n: int) -> Batch:
        """Take up to ``n`` (at least 1) of the oldest messages, as far as they are in one record. The list must not be
        empty."""
        record = self._records[0]
        if n >= len(record.entries):
            self._records.popleft()
            return self._taken(record)
        return self._taken(record.cut_off(n))

    def take_last(self, n: int) -> Batch:
        """Take up to ``n`` (at least 1) of the newest messages, as far as they are in one record. The list must not be
        empty."""
        record = self._records.pop()
        kept = len(record.entries) - n
        if kept > 0:
            self._records.append(record.cut_off(kept))
        return self._taken(record)

    def _taken(self, record: _Record) -> Batch:
        first, entries = record.first, record.entries
        count = len(entries)
        self.count -= count
        # Positional arguments: every message passes here, and keywords would cost a fifth of its way.
        return Batch(
            range(first, first + count), entries, record.attributes, 0, True, None, NO_CONSUMER,
            record.expires_at, record.routes, 0, record.stored,
        )  # fmt: skip

    @property
    def head_expires_at(self) -> float | None:
        """When the oldest message expires; None if never. The list must not be empty."""
        return first_of(self._records[0].expires_at)

    @property
    def first(self) -> int:
        """The sequence number of the oldest message. The list must not be empty."""
        return self._records[0].first

    @property
    def first_at(self) -> int:
        """A lower bound of the oldest message's offset in the file of its segment, if the message is on disk. The bound
        is close, because messages that share a record were published together. The list must not be empty."""
        return self._records[0].at

    @property
    def last_at(self) -> int:
        """The same lower bound for the newest message."""
        return self._records[-1].at

    @property
    def stored(self) -> int:
        """How many messages are also on disk."""
        return sum(len(record.entries) for record in self._records if record.stored)

    def runs(self) -> Iterator[range]:
        """Iterate over the sequence numbers, run by run."""
        return (range(record.first, record.first + len(record.entries)) for record in self._records)

    def clear(self) -> Objects:
        """Drop all messages. Returns the objects that are to be freed."""
        records, self._records = self._records, deque()
        self.count = 0
        return records
