"""The answers to published messages: when a message is answered, and with which outcome.

A message is answered when every queue it was routed to has answered it: REJECTED when one of them had no room for
it, even if others took it on; ACCEPTED when at least one of them took it on; RELEASED when none did because they were
all deleted first. One ``Confirmed`` covers a range.

Each queue answers the messages of a run in order. So a queue's progress in a run is one number, and a run is answered
up to the lowest progress of its queues. A run that goes to several queues has a ``RunProgress``: it holds this number
for each queue, whatever the run's size, and the ranges that were rejected. A run for one queue needs none.

This module does not know queues: each queue that a run goes to is a *place*, any hashable object.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from core.errors import EngineError
from core.interface import Confirmed, Outcome, Publisher, PublisherClosed
from core.message import Run

if TYPE_CHECKING:  # most brokers trace nothing, and save its memory
    from core.traces import Traces


class OutcomeRange(NamedTuple):
    """The outcome of the messages of a run from ``start`` (inclusive) to ``stop`` (exclusive)."""

    start: int
    stop: int
    outcome: Outcome
    error: EngineError | None = None


@dataclass(eq=False, slots=True)
class RunProgress:
    """The progress of a run that went to several places. Positions count from 0 at the run's start."""

    count: int
    progress: dict[Hashable, int]
    """By place, how many messages it has answered. Only places that exist and have not answered the whole run."""
    reached: int = 0
    """All messages before this position were taken on by at least one place, or refused by it."""
    answered: int = 0
    refusals: list[OutcomeRange] = field(default_factory=list)
    """What places have rejected, or do not know of, and is not answered yet; the ranges may overlap."""
    behind: int = field(init=False)
    """How many places have not got beyond ``answered``. While it is above 0, no further message can be answered, and
    the progress of the other places need not be read."""

    def __post_init__(self) -> None:
        self.behind = len(self.progress)

    def took(self, place: Hashable, stop: int) -> None:
        """The place has taken on all messages before ``stop``, except those that it refused."""
        self.reached = max(self.reached, stop)
        self._advance(place, stop)

    def refused(self, place: Hashable, refusal: OutcomeRange) -> None:
        """The place has rejected these messages, or does not know of them, and has answered all messages before
        them."""
        self.refusals.append(refusal)
        self._advance(place, refusal.stop)

    def gone(self, place: Hashable) -> None:
        """The place was deleted and takes on no more messages."""
        self.behind -= self.progress.pop(place, self.count) <= self.answered

    def answers(self) -> list[OutcomeRange]:
        """Return the answers that have become possible since the last call, in order."""
        if self.behind:
            return []
        start = self.answered
        self.answered = stop = min(self.progress.values(), default=self.count)
        self.behind = sum(reached == stop for reached in self.progress.values())
        if not self.refusals:
            return self._not_refused(start, stop)
        answers: list[OutcomeRange] = []
        for refusal in sorted(self.refusals, key=attrgetter("start")):
            low, high = max(start, refusal.start), min(stop, refusal.stop)
            if low < high:
                answers += self._not_refused(start, low)
                answers.append(refusal._replace(start=low, stop=high))
                start = high
        self.refusals = [refusal for refusal in self.refusals if refusal.stop > stop]
        return answers + self._not_refused(start, stop)

    def _advance(self, place: Hashable, stop: int) -> None:
        self.behind -= self.progress[place] <= self.answered < stop
        if stop == self.count:
            del self.progress[place]
        else:
            self.progress[place] = stop

    def _not_refused(self, start: int, stop: int) -> list[OutcomeRange]:
        middle = min(max(self.reached, start), stop)
        parts = (OutcomeRange(start, middle, Outcome.ACCEPTED), OutcomeRange(middle, stop, Outcome.RELEASED))
        return [part for part in parts if part.start < part.stop]


class Submission(NamedTuple):
    """A run that was published to one or more places; these places share one submission."""

    publisher: Publisher
    run: Run
    progress: RunProgress | None
    """None if the run goes to one place."""

    @staticmethod
    def to(places: Sequence[Hashable], publisher: Publisher, run: Run) -> "Submission":
        """Make the submission of a run for these places, at least one."""
        several = len(places) > 1
        progress = RunProgress(len(run.entries), dict.fromkeys(places, 0)) if several else None
        return Submission(publisher, run, progress)


class Confirms:
    """Puts ``Confirmed`` actions into the publishers' mailboxes, as few as possible. A publisher that has left gets
    none."""

    __slots__ = (
        "_closed", "_latest", "_own", "_publishers", "accepted", "in_turn", "rejected", "released", "repeated",
        "traces",
    )  # fmt: skip

    def __init__(self) -> None:
        self.accepted = 0
        """How many messages got this outcome; likewise the two counters below."""
        self.rejected = 0
        self.released = 0
        """Messages that were routed to no queue, or whose queues were all deleted first."""
        self.repeated = 0
        """Messages that queues had taken on before and dropped; each queue counts its own."""
        self.traces: Traces | None = None
        """Follows traced messages; None while none are traced."""
        self._publishers: dict[Publisher, None] = {}
        self._own: set[Publisher] = set()
        self._closed: set[Publisher] = set()
        self.in_turn = False
        """Whether a turn is under way. From its begin, which sets this, to ``end_turn`` adjoining answers with the same
        outcome are joined into one action."""
        self._latest: dict[Publisher, Confirmed] = {}
        """The last action for each publisher in this turn. It is still in the mailbox, so its range can still be
        extended."""

    @property
    def publishers(self) -> Sequence[Publisher]:
        """All publishers that have not left, oldest first, without the engine's own (couriers)."""
        return list(self._publishers)

    def enter(self, publisher: Publisher) -> None:
        """Register a publisher: it is answered from now on."""
        self._publishers[publisher] = None

    def enter_own(self, publisher: Publisher) -> None:
        """Register a publisher inside the engine. It is neither shown nor counted, and may empty its mailbox during a
        turn."""
        self._own.add(publisher)

    def is_own(self, publisher: Publisher) -> bool:
        """Return whether this is a publisher inside the engine."""
        return publisher in self._own

    def leave(self, publisher: Publisher) -> None:
        """Unregister a publisher: it gets no more actions."""
        self._publishers.pop(publisher, None)
        self._own.discard(publisher)
        self._closed.discard(publisher)

    def close(self, publisher: Publisher, error: EngineError) -> None:
        """Tell the publisher, once, that its target was deleted."""
        if publisher in self._publishers and publisher not in self._closed:
            self._closed.add(publisher)
            publisher.mailbox.put(PublisherClosed(publisher, error))

    def end_turn(self) -> None:
        """The mailboxes may be emptied from now on."""
        self.in_turn = False
        self._latest.clear()

    def took(self, submission: Submission, place: Hashable, start: int, stop: int) -> None:
        """The place has taken on the messages of the run from ``start`` (inclusive) to ``stop`` (exclusive)."""
        publisher, run, progress = submission
        if self.traces is not None:
            self.traces.enqueued(publisher, run.first + start, run.first + stop - 1, place)
        if progress is None:
            self._answer(publisher, run.first + start, run.first + stop - 1, Outcome.ACCEPTED)
        else:
            progress.took(place, stop)
            self._answer_progress(submission)

    def reject(self, submission: Submission, place: Hashable, start: int, stop: int, error: EngineError) -> None:
        """The place has rejected these messages, and has answered all messages before them."""
        self._refuse(submission, place, OutcomeRange(start, stop, Outcome.REJECTED, error))

    def withdrawn(self, submission: Submission, place: Hashable, start: int, stop: int, error: EngineError) -> None:
        """The place had taken on these messages, and cannot keep them. Messages that went to no other place are
        released; the others are uncertain, because another place may have taken them on."""
        if submission.progress is None:
            first = submission.run.first
            self._answer(submission.publisher, first + start, first + stop - 1, Outcome.RELEASED, error)
        else:
            self.uncertain(submission, place, start, stop, error)

    def uncertain(self, submission: Submission, place: Hashable, start: int, stop: int, error: EngineError) -> None:
        """Whether the place has these messages will never be known. It has answered all messages before them."""
        self._refuse(submission, place, OutcomeRange(start, stop, Outcome.UNCERTAIN, error))

    def gone(
        self, submission: Submission, place: Hashable, start: int, stop: int | None = None, *,
        moved: EngineError | None = None,
    ) -> None:  # fmt: skip
        """The place takes on none of these messages, nor any after them. Without ``stop``: all from ``start`` on.

        Without ``moved``, the place was deleted. With it, the place is somewhere else from now on, and these messages
        are :meth:`withdrawn` with this error, which is not the answer to messages that have no route.
        """
        publisher, run, progress = submission
        stop = len(run.entries) if stop is None else stop
        if moved is not None:
            self.withdrawn(submission, place, start, stop, moved)
        elif progress is None:
            self.release(publisher, run.first + start, run.first + stop - 1)
        else:
            progress.gone(place)
            self._answer_progress(submission)

    def release(self, publisher: Publisher, first: int, last: int) -> None:
        """Answer messages that were routed to no queue as released (confirm numbers, both inclusive)."""
        self._answer(publisher, first, last, Outcome.RELEASED)

    def _refuse(self, submission: Submission, place: Hashable, refusal: OutcomeRange) -> None:
        publisher, run, progress = submission
        if progress is None:
            first, last = run.first + refusal.start, run.first + refusal.stop - 1
            self._answer(publisher, first, last, refusal.outcome, refusal.error)
        else:
            progress.refused(place, refusal)
            self._answer_progress(submission)

    def _answer_progress(self, submission: Submission) -> None:
        publisher, run, progress = submission
        assert progress is not None
        for start, stop, outcome, error in progress.answers():
            self._answer(publisher, run.first + start, run.first + stop - 1, outcome, error)

    def _answer(
        self, publisher: Publisher, first: int, last: int, outcome: Outcome, error: EngineError | None = None
    ) -> None:
        if publisher in self._own:
            publisher.mailbox.put(Confirmed(publisher, first, last, outcome, error))
            return
        if self.traces is not None:
            self.traces.answered(publisher, first, last, outcome)
        if outcome is Outcome.ACCEPTED:
            self.accepted += last - first + 1
        elif outcome is Outcome.RELEASED:
            self.released += last - first + 1
        elif outcome is Outcome.REJECTED:
            self.rejected += last - first + 1
        if publisher not in self._publishers:
            return
        latest = self._latest.get(publisher)
        if latest is not None and latest.last + 1 == first and latest.outcome is outcome and latest.error is error:
            latest.last = last
            return
        confirmed = Confirmed(publisher, first, last, outcome, error)
        if self.in_turn:
            self._latest[publisher] = confirmed
        publisher.mailbox.put(confirmed)
