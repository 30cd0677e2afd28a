"""Result files: the figures of each scenario and broker, the environment, the number of runs, and their spread.

A file is JSON: the environment once, then one entry per scenario and broker with every run, and median, lowest and
highest of each figure over the runs. An entry with a void run is void: its figures are kept for inspection, not for
quoting.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

from bench.environment import Environment

FORMAT = 1

Figures: TypeAlias = "dict[str, object]"


class ResultError(Exception):
    """A file that is not a result file of this format."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, lowest and highest of one figure over the runs of an entry."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(statistics.median(values), min(values), max(values))

    def overlaps(self, other: Spread) -> bool:
        """Whether the two ranges share a value, so that the difference may be noise."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One scenario on one broker."""

    scenario: str
    parameters: Figures
    broker: str
    runs: tuple[Figures, ...]

    @property
    def void(self) -> str:
        """Why the entry is void: the first void run's reason; empty when it is valid."""
        return next((str(run["void"]) for run in self.runs if run.get("void")), "")

    @property
    def figures(self) -> dict[str, Spread]:
        """The spread of every figure that all runs have."""
        names = self.runs[0] if self.runs else {}
        return {
            name: Spread.of([cast("float", run[name]) for run in self.runs])
            for name in names
            if all(isinstance(run.get(name), int | float) for run in self.runs)
        }

    def to_json(self) -> Figures:
        return {
            "scenario": self.scenario,
            "parameters": self.parameters,
            "broker": self.broker,
            "void": self.void,
            "spread": {name: asdict(spread) for name, spread in self.figures.items()},
            "runs": list(self.runs),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A whole file."""

    environment: Figures
    warm_up_seconds: float
    entries: tuple[Entry, ...]
    not_run: Mapping[str, str] = field(default_factory=dict)
    """What was to be measured and was not, with the reason."""

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        table = {
            "format": FORMAT,
            "environment": self.environment,
            "warm_up_seconds": self.warm_up_seconds,
            "entries": [entry.to_json() for entry in self.entries],
            "not_run": dict(self.not_run),
        }
        path.write_text(json.dumps(table, indent=1) + "\n")

    @staticmethod
    def read(path: Path) -> Results:
        try:
            table = json.loads(path.read_text())
            if table["format"] != FORMAT:
                raise ResultError(f"{path}: format {table['format']}, this program reads {FORMAT}")
            entries = tuple(
                Entry(
                    scenario=one["scenario"],
                    parameters=one["parameters"],
                    broker=one["broker"],
                    runs=tuple(one["runs"]),
                )
                for one in table["entries"]
            )
            return Results(
                environment=table["environment"],
                warm_up_seconds=table["warm_up_seconds"],
                entries=entries,
                not_run=table.get("not_run", {}),  # older files lack it
            )
        except (json.JSONDecodeError, KeyError, TypeError) as problem:
            raise ResultError(f"{path}: not a result file: {problem!r}") from problem


def unlike(a: Figures, b: Figures) -> list[str]:
    """The respects in which two environments differ and which make figures incomparable."""
    may_differ = {"commit", "date", "fdatasync_p50_ms"}
    assert may_differ <= set(Environment.__dataclass_fields__)
    return [
        f"{name}: {a.get(name)} against {b.get(name)}"
        for name in sorted({*a, *b} - may_differ)
        if a.get(name) != b.get(name)
    ]
