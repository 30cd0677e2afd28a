"""Ready messages whose bodies are in memory: q1 and q4 of a variable queue.

They are kept as in the memory backing: encoded entries and one record for each run; single publishes that follow each
other closely share a record. Messages are taken from the front to be handed out, and from the rear to be paged out,
because those at the rear wait longest.

No record crosses the boundary of a segment, because its offset is one in the file of one segment.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from core.engine.classic.betas import next_boundary
from core.engine.ready.backing import ARRIVAL_GRAIN, RECORD_ENTRIES_MAX
from core.engine.ready.batch import Batch
from core.engine.ready.remains import Objects
from core.message import Attributes, Routes, RunPart, joined, part_of
from core.store.places import SEGMENT_BITS, SEGMENT_MESSAGES

NO_CONSUMER: frozenset[object] = frozenset()


@dataclass(eq=False, slots=True)
class _Record:
    first: int
    arrival: float
    attributes: Attributes
    entries: list[bytes]
    expires_at: float | None
    routes: Routes
    at: int


class Alphas:
    """A list of runs of messages in memory, oldest first."""

    __slots__ = ("_durable", "_records", "count")

    def __init__(self, *, durable: bool) -> None:
        """``durable``: durable messages are also on disk."""
        self.count = 0
        self._durable = durable
        self._records: deque[_Record] = deque()

    def append(self, entries: list[bytes], run_part: RunPart, first: int, arrival: float, at: int) -> None:
        """Append messages that are alike. The caller keeps the ownership of the list. ``at``: see :attr:`first_at`."""
        self.count += len(entries)
        routes = run_part.routes
        if self._extend_last(entries, run_part, routes, first, arrival):
            return
        attributes = run_part.run.attributes
        start, count = 0, len(entries)
        while start < count:
            stop = min(start + RECORD_ENTRIES_MAX, count, next_boundary(first + start) - first)
            self._records.append(
                _Record(
                    first + start, arrival, attributes, entries[start:stop], run_part.expires_at,
                    part_of(routes, start, stop), at,
                )
            )  # fmt: skip
            start = stop
            if not (first + start) & (SEGMENT_MESSAGES - 1):
                at = 0  # the offset is one in the file of the segment before

    def _extend_last(self, entries: list[bytes], run_part: RunPart, routes: Routes, first: int, arrival: float) -> bool:
        if not self._records:
            return False
        last = self._records[-1]
        attributes = run_part.run.attributes
        if (
            len(last.entries) + len(entries) > RECORD_ENTRIES_MAX
            or arrival - last.arrival > ARRIVAL_GRAIN
            or last.first + len(last.entries) != first
            or last.first >> SEGMENT_BITS != (first + len(entries) - 1) >> SEGMENT_BITS
            or last.expires_at != run_part.expires_at
            or (last.attributes is not attributes and last.attributes != attributes)
        ):
            return False
        if last.routes is not routes or isinstance(routes, list):
            last.routes = joined(last.routes, len(last.entries), routes, len(entries))
        last.entries += entries
        return True

    def take_first(self, n: int) -> Batch:
        """Take up to ``n`` (at least 1) of the oldest messages, as far as they are alike. The list must not be
        empty."""
        record = self._records[0]
        first, entries, routes = record.first, record.entries, record.routes
        if n >= len(entries):
            self._records.popleft()
        else:
            entries = entries[:n]
            del record.entries[:n]
            record.first += n
            if isinstance(routes, list):
                record.routes, routes = routes[n:], routes[:n]
        return self._taken(record, first, entries, routes)

    def take_last(self, n: int) -> Batch:
        """Take up to ``n`` (at least 1) of the newest messages, as far as they are alike. The list must not be
        empty."""
        record = self._records[-1]
        entries, routes = record.entries, record.routes
        kept = len(entries) - n
        if kept <= 0:
            self._records.pop()
            return self._taken(record, record.first, entries, routes)
        newest = entries[kept:]
        del entries[kept:]
        if isinstance(routes, list):
            record.routes, routes = routes[:kept], routes[kept:]
        return self._taken(record, record.first + kept, newest, routes)

    def _taken(self, record: _Record, first: int, entries: list[bytes], routes: Routes) -> Batch:
        count = len(entries)
        self.count -= count
        attributes = record.attributes
        # Positional arguments: every message passes here, and keywords would cost a fifth of its way.
        return Batch(
            range(first, first + count), entries, attributes, 0, True, None, NO_CONSUMER,
            record.expires_at, routes, 0, self._durable and attributes.durable,
        )  # fmt: skip

    @property
    def head_expires_at(self) -> float | None:
        """When the oldest message expires; None if never. The list must not be empty."""
        return self._records[0].expires_at

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
        return sum(len(record.entries) for record in self._records if self._durable and record.attributes.durable)

    def runs(self) -> Iterator[range]:
        """Iterate over the sequence numbers, run by run."""
        return (range(record.first, record.first + len(record.entries)) for record in self._records)

    def clear(self) -> Objects:
        """Drop all messages. Returns the objects that are to be freed."""
        records, self._records = self._records, deque()
        self.count = 0
        return records
