"""The receiving end of a link: checks every delivery, settles it, and tops up link credit.

Link credit is set to its full amount when the link starts and again whenever less than half of it is left, as the
brokers' documents advise for 200. A bulk consumer settles the deliveries of one read with one range per run of
delivery-ids; an unbatched one writes a disposition for each message.

It checks the order and completeness of sequence numbers (`ledger`), the whole body, and that the broker never delivers
beyond the link credit. Sans-IO: `output` returns the bytes for the socket.
"""

from __future__ import annotations

import struct

from hdrh.histogram import HdrHistogram

from amqp10.load.checks import Checks
from amqp10.load.delivery import DeliveryRun, DeliveryShape, Parts, places_of, spans_of, take_apart
from amqp10.load.ledger import Ledger
from amqp10.load.plan import PlannedTraffic
from amqp10.load.wire import ROLE_RECEIVER, SERIAL_MASK, WireError, disposition

_ONE_BEFORE_ID = bytes.fromhex("005315 c00d05 41 70")
_SIZE_BYTES = 4
_ONE_AFTER_ID = bytes.fromhex("40 41 00532445")


class LinkConsumer:
    """One receiving link."""

    def __init__(self, traffic: PlannedTraffic, link_credit: int, *, channel: int = 0) -> None:
        self.delivery_count = 0
        self.last_arrival_ns = 0
        self.frames = 0
        self._checks = Checks(traffic)
        self._bulk = traffic.shape == "bulk"
        self._channel = channel
        self._before_id = struct.pack(">IBBH", 26, 2, 0, channel) + _ONE_BEFORE_ID
        self._full_link_credit = link_credit
        self._top_up_below = max(1, link_credit // 2)
        self._link_credit = 0
        self._started = False
        self._partial: list[memoryview] = []
        self._partial_id: int | None = None
        self._to_settle: list[tuple[int, int]] = []
        self._parts: Parts | None = None
        """Those of the last frame that was parsed. Most frames of a large message are alike up to the payload, but for
        their sizes, and are not parsed again."""
        self._before_payload = b""
        """The bytes of that frame between its size and its payload."""

    @property
    def ledger(self) -> Ledger:
        return self._checks.ledger

    @property
    def latency(self) -> HdrHistogram:
        return self._checks.latency

    @property
    def corrupted(self) -> int:
        return self._checks.corrupted

    def start(self, now_ns: int) -> None:
        self._started = True
        self.last_arrival_ns = now_ns

    # What the broker sends

    def transfers(self, data: bytes, at: int, now_ns: int) -> int:
        """Take the complete transfer frame at `at` and like ones behind it; returns the position after them."""
        if (known := self._checks.run(data, at, now_ns)) is not None:
            run, shape = known
            self._count_run(run, shape, now_ns)
            return at + run.deliveries * shape.stride
        size: int = struct.unpack_from(">I", data, at)[0]
        self._take_frame(data, at, at + size, now_ns)
        return at + size

    def _count_run(self, run: DeliveryRun, shape: DeliveryShape, now_ns: int) -> None:
        self.frames += run.deliveries
        self._count(run.first_id, run.deliveries, settled=shape.settled, now_ns=now_ns)

    def _take_frame(self, data: bytes, at: int, end: int, now_ns: int) -> None:
        """Take a frame of an unknown shape, or one of several frames of a message."""
        self.frames += 1
        parts = self._parts
        if parts is None or not data.startswith(self._before_payload, at + _SIZE_BYTES):
            parts = self._parts = take_apart(data[at:end])
            self._before_payload = data[at + _SIZE_BYTES : at + parts.payload_at]
        if parts.aborted:
            self._partial.clear()
            self._partial_id = None
            return
        if self._partial_id is None:
            self._partial_id = parts.delivery_id
        self._partial.append(memoryview(data)[at + parts.payload_at : end])
        if parts.more:
            return
        delivery_id, payload, whole = self._partial_id, b"".join(self._partial), len(self._partial) == 1
        self._partial_id, self._partial = None, []
        if delivery_id is None:
            raise WireError("a delivery without a delivery-id")
        spans = spans_of(payload, 0, self._checks.values)
        if spans.body_end < len(payload):  # a section behind the body
            payload = payload[: spans.body_end]
        as_sent = self._checks.message(payload, spans.places, payload, spans.body_start, now_ns)
        self._count(delivery_id, 1, settled=parts.settled, now_ns=now_ns)
        if as_sent and whole and DeliveryShape.learnable(frame := data[at:end], parts):
            self._checks.learn(frame, places_of(frame, parts, spans))

    def _count(self, first_id: int, count: int, *, settled: bool, now_ns: int) -> None:
        self._link_credit -= count
        if self._link_credit < 0:
            raise WireError(f"the broker delivered {-self._link_credit} messages beyond the link credit")
        self.delivery_count = (self.delivery_count + count) & SERIAL_MASK
        self.last_arrival_ns = now_ns
        if settled:
            return
        if self._to_settle and self._to_settle[-1][1] + 1 == first_id:
            self._to_settle[-1] = (self._to_settle[-1][0], first_id + count - 1)
        else:
            self._to_settle.append((first_id, first_id + count - 1))

    @property
    def link_credit(self) -> int:
        return self._link_credit

    # What we send

    def output(self) -> list[bytes]:
        """The dispositions to send now, one item per system call of an unbatched consumer."""
        due, self._to_settle = self._to_settle, []
        if self._bulk:
            return [disposition(first, last, role=ROLE_RECEIVER, channel=self._channel) for first, last in due]
        before_id = self._before_id
        return [
            before_id + delivery_id.to_bytes(4, "big") + _ONE_AFTER_ID
            for first, last in due
            for delivery_id in range(first, last + 1)
        ]

    def top_up(self) -> int | None:
        """The link credit to announce now; None while enough is left."""
        if not self._started or self._link_credit >= self._top_up_below:
            return None
        self._link_credit = self._full_link_credit
        return self._full_link_credit
