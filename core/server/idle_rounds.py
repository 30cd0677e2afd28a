"""The task that samples, once a second, which queues have messages and no consumer that may be handed one."""

from collections.abc import Callable, Iterator

import trio

from core.observe.idle_consumers import IdleConsumers

INTERVAL_S = 1.0


class IdleRounds:
    """Samples queues. One background task for each server that is observed."""

    def __init__(self, queues: Callable[[], Iterator[tuple[str, bool]]], idle: IdleConsumers) -> None:
        self._queues = queues
        self._idle = idle

    async def run(self, turn: Callable[[], None]) -> None:
        """Sample until cancelled. This leaves no work for the engine, so ``turn`` is unused."""
        while True:
            await trio.sleep(INTERVAL_S)
            for _ in self._idle.sample(self._queues()):
                await trio.lowlevel.checkpoint()
