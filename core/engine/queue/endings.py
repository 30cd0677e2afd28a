"""The settlement of one queue's messages: they are accepted, dead-lettered, dropped, or returned to the queue.

A settlement of very many batches is processed in several steps. Until their step comes, its messages are neither held
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
from core.engine.ready.batch import NOWHERE, Batch
from core.engine.ready.remains import LetGo
from core.engine.ready.returned import Heap
from core.engine.ready.sub_queue import SubQueue
from core.interface import DeathReason, Disposal
from core.message import Return

SETTLED_AT_ONCE = 1_000
"""Batches that one step settles, of at most 256 messages each: 1 to 2 ms."""

SETTLEMENT_WORK = 2
"""The cost of settling one batch, in units of :mod:`core.work`."""


SEQUENCES = attrgetter("sequences")


class Endings:
    """The settlements of one queue. ``options`` are the current options of the queue."""

    __slots__ = ("_counters", "_letters", "_purged", "_sub_queues", "_waiting", "count", "options", "returning")

    def __init__(
        self, sub_queues: Sequence[SubQueue], letters: DeadLetters, counters: QueueCounters, options: QueueOptions
    ) -> None:
        self.options = options
        self._sub_queues = sub_queues
        self._letters = letters
        self._counters = counters
        self._waiting: deque[tuple[Attachment, list[Batch], Disposal | Return]] = deque()
        """The batches of each unfinished settlement. The next batch is the last of its list."""
        self.count = 0
        """How many messages wait in unfinished settlements."""
        self.returning = 0
        """How many of the unfinished settlements return their messages."""
        self._purged: list[Heap] = []
        """Returned messages that were purged and are not settled yet."""

    def dispose(self, attachment: Attachment, batches: Sequence[Batch], disposal: Disposal | Return) -> None:
        """Settle messages of a consumer: at once, or in steps by ``go_on`` if there are many batches or others wait
        already."""
        if not self._waiting and len(batches) <= SETTLED_AT_ONCE:
            for batch in batches:
                self._dispose_of(attachment, batch, disposal)
            return
        if batches:
            self._waiting.append((attachment, [*reversed(batches)], disposal))
            self.count += sum(map(len, map(SEQUENCES, batches)))
            self.returning += isinstance(disposal, Return)

    def go_on(self) -> int:
        """Process the next step of the unfinished settlements. Returns its cost in units of :mod:`core.work`."""
        seen_to = self._settle_purged()
        while self._waiting and seen_to < SETTLED_AT_ONCE:
            attachment, batches, disposal = self._waiting[0]
            for _ in range(min(len(batches), SETTLED_AT_ONCE - seen_to)):
                batch = batches.pop()
                self.count -= len(batch)
                self._dispose_of(attachment, batch, disposal)
                seen_to += 1
            if not batches:
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
        """Settle up to SETTLED_AT_ONCE batches that were purged. Returns how many."""
        settled = 0
        while self._purged and settled < SETTLED_AT_ONCE:
            heap = self._purged[-1]
            for _ in range(min(len(heap), SETTLED_AT_ONCE - settled)):
                _, batch = heap.pop()  # any order will do, and the end of a heap is cheap
                self.count -= len(batch)
                self.settle((batch,))
                settled += 1
            if not heap:
                self._purged.pop()
        return settled

    def batches(self) -> Iterator[Batch]:
        """The batches of unfinished settlements. The caller must not change them."""
        return (batch for _, batches, _ in self._waiting for batch in reversed(batches))

    def clear(self, let_go: LetGo) -> None:
        """The queue is deleted."""
        for _, batches, _ in self._waiting:
            let_go(batches)
        for heap in self._purged:
            let_go(heap)
        self._waiting.clear()
        self._purged.clear()
        self.count = self.returning = 0

    def settle(self, batches: Iterable[Batch]) -> None:
        """Let the backings forget these messages for good."""
        for batch in batches:
            if batch.level != NOWHERE:
                self._sub_queues[-1 - batch.level].backing.settle(batch)

    def give_up(self, batch: Batch, reason: DeathReason) -> None:
        """Dead-letter messages, or drop them."""
        if not self._letters.post(batch, reason, self.options):
            self.settle((batch,))
        elif batch.level != NOWHERE and keeps(self.options, reason):
            self._sub_queue_of(batch).backing.discard(batch, reason.value)

    def go_on_dead_lettering(self) -> None:
        """After a start: dead-letter again the messages whose dead-lettering was recorded and not confirmed."""
        for sub_queue in self._sub_queues:
            for batch, reason in sub_queue.backing.discards():
                batch.level = sub_queue.level
                if not self._letters.post(batch, DeathReason(reason), self.options):
                    self.settle((batch,))

    def _dispose_of(self, attachment: Attachment, batch: Batch, disposal: Disposal | Return) -> None:
        if disposal is Disposal.ACCEPTED:
            self._counters.accepted += len(batch.sequences)
            self._sub_queues[-1 - batch.level].backing.settle(batch)
        elif isinstance(disposal, Return):
            self._take_back(attachment, batch, disposal)
        else:
            self._counters.rejected += len(batch)
            self.give_up(batch, DeathReason.REJECTED)

    def _take_back(self, attachment: Attachment, batch: Batch, how: Return) -> None:
        limit = self.options.delivery_limit
        self._counters.returned += len(batch)
        if not how.unsent:
            batch.first_acquirer = False
            batch.delivery_count += how.delivery_failed
        if how.undeliverable_here and not attachment.detached:
            batch.barred |= {attachment}
        if how.annotations:
            batch.annotate(how.annotations)
        if how.undeliverable_here and self.options.dead_letter_exchange is not None:
            self.give_up(batch, DeathReason.REJECTED)  # the dead-letter exchange is elsewhere
        elif how.delivery_failed and limit is not None and batch.delivery_count > limit:
            self.give_up(batch, DeathReason.DELIVERY_LIMIT)
        else:
            self._sub_queue_of(batch).put_back(batch)

    def _sub_queue_of(self, batch: Batch) -> SubQueue:
        return self._sub_queues[-1 - batch.level]
