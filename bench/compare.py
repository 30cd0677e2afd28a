"""Compare two result files, entry by entry.

Examples:
  python -m bench.compare before.json after.json
  python -m bench.compare before.json after.json --broker RabbitMQ

Refuses files from different environments, and entries whose scenarios differ in any parameter. Only where the two
ranges of runs do not overlap does it report a difference. Exit status: 0 compared; 1 nothing comparable or a void
entry; 2 refused.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.results import Entry, ResultError, Results, Spread, unlike

FIGURES = {
    "rate": "messages/s",
    "broker_cpu_us": "broker CPU µs/message",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "p99_9_ms": "p99.9 ms",
    "resident_mib": "MiB resident",
    "value": "memory",
}


class Refused(Exception):
    """The two files cannot be compared; the text says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of one scenario in both files."""

    scenario: str
    broker: str
    figure: str
    before: Spread
    after: Spread

    @property
    def ratio(self) -> float:
        return self.after.median / self.before.median if self.before.median else float("nan")

    def __str__(self) -> str:
        noise = "  (ranges overlap: no difference shown)" if self.before.overlaps(self.after) else ""
        return (
            f"{self.scenario:32} {self.broker:20} {FIGURES[self.figure]:22} "
            f"{self.before.median:>12,.2f} -> {self.after.median:>12,.2f}  x{self.ratio:.3f}{noise}"
        )


def compare(before: Results, after: Results, *, broker: str = "") -> list[Change]:
    """The changes of every scenario and broker that both files have; raises `Refused`."""
    if differences := unlike(before.environment, after.environment):
        raise Refused("unlike environments: " + "; ".join(differences))
    if before.warm_up_seconds != after.warm_up_seconds:
        raise Refused("unlike warm-up times")
    old: dict[tuple[str, str], list[Entry]] = {}
    for entry in before.entries:
        old.setdefault((entry.scenario, _product(entry.broker)), []).append(entry)
    changes: list[Change] = []
    for entry in after.entries:
        matches = old.get((entry.scenario, _product(entry.broker)), [])
        if matches and broker in entry.broker:  # a table has some scenarios with several clients
            changes += _changes(next((one for one in matches if one.parameters == entry.parameters), matches[0]), entry)
    return changes


def _product(broker: str) -> str:
    """A broker's name without its version, which may differ."""
    return broker.partition(" ")[0]


def _changes(before: Entry, after: Entry) -> list[Change]:
    if before.parameters != after.parameters:
        raise Refused(f"scenario {after.scenario} has changed: {before.parameters} against {after.parameters}")
    for entry in (before, after):
        if entry.void:
            raise Refused(f"{entry.scenario} on {entry.broker} is void: {entry.void}")
    old, new = before.figures, after.figures
    return [
        Change(after.scenario, _product(after.broker), name, old[name], new[name])
        for name in FIGURES
        if name in old and name in new
    ]


def main(arguments: list[str] | None = None) -> int:
    """The command line; see the module's description."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--broker", default="", help="only brokers whose name contains this")
    options = parser.parse_args(arguments)
    try:
        changes = compare(Results.read(options.before), Results.read(options.after), broker=options.broker)
    except (Refused, ResultError, OSError) as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 2
    print("\n".join(map(str, changes)) or "the files have no scenario and broker in common")
    return 0 if changes else 1


if __name__ == "__main__":
    sys.exit(main())
