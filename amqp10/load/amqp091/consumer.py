"""The receiving end on a channel of its own: checks every delivery, and acknowledges it unless it consumes with no_ack.

A bulk consumer acknowledges all messages of one read with one basic.ack (multiple), an unbatched one writes a basic.ack
for each message. It checks the order and completeness of sequence numbers (`ledger`), the whole body, and that the
broker never has more than prefetch_count unacknowledged deliveries here.

Deliveries of a run look alike: the first is parsed frame by frame, and the following ones are compared with it, many at
a time (`amqp10.load.delivery.DeliveryShape`). Sans-IO: `output` returns the bytes for the socket.
"""

from __future__ import annotations

import struct

from hdrh.histogram import HdrHistogram

from amqp10.load.amqp091 import wire
from amqp10.load.checks import Checks
from amqp10.load.content import ValueSpan
from amqp10.load.delivery import Places
from amqp10.load.ledger import Ledger
from amqp10.load.plan import PlannedTraffic
from amqp10.load.wire import WireError

_BODY_SIZE_AT = 4
"""The place of the body size in the payload of a header frame: behind class and weight."""
_TAG_AT = 7 + 4 + 2
"""The place of the delivery-tag in a deliver frame: behind the frame's head, the ids, and our consumer tag of one
byte."""


class ChannelConsumer:
    """One consuming channel. `settled` traffic is consumed with no_ack, which prefetch_count does not bind."""

    def __init__(self, traffic: PlannedTraffic, *, channel: int, queue: str, prefetch_count: int) -> None:
        self.channel = channel
        self.last_arrival_ns = 0
        self._checks = Checks(traffic)
        self._settled = traffic.settled
        self._bulk = traffic.shape == "bulk"
        self._queue = queue
        self._prefetch_count = prefetch_count
        self._to_start = False
        self._delivered = 0  # the last delivery-tag, which counts from 1 on each channel
        self._acknowledged = 0

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
        self._to_start = True
        self.last_arrival_ns = now_ns

    # What the broker sends

    def deliveries(self, data: bytes, at: int, now_ns: int) -> int:
        """Take the delivery at `at` and like ones behind it; returns the position after them, `at` if one is
        incomplete."""
        if (known := self._checks.run(data, at, now_ns)) is not None:
            run, shape = known
            self._count(run.first_id, run.deliveries, now_ns)
            return at + run.deliveries * shape.stride
        return self._take_one(data, at, now_ns)

    def _take_one(self, data: bytes, at: int, now_ns: int) -> int:
        """Take a delivery frame by frame: basic.deliver, the header, and all its body frames."""
        if (deliver := wire.frame_at(data, at)) is None or (header := wire.frame_at(data, deliver[1])) is None:
            return at
        if header[0].kind != wire.HEADER_FRAME:
            raise WireError(f"basic.deliver was followed by a frame of type {header[0].kind}")
        size: int = struct.unpack_from(">Q", header[0].payload, _BODY_SIZE_AT)[0]
        parts, end, missing = [], header[1], size
        while missing > 0:
            if (found := wire.frame_at(data, end)) is None:
                return at
            if found[0].kind != wire.BODY_FRAME:
                raise WireError(f"{missing} bytes of a body are missing and a frame of type {found[0].kind} came")
            parts.append(found[0].payload)
            missing -= len(parts[-1])
            end = found[1]
        tag: int = struct.unpack_from(">Q", data, at + _TAG_AT)[0]
        self._count(tag, 1, now_ns)
        whole, header_at = data[at:end], deliver[1] - at
        places = wire.value_places(whole, header_at, self._checks.values)
        if self._checks.message(whole, places, b"".join(parts), 0, now_ns) and len(parts) == 1:
            self._checks.learn(whole, self._places(places, header_at, len(whole) - 1 - size))
        return end

    def _places(self, values: list[ValueSpan], header_at: int, body_at: int) -> Places:
        size_at = header_at + wire.FRAME_HEAD.size + _BODY_SIZE_AT
        low_half, behind = _TAG_AT + 4, _TAG_AT + 8
        return Places(
            size_at=size_at,
            size_end=size_at + 8,
            id_at=low_half,
            tag_start=behind,
            tag_end=behind,
            values=tuple(values),
            body_at=body_at,
            settled=self._settled,
        )

    def _count(self, first_tag: int, count: int, now_ns: int) -> None:
        if first_tag != self._delivered + 1:
            raise WireError(f"delivery-tag {first_tag} came after {self._delivered}")
        self._delivered += count
        self.last_arrival_ns = now_ns
        unacknowledged = self._delivered - self._acknowledged
        if not self._settled and 0 < self._prefetch_count < unacknowledged:
            raise WireError(f"{unacknowledged} deliveries are unacknowledged, prefetch_count is {self._prefetch_count}")

    # What we send

    def output(self) -> list[bytes]:
        """The bytes to send now, one item per system call of an unbatched consumer."""
        if self._to_start:
            self._to_start = False
            return [wire.consume(self.channel, self._queue, no_ack=self._settled)]
        first, last = self._acknowledged + 1, self._delivered
        self._acknowledged = last
        if self._settled or first > last:
            return []
        if self._bulk:
            return [wire.ack(self.channel, last, multiple=True)]
        return [wire.ack(self.channel, tag, multiple=False) for tag in range(first, last + 1)]
