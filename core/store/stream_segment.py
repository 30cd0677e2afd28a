"""A segment of a stream: one append-only file, its description in memory, and its reader.

A segment's file is named after its first offset and begins with a special record, the *head*. The head describes the
previous segment: its end, and a sparse index of its chunks. So a sealed segment is never written to again, and a start
reads one record of each segment instead of all. Only the newest segment, which no head describes yet, is read as a
whole.

The payload of a head, little-endian::

    tag u8 = 0 | zeros | first offset u64 | entries u32
    of the segment before: first offset, last offset, stamp_ms of its last chunk, each u64 (all 0 if none)
    its index: offsets, positions, stamps_ms, each u64 times entries

Only the messages of a damaged record are lost: it is skipped, counted and reported.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from core.store.disk import Disk
from core.store.errors import StoreFailure
from core.store.record import Damaged, SoundRecord, record_bytes, scan
from core.store.stream_chunk import TAG as CHUNK_TAG
from core.store.stream_chunk import Chunk, Known, decode

HEAD_TAG = 0
_HEAD = Struct("<B3xQIQQQ")

BLOCK_BYTES = 128 * 1024
"""The bytes of one read: half of a full chunk, which is then read as a whole, or 1500 chunks of one message, which take
some ms."""
INDEX_STEP_BYTES = 32 * 1024
"""The smallest distance of chunks in a sparse index. So a search reads at most a quarter of a block in vain."""
INDEX_ENTRIES_MAX = 4096
"""96 KiB; segments of more than 128 MiB have larger steps."""


class SparseIndex:
    """A sparse index of a segment: offset, position in the file and time of some chunks, ascending."""

    __slots__ = ("_offsets", "_positions", "_stamps", "_step")

    def __init__(self, segment_bytes: int) -> None:
        self._step = max(INDEX_STEP_BYTES, segment_bytes // INDEX_ENTRIES_MAX)
        self._offsets = array("Q")
        self._positions = array("Q")
        self._stamps = array("Q")

    def __len__(self) -> int:
        return len(self._offsets)

    def note(self, chunk: Chunk, position: int) -> None:
        """Add the next chunk if it is far enough from the last entry."""
        if not self._positions or position - self._positions[-1] >= self._step:
            self._offsets.append(chunk.first)
            self._positions.append(position)
            self._stamps.append(chunk.stamp_ms)

    def position_of(self, offset: int) -> int:
        """Return the position from which to search for an offset; 0 if it is before the first entry."""
        at = bisect_right(self._offsets, offset) - 1
        return self._positions[at] if at >= 0 else 0

    def position_at(self, stamp_ms: int) -> int:
        """Return the position from which to search for the first chunk not before a time."""
        at = bisect_left(self._stamps, stamp_ms) - 1
        return self._positions[at] if at >= 0 else 0

    def encode(self) -> list[bytes]:
        """Encode the index for the head of the next segment."""
        count = len(self)
        return [Struct(f"<{count}Q").pack(*column) for column in (self._offsets, self._positions, self._stamps)]

    @classmethod
    def decode(cls, payload: bytes, at: int, count: int) -> "SparseIndex":
        """Decode the index of a sealed segment."""
        index = cls(0)
        columns = Struct(f"<{3 * count}Q").unpack_from(payload, at)
        index._offsets = array("Q", columns[:count])
        index._positions = array("Q", columns[count : 2 * count])
        index._stamps = array("Q", columns[2 * count :])
        return index


class Head(NamedTuple):
    """The description of the previous segment in the first record of a segment."""

    before_first: int
    before_last: int
    before_stamp_ms: int
    before_index: SparseIndex
    """The sparse index of the previous segment."""


class Segment:
    """The description of a segment in memory."""

    __slots__ = ("end", "first", "index", "next", "path", "readable", "stamp_ms")

    def __init__(self, folder: str, first: int) -> None:
        self.path = f"{folder}/{first:020}.seg"
        self.first = first
        self.next = first
        """The offset after its last message; ``first`` while it is empty."""
        self.stamp_ms = 0
        """The time of its last chunk, in milliseconds since the epoch."""
        self.end = 0
        """Bytes of the file, with staged records."""
        self.readable = 0
        """Bytes of the file that readers may see: whole records."""
        self.index: SparseIndex | None = None
        """None if the segment is not the newest and was not searched."""

    def appended(self, chunk: Chunk, size: int) -> None:
        """Note a chunk that was staged or found at the end, in a record of ``size`` bytes."""
        assert self.index is not None
        self.index.note(chunk, self.end)
        self.end += size
        self.next = chunk.next
        self.stamp_ms = chunk.stamp_ms


class Tail(NamedTuple):
    """Further results of reading a whole segment."""

    generation: int
    """The generation of the newest start that wrote to it; 0 if no record is sound."""
    last_chunk: int | None
    """The first offset of its last chunk; None without chunks."""
    sound_end: int
    """The offset of the first damage; the end of the file if there is none."""


class Damage(NamedTuple):
    """Damaged bytes of a segment."""

    path: str
    damaged: Damaged

    def __str__(self) -> str:
        offset, end, _, why = self.damaged
        return f"{self.path} at {offset}, {end - offset} bytes: {why}"


def head_payload(first: int, before: Segment | None) -> list[bytes]:
    """Encode the payload of a segment's head."""
    if before is None or before.index is None:
        return [_HEAD.pack(HEAD_TAG, first, 0, 0, 0, 0)]
    fixed = _HEAD.pack(HEAD_TAG, first, len(before.index), before.first, before.next - 1, before.stamp_ms)
    return [fixed, *before.index.encode()]


class SegmentReader:
    """Reads segments of one stream, with short reads in the event loop. It keeps no data but the damage found."""

    __slots__ = ("_disk", "_known", "_tell", "damage", "damaged")

    DAMAGE_KEPT_MAX = 16

    def __init__(self, disk: Disk, damaged: Callable[[Damage], None] = lambda damage: None) -> None:
        """``damaged`` is called once for each damage that is added to ``damage``."""
        self._disk = disk
        self._tell = damaged
        self._known = Known()
        self.damaged = 0
        """How often damage was found; each reader of the same damage counts again."""
        self.damage: list[Damage] = []
        """The first ``DAMAGE_KEPT_MAX`` different ones."""

    def head(self, path: str) -> Head | None:
        """Read the head of a segment; None if it is damaged."""
        found = next(scan(self._reader(path), self.size(path)), None)
        if not isinstance(found, SoundRecord) or found.payload[0] != HEAD_TAG:
            return None
        _, _, entries, before_first, before_last, before_stamp_ms = _HEAD.unpack_from(found.payload)
        index = SparseIndex.decode(found.payload, _HEAD.size, entries)
        return Head(before_first, before_last, before_stamp_ms, index)

    def size(self, path: str) -> int:
        """Return the bytes of the file. Raises StoreFailure."""
        try:
            return self._disk.size(path)
        except OSError as error:
            raise StoreFailure("read", path, error) from error

    def sealed(self, segment: Segment, follower: str) -> None:
        """Fill in a sealed segment from the head of the next one, or by reading the segment if that head does not
        describe it."""
        head = self.head(follower)
        if head is None or head.before_first != segment.first:
            self.find(segment)
            segment.index = None
            return
        segment.next = head.before_last + 1
        segment.stamp_ms = head.before_stamp_ms
        segment.end = segment.readable = self.size(segment.path)

    def find(self, segment: Segment) -> Tail:
        """Fill in a segment by reading all of it: the newest one at a start, or one that no head describes."""
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
        """Return the chunks of one read from ``start``, where a record begins, and the position of the next read.

        There are no chunks if all records in the read are damaged.
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
                        cut = found  # probably by the end of this read
                        break
                    self._note(Damage(segment.path, found))
                elif found.payload[0] == CHUNK_TAG:
                    chunks.append(decode(found.payload, self._known))
                end = found.end
            if cut is None or end > start:
                if end < segment.readable:
                    self._disk.will_need(segment.path, end, BLOCK_BYTES)  # the next read finds it in the cache
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
