"""A load process: `python -m bench.load`, told what to do by JSON lines on its standard input.

    in   a plan (`plan.Plan`)         connect, begin, attach
    out  {"event": "ready", …}        everything is attached
    in   {"go": time}                 start publishing and consuming
    out  {"event": "published", …}    every publisher here has sent its messages and the broker settled them
    in   {"finish": n or null}        consumers here get n messages in all; null: unknown, the queue is shared
    out  {"event": "report", …}       what was sent and what arrived
    in   end of input                 close the connections

or, at any time, out {"event": "failed", "reason": …}. Times are of the monotonic clock, which all processes
of a machine share. One loop serves all connections of the process; every write is non-blocking, and a
connection is asked for more only when all it wanted to write is written.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import selectors
import struct
import sys
import time
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from bench.load.checks import latency_histogram
from bench.load.line import Line, opened_091, opened_10
from bench.load.plan import Application, Plan, connections_of
from bench.load.wire import WireError

QUIET_NS: Final = 2 * 10**9
"""A consumer that does not know how many messages are left for it stops when none arrived for this long."""
LINGER_NS: Final = 50 * 10**6
"""How long a consumer that has received everything waits for messages that must not come."""
IDLE_SECONDS: Final = 0.05
LOOK_NS: Final = 5 * 10**6
FEW_CONNECTIONS: Final = 64
"""Up to this number select() is used, whose time-outs are finer than epoll's milliseconds."""


class LoadProcess:
    """The loop over all connections, and the conversation with the parent process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        connections = connections_of(plan.applications)
        self._crowd = len(connections) > FEW_CONNECTIONS
        self._selector: selectors.BaseSelector = (
            selectors.DefaultSelector() if self._crowd else selectors.SelectSelector()
        )
        self._due: dict[int, None] = {}  # the lines to write to in the next turn, in their order
        self._wakes: list[tuple[int, int]] = []  # a heap of times, and the lines to write to then
        self._input = b""
        self._input_ended = False
        os.set_blocking(sys.stdin.fileno(), False)
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        self._lines = [self._connect(index, group) for index, group in enumerate(connections)]
        self._publishers = [publisher for line in self._lines for publisher in line.endpoint.publishers]
        self._consumers = [consumer for line in self._lines for consumer in line.endpoint.consumers]
        self._start_ns = 0
        self._patience_ns = int(plan.patience_seconds * 1e9)

    def _connect(self, index: int, applications: Sequence[Application]) -> Line:
        name = f"bench-{os.getpid()}-{index}"
        opened = opened_091 if applications[0].protocol == "0.9.1" else opened_10
        line, broker = opened(
            self._plan.url, self._plan.traffic, applications, name=name, max_frame_size=self._plan.max_frame_size
        )
        if index == 0:
            self.broker = broker
        self._selector.register(line.socket, selectors.EVENT_READ, index)
        self._due[index] = None
        return line

    # One turn of the loop

    def _turn(self) -> None:
        """Write what is due, then wait for something to read, room to write, or the next time to write."""
        now_ns = time.monotonic_ns()
        while self._wakes and self._wakes[0][0] <= now_ns:
            wake_ns, index = heappop(self._wakes)
            if self._lines[index].scheduled_ns == wake_ns:
                self._lines[index].scheduled_ns = None
                self._due[index] = None
        due, self._due = self._due, {}
        for index in due:
            self._serve(index, now_ns)
        for key, events in self._selector.select(self._timeout()):
            if key.data is None:
                self._read_input()
                continue
            if events & selectors.EVENT_READ:
                self._lines[key.data].read()
            self._due[key.data] = None

    def _serve(self, index: int, now_ns: int) -> None:
        line = self._lines[index]
        was_blocked = line.blocked
        line.write(now_ns)
        if line.blocked != was_blocked:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.blocked else 0)
            self._selector.modify(line.socket, events, index)
        if line.blocked:
            return
        if line.endpoint.ready_to_publish(now_ns):
            self._due[index] = None
            return
        wake_ns = line.wake_ns()
        if line.scheduled_ns is None or wake_ns < line.scheduled_ns:
            line.scheduled_ns = wake_ns
            heappush(self._wakes, (wake_ns, index))

    def _turns(self) -> None:
        """One turn; with many connections as many as fit into some time, because their state is costly to look at."""
        until_ns = time.monotonic_ns() + (LOOK_NS if self._crowd else 0)
        self._turn()
        while time.monotonic_ns() < until_ns:
            self._turn()

    def _timeout(self) -> float:
        if self._due:
            return 0.0
        wait_ns = int(IDLE_SECONDS * 1e9)
        if self._wakes:
            wait_ns = min(wait_ns, self._wakes[0][0] - time.monotonic_ns())
        return max(wait_ns, 0) / 1e9

    def _read_input(self) -> None:
        data = os.read(sys.stdin.fileno(), 65536)
        if not data:
            self._input_ended = True
            self._selector.unregister(sys.stdin.fileno())
        self._input += data

    def _await_order(self) -> dict[str, int | None] | None:
        """Return the next order, running the loop meanwhile; None when the input has ended."""
        while b"\n" not in self._input and not self._input_ended:
            self._turn()
        line, _, self._input = self._input.partition(b"\n")
        order: dict[str, int | None] | None = json.loads(line) if line else None
        return order

    # The stages of a run

    def run(self) -> None:
        deadline_ns = time.monotonic_ns() + self._patience_ns
        while not all(line.endpoint.attached for line in self._lines):
            self._turns()
            if time.monotonic_ns() > deadline_ns:
                raise WireError("the broker did not answer an attach")
        say("ready", broker=self.broker)
        order = self._await_order()
        if order is not None and (start := order.get("go")) is not None:
            gc.freeze()
            gc.disable()
            self._measure(start)
        while self._await_order() is not None:
            pass
        for line in self._lines:
            line.close()

    def _measure(self, start_ns: int) -> None:
        self._start_ns = start_ns
        cpu_before = time.process_time()
        for index, line in enumerate(self._lines):
            line.endpoint.start(start_ns)
            self._due[index] = None
        while not all(publisher.finished for publisher in self._publishers):
            self._turns()
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
            self._turns()
            if time.monotonic_ns() - max(asked_ns, self._last_progress_ns()) > patience_ns:
                return
        deadline_ns = time.monotonic_ns() + LINGER_NS
        while time.monotonic_ns() < deadline_ns:
            self._turn()

    def _report(self, cpu_seconds: float) -> None:
        latency = latency_histogram()
        for consumer in self._consumers:
            latency.add(consumer.latency)
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


def main() -> int:
    """Carry out one plan."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    line = _first_line(sys.stdin.fileno())
    if not line:
        return 2
    try:
        LoadProcess(Plan.from_json(line)).run()
    except (WireError, OSError, ValueError, IndexError, struct.error) as failure:
        say("failed", reason=f"{type(failure).__name__}: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
