"""The turn: what follows each wake-up of a task, before it waits again.

A peer's input leaves work in the engine; the engine's turn leaves actions in mailboxes; their owners turn
these into output, and that may call verbs which leave work again. One turn goes round until nothing is left,
but only so often and so long; what remains is continued by a task of its own, which takes its place behind the
other peers. So a busy peer never starves the others, and an action never waits for a later wake-up.

A turn never awaits and never nests. An exception out of the engine is not caught: an engine that is broken must not go
on confirming messages, so the process ends.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import trio

from core.clock import Now
from core.interface import Engine

TURN_SECONDS_MAX = 0.005
"""No further round after so long: the dearest input (a storm of attaches) takes 50 us a frame, and eight rounds of
that would hold up everybody for a fifth of a second."""


class Touched(Protocol):
    """Whoever has actions or output waiting."""

    def flush(self, now: Now) -> None:
        """Take the actions, send the output. Raises nothing."""


class Pump:
    """Alternates engine turns with flushes of the touched peers."""

    def __init__(
        self,
        *,
        engine: Engine,
        clock: Callable[[], Now],
        rounds_max: int,
        wake_at: Callable[[float], None],
        store: Callable[[], bool] = lambda: False,
    ) -> None:
        """``wake_at`` is told the time at which the engine wants its next turn, if nothing happens before.

        ``store`` writes what the engine has staged, as far as that is quick, and says whether it did: then the engine
        has more to say before the peers send anything.
        """
        self._engine = engine
        self._clock = clock
        self._rounds_max = rounds_max
        self._wake_at = wake_at
        self._store = store
        self._touched: list[Touched] = []
        self._late: deque[Touched] = deque()
        """Those for which there was no time in the turn in which they were touched."""
        self._work_left = trio.Event()

    def touch(self, peer: Touched) -> None:
        """Flush this peer in the running turn, or in the next. The peer sees to it that it asks once only."""
        self._touched.append(peer)

    def turn(self, now: Now) -> None:
        """Go round until nothing is left, or leave the rest to :meth:`run`."""
        for _ in range(self._rounds_max):
            more = self._engine.turn(now)
            if self._store():
                more |= self._engine.turn(now)
            if self._touched or self._late:
                self._flush(now)
            elif not more:
                self._wake_at(self._engine.deadline)
                return
            if self._clock().monotonic - now.monotonic > TURN_SECONDS_MAX:
                break
        self._work_left.set()

    def _flush(self, now: Now) -> None:
        """Flush the touched peers, and those that are late, as long as there is time, and one that is late at least.

        The one that was touched last comes first: that is whose wake-up this is, and it does not wait for those that
        have so much to do that they are late.
        """
        touched, self._touched = self._touched, []
        late = self._late
        if not late and len(touched) == 1:
            touched[0].flush(now)
            return
        until = now.monotonic + TURN_SECONDS_MAX
        if late:
            late.popleft().flush(now)
        while touched:
            touched.pop().flush(now)
            if self._clock().monotonic > until:
                late.extend(touched)
                return
        while late and self._clock().monotonic <= until:
            late.popleft().flush(now)

    async def run(self) -> None:
        """Continue turns that ran out of rounds, until cancelled."""
        while True:
            await self._work_left.wait()
            self._work_left = trio.Event()
            self.turn(self._clock())
