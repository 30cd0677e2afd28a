"""Simulate publishers before a queue, with fixed and with adaptive link credit, and print what each policy gives.

A line shows, after the first third of the time: messages a second; the time from the arrival of a message to its
confirm, half of the messages at most and 99 % of them at most; Jain's index of fairness between the publishers (1: all
have the same rate); and over the whole time the longest confirm, the most messages that were unconfirmed, and flows for
each message.

Examples:
  python -m bench.flow_simulation
  python -m bench.flow_simulation --list
  python -m bench.flow_simulation near-and-far step-near --policy adaptive --seconds 20

Exit status: 0; 2 when the command line is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.flow_simulation.model import Confirm, PublisherSpec, QueueSpec, Scenario, Simulation
from bench.flow_simulation.policies import POLICIES

SCENARIOS = Path(__file__).with_name("scenarios.toml")
COLUMNS = ("messages/s", 11), ("p50 ms", 9), ("p99 ms", 9), ("longest", 9), ("Jain", 7), ("most", 8), ("flows", 7)
HEADING = f"{'scenario':24}{'policy':10}" + "".join(f"{name:>{width}}" for name, width in COLUMNS)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run gave. Times are in seconds."""

    rate: float
    p50: float
    p99: float
    longest: float
    fairness: float
    rates: Sequence[float]
    """Of each publisher."""
    unconfirmed_max: int
    flows_per_message: float


def figures(simulation: Simulation, *, since: float, until: float) -> Figures:
    """The figures of a run, the rates and percentiles from ``since`` to ``until``."""
    counted = [confirm for confirm in simulation.confirms if confirm.at >= since]
    messages: Counter[int] = Counter()
    for confirm in counted:
        messages[confirm.publisher] += confirm.messages
    rates = [messages[publisher.number] / (until - since) for publisher in simulation.publishers]
    squares = sum(rate * rate for rate in rates)
    return Figures(
        rate=sum(rates),
        p50=percentile(counted, 0.5),
        p99=percentile(counted, 0.99),
        longest=max((confirm.age for confirm in simulation.confirms), default=0.0),
        fairness=sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0,
        rates=rates,
        unconfirmed_max=simulation.unconfirmed_max,
        flows_per_message=simulation.flows / max(1, sum(confirm.messages for confirm in simulation.confirms)),
    )


def percentile(confirms: Sequence[Confirm], share: float) -> float:
    """The age at confirm that this share of the messages had at most."""
    left = share * sum(confirm.messages for confirm in confirms)
    for confirm in sorted(confirms, key=lambda confirm: confirm.age):
        left -= confirm.messages
        if left <= 0:
            return confirm.age
    return 0.0


def read(path: Path = SCENARIOS) -> dict[str, Scenario]:
    """The scenarios by name."""
    with path.open("rb") as file:
        tables: Mapping[str, dict[str, list[dict[str, float]]]] = tomllib.load(file)
    return {
        name: Scenario(
            name,
            [PublisherSpec(**publishers) for publishers in table["publishers"]],  # type: ignore[arg-type]
            QueueSpec(**table["queue"]),  # type: ignore[arg-type]
        )
        for name, table in tables.items()
    }


def line(scenario: str, policy: str, found: Figures) -> str:
    """One row of the table."""
    return (
        f"{scenario:24}{policy:10}{found.rate:>11,.0f}{found.p50 * 1000:>9.1f}{found.p99 * 1000:>9.1f}"
        f"{found.longest * 1000:>9.1f}{found.fairness:>7.3f}{found.unconfirmed_max:>8,}{found.flows_per_message:>7.3f}"
    )


def main(arguments: Sequence[str]) -> int:
    """Simulate and print. Returns the exit status."""
    scenarios = read()
    parser = argparse.ArgumentParser(
        prog="python -m bench.flow_simulation", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="which scenarios; all without names")
    parser.add_argument("--list", action="store_true", help="print the names of the scenarios and exit")
    parser.add_argument("--policy", choices=[*POLICIES], help="only this policy")
    parser.add_argument("--seconds", type=float, default=6.0, help="simulated time (default: 6)")
    parser.add_argument("--seed", type=int, default=1, help="of the times at which publishers attach (default: 1)")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.scenarios if name not in scenarios]
    if unknown:
        parser.error(f"{unknown[0]!r} is no scenario; --list shows their names")
    if asked.seconds <= 0:
        parser.error(f"--seconds must be above 0, not {asked.seconds:g}")
    if asked.list:
        print("\n".join(scenarios))
        return 0
    print(HEADING)
    for name in asked.scenarios or scenarios:
        for policy in [asked.policy] if asked.policy else POLICIES:
            simulation = Simulation(scenarios[name], POLICIES[policy](), asked.seed).run(asked.seconds)
            found = figures(simulation, since=asked.seconds / 3, until=asked.seconds)
            print(line(name, policy, found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
