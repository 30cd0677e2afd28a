"""A segment of a stream: one append-only file, what is known of it in memory, and how it is read.

A segment's file is named after its first offset and begins with a record of its own, the *head*. The head describes
the segment before it: where that one ended, and a sparse index of its chunks. So whoever has sealed a segment never
writes to it again, and a start reads one record of each segment instead of all of them; only the newest, which nobody
has described yet, is read as a whole.

The payload of a head, little-endian::

    tag u8 = 0 | zeros | first offset u64 | entries u32
    of the segment before: first offset, last offset, stamp_ms of its last chunk, each u64 (all 0 when there is none)
    its index: offsets, positions, stamps_ms, each u64 times entries

A damaged record costs its messages and no others: it is passed over, counted, and told.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from core.store.disk import Disk
from core.store.errors import StoreFailure
from core.store.record import Damaged, Found, record_bytes, scan
from core.store.stream_chunk import TAG as CHUNK_TAG
from core.store.stream_chunk import Chunk, Known, decode

HEAD_TAG = 0
_HEAD = Struct("<B3xQIQQQ")

BLOCK_BYTES = 128 * 1024
"""One read: half of a full chunk, which is then read as a whole, or 1500 chunks of one message, which take some ms."""
INDEX_STEP_BYTES = 32 * 1024
"""At least so far apart are the chunks of a sparse index: searching reads a quarter of a block in vain at most."""
INDEX_ENTRIES_MAX = 4096
"""96 KiB; segments of more than 128 MiB have larger steps."""


class SparseIndex:
    """Some chunks of a segment: offset, position in the file and time of each, ascending."""

    __slots__ = ("_offsets", "_positions", "_stamps", "_step")

    def __init__(self, segment_bytes: int) -> None:
        self._step = max(INDEX_STEP_BYTES, segment_bytes // INDEX_ENTRIES_MAX)
        self._offsets = array("Q")
        self._positions = array("Q")
        self._stamps = array("Q")

    def __len__(self) -> int:
        return len(self._offsets)

    def note(self, chunk: Chunk, position: int) -> None:
        """A chunk behind all others; it is entered when it is far enough from the last entry."""
        if not self._positions or position - self._positions[-1] >= self._step:
            self._offsets.append(chunk.first)
            self._positions.append(position)
            self._stamps.append(chunk.stamp_ms)

    def position_of(self, offset: int) -> int:
        """Where to begin to look for an offset; 0 before the first entry."""
        at = bisect_right(self._offsets, offset) - 1
        return self._positions[at] if at >= 0 else 0

    def position_at(self, stamp_ms: int) -> int:
        """Where to begin to look for the first chunk not before a time."""
        at = bisect_left(self._stamps, stamp_ms) - 1
        return self._positions[at] if at >= 0 else 0

    def encode(self) -> list[bytes]:
        """For the head of the next segment."""
        count = len(self)
        return [Struct(f"<{count}Q").pack(*column) for column in (self._offsets, self._positions, self._stamps)]

    @classmethod
    def decode(cls, payload: bytes, at: int, count: int) -> "SparseIndex":
        """Of a segment that nothing is appended to any more."""
        index = cls(0)
        columns = Struct(f"<{3 * count}Q").unpack_from(payload, at)
        index._offsets = array("Q", columns[:count])
        index._positions = array("Q", columns[count : 2 * count])
        index._stamps = array("Q", columns[2 * count :])
        return index


class Head(NamedTuple):
    """What the first record of a segment says of the one before it."""

    before_first: int
    before_last: int
    before_stamp_ms: int
    before_index: SparseIndex
    """Of the segment before."""


class Segment:
    """What is known of a segment without reading it."""

    __slots__ = ("end", "first", "index", "next", "path", "readable", "stamp_ms")

    def __init__(self, folder: str, first: int) -> None:
        self.path = f"{folder}/{first:020}.seg"
        self.first = first
        self.next = first
        """The offset behind its last message; ``first`` while it is empty."""
        self.stamp_ms = 0
        """Of its last chunk."""
        self.end = 0
        """Bytes of the file, with what is staged."""
        self.readable = 0
        """Bytes of the file that readers may see: whole records."""
        self.index: SparseIndex | None = None
        """None until somebody searches, where the segment is not the newest."""

    def appended(self, chunk: Chunk, size: int) -> None:
        """A chunk was staged, or found, at the end, in a record of so many bytes."""
        assert self.index is not None
        self.index.note(chunk, self.end)
        self.end += size
        self.next = chunk.next
        self.stamp_ms = chunk.stamp_ms


class Tail(NamedTuple):
    """What reading a whole segment tells besides."""

    generation: int
    """The newest start of the store that wrote to it; 0 where nothing of it is sound."""
    last_chunk: int | None
    """First offset of its last chunk."""
    sound_end: int
    """Where the first damage begins; the end of the file where there is none."""


class Damage(NamedTuple):
    """Bytes of a segment that are not what was written."""

    path: str
    damaged: Damaged

    def __str__(self) -> str:
        offset, end, _, why = self.damaged
        return f"{self.path} at {offset}, {end - offset} bytes: {why}"


def head_payload(first: int, before: Segment | None) -> list[bytes]:
    """The payload of the record that begins a segment."""
    if before is None or before.index is None:
        return [_HEAD.pack(HEAD_TAG, first, 0, 0, 0, 0)]
    fixed = _HEAD.pack(HEAD_TAG, first, len(before.index), before.first, before.next - 1, before.stamp_ms)
    return [fixed, *before.index.encode()]


class SegmentReader:
    """Reads segments of one stream, short reads in the loop. Keeps what it finds damaged, and nothing else."""

    __slots__ = ("_disk", "_known", "_tell", "damage", "damaged")

    DAMAGE_KEPT_MAX = 16

    def __init__(self, disk: Disk, damaged: Callable[[Damage], None] = lambda damage: None) -> None:
        """``damaged`` is told of each piece of damage, once, as long as it is kept in ``damage``."""
        self._disk = disk
        self._tell = damaged
        self._known = Known()
        self.damaged = 0
        """How often something damaged was met, once more for each reader."""
        self.damage: list[Damage] = []
        """The first of them."""

    def head(self, path: str) -> Head | None:
        """The head of a segment; None when it is not sound."""
        found = next(scan(self._reader(path), self.size(path)), None)
        if not isinstance(found, Found) or found.payload[0] != HEAD_TAG:
            return None
        _, _, entries, before_first, before_last, before_stamp_ms = _HEAD.unpack_from(found.payload)
        index = SparseIndex.decode(found.payload, _HEAD.size, entries)
        return Head(before_first, before_last, before_stamp_ms, index)

    def size(self, path: str) -> int:
        """Bytes of the file. Raises StoreFailure."""
        try:
            return self._disk.size(path)
        except OSError as error:
            raise StoreFailure("read", path, error) from error

    def sealed(self, segment: Segment, follower: str) -> None:
        """Learn where a segment ends from the head of the next one; from itself, where that head does not tell."""
        head = self.head(follower)
        if head is None or head.before_first != segment.first:
            self.find(segment)
            segment.index = None
            return
        segment.next = head.before_last + 1
        segment.stamp_ms = head.before_stamp_ms
        segment.end = segment.readable = self.size(segment.path)

    def find(self, segment: Segment) -> Tail:
        """Read the whole segment and learn all of it: the newest one at a start, or one that no head tells of."""
        size = self.size(segment.path)
        segment.index = SparseIndex(size)
        segment.next = segment.first
        generation = 0
        last_chunk = None
        sound_end = size
        for found in scan(self._reader(segment.path), size):
            if isinstance(found, Damaged):
                self._note(Damage(segment.path, found))
                sound_end = min(sound_end, found.offset)
                continue
            generation = max(generation, found.generation)
            if found.payload[0] == CHUNK_TAG:
                chunk = decode(found.payload, self._known)
                segment.end = found.offset
                segment.appended(chunk, found.end - found.offset)
                last_chunk = chunk.first
        segment.end = segment.readable = size
        return Tail(generation, last_chunk, sound_end)

    def block(self, segment: Segment, start: int) -> tuple[list[Chunk], int]:
        """The chunks of one read from ``start``, where a record begins, and where the next read begins.

        There may be none of them, where everything in reach is damaged.
        """
        assert start < segment.readable
        reach = BLOCK_BYTES
        while True:
            stop = min(start + reach, segment.readable)
            chunks: list[Chunk] = []
            end = start
            cut: Damaged | None = None
            for found in scan(self._reader(segment.path), stop, start):
                if isinstance(found, Damaged):
                    if found.end == stop < segment.readable:
                        cut = found  # by the end of this read, as far as anybody can tell
                        break
                    self._note(Damage(segment.path, found))
                elif found.payload[0] == CHUNK_TAG:
                    chunks.append(decode(found.payload, self._known))
                end = found.end
            if cut is None or end > start:
                if end < segment.readable:
                    self._disk.will_need(segment.path, end, BLOCK_BYTES)  # who reads on finds it in the system's cache
                return chunks, end
            reach = max(2 * reach, record_bytes(cut.header.payload_bytes) if cut.header is not None else 0)

    def _reader(self, path: str) -> Callable[[int, int], bytes]:
        def read(offset: int, length: int) -> bytes:
            try:
                return self._disk.read(path, offset, length)
            except OSError as error:
                raise StoreFailure("read", path, error) from error

        return read

    def _note(self, damage: Damage) -> None:
        self.damaged += 1
        if len(self.damage) < self.DAMAGE_KEPT_MAX and damage not in self.damage:
            self.damage.append(damage)
            self._tell(damage)
