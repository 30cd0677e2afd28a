"""The bytes of a broker's deliveries, learned from the first one.

Brokers encode transfers in different ways and put sections of their own before the body. So the first delivery is
parsed field by field (`take_apart`). The result is a `DeliveryShape`: which bytes of the frame change from delivery to
delivery (delivery-id, delivery-tag, the body's numbers), while all others stay. Following frames are then checked many
at a time: without the changing columns they must equal as many copies of the first frame, byte for byte.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.load.plan import Traffic
from bench.load.stencil import equal_prefix, read_column
from bench.load.wire import DATA, WireError, decode, list_spans, skip

FEW = 12
"""With fewer frames, checking them one by one is cheaper than by columns: see `limit`."""

_RUN_BYTES_MAX = 256 * 1024
_NUMBERS = struct.Struct(">IQ")


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


def body_span(payload: bytes, at: int = 0) -> tuple[int, int]:
    """Where the content of the data section begins and ends; other sections are skipped [3.2]."""
    while at < len(payload):
        value_at = skip(payload, at + 1)
        if payload[at + 1 : value_at] == bytes((0x53, DATA)):
            return value_at + (2 if payload[value_at] == 0xA0 else 5), skip(payload, value_at)
        at = skip(payload, at)
    raise WireError("a message without a data section: another program publishes to this queue")


class Run(NamedTuple):
    """Deliveries of the same shape with consecutive delivery-ids.

    Their sequence numbers are consecutive and from one publisher as well, unless `scattered` lists each of them.
    """

    deliveries: int
    first_id: int
    publisher: int
    first_sequence: int
    scattered: list[tuple[int, int]] | None
    stamps: Sequence[int]


class Places(NamedTuple):
    """The places in a delivery's bytes that change from one delivery to the next.

    AMQP 0.9.1 deliveries have such places too: there the id is the low half of the delivery-tag, and there is no tag.
    """

    id_at: int
    tag_start: int
    tag_end: int
    body_at: int
    settled: bool


def places_of(frame: bytes, parts: Parts) -> Places:
    """The places in a transfer frame; constructors and the size of the tag do not change."""
    id_at, tag_start = parts.id_span[0] + 1, parts.tag_span[0] + 2
    body_at, _ = body_span(frame, parts.payload_at)
    return Places(id_at, tag_start, parts.tag_span[1], body_at, parts.settled)


class DeliveryShape:
    """The shape of a delivery: only the delivery-id, the tag and the body's numbers may change."""

    __slots__ = (
        "_blank",
        "_body_at",
        "_capacity",
        "_constants",
        "_fields",
        "_free",
        "_id_at",
        "_image",
        "_stamped",
        "settled",
        "stride",
    )

    @staticmethod
    def learnable(frame: bytes, parts: Parts) -> bool:
        """Whether a shape can be learned: the delivery-id has its full width, unlike small ones, and the tag is
        short."""
        return parts.id_span[1] - parts.id_span[0] == 5 and frame[parts.tag_span[0]] == 0xA0 and not parts.more

    def __init__(self, frame: bytes, places: Places, traffic: Traffic) -> None:
        self.stride = len(frame)
        self.settled = places.settled
        self._id_at = places.id_at
        self._body_at = places.body_at
        self._stamped = traffic.stamped
        self._free = (
            *range(self._id_at, self._id_at + 4),
            *range(places.tag_start, places.tag_end),
            *range(self._body_at, self._body_at + traffic.numbers_bytes),
        )
        self._fields, self._constants = self._layout(frame, places.tag_start, places.tag_end)
        blanked = bytearray(frame)
        for at in self._free:
            blanked[at] = 0
        self._capacity = max(1, _RUN_BYTES_MAX // self.stride)
        self._image = bytes(blanked) * self._capacity
        self._blank = bytes(self._capacity)

    def _layout(self, frame: bytes, tag_start: int, tag_end: int) -> tuple[struct.Struct, tuple[bytes, ...]]:
        """The frame as one struct, constants and numbers alternating, and the values of the constants."""
        stamp = "Q" if self._stamped else ""
        id_end, numbers_end = self._id_at + 4, self._body_at + 12 + 8 * self._stamped
        fields = struct.Struct(
            f">{self._id_at}sI{tag_start - id_end}s{tag_end - tag_start}x"
            f"{self._body_at - tag_end}sIQ{stamp}{self.stride - numbers_end}s"
        )
        constants = (
            frame[: self._id_at],
            frame[id_end:tag_start],
            frame[tag_end : self._body_at],
            frame[numbers_end:],
        )
        return fields, constants

    def run(self, data: bytes, at: int) -> Run | None:
        """A run of this shape at `at`, of the length that halving finds; None when the first frame differs."""
        if data[at : at + 4] != self._image[:4]:
            return None
        count = min((len(data) - at) // self.stride, self._capacity)
        if count < FEW:
            return self._few(data, at, count)
        count = equal_prefix(data, at + 3, stride=self.stride, count=count)
        while count:
            if self._like(data, at, count) and (run := self._read(data, at, count)) is not None:
                return run
            count //= 2
        return None

    def _few(self, data: bytes, at: int, count: int) -> Run | None:
        """Find a run of few frames: compare one by one, and only while sequence numbers are consecutive."""
        before_id, before_tag, before_body, after = self._constants
        deliveries = first_id = publisher = first_sequence = 0
        stamps = []
        for row in self._fields.iter_unpack(data[at : at + count * self.stride]):
            if row[0] != before_id or row[2] != before_tag or row[3] != before_body or row[-1] != after:
                break
            if not deliveries:
                first_id, publisher, first_sequence = row[1], row[4], row[5]
            elif (row[1] - first_id, row[4], row[5] - first_sequence) != (deliveries, publisher, deliveries):
                break
            deliveries += 1
            stamps.append(row[6])  # the time stamp; without one, the bytes behind the numbers, which are then ignored
        if not deliveries:
            return None
        return Run(deliveries, first_id, publisher, first_sequence, None, stamps if self._stamped else ())

    def _like(self, data: bytes, at: int, count: int) -> bool:
        end = count * self.stride
        frames = bytearray(data[at : at + end])
        blank = self._blank[:count]
        for offset in self._free:
            frames[offset :: self.stride] = blank
        return frames == self._image[:end]

    def _read(self, data: bytes, at: int, count: int) -> Run | None:
        """Read the run's numbers; None when its delivery-ids are not consecutive."""
        stride, body_at = self.stride, at + self._body_at
        ids = read_column(data, at + self._id_at, stride=stride, count=count, width=4)
        if ids[0] + count > 2**32 or ids != array("I", range(ids[0], ids[0] + count)):
            return None
        publishers = read_column(data, body_at, stride=stride, count=count, width=4)
        sequences = read_column(data, body_at + 4, stride=stride, count=count, width=8)
        publisher, first_sequence = publishers[0], sequences[0]
        expected = array("Q", range(first_sequence, first_sequence + count))
        consecutive = publishers.count(publisher) == count and sequences == expected
        stamps = read_column(data, body_at + 12, stride=stride, count=count, width=8) if self._stamped else ()
        return Run(
            deliveries=count,
            first_id=ids[0],
            publisher=publisher,
            first_sequence=first_sequence,
            scattered=None if consecutive else list(zip(publishers, sequences, strict=True)),
            stamps=stamps,
        )


def numbers_of(body: bytes, traffic: Traffic) -> tuple[int, int, int | None]:
    """Publisher, sequence number and intended send time of a body."""
    publisher, sequence = _NUMBERS.unpack_from(body)
    stamp = struct.unpack_from(">Q", body, _NUMBERS.size)[0] if traffic.stamped else None
    return publisher, sequence, stamp
