"""Records that classic queues have staged on their lane, and reads of records that may not be written yet.

Queue indexes and message stores append their records here. The bytes are kept until their batch is written, so that a
message can be read at any time. Records of a file are appended at ascending offsets, so all unwritten records come
after one offset of the file: below it the file is read, from it on these bytes.

Settlements, bodies and removals are delayed until the next batch is taken, and then are all in it. A removal is made
after its batch is synced, so a body is never removed before the settlement of its message is durable.

Bound: the records of the batch that is out and of the one that gathers. The lane limits the staged bytes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from math import inf
from typing import Protocol

from core.store.damage import refusal
from core.store.disk import Disk
from core.store.errors import StoreDamaged, StoreFailure
from core.store.lane import Lane
from core.store.places import Loaded
from core.store.record import HEADER_BYTES, Damaged, RecordKind, SoundRecord, record_bytes, scan

READ_GAP_MAX = 4096
READ_BYTES_MAX = 1 << 20
"""One read takes bodies with gaps of at most a page, because reading the gap costs less than another system call."""

FIRST_READ_BYTES = 4096
LARGER_READ_BYTES = 65_536
"""The sizes of reads for a reader that may stop soon: first a page, then more. All records of a read are parsed: 40
small ones in a page, about 0.1 ms; 650 in the larger read, about 1 ms."""


class Stager(Protocol):
    """A queue index or message store with records that are delayed until the next batch is taken."""

    def stage(self) -> None:
        """Append the delayed records."""


class _Unwritten:
    """Unwritten records of one file, in the order of their offsets."""

    __slots__ = ("offsets", "records")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.records: list[tuple[RecordKind, Sequence[bytes]]] = []


class Staging:
    """The staging of classic messages on their lane. Used by the event loop only."""

    def __init__(self, lane: Lane, disk: Disk) -> None:
        self.lane = lane
        self.disk = disk
        self._gathering: dict[str, _Unwritten] = {}
        self._out: dict[str, _Unwritten] = {}
        self._out_position = 0
        self._late: dict[Stager, None] = {}
        self.loaded: Loaded | None = None
        """The segment that was last read to find messages without a known place. Only one is kept for all queue
        indexes, because it may take some MiB. A queue usually reads several messages of the same segment."""

    def append(self, path: str, offset: int, kind: RecordKind, payload: Sequence[bytes]) -> int:
        """Stage a record after all others of its file. Returns its position. Bodies must be in the last chunk of the
        payload."""
        unwritten = self._gathering.get(path)
        if unwritten is None:
            if not self._gathering:
                self.lane.later(self)
            unwritten = self._gathering[path] = _Unwritten()
        unwritten.offsets.append(offset)
        unwritten.records.append((kind, payload))
        return self.lane.append(path, offset, kind, payload)

    def later(self, stager: Stager) -> None:
        """Have ``stager.stage()`` called once, when the next batch is taken."""
        self._late[stager] = None
        self.lane.later(self)

    def write_late(self) -> None:
        """See :class:`core.store.lane.LateWriter`. The previous batch is written by now."""
        late, self._late = self._late, {}
        for stager in late:
            stager.stage()
        self._out, self._gathering = self._gathering, {}
        self._out_position = self.lane.staged

    def forget_written(self) -> None:
        """Drop bytes that are written. To be called from time to time, because the next batch may not come soon."""
        if self._out and self.lane.written >= self._out_position:
            self._out = {}

    # --- reading

    def records(self, path: str, end: int) -> Iterator[SoundRecord | Damaged]:
        """Iterate over all records of a file that ends at ``end``. Raises StoreFailure."""
        written = int(self._written(path, end))
        yield from scan(lambda offset, length: self._read(path, offset, length), written)
        yield from self._unwritten_records(path, 0)

    def records_from(self, path: str, start: int, end: int) -> Iterator[SoundRecord | Damaged]:
        """Iterate over the records from ``start``, where a record begins. Reads are small first and then larger, for a
        caller that may stop soon.

        Raises StoreFailure.
        """
        written = int(self._written(path, end))
        at = start
        size = FIRST_READ_BYTES
        while at < written:
            limit = min(written, at + size)
            begin = at
            for record in scan(lambda offset, length: self._read(path, offset, length), limit, begin):
                if limit < written and isinstance(record, Damaged) and record.end >= limit:
                    break  # probably cut off by the limit
                yield record
                at = record.end
            if at == begin or size < LARGER_READ_BYTES:
                size *= 4
        yield from self._unwritten_records(path, start)

    def _unwritten_records(self, path: str, start: int) -> Iterator[SoundRecord]:
        for batch in (self._out, self._gathering):
            if (unwritten := batch.get(path)) is not None:
                first = bisect_left(unwritten.offsets, start)
                for number in range(first, len(unwritten.offsets)):
                    offset = unwritten.offsets[number]
                    kind, payload = unwritten.records[number]
                    joined = b"".join(payload)
                    after = offset + record_bytes(len(joined))
                    yield SoundRecord(kind, self.lane.generation, 0, offset, joined, after)

    def read(self, path: str, offsets: Sequence[int], sizes: Sequence[int]) -> tuple[list[bytes], int]:
        """Read bodies at ascending offsets of a file. Also returns how many reads that took. Raises StoreFailure,
        StoreDamaged."""
        bodies: list[bytes] = []
        reads = 0
        written = self._written(path, inf)
        at = 0
        while at < len(offsets):
            if offsets[at] >= written:
                at = self._read_unwritten(path, offsets, sizes, at, bodies)
                continue
            stop = _adjoining(offsets, sizes, at, written)
            start = offsets[at]
            length = offsets[stop - 1] + sizes[stop - 1] - start
            data = self._read(path, start, length)
            if len(data) < length:
                raise StoreDamaged(f"{path} at {start}: {length} bytes are to be there, {len(data)} are")
            reads += 1
            bodies += [
                data[offset - start : offset - start + size]
                for offset, size in zip(offsets[at:stop], sizes[at:stop], strict=True)
            ]
            at = stop
        return bodies, reads

    def will_need(self, path: str, offset: int, length: int) -> None:
        """Hint that these bytes will be read soon, if they are written."""
        if offset < self._written(path, inf):
            self.disk.will_need(path, offset, length)

    def record(self, path: str, offset: int, size: int) -> bytes:
        """Read and verify a record of ``size`` bytes, and return its payload. Raises StoreFailure, StoreDamaged."""
        if offset >= self._written(path, inf):
            return b"".join(self._unwritten_record(path, offset)[1])
        data = self._read(path, offset, size)
        record = next(scan(lambda at, length: data[at : at + length], len(data)), None)
        if not isinstance(record, SoundRecord):
            found = record or Damaged(0, 0, None, "the file ends before it")
            raise refusal(path, found._replace(offset=offset, end=offset + found.end))
        return record.payload

    def is_written(self, path: str) -> bool:
        """Return whether no record of the file waits to be written."""
        return self._written(path, inf) == inf

    def _written(self, path: str, end: float) -> float:
        """Return the offset up to which the file is known to be written; ``end`` if no record of it waits."""
        for batch in (self._out, self._gathering):
            if (unwritten := batch.get(path)) is not None:
                return unwritten.offsets[0]
        return end

    def _read_unwritten(
        self, path: str, offsets: Sequence[int], sizes: Sequence[int], at: int, bodies: list[bytes]
    ) -> int:
        """Append the bodies from index ``at`` on that are in one unwritten record to ``bodies``. Returns the index of
        the next body."""
        begin, payload = self._unwritten_record(path, offsets[at])
        start = begin + HEADER_BYTES + sum(map(len, payload[:-1]))
        joined = payload[-1]
        end = start + len(joined)
        while at < len(offsets) and offsets[at] + sizes[at] <= end:
            offset = offsets[at] - start
            bodies.append(joined[offset : offset + sizes[at]])
            at += 1
        return at

    def _unwritten_record(self, path: str, offset: int) -> tuple[int, Sequence[bytes]]:
        """Return the offset and the payload of the unwritten record with this offset."""
        batch = self._gathering.get(path)
        if batch is None or offset < batch.offsets[0]:
            batch = self._out[path]
        number = bisect_right(batch.offsets, offset) - 1
        return batch.offsets[number], batch.records[number][1]

    def _read(self, path: str, offset: int, length: int) -> bytes:
        try:
            return self.disk.read(path, offset, length)
        except OSError as error:
            raise StoreFailure("read", path, error) from error


def _adjoining(offsets: Sequence[int], sizes: Sequence[int], start: int, limit: float) -> int:
    """Return the index after the last body that one read takes together with the first one. No body is at or after
    ``limit``."""
    begin = offsets[start]
    end = begin + sizes[start]
    stop = start + 1
    while stop < len(offsets):
        offset = offsets[stop]
        if offset >= limit or offset - end > READ_GAP_MAX or offset + sizes[stop] - begin > READ_BYTES_MAX:
            break
        end = offset + sizes[stop]
        stop += 1
    return stop
