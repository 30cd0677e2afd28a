"""A load process: `python -m bench.load`; `stages` says what it is told and what it answers.

One loop serves all connections of the process; every write is non-blocking, and a connection is asked for more only
when all it wanted to write is written.
"""

from __future__ import annotations

import gc
import os
import resource
import selectors
import struct
import sys
import time
from typing import Final

from bench.load.line import Line, opened_091, opened_10
from bench.load.plan import Plan
from bench.load.stages import Orders, carry_out

IDLE_SECONDS: Final = 0.05
FEW_CONNECTIONS: Final = 64
"""Up to this number select() is used, whose time-outs are finer than epoll's milliseconds."""


class Lines:
    """The loop over all connections."""

    def __init__(self, plan: Plan, orders: Orders) -> None:
        if plan.traffic.content != "alike" or plan.traffic.keys > 1 or plan.traffic.sizes:
            raise ValueError("content, keys and sizes are not sent by this load process")
        self._plan = plan
        self._orders = orders
        self._selector: selectors.BaseSelector = (
            selectors.DefaultSelector() if len(plan.applications) > FEW_CONNECTIONS else selectors.SelectSelector()
        )
        self._selector.register(orders.descriptor, selectors.EVENT_READ, None)
        self._lines = [self._connect(index) for index in range(len(plan.applications))]
        self.publishers = [publisher for line in self._lines for publisher in line.endpoint.publishers]
        self.consumers = [consumer for line in self._lines for consumer in line.endpoint.consumers]

    def _connect(self, index: int) -> Line:
        application, name = self._plan.applications[index], f"bench-{os.getpid()}-{index}"
        opened = opened_091 if application.protocol == "0.9.1" else opened_10
        line, broker = opened(
            self._plan.url, self._plan.traffic, [application], name=name, max_frame_size=self._plan.max_frame_size
        )
        if index == 0:
            self.broker = broker
        self._selector.register(line.socket, selectors.EVENT_READ, line)
        return line

    @property
    def attached(self) -> bool:
        return all(line.endpoint.attached for line in self._lines)

    def start(self, now_ns: int) -> None:
        """Begin to publish and consume. The collector of cycles stays off from now on: there are none to collect."""
        gc.freeze()
        gc.disable()
        for line in self._lines:
            line.endpoint.start(now_ns)

    def turn(self) -> None:
        """Write what is due, then wait for something to read, room to write, or the next time to write."""
        now_ns = time.monotonic_ns()
        for line in self._lines:
            was_blocked = line.blocked
            line.write(now_ns)
            if line.blocked != was_blocked:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.blocked else 0)
                self._selector.modify(line.socket, events, line)
        for key, events in self._selector.select(self._timeout()):
            if key.data is None:
                self._read_orders()
            elif events & selectors.EVENT_READ:
                key.data.read()

    def _timeout(self) -> float:
        now_ns = time.monotonic_ns()
        wait = int(IDLE_SECONDS * 1e9)
        for line in self._lines:
            if line.blocked:
                continue
            if line.endpoint.ready_to_publish(now_ns):
                return 0.0
            if (wake_ns := line.endpoint.wake_ns()) is not None:
                wait = min(wait, wake_ns - now_ns)
        return max(wait, 0) / 1e9

    def _read_orders(self) -> None:
        self._orders.read()
        if self._orders.ended:
            self._selector.unregister(self._orders.descriptor)

    def close(self) -> None:
        """Close all connections."""
        for line in self._lines:
            line.close()


def main() -> int:
    """Carry out one plan."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    return carry_out(Lines, IndexError, struct.error)


if __name__ == "__main__":
    sys.exit(main())
