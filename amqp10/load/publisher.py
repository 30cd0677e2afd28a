"""The sending end of a link: messages made from stencils, sent as fast as link credit, session window and rate allow.

A message's sequence number is its delivery-tag and its delivery-count: they count this link's messages from 0. On a
session with one sending link it is the delivery-id as well. Frames have the shape of go-amqp's: performative as list32
with four fields (five when settled, six when a message takes several frames), an 8-byte delivery-tag, and one data
section; before it the sections of unlike messages, if they are wanted.

At an offered rate the n-th message is intended at start + n / rate, where publishers start one after the other. It
carries that time, even if it is sent later, so the time for which a broker holds its publisher up counts as latency:
there is no coordinated omission.

Sans-IO: `burst` returns the bytes for the socket, one item per system call.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from hdrh.histogram import HdrHistogram

from amqp10.load import wire
from amqp10.load.content import CONTENT_TYPE, ValueSpan, values_of
from amqp10.load.delivery import spans_of
from amqp10.load.ledger import Arrivals, judge
from amqp10.load.messages import BURST_FRAMES_MAX, MessageUnit, NumberedMessages, body_of
from amqp10.load.outcome_times import OutcomeTimes
from amqp10.load.plan import Application, PlannedTraffic, routing_key
from amqp10.load.wire import SERIAL_MASK, WireError, serial_difference

_HEAD: Final = struct.Struct(">IBBH 3s BII")
_REST: Final = struct.Struct(">BI BBQ B")
_DURABLE_HEADER: Final = b"\x00\x53\x70\xc0\x02\x01\x41"


def exchange_address(exchange: str, key: str) -> str:
    """The v2 address of an exchange with a routing key; neither needs percent-encoding."""
    return f"/exchanges/{exchange}/{key}"


def _transfer_frame(payload: bytes, *, handle: int, settled: bool, more: bool, split: bool, channel: int) -> bytes:
    flags = b"\x41" if settled else b"\x42" if split else b""
    if split:
        flags += b"\x41" if more else b"\x42"
    fields = wire.uint(handle) + _REST.pack(0x70, 0, 0xA0, 8, 0, 0x43) + flags
    size = _HEAD.size + len(fields) + len(payload)
    return _HEAD.pack(size, 2, 0, channel, b"\x00\x53\x14", 0xD0, len(fields) + 4, 4 + len(flags)) + fields + payload


def sections_before_body(application: Application, traffic: PlannedTraffic, body_bytes: int) -> bytes:
    """All that comes before the content of the body, in message 0; every changing value has its full width."""
    sections = _DURABLE_HEADER if traffic.durable else b""
    value = {name: one.raw(application.publisher, 0) for name, one in values_of(traffic).items()}
    if "priority" in value:
        sections = wire.composite(wire.HEADER, wire.boolean(traffic.durable), b"\x50" + value["priority"])
    if "message_id" in value or application.exchange:
        message_id = wire.string(value["message_id"].decode()) if "message_id" in value else wire.NULL
        to = wire.string(exchange_address(application.exchange, routing_key(0))) if application.exchange else wire.NULL
        content_type = wire.symbol(CONTENT_TYPE.decode()) if "content_type" in value else wire.NULL
        blank = wire.NULL
        sections += wire.composite(wire.PROPERTIES, message_id, blank, to, blank, blank, blank, content_type)
    if "order" in value:
        properties = (
            *(wire.string("order"), b"\x81" + value["order"]),
            *(wire.string("trace"), wire.string(value["trace"].decode())),
            *(wire.string("account"), b"\x71" + value["account"]),
        )
        sections += wire.described(wire.APPLICATION_PROPERTIES, wire.map_of(*properties))
    return sections + (
        struct.pack(">3sBB", b"\x00\x53\x75", 0xA0, body_bytes)
        if body_bytes < 256
        else struct.pack(">3sBI", b"\x00\x53\x75", 0xB0, body_bytes)
    )


def message_unit(
    application: Application,
    traffic: PlannedTraffic,
    max_frame_size: int,
    *,
    turn: int = 0,
    channel: int = 0,
    handle: int = 0,
) -> MessageUnit:
    """The frames of a publisher's messages, numbered 0, each no larger than `max_frame_size`. `turn`: which of the
    sizes the body has."""
    body = body_of(application.publisher, traffic, turn)
    before_body = sections_before_body(application, traffic, len(body))
    payload = before_body + body
    settled = traffic.settled
    whole = _transfer_frame(payload, handle=handle, settled=settled, more=False, split=False, channel=channel)
    parts = [payload]
    if len(whole) > max_frame_size:
        room = max_frame_size - (len(whole) - len(payload)) - 2
        if room < len(before_body) + traffic.numbers_bytes:
            raise WireError(f"frames of {max_frame_size} bytes are too small for this generator")
        parts = [payload[at : at + room] for at in range(0, len(payload), room)]
    split = len(parts) > 1
    frames = [
        _transfer_frame(part, handle=handle, settled=settled, more=part is not parts[-1], split=split, channel=channel)
        for part in parts
    ]
    ends = [sum(map(len, frames[: k + 1])) for k in range(len(frames))]
    starts = (0, *ends[:-1])
    payload_at = len(frames[0]) - len(parts[0])
    id_at = _HEAD.size + len(wire.uint(handle)) + 1
    spans = spans_of(payload, 0, values_of(traffic))
    return MessageUnit(
        b"".join(frames),
        tuple(ends),
        payload_at + len(before_body),
        id_offsets=tuple(start + id_at for start in starts),
        tag_offsets=tuple(start + id_at + 10 for start in starts),  # the low half: sequence numbers are below 2^32
        places=tuple(ValueSpan(name, payload_at + start, payload_at + end) for name, start, end in spans.places),
    )


class LinkPublisher:
    """One sending link."""

    def __init__(
        self,
        application: Application,
        traffic: PlannedTraffic,
        max_frame_size: int,
        *,
        channel: int = 0,
        handle: int = 0,
    ) -> None:
        self.publisher = application.publisher
        self._traffic = traffic
        self._batch = application.batch
        units = [
            message_unit(application, traffic, max_frame_size, turn=turn, channel=channel, handle=handle)
            for turn in range(len(traffic.sizes_in_turn))
        ]
        self._messages = NumberedMessages(units, traffic)
        self._bulk = traffic.shape == "bulk"
        self._link_credit = 0
        self._settled = Arrivals()
        self._settled_count = 0
        self._start_ns = -1
        self._end_ns = -1
        self._stopped = False
        self._times = OutcomeTimes() if traffic.timed else None
        self.told: str | None = None
        """Why the broker says that the link waits."""
        self.sent = 0
        self.refused = 0
        self.last_progress_ns = 0

    def start(self, now_ns: int) -> None:
        self.last_progress_ns = now_ns
        self._start_ns = now_ns + self._traffic.lead_ns(self.publisher)
        self._end_ns = now_ns + int(self._traffic.seconds * 1e9)

    @property
    def link_credit(self) -> int:
        return self._link_credit

    @property
    def latency(self) -> HdrHistogram | None:
        """Of confirms, in microseconds; None where it is not measured."""
        return self._times.latency if self._times is not None else None

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
        if self._times is not None:
            self._times.settled(self._settled_count, now_ns)

    # What we send

    def _allowed(self, window: int) -> int:
        """How many messages link credit, session window and our own limits allow, whatever the time."""
        count = min(
            self._traffic.messages_max - self.sent,
            self._link_credit,
            window // self._messages.frames_max,
            self._messages.capacity,
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

    def held_up(self, window: int, now_ns: int) -> str | None:
        """What holds up a message that is to be sent now: what the broker has told, the link credit, the window of the
        session, or our own limit of messages in flight. None when nothing does, and when none is to be sent."""
        if self._stopped or self._start_ns < 0 or self.sent >= self._traffic.messages_max:
            return None
        if self._due(now_ns) <= self.sent if self._traffic.rate else now_ns >= self._end_ns:
            return None
        if self._allowed(window):
            return None
        if not self._link_credit:
            return self.told or "link-credit"
        if window < self._messages.frames_max:
            return self.told or "session-window"
        return "in-flight"

    def wake_ns(self, window: int) -> int | None:
        """When the publisher must act without input from the broker: the next message is due, or the end has come."""
        if self._stopped or self._start_ns < 0:
            return None
        if self._traffic.rate:
            return self._intended_ns(self.sent) if self._allowed(window) else None
        return self._end_ns

    def burst(self, window: int, now_ns: int, first_id: int | None = None) -> tuple[list[bytes | memoryview], int]:
        """The bytes to send now, one item per system call, and the number of frames in them.

        first_id: the delivery-id of the first message; None: its sequence number, on a session with one sending link.
        """
        count = self.ready(window, now_ns)
        if not count:
            return [], 0
        if not self._bulk:
            count = min(count, max(1, BURST_FRAMES_MAX // self._messages.frames_max))
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        if self._times is not None and self._traffic.rate:
            for number in numbers:
                self._times.sent(number + 1, self._intended_ns(number))
        elif self._times is not None:
            self._times.sent(self.sent, now_ns)
        self._link_credit -= count
        self.last_progress_ns = now_ns
        first_id = numbers.start if first_id is None else first_id
        return self._messages.write(numbers, self._intended_ns, first_id=first_id), self._messages.frames(numbers)

    def _intended_ns(self, sequence: int) -> int:
        return self._start_ns + int(sequence * 1e9 / self._traffic.rate)

    def _due(self, now_ns: int) -> int:
        """How many messages are intended by now."""
        return math.floor((now_ns - self._start_ns) * self._traffic.rate / 1e9) + 1
