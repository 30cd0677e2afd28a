"""What a queue has answered of the runs that it was given, and what of that still waits for its lane.

A message that is taken on is confirmed at once, or when the lane of its backing has come to the message's position.
A queue answers the messages of a run in order; so an answer that needs no waiting (a rejection, as a rule) waits behind
the queue's last one that does.

Invariants: of each message that was taken on or rejected here exactly one answer goes to the confirms; a publisher's
``unsynced`` is the number of its messages that wait here for a sync.
"""

from dataclasses import dataclass, field

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
    error: EngineError | None = None
    """Why it was rejected."""
    followers: list["Admission"] = field(default_factory=list)
    """What is answered right after it."""

    def reached(self, confirms: Confirms) -> AnyQueue | None:
        """The lane has come as far as this needs."""
        return self.admissions.answer(self, confirms)


class Admissions:
    """The answers of one queue."""

    __slots__ = ("_last", "_queue", "_ready_before", "_synced", "_waits")

    def __init__(self, queue: AnyQueue, waits: Waits[Waiting] | None, *, synced: bool, ready_before: bool) -> None:
        """``waits`` are those of the backing's lane: of its synced position where ``synced``. ``ready_before``:
        messages are ready before they are safe."""
        self._ready_before = ready_before
        self._queue = queue
        self._waits = waits
        self._synced = synced
        self._last: Admission | None = None
        """The newest that waits for the lane."""

    def took(self, confirms: Confirms, submission: Submission, start: int, stop: int, position: int | None) -> None:
        """Messages were taken on; they are safe when the lane has reached the position."""
        if position is not None and self._waits is not None:
            self._last = Admission(self, submission, start, stop)
            self._waits.add(position, self._last)
            if self._synced:
                submission.publisher.unsynced += stop - start
        elif self._last is not None:
            self._last.followers.append(Admission(self, submission, start, stop))
        else:
            confirms.took(submission, self._queue, start, stop)

    def reject(self, confirms: Confirms, submission: Submission, start: int, stop: int, error: EngineError) -> None:
        """There was no room for these."""
        if self._last is not None:
            self._last.followers.append(Admission(self, submission, start, stop, error))
        else:
            confirms.reject(submission, self._queue, start, stop, error)

    def answer(self, admission: Admission, confirms: Confirms) -> AnyQueue | None:
        """The lane has come as far as this one needs. Returns the queue when it has messages ready only now."""
        if admission is self._last:
            self._last = None
        if self._synced:
            admission.submission.publisher.unsynced -= admission.stop - admission.start
        for one in (admission, *admission.followers):
            if one.error is None:
                confirms.took(one.submission, self._queue, one.start, one.stop)
            else:
                confirms.reject(one.submission, self._queue, one.start, one.stop, one.error)
        return None if self._ready_before else self._queue

    def dissolve(self, confirms: Confirms) -> None:
        """The queue is deleted: what waits here will not be safe in it any more."""
        if self._waits is None:
            return
        for admission in self._waits.withdraw(self._waits_here):
            assert isinstance(admission, Admission)
            if self._synced:
                admission.submission.publisher.unsynced -= admission.stop - admission.start
            for one in (admission, *admission.followers):
                confirms.gone(one.submission, self._queue, one.start, one.stop)
        self._last = None

    def _waits_here(self, waiting: Waiting) -> bool:
        return isinstance(waiting, Admission) and waiting.admissions is self
