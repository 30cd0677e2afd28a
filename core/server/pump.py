"""The turn: what follows each wake-up of a task, before it waits again.

A peer's input leaves work in the engine; the engine's turn leaves actions in mailboxes; their owners turn
these into output, and that may call verbs which leave work again. One turn goes round until nothing is left,
but only so often and so long; what remains is continued by a task of its own, which takes its place behind the
other peers. So a busy peer never starves the others, and an action never waits for a later wake-up.

Where many peers wake up at once, the last of them waits for all the others. So once a round of the event loop has taken
long, each of the rest may do little, and their turns become one, of the task that continues.

A turn never awaits and never nests. An exception out of the engine is not caught: an engine that is broken must not go
on confirming messages, so the process ends.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import trio

from core.clock import Now
from core.interface import Engine
from core.work import AMPLE, Work

TURN_SECONDS_MAX = 0.005
"""No further round after so long: the dearest input (a storm of attaches) takes 50 us a frame, and eight rounds of
that would hold up every peer for a fifth of a second."""

LOOP_ROUND_SECONDS = 0.005
"""So long the peers that have woken up in one round of the event loop do what they like: one full turn at the least."""

ALLOWANCE_MIN, ALLOWANCE_OF_ALL = 50, 10_000
"""What a peer may do in a turn, in units of :mod:`core.work`: a share of the second, where many want a turn. With what
a wake-up costs by itself the least is 0.1 to 0.2 ms, so that 200 of them are done within 40 ms."""


class Touched(Protocol):
    """A peer with actions or output waiting."""

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
        work: Work | None = None,
    ) -> None:
        """``wake_at`` is told the time at which the engine wants its next turn, if nothing happens before.

        ``store`` writes what the engine has staged, as far as that is quick, and says whether it did: then the engine
        has more to say before the peers send anything. ``work`` is where front ends look how much they may do.
        """
        self._engine = engine
        self._clock = clock
        self._rounds_max = rounds_max
        self._wake_at = wake_at
        self._store = store
        self._touched: list[Touched] = []
        self._late: deque[Touched] = deque()
        """Those for which there was no time in the turn in which they were touched, or which have had a turn and want
        another."""
        self._flushing: Touched | None = None
        self._work_left = trio.Event()
        self._work = work or Work()
        self._round_until: float | None = None
        """When the running round of the event loop has taken long; None before the first turn in it."""

    def begin_loop_round(self) -> None:
        """The event loop has waited for sockets, and lets those go on for which there is something."""
        self._round_until = None
        self._work.allowance = AMPLE

    def turn_of_peer(self, now: Now) -> None:
        """What follows the wake-up of a peer: a turn, unless the round of the event loop has taken long already."""
        if self._round_until is None:
            self._round_until = now.monotonic + LOOP_ROUND_SECONDS
        elif now.monotonic > self._round_until:
            self._work.allowance = ALLOWANCE_MIN
            self._work_left.set()
            return
        self.turn(now)

    def touch(self, peer: Touched) -> None:
        """Flush this peer in the running turn, or in the next. The peer sees to it that it asks once only."""
        if peer is self._flushing:
            self._late.append(peer)  # it has had its turn
        else:
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
            self._flush_one(touched[0], now)
            return
        self._work.allowance = max(ALLOWANCE_MIN, ALLOWANCE_OF_ALL // (len(late) + len(touched)))
        until = now.monotonic + TURN_SECONDS_MAX
        waiting = len(late)
        if late:
            self._flush_one(late.popleft(), now)
        while touched:
            self._flushing = peer = touched.pop()
            peer.flush(now)
            if touched and self._clock().monotonic > until:
                late.extend(touched)
                break
        self._flushing = None
        for _ in range(waiting - 1):
            if self._clock().monotonic > until:
                return
            self._flush_one(late.popleft(), now)

    def _flush_one(self, peer: Touched, now: Now) -> None:
        self._flushing = peer
        peer.flush(now)
        self._flushing = None

    async def run(self) -> None:
        """Continue turns that ran out of rounds, until cancelled."""
        while True:
            await self._work_left.wait()
            self._work_left = trio.Event()
            self.turn(self._clock())
