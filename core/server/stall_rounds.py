"""The task behind the ledger of stalls: it lets front ends look, and listeners hear of what has lasted.

Whoever looks at the broker shall see a stall within a second of its beginning, and its end within a second. A stall
that only looking finds takes two looks, so that a link which moves in between is none; it is told with the second.
Others are told in the first round after 50 ms.
"""

from collections.abc import Callable, Iterator

import trio

from core.observe.stall_log import StallLog
from core.observe.stalls import Stalls

ROUND_S = 0.2
ROUNDS_PER_LOOK = 2
"""A look every 0.4 s: the second one after the beginning comes within 0.8 s, the first one after the end within 0.4 s.
Ten thousand idle consumers cost 4 ms a look (0.4 µs each), those without link credit three times as much."""


class StallRounds:
    """One for each server, among its background tasks."""

    def __init__(self, stalls: Stalls, log: StallLog) -> None:
        self._stalls = stalls
        self._log = log

    async def run(self, turn: Callable[[], None]) -> None:
        """Go round until cancelled. Each round ends in a turn: a client may follow its own stalls."""
        number = 0
        while True:
            await trio.sleep(ROUND_S)
            number += 1
            if number % ROUNDS_PER_LOOK == 0:
                await _slices(self._stalls.look())
            await _slices(self._stalls.tell())
            await _slices(self._log.tell())
            turn()


async def _slices(work: Iterator[None]) -> None:
    for _ in work:
        await trio.lowlevel.checkpoint()
