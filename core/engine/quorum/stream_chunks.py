"""The chunks of one stream of a group: where each of them is in this node's copy of the group's log.

Like a :class:`core.engine.quorum.machine.QuorumMachine` it follows from the commands alone, so it is the same on every
node but for the places. A chunk whose offset is known is the same chunk at another place: it was carried there, or the
copy of another node has both.

Chunks are in blocks, so that what happens to a chunk in the middle, and what is removed, costs little in a long stream.

Invariants: the chunks are ascending and do not overlap; ``next`` never decreases; no chunk ends at ``first`` or before.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from core.store.stream_chunk import ChunkFacts

BLOCK_CHUNKS_MAX = 1024
"""The most chunks of a block: it takes some microseconds to insert into one, and to read one through."""


class ChunkPlace(NamedTuple):
    """One chunk, and where its payload is in the copy."""

    facts: ChunkFacts
    file: int
    offset: int
    size: int
    """Bytes of the payload."""
    checksum: int
    """CRC-32 of the payload."""

    @property
    def next(self) -> int:
        """The offset after its last message."""
        return self.facts.first + self.facts.messages


class _Block:
    __slots__ = ("bytes", "checksums", "counts", "files", "firsts", "in_files", "offsets", "sizes", "stamps")

    def __init__(self) -> None:
        self.firsts, self.stamps, self.offsets = array("Q"), array("Q"), array("Q")
        self.counts, self.files, self.sizes, self.checksums = array("I"), array("I"), array("I"), array("I")
        self.bytes = 0
        self.in_files: Counter[int] = Counter()
        """Bytes in each file of the log."""

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def next(self) -> int:
        return self.firsts[-1] + self.counts[-1]

    def at(self, index: int) -> ChunkPlace:
        facts = ChunkFacts(self.firsts[index], self.counts[index], self.stamps[index])
        return ChunkPlace(facts, self.files[index], self.offsets[index], self.sizes[index], self.checksums[index])

    def insert(self, index: int, place: ChunkPlace) -> None:
        (first, count, stamp_ms), file, offset, size, checksum = place
        for column, value in zip(self._columns, (first, stamp_ms, offset, count, file, size, checksum), strict=True):
            column.insert(index, value)
        self.bytes += size
        self.in_files[file] += size

    def drop_before(self, index: int) -> Counter[int]:
        """Drop the first chunks. Returns how many bytes they had in each file."""
        dropped: Counter[int] = Counter()
        for file, size in zip(self.files[:index], self.sizes[:index], strict=True):
            dropped[file] += size
        for column in self._columns:
            del column[:index]
        self.bytes -= dropped.total()
        self.in_files = self.in_files - dropped
        return dropped

    def split(self) -> "_Block":
        """Give the second half to another block."""
        other, half = _Block(), len(self) // 2
        for index in range(half, len(self)):
            other.insert(len(other), self.at(index))
        for column in self._columns:
            del column[half:]
        self.bytes -= other.bytes
        self.in_files = self.in_files - other.in_files
        return other

    @property
    def _columns(self) -> "tuple[array[int], ...]":
        return self.firsts, self.stamps, self.offsets, self.counts, self.files, self.sizes, self.checksums


class StreamChunks:
    """The chunks of one stream."""

    __slots__ = ("_blocks", "bytes", "held", "live_in", "next", "number")

    def __init__(self, number: int) -> None:
        """``number``: that of the stream in the log."""
        self.number = number
        self.next = 0
        """The offset after the last message that was ever committed."""
        self.bytes = 0
        """Bytes of the payloads of all chunks."""
        self.live_in: Counter[int] = Counter()
        """The same for each file of the log that has any."""
        self.held: dict[int, bytes] = {}
        """Payloads, by first offset, of chunks that were carried to a place that is not written yet."""
        self._blocks: list[_Block] = []

    # --- commands

    def add(self, place: ChunkPlace) -> None:
        """A chunk is at this place."""
        first = place.facts.first
        self.next = max(self.next, place.next)
        number = max(0, bisect_right(self._blocks, first, key=_first_of) - 1)
        if number == len(self._blocks):
            self._blocks.append(_Block())
        block = self._blocks[number]
        index = bisect_left(block.firsts, first)
        if index < len(block) and block.firsts[index] == first:
            self._move(block, index, place)
            return
        if len(block) == BLOCK_CHUNKS_MAX:
            if number == len(self._blocks) - 1 and index == len(block):
                block, index = _Block(), 0
                self._blocks.append(block)
            else:
                other = block.split()
                self._blocks.insert(number + 1, other)
                if index > len(block):
                    block, index = other, index - len(block)
        block.insert(index, place)
        self.bytes += place.size
        self.live_in[place.file] += place.size

    def _move(self, block: _Block, index: int, place: ChunkPlace) -> None:
        before, size = block.files[index], place.size
        block.files[index], block.offsets[index] = place.file, place.offset
        for counted in (block.in_files, self.live_in):
            counted[place.file] += size
            counted[before] -= size
            if not counted[before]:
                del counted[before]

    def cut(self, offset: int) -> int:
        """Remove the chunks that end at this offset or before. Returns how many bytes they had."""
        before = self.bytes
        whole = bisect_right(self._blocks, offset, key=_next_of)
        for block in self._blocks[:whole]:
            self.live_in = self.live_in - block.in_files
            self.bytes -= block.bytes
        del self._blocks[:whole]
        if self._blocks:
            block = self._blocks[0]
            index = bisect_right(block.firsts, offset)
            if index and block.firsts[index - 1] + block.counts[index - 1] > offset:
                index -= 1
            dropped = block.drop_before(index)
            self.live_in = self.live_in - dropped
            self.bytes -= dropped.total()
        return before - self.bytes

    # --- what there is

    @property
    def first(self) -> int:
        """The offset of the oldest message; ``next`` if there is none."""
        return self._blocks[0].firsts[0] if self._blocks else self.next

    @property
    def last(self) -> ChunkPlace | None:
        """The newest chunk."""
        return self._blocks[-1].at(-1) if self._blocks else None

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def __iter__(self) -> Iterator[ChunkPlace]:
        for block in self._blocks:
            yield from map(block.at, range(len(block)))

    def find(self, offset: int) -> ChunkPlace | None:
        """Return the chunk with this offset, or the first one after it; None if there is none."""
        number = bisect_right(self._blocks, offset, key=_next_of)
        if number == len(self._blocks):
            return None
        block = self._blocks[number]
        index = max(0, bisect_right(block.firsts, offset) - 1)
        if block.firsts[index] + block.counts[index] <= offset:
            index += 1
        return block.at(index)

    def since(self, stamp_ms: int) -> int:
        """Return the first offset of the first chunk not before this time; ``next`` if there is none."""
        number = bisect_left(self._blocks, stamp_ms, key=_last_stamp_of)
        if number == len(self._blocks):
            return self.next
        block = self._blocks[number]
        return block.firsts[bisect_left(block.stamps, stamp_ms)]

    def in_file(self, file: int, offset: int) -> ChunkPlace | None:
        """Return the first chunk from this offset on whose payload is in a file; None if there is none."""
        for block in self._blocks[bisect_right(self._blocks, offset, key=_next_of) :]:
            if file in block.in_files:
                for index in range(bisect_left(block.firsts, offset), len(block)):
                    if block.files[index] == file:
                        return block.at(index)
        return None

    def excess(self, *, bytes_max: int | None, before_ms: int | None, keep: int) -> int:
        """Return before which offset messages are to go, so that no more than ``bytes_max`` stay and none from before
        a time; but the newest ``keep`` bytes stay, and the newest chunk."""
        left = self.bytes
        upto = self.first
        last = self._blocks[-1].firsts[-1] if self._blocks else 0

        def goes(size: int, stamp_ms: int) -> bool:
            too_much = bytes_max is not None and left > bytes_max
            too_old = before_ms is not None and stamp_ms < before_ms
            return (too_much or too_old) and left - size >= keep

        for block in self._blocks:
            too_old = before_ms is not None and block.stamps[-1] < before_ms
            too_much = bytes_max is not None and left - block.bytes > bytes_max
            if (too_old or too_much) and left - block.bytes >= keep and block.next <= last:
                left -= block.bytes
                upto = block.next
                continue
            for index in range(len(block)):
                if block.firsts[index] == last or not goes(block.sizes[index], block.stamps[index]):
                    return upto
                left -= block.sizes[index]
                upto = block.firsts[index] + block.counts[index]
        return upto


def _first_of(block: _Block) -> int:
    return block.firsts[0]


def _next_of(block: _Block) -> int:
    return block.next


def _last_stamp_of(block: _Block) -> int:
    return block.stamps[-1]
