"""Measure whether anything that a broker does per operation grows with how many things it has.

The table has a row for each operation beside things of one kind (queues, bindings, links, connections, messages and so
on) and a column for each number of them. A cell has the broker's CPU time for one operation, all threads, and in
brackets the time until it was answered. A row "GROWS" when no cost a + b log n goes through its measurements, each
taken to be off by 20 % and by its resolution; bench/growth/rule.py says how that is decided. Such a row is measured
once more on another broker, and fails when it grows both times.

Each dimension (queues, bindings and so on) has a broker of its own, with default settings but for limits that would
stop the growth: bench/growth/grown_broker.py. Things that would not fit into half of the memory that is available, or
would take more than ten minutes to make, are left out; the reasons are below the table.

A dimension takes about one and a half minutes with --quick and two to four minutes with --columns 1,100,10000, and
there are {dimensions}. With the column 1,000,000 the things are made anew for the rows that are measured again and for
their memory: up to ten minutes each time.

Examples:
  python -m bench.growth --list
  python -m bench.growth --quick
  python -m bench.growth --only '^declare a queue'
  python -m bench.growth --only '/ (durable )?queues$' --columns 1,100,10000 --json growth.json
  python -m bench.growth --only 'memory of'

Exit status: 0; 1 when a row grows faster than logarithmically; 2 when the command line is wrong or a dimension could
not be measured to its end.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.broker import SCRATCH
from bench.environment import observe
from bench.growth.dimensions import DIMENSIONS, Dimension
from bench.growth.measure import MEMORY, SECOND, Say, measure_dimension, measure_memory
from bench.growth.rule import POINTS_MIN
from bench.growth.table import Row, complaint, head, line, notes

COLUMNS = (1, 100, 10_000, 1_000_000)
QUICK = (1, 100, 1000)
COLUMN_MAX = 10_000_000
FORMAT = 1

Chosen = Callable[[str], bool]
"""Whether a row of this name is wanted."""


@dataclass(slots=True)
class Measuring:
    """Measures dimensions and prints their rows."""

    columns: Sequence[int]
    wanted: Chosen
    say: Say
    rows: list[Row] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """What ended a dimension before its time."""

    def measure(self, dimension: Dimension) -> None:
        """Measure the wanted rows of a dimension; those that grow, twice."""
        began = time.monotonic()
        rows = self._measured(dimension, self.wanted)
        if growing := {row.name for row in rows if row.failed}:
            self.say(f"{len(growing)} rows of {dimension.name} once more")
            again = {row.name: row for row in self._measured(dimension, growing.__contains__)}
            for row in rows:
                if row.name in again:
                    row.series += again[row.name].series
        self.rows += rows
        print(f"\n{dimension.name} ({time.monotonic() - began:.0f} s)")
        print("\n".join([head(self.columns), *(line(row, self.columns) for row in rows)]), flush=True)

    def _measured(self, dimension: Dimension, wanted: Chosen) -> list[Row]:
        rows: list[Row] = []
        operations = [one for one in dimension.all_operations() if wanted(f"{one.name} / {dimension.name}")]
        with_second = wanted(f"{SECOND} / {dimension.name}")
        if operations or with_second:
            (*measured, second), problem = measure_dimension(dimension, operations, self.columns, self.say)
            rows += [*measured, *([second] if with_second else [])]
            self.broken += [problem] if problem else []
        if wanted(f"{MEMORY} / {dimension.name}"):
            row, problem = measure_memory(dimension, self.columns, self.say)
            rows.append(row)
            self.broken += [problem] if problem else []
        return rows


def row_names(dimension: Dimension) -> list[str]:
    """The names of all rows of a dimension."""
    return [f"{one} / {dimension.name}" for one in [*(op.name for op in dimension.all_operations()), SECOND, MEMORY]]


def columns_of(text: str) -> tuple[int, ...]:
    """Read the numbers of things. Raises ValueError with what is wrong."""
    numbers = sorted({int(part) for part in text.split(",")})
    if numbers[0] < 1 or numbers[-1] > COLUMN_MAX:
        raise ValueError(f"{text!r}: a column is 1 to {COLUMN_MAX:,} things")
    if len(numbers) < POINTS_MIN:
        raise ValueError(f"{text!r}: {len(numbers)} columns, and growth is seen in {POINTS_MIN} or more")
    return tuple(numbers)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; ends the program with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.growth",
        description=(__doc__ or "").replace("{dimensions}", str(len(DIMENSIONS))),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", default="", metavar="ROWS", help="rows in whose name this regular expression is found"
    )
    parser.add_argument("--columns", metavar="N,N,N", help="numbers of things (1,100,10000,1000000)")
    parser.add_argument("--quick", action="store_true", help="the columns 1,100,1000")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to this file")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    options = parser.parse_args(arguments)
    if options.quick and options.columns:
        parser.error("--quick and --columns both say which columns there are: give one of them")
    try:
        options.columns = QUICK if options.quick else columns_of(options.columns) if options.columns else COLUMNS
    except ValueError as problem:
        parser.error(f"--columns {problem}")
    try:
        options.wanted = re.compile(options.only).search
    except re.error as problem:
        parser.error(f"--only {options.only!r} is no regular expression: {problem}")
    return options


def outcome(rows: Sequence[Row], broken: Sequence[str]) -> int:
    """Print what is wrong, and return the exit status."""
    print("\n".join(["", *notes(rows)]))
    failed = [row for row in rows if row.failed]
    unjudged = sum(not row.judged for row in rows)
    print(f"{len(rows)} rows: {len(failed)} grow, {unjudged} have too few measurements to be judged")
    for row in failed:
        print(f"GROWS {complaint(row)}", file=sys.stderr)
    for problem in broken:
        print(f"cannot measure: {problem}", file=sys.stderr)
    return 1 if failed else 2 if broken else 0


def write(path: Path, rows: Sequence[Row], columns: Sequence[int], broken: Sequence[str]) -> None:
    """Write all figures."""
    document = {
        "format": FORMAT,
        "environment": observe(SCRATCH).to_json(),
        "columns": list(columns),
        "broken": list(broken),
        "rows": [row.to_json() for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's description. Returns the exit status."""
    options = parse(arguments)
    dimensions = [one for one in DIMENSIONS if any(map(options.wanted, row_names(one)))]
    if options.list:
        print("\n".join(name for one in dimensions for name in row_names(one) if options.wanted(name)))
        return 0
    if not dimensions:
        print(f"no row has {options.only!r} in its name; --list names them", file=sys.stderr)
        return 2
    SCRATCH.mkdir(exist_ok=True)
    began = time.monotonic()

    def say(words: str) -> None:
        print(f"{time.monotonic() - began:7.0f} s  {words}", file=sys.stderr, flush=True)

    measuring = Measuring(options.columns, lambda name: options.wanted(name) is not None, say)
    for number, dimension in enumerate(dimensions, 1):
        say(f"dimension {number} of {len(dimensions)}: {dimension.name}")
        measuring.measure(dimension)
    if options.json:
        write(options.json, measuring.rows, options.columns, measuring.broken)
    return outcome(measuring.rows, measuring.broken)


if __name__ == "__main__":
    sys.exit(main())
