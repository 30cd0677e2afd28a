"""What the samples of a soak say: the slope of the memory, and whether a figure is flat.

The slope is that of the least squares line through all samples after the warm-up. Its uncertainty is the standard error
of a line through the means of twenty equal parts. The samples themselves would give too small an error, because
neighbouring samples are alike.

A figure is flat when the mean of the last third of the samples is above that of the first third by no more than an
allowance, or by a share of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

PARTS = 20
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of the broker's process, ``at`` seconds after the load began."""

    at: float
    resident: int
    descriptors: int
    threads: int
    files: int
    stored: int
    """The bytes of all files of the data folder."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much a flat figure may grow: by a number, or by a share of itself."""

    amount: float
    share: float = 0.05


ALLOWED = {
    "descriptors": Allowance(4),
    "threads": Allowance(1, share=0.0),
    "files": Allowance(8),
    "stored": Allowance(32 * MIB),
}
"""Connections come and go all the time, and so do segments of queues, so a mean over minutes varies by a few. A segment
of an index has up to 16 MiB and fills in half an hour here; twenty queues are somewhere in the middle of theirs. Files
that were never removed would add more than a GiB an hour."""


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the least squares line through the points."""
    mean_x, mean_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def uncertainty(points: Sequence[tuple[float, float]]) -> float:
    """The standard error of the slope, from the means of :data:`PARTS` equal parts; infinite with fewer points."""
    if len(points) < PARTS:
        return math.inf
    size = len(points) / PARTS
    parts = [points[round(i * size) : round((i + 1) * size)] for i in range(PARTS)]
    means = [(fmean(x for x, _ in part), fmean(y for _, y in part)) for part in parts]
    mean_x, mean_y, steep = fmean(x for x, _ in means), fmean(y for _, y in means), slope(means)
    rest = sum((y - mean_y - steep * (x - mean_x)) ** 2 for x, y in means)
    return math.sqrt(rest / (PARTS - 2) / sum((x - mean_x) ** 2 for x, _ in means))


def memory_slope(samples: Sequence[Sample]) -> tuple[float, float]:
    """The slope in MiB an hour, and its standard error."""
    points = [(sample.at / 3600, sample.resident / MIB) for sample in samples]
    return slope(points), uncertainty(points)


def growth(values: Sequence[float]) -> tuple[float, float]:
    """The means of the first and of the last third."""
    third = max(1, len(values) // 3)
    return fmean(values[:third]), fmean(values[-third:])


def is_flat(values: Sequence[float], allowed: Allowance) -> bool:
    """True when the last third is above the first by no more than the allowance."""
    first, last = growth(values)
    return last - first <= max(allowed.amount, allowed.share * first)
