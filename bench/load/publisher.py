"""The sending end of a link: messages made from stencils, sent as fast as link credit, session window and rate allow.

A message's sequence number is its delivery-id, its delivery-tag and its delivery-count all at once: they all count this
link's messages from 0. Frames have the shape of go-amqp's: performative as list32 with four fields (five when settled,
six when a message takes several frames), an 8-byte delivery-tag, and one data section.

At an offered rate the n-th message is intended at start + n / rate. It carries that time, even if it is sent later, so
the time for which a broker holds its publisher up counts as latency: there is no coordinated omission.

Sans-IO: `burst` returns the bytes for the socket, one item per system call.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from bench.load.ledger import Arrivals, judge
from bench.load.plan import Traffic
from bench.load.stencil import Stencil
from bench.load.wire import SERIAL_MASK, WireError, serial_difference

BURST_BYTES_MAX = 128 * 1024
"""Bytes that a bulk client passes to one system call; the figure of the reference measurements."""
BURST_FRAMES_MAX = 16
"""Frames that an unbatched client sends, each by its own call, before it reads its input."""

_TRANSFER = struct.Struct(">IBBH 3s BII BBI BBQ B")
_ID_AT = 22
_TAG_AT = 32  # the low half: sequence numbers are below 2^32
_SEQUENCE_LOW = 8  # the low half of the sequence number within a body
_STAMP = 12
_DURABLE_HEADER = b"\x00\x53\x70\xc0\x02\x01\x41"


@dataclass(frozen=True, slots=True)
class Unit:
    """The frames of one message, with the places of its numbers."""

    data: bytes
    frame_ends: tuple[int, ...]
    body_at: int

    @property
    def count_offsets(self) -> list[int]:
        """The places of the low half of the sequence number: in every delivery-id and tag, and in the body."""
        starts = (0, *self.frame_ends[:-1])
        return [start + at for start in starts for at in (_ID_AT, _TAG_AT)] + [self.body_at + _SEQUENCE_LOW]


def _transfer_frame(payload: bytes, *, settled: bool, more: bool, split: bool, channel: int) -> bytes:
    flags = b"\x41" if settled else b"\x42" if split else b""
    if split:
        flags += b"\x41" if more else b"\x42"
    fields_bytes = 17 + len(flags)
    head = _TRANSFER.pack(
        _TRANSFER.size + len(flags) + len(payload), 2, 0, channel,
        b"\x00\x53\x14", 0xD0, fields_bytes + 4, 4 + len(flags),
        0x43, 0x70, 0, 0xA0, 8, 0, 0x43,
    )  # fmt: skip
    return head + flags + payload


def message_unit(publisher: int, traffic: Traffic, max_frame_size: int, channel: int = 0) -> Unit:
    """The frames of this publisher's messages, numbered 0, each no larger than `max_frame_size`."""
    body = struct.pack(">IQ", publisher, 0) + bytes(traffic.numbers_bytes - _STAMP) + traffic.padding()
    data_section = (
        struct.pack(">3sBB", b"\x00\x53\x75", 0xA0, len(body))
        if len(body) < 256
        else (struct.pack(">3sBI", b"\x00\x53\x75", 0xB0, len(body)))
    )
    before_body = (_DURABLE_HEADER if traffic.durable else b"") + data_section
    payload = before_body + body
    settled = traffic.settled
    whole = _transfer_frame(payload, settled=settled, more=False, split=False, channel=channel)
    if len(whole) <= max_frame_size:
        return Unit(whole, (len(whole),), len(whole) - len(body))
    room = max_frame_size - _TRANSFER.size - 2
    if room < len(before_body) + traffic.numbers_bytes:
        raise WireError(f"frames of {max_frame_size} bytes are too small for this generator")
    frames = [
        _transfer_frame(part, settled=settled, more=at + room < len(payload), split=True, channel=channel)
        for at, part in ((at, payload[at : at + room]) for at in range(0, len(payload), room))
    ]
    ends = [sum(map(len, frames[: k + 1])) for k in range(len(frames))]
    return Unit(b"".join(frames), tuple(ends), _TRANSFER.size + 2 + len(before_body))


class Publisher:
    """One sending link."""

    def __init__(
        self, publisher: int, traffic: Traffic, max_frame_size: int, *, batch: int = 0, channel: int = 0
    ) -> None:
        self.publisher = publisher
        self._traffic = traffic
        self._batch = batch
        self._unit = message_unit(publisher, traffic, max_frame_size, channel)
        self._offsets = self._unit.count_offsets
        self._stencil = Stencil(self._unit.data, max(1, BURST_BYTES_MAX // len(self._unit.data)))
        self._bulk = traffic.shape == "bulk"
        self._link_credit = 0
        self._settled = Arrivals()
        self._settled_count = 0
        self._start_ns = -1
        self._end_ns = -1
        self._stopped = False
        self.sent = 0
        self.refused = 0
        self.last_progress_ns = 0

    def start(self, now_ns: int) -> None:
        self._start_ns = self.last_progress_ns = now_ns
        self._end_ns = now_ns + int(self._traffic.seconds * 1e9)

    @property
    def frames_per_message(self) -> int:
        return len(self._unit.frame_ends)

    @property
    def link_credit(self) -> int:
        return self._link_credit

    @property
    def confirmed(self) -> int:
        """Messages with an outcome."""
        return self._settled_count

    @property
    def finished(self) -> bool:
        """Whether everything is sent, and settled where the broker settles."""
        return self._stopped and (self._traffic.settled or self._settled_count >= self.sent)

    @property
    def unconfirmed(self) -> int:
        """Messages without an outcome; counts a message settled twice as well. Anything but 0 is a fault."""
        if self._traffic.settled:
            return 0
        verdict = judge({0: self.sent}, [{0: self._settled.ranges()}])
        return verdict.lost + verdict.duplicated + verdict.foreign

    # What the broker says

    def flow_received(self, delivery_count: int | None, link_credit: int) -> None:
        """Set the link credit: what the broker has granted, less the messages that it has not counted yet [2.6.7]."""
        seen = 0 if delivery_count is None else delivery_count
        self._link_credit = max(0, serial_difference((seen + link_credit) & SERIAL_MASK, self.sent))

    def settled(self, first: int, last: int, *, accepted: bool, now_ns: int) -> None:
        count = serial_difference(last, first) + 1
        self._settled.add(first, count)
        self._settled_count += count
        if not accepted:
            self.refused += count
        self.last_progress_ns = now_ns

    # What we send

    def _allowed(self, window: int) -> int:
        """How many messages link credit, session window and our own limits allow, whatever the time."""
        count = min(
            self._traffic.messages_max - self.sent,
            self._link_credit,
            window // self.frames_per_message,
            self._stencil.capacity,
        )
        if self._traffic.in_flight and not self._traffic.settled:
            count = min(count, self._traffic.in_flight - (self.sent - self._settled_count))
        if self._batch and not self._traffic.settled:
            count = min(count, (self._settled_count // self._batch + 1) * self._batch - self.sent)
        return max(0, count)

    def ready(self, window: int, now_ns: int) -> int:
        """How many messages may be sent now."""
        if self._stopped or self._start_ns < 0:
            return 0
        if self.sent >= self._traffic.messages_max or (not self._traffic.rate and now_ns >= self._end_ns):
            self._stopped = True
            return 0
        allowed = self._allowed(window)
        return min(allowed, self._due(now_ns) - self.sent) if self._traffic.rate else allowed

    def wake_ns(self, window: int) -> int | None:
        """When the publisher must act without input from the broker: the next message is due, or the end has come."""
        if self._stopped or self._start_ns < 0:
            return None
        if self._traffic.rate:
            return self._intended_ns(self.sent) if self._allowed(window) else None
        return self._end_ns

    def burst(self, window: int, now_ns: int) -> tuple[list[memoryview], int]:
        """The bytes to send now, one item per system call, and the number of frames in them."""
        count = self.ready(window, now_ns)
        if not count:
            return [], 0
        if not self._bulk:
            count = min(count, max(1, BURST_FRAMES_MAX // self.frames_per_message))
        numbers = range(self.sent, self.sent + count)
        self._stencil.write(self._offsets, numbers, width=4)
        if self._traffic.stamped:
            stamps = [self._intended_ns(number) for number in numbers]
            self._stencil.write((self._unit.body_at + _STAMP,), stamps, width=8)
        self.sent += count
        self._link_credit -= count
        self.last_progress_ns = now_ns
        view = self._stencil.take(count)
        return ([view] if self._bulk else self._frames(view)), count * self.frames_per_message

    def _frames(self, view: memoryview) -> list[memoryview]:
        starts = (0, *self._unit.frame_ends[:-1])
        spans = list(zip(starts, self._unit.frame_ends, strict=True))
        size = self._stencil.stride
        return [view[at + a : at + b] for at in range(0, len(view), size) for a, b in spans]

    def _intended_ns(self, sequence: int) -> int:
        return self._start_ns + int(sequence * 1e9 / self._traffic.rate)

    def _due(self, now_ns: int) -> int:
        """How many messages are intended by now."""
        return int((now_ns - self._start_ns) * self._traffic.rate / 1e9) + 1
