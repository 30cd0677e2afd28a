"""The load process with python-qpid-proton: AMQP 1.0, a sending and a receiving link.

The receiver's link credit is topped up when half of it is used, as proton's documents advise, and each delivery is
accepted and settled on its own.
"""

from __future__ import annotations

import sys
import time

from proton import Delivery, Endpoint, Event, Message, ProtonException, Receiver, Sender
from proton.reactor import AtLeastOnce, AtMostOnce, Container

from amqp10.load.endpoint import queue_address
from amqp10.load.plan import Plan
from amqp10.load.stages import Orders, carry_out
from amqp10.load.wire import WireError
from bench.clients.messages import DEFAULT_PRIORITY, Content, MessageChecker, Messages
from bench.clients.pace import Pace
from bench.clients.programs import destinations

WAIT_SECONDS = 0.001
"""Short, because proton waits for its own sockets only, not for orders."""


class ProtonLoop:
    """proton's container, driven turn by turn, and the handler of its events."""

    def __init__(self, plan: Plan, orders: Orders) -> None:
        [self._application] = plan.applications
        self._traffic, self._orders = plan.traffic, orders
        self._messages, self._destinations = Messages(plan.traffic), destinations(plan)
        self._fault = ""
        self._started = False
        self.publishers = [Pace(self._application.publisher, plan.traffic)] if self._application.publishes else []
        self.consumers = [MessageChecker(plan.traffic)] if self._application.consume_from else []
        self.broker: dict[str, str] = {}
        self._container = Container(self)
        self._container.start()
        self._connection = self._container.connect(
            plan.url, reconnect=False, sasl_enabled=True, allowed_mechs="PLAIN", max_frame_size=plan.max_frame_size
        )
        mode = AtMostOnce() if plan.traffic.settled else AtLeastOnce()
        self._sender: Sender | None = None
        self._receiver: Receiver | None = None
        if self.publishers:
            target = None if self._application.exchange else self._destinations[0].address
            self._sender = self._container.create_sender(self._connection, target, name="publishing", options=mode)
        if self.consumers:
            source = queue_address(self._application.consume_from)
            self._receiver = self._container.create_receiver(self._connection, source, name="consuming", options=mode)

    @property
    def attached(self) -> bool:
        """Whether the broker has answered all attaches."""
        links = [link for link in (self._sender, self._receiver) if link is not None]
        return all(link.state & Endpoint.REMOTE_ACTIVE for link in links)

    def start(self, now_ns: int) -> None:
        """Begin to publish and consume."""
        self._started = True
        for pace in self.publishers:
            pace.start(now_ns)
        for checker in self.consumers:
            checker.last_arrival_ns = now_ns

    def turn(self) -> None:
        """Publish a few messages, then wait for the socket, or for the next message to send."""
        self._orders.read()
        full = self._application.link_credit
        if self._started and self._receiver is not None and self._receiver.credit < max(1, full // 2):
            self._receiver.flow(full - self._receiver.credit)
        went = sum(self._publish(pace, self._sender) for pace in self.publishers if self._sender is not None)
        now_ns = time.monotonic_ns()
        seconds = min((pace.wait_seconds(now_ns, WAIT_SECONDS) for pace in self.publishers), default=WAIT_SECONDS)
        self._container.timeout = 0 if went else seconds
        self._container.process()
        if self._fault:
            raise WireError(self._fault)

    def _publish(self, pace: Pace, sender: Sender) -> int:
        """Publish what is due, as link credit allows; returns how much."""
        due = pace.due(time.monotonic_ns(), sender.credit)
        for sequence in due:
            sender.send(self._message(pace, sequence))
        return len(due)

    def _message(self, pace: Pace, sequence: int) -> Message:
        content = self._messages.content(pace.publisher, sequence)
        to = self._destinations[sequence % len(self._destinations)].address if self._application.exchange else None
        return Message(
            self._messages.body(pace.publisher, sequence, pace.intended_ns(sequence)),
            inferred=True,
            durable=self._traffic.durable,
            address=to,
            id=content.message_id,
            content_type=content.content_type,
            properties=content.properties or None,
            priority=DEFAULT_PRIORITY if content.priority is None else content.priority,
        )

    def close(self) -> None:
        """Close, once pending output is written."""
        self._connection.close()
        while self._connection.state & Endpoint.REMOTE_ACTIVE and not self._fault:
            self._container.process()

    # --- what proton calls

    def on_connection_remote_open(self, event: Event) -> None:
        """Note what the broker told of itself."""
        assert event.connection is not None
        properties = event.connection.remote_properties or {}
        self.broker = {str(name): value for name, value in properties.items() if isinstance(value, str)}

    def on_delivery(self, event: Event) -> None:
        """Take a message, or an outcome."""
        delivery, link = event.delivery, event.link
        assert delivery is not None
        if isinstance(link, Sender):
            if delivery.updated:
                accepted = delivery.remote_state == Delivery.ACCEPTED
                self.publishers[0].outcome(1, accepted=accepted, now_ns=time.monotonic_ns())
                delivery.settle()
        elif isinstance(link, Receiver) and delivery.readable and not delivery.partial:
            self._take(link, delivery)

    def _take(self, link: Receiver, delivery: Delivery) -> None:
        message = Message()
        message.decode(link.recv(delivery.pending) or b"")
        body = message.body
        # The type of a body depends on the sections around it.
        raw = bytes(body) if isinstance(body, bytes | memoryview) else b""
        message_id = message.id if isinstance(message.id, str) else None
        content = Content(message_id, message.content_type, message.properties or {}, message.priority)
        self.consumers[0].take(raw, content, time.monotonic_ns())
        link.advance()
        if not self._traffic.settled:
            delivery.update(Delivery.ACCEPTED)
        delivery.settle()

    def on_link_remote_close(self, event: Event) -> None:
        """The broker refused or ended a link."""
        assert event.link is not None
        self._fault = f"the broker detached a link: {event.link.remote_condition}"

    def on_connection_remote_close(self, event: Event) -> None:
        """The broker closed the connection; with an error it was the broker's own decision."""
        assert event.connection is not None
        if event.connection.remote_condition:
            self._fault = f"the broker closed the connection: {event.connection.remote_condition}"

    def on_transport_error(self, event: Event) -> None:
        """The socket is closed."""
        assert event.transport is not None
        self._fault = f"the connection is lost: {event.transport.condition}"


if __name__ == "__main__":
    sys.exit(carry_out(ProtonLoop, ProtonException))
