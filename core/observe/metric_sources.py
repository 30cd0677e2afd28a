"""Where the metrics are read: handed in by whoever puts the process together.

A module of its own, so that a broker that nobody scrapes does not load prometheus-client.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.interface import Observable, Snapshot
from core.store.lane import Lane


class WatchedBroker(Observable, Protocol):
    """The engine, as this module sees it."""

    def queue_figures(self) -> Iterator[Snapshot]:
        """See :meth:`core.engine.broker.Broker.queue_figures`."""


class Counts(Protocol):
    """What all connections of a protocol have done."""

    def counts(self) -> Mapping[str, float]:
        """By name; see :class:`core.server.traffic.Traffic`."""


class Lag(Protocol):
    """Who knows how late the event loop was; the counts are those of :mod:`core.observe.buckets`."""

    @property
    def lag_counts(self) -> Sequence[int]: ...

    @property
    def lag_seconds(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """Where everything is read."""

    broker: WatchedBroker
    server: Observable
    connections: Callable[[str], Iterator[Sequence[Snapshot]]]
    """The rows of a kind ("links", "stages"), connection by connection."""
    traffic: Mapping[str, Counts]
    """By protocol, named as RabbitMQ does in its labels: ``amqp10``, ``amqp091``."""
    lanes: Sequence[Lane]
    lag: Lag
    monotonic: Callable[[], float]
    """Seconds; for the duration of a scrape and the time since the start."""
