"""Dead-lettering: what a queue does with messages that were rejected, expired, pushed out by the length limit, or
returned too often.

Without a dead-letter exchange such messages are dropped. With one they are published to it. Each message records this
death in its list of deaths. The queue keeps its copy until the target queues have answered:

- at-most-once: the copy is dropped whatever the answer is. A message without a route, or rejected by its target, is
  lost, and counted;
- at-least-once: a message that was not accepted is kept and tried again later; few messages are under way at a time.
  Messages pushed out by the length limit are not kept, because then the limit would have no effect. The backing
  of a quorum queue records on disk which messages are kept so; after a restart of the others they are ready again.

A dead letter keeps the annotations that consumers have added, and counts as redelivered.

A message is not published to a queue in which it has died before, unless a consumer has rejected it since: nothing
would end that cycle. A cycle with a rejection is allowed, because each rejection is a consumer's decision.

The number of messages kept here is bounded. While there is no ``room``, the queue dead-letters nothing more and
delivers nothing, so only messages that consumers already hold can be added.

This module knows neither where the copies are kept nor how a message is encoded.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from math import inf

from core.clock import Now
from core.engine.options.in_force import QueueOptions
from core.engine.queue.courier import Courier, CourierContext
from core.engine.queue.kinds import AnyQueue
from core.engine.ready.batch import Batch
from core.interface import Death, DeathReason, Outcome
from core.message import Attributes, Route, Run

UNDER_WAY_MAX = 4096
"""At-most-once: messages under way at a time. Enough to keep the stages of the targets busy."""

LETTER_WORK = 70
"""The cost of encoding a message with its death and routing it, in units of :mod:`core.work`."""

SENT_AT_ONCE = 64
"""Messages sent in one dispatch of the queue, which takes 5 ms at most then. The others are sent in the next turns."""

SENT_BYTES_AT_ONCE = 2**20
"""Bytes sent in one dispatch, because each message is copied. A larger message is sent alone."""

KEPT_UNDER_WAY_MAX = 32
"""At-least-once: messages under way at a time, the default prefetch of RabbitMQ's dead-letter worker."""

HERE_MAX = 16_384
"""There is no room at this many messages, waiting and under way. It is more than one turn of a queue adds."""

RETRY_SECONDS = 5.0
"""How long a message that was not accepted waits before it is tried again."""

Letter = tuple[Batch, DeathReason]


class DeadLetters:
    """The messages of one queue that are being dead-lettered."""

    __slots__ = (
        "_context", "_couriers", "_failed", "_queue", "_retry_at", "_waiting", "dead_lettered", "dropped", "here",
        "room", "sends_more", "sent",
    )  # fmt: skip

    def __init__(self, queue: AnyQueue, context: CourierContext | None) -> None:
        self._queue = queue
        self._context = context
        self._couriers: dict[DeathReason, Courier] = {}
        self._waiting: deque[Letter] = deque()
        self._failed: list[Letter] = []
        """Messages that were not accepted and are to be tried again."""
        self._retry_at = inf
        self.sends_more = False
        """Whether waiting messages that could be sent now were left to the next turn."""
        self.sent = 0
        """How many messages the last call of ``send`` published."""
        self.here = 0
        """How many messages are waiting, failed or under way."""
        self.room = True
        """Whether the queue may dead-letter more messages."""
        self.dead_lettered: Counter[str] = Counter()
        """How many messages a target has accepted, by the reason of their death."""
        self.dropped: Counter[str] = Counter()
        """How many messages were dropped: by the reason of their death if there is no dead-letter exchange, else by
        ``no route``, ``refused`` or ``cycle``."""

    @property
    def deadline(self) -> float:
        """When to try again (monotonic seconds); infinity for never."""
        return self._retry_at

    def counts(self) -> Mapping[str, object]:
        """Counters for the queue's snapshot."""
        return {
            "dead_letters_waiting": self.here,
            "dead_lettered": dict(self.dead_lettered),
            "dropped": dict(self.dropped),
        }

    def batches(self) -> Iterator[Batch]:
        """All messages kept here, in no order. The caller must not change them."""
        for batch, _ in (*self._waiting, *self._failed):
            yield batch
        for courier in self._couriers.values():
            yield from courier.batches()

    def post(self, batch: Batch, reason: DeathReason, options: QueueOptions) -> bool:
        """Take messages that the queue gives up. Returns False if the queue has no dead-letter exchange: then they are
        counted as dropped and the caller drops them."""
        if options.dead_letter_exchange is None or self._context is None:
            self.dropped[reason.value] += len(batch)
            return False
        self._waiting.append((batch, reason))
        self._count(len(batch))
        return True

    def collect(self, options: QueueOptions, now: Now) -> list[Batch]:
        """Process the answers of the targets. Returns the messages whose copies the queue may now drop."""
        done: list[Batch] = []
        for reason, courier in self._couriers.items():
            for outcome, batches in courier.answers():
                if outcome is Outcome.ACCEPTED:
                    self.dead_lettered[reason.value] += _total(batches)
                elif keeps(options, reason):
                    self._failed += ((batch, reason) for batch in batches)
                    self._retry_at = min(self._retry_at, now.monotonic + RETRY_SECONDS)
                    continue
                else:
                    self.dropped["no route" if outcome is Outcome.RELEASED else "refused"] += _total(batches)
                done += batches
        self._count(-_total(done))
        return done

    def send(self, options: QueueOptions, restore: Callable[[Batch], None], now: Now) -> list[Batch]:
        """Publish waiting messages, within the limits per dispatch and under way. Returns the messages that are not
        sent after all, and whose copies the queue may now drop.

        ``restore`` reads the entries of a paged-out batch back from disk.
        """
        if self._retry_at <= now.monotonic:
            self._waiting.extendleft(sorted(self._failed, key=_position, reverse=True))
            self._failed.clear()
            self._retry_at = inf
        done: list[Batch] = []
        limit = KEPT_UNDER_WAY_MAX if options.at_least_once else UNDER_WAY_MAX
        room = limit - sum(courier.under_way for courier in self._couriers.values())
        free = min(room, SENT_AT_ONCE)
        size = 0
        self.sent = 0
        while self._waiting and self.sent < free and size < SENT_BYTES_AT_ONCE:
            batch, reason = self._waiting.popleft()
            if options.dead_letter_exchange is None:
                self.dropped[reason.value] += len(batch)
                done.append(batch)
                continue
            batch = self._cut(batch, reason, free - self.sent)
            restore(batch)
            sizes = list(accumulate(map(len, batch.entries), initial=size))
            batch = self._cut(batch, reason, max(1, bisect_left(sizes, SENT_BYTES_AT_ONCE)))
            size = sizes[len(batch)]
            self.sent += len(batch)
            done += self._publish(batch, reason, options.dead_letter_exchange, options.dead_letter_routing_key, now)
        self.sends_more = bool(self._waiting) and self.sent < room
        self._count(-_total(done))
        return done

    def retire(self) -> None:
        """The queue is deleted."""
        self.abandon()
        del self._queue

    def abandon(self) -> None:
        """Forget all messages; those that are under way still arrive."""
        for courier in self._couriers.values():
            courier.retire()
        self._couriers.clear()  # breaks their reference cycle with the queue
        self._waiting.clear()
        self._failed.clear()
        self._retry_at = inf
        self.here = 0
        self.room = True

    def _cut(self, batch: Batch, reason: DeathReason, n: int) -> Batch:
        """Return the first ``n`` messages, and put the others back at the front of the waiting ones."""
        if n >= len(batch):
            return batch
        self._waiting.appendleft((batch.part(n, len(batch)), reason))
        return batch.part(0, n)

    def _publish(self, batch: Batch, reason: DeathReason, exchange: str, key: str | None, now: Now) -> list[Batch]:
        """Publish messages to the dead-letter exchange. Returns those that would only go round in a cycle, which are
        dropped."""
        return [
            cycled
            for part, attributes, route in batch.alike()
            for cycled in self._publish_alike(part, attributes, route, reason, exchange, key, now)
        ]

    def _publish_alike(
        self, batch: Batch, attributes: Attributes, route: Route | None, reason: DeathReason, exchange: str,
        key: str | None, now: Now,
    ) -> list[Batch]:  # fmt: skip
        """Publish messages that have the same attributes and route."""
        assert self._context is not None
        if reason not in self._couriers:
            self._couriers[reason] = Courier(self._context, self._queue)
        courier = self._couriers[reason]
        came_by = route or Route("", (self._queue.name,))
        keys = came_by.routing_keys if key is None else (key,)
        entries = self._with_death(batch, attributes, reason, came_by, now)
        run = Run(courier.load(batch), entries, replace(attributes, ttl_ms=None, redelivered=True), keys[1:])
        cycled: list[Batch] = []
        for part, queues in self._context.route(exchange, keys, run):
            for piece, deaths in self._by_deaths(part, reason):
                acyclic = [queue for queue in queues if not is_cycle(queue.name, deaths)]
                if queues and not acyclic:
                    cycled += courier.unload(piece.first, piece.first + len(piece.entries) - 1)
                else:
                    courier.submit(piece, tuple(acyclic))
        if cycled:
            self.dropped["cycle"] += _total(cycled)
        return cycled

    def _count(self, change: int) -> None:
        self.here += change
        self.room = self.here < HERE_MAX

    def _with_death(
        self, batch: Batch, attributes: Attributes, reason: DeathReason, came_by: Route, now: Now
    ) -> list[bytes]:
        assert self._context is not None
        entries = self._context.entries(batch)
        converter = self._context.converter
        if converter is None:
            return entries
        death = Death(
            queue=self._queue.name,
            reason=reason,
            at=now.wall,
            exchange=came_by.exchange,
            routing_keys=came_by.routing_keys,
            ttl_ms=attributes.ttl_ms,
        )
        return [converter.dead_lettered(entry, attributes.origin, death) for entry in entries]

    def _by_deaths(self, run: Run, reason: DeathReason) -> Iterator[tuple[Run, Sequence[tuple[str, DeathReason]]]]:
        """Cut the run into pieces whose messages have the same list of deaths: newest first, this one included."""
        converter = self._context.converter if self._context else None
        if converter is None:
            yield run, [(self._queue.name, reason)]
            return
        origin = run.origin
        start = 0
        for deaths, alike in groupby(tuple(converter.deaths(entry, origin)) for entry in run.entries):
            stop = start + len(list(alike))
            entries = run.entries[start:stop]
            yield Run(run.first + start, entries, run.attributes, run.routing_keys, run.routes), deaths
            start = stop


def keeps(options: QueueOptions, reason: DeathReason) -> bool:
    """Return whether a message with this reason of death is kept until a target has accepted it."""
    return options.at_least_once and reason is not DeathReason.MAXLEN


def is_cycle(queue: str, deaths: Sequence[tuple[str, DeathReason]]) -> bool:
    """Return whether a message with these deaths, newest first, has died in the queue and was not rejected since."""
    for died_in, reason in deaths:
        if reason is DeathReason.REJECTED:
            return False
        if died_in == queue:
            return True
    return False


def _total(batches: Iterable[Batch]) -> int:
    return sum(map(len, batches))


def _position(letter: Letter) -> int:
    return letter[0].sequences[0]
