"""The bytes of a broker's deliveries, learned from the first one.

Brokers encode transfers in different ways and put sections of their own before the body. So the first delivery is
parsed field by field (`take_apart`, `spans_of`). The result is a `DeliveryShape`: which bytes of the frame change from
delivery to delivery (delivery-id, delivery-tag, the body's numbers, the values of unlike messages), while all others
stay. Following frames are then checked many at a time: without the changing columns they must equal as many copies of
the first frame, byte for byte, and each column of a value must be that of the message's publisher and number.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from amqp10.load import wire
from amqp10.load.content import SEQUENCES, Buffer, UnlikeValue, ValueSpan
from amqp10.load.stencil import Stencil, equal_prefix, gathered, read_column
from amqp10.load.wire import WireError, content_span, decode, list_spans, skip

FEW = 12
"""With fewer frames, checking them one by one is cheaper than by columns: see `limit`."""

LARGE = 1024
"""So many bytes at the end of a frame are not copied to compare them."""

BLOCK = 64
"""Messages whose values are made together, to be compared one by one."""
BLOCKS_MAX = 256
"""Publishers whose latest block is kept."""

_RUN_BYTES_MAX = 256 * 1024


@dataclass(frozen=True, slots=True)
class Parts:
    """One parsed transfer frame; positions count from the frame's first byte."""

    delivery_id: int | None
    id_span: tuple[int, int]
    tag_span: tuple[int, int]
    settled: bool
    more: bool
    aborted: bool
    payload_at: int


def take_apart(frame: bytes) -> Parts:
    """Parse the fields of a transfer frame [2.7.5]."""
    list_at = skip(frame, 4 * frame[4] + 1)
    spans = list_spans(frame, list_at)

    def value(index: int) -> object:
        return decode(frame, spans[index][0])[0] if index < len(spans) else None

    delivery_id = value(1)
    return Parts(
        delivery_id=delivery_id if isinstance(delivery_id, int) else None,
        id_span=spans[1] if len(spans) > 1 else (0, 0),
        tag_span=spans[2] if len(spans) > 2 else (0, 0),
        settled=value(4) is True,
        more=value(5) is True,
        aborted=value(9) is True,
        payload_at=skip(frame, list_at),
    )


class Spans(NamedTuple):
    """The places of the values of a message, and where the content of its body begins and ends."""

    places: list[ValueSpan]
    body_start: int
    body_end: int


_PROPERTY_FIELDS = {"message_id": 0, "key": 2, "content_type": 6}
"""The fields of the properties section with a value of ours: message-id, to, content-type [3.2.4]."""


def spans_of(payload: Buffer, at: int, values: Mapping[str, UnlikeValue]) -> Spans:
    """Find the values in the sections before the body [3.2]; other sections and values are passed over."""
    found: list[ValueSpan] = []
    while at < len(payload):
        value_at = skip(payload, at + 1)
        section = payload[at + 2] if value_at == at + 3 else 0
        if section == wire.DATA:
            return Spans(found, *content_span(payload, (value_at, skip(payload, value_at))))
        if values:
            found += _places_in(payload, section, value_at, values)
        at = skip(payload, value_at)
    raise WireError("a message without a data section: another program publishes to this queue")


def _places_in(payload: Buffer, section: int, at: int, values: Mapping[str, UnlikeValue]) -> list[ValueSpan]:
    if section == wire.HEADER:
        named = {"priority": 1}
    elif section == wire.PROPERTIES:
        named = _PROPERTY_FIELDS
    elif section in (wire.APPLICATION_PROPERTIES, wire.MESSAGE_ANNOTATIONS):
        spans = list_spans(payload, at)
        keys = [payload[slice(*content_span(payload, span))].decode() for span in spans[::2]]
        named = {"key" if key == "x-routing-key" else key: 2 * index + 1 for index, key in enumerate(keys)}
    else:
        return []
    spans = list_spans(payload, at)
    found = []
    for name, index in named.items():
        if name in values and index < len(spans) and payload[spans[index][0]] != 0x40:
            start, end = content_span(payload, spans[index])
            if section == wire.PROPERTIES and name == "key":  # the last part of the address
                start += payload[start:end].rfind(b"/") + 1
            found.append(ValueSpan(name, start, end))
    return found


class DeliveryRun(NamedTuple):
    """Deliveries of the same shape with consecutive delivery-ids.

    Their sequence numbers are consecutive and from one publisher as well, unless `scattered` lists each of them.
    """

    deliveries: int
    first_id: int
    publisher: int
    first_sequence: int
    scattered: list[tuple[int, int]] | None
    stamps: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The places in a delivery's bytes that change from one delivery to the next.

    AMQP 0.9.1 deliveries have such places too: there the id is the low half of the delivery-tag, and there is no tag.
    size_end: behind the number that says how large the frame, or the body, is; size_at: where it begins.
    """

    size_at: int
    size_end: int
    id_at: int
    tag_start: int
    tag_end: int
    values: tuple[ValueSpan, ...]
    body_at: int
    settled: bool


def places_of(frame: bytes, parts: Parts, spans: Spans) -> Places:
    """The places in a transfer frame, of whose payload these are the spans; constructors and the size of the tag do not
    change."""
    return Places(
        size_at=0,
        size_end=4,
        id_at=parts.id_span[0] + 1,
        tag_start=parts.tag_span[0] + 2,
        tag_end=parts.tag_span[1],
        values=tuple(ValueSpan(name, parts.payload_at + a, parts.payload_at + b) for name, a, b in spans.places),
        body_at=parts.payload_at + spans.body_start,
        settled=parts.settled,
    )


class DeliveryShape:
    """The shape of a delivery: only the delivery-id, the tag, the body's numbers and the values may change.

    mixed: the next delivery probably has another shape, because bodies have several sizes in turn.
    """

    __slots__ = (
        "_blank",
        "_blocks",
        "_body_at",
        "_capacity",
        "_checked",
        "_constants",
        "_constants_of",
        "_end",
        "_end_at",
        "_fields",
        "_free",
        "_id_at",
        "_image",
        "_lookahead",
        "_missing",
        "_numbers_in_row",
        "_size_end",
        "_size_of",
        "_stamped",
        "_unlike",
        "_values",
        "_values_at",
        "settled",
        "stride",
    )

    @staticmethod
    def learnable(frame: bytes, parts: Parts) -> bool:
        """Whether a shape can be learned: the delivery-id has its full width, unlike small ones, and the tag is
        short."""
        return parts.id_span[1] - parts.id_span[0] == 5 and frame[parts.tag_span[0]] == 0xA0 and not parts.more

    def __init__(
        self, frame: bytes, places: Places, values: Mapping[str, UnlikeValue], *, stamped: bool, mixed: bool = False
    ) -> None:
        self.stride = len(frame)
        self.settled = places.settled
        self._size_of = (slice(places.size_at, places.size_end), frame[places.size_at : places.size_end])
        self._size_end = places.size_end
        self._id_at = places.id_at
        self._body_at = places.body_at
        self._stamped = stamped
        numbers_end = self._body_at + 12 + 8 * stamped
        self._free = (
            *range(self._id_at, self._id_at + 4),
            *range(places.tag_start, places.tag_end),
            *range(self._body_at, numbers_end),
        )
        self._values_at = slice(
            min((place.start for place in places.values), default=0),
            max((place.end for place in places.values), default=0),
        )
        self._values = frame[self._values_at]
        self._blocks: dict[int, tuple[int, bytes]] = {}
        self._lay_out(frame, places, numbers_end)
        self._learn(places.values, values)
        blanked = bytearray(frame)
        for at in self._free:
            blanked[at] = 0
        self._capacity = 1 if mixed else max(FEW - 1, _RUN_BYTES_MAX // self.stride)
        self._lookahead = self._capacity
        self._image = bytes(blanked) * self._capacity if self._capacity >= FEW else b""
        self._blank = bytes(self._capacity)

    def _lay_out(self, frame: bytes, places: Places, numbers_end: int) -> None:
        """Make the frame one struct in which constants and numbers alternate. A large constant at the end is left out:
        it is compared in place."""
        span = self._values_at
        varying = [  # where it begins and ends, its format, and how many items of a row it has
            (self._id_at, self._id_at + 4, "I", 1),
            (places.tag_start, places.tag_end, f"{places.tag_end - places.tag_start}x", 0),
            (self._body_at, numbers_end, "IQQ" if self._stamped else "IQ", 2 + self._stamped),
        ]
        if places.values:
            varying.insert(2, (span.start, span.stop, f"{span.stop - span.start}s", 1))
        layout, at, row = ">", 0, 0
        constants: dict[int, bytes] = {}
        for start, end, code, items in varying:
            constants[row] = frame[at:start]
            layout += f"{start - at}s{code}"
            row += 1 + items
            at = end
        self._end_at = at if len(frame) - at >= LARGE else len(frame)
        constants[row], self._end = frame[at : self._end_at], frame[self._end_at :]
        self._numbers_in_row = row - 2 - self._stamped
        self._fields = struct.Struct(f"{layout}{self._end_at - at}s{len(self._end)}x")
        self._constants_of, self._constants = itemgetter(*constants), tuple(constants.values())

    def _learn(self, places: tuple[ValueSpan, ...], values: Mapping[str, UnlikeValue]) -> None:
        """Note how the columns of the values follow from publisher and number."""
        names = {place.name for place in places}
        self._unlike = bool(values)
        self._missing = [one for name, one in values.items() if name not in names]
        self._checked = [(place.start + column.at, column) for place in places for column in values[place.name].columns]
        self._free += tuple(at + k for at, column in self._checked for k in range(column.width))

    def run(self, data: bytes, at: int) -> DeliveryRun | None:
        """A run of this shape at `at`, of the length that halving finds; None when the first frame differs."""
        part, size = self._size_of
        if data[at + part.start : at + part.stop] != size:
            return None
        count = min((len(data) - at) // self.stride, self._lookahead)
        if count >= FEW:
            count = equal_prefix(data, at + self._size_end - 1, stride=self.stride, count=count)
        run = self._few(data, at, count) if count < FEW else self._many(data, at, count)
        self._lookahead = min(self._capacity, FEW + 4 * run.deliveries if run else FEW)
        return run

    def _many(self, data: bytes, at: int, count: int) -> DeliveryRun | None:
        while count:
            if self._like(data, at, count) and (run := self._read(data, at, count)) is not None:
                return run
            count //= 2
        return None

    def _few(self, data: bytes, at: int, count: int) -> DeliveryRun | None:
        """Find a run of few frames: compare one by one, and only while sequence numbers are consecutive."""
        deliveries = first_id = publisher = first_sequence = 0
        stamps = []
        numbers = self._numbers_in_row
        end_at = at + self._end_at
        frames = memoryview(data) if self._end else data
        for row in self._fields.iter_unpack(frames[at : at + count * self.stride]):
            if self._constants_of(row) != self._constants or (self._end and not data.startswith(self._end, end_at)):
                break
            end_at += self.stride
            if not deliveries:
                first_id, publisher, first_sequence = row[1], row[numbers], row[numbers + 1]
            elif (row[1] - first_id, row[numbers], row[numbers + 1] - first_sequence) != (
                deliveries,
                publisher,
                deliveries,
            ):
                break
            if self._unlike and not self._row_as_sent(row[numbers - 2], publisher, first_sequence + deliveries):
                break
            deliveries += 1
            stamps.append(row[numbers + 2])  # the time stamp; without one, the bytes behind the numbers: then ignored
        if not deliveries:
            return None
        return DeliveryRun(deliveries, first_id, publisher, first_sequence, None, stamps if self._stamped else ())

    def _row_as_sent(self, values: bytes, publisher: int, sequence: int) -> bool:
        """Whether the values of one frame, with the bytes between them, are those of this message."""
        if sequence >= SEQUENCES:
            return False
        if self._missing and not all(one.default == one.raw(publisher, sequence) for one in self._missing):
            return False
        size = self._values_at.stop - self._values_at.start
        at = sequence % BLOCK * size
        return values == self._block(publisher, sequence // BLOCK)[at : at + size]

    def _block(self, publisher: int, number: int) -> bytes:
        """The values of `BLOCK` messages of a publisher, with the bytes between them, side by side."""
        kept = self._blocks.get(publisher)
        if kept is not None and kept[0] == number:
            return kept[1]
        if len(self._blocks) >= BLOCKS_MAX:
            self._blocks.clear()
        stencil = Stencil(self._values, BLOCK)
        numbers = range(number * BLOCK, (number + 1) * BLOCK)
        for at, column in self._checked:
            data = column.pack([publisher] * BLOCK if column.of_publisher else numbers)
            stencil.put((at - self._values_at.start,), data, width=column.width)
        block = bytes(stencil.take(BLOCK))
        self._blocks[publisher] = number, block
        return block

    def _like(self, data: bytes, at: int, count: int) -> bool:
        end = count * self.stride
        frames = bytearray(data[at : at + end])
        blank = self._blank[:count]
        for offset in self._free:
            frames[offset :: self.stride] = blank
        return frames == self._image[:end]

    def _read(self, data: bytes, at: int, count: int) -> DeliveryRun | None:
        """Read the run's numbers; None when its delivery-ids are not consecutive, or a value is not as sent."""
        stride, body_at = self.stride, at + self._body_at
        ids = read_column(data, at + self._id_at, stride=stride, count=count, width=4)
        if ids[0] + count > 2**32 or ids != array("I", range(ids[0], ids[0] + count)):
            return None
        publishers = read_column(data, body_at, stride=stride, count=count, width=4)
        sequences = read_column(data, body_at + 4, stride=stride, count=count, width=8)
        publisher, first_sequence = publishers[0], sequences[0]
        expected = array("Q", range(first_sequence, first_sequence + count))
        consecutive = publishers.count(publisher) == count and sequences == expected
        numbers = range(first_sequence, first_sequence + count) if consecutive else sequences
        if self._unlike and not self._as_sent(data, at, publishers, numbers):
            return None
        stamps = read_column(data, body_at + 12, stride=stride, count=count, width=8) if self._stamped else ()
        return DeliveryRun(
            deliveries=count,
            first_id=ids[0],
            publisher=publisher,
            first_sequence=first_sequence,
            scattered=None if consecutive else list(zip(publishers, sequences, strict=True)),
            stamps=stamps,
        )

    def _as_sent(self, data: bytes, at: int, publishers: array[int], numbers: Sequence[int]) -> bool:
        """Whether each value is that of its message."""
        if max(numbers) >= SEQUENCES:
            return False
        count = len(numbers)
        for offset, column in self._checked:
            found = gathered(data, at + offset, stride=self.stride, count=count, width=column.width)
            if found != column.pack(publishers if column.of_publisher else numbers):
                return False
        pairs = zip(publishers, numbers, strict=True) if self._missing else ()
        return all(one.default == one.raw(*pair) for pair in pairs for one in self._missing)
