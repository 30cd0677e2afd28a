"""The tasks that look at all links and queues from time to time: for stalls, and for consumers that are idle.

An operator shall see a stall within a second of its beginning, and its end within a second. A stall that only a look
can find needs two looks, so that a link that moves in between is not taken for one; listeners are told with the second
look. They are told of other stalls in the first round after 50 ms.
"""

from collections.abc import Callable, Iterator

import trio

from core.observe.idle_consumers import IdleConsumers
from core.observe.stall_log import StallLog
from core.observe.stalls import Stalls

IDLE_ROUND_S = 1.0
ROUND_S = 0.2
ROUNDS_PER_LOOK = 2
"""One look every 0.4 s: the second look after the beginning comes within 0.8 s, the first one after the end within 0.4
s. Ten thousand idle consumers cost 4 ms a look (0.4 µs each), those without link credit three times as much."""


class StallRounds:
    """Drives the ledger of stalls. One background task for each server."""

    def __init__(self, stalls: Stalls, log: StallLog) -> None:
        self._stalls = stalls
        self._log = log

    async def run(self, turn: Callable[[], None]) -> None:
        """Look and tell until cancelled. Each round ends in a turn, since a client may follow its own stalls."""
        number = 0
        while True:
            await trio.sleep(ROUND_S)
            number += 1
            if number % ROUNDS_PER_LOOK == 0:
                await _slices(self._stalls.look())
            await _slices(self._stalls.tell())
            await _slices(self._stalls.remember())
            await _slices(self._log.tell())
            turn()


class IdleRounds:
    """Samples, once a second, which queues have messages and no consumer that may be handed one. One background task
    for each server that is observed."""

    def __init__(self, queues: Callable[[], Iterator[tuple[str, bool]]], idle: IdleConsumers) -> None:
        self._queues = queues
        self._idle = idle

    async def run(self, turn: Callable[[], None]) -> None:
        """Sample until cancelled. This leaves no work for the engine, so ``turn`` is unused."""
        while True:
            await trio.sleep(IDLE_ROUND_S)
            await _slices(self._idle.sample(self._queues()))


async def _slices(work: Iterator[None]) -> None:
    for _ in work:
        await trio.lowlevel.checkpoint()
