"""The neutral message: opaque bytes, and the few facts that the engine itself uses.

The engine never looks inside an entry; a queue entry is the encoded ``bytes`` and nothing more. That is 63 bytes of
memory for a 12-byte message, against 160 to 320 as a tuple or object, and the garbage collector does not track bytes.
What the engine must know of the messages of a run stands beside them: :class:`Attributes`, :class:`Route`, and the time
at which they expire. Each of these facts is *one value or a list*: one value if it is the same for all messages, else a
list with the value of each. A list is sliced with its messages. So messages that came together stay together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias, TypeVar

from core.taken_numbers import PublishingId


class Origin(Enum):
    """The protocol in whose encoding an entry is kept. A message keeps its original encoding for life."""

    AMQP10 = "amqp-1.0"
    AMQP091 = "amqp-0-9-1"


DEFAULT_PRIORITY = 4
"""Priority of a message that names none [3.2.1]."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What the engine knows of a message beside its bytes. Front ends keep one object for each distinct header."""

    origin: Origin = Origin.AMQP10
    durable: bool = False
    priority: int = DEFAULT_PRIORITY
    ttl_ms: int | None = None
    redelivered: bool = False
    """They may have been delivered before they came into their queue: they were dead-lettered, or moved after a
    delivery. So no delivery of them is the first [3.2.1]."""


@dataclass(frozen=True, slots=True)
class Route:
    """How messages came into a queue through an exchange, as dead-lettering needs it later, and when.

    Messages published directly into a queue have no route: the exchange is the default one, and the key the queue's
    name. In a queue that notes the time of arrival they have this route, with the time.
    """

    digest: int = field(init=False, repr=False)
    """Compared first, so that routes of thousands of keys (CC) that differ in one key are told apart at once."""
    exchange: str
    routing_keys: tuple[str, ...]
    """The target's own key first."""
    enqueued_ms: int | None = None
    """When the messages came into the queue, in milliseconds since the epoch; None in a queue that does not note it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hash((self.exchange, self.routing_keys, self.enqueued_ms)))


Fact = TypeVar("Fact")

RunAttributes: TypeAlias = Attributes | list[Attributes]
"""The attributes of messages: one value or a list. ``origin`` and ``redelivered`` are the same for all of them."""
Routes: TypeAlias = Route | list[Route | None] | None
"""How messages came into a queue: one value or a list; None for messages that were published directly into the queue.
A list belongs to its messages, as the list of their entries does."""
EnqueuedTimes: TypeAlias = int | list[int | None] | None
"""When messages came into a queue, in milliseconds since the epoch: one value or a list; None where it is not known."""
Expiries: TypeAlias = float | list[float | None] | None
"""When messages expire, in wall-clock seconds: one value or a list; None for messages that never expire."""


def first_of(values: Fact | list[Fact], place: int = 0) -> Fact:
    """Return the value of the first of several messages, or of the one at another place."""
    return values[place] if isinstance(values, list) else values


def part_of(values: Fact | list[Fact], start: int, stop: int, step: int = 1) -> Fact | list[Fact]:
    """Return the values of the messages that a slice with these bounds selects."""
    return values[start:stop:step] if isinstance(values, list) else values


def each_of(values: Fact | list[Fact], count: int) -> list[Fact]:
    """Return the value of each of ``count`` messages. The list may be the given one."""
    return values if isinstance(values, list) else [values] * count


def joined(
    first: Fact | list[Fact], first_count: int, second: Fact | list[Fact], second_count: int
) -> Fact | list[Fact]:
    """Return the values of two groups of messages, given with their numbers, as those of one group. If ``first`` is a
    list, it is extended."""
    if not isinstance(second, list):
        if not isinstance(first, list) and (first is second or first == second):
            return first
        second = [second] * second_count
    if not isinstance(first, list):
        first = [first] * first_count
    first += second
    return first


def enqueued_times(routes: Routes) -> EnqueuedTimes:
    """Return when the messages with these routes came into their queue."""
    if not isinstance(routes, list):
        return None if routes is None else routes.enqueued_ms
    return [None if route is None else route.enqueued_ms for route in routes]


def may_join(first: RunAttributes, second: RunAttributes) -> bool:
    """Return whether messages with these attributes may be in one run."""
    if first is second:
        return True
    one, other = first_of(first), first_of(second)
    return one.origin is other.origin and one.redelivered is other.redelivered


def as_redelivered(attributes: RunAttributes) -> RunAttributes:
    """Return the same attributes for messages that count as redelivered."""
    if first_of(attributes).redelivered:
        return attributes
    if not isinstance(attributes, list):
        return replace(attributes, redelivered=True)
    changed = {each: replace(each, redelivered=True) for each in distinct(attributes)}
    return [changed[each] for each in attributes]


def distinct(attributes: list[Attributes]) -> Iterable[Attributes]:
    """Return each object of the list once."""
    return dict(zip(map(id, attributes), attributes, strict=True)).values()


def by_durable(attributes: RunAttributes, count: int) -> Iterable[tuple[int, int, bool]]:
    """Cut messages into ranges that are durable or not: its start (inclusive), its stop (exclusive), and which."""
    return _durable_ranges(attributes) if isinstance(attributes, list) else ((0, count, attributes.durable),)


def _durable_ranges(attributes: list[Attributes]) -> Iterator[tuple[int, int, bool]]:
    if len({each.durable for each in distinct(attributes)}) == 1:
        yield 0, len(attributes), attributes[0].durable
        return
    start = 0
    for durable, alike in groupby(map(attrgetter("durable"), attributes)):
        stop = start + len(list(alike))
        yield start, stop, durable
        start = stop


def like_ranges(
    count: int, attributes: RunAttributes, routes: Routes, expires_at: Expiries = None
) -> Iterator[tuple[int, int, Attributes, Route | None, float | None]]:
    """Cut messages into ranges for which each fact has one value: start (inclusive), stop (exclusive), and the values.

    Only what writes to the disk needs this, or dead-letters, because there several messages share one record.
    """
    if not (isinstance(attributes, list) or isinstance(routes, list) or isinstance(expires_at, list)):
        yield 0, count, attributes, routes, expires_at
        return
    facts = zip(each_of(attributes, count), each_of(routes, count), each_of(expires_at, count), strict=True)
    start = 0
    for (one, route, expiry), alike in groupby(facts):
        stop = start + len(list(alike))
        yield start, stop, one, route, expiry
        start = stop


@dataclass(slots=True)
class Run:
    """Consecutive messages of one publisher that came together and go together.

    ``first`` is the publisher's own number of the first entry; the others count up from it. The engine only hands
    the numbers back in :class:`core.interface.Confirmed`, so a front end may choose any numbering that never wraps.
    ``routing_keys`` are keys of all messages besides the target's own (the x-cc annotation). A run of one is legal;
    there is no other form. The list belongs to the engine once published.
    """

    first: int
    entries: list[bytes]
    attributes: RunAttributes
    routing_keys: tuple[str, ...] = field(default=())
    routes: Routes = field(default=None)
    """Set by the engine."""
    stored_ids: list[int | None] | None = field(default=None)
    """The message ids under which the message store already has these entries: a body is stored once, however many
    queues take it. Only the store uses it; None until one entry was stored."""

    @property
    def origin(self) -> Origin:
        """The protocol in whose encoding the entries are."""
        return first_of(self.attributes).origin


@dataclass(slots=True)
class RunPart:
    """The part of a run that a queue takes on at once: entries from ``start`` up to before ``stop``. Nothing changes
    it; a frozen class would take 0.5 us more for each."""

    run: Run
    start: int
    stop: int
    expires_at: Expiries = None
    """When these messages expire. A list is as long as the part."""
    names: Sequence[PublishingId | None] | None = None
    """What their publishers call them, one for each; None in a queue that drops no repeats."""

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def entries(self) -> list[bytes]:
        """The entries; the list may be the run's own."""
        entries = self.run.entries
        return entries if len(entries) == self.stop - self.start else entries[self.start : self.stop]

    @property
    def attributes(self) -> RunAttributes:
        """The attributes of the messages; a list is a copy."""
        values = self.run.attributes  # here and below without part_of: a call less for each run
        return values[self.start : self.stop] if isinstance(values, list) else values

    @property
    def routes(self) -> Routes:
        """The routes of the messages; a list is a copy."""
        values = self.run.routes
        return values[self.start : self.stop] if isinstance(values, list) else values

    def part(self, start: int, stop: int) -> "RunPart":
        """Return the messages from ``start`` (inclusive) to ``stop`` (exclusive), counted from the first."""
        return RunPart(
            self.run, self.start + start, self.start + stop, part_of(self.expires_at, start, stop),
            None if self.names is None else self.names[start:stop],
        )  # fmt: skip

    def alike(self) -> "Iterable[tuple[RunPart, Attributes, Route | None, float | None]]":
        """Cut the part into parts whose messages have the same attributes, route and expiry."""
        run, expiry = self.run, self.expires_at
        attributes, routes = run.attributes, run.routes
        if isinstance(attributes, list) or isinstance(routes, list) or isinstance(expiry, list):
            return self._cut()
        return ((self, attributes, routes, expiry),)

    def _cut(self) -> "Iterator[tuple[RunPart, Attributes, Route | None, float | None]]":
        for start, stop, attributes, route, expiry in like_ranges(
            len(self), self.attributes, self.routes, self.expires_at
        ):
            names = None if self.names is None else self.names[start:stop]
            yield RunPart(self.run, self.start + start, self.start + stop, expiry, names), attributes, route, expiry


@dataclass(frozen=True, slots=True)
class Return:
    """How a delivery returns to its queue: at its original position, with these changes."""

    delivery_failed: bool = False
    """Counts as a failed delivery attempt: delivery-count grows by one."""
    undeliverable_here: bool = False
    """Do not deliver it to the consumer that returned it again."""
    unsent: bool = False
    """The delivery never left the broker: it keeps first-acquirer and its delivery-count."""
    annotations: Mapping[object, object] | None = None
    """Message annotations to merge, keyed and valued as the origin protocol decodes them."""


UNSENT = Return(unsent=True)
"""How a delivery returns that was never sent to the client."""
