"""Metrics as text, made in slices: a scrape of ten thousand series must not hold up those who send messages.

prometheus-client takes 10 us for a line. Between two slices the event loop has its turn, so a scrape is no snapshot of
one moment; each family is. The slices are measured in time, not in families: most of the hundred families have a line
or two, and on a busy broker each turn of the loop takes as long as its connections have work. With a turn for each
family, made and then sent, a scrape took two hundred turns, and some ran into Prometheus's ten seconds.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.exposition import generate_latest

from core.admin.slices import conclusion
from core.slices import gathered

SLICE_SAMPLES = 250
"""Lines made at a stretch: about 2.5 ms, where 10 ms are allowed and other work may share the processor."""

Collector = Callable[[], Iterable[Metric]]
"""Gives all families, each made when it is asked for. None may have samples that the text format lacks (_created)."""

__all__ = ["CONTENT_TYPE", "Collector", "exposition"]


async def exposition(collect: Collector, monotonic: Callable[[], float] = time.perf_counter) -> list[bytes]:
    """The text of all families, in pieces of some kilobytes at most."""
    return await conclusion(gathered(piece for family in collect() for piece in _rendered(family)), monotonic)


def _rendered(family: Metric) -> Iterator[bytes]:
    for start in range(0, max(1, len(family.samples)), SLICE_SAMPLES):
        part = Metric(family.name, family.documentation, family.type, family.unit)
        part.samples = family.samples[start : start + SLICE_SAMPLES]
        text = generate_latest(_Sole(part))
        yield text.split(b"\n", 2)[2] if start else text  # HELP and TYPE stand before the first line only


class _Sole:
    """A registry of one family, as prometheus-client wants it."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)
