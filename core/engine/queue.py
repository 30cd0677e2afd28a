"""One queue: its stage, its ready messages, and what its consumers hold.

A message passes through these places, each time in runs:

    inbox (a stage) → backing → a consumer's unsettled → gone
                   └─────↑──────→     ↓        └──→ dead letters → gone
                         └─ returned ─┘   (in front, at its original position)

*Ready* is what stands on the shelves: in ``returned`` and in the backing, for each priority level. A message is *taken
on* when it leaves the inbox for the backing, or past it, straight to a consumer that waits while nothing is ready.
Messages move only in ``admit`` and ``dispatch``, which the pump calls once per wake-up. What verbs do between turns is
to bring messages back, or to leave them among the dead letters.

Invariants: every message that was taken on is in exactly one place until it is settled, purged, dropped or accepted by
the queue it was dead-lettered or moved to; a consumer is never handed more than its grant; nothing that has expired is
handed out, except straight to a consumer that waits; the ready messages of a level are handed out in ascending
positions, the highest level first, except that a consumer is passed over for a message it has called undeliverable.

This module does not know names, routing or protocols.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from math import inf

from core.clock import Now
from core.credit_flow.flow import GENERAL, CreditFlow, StageCreditSpec
from core.credit_flow.stage import Stage
from core.engine.admissions import Admissions
from core.engine.arrivals import Arrivals
from core.engine.backing import Backing
from core.engine.confirms import Confirms, Submission
from core.engine.consumers import Attachment, Consumers, Level
from core.engine.courier import Roads
from core.engine.dead_letter import LETTER_WORK, DeadLetters
from core.engine.endings import Endings
from core.engine.expiry import Disuse, expires_at, has_expired, monotonic
from core.engine.holders import Holders
from core.engine.kinds import Peeked
from core.engine.length_limit import Blocked, LengthLimit
from core.engine.moving import Move, peek
from core.engine.options import QueueOptions
from core.engine.pump import Waiting
from core.engine.queue_counters import QueueCounters, counts_of
from core.engine.shelf import Shelf, oldest
from core.engine.store_stage import ToStore
from core.engine.stretch import NOWHERE, Stretch
from core.engine.waits import Waits
from core.errors import EngineError, PreconditionFailed
from core.interface import DeathReason, Disposal, Publisher, Target
from core.message import Portion, Return

REMOVALS_PER_TURN = 10_000
"""How many messages may expire or be pushed out in one turn of a queue; as many as it takes on by default."""

DISPATCH_WORK = 4_000
"""Units of :mod:`core.work` that one dispatch hands out and takes back for; what is left waits for the next turn."""

DELIVERY_WORK = 4
"""Of a run that goes to a consumer."""

REMOVED_AT_ONCE = 1024
"""Messages in one stretch of those; as long as a record of the memory backing."""

SEQUENCE_ANNOTATION = "x-opt-sequence"


class Queue:
    """The queue behind a name; its definition is the topology's affair."""

    __slots__ = (
        "_admissions", "_asking", "_blocked", "_cares", "_disuse", "_endings", "_getting", "_holders", "_letters",
        "_limit", "_mortal", "_move", "_next_sequence", "_paging", "_passes", "_removable", "_roads", "_shelves",
        "_to_store", "_work_left", "arrivals", "consumers", "counters", "deadline", "expired", "inbox", "name",
        "options", "publishers", "stage_credit",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        options: QueueOptions,
        backings: Callable[[int], Backing],
        *,
        written: Waits[Waiting] | None = None,
        synced: Waits[Waiting] | None = None,
        roads: Roads | None = None,
        messages_per_turn: int | None = None,
        first_sequence: int = 0,
        stage_credit: StageCreditSpec = GENERAL,
        to_store: ToStore | None = None,
    ) -> None:
        """``backings`` makes the backing of each priority level, from 0 up.

        ``written`` and ``synced`` are the waits of the backings' lane for what is accepted when it is written, or
        synced; of a queue that has both, the options say which. Without ``roads``, messages that would be dead-lettered
        are dropped. ``stage_credit`` is what publishers may send that have stage credit; ``to_store`` there is where
        bodies may go to the message store.
        """
        self.name = name
        self.options = options
        self.inbox: Stage[Submission] = Stage(messages_per_turn)
        self.consumers = Consumers(single_active=options.single_active_consumer)
        self._holders = Holders(self.consumers)
        self.publishers: dict[Publisher, None] = {}
        """Those whose fixed target is this queue."""
        self.stage_credit = CreditFlow(name, stage_credit)
        self._to_store = to_store
        self.counters = QueueCounters()
        self.arrivals = Arrivals()
        self._shelves = [Shelf(level, backings(level)) for level in range(options.levels - 1, -1, -1)]
        """Highest level first; the shelf of a level is at -1 - level."""
        self._passes = all(shelf.backing.passes for shelf in self._shelves)
        self._admissions = Admissions(self, written=written, synced=synced, ready_before=self._passes)
        self._admissions.expect(sync=options.sync_always)
        self._next_sequence = first_sequence

        self._letters = DeadLetters(self, roads)
        self._endings = Endings(self._shelves, self._letters, self.counters, options)
        self._roads = roads
        self._move: Move | None = None
        """The last one, which may be done."""
        self._limit = LengthLimit(name, options)
        self._blocked = Blocked()
        self._disuse = Disuse()
        self.deadline = inf
        """When something will be due in here, as of the last dispatch (monotonic seconds); infinity for never."""
        self.expired = False
        """It was not used for as long as it may stay unused; as of the last dispatch."""
        self._mortal = self.ready > 0
        """Some message here may expire, or may once have been here that could."""
        self._removable = 0
        """How many more messages may be removed in this turn."""
        self._work_left = 0
        """How much more may be done in this dispatch."""
        self._cares = False
        """Something of what ``_see_to_cares`` sees to is there."""
        self._paging = [(shelf, shelf.pages) for shelf in self._shelves if shelf.pages is not None]
        self._asking: dict[Attachment, None] = {}
        """Consumers whose grants are not answered."""
        self._getting: dict[Attachment, None] = {}
        """Those of them that are getters."""
        self._take_note()
        self._endings.go_on_dead_lettering()

    @property
    def ready(self) -> int:
        """Messages that a consumer could get now."""
        ready = 0
        for shelf in self._shelves:
            ready += shelf.returned.count + shelf.backing.depth
        return ready

    @property
    def ready_bytes(self) -> int:
        """Bytes of their entries, but for those that came back and are paged out."""
        return sum(shelf.ready_bytes for shelf in self._shelves)

    def oldest_ready_seconds(self, now: float) -> float | None:
        """The age of the oldest message that is ready; None for none. ``now``: monotonic seconds."""
        return self.arrivals.age(oldest(self._shelves), now)

    @property
    def unacknowledged(self) -> int:
        """Messages that consumers hold, or held a moment ago."""
        return self._holders.unacknowledged + self._endings.count

    def counts(self) -> Mapping[str, object]:
        """Counters and states to be shown."""
        move = self._move
        return {
            **asdict(self.counters),
            **self._letters.counts(),
            **counts_of(self._shelves),
            "next_sequence": self._next_sequence,
            "messages_moving": 0 if move is None else move.under_way,
            "last_move": None if move is None else move.shown(),
        }

    # --- what the pump does: taking on ----------------------------------------------------------------------

    def admit(self, confirms: Confirms, now: Now) -> bool:
        """Take on what the stage's budget allows. Returns True when there is more for another turn."""
        if now.monotonic >= self.arrivals.due:
            self.arrivals.mark(self._next_sequence, now.monotonic, anew=not (self.ready or self.unacknowledged))
        inbox = self.inbox
        self._work_left = DISPATCH_WORK
        runs = inbox.take_turn()
        for submission, start, stop in runs:
            attributes = submission.run.attributes
            shelf = self._shelves[0]
            if len(self._shelves) > 1:
                shelf = self._shelves[-1 - min(self.options.level_of(attributes.priority), len(self._shelves) - 1)]
            expiry = None
            if attributes.ttl_ms is not None or self.options.message_ttl_ms is not None:
                expiry = expires_at(attributes, self.options.message_ttl_ms, now)
                self._mortal = True
                if expiry == now.wall:  # it goes straight to a consumer or nowhere: no message may wait before it
                    for level in self.consumers.levels():
                        self._serve_level(level, now)
            portion = Portion(submission.run, start, stop, expiry, submission.route)
            if self._passes and (len(runs) == 1 or expiry == now.wall) and not self.ready:
                passed = self._pass_by(shelf, portion, submission, confirms, now)
                if passed == stop - start:
                    continue
                if passed:
                    start += passed
                    portion = replace(portion, start=start)
            if self._limit.rejects:
                stop -= self._beyond_limit(portion)
                refused = replace(portion, start=stop)
                portion = replace(portion, stop=stop)
                self._stand(shelf, portion, submission, confirms, now)
                self._refuse(refused, submission, confirms)
            else:
                self._stand(shelf, portion, submission, confirms, now)
        return inbox.waiting > 0 and not inbox.stalled

    def _stand(self, shelf: Shelf, portion: Portion, submission: Submission, confirms: Confirms, now: Now) -> None:
        """Messages take their places in the queue."""
        if count := portion.stop - portion.start:
            position = shelf.backing.publish_run(portion, self._next_sequence, now)
            self._next_sequence += count
            self.counters.published += count
            self._admissions.took(confirms, submission, portion.start, portion.stop, position)

    def _pass_by(self, shelf: Shelf, portion: Portion, submission: Submission, confirms: Confirms, now: Now) -> int:
        """Hand messages straight to consumers that wait, as nothing is ready. Returns how many.

        Several runs of one turn stand in the queue instead, where they are joined, if they can wait that long.
        """
        start = place = portion.start
        stop = portion.stop
        while place < stop and self._letters.room:
            level = self.consumers.first_level()
            if level is None:
                break
            count = min(level.room(stop - place), stop - place)
            if (place, place + count) != (portion.start, portion.stop):
                portion = replace(portion, start=place, stop=place + count)
            stretch, position = shelf.backing.pass_run(portion, self._next_sequence, now)
            self._next_sequence += count
            self._admissions.took(confirms, submission, place, place + count, position)
            stretch.level = shelf.level
            level.deal(stretch)
            place += count
        if passed := place - start:
            self.counters.published += passed
            self.counters.delivered += passed
            self.counters.direct += passed
        return passed

    def _beyond_limit(self, portion: Portion) -> int:
        """How many of these have no room, from the last."""
        return len(portion) - self._limit.room(portion.entries, self.ready, self.ready_bytes)

    def _refuse(self, portion: Portion, submission: Submission, confirms: Confirms) -> None:
        """Reject what has no room; of some queues, a copy dies there."""
        count = len(portion)
        if not count:
            return
        self.counters.refused += count
        self._admissions.reject(confirms, submission, portion.start, portion.stop, self._limit.error)
        if self._limit.copies and self._letters.room:
            numbers = range(self._next_sequence, self._next_sequence + count)
            self._next_sequence += count
            copies = Stretch(numbers, list(portion.entries), portion.run.attributes, route=portion.route, level=NOWHERE)
            self._endings.give_up(copies, DeathReason.MAXLEN)

    # --- what the pump does: handing out --------------------------------------------------------------------

    def dispatch(self, now: Now) -> int:
        """Do what is due, hand ready messages to consumers as their grants allow, then answer the grants."""
        letters = self._letters
        self.deadline = inf
        self._removable = REMOVALS_PER_TURN
        self._work_left = DISPATCH_WORK
        if self._endings.count:
            self._work_left -= self._endings.go_on()
            self._due(now.monotonic)
        if letters.here:
            self._endings.settle(letters.collect(self.options, now))
        if self._holders.timed:
            for consumer, stretches in self._holders.overdue(now):
                self._endings.dispose(consumer, stretches, Return())
        if letters.room and not self._endings.returning:
            for level in self.consumers.levels():
                self._serve_level(level, now)
            if self._getting:
                self._serve_getters(now)
        if self._mortal:
            self._expire_heads(now)
        if self._limit.drops:
            self._drop_excess(now)
        if letters.here:
            self._endings.settle(letters.send(self.options, self._restore, now))
            self._work_left -= letters.sent * LETTER_WORK
            self._due(now.monotonic if letters.sends_more else letters.deadline)
        if self._cares:
            self._see_to_cares(now)
        if self._asking and self._work_left > 0 and not self._endings.returning:
            self._answer_grants()
        elif self._asking:
            self._due(now.monotonic)
        return DISPATCH_WORK - self._work_left + REMOVALS_PER_TURN - self._removable

    def _serve_level(self, level: Level, now: Now) -> None:
        for shelf in self._shelves:
            if shelf.returned.count and shelf.returned.has_barred:
                self._serve_selectively(shelf, level, now)
            else:
                self._serve(shelf, level, now)

    def _serve_getters(self, now: Now) -> None:
        """Each takes what it asked for of what consumers have left, as if it were alone on a level."""
        for getter in self._getting:
            level = Level()
            if getter.grant:
                level.enter(getter)
                self._serve_level(level, now)
                level.leave(getter)

    def _serve(self, shelf: Shelf, level: Level, now: Now) -> None:
        """Deal out the first messages, for which every consumer on the level will do."""
        returned, backing = shelf.returned, shelf.backing
        while level and self._work_left > 0 and (ready := returned.count + backing.depth):
            stretch = shelf.fetch(level.room(ready))
            if stretch is None:
                return
            if stretch.expires_at is not None and has_expired(stretch, now):
                if not self._expire(shelf, stretch):
                    return
            else:
                self._work_left -= min(len(level), len(stretch)) * DELIVERY_WORK + len(stretch) // 4
                level.deal(stretch)
                self.counters.delivered += len(stretch)

    def _serve_selectively(self, shelf: Shelf, level: Level, now: Now) -> None:
        """One message at a time, to the next consumer that may have it; the rare and slower way."""
        passed_over = 0
        while passed_over < len(level) and self._work_left > 0:
            self._work_left -= DELIVERY_WORK
            stretch = shelf.fetch_for(level.next)
            if stretch is None:
                level.skip()
                passed_over += 1
            elif has_expired(stretch, now):
                if not self._expire(shelf, stretch):
                    return
            else:
                level.deal(stretch)
                self.counters.delivered += 1
                passed_over = 0

    def _expire(self, shelf: Shelf, stretch: Stretch) -> bool:
        """Give up messages that have expired. False when no more may go in this turn; they stand in the queue then."""
        if self._removable <= 0 or not self._letters.room:
            shelf.put_back(stretch)
            return False
        self._removable -= len(stretch)
        self._endings.give_up(stretch, DeathReason.EXPIRED)
        return True

    def _expire_heads(self, now: Now) -> None:
        """No consumer has taken these; see which have expired, and when the next will."""
        for shelf in self._shelves:
            while (expiry := shelf.head_expires_at) is not None:
                if expiry > now.wall:
                    self._due(monotonic(expiry, now))
                    break
                stretch = shelf.fetch_head(REMOVED_AT_ONCE)
                if stretch is None or not self._expire(shelf, stretch):
                    if self._removable <= 0:
                        self._due(now.monotonic)
                    break

    def _drop_excess(self, now: Now) -> None:
        """What is beyond the limit leaves at the front: of the lowest level, so that what is urgent stays."""
        while excess := self._limit.excess(self.ready, self.ready_bytes):
            if self._removable <= 0:
                self._due(now.monotonic)
                return
            shelf = next(shelf for shelf in reversed(self._shelves) if shelf.ready)
            stretch = shelf.fetch_head(min(excess, REMOVED_AT_ONCE))
            if stretch is None or not self._letters.room:
                return
            self._removable -= len(stretch)
            self._endings.give_up(stretch, DeathReason.MAXLEN)

    def _see_to_cares(self, now: Now) -> None:
        """What only some queues have."""
        if self._limit.blocks:
            self._blocked.tell(self.publishers, self._limit.full(self.ready, self.ready_bytes))
        if self.options.expires_ms is not None:
            self._due(self._disuse.look(self.options.expires_ms, bool(self.consumers), now))
            self.expired = self._disuse.expired
        if self._holders.timed:
            self._due(self._holders.mark(now))
        if self._move is not None and not self._move.done:
            self._go_on_moving(self._move, now)
        for shelf, pages in self._paging:
            if pages.reduce_memory_use(now):
                self._due(now.monotonic)
            if pages.acks_to_page > 0:
                pages.page_out([stretch for stretch in self._out_of_shelves() if self._shelf_of(stretch) is shelf])
                shelf.returned.paged_out()
        if self._to_store is not None:
            self._to_store.look(self, now)

    def _go_on_moving(self, move: Move, now: Now) -> None:
        self.counters.moved += move.step(self._shelves, now)
        if move.done:
            move.end("")
            self._take_note()
        elif not move.under_way:
            self._due(now.monotonic)  # something has expired in front

    def _answer_grants(self) -> None:
        ready = self.ready
        for consumer in self._asking:
            consumer.reply(ready if consumer.active else 0)
            if not (consumer.grant or consumer.options.getter):
                self.consumers.granted(consumer)
        self._asking.clear()
        self._getting.clear()

    def _due(self, deadline: float) -> None:
        self.deadline = min(self.deadline, deadline)

    # --- what consumers do ----------------------------------------------------------------------------------

    def attach(self, consumer: Attachment) -> None:
        """A consumer comes, with no grant yet."""
        self._fit_out(consumer)
        self._holders.attach(consumer)
        self._disuse.used()
        self._take_note()

    def grant(self, consumer: Attachment, n: int, drain: bool) -> None:
        """Set the grant; the next dispatch answers."""
        assert n >= 0
        consumer.grant = n
        consumer.drain = drain
        consumer.replies_due += 1
        self._asking[consumer] = None
        if not consumer.options.getter:
            self.consumers.granted(consumer)
            return
        consumer.drain = True
        self._getting[consumer] = None
        self._disuse.used()

    def settle(self, consumer: Attachment, first: int, last: int, disposal: Disposal | Return) -> bool:
        """Dispose of the outstanding deliveries in the range (delivery numbers, both inclusive).

        Returns True when that may let messages move.
        """
        self._endings.dispose(consumer, consumer.unsettled.remove(first, last), disposal)
        vacated = not consumer.unsettled.count and self._holders.vacated(consumer)
        return vacated or disposal is not Disposal.ACCEPTED or self._endings.count > 0

    def cancel(self, consumer: Attachment, *, requeue: bool = True) -> None:
        """See :class:`core.engine.kinds.AnyQueue`."""
        if requeue:
            self._endings.dispose(consumer, consumer.unsettled.remove_all(), Return())
        self._asking.pop(consumer, None)
        self._getting.pop(consumer, None)
        for shelf in self._shelves:
            shelf.returned.lift_bars(consumer)
        if not (consumer.options.getter or consumer.detached):
            self._disuse.used()
        self._holders.leave(consumer)
        self._take_note()

    def _fit_out(self, consumer: Attachment) -> None:
        """Give a consumer what the options say of it."""
        options = self.options
        consumer.link_credit_max = options.max_link_credit
        consumer.sequence_key = SEQUENCE_ANNOTATION if options.sequence_annotation else ""
        self._holders.limit(consumer, options.consumer_timeout_ms, consumer.options.consumer_timeout_ms)

    def _take_note(self) -> None:
        """Consumers or options have changed."""
        limits = self._limit.blocks or self.options.expires_ms is not None
        moving = self._move is not None and not self._move.done
        self._cares = limits or self._holders.timed or bool(self._paging) or moving

    # --- where messages end, and what the shelves are told ---------------------------------------------------

    def _restore(self, stretch: Stretch) -> None:
        self._shelf_of(stretch).restore(stretch)

    def _shelf_of(self, stretch: Stretch) -> Shelf:
        return self._shelves[-1 - stretch.level]

    def _out_of_shelves(self) -> Iterator[Stretch]:
        """Everything that left a backing and may come back to it."""
        for holder in self._holders:
            yield from holder.unsettled.stretches()
        yield from self._endings.stretches()
        for shelf in self._shelves:
            yield from shelf.returned.stretches()
        if self._move is not None:
            yield from self._move.stretches()
        yield from (stretch for stretch in self._letters.stretches() if stretch.level != NOWHERE)

    # --- what the control plane does ------------------------------------------------------------------------

    def apply(self, options: QueueOptions, now: Now) -> None:
        """Other settings are in force from now on; what they change of messages happens in the next dispatch."""
        self.options = self._endings.options = options
        self._limit = LengthLimit(self.name, options)
        if not self._limit.blocks:
            self._blocked.tell(self.publishers, full=False)
        self._admissions.expect(sync=options.sync_always)
        self._disuse.used()
        for _, pages in self._paging:
            pages.set_lazy(options.lazy)
        for holder in self._holders:
            self._fit_out(holder)
        self._take_note()
        for publisher in self.publishers:
            publisher.link_credit_max = options.max_link_credit

    def used(self) -> None:
        """A client declared the queue anew: it is not unused."""
        self._disuse.used()

    def peek(self, n: int) -> list[Peeked]:
        """The first ready messages, which stay as they are. Raises Invalid for too many."""
        return peek(self._shelves, n)

    def move(self, target: Target | None, n: int | None) -> int:
        """See :class:`core.engine.kinds.AnyQueue`. Raises PreconditionFailed while another move is under way."""
        assert self._roads is not None
        last = self._move
        if last is not None and not last.done:
            raise PreconditionFailed(f"queue '{self.name}': messages are being moved already; wait until that is done")
        self._move = Move(self._roads, self, target, n, number=1 if last is None else last.number + 1)
        self._take_note()
        return self._move.number

    def conclude(self) -> None:
        """The broker stops in order: write down what the next start has to know."""
        while self._endings.count:
            self._endings.go_on()
        for _, pages in self._paging:
            pages.conclude(self._next_sequence)

    def purge(self) -> int:
        """Drop the ready messages; returns how many."""
        purged = sum(shelf.purge() for shelf in self._shelves)
        self.counters.purged += purged
        return purged

    def dissolve(self, confirms: Confirms, error: EngineError) -> None:
        """The queue is deleted: tell its users, keep nothing. Confirms come before the news that the target is gone."""
        self._admissions.dissolve(confirms)
        for submission, start, _ in self.inbox.take_all():
            confirms.gone(submission, self, start)
        for publisher in self.publishers:
            confirms.close(publisher, error)
        self._holders.dissolve(error)
        self._endings.clear()
        self._letters.retire()
        if self._move is not None:
            self._move.end(str(error))
            self._move = None
        for shelf in self._shelves:
            shelf.backing.delete()
