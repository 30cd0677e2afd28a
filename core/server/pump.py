"""The turn: what follows each wake-up of a task, before it waits again.

A peer's input leaves work in the engine. The engine's turn leaves actions in mailboxes. The peers turn these actions
into output, and may call verbs that leave work again. One turn repeats this until nothing is left, but within a limit
of rounds and time. A task of its own continues what remains, and takes its place behind the other peers. So a busy peer
never starves the others, and an action never waits for a later wake-up.

Where many peers want a turn at once, the last of them waits for all the others. So each may do its share only, and one
that has done its share and has more to do is *late*: it is flushed behind all others, and by a turn for input only as
long as there is time. The task that continues flushes one late peer at least, but reads from sockets before. So a peer
with little to do waits for one share of another's work, and not for several of them in succession.

A turn never awaits and never nests. An exception out of the engine is not caught: an engine that is broken must not go
on confirming messages, so the process ends.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Protocol

import trio

from core.clock import Now
from core.work import AMPLE, Work

TURN_SECONDS_MAX = 0.003
"""No further round after this time. The most expensive input (many attaches) takes 50 us a frame, and eight rounds of
it would hold up every peer for a fifth of a second."""

ALLOWANCE_MIN, ALLOWANCE_OF_ALL = 50, 10_000
"""What one peer may do in a turn, in units of :mod:`core.work`: where many want a turn they share the second number,
and each gets the first at the least. With the cost of a wake-up that least is 0.1 to 0.2 ms, so that 200 peers are done
within 40 ms."""
ALLOWANCE_LATE_MIN = 200
"""The same for a late peer. Others do not wait for all late peers, and with 50 units at once the same work takes three
times the CPU: that of 200 connections with 1,500 unlike publishes each took 2.2 s instead of 0.7 s."""

LITTLE_BYTES = 1024
"""Where peers may do :data:`ALLOWANCE_MIN` only, a read of more bytes than these is kept for the turn
of the pump: to read takes 25 us, and what is in such a read takes longer, with 200 sockets 40 ms in all. The work for
fewer bytes is done at once, so that a peer that sends little need not wait for those that send much."""


def allowance_for(size: int, allowance: int) -> int:
    """What a peer may do for a read of so many bytes, where peers may do ``allowance``, in units of work; 0 if the
    bytes are to be kept."""
    return 0 if allowance <= ALLOWANCE_MIN and size > LITTLE_BYTES else allowance


def share_of_each(peers: int) -> int:
    """What each of so many peers may do, in units of work, when all want a turn at once."""
    return max(ALLOWANCE_MIN, ALLOWANCE_OF_ALL // max(peers, 1))


class Turning(Protocol):
    """The engine of all virtual hosts, as the server drives it."""

    def turn(self, now: Now) -> bool:
        """Do the work that verbs left behind: stage turns, dispatch of the touched queues, then work that is due.

        Returns True when a budget ran out and work is left for another turn.
        """

    def deadline(self) -> float:
        """The monotonic time at which the engine needs a turn although no verb was called; infinity for never."""


class Touched(Protocol):
    """A peer with actions or output waiting."""

    def flush(self, now: Now) -> None:
        """Take the actions and send the output. Raises nothing."""


class Pump:
    """Alternates engine turns with flushes of the touched peers."""

    def __init__(
        self,
        *,
        engine: Turning,
        clock: Callable[[], Now],
        rounds_max: int,
        wake_at: Callable[[float], None],
        store: Callable[[], bool] = lambda: False,
        work: Work | None = None,
    ) -> None:
        """``wake_at`` is called with the time at which the engine wants its next turn, if nothing happens before.

        ``store`` writes what the engine has staged, as far as that is quick, and returns whether it wrote; then the
        engine gets another turn before the peers send anything. ``work`` tells front ends how much they may do.
        """
        self._engine = engine
        self._clock = clock
        self._rounds_max = rounds_max
        self._wake_at = wake_at
        self._store = store
        self._touched: list[Touched] = []
        self._late: deque[Touched] = deque()
        """Peers that got no time in the turn in which they were touched, or had their share of it and want more."""
        self._flushing: Touched | None = None
        self._work_left = trio.Event()
        self._work = work or Work()
        self._ample_until = inf
        """When tasks that ask for a turn soon may do little only; infinity while none does."""
        self.read_first: Callable[[], object] = lambda: None
        """Reads from the sockets that have bytes. :meth:`run` calls it before its turn."""

    def turn_soon(self, now: Now) -> None:
        """Have :meth:`run` take a turn, one for all tasks that ask in this round of the event loop. Those that ask late
        in a long round may do little."""
        if self._ample_until == inf:
            self._ample_until = now.monotonic + TURN_SECONDS_MAX
        elif now.monotonic > self._ample_until:
            self._work.allowance = ALLOWANCE_MIN
        self._work_left.set()

    def touch(self, peer: Touched, *, late: bool = False) -> None:
        """Flush this peer in the current turn, or in the next; behind the others if it is ``late``. A peer calls this
        once only before its flush."""
        if late or peer is self._flushing:
            self._late.append(peer)  # it had its share in this turn
        else:
            self._touched.append(peer)

    def turn(self, now: Now, *, began: float | None = None, late_min: int = 0, in_order: bool = False) -> None:
        """Repeat rounds until nothing is left, or leave the rest to :meth:`run`. For late peers and another round, time
        counts from ``began`` (monotonic seconds), before ``now`` if the turn follows other work. ``late_min`` late
        peers are flushed whatever the time. ``in_order``: the peer touched first comes first, because the turn is for
        no peer's wake-up."""
        began = now.monotonic if began is None else began
        engine, store = self._engine, self._store
        for _ in range(self._rounds_max):
            more = engine.turn(now)
            if store():
                more |= engine.turn(now)
            if self._touched or self._late:
                if in_order:
                    self._touched.reverse()
                self._flush(now, began + TURN_SECONDS_MAX, late_min)
            elif not more:
                self._wake_at(engine.deadline())
                return
            late_min = 0
            if self._clock().monotonic - began > TURN_SECONDS_MAX:
                break
        self._work_left.set()

    def _flush(self, now: Now, until: float, late_min: int) -> None:
        """Flush the touched peers as long as there is time, at least one; then the late ones until ``until``.

        The peer touched last comes first: mostly this turn is for its wake-up, and it should not wait for late peers,
        which have much to do.
        """
        touched, self._touched = self._touched, []
        late = self._late
        if not late and len(touched) == 1:
            self._flushing = peer = touched[0]
            peer.flush(now)
            self._flushing = None
            return
        self._work.allowance = share_of_each(len(late) + len(touched))
        waiting = len(late)
        while touched:
            self._flushing = peer = touched.pop()
            peer.flush(now)
            if touched and self._clock().monotonic > now.monotonic + TURN_SECONDS_MAX:
                late.extend(touched)
                break
        self._flushing = None
        if waiting:
            self._work.allowance = max(self._work.allowance, ALLOWANCE_LATE_MIN)
        for number in range(waiting):
            if number >= late_min and self._clock().monotonic > until:
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
            self._ample_until = inf
            self.read_first()
            self._work.allowance = AMPLE
            self.turn(self._clock(), late_min=1)
