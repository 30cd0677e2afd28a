"""One queue: its inbox (a stage), its ready messages, and the messages that its consumers hold.

A queue knows no names, routing or protocols. A message passes through these places, each time in runs:

    inbox (a stage) → backing → a consumer's unsettled → gone
                   └─────↑──────→     ↓        └──→ dead letters → gone
                         └─ returned ─┘   (in front, at its original position)

Each priority level has a sub-queue. The *ready* messages are those in the sub-queues: in ``returned`` and in the
backing. A message is *taken on* when it leaves the inbox for the backing. If nothing is ready and a consumer waits, it
skips the backing and goes straight to the consumer. Messages move only in ``admit`` and ``dispatch``. Between turns,
verbs return messages to the sub-queues or add them to the dead letters.

Invariants: every message that was taken on is in exactly one place until it is settled, purged, dropped or accepted by
the queue it was dead-lettered or moved to; a consumer never gets more messages than its grant; no expired message is
delivered, except straight to a waiting consumer; the ready messages of a level are delivered in ascending positions,
the highest level first, except that a message skips a consumer that has called it undeliverable.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from math import inf

from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.credit_flow.stage import Stage
from core.engine.confirms import Confirms, Submission
from core.engine.options.in_force import QueueOptions
from core.engine.queue.admissions import Admissions
from core.engine.queue.attachments import Attachments
from core.engine.queue.budgets import DELIVERY_WORK, DISPATCH_WORK, REMOVALS_PER_TURN, REMOVED_AT_ONCE
from core.engine.queue.consumers import Attachment, Consumers, Level
from core.engine.queue.courier import CourierContext
from core.engine.queue.dead_letter import LETTER_WORK, DeadLetters
from core.engine.queue.endings import Endings
from core.engine.queue.expiry import Disuse, has_expired, monotonic, one_end
from core.engine.queue.holding import Holding, serve_getters
from core.engine.queue.kinds import Peeked
from core.engine.queue.led import Led
from core.engine.queue.length_limit import BlockedPublishers, LengthLimit
from core.engine.queue.moving import Move, counts_of_move, peek
from core.engine.queue.parts import parts
from core.engine.queue.pump import PositionWaiter
from core.engine.queue.queue_counters import QueueCounters, counts_of
from core.engine.queue.repeats import Repeats, fitting
from core.engine.queue.store_stage import ToStore
from core.engine.quorum.leadership import Leadership
from core.engine.ready.backing import Backing
from core.engine.ready.batch import NOWHERE, Batch
from core.engine.ready.remains import LetGo
from core.engine.ready.sub_queue import SubQueue, oldest
from core.engine.ready.waits import Waits
from core.errors import EngineError, PreconditionFailed
from core.interface import DeathReason, Disposal, Publisher, Target
from core.message import Return, RunPart
from core.slices import Walk
from core.waiting.times import Times


class Queue:
    """A classic or quorum queue. Its definition is kept in the topology."""

    __slots__ = (
        "_admissions", "_asking", "_blocked", "_by_durable", "_cares", "_context", "_disuse", "_endings", "_getting",
        "_letters", "_limit", "_mortal", "_move", "_next_sequence", "_one_place", "_paging", "_passes",
        "_removable", "_repeats", "_sub_queues", "_to_store", "_work_left", "arrivals", "attachments", "consumers",
        "counters", "deadline", "expired", "inbox", "led", "name", "options", "publishers", "stage_credit",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        options: QueueOptions,
        backings: Callable[[int], Backing],
        *,
        written: Waits[PositionWaiter] | None = None,
        synced: Waits[PositionWaiter] | None = None,
        context: CourierContext | None = None,
        messages_per_turn: int | None = None,
        first_sequence: Callable[[], int] = lambda: 0,
        stage_credit: CreditFlow,
        to_store: ToStore | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        """``backings`` makes the backing of each priority level, from 0 up.

        ``written`` and ``synced`` are the waits of the backings' lane: messages are accepted when written, or when
        synced. If a queue has both, its options choose. Without ``context``, messages that would be dead-lettered are
        dropped. ``first_sequence`` returns a number above all that were used. ``stage_credit`` is that of each
        publisher that uses it. ``to_store`` is given if bodies may go to the message store.
        """
        self.name = name
        self.options = options
        self.inbox: Stage[Submission] = Stage(messages_per_turn)
        self.consumers = Consumers(single_active=options.single_active_consumer)
        self.attachments = Attachments(self.consumers)
        self.publishers: dict[Publisher, None] = {}
        """Publishers whose fixed target is this queue."""
        self.stage_credit = stage_credit
        self._to_store = to_store
        self.counters = QueueCounters()
        self.arrivals = Times()
        self._sub_queues = [SubQueue(level, backings(level)) for level in range(options.levels - 1, -1, -1)]
        """Highest level first; the sub-queue of a level is at -1 - level."""
        self._by_durable = leadership is None and any(sub.backing.keeps_durable for sub in self._sub_queues)
        self._passes = leadership is None and all(sub.backing.passes for sub in self._sub_queues)
        self._admissions = Admissions(self, written=written, synced=synced, ready_before=self._passes)
        self._admissions.expect(sync=options.sync_always)
        self._next_sequence = first_sequence()
        self._letters = DeadLetters(self, context)
        self._endings = Endings(self._sub_queues, self._letters, self.counters, options)
        self._context = context
        self._repeats: Repeats | None = None
        self._move: Move | None = None
        """The latest move, which may be finished; None if there was none."""
        self._limit = LengthLimit(name, options)
        self._blocked = BlockedPublishers()
        self.led: Led | None = None  # of a quorum queue
        if leadership is not None:
            self.led = Led(leadership, backings, first_sequence, self._sub_queues, self._blocked)
            self.led.knows(self.attachments, self._admissions, self._endings, self._letters)
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
        self._one_place = False
        """Whether messages that are alike and have no time-to-live go to one place."""
        self._paging = [(sub_queue, sub_queue.pages) for sub_queue in self._sub_queues if sub_queue.pages is not None]
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
        for sub_queue in self._sub_queues:
            ready += sub_queue.returned.count + sub_queue.backing.depth
        return ready

    @property
    def ready_bytes(self) -> int:
        """How many bytes the entries of ready messages have, without returned messages that are paged out."""
        return sum(sub_queue.ready_bytes for sub_queue in self._sub_queues)

    def oldest_ready_seconds(self, now: float) -> float | None:
        """The age of the oldest ready message in seconds; None if none is ready. ``now``: monotonic seconds."""
        return self.arrivals.age(oldest(self._sub_queues), now)

    @property
    def unacknowledged(self) -> int:
        """How many messages consumers hold, with those whose settlement is not processed yet."""
        return self.attachments.unacknowledged + self._endings.count

    def counts(self) -> Mapping[str, object]:
        """Counters and states for the snapshot."""
        counted = {**asdict(self.counters), **self._letters.counts(), **counts_of(self._sub_queues)}
        return {**counted, **counts_of_move(self._move), "next_sequence": self._next_sequence}

    # --- what the pump does: taking on ----------------------------------------------------------------------

    def admit(self, confirms: Confirms, now: Now) -> bool:
        """Take on messages within the stage's budget. Returns True if messages are left for another turn."""
        if (led := self.led) is not None:
            if led.term != led.leadership.term:
                self._next_sequence = led.follow(confirms, self.publishers, self._move)
                self._mortal = True
            if not led.term:
                return False
        if now.monotonic >= self.arrivals.due:
            if not (self.ready or self.unacknowledged):
                self.arrivals.clear()
            self.arrivals.mark(self._next_sequence, now.monotonic)
        if self.consumers.settled_runs:
            self.consumers.judge_paces(now.monotonic)
        inbox = self.inbox
        if not inbox.waiting:
            return False
        self._work_left = DISPATCH_WORK
        runs = inbox.take_turn()
        alone = len(runs) == 1
        for submission, start, stop in runs:
            run = submission.run
            if self._one_place and not isinstance(run.attributes, list) and run.attributes.ttl_ms is None:
                self._take_on(self._sub_queues[0], RunPart(run, start, stop), submission, confirms, now, alone=alone)
                continue
            levels, durable = len(self._sub_queues), self._by_durable
            cut = parts(run, start, stop, self.name, self.options, levels, by_durable=durable, now=now)
            alone = alone and len(cut) == 1
            for level, part in cut if self._repeats is None else self._repeats.without(cut, submission, confirms):
                self._take_on(self._sub_queues[-1 - level], part, submission, confirms, now, alone=alone)
        return inbox.waiting > 0 and not inbox.stalled

    def _take_on(
        self, sub_queue: SubQueue, part: RunPart, submission: Submission, confirms: Confirms, now: Now, *, alone: bool
    ) -> None:
        """Take on messages that have one place. ``alone``: no others are taken on in this turn."""
        expiries, at_once = part.expires_at, False
        if expiries is not None:
            self._mortal = True
            at_once = (expiries[0] if isinstance(expiries, list) else expiries) == now.wall
            if at_once:  # it must reach a waiting consumer now: serve those before it
                self._serve_consumers(now)
        if self._passes and (alone or at_once) and not self.ready:
            passed = self._pass_by(sub_queue, part, submission, confirms, now)
            if passed == part.stop - part.start:
                return
            part = part.part(passed, len(part)) if passed else part
        if self._limit.rejects:
            room = self._limit.room(part.entries, self.ready, self.ready_bytes)
            self._stand(sub_queue, part.part(0, room), submission, confirms, now)
            self._refuse(part.part(room, len(part)), submission, confirms)
        else:
            self._stand(sub_queue, part, submission, confirms, now)

    def _stand(self, sub_queue: SubQueue, part: RunPart, submission: Submission, confirms: Confirms, now: Now) -> None:
        """Append messages to the backing."""
        if count := part.stop - part.start:
            position = sub_queue.backing.publish_run(part, self._next_sequence, now)
            self._next_sequence += count
            self.counters.published += count
            self._admissions.took(confirms, submission, part.start, part.stop, position)

    def _pass_by(self, sub_queue: SubQueue, part: RunPart, submission: Submission, confirms: Confirms, now: Now) -> int:
        """Deliver messages straight to waiting consumers, because nothing is ready. Returns how many were delivered.

        Not used if a turn takes on several runs: those go to the backing, which joins them, unless they expire at once.
        """
        passed, count = 0, part.stop - part.start
        while passed < count and self._letters.room:
            level = self.consumers.first_level()
            if level is None:
                break
            stop = passed + min(level.room(count - passed, now.monotonic), count - passed)
            piece = part if stop - passed == count else part.part(passed, stop)
            batch, position = sub_queue.backing.pass_run(piece, self._next_sequence, now)
            self._next_sequence += stop - passed
            self._admissions.took(confirms, submission, piece.start, piece.stop, position)
            batch.level = sub_queue.level
            level.deal(batch, now.monotonic)
            passed = stop
        if passed:
            self.counters.published += passed
            self.counters.delivered += passed
            self.counters.direct += passed
        return passed

    def _refuse(self, part: RunPart, submission: Submission, confirms: Confirms) -> None:
        """Reject messages without room. Depending on the options, copies of them are dead-lettered."""
        count = len(part)
        if not count:
            return
        self.counters.refused += count
        self._admissions.reject(confirms, submission, part.start, part.stop, self._limit.error)
        if self._limit.copies and self._letters.room:
            numbers = range(self._next_sequence, self._next_sequence + count)
            self._next_sequence += count
            copies = Batch(numbers, list(part.entries), part.attributes, routes=part.routes, level=NOWHERE)
            self._endings.give_up(copies, DeathReason.MAXLEN)

    # --- what the pump does: handing out --------------------------------------------------------------------

    def dispatch(self, now: Now) -> int:
        """Do what is due, deliver ready messages to consumers within their grants, then answer the grants."""
        letters = self._letters
        self.deadline = inf
        if self.led is not None and not self.led.leadership.term:
            self.led.tell(self.publishers)
            self._answer_grants()
            return 1
        self._removable = REMOVALS_PER_TURN
        self._work_left = DISPATCH_WORK
        if self._endings.count:
            self._work_left -= self._endings.go_on()
            self._due(now.monotonic)
        if letters.here:
            self._endings.settle(letters.collect(self.options, now))
        if self.attachments.timed:
            for attachment, batches in self.attachments.overdue(now):
                self._endings.dispose(attachment, batches, Return())
        if letters.room and not self._endings.returning:
            if self.consumers.levels and self.ready:
                self._serve_consumers(now)
            if self._getting:
                self._work_left -= serve_getters(self._getting, self._serve_level, self.attachments, self._restore, now)
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

    def _serve_consumers(self, now: Now) -> None:
        """Serve the levels, highest priority first."""
        for level in self.consumers.levels.values():
            if level.turns:
                self._serve_level(level, now)

    def _serve_level(self, level: Level, now: Now) -> None:
        for sub_queue in self._sub_queues:
            if sub_queue.returned.count and sub_queue.returned.has_barred:
                self._serve_selectively(sub_queue, level, now)
            else:
                self._serve(sub_queue, level, now)

    def _serve(self, sub_queue: SubQueue, level: Level, now: Now) -> None:
        """Deliver messages in order when no returned message is barred for any consumer."""
        returned, backing = sub_queue.returned, sub_queue.backing
        while level.turns and self._work_left > 0 and (ready := returned.count + backing.depth):
            batch = sub_queue.fetch(level.room(ready, now.monotonic))
            if batch is None:
                return
            if batch.expires_at is not None and has_expired(batch := one_end(sub_queue, batch, now), now):
                if not self._expire(sub_queue, batch):
                    return
            else:
                count = len(batch)
                self._work_left -= level.deal(batch, now.monotonic) * DELIVERY_WORK + count // 4
                self.counters.delivered += count

    def _serve_selectively(self, sub_queue: SubQueue, level: Level, now: Now) -> None:
        """Deliver one message at a time, to the next consumer for which it is not barred. This is slower, and rare."""
        passed_over = 0
        while passed_over < len(level.turns) and self._work_left > 0:
            self._work_left -= DELIVERY_WORK
            batch = sub_queue.fetch_for(level.next)
            if batch is None:
                level.skip()
                passed_over += 1
            elif has_expired(batch, now):
                if not self._expire(sub_queue, batch):
                    return
            else:
                level.deal(batch, now.monotonic)
                self.counters.delivered += 1
                passed_over = 0

    def _expire(self, sub_queue: SubQueue, batch: Batch) -> bool:
        """Dead-letter or drop expired messages. Returns False if no more may be removed now: they are put back."""
        if self._removable <= 0 or not self._letters.room:
            sub_queue.put_back(batch)
            return False
        self._removable -= len(batch)
        self._endings.give_up(batch, DeathReason.EXPIRED)
        return True

    def _expire_heads(self, now: Now) -> None:
        """Remove expired messages from the front of each sub-queue, and note when the next one expires."""
        for sub_queue in self._sub_queues:
            while (expiry := sub_queue.head_expires_at) is not None:
                if expiry > now.wall:
                    self._due(monotonic(expiry, now))
                    break
                batch = sub_queue.fetch_head(REMOVED_AT_ONCE)
                if batch is None or not self._expire(sub_queue, one_end(sub_queue, batch, now)):
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
            sub_queue = next(sub_queue for sub_queue in reversed(self._sub_queues) if sub_queue.ready)
            batch = sub_queue.fetch_head(min(excess, REMOVED_AT_ONCE))
            if batch is None or not self._letters.room:
                return
            self._removable -= len(batch)
            self._endings.give_up(batch, DeathReason.MAXLEN)

    def _see_to_cares(self, now: Now) -> None:
        """Do the work that only some queues have: full-queue notices, expiry, time-outs, moves, paging, stage
        credit."""
        if self._limit.blocks:
            self._blocked.tell(self.publishers, self._limit.full(self.ready, self.ready_bytes))
        if self.options.expires_ms is not None:
            self._due(self._disuse.look(self.options.expires_ms, bool(self.consumers), now))
            self.expired = self._disuse.expired
        if self.attachments.timed:
            self._due(self.attachments.mark(now))
        if self._move is not None and not self._move.done:
            self._go_on_moving(self._move, now)
        for sub_queue, pages in self._paging:
            if pages.pressed and pages.reduce_memory_use(now):
                self._due(now.monotonic)
            if pages.acks_to_page > 0:
                pages.page_out([batch for batch in self._out_of_sub_queues() if self._sub_queue_of(batch) is sub_queue])
                sub_queue.returned.paged_out()
        if self._to_store is not None:
            self._to_store.look(self, now)

    def _go_on_moving(self, move: Move, now: Now) -> None:
        self.counters.moved += move.step(self._sub_queues, now)
        if move.done:
            move.end("")
            self._take_note()
        elif not move.under_way:
            self._due(now.monotonic)  # an expired message is in front

    def _answer_grants(self) -> None:
        ready = self.ready
        for attachment in self._asking:
            attachment.reply(ready if attachment.consumer.active else 0)
            if not (attachment.grant or attachment.consumer.options.getter):
                self.consumers.granted(attachment)
        self._asking.clear()
        self._getting.clear()

    def _due(self, deadline: float) -> None:
        self.deadline = min(self.deadline, deadline)

    # --- what consumers do ----------------------------------------------------------------------------------

    def attach(self, attachment: Attachment) -> None:
        """Add a consumer, which has no grant yet."""
        self._fit_out(attachment)
        self.attachments.attach(attachment)
        self._disuse.used()
        self._take_note()

    def grant(self, attachment: Attachment, n: int, drain: bool) -> None:
        """Set the grant; the next dispatch answers."""
        assert n >= 0
        attachment.grant = n
        attachment.drain = drain
        attachment.replies_due += 1
        self._asking[attachment] = None
        if not attachment.consumer.options.getter:
            self.consumers.granted(attachment)
            return
        attachment.drain = True
        self._getting[attachment] = None
        self._disuse.used()

    def settle(self, attachment: Attachment, first: int, last: int, disposal: Disposal | Return) -> bool:
        """Settle the unsettled deliveries in the range (delivery numbers, both inclusive).

        Returns True if the queue needs a turn after that.
        """
        self._endings.dispose(attachment, attachment.unsettled.remove(first, last), disposal)
        if attachment.pace is not None:
            self.consumers.settled(attachment.pace, last)
        may_vacate = not attachment.unsettled.count and (attachment.detached or self.consumers.single_active)
        vacated = may_vacate and self.attachments.vacated(attachment)
        return vacated or disposal is not Disposal.ACCEPTED or self._endings.count > 0

    def cancel(self, attachment: Attachment, *, requeue: bool = True) -> None:
        """See :class:`core.engine.queue.kinds.AnyQueue`."""
        if requeue:
            self._endings.dispose(attachment, attachment.unsettled.remove_all(), Return())
        self._asking.pop(attachment, None)
        self._getting.pop(attachment, None)
        for sub_queue in self._sub_queues:
            sub_queue.returned.lift_bars(attachment)
        if not (attachment.consumer.options.getter or attachment.detached):
            self._disuse.used()
        self.attachments.leave(attachment)
        self._take_note()

    def _fit_out(self, attachment: Attachment) -> None:
        """Apply the queue's options to a consumer."""
        options, consumer = self.options, attachment.consumer
        attachment.bound(options)
        self.attachments.limit(attachment, options.consumer_timeout_ms, consumer.options.consumer_timeout_ms)

    def _take_note(self) -> None:
        """Recompute ``_cares`` and ``_one_place`` after consumers, options or the move have changed."""
        if self.options.deduplicate is (self._repeats is None):
            of_queue = self.inbox, self._sub_queues, self._admissions, self.counters
            self._repeats = fitting(self._repeats, self._context, *of_queue)
        alike = not (self._repeats or self.options.enqueued_annotation) and self.options.message_ttl_ms is None
        self._one_place = alike and len(self._sub_queues) == 1
        limits = self._limit.blocks or self.options.expires_ms is not None
        moving = self._move is not None and not self._move.done
        self._cares = limits or self.attachments.timed or bool(self._paging) or moving

    # --- where messages end, and what the sub-queues are told ---------------------------------------------------

    def _restore(self, batch: Batch) -> None:
        self._sub_queue_of(batch).restore(batch)

    def _sub_queue_of(self, batch: Batch) -> SubQueue:
        return self._sub_queues[-1 - batch.level]

    def _out_of_sub_queues(self) -> Iterator[Batch]:
        """Iterate over all messages that were taken from a backing and may return to it."""
        for attachment in self.attachments:
            yield from attachment.unsettled.batches()
        yield from self._endings.batches()
        for sub_queue in self._sub_queues:
            yield from sub_queue.returned.batches()
        if self._move is not None:
            yield from self._move.batches()
        yield from (batch for batch in self._letters.batches() if batch.level != NOWHERE)

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
        for attachment in self.attachments:
            self._fit_out(attachment)
        self._take_note()
        for publisher in self.publishers:
            publisher.link_credit_max = options.max_link_credit

    def used(self) -> None:
        """A client declared the queue again, so it counts as used."""
        self._disuse.used()

    def peek(self, n: int) -> list[Peeked]:
        """Return the first ``n`` ready messages, which stay unchanged. Raises Invalid if ``n`` is too high."""
        return peek(self._sub_queues, n)

    def holding(self, holder: str, touch: Callable[[], None]) -> Holding:
        """Return what gives messages to a holder, and settles them; ``touch`` gives a turn. Raises NotFound."""
        return Holding(self, self._sub_queues, self.counters, self._letters, self._endings, self.led, holder, touch)

    def move(self, target: Target | None, n: int | None) -> int:
        """See :class:`core.engine.queue.kinds.AnyQueue`. Raises PreconditionFailed while another move is under way."""
        assert self._context is not None
        last = self._move
        if last is not None and not last.done:
            raise PreconditionFailed(f"queue '{self.name}': messages are being moved already; wait until that is done")
        self._move = Move(self._context, self, target, n, number=1 if last is None else last.number + 1)
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
        for sub_queue in self._sub_queues:
            returned = sub_queue.returned.count
            self._endings.purge(sub_queue.returned.take_all(), returned)
            purged += returned + sub_queue.backing.purge(let_go)
        self.counters.purged += purged
        while self._endings.purging:
            yield None
        for sub_queue in self._sub_queues:
            sub_queue.backing.write_now()
        return purged

    def dissolve(self, confirms: Confirms, error: EngineError, let_go: LetGo, *, moved: bool = False) -> None:
        """See :class:`core.engine.queue.kinds.AnyQueue`."""
        self._admissions.dissolve(confirms, error if moved else None)
        for submission, start, _ in self.inbox.take_all():
            confirms.gone(submission, self, start, moved=error if moved else None)
        for publisher in self.publishers:
            confirms.close(publisher, error)
        self.attachments.dissolve(error, let_go)
        self._endings.clear(let_go)
        self._letters.retire()
        if self._move is not None:
            self._move.end(str(error))
            self._move = None
        for sub_queue in self._sub_queues:
            for heap in sub_queue.returned.take_all():
                let_go(heap)
            sub_queue.backing.delete(let_go)
