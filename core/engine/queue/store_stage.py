"""The message store as a stage: which bodies queues have sent to it, and when these are acknowledged.

Only bodies that go to the message store count; bodies in a queue's index do not. A body counts once for each queue that
stores it, whatever client published it. Bodies are acknowledged when the lane has written their batch. A queue counts
only once per turn what it has sent, so it may exceed its stage credit by the messages of one turn. Stage credit allows
that: the queue is then blocked and withholds the grants of its publishers.
"""

from dataclasses import dataclass

from core.clock import Now
from core.credit_flow.flow import CreditFlow, StageCreditSpec
from core.engine.confirms import Confirms
from core.engine.queue.kinds import AnyQueue
from core.engine.queue.pump import PositionWaiter
from core.engine.ready.waits import Waits
from core.store.lane import Lane
from core.store.places import BodiesKept

STORE = "message store"
"""The name of its stage."""


@dataclass(eq=False, slots=True)
class _Sent:
    """Bodies on their way to the disk."""

    store: CreditFlow
    queue: AnyQueue
    count: int

    def reached(self, confirms: Confirms) -> AnyQueue | None:
        """See :class:`core.engine.queue.pump.PositionWaiter`. A queue that is unblocked by this gets a turn, in which
        it notes the time."""
        sender = self.queue.stage_credit
        blocked = sender.blocked
        self.store.ack(sender, self.count)
        return self.queue if blocked and not sender.blocked else None


class StoreStage:
    """The stage of one broker's message store."""

    __slots__ = ("_lane", "_written", "stage_credit")

    def __init__(self, spec: StageCreditSpec, *, lane: Lane, written: Waits[PositionWaiter]) -> None:
        """``written``: the waits for positions that the lane has written."""
        self.stage_credit = CreditFlow(STORE, spec)
        self._lane = lane
        self._written = written

    def take(self, queue: AnyQueue, count: int, now: Now) -> None:
        """Count bodies that a queue has just stored."""
        queue.stage_credit.send(self.stage_credit, count, now.monotonic)
        self._written.add(self._lane.staged, _Sent(self.stage_credit, queue, count))


class ToStore:
    """One queue's connection to the stage of the store. ``kept`` counts the bodies that its indexes have stored."""

    __slots__ = ("_stage", "kept")

    def __init__(self, stage: StoreStage) -> None:
        self._stage = stage
        self.kept = BodiesKept()

    def look(self, queue: AnyQueue, now: Now) -> None:
        """Count the bodies stored since the last call against the stage credit."""
        kept = self.kept
        if kept.count:
            count, kept.count = kept.count, 0
            self._stage.take(queue, count, now)
        elif queue.stage_credit.unstamped:
            queue.stage_credit.stamp(now.monotonic)
