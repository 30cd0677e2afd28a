"""Does a job with python-qpid-proton at its own speed: a cross-check of the generator's own AMQP 1.0 client.

Each publisher sends as far as its link credit allows, in turns of a few messages. The consumer's link credit is topped
up when half is used, as in the generator's own client.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from proton import Delivery, Endpoint, Event, Message, Receiver, Sender
from proton.reactor import AtLeastOnce, AtMostOnce, Container

from amqp10.load.ledger import Ledger
from amqp10.load.wire import WireError
from bench.together.job import SAMPLE_SECONDS, Job, Report, Sample

TURN_MESSAGES = 20
"""How many messages one publisher sends before the next one's turn."""
WAIT_SECONDS = 0.01
PATIENCE_SECONDS = 30.0
_NUMBERS = struct.Struct(">IQ")


class ProtonPublisher:
    """A sending link."""

    def __init__(self, sender: Sender, number: int, batch: int) -> None:
        self._sender, self._number, self._batch = sender, number, batch
        self.sent = 0
        self.settled = 0

    @property
    def published(self) -> int:
        """Messages confirmed, or sent without confirms."""
        return self.settled if self._batch else self.sent

    def turn(self) -> int:
        """Send a few messages, as link credit and batch allow; returns how many."""
        room = min(TURN_MESSAGES, self._sender.credit)
        if self._batch:
            room = min(room, (self.settled // self._batch + 1) * self._batch - self.sent)
        for sequence in range(self.sent, self.sent + room):
            self._sender.send(Message(_NUMBERS.pack(self._number, sequence), durable=True, inferred=True))
        self.sent += room
        return room


class ProtonClient:
    """A connection with its links, and the handler of its events."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ledger = Ledger()
        self._fault = ""
        self._refused = 0
        self._container = Container(self)
        self._container.timeout = WAIT_SECONDS
        self._container.start()
        self._connection = self._container.connect(job.url, reconnect=False, sasl_enabled=True, allowed_mechs="PLAIN")
        mode = AtLeastOnce() if job.batch else AtMostOnce()
        senders = [
            self._container.create_sender(self._connection, f"/queues/{queue}", name=f"to {number}", options=mode)
            for number, queue in enumerate(job.publish_to)
        ]
        self._by_name = {
            sender.name: ProtonPublisher(sender, number + 1, job.batch) for number, sender in enumerate(senders)
        }
        self._publishers = list(self._by_name.values())
        self._receiver = None
        if job.consume_from:
            self._receiver = self._container.create_receiver(self._connection, f"/queues/{job.consume_from}")
        deadline = time.monotonic() + PATIENCE_SECONDS
        links = [*senders, *([self._receiver] if self._receiver else [])]
        while not all(link.state & Endpoint.REMOTE_ACTIVE for link in links):
            self._container.process()
            if self._fault or time.monotonic() > deadline:
                raise WireError(self._fault or "the broker did not answer an attach")

    def run(self, over: Callable[[], None]) -> Report:
        """Run until the time is over or the backlog is consumed; then call `over`, and finish pending work."""
        start = time.monotonic()
        samples = [Sample(0.0, (0,) * len(self._publishers), 0)]
        elapsed = 0.0
        while elapsed < self._job.seconds and not self._fault:
            self._top_up()
            went = sum(publisher.turn() for publisher in self._publishers)
            self._container.timeout = 0 if went else WAIT_SECONDS
            self._container.process()
            elapsed = time.monotonic() - start
            if 0 < self._job.backlog <= self._ledger.total:
                break
            if elapsed - samples[-1].seconds >= SAMPLE_SECONDS:
                samples.append(self._sample(elapsed))
        samples.append(self._sample(elapsed))
        over()
        faults = self._fault or (f"{self._refused} refused" if self._refused else "")
        sent = tuple(publisher.sent for publisher in self._publishers)
        return Report(samples=tuple(samples), sent=sent, received=self._ledger.ranges(), faults=faults)

    def _sample(self, elapsed: float) -> Sample:
        return Sample(round(elapsed, 4), tuple(one.published for one in self._publishers), self._ledger.total)

    def _top_up(self) -> None:
        if self._receiver is not None and self._receiver.credit < self._job.link_credit // 2:
            self._receiver.flow(self._job.link_credit - self._receiver.credit)

    def close(self) -> None:
        """Close, once pending output is written."""
        self._connection.close()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._connection.state & Endpoint.REMOTE_ACTIVE and not self._fault and time.monotonic() < deadline:
            self._container.process()

    # --- what proton calls

    def on_delivery(self, event: Event) -> None:
        """Take a message, or an outcome."""
        delivery, link = event.delivery, event.link
        assert delivery is not None
        if isinstance(link, Sender):
            if delivery.updated:
                self._refused += delivery.remote_state != Delivery.ACCEPTED
                self._by_name[link.name].settled += 1
                delivery.settle()
        elif isinstance(link, Receiver) and delivery.readable and not delivery.partial:
            message = Message()
            message.decode(link.recv(delivery.pending) or b"")
            if isinstance(message.body, bytes | memoryview):  # the type depends on the sections around the body
                publisher, sequence = _NUMBERS.unpack_from(message.body)
                self._ledger.add(publisher, sequence, 1)
            link.advance()
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
