"""The lag of running queries, and the flow control at their sources, as Prometheus gauges.

Spark allows no metrics of its own to a source in Python: ``sources[].metrics`` in the progress of a query stays empty.
But the progress has the offsets, and these carry both: for streams in the latest offset, for queues in the offset at
which a batch ended. A listener in the driver reads it there after each micro-batch.

Bound: one value of each gauge for each source of a running query. A query that ended has none.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client import REGISTRY, CollectorRegistry, Gauge
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from pyspark_amqp10.offsets import VERSION

LABELS: Final = ("query", "addresses")
"""The name of a query, or its id when it has none; and the addresses that the source reads, separated by commas."""
GAUGES: Final = {
    "rows": ("amqp10_source_lag_rows", "Messages that the query has not read yet"),
    "bytes": ("amqp10_source_lag_bytes", "Bytes of the messages that the query has not read yet"),
    "seconds": ("amqp10_source_lag_seconds", "How long the oldest message that the query has not read yet has waited"),
    "blocked": (
        "amqp10_source_blocked_share",
        "The share of the last minute, from 0 to 1, for which a publisher of the addresses has waited",
    ),
    "link_credit": ("amqp10_source_link_credit", "The most link credit that the query gives on a link at once"),
}
"""For each key of ``lag`` and ``flow`` in the offsets: the name of its gauge, and its help text."""


class SourceLag(NamedTuple):
    """The lag of one source of a query."""

    addresses: str
    values: Mapping[str, float | None]
    """By the keys of :data:`GAUGES`; None where the broker does not report the value."""


def lags_of(progress: StreamingQueryProgress) -> Iterator[SourceLag]:
    """The lags of our own sources; other sources, and those that have not read anything yet, are left out."""
    for source in progress.sources:
        for text in (source.latestOffset, source.endOffset):
            lag = _lag_in(text)
            if lag is not None:
                yield lag
                break


def _lag_in(text: str | None) -> SourceLag | None:
    try:
        offset = json.loads(text or "null")
    except ValueError:  # the offset of another source, which need not be JSON
        return None
    if not isinstance(offset, dict) or offset.get("amqp10") != VERSION or not isinstance(offset.get("lag"), dict):
        return None
    flow = offset.get("flow")
    told = offset["lag"] | (flow if isinstance(flow, dict) else {})
    return SourceLag(",".join(offset["offsets"]), {name: told.get(name) for name in GAUGES})


class LagGauges(StreamingQueryListener):
    """Sets the gauges: ``spark.streams.addListener(LagGauges())``. The caller also has to serve the registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Raises ValueError when the registry has these gauges already."""
        self._gauges = {key: Gauge(name, text, LABELS, registry=registry) for key, (name, text) in GAUGES.items()}
        self._sources: dict[str, set[tuple[str, str]]] = {}
        """The labels in use, by the run of a query."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: no lag is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Set the gauges, after a micro-batch or after the query has waited for a while."""
        progress = event.progress
        for lag in lags_of(progress):
            labels = (progress.name or str(progress.id), lag.addresses)
            self._sources.setdefault(str(progress.runId), set()).add(labels)
            for key, gauge in self._gauges.items():
                value = lag.values[key]
                gauge.labels(*labels).set(float("nan") if value is None else value)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Remove the gauges of a query that has ended."""
        for labels in self._sources.pop(str(event.runId), ()):
            for gauge in self._gauges.values():
                gauge.remove(*labels)
