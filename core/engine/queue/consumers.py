"""The consumers of one queue, and which of them is served next.

Consumers with a queue grant are served by priority, highest first; consumers of equal priority are served in turn. In
its turn a consumer gets one message, or as many as its pace allows (``pace.py``). If more messages are ready than the
turns of all consumers take, each gets an equal share. A level holds the consumers of one priority that
can take a message now, in the order of their turns. A consumer whose turn is over goes to the end, one that has used up
its grant leaves the level, and one with a new grant enters at the end. So finding the next consumer takes constant
time, however many consumers have no grant.

Single active consumer [x-single-active-consumer]: only one consumer, the active one, is on a level. The first consumer
to attach is active. When it leaves, the next one by priority, then by age, becomes active. When a consumer of higher
priority attaches, the active one gets no more messages, and the new one takes over as soon as the active one has
nothing unsettled. Consumers that are not active keep their grants.

This module does not know where messages come from.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from core.engine.options.in_force import QueueOptions
from core.engine.queue.expiry import DeliveryTimes
from core.engine.queue.pace import Pace
from core.engine.ready.batch import Batch
from core.engine.ready.unsettled import Unsettled
from core.interface import ActivityChanged, BoundChanged, Consumer, Delivered, GrantReply
from core.message import enqueued_times

SEQUENCE_ANNOTATION = "x-opt-sequence"


@dataclass(eq=False, slots=True)
class Attachment:
    """What a queue knows of one consumer or getter."""

    consumer: Consumer
    detached: bool = False
    """It was cancelled and gets no more messages."""
    in_turn: bool = False
    """Whether it is in the turns of its level."""
    grant: int = 0
    drain: bool = False
    replies_due: int = 0
    """How many grants are not answered yet."""
    asked: bool = True
    """The client of the consumer waits for the answer to the last grant."""
    unsettled: Unsettled = field(default_factory=Unsettled)
    sequence_key: str = ""
    """The name of the annotation that carries the sequence number in deliveries; empty for no such annotation."""
    tells_time: bool = False
    """Whether deliveries carry the time at which the messages came."""
    copied_below: int = 0
    """Of a reader of copies: it has had those of the deliveries below this number of the holder."""
    marks: DeliveryTimes | None = None
    """When its deliveries were made; None if they have no time-out."""
    pace: Pace | None = None
    """How quickly it settles; None as long as it has been alone on its level."""

    def share(self, now: float) -> int:
        """How many messages it may get now, in its turn among other consumers; at least 1."""
        return 1 if self.pace is None else min(self.grant, self.pace.turn(now))

    def bound(self, options: QueueOptions) -> None:
        """Put the bounds and annotations of the queue's options in force."""
        self.sequence_key = SEQUENCE_ANNOTATION if options.sequence_annotation else ""
        self.tells_time = options.enqueued_annotation
        consumer = self.consumer
        consumer.link_credit_max = options.max_link_credit
        before = consumer.unsettled_max, consumer.unsettled_bytes_max
        consumer.unsettled_max, consumer.unsettled_bytes_max = options.max_unsettled, options.max_unsettled_bytes
        if consumer.options.holder:
            consumer.unsettled_max = 0  # it gets messages by requests only
        if before != (consumer.unsettled_max, consumer.unsettled_bytes_max):
            consumer.mailbox.put(BoundChanged(consumer))

    def deliver(self, batch: Batch) -> None:
        """Put a ``Delivered`` action with these messages into the mailbox. There are at most as many messages as the
        grant allows."""
        count = len(batch.entries)
        attributes, routes = batch.attributes, batch.routes
        redelivered = (attributes[0] if isinstance(attributes, list) else attributes).redelivered
        assert 0 < count <= self.grant
        consumer = self.consumer
        number = consumer.next_number
        self.grant -= count
        consumer.next_number = number + count
        consumer.mailbox.put(
            Delivered(
                consumer,
                number,
                batch.entries.copy(),
                attributes.copy() if isinstance(attributes, list) else attributes,
                batch.delivery_count,
                batch.first_acquirer and not redelivered,
                batch.annotations,
                batch.sequences if self.sequence_key else None,
                self.sequence_key,
                routes.copy() if isinstance(routes, list) else routes,
                enqueued_times(routes) if self.tells_time else None,
            )
        )
        self.unsettled.append(number, batch)

    def reply(self, available: int) -> None:
        """Answer every grant since the last reply. The newest grant decides whether the rest is drained."""
        consumer = self.consumer
        for _ in range(self.replies_due - 1):
            consumer.mailbox.put(GrantReply(consumer, available, 0))
        drained = 0
        if self.drain:
            drained, self.grant, self.drain = self.grant, 0, False
        consumer.mailbox.put(GrantReply(consumer, available, drained))
        self.replies_due = 0


class Level:
    """The consumers of one priority that can take a message now, in the order of their turns."""

    __slots__ = ("_planned", "attached", "turns")

    def __init__(self) -> None:
        self._planned: tuple[int, list[tuple[Attachment, int]], int] | None = None
        """Of how many messages the last ``room`` was asked, and what ``_shares`` answered, for ``deal``."""
        self.attached: OrderedDict[Consumer, Attachment] = OrderedDict()
        """All consumers of this priority, in order of age."""
        self.turns: deque[Attachment] = deque()
        """The consumers in turn. Callers may read it, to save a call when it is empty."""

    def __len__(self) -> int:
        return len(self.turns)

    @property
    def next(self) -> Attachment:
        """The consumer whose turn it is."""
        return self.turns[0]

    def enter(self, attachment: Attachment) -> None:
        """Take a place at the end, unless the consumer has one."""
        if not attachment.in_turn:
            attachment.in_turn = True
            self.turns.append(attachment)
            if attachment.pace is not None:
                attachment.pace.left = 0

    def leave(self, attachment: Attachment) -> None:
        """Give up the place, if any."""
        if attachment.in_turn:
            attachment.in_turn = False
            self.turns.remove(attachment)

    def skip(self) -> None:
        """Move the consumer whose turn it is to the end: it may take none of the ready messages."""
        self.turns.rotate(-1)

    def room(self, ready: int, now: float) -> int:
        """Return how many of ``ready`` messages one ``deal`` can hand out within every grant. ``now``: monotonic
        seconds."""
        turns, self._planned = self.turns, None
        count = len(turns)
        if count == 1:
            return turns[0].grant
        if ready <= count:
            return ready  # every consumer on a level has a grant; no need to look at all of them for a few messages
        shares, left = self._shares(ready, now)
        self._planned = ready, shares, left
        if left <= 0:
            return ready
        return max(ready - left, count * min(ready // count, *(attachment.grant for attachment, _ in shares)))

    def deal(self, batch: Batch, now: float) -> int:
        """Hand out messages to the consumers in turn; there are at most ``room`` of them. Returns how many consumers
        got some. ``now``: monotonic seconds."""
        turns = self.turns
        if len(turns) == 1:
            turns[0].deliver(batch)
            if not turns[0].grant:
                turns.popleft().in_turn = False
            return 1
        total, planned = len(batch.sequences), self._planned
        if planned is not None and planned[0] == total:
            _, shares, left = planned
        else:
            shares, left = self._shares(total, now)
        self._planned = None
        served = [turns.popleft() for _ in range(min(len(shares), len(turns)))]
        if left <= 0:
            start = 0
            for attachment, share in shares:
                stop = min(start + share, total)
                _hand(attachment, batch if stop - start == total else batch.part(start, stop), share, now)
                start = stop
            if len(shares) > len(served):
                served.append(served.pop(0))
        else:
            count = len(served)
            for place, attachment in enumerate(served):
                _hand(attachment, batch.part(place, total, count), None, now)
            next_place = total % count
            served = served[next_place:] + served[:next_place]
        for attachment in served:
            if not attachment.grant:
                attachment.in_turn = False
            elif attachment.pace is not None and attachment.pace.left:
                turns.appendleft(attachment)  # its turn goes on; that is so for one consumer at most
            else:
                turns.append(attachment)
        return len(served)

    def _shares(self, total: int, now: float) -> tuple[list[tuple[Attachment, int]], int]:
        """How many messages each consumer, in order, may get in its turn, as far as needed for ``total`` messages; the
        first one comes again at the end if its turn began earlier. Also how many messages are left then: 0 or less if
        the turns suffice."""
        first = self.turns[0]
        shares = []
        for attachment in self.turns:
            share = attachment.share(now)
            shares.append((attachment, share))
            total -= share
            if total <= 0:
                return shares, total
        # asked behind the loop: ``share`` ends a turn that is late, and the next call must find the same
        if first.pace is not None and first.pace.left and (rest := first.grant - shares[0][1]) > 0:
            share = min(rest, first.pace.next_turn)
            shares.append((first, share))
            total -= share
        return shares, total


def _hand(attachment: Attachment, batch: Batch, share: int | None, now: float) -> None:
    """Deliver to one of several consumers, and measure its pace. ``share`` is how many messages it may get in its turn;
    None for an equal share, which does not count towards its turn."""
    pace = attachment.pace
    if pace is None:
        pace = attachment.pace = Pace(attachment.consumer.next_number - 1)
    attachment.deliver(batch)
    pace.gave(attachment.consumer.next_number - 1, now, len(batch.sequences))
    if share is not None:
        pace.left = max(0, share - len(batch.sequences))


class Consumers:
    """All consumers attached to a queue, in order of age."""

    __slots__ = ("_active", "_granted_inactive", "attached", "levels", "settled_runs", "single_active")

    def __init__(self, *, single_active: bool) -> None:
        self.single_active = single_active
        self.attached: dict[Consumer, Attachment] = {}
        """The attachment of each consumer, in order of age. For reading only."""
        self._active: Attachment | None = None
        """The active consumer of a queue with a single active consumer; else None."""
        self._granted_inactive: dict[Attachment, None] = {}
        """Of a queue with a single active consumer, consumers that have a grant and may not use it."""
        self.levels: dict[int, Level] = {}
        """By priority, highest first; only priorities of attached consumers. A level may be empty."""
        self.settled_runs: list[Pace] = []
        """Of consumers that have settled the run that is being timed, since the last ``judge_paces``."""

    def __len__(self) -> int:
        return len(self.attached)

    def __iter__(self) -> Iterator[Attachment]:
        return iter(self.attached.values())

    @property
    def with_grant(self) -> int:
        """How many consumers have a grant. For a queue, not for a stream, whose consumers take no turns."""
        return sum(map(len, self.levels.values())) + len(self._granted_inactive)

    def first_level(self) -> Level | None:
        """The highest level on which a consumer can take a message now."""
        for level in self.levels.values():
            if level.turns:
                return level
        return None

    def attach(self, attachment: Attachment) -> None:
        """Add a consumer; it has no grant yet."""
        self.attached[attachment.consumer] = attachment
        priority = attachment.consumer.options.priority
        if priority not in self.levels:
            self.levels[priority] = Level()
            self.levels = dict(sorted(self.levels.items(), reverse=True))
        self.levels[priority].attached[attachment.consumer] = attachment
        if self.single_active:
            attachment.consumer.active = False
            self._choose_active(newcomer=attachment)

    def detach(self, attachment: Attachment) -> None:
        """Remove a consumer; if it was the active one, the next becomes active."""
        priority = attachment.consumer.options.priority
        level = self.levels[priority]
        level.leave(attachment)
        del level.attached[attachment.consumer]
        del self.attached[attachment.consumer]
        attachment.detached = True
        self._granted_inactive.pop(attachment, None)
        if not level.attached:
            del self.levels[priority]
        if attachment is self._active:
            self._active = None
        if self.single_active:
            self._choose_active()

    def granted(self, attachment: Attachment) -> None:
        """The consumer's grant was set or drained: it enters the turns of its level, or leaves them."""
        level = self.levels[attachment.consumer.options.priority]
        if attachment.grant and attachment.consumer.active and not (self.single_active and self._yields(attachment)):
            level.enter(attachment)
            self._granted_inactive.pop(attachment, None)
        else:
            level.leave(attachment)
            if attachment.grant:
                self._granted_inactive[attachment] = None
            else:
                self._granted_inactive.pop(attachment, None)

    def settled(self, pace: Pace, last: int) -> None:
        """The consumer with this pace has settled deliveries up to this number."""
        if pace.completes(last):
            self.settled_runs.append(pace)

    def judge_paces(self, now: float) -> None:
        """Note which consumers have settled quickly. Called at the beginning of the queue's turn; monotonic seconds."""
        if self.settled_runs:
            for pace in self.settled_runs:
                pace.judge(now)
            self.settled_runs.clear()

    def vacated(self, attachment: Attachment) -> bool:
        """The consumer has nothing unsettled any more. If it is active and must hand over, another becomes active:
        return True."""
        if attachment is not self._active or not self._yields(attachment):
            return False
        self._choose_active()
        return True

    def _choose_active(self, newcomer: Attachment | None = None) -> None:
        """Make the right consumer active, and tell the consumers that change. The newcomer is not told: its caller
        reads ``active``."""
        best = self._best()
        active = self._active
        if best is None or best is active:
            pass
        elif active is None or (self._yields(active) and not active.unsettled.count):
            if active is not None:
                active.consumer.active = False
                active.consumer.mailbox.put(ActivityChanged(active.consumer, False))
                self.granted(active)
            self._active = best
            best.consumer.active = True
            if best is not newcomer:
                best.consumer.mailbox.put(ActivityChanged(best.consumer, True))
        if self._active is not None:
            self.granted(self._active)

    def _best(self) -> Attachment | None:
        """The consumer that should be active: highest priority, then oldest; None without consumers."""
        first = next(iter(self.levels.values()), None)
        return None if first is None else next(iter(first.attached.values()))

    def _yields(self, active: Attachment) -> bool:
        """Return whether the active consumer must hand over to one of higher priority as soon as it has settled
        everything."""
        if not self.single_active:
            return False
        return next(iter(self.levels)) > active.consumer.options.priority
