"""The sending end on a channel of its own: publishes made from stencils, sent as fast as the socket and our limits
allow.

AMQP 0.9.1 gives a publisher no link credit: it is held up only by a socket that takes no bytes. Publish numbers count
from 1 with confirm.select, sequence numbers from 0. A bulk publisher passes many publishes to one system call, an
unbatched one makes a system call for each publish (method, header and body together).

Sans-IO: `burst` returns the bytes for the socket, one item per system call.
"""

from __future__ import annotations

import math

from hdrh.histogram import HdrHistogram

from amqp10.load.amqp091 import wire
from amqp10.load.amqp091.confirms import ChannelConfirms
from amqp10.load.content import values_of
from amqp10.load.messages import BURST_FRAMES_MAX, MessageUnit, NumberedMessages, body_of
from amqp10.load.outcome_times import OutcomeTimes
from amqp10.load.plan import Application, PlannedTraffic, routing_key
from amqp10.load.wire import WireError


def message_unit(
    application: Application, traffic: PlannedTraffic, *, turn: int, channel: int, frame_max: int
) -> MessageUnit:
    """The frames of a publisher's message, numbered 0; `turn`: which of the sizes its body has."""
    if frame_max < wire.FRAME_EXTRA + traffic.numbers_bytes:
        raise WireError(f"frames of {frame_max} bytes are too small for this generator")
    values = values_of(traffic)
    data, header_at, body_at = wire.publish(
        channel,
        application.exchange,
        routing_key(0) if application.exchange else application.publish_to,
        body_of(application.publisher, traffic, turn),
        properties=wire.properties(
            persistent=traffic.durable,
            value={name: value.raw(application.publisher, 0) for name, value in values.items()},
        ),
        frame_max=frame_max,
    )
    return MessageUnit(data, (len(data),), body_at, places=tuple(wire.value_places(data, header_at, values)))


class ChannelPublisher:
    """One publishing channel.

    burst_max: messages in one burst; 0 for as many as fit into 128 KiB. A small number where another publisher or a
    consumer shares the connection, so that they take turns.
    """

    def __init__(
        self, application: Application, traffic: PlannedTraffic, *, channel: int, frame_max: int, burst_max: int = 0
    ) -> None:
        self.publisher = application.publisher
        self.channel = channel
        self._traffic = traffic
        self._batch = application.batch
        units = [
            message_unit(application, traffic, turn=turn, channel=channel, frame_max=frame_max)
            for turn in range(len(traffic.sizes_in_turn))
        ]
        self._messages = NumberedMessages(units, traffic, at_once_max=burst_max)
        self._bulk = traffic.shape == "bulk"
        self._confirming = not traffic.settled
        self._confirms = ChannelConfirms()
        self._times = OutcomeTimes() if traffic.timed else None
        self._start_ns = -1
        self._end_ns = -1
        self._stopped = False
        self.sent = 0
        self.refused = 0
        self.last_progress_ns = 0

    def start(self, now_ns: int) -> None:
        self.last_progress_ns = now_ns
        self._start_ns = now_ns + self._traffic.lead_ns(self.publisher)
        self._end_ns = now_ns + int(self._traffic.seconds * 1e9)

    @property
    def latency(self) -> HdrHistogram | None:
        """Of confirms, in microseconds; None where it is not measured."""
        return self._times.latency if self._times is not None else None

    @property
    def confirmed(self) -> int:
        return self._confirms.count

    @property
    def finished(self) -> bool:
        """Whether everything is sent, and confirmed where confirms are used."""
        return self._stopped and (not self._confirming or self.confirmed >= self.sent)

    @property
    def unconfirmed(self) -> int:
        """Messages without a confirm, and superfluous confirms. Anything but 0 is a fault."""
        return abs(self.sent - self.confirmed) + self._confirms.repeated if self._confirming else 0

    # What the broker says

    def acks(self, data: bytes, at: int, now_ns: int) -> int:
        """Take the complete basic.ack at `at` and like ones behind it; returns the position after them."""
        self.last_progress_ns = now_ns
        at = self._confirms.take(data, at, self.sent)
        if self._times is not None:
            self._times.settled(self._confirms.count, now_ns)
        return at

    def nack(self, number: int, *, multiple: bool) -> None:
        """Note that the broker refused one message, or all unconfirmed ones up to it."""
        before = self.confirmed
        self._confirms.confirm(number, multiple=multiple, sent=self.sent)
        self.refused += self.confirmed - before

    # What we send

    def _allowed(self) -> int:
        """How many messages our own limits allow, whatever the time."""
        count = min(self._traffic.messages_max - self.sent, self._messages.capacity)
        if self._confirming and self._traffic.in_flight:
            count = min(count, self._traffic.in_flight - (self.sent - self.confirmed))
        if self._confirming and self._batch:
            count = min(count, (self.confirmed // self._batch + 1) * self._batch - self.sent)
        return max(0, count)

    def ready(self, now_ns: int) -> int:
        """How many messages may be sent now."""
        if self._stopped or self._start_ns < 0:
            return 0
        if self.sent >= self._traffic.messages_max or (not self._traffic.rate and now_ns >= self._end_ns):
            self._stopped = True
            return 0
        allowed = self._allowed()
        return min(allowed, self._due(now_ns) - self.sent) if self._traffic.rate else allowed

    def held_up(self, now_ns: int) -> str | None:
        """What holds up a message that is to be sent now: our own limit of messages in flight. None when nothing does,
        and when none is to be sent."""
        if self._stopped or self._start_ns < 0 or self.sent >= self._traffic.messages_max:
            return None
        if self._due(now_ns) <= self.sent if self._traffic.rate else now_ns >= self._end_ns:
            return None
        return None if self._allowed() else "in-flight"

    @property
    def wants_to_send(self) -> bool:
        """Whether it has messages left to send."""
        return self._start_ns >= 0 and not self._stopped

    def wake_ns(self) -> int | None:
        """When the publisher must act without input from the broker: the next message is due, or the end has come."""
        if self._stopped or self._start_ns < 0:
            return None
        if self._traffic.rate:
            return self._intended_ns(self.sent) if self._allowed() else None
        return self._end_ns

    def burst(self, now_ns: int) -> list[bytes | memoryview]:
        """The bytes to send now, one item per system call; valid until the next call."""
        count = self.ready(now_ns)
        if not count:
            return []
        if not self._bulk:
            count = min(count, BURST_FRAMES_MAX)
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        self.last_progress_ns = now_ns
        if self._times is not None and self._traffic.rate:
            for number in numbers:
                self._times.sent(number + 1, self._intended_ns(number))
        elif self._times is not None:
            self._times.sent(self.sent, now_ns)
        return self._messages.write(numbers, self._intended_ns)

    def _intended_ns(self, sequence: int) -> int:
        return self._start_ns + int(sequence * 1e9 / self._traffic.rate)

    def _due(self, now_ns: int) -> int:
        return math.floor((now_ns - self._start_ns) * self._traffic.rate / 1e9) + 1
