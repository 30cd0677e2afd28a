"""The load process with pika: AMQP 0.9.1, a channel for publishing and one for consuming.

pika itself would keep any number of publishes in memory, so a publisher waits while the socket has not taken the
earlier ones. Each delivery is acknowledged on its own.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import pika
from pika.channel import Channel
from pika.exceptions import AMQPError
from pika.frame import Method
from pika.spec import Basic

from amqp10.load.amqp091.confirms import ChannelConfirms
from amqp10.load.plan import Plan
from amqp10.load.stages import Orders, carry_out
from amqp10.load.wire import WireError
from bench.clients.messages import Content, MessageChecker, Messages
from bench.clients.pace import Pace
from bench.clients.programs import destinations

WAIT_SECONDS = 0.05
FRAME_BYTES_MAX = 131072
"""The largest that pika takes."""
BUFFER_BYTES_MAX = 64 * 1024
_PERSISTENT = 2


class PikaLoop:
    """pika's connection, driven turn by turn."""

    def __init__(self, plan: Plan, orders: Orders) -> None:
        [self._application] = plan.applications
        self._traffic, self._orders = plan.traffic, orders
        self._messages, self._destinations = Messages(plan.traffic), destinations(plan)
        self._confirms = ChannelConfirms()
        self._reason = ""
        self._publishing: Channel | None = None
        self._consuming: Channel | None = None
        self.publishers = [Pace(self._application.publisher, plan.traffic)] if self._application.publishes else []
        self.consumers = [MessageChecker(plan.traffic)] if self._application.consume_from else []
        self.broker: dict[str, str] = {}
        parameters = pika.URLParameters(plan.url)
        parameters.frame_max = min(plan.max_frame_size, FRAME_BYTES_MAX)
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=self._open_channels,
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
        )
        self._loop = self._connection.ioloop
        self._loop.activate_poller()
        self._loop.add_handler(orders.descriptor, self._read_orders, self._loop.READ)

    def _read_orders(self, descriptor: int, _events: int) -> None:
        self._orders.read()
        if self._orders.ended:
            self._loop.remove_handler(descriptor)

    def _closed(self, _: object, reason: AMQPError) -> None:
        self._reason = self._reason or repr(reason)

    def _open_channels(self, _: object) -> None:
        properties = self._connection.server_properties or {}
        self.broker = {name: value for name, value in properties.items() if isinstance(value, str)}
        if self.publishers:
            self._connection.channel(on_open_callback=self._publishing_open)
        if self.consumers:
            self._connection.channel(on_open_callback=self._consuming_open)

    def _publishing_open(self, channel: Channel) -> None:
        channel.add_on_close_callback(self._closed)
        if self._traffic.settled:
            self._publishing = channel
        else:
            channel.confirm_delivery(self._confirmed, lambda _: setattr(self, "_publishing", channel))

    def _consuming_open(self, channel: Channel) -> None:
        channel.add_on_close_callback(self._closed)
        prefetch_count = self._application.link_credit
        channel.basic_qos(prefetch_count=prefetch_count, callback=lambda _: setattr(self, "_consuming", channel))

    @property
    def attached(self) -> bool:
        """Whether all channels are open."""
        return (not self.publishers or self._publishing is not None) and (
            not self.consumers or self._consuming is not None
        )

    def start(self, now_ns: int) -> None:
        """Begin to publish and consume."""
        for pace in self.publishers:
            pace.start(now_ns)
        if self._consuming is not None:
            self.consumers[0].last_arrival_ns = now_ns
            delivered = partial(self._delivered, self._consuming, self.consumers[0])
            self._consuming.basic_consume(self._application.consume_from, delivered, auto_ack=self._traffic.settled)

    def turn(self) -> None:
        """Publish a few messages, then wait for the socket, or for the next message to send."""
        wait = sum(self._publish(pace) for pace in self.publishers) == 0
        now_ns = time.monotonic_ns()
        seconds = min((pace.wait_seconds(now_ns, WAIT_SECONDS) for pace in self.publishers), default=WAIT_SECONDS)
        timer = self._loop.call_later(seconds if wait else 0, lambda: None)
        self._loop.poll()
        self._loop.process_timeouts()
        self._loop.remove_timeout(timer)
        if self._reason:
            raise WireError(f"the broker closed a channel or the connection: {self._reason}")

    def _publish(self, pace: Pace) -> int:
        """Publish what is due; returns how much."""
        if self._publishing is None or self._connection._get_write_buffer_size() >= BUFFER_BYTES_MAX:
            return 0  # pika has no public method for the size of its buffer
        due = pace.due(time.monotonic_ns())
        for sequence in due:
            to = self._destinations[sequence % len(self._destinations)]
            body = self._messages.body(pace.publisher, sequence, pace.intended_ns(sequence))
            self._publishing.basic_publish(to.exchange, to.routing_key, body, self._properties(pace, sequence))
        return len(due)

    def _properties(self, pace: Pace, sequence: int) -> pika.BasicProperties:
        content = self._messages.content(pace.publisher, sequence)
        return pika.BasicProperties(
            delivery_mode=_PERSISTENT if self._traffic.durable else None,
            message_id=content.message_id,
            content_type=content.content_type,
            headers=content.properties or None,
            priority=content.priority,
        )

    def _confirmed(self, frame: Method) -> None:
        before, pace = self._confirms.count, self.publishers[0]
        self._confirms.confirm(frame.method.delivery_tag, multiple=frame.method.multiple, sent=pace.sent)
        count = self._confirms.count - before + self._confirms.repeated
        self._confirms.repeated = 0
        pace.outcome(count, accepted=isinstance(frame.method, Basic.Ack), now_ns=time.monotonic_ns())

    def _delivered(
        self, channel: Channel, checker: MessageChecker, _: object, deliver: Basic.Deliver,
        properties: pika.BasicProperties, body: bytes,
    ) -> None:  # fmt: skip
        content = Content(
            properties.message_id, properties.content_type, properties.headers or {}, properties.priority
        )  # fmt: skip
        checker.take(body, content, time.monotonic_ns())
        if not self._traffic.settled:
            channel.basic_ack(deliver.delivery_tag)

    def close(self) -> None:
        """Close; pika first writes its pending output."""
        self._connection.close()
        while not self._connection.is_closed:
            self._loop.poll()
            self._loop.process_timeouts()


if __name__ == "__main__":
    sys.exit(carry_out(PikaLoop, AMQPError))
