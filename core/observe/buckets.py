"""Upper bounds of histograms whose counts others keep, and how such counts are shown.

A count is kept for each bound, of what is not above it but above the one before, and one more for what is above all.
Whoever counts finds the place by bisection.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate

LAG_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Of wake-ups of the event loop that come late. 10 ms is what a turn may take, 50 ms is worth an alert."""
LINK_CREDIT = (0, 1, 10, 50, 100, 170, 256, 500, 1_000, 5_000, 10_000)
"""Of links. 0 are those that must not send; 170 is what the broker gives to a publisher, 256 a batch of a queue."""


def cumulative(bounds: Sequence[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    """What Prometheus wants of a histogram: for each bound, and infinity, how many are not above it."""
    names = [*map(_bound, bounds), "+Inf"]
    return [(name, float(count)) for name, count in zip(names, accumulate(counts), strict=True)]


def _bound(bound: float) -> str:
    """As prometheus-client spells a bound: a float, whatever it was."""
    return repr(float(bound))
