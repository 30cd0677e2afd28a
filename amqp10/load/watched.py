"""A load that is watched while it lasts, in the process that shows it: the engine of `headgate bench`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hdrh.histogram import HdrHistogram

from amqp10.load.checks import latency_histogram
from amqp10.load.line import AnyConsumer, AnyPublisher
from amqp10.load.lines import Lines
from amqp10.load.plan import Plan
from amqp10.load.wire import WireError

IDLE_TURN_NS = 1_000_000
"""A consumer waits for messages when none came in a turn of 1 ms or more; a turn with work takes less."""
NO_MESSAGE = "no-message"


class NoOrders:
    """Orders that never come: an operator gives a watched load none."""

    def __init__(self) -> None:
        self.descriptor, self._other_end = os.pipe()
        self.ended = False
        self.waiting = False

    def read(self) -> None:
        """Read nothing."""

    def close(self) -> None:
        """Close both ends."""
        os.close(self.descriptor)
        os.close(self._other_end)


@dataclass(slots=True)
class LoadReading:
    """What has happened since the start, and the latencies since the reading before."""

    seconds: float
    sent: int
    confirmed: int
    refused: int
    received: int
    blocked: dict[str, float]
    """Seconds that publishers were held up, by reason, added up over all of them; without publishers, seconds in which
    no message came."""
    latency: HdrHistogram


class WatchedLoad:
    """The connections of a plan, all attached. Raises WireError and OSError when the broker refuses or is gone."""

    def __init__(self, plan: Plan) -> None:
        self._orders = NoOrders()
        self._patience_ns = int(plan.patience_seconds * 1e9)
        self._seconds_ns = int(plan.traffic.seconds * 1e9)
        try:
            self._loop = Lines(plan, self._orders)
        except BaseException:
            self._orders.close()
            raise
        self.total = latency_histogram()
        """All latencies so far, in microseconds."""
        self._started_ns = 0
        self._blocked_ns: dict[str, int] = {}
        deadline_ns = time.monotonic_ns() + self._patience_ns
        while not self._loop.attached:
            self._loop.turn()
            if time.monotonic_ns() > deadline_ns:
                raise WireError("the broker did not answer an attach")

    def run(
        self, *, done: Callable[[LoadReading], bool], every_s: float, show: Callable[[LoadReading], None]
    ) -> LoadReading:
        """Publish and consume until the publishers have finished and ``done`` says so, and show a reading from time to
        time. Ends early when nothing moves for the plan's patience after the time of its publishers. Returns the last
        reading, which is not shown; its latencies are all. An interrupt ends the run in the same way."""
        every_ns, received = int(every_s * 1e9), 0
        self._started_ns = before_ns = time.monotonic_ns()
        due_ns, moved_ns, moved = before_ns + every_ns, before_ns, 0
        self._loop.start(before_ns)
        try:
            while not (self._published and done(self._counts(before_ns))):
                held = self._loop.held_up(before_ns)
                self._loop.turn()
                now_ns, received_before, received = time.monotonic_ns(), received, self._received()
                if not self._loop.publishers and received == received_before and now_ns - before_ns >= IDLE_TURN_NS:
                    held = [NO_MESSAGE]
                for why in held:
                    self._blocked_ns[why] = self._blocked_ns.get(why, 0) + now_ns - before_ns
                before_ns = now_ns
                if now_ns < due_ns:
                    continue
                due_ns += every_ns
                reading = self._reading(now_ns)
                show(reading)
                if reading.sent + reading.confirmed + reading.received != moved:
                    moved_ns, moved = now_ns, reading.sent + reading.confirmed + reading.received
                elif now_ns - max(moved_ns, self._started_ns + self._seconds_ns) > self._patience_ns:
                    break
        except KeyboardInterrupt:
            before_ns = time.monotonic_ns()
        reading = self._reading(before_ns)
        reading.latency = self.total
        return reading

    @property
    def _published(self) -> bool:
        return all(publisher.finished for publisher in self._loop.publishers)

    @property
    def unconfirmed(self) -> int:
        """Messages that were sent and have no outcome, and outcomes that came twice."""
        return sum(publisher.unconfirmed for publisher in self._loop.publishers)

    @property
    def corrupted(self) -> int:
        """Messages that came and are none of this load's, or were changed."""
        return sum(consumer.corrupted for consumer in self._loop.consumers)

    def close(self) -> None:
        """Close all connections."""
        self._loop.close()
        self._orders.close()

    def _received(self) -> int:
        return sum(consumer.ledger.total + consumer.corrupted for consumer in self._loop.consumers)

    def _counts(self, now_ns: int) -> LoadReading:
        publishers = self._loop.publishers
        return LoadReading(
            seconds=(now_ns - self._started_ns) / 1e9,
            sent=sum(publisher.sent for publisher in publishers),
            confirmed=sum(publisher.confirmed for publisher in publishers),
            refused=sum(publisher.refused for publisher in publishers),
            received=self._received(),
            blocked={why: ns / 1e9 for why, ns in self._blocked_ns.items()},
            latency=self.total,
        )

    def _reading(self, now_ns: int) -> LoadReading:
        reading = replace(self._counts(now_ns), latency=latency_histogram())
        ends: Sequence[AnyPublisher | AnyConsumer] = [*self._loop.publishers, *self._loop.consumers]
        for end in ends:
            if end.latency is not None and end.latency.get_total_count():
                reading.latency.add(end.latency)
                end.latency.reset()
        self.total.add(reading.latency)
        return reading
