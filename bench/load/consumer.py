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

from bench.load.delivery import DeliveryShape, Run, body_span, numbers_of, places_of, take_apart
from bench.load.ledger import Ledger
from bench.load.plan import Traffic
from bench.load.wire import ROLE_RECEIVER, SERIAL_MASK, WireError, disposition

LATENCY_MICROSECONDS_MAX = 60_000_000
LATENCY_DIGITS = 3

_ONE_BEFORE_ID = bytes.fromhex("0000001a 02000000 005315 c00d05 41 70")
_ONE_AFTER_ID = bytes.fromhex("40 41 00532445")


def latency_histogram() -> HdrHistogram:
    """A histogram of the time from intended send to arrival, in microseconds."""
    return HdrHistogram(1, LATENCY_MICROSECONDS_MAX, LATENCY_DIGITS)


class Consumer:
    """One receiving link."""

    def __init__(self, traffic: Traffic, link_credit: int) -> None:
        self.delivery_count = 0
        self.ledger = Ledger()
        self.latency = latency_histogram()
        self.corrupted = 0
        self.first_arrival_ns = 0
        self.last_arrival_ns = 0
        self.frames = 0
        self._traffic = traffic
        self._padding = traffic.padding()
        self._bulk = traffic.shape == "bulk"
        self._full_link_credit = link_credit
        self._top_up_below = max(1, link_credit // 2)
        self._link_credit = 0
        self._started = False
        self._shape: DeliveryShape | None = None
        self._partial = bytearray()
        self._partial_id: int | None = None
        self._to_settle: list[tuple[int, int]] = []

    def start(self, now_ns: int) -> None:
        self._started = True
        self.first_arrival_ns = self.last_arrival_ns = now_ns

    # What the broker sends

    def transfers(self, data: bytes, at: int, now_ns: int) -> int:
        """Take the complete transfer frame at `at` and like ones behind it; returns the position after them."""
        if self._shape is not None and (run := self._shape.run(data, at)) is not None:
            self._take_run(run, settled=self._shape.settled, now_ns=now_ns)
            return at + run.deliveries * self._shape.stride
        size: int = struct.unpack_from(">I", data, at)[0]
        self._take_frame(data[at : at + size], now_ns)
        return at + size

    def _take_run(self, run: Run, *, settled: bool, now_ns: int) -> None:
        self.frames += run.deliveries
        self._count(run.first_id, run.deliveries, settled=settled, now_ns=now_ns)
        if run.scattered is None:
            self.ledger.add(run.publisher, run.first_sequence, run.deliveries)
        else:
            for publisher, sequence in run.scattered:
                self.ledger.add(publisher, sequence, 1)
        for stamp in run.stamps:
            self._record(stamp, now_ns)

    def _take_frame(self, frame: bytes, now_ns: int) -> None:
        """Take a frame of an unknown shape, or one of several frames of a message."""
        self.frames += 1
        parts = take_apart(frame)
        if parts.aborted:
            self._partial.clear()
            self._partial_id = None
            return
        if self._partial_id is None:
            self._partial_id = parts.delivery_id
        self._partial += frame[parts.payload_at :]
        if parts.more:
            return
        delivery_id, payload = self._partial_id, bytes(self._partial)
        self._partial_id = None
        self._partial.clear()
        if delivery_id is None:
            raise WireError("a delivery without a delivery-id")
        self._take_message(payload, now_ns)
        self._count(delivery_id, 1, settled=parts.settled, now_ns=now_ns)
        if DeliveryShape.learnable(frame, parts) and len(payload) == len(frame) - parts.payload_at:
            self._shape = DeliveryShape(frame, places_of(frame, parts), self._traffic)

    def _take_message(self, payload: bytes, now_ns: int) -> None:
        start, end = body_span(payload)
        body = payload[start:end]
        if len(body) != self._traffic.size or body[self._traffic.numbers_bytes :] != self._padding:
            self.corrupted += 1
            return
        publisher, sequence, stamp = numbers_of(body, self._traffic)
        self.ledger.add(publisher, sequence, 1)
        if stamp is not None:
            self._record(stamp, now_ns)

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

    def _record(self, stamp_ns: int, now_ns: int) -> None:
        microseconds = (now_ns - stamp_ns) // 1000
        self.latency.record_value(min(max(microseconds, 1), LATENCY_MICROSECONDS_MAX))

    @property
    def link_credit(self) -> int:
        return self._link_credit

    # What we send

    def output(self) -> list[bytes]:
        """The dispositions to send now, one item per system call of an unbatched consumer."""
        due, self._to_settle = self._to_settle, []
        if self._bulk:
            return [disposition(first, last, role=ROLE_RECEIVER) for first, last in due]
        return [
            _ONE_BEFORE_ID + delivery_id.to_bytes(4, "big") + _ONE_AFTER_ID
            for first, last in due
            for delivery_id in range(first, last + 1)
        ]

    def top_up(self) -> int | None:
        """The link credit to announce now; None while enough is left."""
        if not self._started or self._link_credit >= self._top_up_below:
            return None
        self._link_credit = self._full_link_credit
        return self._full_link_credit
