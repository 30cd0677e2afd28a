"""One queue: its stage, its ready messages, and what its consumers hold.

A message passes through these places, each time in runs:

    inbox (a stage) → backing → a consumer's unsettled → gone
                         ↑              ↓
                         └── returned ──┘   (in front, at its original position)

*Ready* is what stands in ``returned`` and in the backing. A message is *taken on*, and confirmed, when it
moves from the inbox to the backing. Messages move only in ``admit`` and ``dispatch``, which the pump calls
once per wake-up.

Invariants: every message that was taken on is in exactly one place until it is settled or purged; a consumer
is never handed more than its grant; ready messages are handed out in ascending positions, except that a
consumer is passed over for a message that it has called undeliverable.

This module does not know names, routing or protocols.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from core.clock import Now
from core.credit_flow.stage import Stage
from core.engine.backing import Backing
from core.engine.confirms import Confirms, Submission
from core.engine.consumers import Attachment, Consumers, Level
from core.engine.options import QueueOptions
from core.engine.returned import Returned
from core.engine.stretch import Stretch
from core.engine.waits import Waits
from core.errors import EngineError
from core.interface import Cancelled, Disposal, Publisher
from core.message import Portion, Return


@dataclass(slots=True)
class QueueCounters:
    """What has happened since the queue was made, in messages."""

    published: int = 0
    """Taken on."""
    delivered: int = 0
    """Handed to consumers, once more for each redelivery."""
    accepted: int = 0
    rejected: int = 0
    returned: int = 0
    purged: int = 0


@dataclass(eq=False, slots=True)
class Admission:
    """Part of a submission that a queue has taken on, and that waits for its lane."""

    submission: Submission
    queue: "Queue"
    start: int
    stop: int


class Queue:
    """The queue behind a name; its definition is the topology's affair."""

    __slots__ = (
        "_asking", "_backing", "_next_sequence", "_returned", "_waits",
        "consumers", "counters", "inbox", "name", "options", "publishers",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        options: QueueOptions,
        backing: Backing,
        *,
        waits: Waits[Admission] | None = None,
        messages_per_turn: int | None = None,
        first_sequence: int = 0,
    ) -> None:
        self.name = name
        self.options = options
        self._waits = waits
        self._next_sequence = first_sequence
        self.inbox: Stage[Submission] = Stage(messages_per_turn)
        self.consumers = Consumers(single_active=options.single_active_consumer)
        self.publishers: dict[Publisher, None] = {}
        """Those whose fixed target is this queue."""
        self.counters = QueueCounters()
        self._backing = backing
        self._returned = Returned()
        self._asking: dict[Attachment, None] = {}
        """Consumers whose grants are not answered."""

    @property
    def ready(self) -> int:
        """Messages that a consumer could get now."""
        return self._returned.count + self._backing.depth

    @property
    def unacknowledged(self) -> int:
        """Messages that consumers hold."""
        return sum(consumer.unsettled.count for consumer in self.consumers)

    # --- what the pump does ---------------------------------------------------------------------------------

    def admit(self, confirms: Confirms, now: Now) -> bool:
        """Take on what the stage's budget allows. Returns True when there is more for another turn."""
        inbox = self.inbox
        for submission, start, stop in inbox.take_turn():
            portion = Portion(submission.run, start, stop, None, submission.route)
            position = self._backing.publish_run(portion, self._next_sequence, now)
            self._next_sequence += stop - start
            self.counters.published += stop - start
            if position is None or self._waits is None:
                confirms.took(submission, self, start, stop)
            else:
                self._waits.add(position, Admission(submission, self, start, stop))
        return inbox.waiting > 0 and not inbox.stalled

    def dispatch(self, now: Now) -> None:
        """Hand ready messages to consumers as their grants allow, then answer the grants."""
        for level in self.consumers.levels():
            if self._returned.has_barred:
                self._serve_selectively(level)
            else:
                self._serve(level)
        if self._asking:
            ready = self.ready
            for consumer in self._asking:
                consumer.reply(ready if consumer.active else 0)
                if not consumer.grant:
                    self.consumers.granted(consumer)
            self._asking.clear()

    def _serve(self, level: Level) -> None:
        """Deal out the first messages, for which everybody on the level will do."""
        while level and (ready := self.ready):
            room = level.room(ready)
            source = self._returned if self._returned.count else self._backing
            stretch = source.fetch(room)
            if stretch is None:
                return
            level.deal(stretch)
            self.counters.delivered += len(stretch)

    def _serve_selectively(self, level: Level) -> None:
        """One message at a time, to the next consumer that may have it; the rare and slower way."""
        passed_over = 0
        while passed_over < len(level):
            stretch = self._returned.fetch_for(level.next, 1) or self._backing.fetch(1)
            if stretch is None:
                level.skip()
                passed_over += 1
            else:
                level.deal(stretch)
                self.counters.delivered += 1
                passed_over = 0

    # --- what consumers do ----------------------------------------------------------------------------------

    def grant(self, consumer: Attachment, n: int, drain: bool) -> None:
        """Set the grant; the next dispatch answers."""
        assert n >= 0
        consumer.grant = n
        consumer.drain = drain
        consumer.replies_due += 1
        self.consumers.granted(consumer)
        self._asking[consumer] = None

    def settle(self, consumer: Attachment, first: int, last: int, disposal: Disposal | Return) -> bool:
        """Dispose of the outstanding deliveries in the range (delivery numbers, both inclusive).

        Returns True when that may let messages move.
        """
        settled = consumer.unsettled.remove(first, last)
        count = sum(map(len, settled))
        if isinstance(disposal, Return):
            self._take_back(consumer, settled, disposal)
        elif disposal is Disposal.ACCEPTED:
            self.counters.accepted += count
        else:
            # The seam for dead-lettering: what is rejected is dropped for now.
            self.counters.rejected += count
        vacated = not consumer.unsettled.count and self.consumers.vacated(consumer)
        return vacated or isinstance(disposal, Return)

    def cancel(self, consumer: Attachment) -> None:
        """Detach the consumer; what it holds goes back before anything is dispatched to another."""
        self._take_back(consumer, consumer.unsettled.remove_all(), Return())
        self._asking.pop(consumer, None)
        self._returned.lift_bars(consumer)
        self.consumers.detach(consumer)

    def _take_back(self, consumer: Attachment, stretches: Iterable[Stretch], how: Return) -> None:
        for stretch in stretches:
            self.counters.returned += len(stretch)
            if not how.unsent:
                stretch.first_acquirer = False
                stretch.delivery_count += how.delivery_failed
            if how.undeliverable_here:
                stretch.barred |= {consumer}
            if how.annotations:
                self._returned.add_annotated(stretch, how.annotations)
            else:
                self._returned.add(stretch)

    # --- what the control plane does ------------------------------------------------------------------------

    def purge(self) -> int:
        """Drop the ready messages; returns how many."""
        purged = self._returned.purge() + self._backing.purge()
        self.counters.purged += purged
        return purged

    def dissolve(self, confirms: Confirms, error: EngineError) -> None:
        """The queue is deleted: tell everybody. Confirms come before the news that the target is gone."""
        for submission, start, _ in self.inbox.take_all():
            confirms.gone(submission, self, start)
        for publisher in self.publishers:
            confirms.close(publisher, error)
        for consumer in self.consumers:
            consumer.detached = True
            consumer.unsettled.remove_all()
            consumer.mailbox.put(Cancelled(consumer, error))
