"""The rows of the growth table: what was measured, what was left out and why, and which rows grew too fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.growth.rule import Excess, Point, excess, judged

UNITS = {"s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")), "B": ((2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One operation beside so many things.

    cost, resolution: in seconds of the broker's CPU time per operation, or in bytes per thing.
    wall: seconds until the answer, per operation; None where nothing is answered.
    operations: how many were carried out at once; runs: how often that was repeated.
    """

    things: int
    cost: float
    resolution: float = 0.0
    wall: float | None = None
    operations: int = 1
    runs: int = 1

    @property
    def point(self) -> Point:
        """The measurement as the rule sees it."""
        return Point(self.things, self.cost, self.resolution)


@dataclass(slots=True)
class Row:
    """One operation, or the memory of one thing, over all columns.

    series: the measurements, one list for each time the row was measured. A row grows too fast when all its series do.
    left_out: why there is no measurement, by the number of things.
    """

    operation: str
    things: str
    unit: str = "s"
    series: list[list[Cell]] = field(default_factory=list)
    left_out: dict[int, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How the row is called in the table and for ``--only``."""
        return f"{self.operation} / {self.things}"

    @property
    def judged(self) -> bool:
        """Whether there are enough measurements to say anything."""
        return bool(self.series) and all(judged([cell.point for cell in one]) for one in self.series)

    @property
    def excesses(self) -> list[Excess]:
        """The worst three measurements of each series; empty unless every series grows too fast."""
        found = [excess([cell.point for cell in one]) for one in self.series]
        return [one for one in found if one is not None] if all(found) else []

    @property
    def failed(self) -> bool:
        """Whether the row grew faster than logarithmically each time it was measured."""
        return bool(self.excesses)

    def cell(self, things: int) -> Cell | None:
        """The measurement beside so many things, from the last series."""
        return next((cell for one in self.series[-1:] for cell in one if cell.things == things), None)

    @property
    def verdict(self) -> str:
        """One word."""
        return "GROWS" if self.failed else "flat" if self.judged else "not judged"

    def to_json(self) -> dict[str, object]:
        """The row for programs."""
        return {
            "operation": self.operation,
            "things": self.things,
            "unit": self.unit,
            "verdict": self.verdict,
            "left_out": {str(things): why for things, why in self.left_out.items()},
            "series": [[_cell_json(cell) for cell in one] for one in self.series],
        }


def _cell_json(cell: Cell) -> dict[str, object]:
    return {name: getattr(cell, name) for name in ("things", "cost", "resolution", "wall", "operations", "runs")}


def shown(value: float, unit: str) -> str:
    """A cost with three digits, in the unit that fits."""
    scale, name = next((one for one in UNITS[unit] if abs(value) >= one[0]), UNITS[unit][-1])
    number = value / scale
    return f"{number:.{max(0, 2 - len(str(int(abs(number)))) + 1)}f} {name}"


def head(columns: Sequence[int]) -> str:
    """The line above the rows."""
    return f"{'operation':<58}" + "".join(f"{one:>22,}" for one in columns) + "  verdict"


def line(row: Row, columns: Sequence[int]) -> str:
    """One row: CPU time, and behind it wall time in brackets where an operation is answered."""
    return f"{row.operation:<58}" + "".join(f"{_shown_cell(row, one):>22}" for one in columns) + f"  {row.verdict}"


def _shown_cell(row: Row, things: int) -> str:
    cell = row.cell(things)
    if cell is None:
        return "-"
    cost = shown(max(0.0, cell.cost), row.unit)
    return cost if cell.wall is None else f"{cost} ({shown(cell.wall, 's')})"


def notes(rows: Sequence[Row]) -> list[str]:
    """Why cells are empty, each reason once."""
    found: dict[str, None] = {}
    for row in rows:
        for things, why in row.left_out.items():
            found[f"{things:,} {row.things}: {why}"] = None
    return list(found)


def complaint(row: Row) -> str:
    """What is wrong with a row that grows too fast."""
    worst = row.excesses[-1]
    first, second, last = worst.first, worst.second, worst.last
    return (
        f"{row.name}: {shown(first.cost, row.unit)} beside {first.things:,}, {shown(second.cost, row.unit)} beside"
        f" {second.things:,}, and {shown(last.cost, row.unit)} beside {last.things:,}; the last is at least"
        f" {worst.factor:.1f} times what the steepest logarithmic growth allows, {shown(worst.allowed, row.unit)}"
    )
