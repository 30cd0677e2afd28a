"""What becomes of messages that a queue gives up: rejected, expired, pushed out, or returned too often.

Without a dead-letter exchange they are dropped. With one they are published to it, each with this death entered among
its deaths, and the queue keeps its copy until the target queues have confirmed:

- at-most-once: whatever the answer is, the copy goes. No route, no room: the message is lost, and counted;
- at-least-once: a message that was not accepted stays and is tried again later; few are under way at a time. What is
  pushed out by the length limit is not kept: a limit that keeps everything would be none. A backing that can remembers
  over a start what is kept so.

A dead letter takes along what consumers have added to its annotations, and counts as delivered before.

A message is not put into a queue that it has died in before, if no consumer rejected it on the way round: nothing would
ever end that cycle. A rejection is a consumer's decision, and may go round for ever.

The number of messages here is bounded: as long as there is no ``room``, the queue gives up nothing more and hands
nothing out, so at most what consumers hold already is added.

This module knows neither where the copies are kept nor what an entry looks like.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from math import inf

from core.clock import Now
from core.engine.courier import Courier, Roads
from core.engine.kinds import AnyQueue
from core.engine.options import QueueOptions
from core.engine.stretch import Stretch
from core.interface import Death, DeathReason, Outcome
from core.message import Route, Run

UNDER_WAY_MAX = 4096
"""Messages under way at most-once: enough to keep the stages of the targets busy."""

LETTER_WORK = 70
"""Of writing a message anew with its death and routing it, in units of :mod:`core.work`."""

SENT_AT_ONCE = 64
"""In one dispatch of the queue, which so takes 5 ms at most; what still waits goes in the next turns."""

SENT_BYTES_AT_ONCE = 2**20
"""The same in bytes, since each is copied. A larger message goes alone."""

KEPT_UNDER_WAY_MAX = 32
"""Messages under way at least-once: what RabbitMQ's dead-letter worker prefetches, by default."""

HERE_MAX = 16_384
"""Messages here, waiting and under way, from which on there is no room: more than one turn of a queue adds."""

RETRY_SECONDS = 5.0
"""How long a message that was not accepted waits for its next try."""

Letter = tuple[Stretch, DeathReason]


class DeadLetters:
    """The messages that one queue has given up and not got rid of yet."""

    __slots__ = (
        "_couriers", "_failed", "_queue", "_retry_at", "_roads", "_waiting",
        "dead_lettered", "dropped", "here", "room", "sends_more", "sent",
    )  # fmt: skip

    def __init__(self, queue: AnyQueue, roads: Roads | None) -> None:
        self._queue = queue
        self._roads = roads
        self._couriers: dict[DeathReason, Courier] = {}
        self._waiting: deque[Letter] = deque()
        self._failed: list[Letter] = []
        """Not accepted, to be tried again."""
        self._retry_at = inf
        self.sends_more = False
        """Some of what waits could go at once, and is left to the next turn."""
        self.sent = 0
        """Messages that were written anew in the last call of ``send``."""
        self.here = 0
        """Messages waiting, failed and under way."""
        self.room = True
        """The queue may give up more."""
        self.dead_lettered: Counter[str] = Counter()
        """Accepted by a target, by reason."""
        self.dropped: Counter[str] = Counter()
        """By reason where there is no dead-letter exchange, else by what was in the way: ``no route``, ``refused``,
        ``cycle``."""

    @property
    def deadline(self) -> float:
        """When to try again (monotonic seconds); infinity for never."""
        return self._retry_at

    def counts(self) -> Mapping[str, object]:
        """To be looked at only."""
        return {
            "dead_letters_waiting": self.here,
            "dead_lettered": dict(self.dead_lettered),
            "dropped": dict(self.dropped),
        }

    def stretches(self) -> Iterator[Stretch]:
        """Everything that is here, in no order; to be looked at only."""
        for stretch, _ in (*self._waiting, *self._failed):
            yield stretch
        for courier in self._couriers.values():
            yield from courier.stretches()

    def post(self, stretch: Stretch, reason: DeathReason, options: QueueOptions) -> bool:
        """Take a message that the queue gives up. False: no exchange is there for it; it is dropped, and counted."""
        if options.dead_letter_exchange is None or self._roads is None:
            self.dropped[reason.value] += len(stretch)
            return False
        self._waiting.append((stretch, reason))
        self._count(len(stretch))
        return True

    def collect(self, options: QueueOptions, now: Now) -> list[Stretch]:
        """Hear the answers. Returns the messages that the queue's copies may be dropped of."""
        done: list[Stretch] = []
        for reason, courier in self._couriers.items():
            for outcome, stretches in courier.answers():
                if outcome is Outcome.ACCEPTED:
                    self.dead_lettered[reason.value] += _total(stretches)
                elif keeps(options, reason):
                    self._failed += ((stretch, reason) for stretch in stretches)
                    self._retry_at = min(self._retry_at, now.monotonic + RETRY_SECONDS)
                    continue
                else:
                    self.dropped["no route" if outcome is Outcome.RELEASED else "refused"] += _total(stretches)
                done += stretches
        self._count(-_total(done))
        return done

    def send(self, options: QueueOptions, restore: Callable[[Stretch], None], now: Now) -> list[Stretch]:
        """Publish what waits: so much at once, and as far as there may be so much under way. Returns, as above, what
        needs no sending.

        ``restore`` has the entries of a stretch read back that was paged out.
        """
        if self._retry_at <= now.monotonic:
            self._waiting.extendleft(sorted(self._failed, key=_position, reverse=True))
            self._failed.clear()
            self._retry_at = inf
        done: list[Stretch] = []
        limit = KEPT_UNDER_WAY_MAX if options.at_least_once else UNDER_WAY_MAX
        room = limit - sum(courier.under_way for courier in self._couriers.values())
        free = min(room, SENT_AT_ONCE)
        size = 0
        self.sent = 0
        while self._waiting and self.sent < free and size < SENT_BYTES_AT_ONCE:
            stretch, reason = self._waiting.popleft()
            if options.dead_letter_exchange is None:
                self.dropped[reason.value] += len(stretch)
                done.append(stretch)
                continue
            stretch = self._cut(stretch, reason, free - self.sent)
            restore(stretch)
            sizes = list(accumulate(map(len, stretch.entries), initial=size))
            stretch = self._cut(stretch, reason, max(1, bisect_left(sizes, SENT_BYTES_AT_ONCE)))
            size = sizes[len(stretch)]
            self.sent += len(stretch)
            done += self._publish(stretch, reason, options.dead_letter_exchange, options.dead_letter_routing_key, now)
        self.sends_more = bool(self._waiting) and self.sent < room
        self._count(-_total(done))
        return done

    def retire(self) -> None:
        """The queue is deleted."""
        for courier in self._couriers.values():
            courier.retire()
        self._couriers.clear()  # which refer to the queue, as the queue to them: so all go without a look for cycles
        del self._queue
        self._waiting.clear()
        self._failed.clear()
        self._retry_at = inf
        self.here = 0

    def _cut(self, stretch: Stretch, reason: DeathReason, n: int) -> Stretch:
        """The first ``n`` messages; the others wait again, in front."""
        if n >= len(stretch):
            return stretch
        self._waiting.appendleft((stretch.part(n, len(stretch)), reason))
        return stretch.part(0, n)

    def _publish(
        self, stretch: Stretch, reason: DeathReason, exchange: str, key: str | None, now: Now
    ) -> list[Stretch]:
        """Returns what would go round for ever."""
        assert self._roads is not None
        if reason not in self._couriers:
            self._couriers[reason] = Courier(self._roads, self._queue)
        courier = self._couriers[reason]
        came_by = stretch.route or Route("", (self._queue.name,))
        keys = came_by.routing_keys if key is None else (key,)
        attributes = replace(stretch.attributes, ttl_ms=None, redelivered=True)
        entries = self._with_death(stretch, reason, came_by, now)
        run = Run(courier.load(stretch), entries, attributes, keys[1:])
        cycled: list[Stretch] = []
        for part, queues in self._roads.route(exchange, keys, run):
            for piece, deaths in self._by_deaths(part, reason):
                acyclic = [queue for queue in queues if not is_cycle(queue.name, deaths)]
                if queues and not acyclic:
                    cycled += courier.unload(piece.first, piece.first + len(piece.entries) - 1)
                else:
                    courier.submit(piece, tuple(acyclic), Route(exchange, keys))
        if cycled:
            self.dropped["cycle"] += _total(cycled)
        return cycled

    def _count(self, change: int) -> None:
        self.here += change
        self.room = self.here < HERE_MAX

    def _with_death(self, stretch: Stretch, reason: DeathReason, came_by: Route, now: Now) -> list[bytes]:
        assert self._roads is not None
        entries = self._roads.entries(stretch)
        converter = self._roads.converter
        if converter is None:
            return entries
        death = Death(
            queue=self._queue.name,
            reason=reason,
            at=now.wall,
            exchange=came_by.exchange,
            routing_keys=came_by.routing_keys,
            ttl_ms=stretch.attributes.ttl_ms,
        )
        origin = stretch.attributes.origin
        return [converter.dead_lettered(entry, origin, death) for entry in entries]

    def _by_deaths(self, run: Run, reason: DeathReason) -> Iterator[tuple[Run, Sequence[tuple[str, DeathReason]]]]:
        """The run in pieces whose messages have died the same deaths, newest first, this one included."""
        converter = self._roads.converter if self._roads else None
        if converter is None:
            yield run, [(self._queue.name, reason)]
            return
        origin = run.attributes.origin
        start = 0
        for deaths, alike in groupby(tuple(converter.deaths(entry, origin)) for entry in run.entries):
            stop = start + len(list(alike))
            yield Run(run.first + start, run.entries[start:stop], run.attributes, run.routing_keys), deaths
            start = stop


def keeps(options: QueueOptions, reason: DeathReason) -> bool:
    """True when a message that dies so stays until a target has accepted it."""
    return options.at_least_once and reason is not DeathReason.MAXLEN


def is_cycle(queue: str, deaths: Sequence[tuple[str, DeathReason]]) -> bool:
    """True when a message with these deaths, newest first, has been in the queue and was not rejected since."""
    for died_in, reason in deaths:
        if reason is DeathReason.REJECTED:
            return False
        if died_in == queue:
            return True
    return False


def _total(stretches: Iterable[Stretch]) -> int:
    return sum(map(len, stretches))


def _position(letter: Letter) -> int:
    return letter[0].sequences[0]
