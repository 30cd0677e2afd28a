"""The metrics of a broker in this process: all but the figures of a server, because there is none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from core.interface import Snapshot
from core.observe.buckets import LAG_SECONDS
from core.observe.metrics import BrokerMetrics
from core.observe.scrape import MetricSources
from core.waiting.blocked_time import BlockedTime
from tests.kit.wire import InProcessBroker

Values = Mapping[str, Mapping[tuple[str, ...], float]]
"""Values by the name of a series and its labels, in the order of the table."""


@dataclass
class Scraped:
    """A callable that scrapes a broker."""

    broker: InProcessBroker
    idle: dict[str, float] = field(default_factory=dict)
    lag_counts: Sequence[int] = (0,) * (len(LAG_SECONDS) + 1)
    lag_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.sources = MetricSources(
            broker=self.broker.engine,
            server=self,
            connections=self.connections,
            traffic=self.broker.traffic,
            lanes=(),
            lag=self,
            stalls=self.broker.stalls,
            full_sockets=BlockedTime(),
            idle_consumers=lambda: self.idle,
            monotonic=lambda: self.broker.now.monotonic,
            addresses_max=10,
            version="1",
            node="headgate@test",
            limits={},
        )
        self._metrics = BrokerMetrics(self.sources, started=self.broker.now.monotonic)

    def __call__(self) -> Values:
        """Scrape once."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for metric in filter(None, self._metrics.collect()):
            for sample in metric.samples:
                found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
        return found

    def connections(self, kind: str) -> Iterator[list[Snapshot]]:
        """The rows of each connection."""
        for peer in self.broker.peers:
            if not getattr(peer, "lost", False):
                yield peer.front_end.snapshot(kind, self.broker.now)

    def alarm_seconds(self) -> dict[str, float]:
        """None, because there is no sampler."""
        return {}

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """The rows of a server on which nothing happens."""
        if kind == "descriptors":
            return [{"total_limit": 9, "total_used": 1, "sockets_limit": 9, "sockets_used": 1}]
        if kind == "certificates":
            return []
        counts = (
            "accepted",
            "wrong_headers",
            "handshake_time_outs",
            "tls_handshakes",
            "tls_failures",
            "faults",
            "unauthenticated",
            "bytes_in",
            "bytes_out",
        )
        return [{**dict.fromkeys(counts, 1), "refused": {}}]
