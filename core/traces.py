"""Traces: how chosen messages went through the broker, as spans in the sense of OpenTelemetry.

A message is traced when it carries a sampled ``traceparent`` of the W3C (https://www.w3.org/TR/trace-context/), in its
message annotations, its application properties or the headers of AMQP 0.9.1; or when it carries none and is one of the
share ``traces.sample_rate``. It has these spans, the first a child of the span that it carries:

    publish   from the read of its bytes to the answer, when the last queue has it
    enqueue   for each queue: from the read to when the queue has it as safely as it promises; a child of publish
    deliver   from there until the queue hands it to a consumer; a child of publish
    settle    from there until the consumer has settled it; a child of deliver

A message that the broker did not follow that far, since it was restarted or since ``traces.messages_max`` messages came
later, has a deliver span without duration, a child of the span that the message carries.

The engine tells this module about runs, not about messages. It does so only when there is a :class:`Traces`. This
module decodes nothing: it searches the first bytes of each message for the encoded field.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from sortedcontainers import SortedDict

from core.clock import Now
from core.config.traces import TraceSettings
from core.interface import Action, Consumer, Delivered, Disposal, ExchangeTarget, Outcome, Publisher, Target
from core.message import Return, Run

FIELD = b"traceparent"
SEARCHED_BYTES = 16_384
"""The bytes of a message that are searched: the field is before the body, and a search takes 1 us."""
CONTEXT = re.compile(
    rb"\x0btraceparent(?:[\xa1\xa3]\x37|\xb1\0\0\0\x37|S\0\0\0\x37)"
    rb"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})"
)
"""The field as a key of 11 bytes with a text of 55: a string or symbol of AMQP 1.0 [1.6.20, 1.6.21], or a long string
in a table of AMQP 0.9.1 [0-9-1 4.2.5]."""
SAMPLED = 0x01
"""The flag of a traceparent that says that the message is traced."""
TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8

Owner = TypeVar("Owner", bound=Hashable)
Item = TypeVar("Item")
Attributes = Mapping[str, str | int]


class Parent(NamedTuple):
    """The trace of a message, and the span that the next one is a child of; None where the broker begins the trace."""

    trace_id: str
    span_id: str | None


class Span(NamedTuple):
    """A span that is over. Identities are hexadecimal; times are wall-clock seconds."""

    operation: str
    destination: str
    parent: Parent
    span_id: str
    start: float
    end: float
    attributes: Attributes
    failed: bool = False


class _Published(NamedTuple):
    """A message that is not answered yet."""

    parent: Parent
    span_id: str
    start: float
    target: str
    digest: int
    size: int


class _Queued(NamedTuple):
    """A message that a queue has."""

    parent: Parent
    since: float


class _Held(NamedTuple):
    """A message that a consumer has not settled."""

    parent: Parent
    since: float
    queue: str


class Followed(Generic[Owner, Item]):
    """A bounded table of what is followed, by its owner and the owner's number for it. The oldest is let go first."""

    def __init__(self, most: int) -> None:
        self.let_go = 0
        """How many entries were pushed out by others."""
        self._most = most
        self._count = 0
        self._owners: dict[Owner, SortedDict[int, Item]] = {}

    def put(self, owner: Owner, number: int, item: Item) -> None:
        """Add an entry."""
        if self._count >= self._most:
            oldest = next(iter(self._owners))
            self._owners[oldest].popitem(0)
            self._shrunk(oldest, 1)
            self.let_go += 1
        numbers = self._owners.get(owner)
        if numbers is None:
            numbers = self._owners[owner] = SortedDict()
        self._count += number not in numbers
        numbers[number] = item

    def between(self, owner: Owner, first: int, last: int) -> list[Item]:
        """Return the entries of an owner with numbers from ``first`` to ``last``, both inclusive."""
        numbers = self._owners.get(owner)
        return [] if numbers is None else [numbers[number] for number in numbers.irange(first, last)]

    def take(self, owner: Owner, first: int, last: int) -> list[Item]:
        """Remove these entries and return them."""
        numbers = self._owners.get(owner)
        if numbers is None:
            return []
        taken = [numbers.pop(number) for number in list(numbers.irange(first, last))]
        self._shrunk(owner, len(taken))
        return taken

    def drop(self, owner: Owner) -> list[Item]:
        """Remove all entries of an owner and return them."""
        dropped = list(self._owners.pop(owner, SortedDict()).values())
        self._count -= len(dropped)
        return dropped

    def _shrunk(self, owner: Owner, by: int) -> None:
        self._count -= by
        if not self._owners[owner]:
            del self._owners[owner]


class Traces:
    """Follows traced messages, and keeps their spans until they are taken."""

    def __init__(
        self, settings: TraceSettings, *, clock: Callable[[], Now], random_bytes: Callable[[int], bytes]
    ) -> None:
        self.settings = settings
        self.sent = 0
        """Spans that the collector has taken."""
        self.failed = 0
        """Spans that were lost because the collector did not take them."""
        self.dropped = 0
        """Spans that were lost because ``traces.spans_max`` others waited."""
        self._rate = settings.sample_rate
        self._spans_max = settings.spans_max
        self._messages_max = settings.messages_max
        self._clock = clock
        self._random_bytes = random_bytes
        self._due = 0.0
        """How much of a message is due to be traced; at 1 the next message is."""
        self._spans: deque[Span] = deque()
        self._published: Followed[Publisher, _Published] = Followed(settings.messages_max)
        self._held: Followed[Consumer, _Held] = Followed(settings.messages_max)
        self._queued: OrderedDict[tuple[str, int], _Queued] = OrderedDict()
        """By the name of the queue and the hash of the message, which stays the same when it comes back from disk."""

    def counts(self) -> Mapping[str, int]:
        """How many spans are gone, by what became of them."""
        return {"sent": self.sent, "failed": self.failed, "dropped": self.dropped}

    def take(self, most: int) -> list[Span]:
        """Take the oldest spans; the taker counts what becomes of them."""
        return [self._spans.popleft() for _ in range(min(most, len(self._spans)))]

    # --- what the engine tells ---------------------------------------------------------------------------------

    def published(self, publisher: Publisher, target: Target | str, run: Run, now: Now) -> None:
        """A run was published. ``target`` is the target, or the name of an exchange."""
        for place, entry in enumerate(run.entries):
            parent = self._parent(entry)
            if parent is not None:
                message = _Published(
                    parent, self._new(SPAN_ID_BYTES), now.wall, _destination(target), hash(entry), len(entry)
                )
                self._published.put(publisher, run.first + place, message)

    def enqueued(self, publisher: Publisher, first: int, last: int, queue: object) -> None:
        """A queue has these messages of a publisher (confirm numbers, both inclusive)."""
        messages = self._published.between(publisher, first, last)
        if not messages:
            return
        now, name = self._clock().wall, str(getattr(queue, "name", ""))
        for message in messages:
            parent = Parent(message.parent.trace_id, message.span_id)
            self._end("enqueue", name, parent, message.start, now, {})
            self._queued[name, message.digest] = _Queued(parent, now)
            if len(self._queued) > self._messages_max:
                self._queued.popitem(last=False)

    def answered(self, publisher: Publisher, first: int, last: int, outcome: Outcome) -> None:
        """These messages are answered (confirm numbers, both inclusive)."""
        messages = self._published.take(publisher, first, last)
        if not messages:
            return
        now = self._clock().wall
        for message in messages:
            attributes = {"headgate.outcome": outcome.value, "messaging.message.envelope.size": message.size}
            failed = outcome is not Outcome.ACCEPTED
            span = Span(
                "publish", message.target, message.parent, message.span_id, message.start, now, attributes, failed
            )
            self.keep(span)

    def retired(self, publisher: Publisher) -> None:
        """The publisher gets no answers any more."""
        self._published.drop(publisher)

    def acted(self, action: Action) -> None:
        """The engine has put an action into a mailbox: messages that it delivers are followed on."""
        if type(action) is Delivered:
            self._delivered(action)

    def settled(self, consumer: Consumer, first: int, last: int, disposal: Disposal | Return) -> None:
        """A consumer has settled deliveries (delivery numbers, both inclusive)."""
        self._settle(self._held.take(consumer, first, last), _outcome(disposal))

    def cancelled(self, consumer: Consumer) -> None:
        """A consumer is gone, and what it held goes back to its queue."""
        self._settle(self._held.drop(consumer), "returned")

    # --- inside ------------------------------------------------------------------------------------------------

    def _delivered(self, action: Delivered) -> None:
        queue, now = action.consumer.queue_name, 0.0
        for place, entry in enumerate(action.entries):
            carried, _ = _carried(entry)
            if not self._rate and carried is None:
                continue
            queued = self._queued.get((queue, hash(entry)))
            if queued is None and carried is None:
                continue
            now = now or self._clock().wall
            parent, since = queued or (carried, now)
            assert parent is not None
            attributes = {"headgate.delivery_count": action.delivery_count}
            span_id = self._end("deliver", queue, parent, since, now, attributes)
            self._held.put(action.consumer, action.first + place, _Held(Parent(parent.trace_id, span_id), now, queue))

    def _settle(self, held: list[_Held], outcome: str) -> None:
        now = self._clock().wall if held else 0.0
        for parent, since, queue in held:
            self._end("settle", queue, parent, since, now, {"headgate.outcome": outcome})

    def _parent(self, entry: bytes) -> Parent | None:
        """The trace of a message that was published; None if it is not traced."""
        carried, found = _carried(entry)
        if found or not self._rate:
            return carried
        self._due += self._rate
        if self._due < 1.0:
            return None
        self._due -= 1.0
        return Parent(self._new(TRACE_ID_BYTES), None)

    def _new(self, size: int) -> str:
        return self._random_bytes(size).hex()

    def _end(
        self, operation: str, destination: str, parent: Parent, start: float, end: float, attributes: Attributes
    ) -> str:
        span_id = self._new(SPAN_ID_BYTES)
        self.keep(Span(operation, destination, parent, span_id, start, max(start, end), attributes))
        return span_id

    def keep(self, span: Span) -> None:
        """Let a span wait to be taken."""
        if len(self._spans) >= self._spans_max:
            self._spans.popleft()
            self.dropped += 1
        self._spans.append(span)


def _carried(entry: bytes) -> tuple[Parent | None, bool]:
    """The trace that a message carries, if it is to be traced, and whether the message carries one at all."""
    if entry.find(FIELD, 0, SEARCHED_BYTES) < 0:
        return None, False
    found = CONTEXT.search(entry, 0, SEARCHED_BYTES)
    if found is None:
        return None, False
    trace_id, span_id, flags = (part.decode() for part in found.groups())
    if not (trace_id.strip("0") and span_id.strip("0")):
        return None, False  # identities of zeros are not valid [W3C 3.2.2]
    return (Parent(trace_id, span_id) if int(flags, 16) & SAMPLED else None), True


def _destination(target: Target | str) -> str:
    if isinstance(target, str):
        return target
    return target.exchange if isinstance(target, ExchangeTarget) else target.queue


def _outcome(disposal: Disposal | Return) -> str:
    if isinstance(disposal, Disposal):
        return disposal.value
    if disposal.unsent:
        return "returned"
    return "modified" if disposal.delivery_failed or disposal.undeliverable_here else "released"
