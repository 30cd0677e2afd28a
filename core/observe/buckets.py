"""Upper bounds of histograms, and how counts that other modules keep by these bounds are shown.

A count is kept for each bound, of the values that are not above it but above the bound before, and one more for values
above all bounds. The counting code finds the place by bisection.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate

LAG_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds by which wake-ups of the event loop come late. 10 ms is what a turn may take, 50 ms is worth an alert."""
LINK_CREDIT = (0, 1, 10, 50, 100, 170, 256, 500, 1_000, 5_000, 10_000)
"""Link credit of links. 0 is for links that must not send; 170 is the broker's for a publisher, 256 a queue's batch."""


def cumulative(bounds: Sequence[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    """Cumulative buckets as Prometheus wants them: for each bound, and infinity, how many values are not above it."""
    names = [*map(_bound, bounds), "+Inf"]
    return [(name, float(count)) for name, count in zip(names, accumulate(counts), strict=True)]


def _bound(bound: float) -> str:
    """A bound as prometheus-client writes it: always as a float."""
    return repr(float(bound))
