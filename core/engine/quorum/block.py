"""A block: the tables in memory for up to about a thousand messages of one quorum queue, without their bodies.

The messages of a block have the same attributes and route, but for its time, and are in one file of the command log.
Tables hold the rest. For each *span* (consecutive messages of one record with the same expiry) they hold the first
sequence number, the index of the first message, the offset of its bodies, the expiry and, if the queue notes it, the
time when they came; for each message its size and its state. A backlog of single messages costs about 34 bytes each,
whatever their size, and 8 bytes more with the time.

Single messages are never removed from a block; only their state changes. A block without live messages is dropped as a
whole.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

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
"""A full block gets no more messages. This bounds the bytes copied when a block is cut."""
BLOCK_BYTES_MAX = 1 << 20
"""The same limit in bytes of records, because a block is carried to another file in one step."""

READY, DISCARDED, GONE = 0, 1, 2
_READY_BYTE, _DISCARDED_BYTE = b"\0", b"\1"


class UnwrittenBodies(NamedTuple):
    """Bodies in memory that are not written to the file yet."""

    offset: int
    """The offset in the file at which they will begin."""
    bodies: bytes


class SpanPart(NamedTuple):
    """Consecutive messages of one span in the same state."""

    sequences: range
    sizes: "array[int]"
    file: int
    offset: int
    """Offset of the first body in the file; the others follow it."""
    expiry: float
    """Wall-clock seconds; infinity for never."""
    attributes: Attributes
    route: Route | None
    held: UnwrittenBodies | None
    """The bodies, while the file does not have them yet; else None."""

    @property
    def expires_at(self) -> float | None:
        """Wall-clock seconds; None for never."""
        return None if self.expiry == inf else self.expiry

    def part(self, start: int, stop: int) -> "SpanPart":
        """Return the messages from ``start`` (inclusive) to ``stop`` (exclusive)."""
        return self._replace(
            sequences=self.sequences[start:stop],
            sizes=self.sizes[start:stop],
            offset=self.offset + sum(self.sizes[:start]),
        )


class Block:
    """Messages in ascending order of their sequence numbers, which may have gaps between spans."""

    __slots__ = (
        "attributes", "expiries", "file", "firsts", "held", "live", "offsets", "record_bytes", "route", "sizes",
        "starts", "states", "times",
    )  # fmt: skip

    def __init__(self, file: int, attributes: Attributes, route: Route | None) -> None:
        self.file = file
        self.attributes = attributes
        self.route = route
        """The time in it is that of the first span."""
        self.times = None if route is None or route.enqueued_ms is None else array("q")
        """When the messages of each span came, in milliseconds since the epoch; None if that is not noted."""
        self.firsts = array("Q")
        self.starts = array("I")
        self.offsets = array("Q")
        self.expiries = array("d")
        self.sizes = array("I")
        self.states = bytearray()
        self.live = 0
        self.record_bytes = 0
        """The approximate size of the records in the file."""
        self.held: UnwrittenBodies | None = None
        """The bodies, until they can be read from the file; then None."""

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def first(self) -> int:
        """The first sequence number of all messages, live or not."""
        return self.firsts[0]

    @property
    def last(self) -> int:
        """The last sequence number of all messages, live or not."""
        return self.firsts[-1] + len(self.sizes) - self.starts[-1] - 1

    @property
    def full(self) -> bool:
        """Whether the block has no room for more messages."""
        return len(self.sizes) >= BLOCK_MESSAGES_MAX or self.record_bytes >= BLOCK_BYTES_MAX

    @property
    def live_record_bytes(self) -> int:
        """The approximate bytes of live messages' records."""
        return self.record_bytes * self.live // len(self.sizes)

    def takes(self, attributes: Attributes, route: Route | None) -> bool:
        """Return whether messages with these attributes and this route may be in this block."""
        if self.attributes is not attributes and self.attributes != attributes:
            return False
        own = self.route
        if own is route or own == route:
            return True
        return (
            self.times is not None
            and own is not None
            and route is not None
            and route.enqueued_ms is not None
            and own.exchange == route.exchange
            and own.routing_keys == route.routing_keys
        )

    def add(self, first: int, sizes: "array[int]", expiry: float, offset: int, enqueued_ms: int | None) -> None:
        """Append a span. The caller adds the size of its record to ``record_bytes``."""
        count = len(sizes)
        if self.times is not None and enqueued_ms is not None:
            self.times.append(enqueued_ms)
        self.firsts.append(first)
        self.starts.append(len(self.sizes))
        self.offsets.append(offset)
        self.expiries.append(expiry)
        self.sizes.extend(sizes)
        self.states.extend(bytes(count))
        self.live += count

    # --- finding messages

    def slices(self, positions: range) -> Iterator[slice]:
        """Yield slices of the tables with the messages at these positions, as far as the block has them."""
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
        """Return the index of the first message at or after ``sequence``; the count of messages if there is none."""
        number = bisect_right(self.firsts, sequence) - 1
        if number < 0:
            return 0
        start = self.starts[number]
        stop = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.sizes)
        return min(start + sequence - self.firsts[number], stop)

    def sequence_at(self, index: int) -> int:
        """Return the sequence number of the message at this index."""
        number = bisect_right(self.starts, index) - 1
        return self.firsts[number] + index - self.starts[number]

    def pieces(self, state: int, start: int = 0) -> Iterator[SpanPart]:
        """Yield the messages in this state, from index ``start`` on."""
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

    def piece_at(self, index: int) -> SpanPart:
        """Return the message at this index as a piece."""
        return self._piece(bisect_right(self.starts, index) - 1, index, index + 1)

    def _piece(self, number: int, start: int, stop: int) -> SpanPart:
        begin = self.starts[number]
        first = self.firsts[number] + start - begin
        route = self.route
        if self.times is not None and route is not None and route.enqueued_ms != self.times[number]:
            route = replace(route, enqueued_ms=self.times[number])
        return SpanPart(
            range(first, first + stop - start),
            self.sizes[start:stop],
            self.file,
            self.offsets[number] + (sum(self.sizes[begin:start]) if start > begin else 0),
            self.expiries[number],
            self.attributes,
            route,
            self.held,
        )

    # --- changing them

    def mark(self, where: slice, state: int) -> tuple[int, int]:
        """Set the state of messages. Messages that are GONE stay so. Returns how many became GONE, and the bytes of
        their bodies."""
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
        """Return a block of the messages from index ``start`` (inclusive) to ``stop`` (exclusive); None if none of them
        is live."""
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
                self.firsts[span] + low - begin, self.sizes[low:high], self.expiries[span],
                self.offsets[span] + skipped, None if self.times is None else self.times[span],
            )  # fmt: skip
        part.states = self.states[start:stop]
        part.live = len(part.states) - part.states.count(GONE)
        part.record_bytes = self.record_bytes * len(part) // len(self)
        return part if part.live else None


def packed(block: Block) -> list[object]:
    """Return a block as values for CBOR. Its bodies must have been written to the file."""
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
        *(() if block.times is None else (stored(block.times),)),
    ]


def unpacked(values: Sequence[Any]) -> Block:
    """Return the block of these values."""
    file, record_bytes, attributes, route, firsts, starts, offsets, expiries, sizes, states, *times = values
    block = Block(file, unpacked_attributes(attributes), unpacked_route(route))
    block.firsts = loaded(array("Q", firsts))
    block.starts = loaded(array("I", starts))
    block.offsets = loaded(array("Q", offsets))
    block.expiries = loaded(array("d", expiries))
    block.sizes = loaded(array("I", sizes))
    block.states = bytearray(states)
    if times:
        block.times = loaded(array("q", times[0]))
    block.record_bytes = record_bytes
    block.live = len(states) - states.count(GONE)
    return block


def _overlap(positions: range, first: int, last: int) -> slice | None:
    """Return the positions between ``first`` and ``last`` as a slice of indexes counted from ``first``; None if there
    are none."""
    step = positions.step
    low = positions.start
    if low < first:
        low += -((low - first) // step) * step
    high = min(positions[-1], last)
    if low > high:
        return None
    return slice(low - first, high - first + 1, step)
