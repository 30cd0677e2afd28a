"""Does a job with pika at its own speed: a cross-check of the generator's own AMQP 0.9.1 client.

The publishers take turns of a few messages, while the socket has taken all earlier bytes: pika itself would keep any
amount in memory.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from functools import partial

import pika
from pika.channel import Channel
from pika.exceptions import AMQPError
from pika.frame import Method
from pika.spec import Basic

from amqp10.load.amqp091.confirms import ChannelConfirms
from amqp10.load.ledger import Ledger
from amqp10.load.wire import WireError
from bench.together.job import SAMPLE_SECONDS, Job, Report, Sample

TURN_MESSAGES = 20
"""How many messages a turn has. They are few, because pika takes some 50 µs for each, and deliveries wait meanwhile."""
BUFFER_BYTES_MAX = 64 * 1024
PATIENCE_SECONDS = 30.0
_PERSISTENT = pika.BasicProperties(delivery_mode=2)
_PUBLISHER = struct.Struct(">IQ")


class PikaPublisher:
    """A channel that publishes to one queue."""

    def __init__(self, channel: Channel, number: int, queue: str, batch: int) -> None:
        self._channel, self._number, self._queue, self._batch = channel, number, queue, batch
        self._confirms = ChannelConfirms()
        self.sent = 0
        self.refused = 0
        if batch:
            channel.confirm_delivery(self._confirmed)

    def _confirmed(self, frame: Method) -> None:
        before = self._confirms.count
        self._confirms.confirm(frame.method.delivery_tag, multiple=frame.method.multiple, sent=self.sent)
        if isinstance(frame.method, Basic.Nack):
            self.refused += self._confirms.count - before

    @property
    def published(self) -> int:
        """Messages confirmed, or sent without confirms."""
        return self._confirms.count if self._batch else self.sent

    def turn(self) -> int:
        """Publish a few messages, if the batch allows; returns how many."""
        room = TURN_MESSAGES
        if self._batch:
            room = min(room, (self._confirms.count // self._batch + 1) * self._batch - self.sent)
        for sequence in range(self.sent, self.sent + room):
            self._channel.basic_publish("", self._queue, _PUBLISHER.pack(self._number, sequence), _PERSISTENT)
        self.sent += room
        return room


class PikaClient:
    """A connection with a channel for each publisher and one for the consumer."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._channels: list[Channel] = []
        self._wanted = len(job.publish_to) + bool(job.consume_from)
        self._ledger = Ledger()
        self._reason = "the broker did not answer in time"
        self._connection = pika.SelectConnection(
            pika.URLParameters(job.url),
            on_open_callback=self._open_channels,
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
        )
        self._loop = self._connection.ioloop
        self._loop.call_later(PATIENCE_SECONDS, self._loop.stop)
        self._loop.start()
        if len(self._channels) < self._wanted:
            raise WireError(self._reason)
        self._publishers = [
            PikaPublisher(channel, number + 1, queue, job.batch)
            for number, (channel, queue) in enumerate(zip(self._channels, job.publish_to, strict=False))
        ]
        self._samples = [Sample(0.0, (0,) * len(self._publishers), 0)]
        self._start = 0.0

    def _open_channels(self, _: object) -> None:
        for _number in range(self._wanted):
            self._connection.channel(on_open_callback=self._channel_open)

    def _channel_open(self, channel: Channel) -> None:
        channel.add_on_close_callback(self._closed)
        self._channels.append(channel)
        if len(self._channels) == self._wanted:
            self._channels.sort(key=lambda one: int(one.channel_number))
            self._loop.stop()

    def _closed(self, _: object, reason: AMQPError) -> None:
        self._reason = repr(reason)
        self._loop.stop()

    def run(self, over: Callable[[], None]) -> Report:
        """Run until the time is over or the backlog is consumed; then call `over`, and finish pending work."""
        self._start = time.monotonic()
        if self._job.consume_from:
            channel = self._channels[-1]
            channel.basic_qos(prefetch_count=self._job.link_credit)
            channel.basic_consume(self._job.consume_from, partial(self._delivered, channel))
        self._loop.call_later(0, self._turn)
        self._loop.start()
        over()
        faults = "" if self._connection.is_open else self._reason
        refused = sum(one.refused for one in self._publishers)
        return Report(
            samples=tuple(self._samples),
            sent=tuple(one.sent for one in self._publishers),
            received=self._ledger.ranges(),
            faults=faults or (f"{refused} refused" if refused else ""),
        )

    def _turn(self) -> None:
        """Publish a few messages, check the time, and request the next turn."""
        elapsed = time.monotonic() - self._start
        over = elapsed >= self._job.seconds or 0 < self._job.backlog <= self._ledger.total
        if over or elapsed - self._samples[-1].seconds >= SAMPLE_SECONDS:
            published = tuple(one.published for one in self._publishers)
            self._samples.append(Sample(round(elapsed, 4), published, self._ledger.total))
        if over:
            self._loop.stop()
            return
        went = 0
        if self._connection._get_write_buffer_size() < BUFFER_BYTES_MAX:  # pika has no public method for this
            went = sum(one.turn() for one in self._publishers)
        self._loop.call_later(0 if went else 0.001, self._turn)

    def _delivered(
        self, channel: Channel, _: object, deliver: Basic.Deliver, _properties: object, body: bytes
    ) -> None:  # fmt: skip
        publisher, sequence = _PUBLISHER.unpack_from(body)
        self._ledger.add(publisher, sequence, 1)
        channel.basic_ack(deliver.delivery_tag)

    def close(self) -> None:
        """Close; pika first writes its pending output."""
        if self._connection.is_open:
            self._connection.close()
            self._loop.start()
