"""Renders metrics as text in slices: a scrape of ten thousand series must not delay messages.

prometheus-client takes 10 us for a line. Other tasks of the event loop run between two slices, so the figures of one
family are of one moment, but those of a whole scrape are not. The length of a slice is a time and not a number of
families: most of the hundred families have a line or two, and on a busy broker each turn of the event loop takes long.
With one turn to render and one to send each family, a scrape took two hundred turns, and some scrapes reached
Prometheus's time-out of ten seconds.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.exposition import generate_latest

from core.admin.slices import conclusion
from core.slices import gathered

SLICE_SAMPLES = 250
"""Lines rendered without a pause. They take about 2.5 ms; 10 ms are allowed, and other work may share the processor."""

Collector = Callable[[], Iterable[Metric | None]]
"""Returns all families, each made when the iterator reaches it, and None where other tasks may run. A family must not
have samples that the text format does not have (``_created``)."""

__all__ = ["CONTENT_TYPE", "Collector", "exposition"]


async def exposition(collect: Collector, monotonic: Callable[[], float] = time.perf_counter) -> list[bytes]:
    """Return the text of all families, in pieces of some kilobytes at most."""
    return await conclusion(gathered(piece for family in collect() for piece in _rendered(family)), monotonic)


def _rendered(family: Metric | None) -> Iterator[bytes]:
    if family is None:
        yield b""
        return
    for start in range(0, max(1, len(family.samples)), SLICE_SAMPLES):
        part = Metric(family.name, family.documentation, family.type, family.unit)
        part.samples = family.samples[start : start + SLICE_SAMPLES]
        text = generate_latest(_Sole(part))
        yield text.split(b"\n", 2)[2] if start else text  # only the first part keeps the HELP and TYPE lines


class _Sole:
    """A registry with one family, for prometheus-client's renderer."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)
