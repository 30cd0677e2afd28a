"""Which published messages are answered, and how.

A message is answered when every queue it was routed to has answered it: ACCEPTED when at least one of them
took it on, RELEASED when none did because they were all deleted first. One ``Confirmed`` covers a range.

Each queue takes the messages of a run in order. So a queue's answer to a run is one number, how far it has
come, and a run is answered as far as the slowest of its queues has come: the ledger of a run holds one number
for each queue, whatever the run's size. A run for one queue needs no ledger at all.

This module does not know queues: to a ledger they are places, hashable things.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from core.errors import EngineError
from core.interface import Confirmed, Outcome, Publisher, PublisherClosed
from core.message import Route, Run


@dataclass(eq=False, slots=True)
class Ledger:
    """A run that went to several places: how far each has come. Positions count from 0 at the run's start."""

    count: int
    progress: dict[Hashable, int]
    """The places that have not taken all of it and still exist."""
    reached: int = 0
    """Some place has taken the messages before this one."""
    answered: int = 0

    def took(self, place: Hashable, stop: int) -> None:
        """The place has taken everything before ``stop``."""
        self.reached = max(self.reached, stop)
        if stop == self.count:
            del self.progress[place]
        else:
            self.progress[place] = stop

    def gone(self, place: Hashable) -> None:
        """The place will not take any more."""
        del self.progress[place]

    def answers(self) -> list[tuple[int, int, Outcome]]:
        """What can be answered and was not before, as ``(start, stop, outcome)``."""
        start = self.answered
        self.answered = stop = min(self.progress.values(), default=self.count)
        middle = min(max(self.reached, start), stop)
        parts = ((start, middle, Outcome.ACCEPTED), (middle, stop, Outcome.RELEASED))
        return [part for part in parts if part[0] < part[1]]


class Submission(NamedTuple):
    """A run on its way into places; the places of one run share one submission."""

    publisher: Publisher
    run: Run
    ledger: Ledger | None
    """None for a run that goes to one place."""
    route: Route | None = None
    """None for a run that goes straight into a queue."""

    @staticmethod
    def to(places: Sequence[Hashable], publisher: Publisher, run: Run, route: Route | None = None) -> "Submission":
        """A run for these places, at least one."""
        several = len(places) > 1
        ledger = Ledger(len(run.entries), dict.fromkeys(places, 0)) if several else None
        return Submission(publisher, run, ledger, route)


class Confirms:
    """Puts ``Confirmed`` into the publishers' mailboxes, as few as possible, and nothing for those who have
    left."""

    __slots__ = ("_closed", "_in_turn", "_latest", "_publishers", "accepted", "released")

    def __init__(self) -> None:
        self.accepted = 0
        """Messages answered so."""
        self.released = 0
        """Messages answered so: no queue wanted them, or none is left of those that did."""
        self._publishers: dict[Publisher, None] = {}
        self._closed: set[Publisher] = set()
        self._in_turn = False
        self._latest: dict[Publisher, Confirmed] = {}
        """The last action for each publisher in this turn. Nobody can have taken it yet, so it may still
        grow."""

    @property
    def publishers(self) -> Sequence[Publisher]:
        """Everybody who has not left, oldest first."""
        return list(self._publishers)

    def enter(self, publisher: Publisher) -> None:
        """Answer this publisher from now on."""
        self._publishers[publisher] = None

    def leave(self, publisher: Publisher) -> None:
        """No action for this publisher any more."""
        self._publishers.pop(publisher, None)
        self._closed.discard(publisher)

    def close(self, publisher: Publisher, error: EngineError) -> None:
        """The publisher's target is gone: say so, once."""
        if publisher in self._publishers and publisher not in self._closed:
            self._closed.add(publisher)
            publisher.mailbox.put(PublisherClosed(publisher, error))

    def begin_turn(self) -> None:
        """Until ``end_turn``, answers that adjoin grow together into one action."""
        self._in_turn = True

    def end_turn(self) -> None:
        """The mailboxes may be emptied from now on."""
        self._in_turn = False
        self._latest.clear()

    def took(self, submission: Submission, place: Hashable, start: int, stop: int) -> None:
        """The place has taken the messages of the run from ``start`` up to before ``stop``."""
        publisher, run, ledger, _ = submission
        if ledger is None:
            self._answer(publisher, run.first + start, run.first + stop - 1, Outcome.ACCEPTED)
        else:
            ledger.took(place, stop)
            self._answer_ledger(submission)

    def gone(self, submission: Submission, place: Hashable, start: int) -> None:
        """The place will take nothing of the run from ``start`` on."""
        publisher, run, ledger, _ = submission
        if ledger is None:
            self.release(publisher, run.first + start, run.first + len(run.entries) - 1)
        else:
            ledger.gone(place)
            self._answer_ledger(submission)

    def release(self, publisher: Publisher, first: int, last: int) -> None:
        """Nobody wants these messages (confirm numbers, both inclusive)."""
        self._answer(publisher, first, last, Outcome.RELEASED)

    def _answer_ledger(self, submission: Submission) -> None:
        publisher, run, ledger, _ = submission
        assert ledger is not None
        for start, stop, outcome in ledger.answers():
            self._answer(publisher, run.first + start, run.first + stop - 1, outcome)

    def _answer(self, publisher: Publisher, first: int, last: int, outcome: Outcome) -> None:
        if outcome is Outcome.ACCEPTED:
            self.accepted += last - first + 1
        else:
            self.released += last - first + 1
        if publisher not in self._publishers:
            return
        latest = self._latest.get(publisher)
        if latest is not None and latest.last + 1 == first and latest.outcome is outcome:
            latest.last = last
            return
        confirmed = Confirmed(publisher, first, last, outcome)
        if self._in_turn:
            self._latest[publisher] = confirmed
        publisher.mailbox.put(confirmed)
