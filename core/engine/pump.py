"""The only place from which messages move: once per wake-up, over the queues that something happened to.

Verbs leave work behind by touching a queue. A turn then lets each touched queue take on what its stage may,
and serve its consumers. A queue whose budget ran out is touched again for the next turn, so that the others
come first. Two more things touch a queue: a lane of the store that has come as far as the queue waited for,
and a time that it named.

Times are kept like a peer's: a later deadline is not entered, the old entry comes early and the queue names a
new one. There is never more than one entry per queue and deadline that grew shorter.
"""

from collections import OrderedDict
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Protocol

from core.clock import Now
from core.engine.confirms import Confirms
from core.engine.kinds import AnyQueue
from core.engine.waits import Waits
from core.work import Work

QUEUE_WORK, RUN_WORK = 8, 10
"""What a touched queue costs although nothing moves in it, in units of :mod:`core.work`, and each run that it takes on,
beside 1 for each message."""


class Waiting(Protocol):
    """What waits for a lane."""

    def reached(self, confirms: Confirms) -> AnyQueue | None:
        """The lane has come that far: confirm. Returns the queue in which messages may move now, if one does."""


class Pump:
    """The touched queues, in the order of the touch; the times at which queues want to be touched."""

    __slots__ = (
        "_confirms", "_due", "_due_at", "_expired", "_late", "_numbers", "_touched", "_waits", "_work",
        "_work_per_turn",
    )  # fmt: skip

    def __init__(
        self,
        confirms: Confirms,
        waits: Sequence[Waits[Waiting]] = (),
        *,
        work: Work | None = None,
        work_per_turn: int = 2**62,
    ) -> None:
        """``work_per_turn`` bounds what the queues do in one turn, as it is counted in ``work``."""
        self._confirms = confirms
        self._waits = waits
        self._work = work or Work()
        self._work_per_turn = work_per_turn
        self._touched: OrderedDict[AnyQueue, None] = OrderedDict()
        self._late = False
        """Some of them were left over from the last turn."""
        self._due: list[tuple[float, int, AnyQueue]] = []
        self._due_at: dict[AnyQueue, float] = {}
        """The earliest entry of each queue in the heap."""
        self._numbers = count()
        """Breaks ties in the heap."""
        self._expired: list[AnyQueue] = []

    def touch(self, queue: AnyQueue) -> None:
        """Something happened to this queue that may let messages move."""
        self._touched[queue] = None

    def forget(self, queue: AnyQueue) -> None:
        """The queue is deleted."""
        self._touched.pop(queue, None)
        self._due_at.pop(queue, None)

    @property
    def deadline(self) -> float:
        """When a queue wants to be touched although nothing happens to it; infinity for never."""
        due = self._due
        while due and self._due_at.get(due[0][2]) != due[0][0]:
            heappop(due)
        return due[0][0] if due else inf

    def take_expired(self) -> list[AnyQueue]:
        """The queues that turned out to be expired since the last call."""
        expired, self._expired = self._expired, []
        return expired

    def turn(self, now: Now) -> bool:
        """One turn for each touched queue. Returns True when work is left for another turn."""
        while self.deadline <= now.monotonic:
            _, _, queue = heappop(self._due)
            del self._due_at[queue]
            self.touch(queue)
        self._confirms.begin_turn()
        for waits in self._waits:
            if not waits.entries:
                continue
            for waiting in waits.reached():
                queue_to_move = waiting.reached(self._confirms)
                if queue_to_move is not None:
                    self.touch(queue_to_move)
        if self._touched:
            touched, self._touched = self._touched, OrderedDict()
            self._serve(touched, now)
        self._confirms.end_turn()
        return bool(self._touched)

    def _serve(self, touched: OrderedDict[AnyQueue, None], now: Now) -> None:
        """Serve queues until the turn's work is done; the others stay touched.

        While some are late the newest and the oldest take turns: a client whose one queue has just been touched
        does not wait for the thousands of another, and these get on all the same.
        """
        work = self._work
        until = work.spent + self._work_per_turn
        newest = False
        while touched and work.spent < until:
            queue, _ = touched.popitem(last=newest)
            newest = self._late and not newest
            inbox = queue.inbox
            spent = QUEUE_WORK + inbox.waiting + RUN_WORK * inbox.runs
            if queue.admit(self._confirms, now):
                self._touched[queue] = None
            if inbox.waiting:
                spent -= inbox.waiting + RUN_WORK * inbox.runs
            work.spent += spent + queue.dispatch(now)
            self._look_ahead(queue)
        self._late = bool(touched)
        if touched:
            for queue in self._touched:
                touched[queue] = None
            self._touched = touched

    def _look_ahead(self, queue: AnyQueue) -> None:
        if queue.expired:
            self._expired.append(queue)
            return
        deadline = queue.deadline
        if deadline < self._due_at.get(queue, inf):
            self._due_at[queue] = deadline
            heappush(self._due, (deadline, next(self._numbers), queue))
