"""The pump runs the queues: in each turn it lets every touched queue take on and deliver messages.

Messages move nowhere else. A verb touches the queue that it concerns. The next turn lets each touched queue take on
messages within the budget of its stage, and serve its consumers. A queue whose budget ran out is touched again for the
next turn, so that the other queues come first. A queue is also touched when a lane of the store reaches a position that
the queue waits for, and at the queue's deadline.

Deadlines are kept in a heap. A queue whose deadline becomes later gets no new entry: the old entry touches the queue
early, and the queue then gives its new deadline. Only a deadline that becomes earlier adds an entry.
"""

from collections import OrderedDict
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Protocol

from core.clock import Now
from core.engine.confirms import Confirms
from core.engine.queue.kinds import AnyQueue
from core.engine.queue.sums import QueueSums
from core.engine.ready.remains import Remains
from core.engine.ready.waits import Waits
from core.work import Work

QUEUE_WORK, RUN_WORK = 8, 10
"""The cost of serving a touched queue even if no message moves, and of each run that it takes on, in units of
:mod:`core.work`. Each message that it takes on costs 1 more."""

MANY_QUEUES = 64
"""Messages that go to more queues than these let the queues of other messages go first: to serve 64 takes 1 ms."""

REACHED_MAX = 500
"""The most entries of a lane that are told in one turn that it has reached their positions: 2 ms. A batch of the first
messages of 10,000 queues has an entry for each."""


class PositionWaiter(Protocol):
    """Something that waits until a lane has reached a position."""

    def reached(self, confirms: Confirms) -> AnyQueue | None:
        """The lane has reached the position: confirm the messages. Returns the queue that needs a turn now, or None."""


class QueueTurns:
    """The touched queues, in the order in which they were touched, and the deadlines of queues."""

    __slots__ = (
        "_behind", "_confirms", "_due_at", "_late", "_numbers", "_touched", "_waits", "_work", "_work_per_turn", "due",
        "expired", "remains", "sums",
    )  # fmt: skip

    def __init__(
        self,
        confirms: Confirms,
        waits: Sequence[Waits[PositionWaiter]] = (),
        *,
        work: Work | None = None,
        work_per_turn: int = 2**62,
    ) -> None:
        """``work_per_turn`` limits the work of all queues in one turn, in units counted in ``work``."""
        self._confirms = confirms
        self._waits = waits
        self._work = work or Work()
        self._work_per_turn = work_per_turn
        self._touched: OrderedDict[AnyQueue, None] = OrderedDict()
        self._behind: OrderedDict[AnyQueue, None] = OrderedDict()
        """Touched queues that were touched together with very many others, the first one first."""
        self._late = False
        """Whether some touched queues were left over from the last turn."""
        self.due: list[tuple[float, int, AnyQueue]] = []
        """A heap of deadlines. Callers may read it, to save a call when it is empty."""
        self._due_at: dict[AnyQueue, float] = {}
        """The earliest entry of each queue in the heap."""
        self._numbers = count()
        """Breaks ties in the heap."""
        self.expired: list[AnyQueue] = []
        """The queues that were found to be expired since :meth:`take_expired`."""
        self.sums = QueueSums()
        """The figures of all queues added up."""
        self.remains = Remains()
        """What is left in memory of messages that went all at once."""

    def touch(self, queue: AnyQueue) -> None:
        """Give this queue a turn: messages may be able to move."""
        self._touched[queue] = None

    def touch_all(self, queues: Sequence[AnyQueue]) -> None:
        """Give these queues a turn. If they are very many, it may come later, so that the queues of other clients need
        not wait for all of them."""
        if len(queues) <= MANY_QUEUES:
            for queue in queues:
                self._touched[queue] = None
            return
        for queue in queues:
            if queue not in self._touched:
                self._behind[queue] = None

    def forget(self, queue: AnyQueue) -> None:
        """Forget a deleted queue."""
        self._touched.pop(queue, None)
        self._behind.pop(queue, None)
        self._due_at.pop(queue, None)
        self.sums.forget(queue)

    @property
    def deadline(self) -> float:
        """The earliest deadline of a queue (monotonic seconds); infinity if there is none."""
        due = self.due
        while due and self._due_at.get(due[0][2]) != due[0][0]:
            heappop(due)
        return due[0][0] if due else inf

    def take_expired(self) -> list[AnyQueue]:
        """Return the queues that were found to be expired since the last call."""
        expired, self.expired = self.expired, []
        return expired

    def turn(self, now: Now) -> bool:
        """One turn for each touched queue. Returns True when work is left for another turn."""
        while self.due and self.due[0][0] <= now.monotonic and self.deadline <= now.monotonic:
            _, _, queue = heappop(self.due)
            del self._due_at[queue]
            self.touch(queue)
        confirms = self._confirms
        more_reached = False
        for waits in self._waits:
            if waits.entries:
                confirms.in_turn = True
                reached = waits.reached(REACHED_MAX)
                more_reached |= len(reached) == REACHED_MAX
                for waiting in reached:
                    queue_to_move = waiting.reached(confirms)
                    if queue_to_move is not None:
                        self.touch(queue_to_move)
        if self._touched or self._behind:
            confirms.in_turn = True
            touched, self._touched = self._touched, OrderedDict()
            self._serve(touched, now)
        if self.remains.left:
            freed = self.remains.free_some()
            self._work.spent += freed
        if confirms.in_turn:
            confirms.end_turn()
        return bool(self._touched or self._behind or self.remains.left or more_reached)

    def _serve(self, touched: OrderedDict[AnyQueue, None], now: Now) -> None:
        """Serve queues until the turn's work limit is reached; the others stay touched.

        While some queues are left over, the turn alternates between the most recently and the least recently touched
        queue. So a client with one queue does not wait for the thousands of queues of another client, and those make
        progress too. It alternates with the queues behind for the same reason.
        """
        work, behind, changed = self._work, self._behind, self.sums.changed
        until = work.spent + self._work_per_turn
        newest = from_behind = False
        while (touched or behind) and work.spent < until:
            if behind and (from_behind or not touched):
                queue, _ = behind.popitem(last=False)
                from_behind = False
            else:
                queue, _ = touched.popitem(last=newest)
                newest = self._late and not newest
                from_behind = True
                behind.pop(queue, None)
            changed[queue] = None
            inbox = queue.inbox
            spent = QUEUE_WORK + inbox.waiting + RUN_WORK * inbox.runs
            if queue.admit(self._confirms, now):
                self._touched[queue] = None
            if inbox.waiting:
                spent -= inbox.waiting + RUN_WORK * inbox.runs
            spent += queue.dispatch(now)
            work.spent += spent
            if queue.expired:
                self.expired.append(queue)
            elif (deadline := queue.deadline) < self._due_at.get(queue, inf):
                self._due_at[queue] = deadline
                heappush(self.due, (deadline, next(self._numbers), queue))
        self._late = bool(touched)
        if touched:
            for queue in self._touched:
                touched[queue] = None
            self._touched = touched
