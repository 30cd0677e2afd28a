"""How the messages of one queue end, or come back: what is settled, given up, or dead-lettered.

A settlement of a great many stretches is seen to in parts. Messages of it that no part has reached are in no consumer's
hands any more and not ready either. As long as some of them are to come back, the queue hands nothing out: what stands
behind them would overtake them.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from core.engine.consumers import Attachment
from core.engine.dead_letter import DeadLetters, keeps
from core.engine.options import QueueOptions
from core.engine.queue_counters import QueueCounters
from core.engine.shelf import Shelf
from core.engine.stretch import NOWHERE, Stretch
from core.interface import DeathReason, Disposal
from core.message import Return

SETTLED_AT_ONCE = 1_000
"""Stretches that are settled in one step, of at most 256 messages each: 1 to 2 ms."""

SETTLEMENT_WORK = 2
"""Of a stretch, in units of :mod:`core.work`."""


SEQUENCES = attrgetter("sequences")


class Endings:
    """Of one queue. ``options`` are the queue's, as they are now."""

    __slots__ = ("_counters", "_letters", "_shelves", "_waiting", "count", "options", "returning")

    def __init__(
        self, shelves: Sequence[Shelf], letters: DeadLetters, counters: QueueCounters, options: QueueOptions
    ) -> None:
        self.options = options
        self._shelves = shelves
        self._letters = letters
        self._counters = counters
        self._waiting: deque[tuple[Attachment, list[Stretch], Disposal | Return]] = deque()
        """The stretches of each settlement, the next one last."""
        self.count = 0
        """Messages that are settled and not seen to."""
        self.returning = 0
        """How many of the settlements are of messages that come back."""

    def dispose(self, consumer: Attachment, stretches: Sequence[Stretch], disposal: Disposal | Return) -> None:
        """These are settled in this way: now, or as ``go_on`` is called where they are many."""
        if not self._waiting and len(stretches) <= SETTLED_AT_ONCE:
            for stretch in stretches:
                self._dispose_of(consumer, stretch, disposal)
            return
        if stretches:
            self._waiting.append((consumer, [*reversed(stretches)], disposal))
            self.count += sum(map(len, map(SEQUENCES, stretches)))
            self.returning += isinstance(disposal, Return)

    def go_on(self) -> int:
        """See to some of what waits. Returns how much work that was, in units of :mod:`core.work`."""
        seen_to = 0
        while self._waiting and seen_to < SETTLED_AT_ONCE:
            consumer, stretches, disposal = self._waiting[0]
            for _ in range(min(len(stretches), SETTLED_AT_ONCE - seen_to)):
                stretch = stretches.pop()
                self.count -= len(stretch)
                self._dispose_of(consumer, stretch, disposal)
                seen_to += 1
            if not stretches:
                self._waiting.popleft()
                self.returning -= isinstance(disposal, Return)
        return seen_to * SETTLEMENT_WORK

    def stretches(self) -> Iterator[Stretch]:
        """What waits, to be looked at only."""
        return (stretch for _, stretches, _ in self._waiting for stretch in reversed(stretches))

    def clear(self) -> None:
        """The queue is deleted."""
        self._waiting.clear()
        self.count = self.returning = 0

    def settle(self, stretches: Iterable[Stretch]) -> None:
        """Messages are gone for good."""
        for stretch in stretches:
            if stretch.level != NOWHERE:
                self._shelves[-1 - stretch.level].backing.settle(stretch)

    def give_up(self, stretch: Stretch, reason: DeathReason) -> None:
        """Dead-letter messages, or drop them."""
        if not self._letters.post(stretch, reason, self.options):
            self.settle((stretch,))
        elif stretch.level != NOWHERE and keeps(self.options, reason):
            discards = self._shelf_of(stretch).discards
            if discards is not None:
                discards.discard(stretch, reason.value)

    def go_on_dead_lettering(self) -> None:
        """After a start: what was being dead-lettered before, and was not confirmed, is so again."""
        for shelf in self._shelves:
            for stretch, reason in [] if shelf.discards is None else shelf.discards.discards():
                stretch.level = shelf.level
                if not self._letters.post(stretch, DeathReason(reason), self.options):
                    self.settle((stretch,))

    def _dispose_of(self, consumer: Attachment, stretch: Stretch, disposal: Disposal | Return) -> None:
        if disposal is Disposal.ACCEPTED:
            self._counters.accepted += len(stretch.sequences)
            self._shelves[-1 - stretch.level].backing.settle(stretch)
        elif isinstance(disposal, Return):
            self._take_back(consumer, stretch, disposal)
        else:
            self._counters.rejected += len(stretch)
            self.give_up(stretch, DeathReason.REJECTED)

    def _take_back(self, consumer: Attachment, stretch: Stretch, how: Return) -> None:
        limit = self.options.delivery_limit
        self._counters.returned += len(stretch)
        if not how.unsent:
            stretch.first_acquirer = False
            stretch.delivery_count += how.delivery_failed
        if how.undeliverable_here and not consumer.detached:
            stretch.barred |= {consumer}
        if how.annotations:
            stretch.annotate(how.annotations)
        if how.undeliverable_here and self.options.dead_letter_exchange is not None:
            self.give_up(stretch, DeathReason.REJECTED)  # undeliverable here, and there is somewhere else
        elif how.delivery_failed and limit is not None and stretch.delivery_count > limit:
            self.give_up(stretch, DeathReason.DELIVERY_LIMIT)
        else:
            self._shelf_of(stretch).put_back(stretch)

    def _shelf_of(self, stretch: Stretch) -> Shelf:
        return self._shelves[-1 - stretch.level]
