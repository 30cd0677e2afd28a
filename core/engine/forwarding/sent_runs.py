"""Messages that were sent to a queue's home node and are not answered yet, by their numbers on the link.

Answers come for any range. A submission that went to this queue alone is answered at once; one that went to others too
needs its answers in order (:mod:`core.engine.confirms`), so that an early one waits.
"""

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from core.engine.confirms import Confirms, Submission
from core.errors import EngineError, PreconditionFailed
from core.interface import Outcome

NOT_TAKEN = PreconditionFailed("the node of the queue has not taken the message on; publish it again")
"""A message that the home releases is not unroutable: AMQP 0.9.1 would confirm that, and drop the message."""
NOT_KNOWN = PreconditionFailed("the node of the queue does not know whether the queue has the message")


class _Answer(NamedTuple):
    start: int
    stop: int
    outcome: Outcome
    error: EngineError | None


@dataclass(eq=False, slots=True)
class SentRun:
    """Messages of one submission that were sent together."""

    first: int
    """The number of the first on the link."""
    submission: Submission
    start: int
    stop: int
    open: list[tuple[int, int]] = field(init=False)
    """What is not answered, as places in the run: start inclusive, stop exclusive."""
    early: list[_Answer] = field(default_factory=list)
    """Answers that wait for those before them."""

    def __post_init__(self) -> None:
        self.open = [(self.start, self.stop)]

    def close(self, start: int, stop: int) -> None:
        """These messages are answered."""
        if self.open[0] == (start, stop):
            del self.open[0]
            return
        left = []
        for low, high in self.open:
            left += [piece for piece in ((low, min(high, start)), (max(low, stop), high)) if piece[0] < piece[1]]
        self.open = left


class SentRuns:
    """All of one link."""

    __slots__ = ("_firsts", "_runs", "count", "place")

    def __init__(self, place: Hashable) -> None:
        """``place`` stands for the queue in the confirms."""
        self.place = place
        self._firsts: list[int] = []
        self._runs: list[SentRun] = []
        self.count = 0
        """Messages that are not answered."""

    def add(self, first: int, submission: Submission, start: int, stop: int) -> None:
        """Messages were sent, with numbers from ``first`` up, which is above all earlier ones."""
        self._firsts.append(first)
        self._runs.append(SentRun(first, submission, start, stop))
        self.count += stop - start

    def answer(
        self, confirms: Confirms, first: int, last: int, outcome: Outcome, error: EngineError | None = None
    ) -> None:
        """The home node has answered these numbers, both inclusive, all of which are open."""
        index = max(0, bisect_right(self._firsts, first) - 1)
        self.count -= last + 1 - first
        while index < len(self._runs) and self._firsts[index] <= last:
            run = self._runs[index]
            start = run.start + max(0, first - run.first)
            stop = min(run.stop, run.start + last + 1 - run.first)
            if start < stop:
                self._answer(confirms, run, _Answer(start, stop, outcome, error))
            if run.open or run.early:
                index += 1
            else:
                del self._runs[index], self._firsts[index]

    def give_up(self, confirms: Confirms, error: EngineError) -> None:
        """No answer comes any more: whether the home node has the messages is not known."""
        runs, self._runs, self._firsts, self.count = self._runs, [], [], 0
        for run in runs:
            for start, stop in run.open:
                place = start
                for early in [one for one in run.early if start <= one.start < stop]:
                    self._lose_track(confirms, run.submission, place, early.start, error)
                    self._tell(confirms, run.submission, early)
                    place = early.stop
                self._lose_track(confirms, run.submission, place, stop, error)

    def _lose_track(
        self, confirms: Confirms, submission: Submission, start: int, stop: int, error: EngineError
    ) -> None:
        if start < stop:
            confirms.uncertain(submission, self.place, start, stop, error)

    def _answer(self, confirms: Confirms, run: SentRun, answer: _Answer) -> None:
        if run.submission.progress is None:
            run.close(answer.start, answer.stop)
            self._tell(confirms, run.submission, answer)
            return
        run.early.append(answer)
        run.early.sort()
        while run.early and run.open and run.early[0].start == run.open[0][0]:
            ready = run.early.pop(0)
            run.close(ready.start, ready.stop)
            self._tell(confirms, run.submission, ready)

    def _tell(self, confirms: Confirms, submission: Submission, answer: _Answer) -> None:
        start, stop, outcome, error = answer
        if outcome is Outcome.ACCEPTED:
            confirms.took(submission, self.place, start, stop)
        elif outcome is Outcome.REJECTED:
            assert error is not None
            confirms.reject(submission, self.place, start, stop, error)
        elif outcome is Outcome.UNCERTAIN:
            confirms.uncertain(submission, self.place, start, stop, error or NOT_KNOWN)
        else:
            confirms.withdrawn(submission, self.place, start, stop, error or NOT_TAKEN)
