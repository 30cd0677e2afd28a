"""The sources of the metrics; the process hands them in.

This is a module of its own, so that a broker without scrapes does not load prometheus-client.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from core.interface import Observable, Snapshot
from core.observe.stalls import Blocked, Stall
from core.store.lane import Lane

Key = TypeVar("Key")


class WatchedBroker(Observable, Protocol):
    """The engine, as far as the metrics need it."""

    def queue_figures(self) -> Iterator[Snapshot]:
        """See :meth:`core.engine.broker.Broker.queue_figures`."""


class LinkCreditTotals(Protocol):
    """See :class:`core.server.flow_totals.LinkCreditTotals`."""

    granted: int
    consumed: int
    drained: int
    withdrawn: int
    unbalanced: int


class Durations(Protocol):
    """See :class:`core.server.flow_totals.Durations`."""

    bounds: Sequence[float]
    counts: list[int]
    seconds: float


class StandingTime(Protocol):
    """See :class:`core.server.standing.StandingTime`."""

    def seconds(self, now: float, /) -> float: ...


class StandingTimes(Protocol[Key]):
    """See :class:`core.server.standing.StandingTimes`."""

    def seconds(self, now: float, /) -> Mapping[Key, float]: ...


class FlowTotals(Protocol):
    """See :class:`core.server.flow_totals.FlowTotals`."""

    transfers_over_credit: int

    @property
    def link_credit(self) -> Mapping[str, LinkCreditTotals]: ...
    @property
    def flow_frames(self) -> Mapping[tuple[str, str], int]: ...
    @property
    def closed_windows(self) -> StandingTimes[tuple[str, str]]: ...
    @property
    def paused_readers(self) -> StandingTimes[str]: ...
    @property
    def settle_seconds(self) -> Mapping[bool, Durations]: ...
    @property
    def decode_errors(self) -> Mapping[tuple[str, str], int]: ...


class Logins(Protocol):
    """See :class:`core.server.logins.Logins`."""

    attempts: int
    succeeded: int

    @property
    def failed(self) -> Mapping[str, int]: ...
    @property
    def put_off(self) -> Mapping[str, int]: ...


class Counts(Protocol):
    """What all connections of a protocol have done so far; see :class:`core.server.traffic.Traffic`."""

    @property
    def flow(self) -> FlowTotals: ...
    @property
    def logins(self) -> Logins: ...
    def counts(self) -> Mapping[str, float]:
        """The counts that are single numbers, by name."""


class Samples(Protocol):
    """The lateness of the event loop and the times of alarms; see :class:`core.server.sampler.Sampler`."""

    @property
    def lag_counts(self) -> Sequence[int]:
        """Wake-ups by how late they were, by the bounds in :mod:`core.observe.buckets`."""

    @property
    def lag_seconds(self) -> float: ...
    def alarm_seconds(self) -> Mapping[str, float]:
        """How long each alarm and notice has been on, in all."""


class Ledger(Protocol):
    """The current stalls and blocked seconds; see :class:`core.observe.stalls.Stalls`."""

    @property
    def lasting(self) -> Sequence[Stall]: ...
    @property
    def seconds(self) -> Mapping[Blocked, float]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """All sources of the metrics."""

    broker: WatchedBroker
    server: Observable
    connections: Callable[[str], Iterator[Sequence[Snapshot]]]
    """Yields the rows of a kind ("link_figures", "stages"), connection by connection."""
    traffic: Mapping[str, Counts]
    """The counts of each protocol, by the names in RabbitMQ's labels: ``amqp10``, ``amqp091``."""
    lanes: Sequence[Lane]
    lag: Samples
    stalls: Ledger
    full_sockets: StandingTime
    """Connections whose peer does not read its socket."""
    idle_consumers: Callable[[], Mapping[str, float]]
    """See :attr:`core.observe.idle_consumers.IdleConsumers.ratios`."""
    monotonic: Callable[[], float]
    """Seconds, from the same clock by which stalls and standing times are reported."""
