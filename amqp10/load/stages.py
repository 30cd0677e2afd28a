"""The stages of a load process, told what to do by JSON lines on its standard input.

    in   a plan (`plan.Plan`)         connect, begin, attach
    out  {"event": "ready", …}        everything is attached
    in   {"go": time}                 start publishing and consuming
    out  {"event": "published", …}    every publisher here has sent its messages and the broker settled them
    in   {"finish": n or null}        consumers here get n messages in all; null: unknown, the queue is shared
    out  {"event": "report", …}       what was sent and what arrived
    in   end of input                 close the connections

or, at any time, out {"event": "failed", "reason": …}. Times are of the monotonic clock, which all processes
of a machine share. The connections, in a `Loop`, are the project's own or those of another project's client.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from amqp10.load.checks import latency_histogram
from amqp10.load.line import AnyConsumer, AnyPublisher
from amqp10.load.plan import Plan
from amqp10.load.wire import WireError

QUIET_NS: Final = 2 * 10**9
"""A consumer that does not know how many messages are left for it stops when none arrived for this long."""
LINGER_NS: Final = 50 * 10**6
"""How long a consumer that has received everything waits for messages that must not come."""


class Orders:
    """The lines of the standard input, read without blocking."""

    def __init__(self) -> None:
        self.descriptor = sys.stdin.fileno()
        self.ended = False
        self._input = b""
        os.set_blocking(self.descriptor, False)

    @property
    def waiting(self) -> bool:
        """Whether `take` has something to return: an order, or the end of the input."""
        return b"\n" in self._input or self.ended

    def read(self) -> None:
        """Read the bytes that are there."""
        try:
            data = os.read(self.descriptor, 65536)
        except BlockingIOError:
            return
        self.ended = not data
        self._input += data

    def take(self) -> dict[str, int | None] | None:
        """The next order; None when the input has ended."""
        line, _, self._input = self._input.partition(b"\n")
        order: dict[str, int | None] | None = json.loads(line) if line else None
        return order


class Loop(Protocol):
    """All connections of the process. `broker` has the properties that the broker told of itself."""

    broker: dict[str, str]

    @property
    def publishers(self) -> Sequence[AnyPublisher]: ...
    @property
    def consumers(self) -> Sequence[AnyConsumer]: ...
    @property
    def attached(self) -> bool: ...
    def start(self, now_ns: int) -> None: ...
    def turn(self) -> None: ...
    def close(self) -> None: ...


OpenLoop = Callable[[Plan, Orders], Loop]
"""Opens the connections. A turn of the loop reads the orders that have come, and lasts for at most 50 ms."""


class Stages:
    """The conversation with the parent process, while the loop turns."""

    def __init__(self, plan: Plan, open_loop: OpenLoop) -> None:
        self._orders = Orders()
        self._loop = open_loop(plan, self._orders)
        self._turn = self._loop.turn
        self._publishers = list(self._loop.publishers)
        self._consumers = list(self._loop.consumers)
        self._start_ns = 0
        self._patience_ns = int(plan.patience_seconds * 1e9)

    def _await_order(self) -> dict[str, int | None] | None:
        while not self._orders.waiting:
            self._turn()
        return self._orders.take()

    def run(self) -> None:
        """Carry out the plan. Raises WireError when the broker refuses something."""
        deadline_ns = time.monotonic_ns() + self._patience_ns
        while not self._loop.attached:
            self._turn()
            if time.monotonic_ns() > deadline_ns:
                raise WireError("the broker did not answer an attach")
        say("ready", broker=self._loop.broker)
        order = self._await_order()
        if order is not None and (start := order.get("go")) is not None:
            self._measure(start)
        while self._await_order() is not None:
            pass
        self._loop.close()

    def _measure(self, start_ns: int) -> None:
        self._start_ns = start_ns
        cpu_before = time.process_time()
        self._loop.start(start_ns)
        while not all(publisher.finished for publisher in self._publishers):
            self._turn()
            if self._stalled():
                break
        say("published", sent={publisher.publisher: publisher.sent for publisher in self._publishers})
        order = self._await_order()
        self._await_messages(None if order is None else order.get("finish"))
        self._report(time.process_time() - cpu_before)

    def _last_progress_ns(self) -> int:
        arrivals = (consumer.last_arrival_ns for consumer in self._consumers)
        progress = (publisher.last_progress_ns for publisher in self._publishers)
        return max(self._start_ns, *arrivals, *progress) if self._publishers or self._consumers else self._start_ns

    def _stalled(self) -> bool:
        return time.monotonic_ns() - self._last_progress_ns() > self._patience_ns

    def _await_messages(self, expected: int | None) -> None:
        if not self._consumers:
            return
        patience_ns = min(QUIET_NS, self._patience_ns) if expected is None else self._patience_ns
        asked_ns = time.monotonic_ns()
        while expected is None or sum(consumer.ledger.total for consumer in self._consumers) < expected:
            self._turn()
            if time.monotonic_ns() - max(asked_ns, self._last_progress_ns()) > patience_ns:
                return
        deadline_ns = time.monotonic_ns() + LINGER_NS
        while time.monotonic_ns() < deadline_ns:
            self._turn()

    def _report(self, cpu_seconds: float) -> None:
        latency = latency_histogram()
        for consumer in self._consumers:
            latency.add(consumer.latency)
        for publisher in self._publishers:
            if publisher.latency is not None:
                latency.add(publisher.latency)
        say(
            "report",
            unconfirmed=sum(publisher.unconfirmed for publisher in self._publishers),
            refused=sum(publisher.refused for publisher in self._publishers),
            corrupted=sum(consumer.corrupted for consumer in self._consumers),
            received=[consumer.ledger.ranges() for consumer in self._consumers],
            last_progress_ns=self._last_progress_ns(),
            last_arrival_ns=max((consumer.last_arrival_ns for consumer in self._consumers), default=0),
            cpu_seconds=cpu_seconds,
            latency=latency.encode().decode(),
        )


def say(event: str, **fields: object) -> None:
    """One event as a line on the standard output."""
    print(json.dumps({"event": event, **fields}), flush=True)


def _first_line(descriptor: int) -> str:
    """Read one line, byte by byte so that later input is left for the loop."""
    line = b""
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


def carry_out(open_loop: OpenLoop, *failures: type[Exception]) -> int:
    """Carry out the plan of the first line; these failures of the loop, and broken input, are reported. Returns an exit
    status."""
    reported: tuple[type[Exception], ...] = (WireError, OSError, ValueError, *failures)
    line = _first_line(sys.stdin.fileno())
    if not line:
        return 2
    try:
        Stages(Plan.from_json(line), open_loop).run()
    except reported as failure:
        say("failed", reason=f"{type(failure).__name__}: {failure}")
        return 1
    return 0
