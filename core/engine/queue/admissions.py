"""A queue's answers to the messages that were published to it, in the order in which the queue took the messages on.

Some messages are confirmed as soon as the queue takes them on. Others are confirmed when the lane of the queue's
backing has reached the message's position: either when the message is written, or when it is synced. Which of the two
applies may change during the life of the queue. Because answers are given in order, an answer that needs no waiting, or
a shorter wait, is held until all answers before it have been given.

Stage credit does not wait for the answers before it. A message is acknowledged to the publisher's stage credit as soon
as the message can be delivered or is rejected. If the backing makes messages ready before they are safe
(``ready_before``), that is as soon as the queue takes them on.

Invariants: of each message that was taken on or rejected here exactly one answer goes to the confirms, and the answers
of a queue are in order; a publisher's ``unsynced`` is the number of its messages that wait here for a sync.
"""

from collections import deque
from dataclasses import dataclass

from core.engine.confirms import Confirms, Submission
from core.engine.queue.kinds import AnyQueue
from core.engine.queue.pump import PositionWaiter
from core.engine.ready.waits import Waits
from core.errors import EngineError, PreconditionFailed
from core.store.command_log import NOWHERE

NOT_COMMITTED = PreconditionFailed("the leader of the queue has changed before the message was safe; publish it again")
NOT_KNOWN = PreconditionFailed(
    "this node was away from its cluster for so long that it cannot find out whether the message is in the queue"
)


@dataclass(eq=False, slots=True)
class Admission:
    """A range of a submission's messages that the queue has taken on or rejected, and has not answered yet."""

    admissions: "Admissions"
    submission: Submission
    start: int
    stop: int
    due: bool
    """Whether it can be answered as soon as the admissions before it are answered."""
    synced: bool = False
    """Whether it waits for a sync."""
    error: EngineError | None = None
    """Why the messages were rejected; None if they were taken on."""
    repeat: bool = False
    """Whether the messages had been taken on before: they are as safe as those."""
    refused: bool = False
    """Whether the log has refused them, so that they were not taken on after all."""
    unknown: bool = False
    """Whether it will never be known if the log has them."""

    def reached(self, confirms: Confirms) -> AnyQueue | None:
        """The lane has reached the position of this admission."""
        return self.admissions.reached(self, confirms)


class Admissions:
    """Answers the messages that were published to one queue, in order."""

    __slots__ = (
        "_pending",
        "_queue",
        "_ready_before",
        "_refused",
        "_synced",
        "_synced_waits",
        "_unknown",
        "_waits",
        "_written_waits",
    )

    def __init__(
        self,
        queue: AnyQueue,
        *,
        written: Waits[PositionWaiter] | None,
        synced: Waits[PositionWaiter] | None,
        ready_before: bool,
    ) -> None:
        """``written`` and ``synced`` are the waits of the backing's lane; None where the queue does not offer that
        wait. If both are given, admissions wait for ``written`` until ``expect`` is called. ``ready_before``: the
        backing makes messages ready before they are safe."""
        self._queue = queue
        self._ready_before = ready_before
        self._written_waits = written
        self._synced_waits = synced
        self._waits: Waits[PositionWaiter] | None = None
        self._synced = False
        """Whether ``_waits`` is ``_synced_waits``."""
        self._refused = False
        """Whether the log has refused one of the admissions that were answered since the last time that none was left.
        What repeats it was not taken on either."""
        self._unknown = False
        """The same for one of which it will never be known: then it is not known of what repeats it."""
        self._pending: deque[Admission] = deque()
        """Admissions that are not answered yet, in order."""
        self.expect(sync=False)

    @property
    def waiting(self) -> bool:
        """Whether messages are not answered yet."""
        return bool(self._pending)

    def expect(self, *, sync: bool) -> None:
        """Let messages that are taken on from now on wait until they are synced, or only until they are written. This
        has no effect on a queue that has only one of the two waits."""
        if self._written_waits is not None and self._synced_waits is not None:
            self._synced = sync
        else:
            self._synced = self._synced_waits is not None
        self._waits = self._synced_waits if self._synced else self._written_waits

    def took(self, confirms: Confirms, submission: Submission, start: int, stop: int, position: int | None) -> None:
        """The queue has taken on these messages; they are safe when the lane has reached ``position`` (None: no need to
        wait)."""
        waits = self._waits if position is not None else None
        sender = submission.publisher.stage_credit
        if sender is not None and (self._ready_before or waits is None):
            self._queue.stage_credit.ack(sender, stop - start)
        if position is not None and waits is not None:
            admission = Admission(self, submission, start, stop, due=False, synced=self._synced)
            self._pending.append(admission)
            if position == NOWHERE.position:
                admission.synced, admission.refused = False, True
                return
            waits.add(position, admission)
            if self._synced:
                submission.publisher.unsynced += stop - start
        elif self._pending:
            self._pending.append(Admission(self, submission, start, stop, due=True))
        else:
            confirms.took(submission, self._queue, start, stop)

    def repeated(self, confirms: Confirms, submission: Submission, start: int, stop: int) -> None:
        """The queue had taken these messages on before, and drops them. They are answered after all messages before
        them, so as soon as what they repeat is safe."""
        self.took(confirms, submission, start, stop, None)
        if self._pending:
            self._pending[-1].repeat = True

    def reject(self, confirms: Confirms, submission: Submission, start: int, stop: int, error: EngineError) -> None:
        """The queue has rejected these messages with ``error``."""
        if submission.publisher.stage_credit is not None:
            self._queue.stage_credit.ack(submission.publisher.stage_credit, stop - start)
        if self._pending:
            self._pending.append(Admission(self, submission, start, stop, due=True, error=error))
        else:
            confirms.reject(submission, self._queue, start, stop, error)

    def reached(self, admission: Admission, confirms: Confirms) -> AnyQueue | None:
        """The lane has reached the position of this admission. Return the queue if its messages become ready only
        now."""
        admission.due = True
        sender = admission.submission.publisher.stage_credit
        if sender is not None and not self._ready_before:
            self._queue.stage_credit.ack(sender, admission.stop - admission.start)
        if admission.synced:
            admission.submission.publisher.unsynced -= admission.stop - admission.start
        pending = self._pending
        while pending and pending[0].due:
            one = pending.popleft()
            self._refused |= one.refused
            self._unknown |= one.unknown
            if one.unknown or (one.repeat and self._unknown):
                confirms.uncertain(one.submission, self._queue, one.start, one.stop, NOT_KNOWN)
            elif one.refused or (one.repeat and self._refused):
                confirms.withdrawn(one.submission, self._queue, one.start, one.stop, NOT_COMMITTED)
            elif one.error is None:
                confirms.took(one.submission, self._queue, one.start, one.stop)
            else:
                confirms.reject(one.submission, self._queue, one.start, one.stop, one.error)
        if not pending:
            self._refused = self._unknown = False
        return None if self._ready_before else self._queue

    def give_up(self, confirms: Confirms) -> None:
        """Answer, in their order, the messages that the log has refused."""
        for admission in [one for one in self._pending if one.refused]:
            self.reached(admission, confirms)

    def dissolve(self, confirms: Confirms, moved: EngineError | None = None) -> None:
        """The queue is deleted, or another node leads it from now on, and ``moved`` says so: answer all messages that
        still wait here, as :meth:`core.engine.confirms.Confirms.gone` does."""
        for waits in (self._written_waits, self._synced_waits):
            if waits is not None:
                waits.withdraw(self._waits_here)
        for one in self._pending:
            if one.synced and not one.due:
                one.submission.publisher.unsynced -= one.stop - one.start
            confirms.gone(one.submission, self._queue, one.start, one.stop, moved=moved)
        self._pending.clear()
        del self._queue  # breaks the reference cycle with the queue, so that reference counting frees both

    def _waits_here(self, waiting: PositionWaiter) -> bool:
        return isinstance(waiting, Admission) and waiting.admissions is self


def refuse(waiting: PositionWaiter, confirms: Confirms) -> AnyQueue | None:
    """The log will never reach the position that this waits for: messages were not taken on after all. Returns as
    :meth:`PositionWaiter.reached`."""
    if isinstance(waiting, Admission):
        waiting.refused = True
    return waiting.reached(confirms)


def lose_track(waiting: PositionWaiter, confirms: Confirms) -> AnyQueue | None:
    """It will never be known whether the log has reached the position that this waits for. Returns as
    :meth:`PositionWaiter.reached`."""
    if isinstance(waiting, Admission):
        waiting.unknown = True
    return waiting.reached(confirms)
