"""The sources of the metrics; the process hands them in.

This is a module of its own, so that a broker without scrapes does not load prometheus-client.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.counters.traffic import Traffic
from core.interface import Observable, Snapshot
from core.observe.stalls import Stalls
from core.store.lane import Lane
from core.waiting.blocked_time import BlockedTime


class WatchedBroker(Observable, Protocol):
    """The part of :class:`core.engine.broker.Broker` that the metrics read. Tests hand in rows of their own."""

    def queue_figures(self) -> Iterator[Snapshot]:
        """See :meth:`core.engine.broker.Broker.queue_figures`."""


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
    connections: Callable[[str], Iterator[Sequence[Snapshot]]]
    """Yields the rows of a kind ("link_figures"), connection by connection."""
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
