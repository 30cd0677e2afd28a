"""One task that wakes peers at their deadlines: handshake time-outs, heartbeats, delayed answers.

Deadlines move with nearly every read (each frame from the peer postpones its idle time-out). So a later deadline is not
entered: the old entry fires early, and the peer schedules itself anew. An earlier deadline replaces the old one. So a
read costs a comparison, there is never more than one entry per peer, and no read needs a cancel scope of its own.
"""

from collections.abc import Callable
from math import inf
from typing import Protocol

import trio
from sortedcontainers import SortedKeyList

from core.clock import Now


class Timed(Protocol):
    """An object that wants to be woken."""

    timer_at: float
    """When the entry fires; infinity when there is none. Written by :class:`Timers` only."""

    def expired(self, now: Now) -> None:
        """The entry has fired and is gone. May schedule again, for a time after ``now``."""


class TurnTimer:
    """Wakes the server at the engine's own deadlines: a turn follows every batch of fired entries."""

    __slots__ = ("timer_at",)

    def __init__(self) -> None:
        self.timer_at = inf

    def expired(self, now: Now) -> None:
        """Do nothing: the turn that follows does the work."""


class Timers:
    """Entries in order of time, one per :class:`Timed`. Times are monotonic seconds of Trio's clock."""

    def __init__(self, clock: Callable[[], Now], after: Callable[[Now], None]) -> None:
        """``after`` is called once after each batch of fired entries: the engine's turn."""
        self._clock = clock
        self._after = after
        self._entries = SortedKeyList(key=_time_of)
        self._earlier = trio.Event()
        self._sleeping_until = inf

    def __len__(self) -> int:
        return len(self._entries)

    def schedule(self, timed: Timed, when: float) -> None:
        """Make sure that ``timed`` is woken at ``when`` or before."""
        if timed.timer_at <= when:
            return
        self.cancel(timed)
        timed.timer_at = when
        self._entries.add(timed)
        if when < self._sleeping_until:
            self._earlier.set()

    def cancel(self, timed: Timed) -> None:
        """Forget the entry, if there is one."""
        if timed.timer_at < inf:
            self._entries.remove(timed)
            timed.timer_at = inf

    def fire(self, now: Now) -> None:
        """Wake every object whose time has come."""
        while self._entries and self._entries[0].timer_at <= now.monotonic:
            timed: Timed = self._entries.pop(0)
            timed.timer_at = inf
            timed.expired(now)

    async def run(self) -> None:
        """Fire entries when they are due, until cancelled."""
        while True:
            self._earlier = trio.Event()
            self._sleeping_until = self._entries[0].timer_at if self._entries else inf
            with trio.move_on_at(self._sleeping_until):
                await self._earlier.wait()
            now = self._clock()
            self.fire(now)
            self._after(now)


def _time_of(timed: Timed) -> float:
    return timed.timer_at
