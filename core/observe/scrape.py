"""The figures of one scrape: rows and counters that are read at its beginning, and sums over queues and links that are
taken some rows at a time, so that other tasks may run in between.

So a scrape is no snapshot of one moment; each total in it is from one moment. Totals that only grow come from counters
that outlive what they count. Some totals have to be added up over present things. For these the part of ended things is
read before the walk: a thing that ends meanwhile is missing in this scrape, and :meth:`Scrape.not_below` keeps the
total as it was.

A limited number of addresses gets figures by name, in the order in which they are met; the others are added up. That
order is the order of their creation, so an address keeps its series as long as it exists.

A row without a number where one is expected counts as 0. This module must not know protocols, sockets, the loop or
prometheus-client.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from core.access.audit import AuditLog
from core.counters.traffic import Traffic
from core.engine.queue.sums import QUEUE_FIGURES
from core.interface import Observable, Snapshot
from core.observe.buckets import LINK_CREDIT
from core.observe.link_sums import BALANCE, DIRECTIONS, SLICE_ROWS, ConnectionLinks
from core.observe.stalls import OTHER, Stalls
from core.rows import count_in
from core.slices import Walk
from core.store.lane import Lane
from core.virtual_hosts import VIRTUAL_HOST, shown_name
from core.waiting.blocked_time import BlockedTime

if TYPE_CHECKING:  # as in core.access.login
    from core.access.tokens import Tokens
    from core.traces import Traces

REFUSALS = (
    ("being drained", "drain"),
    ("descriptors", "fds"),
    ("from one address", "unauthenticated_host"),
    ("before authentication", "unauthenticated"),
    ("connections", "limit"),
)
"""Parts of the text of a refusal, and the label under which it is counted; the first match counts."""
BEFORE_OPEN = ("pre_auth", "pre_open")
"""Stages of a connection that is not established yet."""

Key = TypeVar("Key")
Labels = str | tuple[str, ...]
"""The value of the only label, or the values of all labels in the order of the table of metrics."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The value of a histogram: counts by the bounds, as in :mod:`core.observe.buckets`, and the sum of the values."""

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


Value = float | Distribution
Series = Iterable[tuple[Labels, Value]]


class SummedQueues(Protocol):
    """The part of :class:`core.engine.queue.sums.QueueSums` that the metrics read."""

    def __len__(self) -> int:
        """How many queues are in the sums."""

    def refresh(self) -> Iterator[None]:
        """Bring the sums up to date."""

    def sums(self) -> Mapping[str, int]:
        """The sums by :data:`core.engine.queue.sums.QUEUE_FIGURES`."""


class WatchedBroker(Observable, Protocol):
    """The part of :class:`core.engine.broker.Broker` that the metrics read. Tests hand in rows of their own."""

    @property
    def queue_sums(self) -> SummedQueues:
        """See :attr:`core.engine.broker.Broker.queue_sums`."""

    def queue_figures(self, most: int | None = None) -> Iterator[Snapshot]:
        """See :meth:`core.engine.snapshots.Snapshots.queue_figures`."""


class Samples(Protocol):
    """What :class:`core.server.sampler.Sampler` measures: the lateness of the event loop and the times of alarms.

    The sampler awaits, so this room must not import it.
    """

    @property
    def lag_counts(self) -> Sequence[int]:
        """Wake-ups by how late they were, by the bounds in :mod:`core.observe.buckets`."""

    @property
    def lag_seconds(self) -> float: ...
    def alarm_seconds(self) -> Mapping[str, float]:
        """How long each alarm and notice has been on, in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """All sources of the metrics."""

    broker: WatchedBroker
    server: Observable
    links: ConnectionLinks
    traffic: Mapping[str, Traffic]
    """The counts of each protocol, by the names in RabbitMQ's labels: ``amqp10``, ``amqp091``."""
    lanes: Sequence[Lane]
    lag: Samples
    stalls: Stalls
    full_sockets: BlockedTime
    """Connections whose peer does not read its socket."""
    idle_consumers: Callable[[], Mapping[str, float]]
    """See :attr:`core.observe.idle_consumers.IdleConsumers.ratios`."""
    monotonic: Callable[[], float]
    """Seconds, from the same clock by which stalls and blocked times are reported."""
    addresses_max: int
    version: str
    node: str
    limits: Mapping[str, int]
    """The configured limits, by the things that they limit: queues, exchanges, bindings, policies, unauthenticated."""
    audit: AuditLog | None = None
    """The audit log; None if there is none."""
    tokens: "Callable[[], Tokens | None]" = lambda: None
    """What checks tokens of OAuth 2; returns None while none are accepted."""
    traces: "Traces | None" = None
    """What follows traced messages; None while none are traced."""


class Scrape:
    """The figures of one scrape. The table of metrics reads them after the walk."""

    def __init__(self, sources: MetricSources, *, started: float, highest: dict[tuple[str, ...], float]) -> None:
        """``started`` is when the broker was started, in monotonic seconds. ``highest`` are the highest values so far
        of totals that are added up over things that come and go; they are kept from one scrape to the next."""
        self.sources = sources
        self.began = sources.monotonic()
        self.started = started
        self.series = 0
        """Series of the families that the scrape has yielded."""
        self._highest = highest
        self._rows = {
            "totals": _only(sources.broker, "totals"),
            "server": _only(sources.server, "server"),
            "descriptors": _only(sources.server, "descriptors"),
        }
        self._alarms = {str(row["name"]): row for row in sources.broker.snapshot("alarms")}
        self._queues: dict[tuple[str, str], Counter[str]] = {}
        """By virtual host and name; queues beyond the limit, if there are any, under ``_other``."""
        self.links = {direction: Counter[str]() for direction in DIRECTIONS}
        """The sums of the figures of links, and ``count``."""
        self._link_credit: dict[str, list[int]] = {}
        self._unconfirmed = Counter[str]()
        self._oldest: dict[str, dict[str, float]] = {direction: {} for direction in DIRECTIONS}
        for traffic in sources.traffic.values():
            for direction, gone in traffic.flow.link_credit.items():
                self.links[direction].update({figure: getattr(gone, figure) for figure in BALANCE})

    # --- the walk ----------------------------------------------------------------------------------------------------

    def walk(self) -> Walk[None]:
        """Take in all figures."""
        yield from self.sources.broker.queue_sums.refresh()
        yield from self._take_queues()
        yield from self.sources.links.refresh()
        self._take_links()

    def _take_queues(self) -> Walk[None]:
        """Take in the queues with names of their own, and the others as what is left of the sums over all."""
        figures = self.sources.broker.queue_figures(self.sources.addresses_max)
        while rows := list(islice(figures, SLICE_ROWS)):
            for row in rows:
                place = str(row.get("vhost", VIRTUAL_HOST)), str(row["name"])
                self._queues[place] = Counter({figure: count_in(row, figure) for figure in QUEUE_FIGURES})
            yield
        yield from self.sources.broker.queue_sums.refresh()
        if len(self.sources.broker.queue_sums) > len(self._queues):
            sums = self.sources.broker.queue_sums.sums()
            named = {figure: sum(queue[figure] for queue in self._queues.values()) for figure in QUEUE_FIGURES}
            self._queues[VIRTUAL_HOST, OTHER] = Counter(
                {figure: max(0, sums[figure] - named[figure]) for figure in QUEUE_FIGURES}
            )

    def _take_links(self) -> None:
        links = self.sources.links
        for direction, sums in self.links.items():
            sums.update(links.sums.figures[direction])
            self._link_credit[direction] = list(links.sums.credits[direction])
            oldest, named = links.oldest(direction), self._oldest[direction]
            for address in islice(links.sums.addresses[direction], self.sources.addresses_max):
                named[address] = oldest.get(address, 0.0)
            if len(links.sums.addresses[direction]) > len(named):
                named[OTHER] = max((age for address, age in oldest.items() if address not in named), default=0.0)
        unconfirmed = links.sums.unconfirmed
        self._unconfirmed.update({name: unconfirmed[name] for name in self._oldest["in"] if name != OTHER})
        if OTHER in self._oldest["in"]:
            self._unconfirmed[OTHER] = links.sums.all_unconfirmed - self._unconfirmed.total()

    # --- what the table reads ----------------------------------------------------------------------------------------

    def row(self, kind: str, figure: str) -> float:
        """A figure of the only row of a kind: ``totals`` of the engine, ``server``, or ``descriptors``."""
        return _number(self._rows[kind], figure)

    def alarm(self, alarm: str, figure: str) -> float | None:
        """A figure of an alarm's row; None while it was never measured."""
        return None if self._alarms[alarm].get(figure) is None else float(_number(self._alarms[alarm], figure))

    def alarms_on(self) -> Series:
        """1 for each alarm and notice that is on, else 0, by name and level."""
        return [((name, str(row["level"])), float(bool(row["on"]))) for name, row in self._alarms.items()]

    def certificates(self) -> list[tuple[str, float]]:
        """When each certificate expires."""
        rows = self.sources.server.snapshot("certificates")
        return [(str(row["identity"]), _float(row, "not_after")) for row in rows]

    def tokens(self, figures: "Callable[[Tokens], Mapping[str, float]]") -> Series | None:
        """Figures of the tokens by a key; None while no tokens are accepted."""
        tokens = self.sources.tokens()
        return None if tokens is None else figures(tokens).items()

    def audit(self, figure: Callable[[AuditLog], int]) -> int:
        """A figure of the audit log; 0 if there is none."""
        audit = self.sources.audit
        return 0 if audit is None else figure(audit)

    def protocols(self, figure: Callable[[Traffic], Value]) -> list[tuple[str, Value]]:
        """A figure of each protocol."""
        return [(protocol, figure(of)) for protocol, of in self.sources.traffic.items()]

    def summed(self, figures: Callable[[Traffic], Mapping[Key, float]]) -> Iterable[tuple[Key, float]]:
        """Figures by a key, summed over all protocols."""
        sums: dict[Key, float] = {}
        for of in self.sources.traffic.values():
            for key, value in figures(of).items():
                sums[key] = sums.get(key, 0) + value
        return sums.items()

    def routed(self) -> Series:
        """Messages for which a queue was found, by protocol."""
        return [(protocol, self.row("totals", f"routed_{protocol}")) for protocol in self.sources.traffic]

    def queues(self, *figures: str) -> int:
        """The sum of these figures over all queues."""
        return sum(queue[figure] for queue in self._queues.values() for figure in figures)

    def by_queue(self, figures: Sequence[str], *, other: bool) -> Series:
        """The sum of these figures for each queue, and if ``other`` for those beyond the limit. Counters are left out
        there, since a sum over changing addresses goes down."""
        for (host, name), queue in self._queues.items():
            if name != OTHER:
                yield (host, name), sum(queue[figure] for figure in figures)
            elif other:  # they may be of any virtual host
                yield (OTHER, OTHER), sum(queue[figure] for figure in figures)

    def refused(self) -> Series:
        """Refused connections by reason; every reason is always there, so that the first refusal is an increase."""
        counts = dict.fromkeys([*(reason for _, reason in REFUSALS), "other"], 0.0)
        refused = self._rows["server"]["refused"]
        assert isinstance(refused, Mapping)
        for text, count in refused.items():
            counts[next((reason for said, reason in REFUSALS if said in text), "other")] += count
        counts["handshake_timeout"] = self.row("server", "handshake_time_outs")
        counts["wrong_header"] = self.row("server", "wrong_headers")
        counts["auth"] = sum(of.logins.failed.total() for of in self.sources.traffic.values())
        errors = self.summed(lambda of: of.flow.decode_errors)
        counts["decode_error"] = sum(n for (stage, _), n in errors if stage in BEFORE_OPEN)
        return counts.items()

    def limits(self) -> Mapping[str, tuple[float, float]]:
        """For each limit how much of it is used, and the limit."""
        used = {**self._rows["totals"], "unauthenticated": self.row("server", "unauthenticated")}
        limits = {limit: (_number(used, limit), float(at)) for limit, at in self.sources.limits.items()}
        limits["connections"] = self.row("descriptors", "sockets_used"), self.row("descriptors", "sockets_limit")
        limits["descriptors"] = self.row("descriptors", "total_used"), self.row("descriptors", "total_limit")
        return limits

    def link_credit_now(self) -> Series:
        """The distribution of the link credit of links, by direction."""
        for direction, counts in self._link_credit.items():
            yield direction, Distribution(LINK_CREDIT, counts, self.links[direction]["link_credit"])

    def link_credit(self, figure: str) -> Iterator[tuple[str, float]]:
        """A figure of the :data:`BALANCE` of all links that ever were, by direction."""
        for direction, sums in self.links.items():
            yield direction, self.not_below((direction, figure), sums[figure])

    def unsettled(self) -> Series:
        """Unsettled messages by address and direction."""
        yield from (((address, "in"), count) for address, count in self._unconfirmed.items())
        yield from (
            ((shown_name(host, name), "out"), queue["messages_unacknowledged"])
            for (host, name), queue in self._queues.items()
        )

    def oldest(self) -> Series:
        """Seconds that the oldest unsettled message has waited, by address and direction; of several links, the
        longest."""
        for direction, oldest in self._oldest.items():
            yield from (((address, direction), seconds) for address, seconds in oldest.items())

    def settle_seconds(self) -> Series:
        """How long answers took, by protocol and durability."""
        for protocol, traffic in self.sources.traffic.items():
            for durable, of in traffic.flow.settle_seconds.items():
                yield (protocol, str(durable).lower()), Distribution(of.bounds, of.counts, of.seconds)

    def read_paused(self) -> Series:
        """Seconds that sockets of publishers were not read, by protocol and reason."""
        for protocol, traffic in self.sources.traffic.items():
            for reason, seconds in traffic.flow.paused_readers.seconds(self.began).items():
                yield (protocol, reason), seconds

    def stages(self) -> Series:
        """Seconds without stage credit, by kind of stage."""
        for kind in ("reader", "channel"):
            times = (of.flow.stage_credit.of(kind) for of in self.sources.traffic.values())
            yield kind, sum(time.seconds(self.began) for time in times)
        for kind in ("queue", "store"):
            yield kind, self.row("totals", f"{kind}_blocked_seconds")

    def not_below(self, key: tuple[str, ...], total: float) -> float:
        """Keep a total from going down when a thing has ended during the walk."""
        self._highest[key] = max(total, self._highest.get(key, 0))
        return self._highest[key]


def _only(source: Observable, kind: str) -> Snapshot:
    return next(iter(source.snapshot(kind)))


def _number(row: Snapshot, key: str) -> float:
    value = row[key]
    assert isinstance(value, int | float), key
    return value


def _float(row: Snapshot, key: str) -> float:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
