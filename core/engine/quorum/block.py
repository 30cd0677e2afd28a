"""A block: what is known in memory of up to about a thousand messages of one quorum queue, without their bodies.

The messages of a block are alike in attributes and route and lie in one file of the command log. Tables hold the rest:
for each *span* (consecutive messages of one record with one expiry) its first sequence number, its first message, where
its bodies begin and when it expires; for each message its size and its state. A backlog of single messages costs about
34 bytes each, whatever their size.

Messages are never taken out of a block one by one; they change their state, and a block in which none lives is
dropped as a whole.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from core.engine.quorum.commands import (
    loaded,
    packed_attributes,
    packed_route,
    stored,
    unpacked_attributes,
    unpacked_route,
)
from core.message import Attributes, Route

BLOCK_MESSAGES_MAX = 1024
"""A block that is full is left alone: bounds what cutting one copies."""
BLOCK_BYTES_MAX = 1 << 20
"""Likewise in bytes of records: a block is carried to another file in one step."""

READY, DISCARDED, GONE = 0, 1, 2
_READY_BYTE, _DISCARDED_BYTE = b"\0", b"\1"


class Held(NamedTuple):
    """Bodies that are not written yet."""

    offset: int
    """Where in the file they will begin."""
    bodies: bytes


class Piece(NamedTuple):
    """Messages of one span that follow each other and are in the same state."""

    sequences: range
    sizes: "array[int]"
    file: int
    offset: int
    """Where the first body begins; the others follow it."""
    expiry: float
    """Wall-clock seconds; infinity for never."""
    attributes: Attributes
    route: Route | None
    held: Held | None
    """While the file does not have the bodies yet."""

    @property
    def expires_at(self) -> float | None:
        """Wall-clock seconds; None for never."""
        return None if self.expiry == inf else self.expiry

    def part(self, start: int, stop: int) -> "Piece":
        """The messages from ``start`` up to before ``stop``."""
        return self._replace(
            sequences=self.sequences[start:stop],
            sizes=self.sizes[start:stop],
            offset=self.offset + sum(self.sizes[:start]),
        )


class Block:
    """Messages in ascending order of their sequence numbers, which may have gaps between spans."""

    __slots__ = (
        "attributes", "expiries", "file", "firsts", "held", "live", "offsets", "record_bytes", "route", "sizes",
        "starts", "states",
    )  # fmt: skip

    def __init__(self, file: int, attributes: Attributes, route: Route | None) -> None:
        self.file = file
        self.attributes = attributes
        self.route = route
        self.firsts = array("Q")
        self.starts = array("I")
        self.offsets = array("Q")
        self.expiries = array("d")
        self.sizes = array("I")
        self.states = bytearray()
        self.live = 0
        self.record_bytes = 0
        """What the records took in the file, about."""
        self.held: Held | None = None
        """The bodies, until they can be read from the file."""

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def first(self) -> int:
        """Of all messages, living or not."""
        return self.firsts[0]

    @property
    def last(self) -> int:
        """Likewise."""
        return self.firsts[-1] + len(self.sizes) - self.starts[-1] - 1

    @property
    def full(self) -> bool:
        """No room for more."""
        return len(self.sizes) >= BLOCK_MESSAGES_MAX or self.record_bytes >= BLOCK_BYTES_MAX

    @property
    def live_record_bytes(self) -> int:
        """The share of the living in what the records took."""
        return self.record_bytes * self.live // len(self.sizes)

    def add(self, first: int, sizes: "array[int]", expiry: float, offset: int) -> None:
        """Append a span. What it took in the file the caller adds."""
        count = len(sizes)
        self.firsts.append(first)
        self.starts.append(len(self.sizes))
        self.offsets.append(offset)
        self.expiries.append(expiry)
        self.sizes.extend(sizes)
        self.states.extend(bytes(count))
        self.live += count

    # --- finding messages

    def slices(self, positions: range) -> Iterator[slice]:
        """Where in the tables those of the positions are that the block has."""
        first, last = self.firsts[0], self.last
        if last - first + 1 == len(self.sizes):  # no gaps: one step suffices
            found = _overlap(positions, first, last)
            if found is not None:
                yield found
            return
        ends = len(self.firsts)
        for number in range(max(0, bisect_right(self.firsts, positions[0]) - 1), ends):
            start = self.starts[number]
            stop = self.starts[number + 1] if number + 1 < ends else len(self.sizes)
            first = self.firsts[number]
            if first > positions[-1]:
                return
            found = _overlap(positions, first, first + stop - start - 1)
            if found is not None:
                yield slice(start + found.start, start + found.stop, found.step)

    def index_from(self, sequence: int) -> int:
        """The first message that is not before ``sequence``; the count of messages when there is none."""
        number = bisect_right(self.firsts, sequence) - 1
        if number < 0:
            return 0
        start = self.starts[number]
        stop = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.sizes)
        return min(start + sequence - self.firsts[number], stop)

    def sequence_at(self, index: int) -> int:
        """The sequence number of a message."""
        number = bisect_right(self.starts, index) - 1
        return self.firsts[number] + index - self.starts[number]

    def pieces(self, state: int, start: int = 0) -> Iterator[Piece]:
        """The messages in this state, from ``start`` in the tables on."""
        states = self.states
        wanted = _READY_BYTE if state == READY else _DISCARDED_BYTE
        index = states.find(wanted, start)
        while index >= 0:
            number = bisect_right(self.starts, index) - 1
            stop = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.sizes)
            end = index + 1
            while end < stop and states[end] == state:
                end += 1
            yield self._piece(number, index, end)
            index = states.find(wanted, end)

    def piece_at(self, index: int) -> Piece:
        """One message."""
        return self._piece(bisect_right(self.starts, index) - 1, index, index + 1)

    def _piece(self, number: int, start: int, stop: int) -> Piece:
        begin = self.starts[number]
        first = self.firsts[number] + start - begin
        return Piece(
            range(first, first + stop - start),
            self.sizes[start:stop],
            self.file,
            self.offsets[number] + (sum(self.sizes[begin:start]) if start > begin else 0),
            self.expiries[number],
            self.attributes,
            self.route,
            self.held,
        )

    # --- changing them

    def mark(self, where: slice, state: int) -> tuple[int, int]:
        """Give messages a state. Returns how many of them died by that, and their bytes; the dead stay dead."""
        states = self.states
        before = states[where]
        sizes = self.sizes[where]
        gone = before.count(GONE)
        if gone == len(before):
            return 0, 0
        if state == GONE:
            states[where] = bytes((GONE,)) * len(before)
            died = len(before) - gone
            self.live -= died
            if gone:
                return died, sum(size for size, was in zip(sizes, before, strict=True) if was != GONE)
            return died, sum(sizes)
        states[where] = bytes(GONE if was == GONE else state for was in before)
        return 0, 0

    def part(self, start: int, stop: int) -> "Block | None":
        """The messages from ``start`` up to before ``stop`` in the tables; None when none of them lives."""
        if start >= stop:
            return None
        part = Block(self.file, self.attributes, self.route)
        part.held = self.held
        number = bisect_right(self.starts, start) - 1
        end = bisect_left(self.starts, stop)
        for span in range(number, end):
            begin = self.starts[span]
            low = max(start, begin)
            high = min(stop, self.starts[span + 1] if span + 1 < len(self.starts) else len(self.sizes))
            skipped = sum(self.sizes[begin:low])
            part.add(
                self.firsts[span] + low - begin, self.sizes[low:high], self.expiries[span], self.offsets[span] + skipped
            )
        part.states = self.states[start:stop]
        part.live = len(part.states) - part.states.count(GONE)
        part.record_bytes = self.record_bytes * len(part) // len(self)
        return part if part.live else None


def packed(block: Block) -> list[object]:
    """All of a block, in values that CBOR has. Bodies that are held are not in it: they are written by then."""
    assert block.held is None
    return [
        block.file,
        block.record_bytes,
        packed_attributes(block.attributes),
        packed_route(block.route),
        stored(block.firsts),
        stored(block.starts),
        stored(block.offsets),
        stored(block.expiries),
        stored(block.sizes),
        bytes(block.states),
    ]


def unpacked(values: "tuple[int, int, list[int], list[str] | None, bytes, bytes, bytes, bytes, bytes, bytes]") -> Block:
    """The block of these values."""
    file, record_bytes, attributes, route, firsts, starts, offsets, expiries, sizes, states = values
    block = Block(file, unpacked_attributes(attributes), unpacked_route(route))
    block.firsts = loaded(array("Q", firsts))
    block.starts = loaded(array("I", starts))
    block.offsets = loaded(array("Q", offsets))
    block.expiries = loaded(array("d", expiries))
    block.sizes = loaded(array("I", sizes))
    block.states = bytearray(states)
    block.record_bytes = record_bytes
    block.live = len(states) - states.count(GONE)
    return block


def _overlap(positions: range, first: int, last: int) -> slice | None:
    """The positions between the two, as indexes from ``first``."""
    step = positions.step
    low = positions.start
    if low < first:
        low += -((low - first) // step) * step
    high = min(positions[-1], last)
    if low > high:
        return None
    return slice(low - first, high - first + 1, step)
