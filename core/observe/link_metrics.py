"""Metrics of single links, for a request that names some. They are never in an ordinary scrape, since links come and go
and each would leave its series behind."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from prometheus_client.metrics_core import Metric

from core.interface import Snapshot
from core.observe.metric_families import ON_DEMAND
from core.observe.samples import labelled

PREFIX = "headgate_link_"


class LinkMetrics:
    """A collector for chosen links."""

    def __init__(self, connections: Callable[[str], Iterator[Sequence[Snapshot]]]) -> None:
        """``connections`` yields the rows of a kind, connection by connection."""
        self._connections = connections

    def collect(self, address: str | None, limit: int) -> Iterator[Metric]:
        """Collect the first ``limit`` links of an address, or of all addresses."""
        rows = list(islice(self._links(address), limit))
        for family in ON_DEMAND:
            figure = family.name.removeprefix(PREFIX)
            values = [(_labels(row), row[figure]) for row in rows if figure in row]
            yield labelled(family.name, [(labels, value) for labels, value in values if isinstance(value, int)])

    def _links(self, address: str | None) -> Iterator[Snapshot]:
        for connection in self._connections("links"):
            yield from (row for row in connection if address is None or row["address"] == address)


def _labels(row: Snapshot) -> tuple[str, str, str]:
    return str(row["identity"]), str(row["direction"]), str(row["address"] or "")
