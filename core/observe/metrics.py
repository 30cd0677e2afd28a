"""The collectors for prometheus-client. They read plain counters and rows during a scrape, and at no other time.

A collector is an iterator of the families of :mod:`core.observe.metric_families`, with their values at that moment. A
caller that lets other tasks run between two steps of the iterator blocks the event loop for a millisecond at a time.

This module must not know protocols, sockets or the loop.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.metrics_core import Metric

from core.interface import Snapshot
from core.observe.buckets import cumulative
from core.observe.metric_families import FAMILIES, ON_DEMAND, Family, MetricType
from core.observe.scrape import Distribution, MetricSources, Scrape, Series, Value
from core.virtual_hosts import shown_name

SUFFIXES = {MetricType.COUNTER: "_total", MetricType.INFO: "_info"}
"""Parts of names that prometheus-client adds."""


class BrokerMetrics:
    """A collector of everything except single links."""

    def __init__(self, sources: MetricSources, *, started: float) -> None:
        """``started`` is when the broker was started, in monotonic seconds."""
        self._sources = sources
        self._started = started
        self._highest: dict[tuple[str, ...], float] = {}

    def collect(self) -> Iterator[Metric | None]:
        """Yield None while rows are read, then all families, one by one."""
        scrape = Scrape(self._sources, started=self._started, highest=self._highest)
        for _ in scrape.walk():
            yield None
        for family in FAMILIES:
            values = family.values(scrape)
            if values is not None:
                metric = _metric(family, values)
                scrape.series += len(metric.samples)
                yield metric


class LinkMetrics:
    """A collector of chosen links, for a request that names some. Single links are never in an ordinary scrape, since
    links come and go and each would leave its series behind."""

    def __init__(self, connections: Callable[[str], Iterator[Sequence[Snapshot]]]) -> None:
        """``connections`` yields the rows of a kind, connection by connection."""
        self._connections = connections

    def collect(self, address: str | None, limit: int) -> Iterator[Metric | None]:
        """Collect the first ``limit`` links of an address, or of all addresses. Yields None after each connection."""
        rows: list[Snapshot] = []
        for connection in self._connections("links"):
            shown = ({**row, "address": _shown_address(row)} for row in connection)
            rows += (row for row in shown if address in (None, row["address"]))
            if len(rows) >= limit:
                break
            yield None
        for family in ON_DEMAND:
            yield _metric(family, family.values(rows[:limit]) or ())


def _shown_address(link: Snapshot) -> str:
    """The address of a link as those of all virtual hosts stand together."""
    return shown_name(str(link["vhost"]), str(link["address"] or ""))


def _metric(family: Family[Scrape] | Family[Sequence[Snapshot]], values: Value | Series) -> Metric:
    """Return a family with these values."""
    metric = Metric(family.name.removesuffix(SUFFIXES.get(family.type, "")), family.help, family.type.value)
    series: Series = values if isinstance(values, Iterable) else [((), values)]
    for key, value in series:
        labels = dict(zip(family.labels, (key,) if isinstance(key, str) else key, strict=True))
        if isinstance(value, Distribution):
            buckets = cumulative(value.bounds, value.counts)
            for bound, count in buckets:
                metric.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
            metric.add_sample(f"{family.name}_count", labels, buckets[-1][1])
            metric.add_sample(f"{family.name}_sum", labels, value.total)
        else:
            metric.add_sample(family.name, labels, value)
    return metric
