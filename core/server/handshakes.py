"""The TLS handshakes that have bytes to work on, and their share of the event loop.

A handshake costs the server 0.6 ms of CPU time with a P-256 key and 1.5 ms with RSA of 2048 bits, and clients come in
crowds when a broker has restarted. So reads only put their bytes aside, and one task does the work: for
``HANDSHAKES_SECONDS_MAX`` in each round of the event loop, in the order in which the connections came. All other tasks
run in between.

That is the limit of what strangers can make the broker compute: a connection whose handshake is not done when its time
is over (``server.handshake_time_out``) is closed, whether it waited for the network or in this line.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import trio

from core.clock import Now

HANDSHAKES_SECONDS_MAX = 0.002
"""No further handshake in a round of the event loop after this time: another connection waits 2 ms and the last
handshake longer, which is 3.5 ms with RSA keys."""


class Shaking(Protocol):
    """A connection with bytes of its handshake."""

    def shake(self, now: Now) -> None:
        """Do what can be done of the handshake. Raises nothing."""


class Handshakes:
    """The line of connections. Each stands in it once only."""

    def __init__(self, *, clock: Callable[[], Now], turn: Callable[[Now], None]) -> None:
        """``turn`` has the connections that are touched send their output."""
        self._clock = clock
        self._turn = turn
        self._waiting: deque[Shaking] = deque()
        self._came = trio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, connection: Shaking) -> None:
        """Put a connection at the end of the line. It must not stand in it."""
        self._waiting.append(connection)
        self._came.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._came.wait()
            self.work()
            if not self._waiting:
                self._came = trio.Event()
            await trio.lowlevel.checkpoint()

    def work(self) -> None:
        """Do handshakes for as long as one round allows, at least one."""
        began = now = self._clock()
        while self._waiting:
            self._waiting.popleft().shake(now)
            now = self._clock()
            if now.monotonic - began.monotonic >= HANDSHAKES_SECONDS_MAX:
                break
        self._turn(now)
