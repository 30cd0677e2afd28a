"""The settlement of one queue's messages: they are accepted, dead-lettered, dropped, or returned to the queue.

A settlement of very many stretches is processed in several steps. Until their step comes, its messages are neither held
by a consumer nor ready. While some of them are to be returned, the queue delivers nothing, because messages behind them
would overtake them.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from core.engine.options.in_force import QueueOptions
from core.engine.queue.consumers import Attachment
from core.engine.queue.dead_letter import DeadLetters, keeps
from core.engine.queue.queue_counters import QueueCounters
from core.engine.ready.remains import LetGo
from core.engine.ready.returned import Heap
from core.engine.ready.shelf import Shelf
from core.engine.ready.stretch import NOWHERE, Stretch
from core.interface import DeathReason, Disposal
from core.message import Return

SETTLED_AT_ONCE = 1_000
"""Stretches that one step settles, of at most 256 messages each: 1 to 2 ms."""

SETTLEMENT_WORK = 2
"""The cost of settling one stretch, in units of :mod:`core.work`."""


SEQUENCES = attrgetter("sequences")


class Endings:
    """The settlements of one queue. ``options`` are the current options of the queue."""

    __slots__ = ("_counters", "_letters", "_purged", "_shelves", "_waiting", "count", "options", "returning")

    def __init__(
        self, shelves: Sequence[Shelf], letters: DeadLetters, counters: QueueCounters, options: QueueOptions
    ) -> None:
        self.options = options
        self._shelves = shelves
        self._letters = letters
        self._counters = counters
        self._waiting: deque[tuple[Attachment, list[Stretch], Disposal | Return]] = deque()
        """The stretches of each unfinished settlement. The next stretch is the last of its list."""
        self.count = 0
        """How many messages wait in unfinished settlements."""
        self.returning = 0
        """How many of the unfinished settlements return their messages."""
        self._purged: list[Heap] = []
        """Returned messages that were purged and are not settled yet."""

    def dispose(self, consumer: Attachment, stretches: Sequence[Stretch], disposal: Disposal | Return) -> None:
        """Settle messages of a consumer: at once, or in steps by ``go_on`` if there are many stretches or others wait
        already."""
        if not self._waiting and len(stretches) <= SETTLED_AT_ONCE:
            for stretch in stretches:
                self._dispose_of(consumer, stretch, disposal)
            return
        if stretches:
            self._waiting.append((consumer, [*reversed(stretches)], disposal))
            self.count += sum(map(len, map(SEQUENCES, stretches)))
            self.returning += isinstance(disposal, Return)

    def go_on(self) -> int:
        """Process the next step of the unfinished settlements. Returns its cost in units of :mod:`core.work`."""
        seen_to = self._settle_purged()
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

    @property
    def purging(self) -> bool:
        """Whether messages that were purged are not settled yet."""
        return bool(self._purged)

    def purge(self, heaps: Iterable[Heap], count: int) -> None:
        """Settle returned messages, ``count`` in all, in steps by ``go_on``; the first step is taken at once."""
        self._purged += heaps
        self.count += count
        self._settle_purged()

    def _settle_purged(self) -> int:
        """Settle up to SETTLED_AT_ONCE stretches that were purged. Returns how many."""
        settled = 0
        while self._purged and settled < SETTLED_AT_ONCE:
            heap = self._purged[-1]
            for _ in range(min(len(heap), SETTLED_AT_ONCE - settled)):
                _, stretch = heap.pop()  # any order will do, and the end of a heap is cheap
                self.count -= len(stretch)
                self.settle((stretch,))
                settled += 1
            if not heap:
                self._purged.pop()
        return settled

    def stretches(self) -> Iterator[Stretch]:
        """The stretches of unfinished settlements. The caller must not change them."""
        return (stretch for _, stretches, _ in self._waiting for stretch in reversed(stretches))

    def clear(self, let_go: LetGo) -> None:
        """The queue is deleted."""
        for _, stretches, _ in self._waiting:
            let_go(stretches)
        for heap in self._purged:
            let_go(heap)
        self._waiting.clear()
        self._purged.clear()
        self.count = self.returning = 0

    def settle(self, stretches: Iterable[Stretch]) -> None:
        """Let the backings forget these messages for good."""
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
        """After a start: dead-letter again the messages whose dead-lettering was recorded and not confirmed."""
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
            self.give_up(stretch, DeathReason.REJECTED)  # the dead-letter exchange is elsewhere
        elif how.delivery_failed and limit is not None and stretch.delivery_count > limit:
            self.give_up(stretch, DeathReason.DELIVERY_LIMIT)
        else:
            self._shelf_of(stretch).put_back(stretch)

    def _shelf_of(self, stretch: Stretch) -> Shelf:
        return self._shelves[-1 - stretch.level]
