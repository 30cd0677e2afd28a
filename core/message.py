"""The neutral message: opaque bytes, and the few facts that the engine itself uses.

The engine never looks inside an entry. What it must know about all messages of a run stands beside them once, in
:class:`Attributes`; a queue entry is the encoded ``bytes`` and nothing more. That is 63 bytes of memory for a 12-byte
message, against 160 to 320 as a tuple or object, and the garbage collector does not track bytes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby


class Origin(Enum):
    """The protocol in whose encoding an entry is kept. A message keeps its original encoding for life."""

    AMQP10 = "amqp-1.0"
    AMQP091 = "amqp-0-9-1"


DEFAULT_PRIORITY = 4
"""Priority of a message that names none [3.2.1]."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What all messages of one run have in common. Front ends keep one object for each distinct header."""

    origin: Origin = Origin.AMQP10
    durable: bool = False
    priority: int = DEFAULT_PRIORITY
    ttl_ms: int | None = None
    redelivered: bool = False
    """They may have been delivered before they came into their queue: they were dead-lettered, or moved after a
    delivery. So no delivery of them is the first [3.2.1]."""


@dataclass(frozen=True, slots=True)
class Route:
    """How messages came into a queue through an exchange, as dead-lettering needs it later.

    Messages published directly into a queue have no route: the exchange is the default one, and the key the queue's
    name.
    """

    digest: int = field(init=False, repr=False)
    """Compared first, so that routes of thousands of keys (CC) that differ in one key are told apart at once."""
    exchange: str
    routing_keys: tuple[str, ...]
    """The target's own key first."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hash((self.exchange, self.routing_keys)))


Routes = Route | list[Route | None] | None
"""How messages came into a queue: one route for all of them, a list with the route of each, or None for messages that
were all published directly into the queue. A list belongs to its messages, as the list of their entries does."""


def part_of(routes: Routes, start: int, stop: int, step: int = 1) -> Routes:
    """Return the routes of the messages that a slice with these bounds selects."""
    return routes[start:stop:step] if isinstance(routes, list) else routes


def joined(first: Routes, first_count: int, second: Routes, second_count: int) -> Routes:
    """Return the routes of two groups of messages, given with their numbers, as those of one group. If ``first`` is a
    list, it is extended."""
    if not isinstance(second, list):
        if not isinstance(first, list) and (first is second or first == second):
            return first
        second = [second] * second_count
    if not isinstance(first, list):
        first = [first] * first_count
    first += second
    return first


def like_routes(routes: Routes, count: int) -> Iterator[tuple[int, int, Route | None]]:
    """Cut messages into ranges with one route each: its start (inclusive), its stop (exclusive) and the route."""
    if not isinstance(routes, list):
        yield 0, count, routes
        return
    start = 0
    for route, alike in groupby(routes):
        stop = start + len(list(alike))
        yield start, stop, route
        start = stop


@dataclass(slots=True)
class Run:
    """Consecutive messages of one publisher, alike in everything but their bytes and, perhaps, their routing keys.

    ``first`` is the publisher's own number of the first entry; the others count up from it. The engine only hands
    the numbers back in :class:`core.interface.Confirmed`, so a front end may choose any numbering that never wraps.
    ``routing_keys`` are keys of all messages besides the target's own (the x-cc annotation). A run of one is legal;
    there is no other form. The list belongs to the engine once published.
    """

    first: int
    entries: list[bytes]
    attributes: Attributes
    routing_keys: tuple[str, ...] = field(default=())
    routes: Routes = field(default=None)
    """Set by the engine."""
    stored_ids: list[int | None] | None = field(default=None)
    """The message ids under which the message store already has these entries: a body is stored once, however many
    queues take it. Only the store uses it; None until one entry was stored."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """The part of a run that a queue takes on at once: entries from ``start`` up to before ``stop``."""

    run: Run
    start: int
    stop: int
    expires_at: float | None = None
    """Wall-clock seconds; None when the messages do not expire."""

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def entries(self) -> list[bytes]:
        """The entries; the list may be the run's own."""
        entries = self.run.entries
        return entries if len(entries) == self.stop - self.start else entries[self.start : self.stop]

    @property
    def routes(self) -> Routes:
        """The routes of the messages; the list may be the run's own."""
        routes = self.run.routes
        return routes[self.start : self.stop] if isinstance(routes, list) else routes

    def by_routes(self) -> "Iterator[tuple[RunPart, Route | None]]":
        """Cut the part into parts whose messages have one route each."""
        for start, stop, route in like_routes(self.routes, len(self)):
            yield RunPart(self.run, self.start + start, self.start + stop, self.expires_at), route


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
