"""Decides whether the cost of an operation grows faster than the logarithm of how many things are there.

A series has one measurement for each number of things n. A measurement v is taken to be off by at most 20 % of the true
cost and, beside that, by the resolution r with which the batch was measured. So the true cost is between (v - r) / 1.2
and (v + r) / 0.8.

A cost a + b log n with b >= 0 is a straight line over log n. The rule looks at every three measurements i < j < k of a
series, and at the steepest line that is possible at i and j: from the lowest possible cost at i to the highest possible
at j. Where even the lowest possible cost at k is above that line, no such line goes through the three, and the series
grows faster than logarithmically. A cost that falls, or that rises early and levels off, is below such a line.

It follows that a series that is constant or logarithmic never fails while the measurements are within their bounds.
Over 1, 100 and 10,000 things, a linear part fails for certain when it makes the last cost 3.7 times the first or more,
and with exact measurements from 2.1 times. What stays below that is not told from noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

NOISE = 0.2
"""The share of the true cost by which a measurement may be off. This is a choice: with less, a machine with other work
makes rows fail that are measured a second time for nothing; with more, small linear parts are not seen."""
POINTS_MIN = 3
"""Any two measurements are on a line."""


@dataclass(frozen=True, slots=True)
class Point:
    """The cost of one operation, or the memory of one thing, while ``things`` of them are there.

    ``resolution`` is in the unit of ``cost``: by how much it may be off however large it is.
    """

    things: int
    cost: float
    resolution: float = 0.0

    @property
    def lowest(self) -> float:
        """The lowest true cost that may have given this measurement."""
        return max(0.0, self.cost - self.resolution) / (1 + NOISE)

    @property
    def highest(self) -> float:
        """The highest true cost that may have given this measurement."""
        return (self.cost + self.resolution) / (1 - NOISE)


@dataclass(frozen=True, slots=True)
class Excess:
    """Three measurements through which no logarithmic cost goes.

    ``allowed`` is the highest cost that a logarithmic one could have at the last, within its bounds.
    """

    first: Point
    second: Point
    last: Point
    allowed: float

    @property
    def factor(self) -> float:
        """How many times the allowed cost the last one is at least."""
        return self.last.lowest / self.allowed if self.allowed else math.inf


def judged(series: Sequence[Point]) -> bool:
    """Whether the series has enough measurements to be judged."""
    return len(series) >= POINTS_MIN


def excess(series: Sequence[Point]) -> Excess | None:
    """Return the worst three measurements of a series that grows faster than logarithmically; otherwise None.

    The points are in the order of their ``things``, each number once and 1 or more. Fewer than three are never in
    excess.
    """
    found = (Excess(i, j, k, _allowed(i, j, k)) for i, j, k in combinations(series, POINTS_MIN))
    return max((one for one in found if one.last.lowest > one.allowed), key=lambda one: one.factor, default=None)


def _allowed(i: Point, j: Point, k: Point) -> float:
    rise = max(0.0, j.highest - i.lowest)
    return j.highest + rise * math.log(k.things / j.things) / math.log(j.things / i.things)
