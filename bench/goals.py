"""Judges goals by pairs of runs.

Runs of two brokers, or of two scenarios, alternate. So two runs with the same number were made shortly one after the
other, while the machine had the same other work. The figure of a comparison is the median of the ratios of these pairs,
with the quartiles, which say how far the pairs disagree. A goal is met when the median is within the limit.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from bench.results import Entry
from bench.scenario import Goal

QUARTERS = 4
WHOLE_FROM = 1000


@dataclass(frozen=True, slots=True)
class Quartiles:
    """The median of some values, and the values below which a quarter and three quarters of them are."""

    median: float
    lower: float
    upper: float

    @staticmethod
    def of(values: Sequence[float]) -> Quartiles:
        """The quartiles of one value or more; between two values they are interpolated."""
        if len(values) == 1:
            return Quartiles(values[0], values[0], values[0])
        lower, median, upper = statistics.quantiles(values, n=QUARTERS, method="inclusive")
        return Quartiles(median, lower, upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A limit, and the figure that is held to it; None when there is no figure.

    what: the figure in words. than: what it is compared with, for example "times the peer's", or its unit.
    """

    what: str
    limit: float
    than: str
    at_least: bool = False
    found: Quartiles | None

    @property
    def met(self) -> bool | None:
        """Whether the median is within the limit; None when it cannot be judged."""
        if self.found is None:
            return None
        return self.found.median >= self.limit if self.at_least else self.found.median <= self.limit

    @property
    def goal(self) -> str:
        """The limit in words."""
        return f"{self.what} at {'least' if self.at_least else 'most'} {_in_words(self.limit)} {self.than}".rstrip()

    @property
    def figure(self) -> str:
        """The median and the quartiles in words."""
        if self.found is None:
            return "no result"
        low, middle, high = map(_in_words, (self.found.lower, self.found.median, self.found.upper))
        return f"{middle} ({low}–{high})"

    @property
    def verdict(self) -> str:
        """One or two words."""
        return {True: "met", False: "MISSED", None: "NOT JUDGED"}[self.met]

    def __str__(self) -> str:
        return f"{self.goal}: {self.figure}: {self.verdict}"


def _in_words(figure: float) -> str:
    """Three digits, or all before the point when there are more."""
    return f"{figure:.3g}" if abs(figure) < WHOLE_FROM else f"{figure:,.0f}"


def figures_of(entry: Entry | None, name: str) -> Quartiles | None:
    """The quartiles of a figure over all runs; None without a valid entry that has it."""
    if entry is None or entry.void or name not in entry.figures:
        return None
    return Quartiles.of([cast("float", run[name]) for run in entry.runs])


def pair_ratios(measured: Entry, other: Entry | None, name: str) -> Quartiles | None:
    """The quartiles of a figure's ratios, run by run; None when there is no pair of numbers to divide.

    Raises ValueError when two valid entries have different numbers of runs.
    """
    if other is None or measured.void or other.void or not {name} <= measured.figures.keys() & other.figures.keys():
        return None
    pairs = [
        (cast("float", one[name]), cast("float", beside[name]))
        for one, beside in zip(measured.runs, other.runs, strict=True)
    ]
    return Quartiles.of([one / beside for one, beside in pairs]) if all(beside for _, beside in pairs) else None


def judge(goal: Goal, measured: Entry, peer: Entry | None) -> list[Judgement]:
    """Judge each limit that this scenario has by itself or beside the peer."""
    beside = [
        ("rate", "rate", goal.rate_ratio_min),
        ("CPU per message", "broker_cpu_us", goal.cpu_ratio_max),
        ("p50", "p50_ms", goal.p50_ratio_max),
        ("p99", "p99_ms", goal.p99_ratio_max),
    ]
    alone = [("p99", "ms", "p99_ms", goal.p99_ms_max), ("memory", "", "value", goal.memory_max)]
    return [
        Judgement(what=what, limit=limit, than="times the peer's", at_least=name == "rate",
                  found=pair_ratios(measured, peer, name))
        for what, name, limit in beside if limit is not None
    ] + [
        Judgement(what=what, limit=limit, than=unit, found=figures_of(measured, name))
        for what, unit, name, limit in alone if limit is not None
    ]  # fmt: skip


def judge_beside(goal: Goal, measured: Entry, others: Mapping[str, Entry]) -> list[Judgement]:
    """Judge each limit beside another scenario of the same measurement, on the same broker."""
    return [
        Judgement(what="CPU per message", limit=limit, than=f"times that of {name}",
                  found=pair_ratios(measured, others.get(name), "broker_cpu_us"))
        for name, limit in goal.cpu_ratio_max_to.items()
    ]  # fmt: skip
