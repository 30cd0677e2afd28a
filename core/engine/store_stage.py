"""The message store as a stage: what queues have sent to it, and when that is acknowledged.

Only bodies that go to the message store count, each as often as a queue has it stored, whatever client published it;
what stands in a queue's index goes unnoticed. They are acknowledged when the lane has written the batch that they are
in. A queue finds out once per turn what it has sent. So it may send one turn's messages more than it is allowed to,
which stage credit never forbids: it is blocked then, and keeps back the grants of its publishers.
"""

from dataclasses import dataclass

from core.clock import Now
from core.credit_flow.flow import CreditFlow, StageCreditSpec
from core.engine.confirms import Confirms
from core.engine.kinds import AnyQueue
from core.engine.pump import Waiting
from core.engine.waits import Waits
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
        """See :class:`core.engine.pump.Waiting`. A queue that is blocked no longer notes the time in its turn."""
        sender = self.queue.stage_credit
        blocked = sender.blocked
        self.store.ack(sender, self.count)
        return self.queue if blocked and not sender.blocked else None


class StoreStage:
    """The stage of one broker's store."""

    __slots__ = ("_lane", "_written", "stage_credit")

    def __init__(self, spec: StageCreditSpec, *, lane: Lane, written: Waits[Waiting]) -> None:
        """``written``: what waits for the lane to have written it."""
        self.stage_credit = CreditFlow(STORE, spec)
        self._lane = lane
        self._written = written

    def take(self, queue: AnyQueue, count: int, now: Now) -> None:
        """Bodies that a queue has had stored just now."""
        queue.stage_credit.send(self.stage_credit, count, now.monotonic)
        self._written.add(self._lane.staged, _Sent(self.stage_credit, queue, count))


class ToStore:
    """One queue's way to the store. ``kept`` is what its indexes have counted."""

    __slots__ = ("_stage", "kept")

    def __init__(self, stage: StoreStage) -> None:
        self._stage = stage
        self.kept = BodiesKept()

    def look(self, queue: AnyQueue, now: Now) -> None:
        """Send what has been stored since the last look."""
        count, self.kept.count = self.kept.count, 0
        if count:
            self._stage.take(queue, count, now)
        else:
            queue.stage_credit.stamp(now.monotonic)
