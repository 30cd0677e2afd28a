"""The consumers of one queue, and which of them is served next.

Served are the consumers with the highest priority among those that have a queue grant; among equals each gets
one message in turn. A level is the consumers of one priority that can take a message now, in the order of
their turns: one that has been served goes to the end, one that has used up the grant leaves, and a new grant
enters at the end. So finding the next consumer costs nothing, however many wait without a grant.

Single active consumer [x-single-active-consumer]: only one consumer is on a level. The first to attach is
active; when it leaves, the next one by priority, then by age. A newcomer of higher priority takes over as
soon as the active one has nothing unsettled, and from its coming on the active one gets nothing new. The
others keep their grants.

This module does not know where messages come from.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from core.engine.expiry import Marks
from core.engine.stretch import Stretch
from core.engine.unsettled import Unsettled
from core.interface import ActivityChanged, ConsumeOptions, Delivered, GrantReply, Mailbox


@dataclass(eq=False, slots=True)
class Attachment:
    """A consumer as the engine sees it: what front ends hold as ``core.interface.Consumer``."""

    identity: int
    """Counts up over the whole engine: also the order of age."""
    queue_name: str
    mailbox: Mailbox
    options: ConsumeOptions
    reference: object
    active: bool = True
    detached: bool = False
    """It gets nothing more."""
    gone: bool = False
    """It holds nothing either: whatever is said of its deliveries has no effect."""
    in_turn: bool = False
    """True while it has a place on its level."""
    grant: int = 0
    drain: bool = False
    replies_due: int = 0
    """How many grants are not answered yet."""
    next_number: int = 0
    """The delivery number of the next message."""
    unsettled: Unsettled = field(default_factory=Unsettled)
    link_credit_max: int | None = None
    sequence_key: str = ""
    """The annotation under which deliveries tell their sequence numbers; empty for none."""
    marks: Marks | None = None
    """When its deliveries were made, where there is a time-out for them."""

    def deliver(self, stretch: Stretch) -> None:
        """Hand over messages, at most as many as the grant allows."""
        count = len(stretch.entries)
        assert 0 < count <= self.grant
        number = self.next_number
        self.grant -= count
        self.next_number = number + count
        self.mailbox.put(
            Delivered(
                self,
                number,
                stretch.entries.copy(),
                stretch.attributes,
                stretch.delivery_count,
                stretch.first_acquirer and not stretch.attributes.redelivered,
                stretch.annotations,
                stretch.sequences if self.sequence_key else None,
                self.sequence_key,
                stretch.route,
            )
        )
        self.unsettled.append(number, stretch)

    def reply(self, available: int) -> None:
        """Answer every grant since the last reply; the newest one decides what is drained."""
        for _ in range(self.replies_due - 1):
            self.mailbox.put(GrantReply(self, available, 0))
        drained = 0
        if self.drain:
            drained, self.grant, self.drain = self.grant, 0, False
        self.mailbox.put(GrantReply(self, available, drained))
        self.replies_due = 0


class Level:
    """The consumers of one priority that can take a message now, in the order of their turns."""

    __slots__ = ("_turns", "attached")

    def __init__(self) -> None:
        self.attached: OrderedDict[int, Attachment] = OrderedDict()
        """All consumers of this priority, in order of age."""
        self._turns: deque[Attachment] = deque()

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def next(self) -> Attachment:
        """Whose turn it is."""
        return self._turns[0]

    def enter(self, consumer: Attachment) -> None:
        """Take a place at the end, unless the consumer has one."""
        if not consumer.in_turn:
            consumer.in_turn = True
            self._turns.append(consumer)

    def leave(self, consumer: Attachment) -> None:
        """Give up the place, if any."""
        if consumer.in_turn:
            consumer.in_turn = False
            self._turns.remove(consumer)

    def skip(self) -> None:
        """Pass over whose turn it is: nothing that is ready may go there."""
        self._turns.rotate(-1)

    def room(self, ready: int) -> int:
        """How many of ``ready`` messages can be dealt at once, one to each in turn, within every grant."""
        count = len(self._turns)
        if count > 1 and ready <= count:
            return ready  # every consumer on a level has a grant; no need to look at all of them for a few messages
        return count * min(consumer.grant for consumer in self._turns)

    def deal(self, stretch: Stretch) -> None:
        """Hand out messages, at most as many as there is ``room`` for: one to each in turn."""
        turns = self._turns
        total = len(stretch)
        if len(turns) == 1:
            served = [turns.popleft()]
            served[0].deliver(stretch)
        else:
            count = min(total, len(turns))
            served = [turns.popleft() for _ in range(count)]
            for place, consumer in enumerate(served):
                consumer.deliver(stretch.part(place, total, count))
            next_place = total % count
            served = served[next_place:] + served[:next_place]
        for consumer in served:
            if consumer.grant:
                turns.append(consumer)
            else:
                consumer.in_turn = False


class Consumers:
    """All consumers attached to a queue, in order of age."""

    __slots__ = ("_active", "_attached", "_levels", "_single_active")

    def __init__(self, *, single_active: bool) -> None:
        self._single_active = single_active
        self._attached: dict[int, Attachment] = {}
        self._active: Attachment | None = None
        """Only for a single active consumer."""
        self._levels: dict[int, Level] = {}
        """By priority, highest first; a priority that no consumer has any more leaves."""

    def __len__(self) -> int:
        return len(self._attached)

    def __iter__(self) -> Iterator[Attachment]:
        return iter(self._attached.values())

    def levels(self) -> Iterator[Level]:
        """Highest priority first. Lazily: a level is looked at when the one above it has been served."""
        return (level for level in self._levels.values() if level)

    def first_level(self) -> Level | None:
        """The highest level on which a consumer can take a message now."""
        for level in self._levels.values():
            if level:
                return level
        return None

    def attach(self, consumer: Attachment) -> None:
        """Add a consumer; it has no grant yet."""
        self._attached[consumer.identity] = consumer
        priority = consumer.options.priority
        if priority not in self._levels:
            self._levels[priority] = Level()
            self._levels = dict(sorted(self._levels.items(), reverse=True))
        self._levels[priority].attached[consumer.identity] = consumer
        if self._single_active:
            consumer.active = False
            self._choose_active(newcomer=consumer)

    def detach(self, consumer: Attachment) -> None:
        """Remove a consumer; if it was the active one, the next becomes active."""
        priority = consumer.options.priority
        level = self._levels[priority]
        level.leave(consumer)
        del level.attached[consumer.identity]
        del self._attached[consumer.identity]
        consumer.detached = True
        if not level.attached:
            del self._levels[priority]
        if consumer is self._active:
            self._active = None
        if self._single_active:
            self._choose_active()

    def granted(self, consumer: Attachment) -> None:
        """The consumer's grant was set or drained: it takes a place in the turns, or gives it up."""
        level = self._levels[consumer.options.priority]
        if consumer.grant and consumer.active and not self._yields(consumer):
            level.enter(consumer)
        else:
            level.leave(consumer)

    def vacated(self, consumer: Attachment) -> bool:
        """The consumer has nothing unsettled: the moment to hand over, if it yields. True when it does."""
        if consumer is not self._active or not self._yields(consumer):
            return False
        self._choose_active()
        return True

    def _choose_active(self, newcomer: Attachment | None = None) -> None:
        """Let the right one be active; a newcomer reads in ``active`` what became of it."""
        best = self._best()
        active = self._active
        if best is None or best is active:
            pass
        elif active is None or (self._yields(active) and not active.unsettled.count):
            if active is not None:
                active.active = False
                active.mailbox.put(ActivityChanged(active, False))
                self.granted(active)
            self._active = best
            best.active = True
            if best is not newcomer:
                best.mailbox.put(ActivityChanged(best, True))
        if self._active is not None:
            self.granted(self._active)

    def _best(self) -> Attachment | None:
        """Highest priority, then oldest."""
        first = next(iter(self._levels.values()), None)
        return None if first is None else next(iter(first.attached.values()))

    def _yields(self, active: Attachment) -> bool:
        """True for an active consumer that will hand over as soon as it has settled everything."""
        if not self._single_active:
            return False
        return next(iter(self._levels)) > active.options.priority
