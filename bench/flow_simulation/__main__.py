"""Simulate publishers before a queue, with fixed and with adaptive link credit, and print what each policy gives.

A line shows, after the first third of the time: messages a second; the time from the arrival of a message to its
confirm, half of the messages at most and 99 % of them at most; Jain's index of fairness between the publishers (1: all
have the same rate); and over the whole time the longest confirm, the most messages that were unconfirmed, and flows for
each message. Below the line of the adaptive policy stand the goals of the scenario (goals.py), if both policies are
simulated.

Examples:
  python -m bench.flow_simulation
  python -m bench.flow_simulation --list
  python -m bench.flow_simulation near-and-far step-near --policy adaptive --seconds 20
  python -m bench.flow_simulation step-near --seconds 4 --plot step.svg

Exit status: 0; 1 when a goal is missed; 2 when the command line is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.flow_simulation.figures import Figures, figures
from bench.flow_simulation.goals import GOALS
from bench.flow_simulation.model import PublisherSpec, QueueSpec, Scenario, Simulation
from bench.flow_simulation.plot import drawn
from bench.flow_simulation.policies import POLICIES

SCENARIOS = Path(__file__).with_name("scenarios.toml")
COLUMNS = ("messages/s", 11), ("p50 ms", 9), ("p99 ms", 9), ("longest", 9), ("Jain", 7), ("most", 8), ("flows", 7)
HEADING = f"{'scenario':24}{'policy':10}" + "".join(f"{name:>{width}}" for name, width in COLUMNS)


def read(path: Path = SCENARIOS) -> dict[str, Scenario]:
    """The scenarios by name."""
    with path.open("rb") as file:
        tables: Mapping[str, dict[str, list[dict[str, float]]]] = tomllib.load(file)
    return {
        name: Scenario(
            name,
            [PublisherSpec(**publishers) for publishers in table["publishers"]],  # type: ignore[arg-type]
            QueueSpec(**table["queue"]),  # type: ignore[arg-type]
            tuple(map(str, table.get("goals", ()))),
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
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the unconfirmed messages of one scenario as SVG"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the times at which publishers attach (default: 1)")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.scenarios if name not in scenarios]
    if unknown:
        parser.error(f"{unknown[0]!r} is no scenario; --list shows their names")
    if asked.seconds <= 0:
        parser.error(f"--seconds must be above 0, not {asked.seconds:g}")
    if asked.plot and len(asked.scenarios) != 1:
        parser.error("--plot draws one scenario: name it")
    if asked.list:
        print("\n".join(scenarios))
        return 0
    print(HEADING)
    missed = 0
    for name in asked.scenarios or scenarios:
        runs: dict[str, tuple[Simulation, Figures]] = {}
        for policy in [asked.policy] if asked.policy else POLICIES:
            simulation = Simulation(scenarios[name], POLICIES[policy](), asked.seed).run(asked.seconds)
            runs[policy] = simulation, figures(simulation, since=asked.seconds / 3, until=asked.seconds)
            print(line(name, policy, runs[policy][1]), flush=True)
        if len(runs) == len(POLICIES):
            judged = [GOALS[goal](runs["adaptive"], runs["fixed"]) for goal in scenarios[name].goals]
            missed += sum(judgement.met is not True for judgement in judged)
            for judgement in judged:
                print(f"{'':24}{judgement}", flush=True)
        if asked.plot:
            asked.plot.write_text(
                drawn(name, {policy: run.history for policy, (run, _) in runs.items()}, asked.seconds)
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
