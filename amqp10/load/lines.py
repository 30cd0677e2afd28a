"""One loop serves all connections of a load process; every write is non-blocking, and a connection is asked for more
only when all it wanted to write is written.
"""

from __future__ import annotations

import gc
import os
import selectors
import time
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final, Protocol

from amqp10.load.line import Line, opened_091, opened_10
from amqp10.load.plan import Application, Plan, connections_of

IDLE_SECONDS: Final = 0.05
LOOK_NS: Final = 5 * 10**6
"""How long a turn with many connections lasts: to look at the state of all of them, as is done after it, is costly."""
FEW_CONNECTIONS: Final = 64
"""Up to this number select() is used, whose time-outs are finer than epoll's milliseconds."""


class AnyOrders(Protocol):
    """What the loop needs of orders: a descriptor to wait for, and whether one has come."""

    descriptor: int
    ended: bool

    @property
    def waiting(self) -> bool: ...
    def read(self) -> None: ...


class Lines:
    """The loop over all connections."""

    def __init__(self, plan: Plan, orders: AnyOrders) -> None:
        self._plan = plan
        self._orders = orders
        connections = connections_of(plan.applications)
        self._crowd = len(connections) > FEW_CONNECTIONS
        self._selector: selectors.BaseSelector = (
            selectors.DefaultSelector() if self._crowd else selectors.SelectSelector()
        )
        self._due: dict[int, None] = {}  # the lines to write to in the next round, in their order
        self._wakes: list[tuple[int, int]] = []  # a heap of times, and the lines to write to then
        self._selector.register(orders.descriptor, selectors.EVENT_READ, None)
        self._lines = [self._connect(index, group) for index, group in enumerate(connections)]
        self.publishers = [publisher for line in self._lines for publisher in line.endpoint.publishers]
        self.consumers = [consumer for line in self._lines for consumer in line.endpoint.consumers]

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

    @property
    def attached(self) -> bool:
        return all(line.endpoint.attached for line in self._lines)

    def held_up(self, now_ns: int) -> list[str]:
        """What holds up each publisher that has a message to send."""
        return [why for line in self._lines for why in line.held_up(now_ns)]

    def start(self, now_ns: int) -> None:
        """Begin to publish and consume. The collector of cycles stays off from now on: there are none to collect."""
        gc.freeze()
        gc.disable()
        for index, line in enumerate(self._lines):
            line.endpoint.start(now_ns)
            self._due[index] = None

    def turn(self) -> None:
        """One round; with many connections as many as fit into `LOOK_NS`, unless an order waits."""
        until_ns = time.monotonic_ns() + (LOOK_NS if self._crowd else 0)
        self._round()
        while not self._orders.waiting and time.monotonic_ns() < until_ns:
            self._round()

    def _round(self) -> None:
        """Wait for something to read, room to write, or the next time to write; then read, and write at once: the next
        message goes out without delay when the outcome of an earlier one has come."""
        for key, events in self._selector.select(self._timeout()):
            if key.data is None:
                self._read_orders()
                continue
            if events & selectors.EVENT_READ:
                self._lines[key.data].read()
            self._due[key.data] = None
        now_ns = time.monotonic_ns()
        while self._wakes and self._wakes[0][0] <= now_ns:
            wake_ns, index = heappop(self._wakes)
            if self._lines[index].scheduled_ns == wake_ns:
                self._lines[index].scheduled_ns = None
                self._due[index] = None
        due, self._due = self._due, {}
        for index in due:
            self._serve(index, now_ns)

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

    def _timeout(self) -> float:
        if self._due:
            return 0.0
        wait_ns = int(IDLE_SECONDS * 1e9)
        if self._wakes:
            wait_ns = min(wait_ns, self._wakes[0][0] - time.monotonic_ns())
        return max(wait_ns, 0) / 1e9

    def _read_orders(self) -> None:
        self._orders.read()
        if self._orders.ended:
            self._selector.unregister(self._orders.descriptor)

    def close(self) -> None:
        """Close all connections."""
        for line in self._lines:
            line.close()
