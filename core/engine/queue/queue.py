"""One queue: its inbox (a stage), its ready messages, and the messages that its consumers hold.

A message passes through these places, each time in runs:

    inbox (a stage) → backing → a consumer's unsettled → gone
                   └─────↑──────→     ↓        └──→ dead letters → gone
                         └─ returned ─┘   (in front, at its original position)

Each priority level has a shelf. The *ready* messages are those on the shelves: in ``returned`` and in the backing. A
message is *taken on* when it leaves the inbox for the backing. If nothing is ready and a consumer waits, it skips the
backing and goes straight to the consumer. Messages move only in ``admit`` and ``dispatch``, which the pump calls once
per wake-up. Between turns, verbs only return messages to the shelves or add them to the dead letters.

Invariants: every message that was taken on is in exactly one place until it is settled, purged, dropped or accepted by
the queue it was dead-lettered or moved to; a consumer never gets more messages than its grant; no expired message is
delivered, except straight to a waiting consumer; the ready messages of a level are delivered in ascending positions,
the highest level first, except that a message skips a consumer that has called it undeliverable.

This module does not know names, routing or protocols.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from math import inf

from core.clock import Now
from core.credit_flow.flow import GENERAL, CreditFlow, StageCreditSpec
from core.credit_flow.stage import Stage
from core.engine.confirms import Confirms, Submission
from core.engine.options.in_force import QueueOptions
from core.engine.queue.admissions import Admissions
from core.engine.queue.consumers import Attachment, Consumers, Level
from core.engine.queue.courier import Roads
from core.engine.queue.dead_letter import LETTER_WORK, DeadLetters
from core.engine.queue.endings import Endings
from core.engine.queue.expiry import Disuse, expires_at, has_expired, monotonic
from core.engine.queue.holders import Holders
from core.engine.queue.kinds import Peeked
from core.engine.queue.length_limit import Blocked, LengthLimit
from core.engine.queue.moving import Move, peek
from core.engine.queue.pump import Waiting
from core.engine.queue.queue_counters import QueueCounters, counts_of
from core.engine.queue.store_stage import ToStore
from core.engine.ready.arrivals import Arrivals
from core.engine.ready.backing import Backing
from core.engine.ready.remains import LetGo
from core.engine.ready.shelf import Shelf, oldest
from core.engine.ready.stretch import NOWHERE, Stretch
from core.engine.ready.waits import Waits
from core.errors import EngineError, PreconditionFailed
from core.interface import DeathReason, Disposal, Publisher, Target
from core.message import Portion, Return
from core.slices import Walk

REMOVALS_PER_TURN = 10_000
"""How many messages may expire or be pushed out in one turn of a queue; equal to the default of
``queue_messages_per_turn``."""

DISPATCH_WORK = 4_000
"""The most work that one dispatch spends on deliveries and settlements, in units of :mod:`core.work`; the rest is done
in the next turn."""

DELIVERY_WORK = 4
"""The cost of delivering one run to a consumer, in these units."""

REMOVED_AT_ONCE = 1024
"""The most messages in one stretch that is removed; the length of a record of the memory backing."""

SEQUENCE_ANNOTATION = "x-opt-sequence"


class Queue:
    """A classic or quorum queue. Its definition is kept in the topology."""

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

        ``written`` and ``synced`` are the waits of the backings' lane: messages are accepted when written, or when
        synced. If a queue has both, its options choose. Without ``roads``, messages that would be dead-lettered are
        dropped. ``stage_credit`` is the stage credit of each publisher that uses it. ``to_store`` is given if bodies
        may go to the message store.
        """
        self.name = name
        self.options = options
        self.inbox: Stage[Submission] = Stage(messages_per_turn)
        self.consumers = Consumers(single_active=options.single_active_consumer)
        self._holders = Holders(self.consumers)
        self.publishers: dict[Publisher, None] = {}
        """Publishers whose fixed target is this queue."""
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
        """The latest move, which may be finished; None if there was none."""
        self._limit = LengthLimit(name, options)
        self._blocked = Blocked()
        self._disuse = Disuse()
        self.deadline = inf
        """When the queue next needs a turn, as of the last dispatch (monotonic seconds); infinity for never."""
        self.expired = False
        """Whether the queue was unused for longer than allowed, as of the last dispatch."""
        self._mortal = self.ready > 0
        """Whether some message in the queue may expire. It stays True when those messages are gone."""
        self._removable = 0
        """How many more messages may be removed in this turn."""
        self._work_left = 0
        """How much work may still be done in this dispatch."""
        self._cares = False
        """Whether ``_see_to_cares`` has anything to do for this queue."""
        self._paging = [(shelf, shelf.pages) for shelf in self._shelves if shelf.pages is not None]
        self._asking: dict[Attachment, None] = {}
        """Consumers whose grants are not answered yet."""
        self._getting: dict[Attachment, None] = {}
        """The getters among them."""
        self._take_note()
        self._endings.go_on_dead_lettering()

    @property
    def ready(self) -> int:
        """How many messages a consumer could get now."""
        ready = 0
        for shelf in self._shelves:
            ready += shelf.returned.count + shelf.backing.depth
        return ready

    @property
    def ready_bytes(self) -> int:
        """How many bytes the entries of ready messages have, without returned messages that are paged out."""
        return sum(shelf.ready_bytes for shelf in self._shelves)

    def oldest_ready_seconds(self, now: float) -> float | None:
        """The age of the oldest ready message in seconds; None if none is ready. ``now``: monotonic seconds."""
        return self.arrivals.age(oldest(self._shelves), now)

    @property
    def unacknowledged(self) -> int:
        """How many messages consumers hold, with those whose settlement is not processed yet."""
        return self._holders.unacknowledged + self._endings.count

    def counts(self) -> Mapping[str, object]:
        """Counters and states for the snapshot."""
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
        """Take on messages within the stage's budget. Returns True if messages are left for another turn."""
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
                if expiry == now.wall:  # it must reach a waiting consumer now: serve those before it
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
        """Append messages to the backing."""
        if count := portion.stop - portion.start:
            position = shelf.backing.publish_run(portion, self._next_sequence, now)
            self._next_sequence += count
            self.counters.published += count
            self._admissions.took(confirms, submission, portion.start, portion.stop, position)

    def _pass_by(self, shelf: Shelf, portion: Portion, submission: Submission, confirms: Confirms, now: Now) -> int:
        """Deliver messages straight to waiting consumers, because nothing is ready. Returns how many were delivered.

        Not used if a turn takes on several runs: those go to the backing, which joins them, unless they expire at once.
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
        """How many of these messages, counted from the last, have no room."""
        return len(portion) - self._limit.room(portion.entries, self.ready, self.ready_bytes)

    def _refuse(self, portion: Portion, submission: Submission, confirms: Confirms) -> None:
        """Reject messages without room. Depending on the options, copies of them are dead-lettered."""
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
        """Do what is due, deliver ready messages to consumers within their grants, then answer the grants."""
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
        """Serve each getter with messages that the consumers have left, as if it were alone on a level."""
        for getter in self._getting:
            level = Level()
            if getter.grant:
                level.enter(getter)
                self._serve_level(level, now)
                level.leave(getter)

    def _serve(self, shelf: Shelf, level: Level, now: Now) -> None:
        """Deliver messages in order when no returned message is barred for any consumer."""
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
        """Deliver one message at a time, to the next consumer for which it is not barred. This is the slower path, and
        rare."""
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
        """Dead-letter or drop expired messages. Returns False if no more may be removed in this turn: they are put
        back."""
        if self._removable <= 0 or not self._letters.room:
            shelf.put_back(stretch)
            return False
        self._removable -= len(stretch)
        self._endings.give_up(stretch, DeathReason.EXPIRED)
        return True

    def _expire_heads(self, now: Now) -> None:
        """Remove expired messages from the front of each shelf, and note when the next one expires."""
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
        """Remove messages beyond the length limit from the front of the lowest level, so that messages of higher
        priority stay."""
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
        """Do the work that only some queues have: full-queue notices, expiry, time-outs, moves, paging, stage
        credit."""
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
            self._due(now.monotonic)  # an expired message is in front

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
        """Add a consumer, which has no grant yet."""
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
        """Settle the unsettled deliveries in the range (delivery numbers, both inclusive).

        Returns True if the queue needs a turn after that.
        """
        self._endings.dispose(consumer, consumer.unsettled.remove(first, last), disposal)
        vacated = not consumer.unsettled.count and self._holders.vacated(consumer)
        return vacated or disposal is not Disposal.ACCEPTED or self._endings.count > 0

    def cancel(self, consumer: Attachment, *, requeue: bool = True) -> None:
        """See :class:`core.engine.queue.kinds.AnyQueue`."""
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
        """Apply the queue's options to a consumer."""
        options = self.options
        consumer.link_credit_max = options.max_link_credit
        consumer.sequence_key = SEQUENCE_ANNOTATION if options.sequence_annotation else ""
        self._holders.limit(consumer, options.consumer_timeout_ms, consumer.options.consumer_timeout_ms)

    def _take_note(self) -> None:
        """Recompute ``_cares`` after consumers, options or the move have changed."""
        limits = self._limit.blocks or self.options.expires_ms is not None
        moving = self._move is not None and not self._move.done
        self._cares = limits or self._holders.timed or bool(self._paging) or moving

    # --- where messages end, and what the shelves are told ---------------------------------------------------

    def _restore(self, stretch: Stretch) -> None:
        self._shelf_of(stretch).restore(stretch)

    def _shelf_of(self, stretch: Stretch) -> Shelf:
        return self._shelves[-1 - stretch.level]

    def _out_of_shelves(self) -> Iterator[Stretch]:
        """Iterate over all messages that were taken from a backing and may return to it."""
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
        """Put other options in force. Their effect on messages comes with the next dispatch."""
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
        """A client declared the queue again, so it counts as used."""
        self._disuse.used()

    def peek(self, n: int) -> list[Peeked]:
        """Return the first ``n`` ready messages, which stay unchanged. Raises Invalid if ``n`` is too high."""
        return peek(self._shelves, n)

    def move(self, target: Target | None, n: int | None) -> int:
        """See :class:`core.engine.queue.kinds.AnyQueue`. Raises PreconditionFailed while another move is under way."""
        assert self._roads is not None
        last = self._move
        if last is not None and not last.done:
            raise PreconditionFailed(f"queue '{self.name}': messages are being moved already; wait until that is done")
        self._move = Move(self._roads, self, target, n, number=1 if last is None else last.number + 1)
        self._take_note()
        return self._move.number

    def conclude(self) -> None:
        """The broker shuts down cleanly: write what the next start needs."""
        while self._endings.count:
            self._endings.go_on()
        for _, pages in self._paging:
            pages.conclude(self._next_sequence)

    def purge(self, let_go: LetGo) -> Walk[int]:
        """See :class:`core.engine.queue.kinds.AnyQueue`. Thousands of returned messages are settled in its turns."""
        purged = 0
        for shelf in self._shelves:
            returned = shelf.returned.count
            self._endings.purge(shelf.returned.take_all(), returned)
            purged += returned + shelf.backing.purge(let_go)
        self.counters.purged += purged
        while self._endings.purging:
            yield
        for shelf in self._shelves:
            shelf.backing.write_now()
        return purged

    def dissolve(self, confirms: Confirms, error: EngineError, let_go: LetGo) -> None:
        """See :class:`core.engine.queue.kinds.AnyQueue`."""
        self._admissions.dissolve(confirms)
        for submission, start, _ in self.inbox.take_all():
            confirms.gone(submission, self, start)
        for publisher in self.publishers:
            confirms.close(publisher, error)
        self._holders.dissolve(error, let_go)
        self._endings.clear(let_go)
        self._letters.retire()
        if self._move is not None:
            self._move.end(str(error))
            self._move = None
        for shelf in self._shelves:
            for heap in shelf.returned.take_all():
                let_go(heap)
            shelf.backing.delete(let_go)
