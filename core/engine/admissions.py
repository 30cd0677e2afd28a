"""What a queue has answered of the runs that it was given, and what of that still waits for its lane.

A message that is taken on is confirmed at once, or when the lane of its backing has come to the message's position:
has written it, or synced it. Which of the two decides may change while the queue is there. A queue answers in the order
in which it took messages on; so an answer that needs no waiting, or less, waits behind those before it.

Stage credit waits for less: a message is acknowledged to a publisher that has some when it could be delivered, or when
it is rejected, whatever is before it. Where messages are ready before they are safe, that is at once.

Invariants: of each message that was taken on or rejected here exactly one answer goes to the confirms, and the answers
of a queue are in order; a publisher's ``unsynced`` is the number of its messages that wait here for a sync.
"""

from collections import deque
from dataclasses import dataclass

from core.engine.confirms import Confirms, Submission
from core.engine.kinds import AnyQueue
from core.engine.pump import Waiting
from core.engine.waits import Waits
from core.errors import EngineError


@dataclass(eq=False, slots=True)
class Admission:
    """Part of a submission that a queue has taken on, or rejected."""

    admissions: "Admissions"
    submission: Submission
    start: int
    stop: int
    due: bool
    """It may be answered, as soon as those before it are."""
    synced: bool = False
    """It waits for a sync."""
    error: EngineError | None = None
    """Why it was rejected."""

    def reached(self, confirms: Confirms) -> AnyQueue | None:
        """The lane has come as far as this needs."""
        return self.admissions.reached(self, confirms)


class Admissions:
    """The answers of one queue."""

    __slots__ = ("_pending", "_queue", "_ready_before", "_synced", "_synced_waits", "_waits", "_written_waits")

    def __init__(
        self,
        queue: AnyQueue,
        *,
        written: Waits[Waiting] | None,
        synced: Waits[Waiting] | None,
        ready_before: bool,
    ) -> None:
        """``written`` and ``synced`` are waits of the backing's lane; the first that there is decides until ``expect``
        is told otherwise. ``ready_before``: messages are ready before they are safe."""
        self._queue = queue
        self._ready_before = ready_before
        self._written_waits = written
        self._synced_waits = synced
        self._waits: Waits[Waiting] | None = None
        self._synced = False
        """Whether they are those for a sync."""
        self._pending: deque[Admission] = deque()
        """What is not answered, in order."""
        self.expect(sync=False)

    def expect(self, *, sync: bool) -> None:
        """What is taken on from now on waits for a sync, or only until it is written, if the queue has the choice."""
        if self._written_waits is not None and self._synced_waits is not None:
            self._synced = sync
        else:
            self._synced = self._synced_waits is not None
        self._waits = self._synced_waits if self._synced else self._written_waits

    def took(self, confirms: Confirms, submission: Submission, start: int, stop: int, position: int | None) -> None:
        """Messages were taken on; they are safe when the lane has reached the position."""
        waits = self._waits if position is not None else None
        sender = submission.publisher.stage_credit
        if sender is not None and (self._ready_before or waits is None):
            self._queue.stage_credit.ack(sender, stop - start)
        if position is not None and waits is not None:
            admission = Admission(self, submission, start, stop, due=False, synced=self._synced)
            self._pending.append(admission)
            waits.add(position, admission)
            if self._synced:
                submission.publisher.unsynced += stop - start
        elif self._pending:
            self._pending.append(Admission(self, submission, start, stop, due=True))
        else:
            confirms.took(submission, self._queue, start, stop)

    def reject(self, confirms: Confirms, submission: Submission, start: int, stop: int, error: EngineError) -> None:
        """There was no room for these."""
        if submission.publisher.stage_credit is not None:
            self._queue.stage_credit.ack(submission.publisher.stage_credit, stop - start)
        if self._pending:
            self._pending.append(Admission(self, submission, start, stop, due=True, error=error))
        else:
            confirms.reject(submission, self._queue, start, stop, error)

    def reached(self, admission: Admission, confirms: Confirms) -> AnyQueue | None:
        """The lane has come as far as this one needs. Returns the queue when it has messages ready only now."""
        admission.due = True
        sender = admission.submission.publisher.stage_credit
        if sender is not None and not self._ready_before:
            self._queue.stage_credit.ack(sender, admission.stop - admission.start)
        if admission.synced:
            admission.submission.publisher.unsynced -= admission.stop - admission.start
        pending = self._pending
        while pending and pending[0].due:
            one = pending.popleft()
            if one.error is None:
                confirms.took(one.submission, self._queue, one.start, one.stop)
            else:
                confirms.reject(one.submission, self._queue, one.start, one.stop, one.error)
        return None if self._ready_before else self._queue

    def dissolve(self, confirms: Confirms) -> None:
        """The queue is deleted: what waits here will not be safe in it any more."""
        for waits in (self._written_waits, self._synced_waits):
            if waits is not None:
                waits.withdraw(self._waits_here)
        for one in self._pending:
            if one.synced and not one.due:
                one.submission.publisher.unsynced -= one.stop - one.start
            confirms.gone(one.submission, self._queue, one.start, one.stop)
        self._pending.clear()
        del self._queue  # which refers to this: so both go at once, without a look for cycles

    def _waits_here(self, waiting: Waiting) -> bool:
        return isinstance(waiting, Admission) and waiting.admissions is self
