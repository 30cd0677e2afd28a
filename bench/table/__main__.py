"""The table of all loads beside a peer, with the goal of each, the figure, and whether it is met.

  python -m bench.table --list
  python -m bench.table --peer-url amqp://guest:guest@127.0.0.1:5673 --peer-pid 4711
  python -m bench.table --rows keys lone-5000 --runs 3
  python -m bench.table --peer-url ... --markdown table.md --page docs/benchmarks.md
  python -m bench.table --from bench/results/table.json --page docs/benchmarks.md

The rows are scenarios of `bench.run` with their goals, in groups: bench/table/rows.toml. The scenarios of a group, on
the broker and on its peer, run by turns, and a goal is judged by the median of the ratios of runs that were made one
after the other. A row whose client is not there is not run (`python -m bench.clients build` builds those in Go), and
neither is a row on a peer that cannot do it. Five runs of all rows with a peer take about twenty minutes.

Without --url, Headgate is started from this tree with default settings, once per group. `python -m bench.peers` starts
or finds a peer. The last lines name the goals that are missed.

Exit status: 0; 1 when a result is void (messages lost, doubled, reordered, changed or refused); 2 when nothing could be
measured or the page cannot be written; with --goals, 3 when a goal is missed or could not be judged.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from amqp10.load.wire import WireError
from bench import report
from bench.broker import ROOT, SCRATCH, BrokerError, connect
from bench.environment import observe
from bench.results import ResultError, Results
from bench.run import add_options
from bench.scenario import ScenarioError
from bench.table.groups import LoadGroup, choose, read_groups
from bench.table.measure import TableMeasurement
from bench.table.page import PageError, block, markdown, peer_of, put
from bench.table.rows import LoadRow, rows
from bench.turns import WARM_UP_SECONDS, measured_and_peer, runner


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; ends the program with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.table", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", default=[], metavar="NAME", help="groups of rows, and rows; all")
    parser.add_argument("--list", action="store_true", help="show the rows and stop")
    add_options(parser)
    parser.add_argument("--output", type=Path, help="the result file (bench/results/ with time and peer)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table to this file")
    parser.add_argument("--page", type=Path, help="put the table into this page, in place of the one with this peer")
    parser.add_argument(
        "--from", type=Path, dest="source", metavar="FILE", help="show this result file; do not measure"
    )
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error(f"--runs {options.runs}: one run or more is needed")
    return options


def measured(options: argparse.Namespace, groups: Sequence[LoadGroup]) -> tuple[Results, Path]:
    """Measure the groups, print each when it is done, and write the result file."""
    environment, began = observe(SCRATCH), time.monotonic()
    peer = connect(options.peer_url, options.peer_pid) if options.peer_url else None
    print(environment)
    print(f"peer: {peer.name}" if peer else "peer: none; what is compared with it is not judged (give --peer-url)")

    def say(words: str) -> None:
        print(f"{time.monotonic() - began:7.0f} s  {words}", file=sys.stderr, flush=True)

    done = TableMeasurement(
        open_brokers=lambda: measured_and_peer(options.start, options.url, options.pid, peer),
        runs=options.runs, run=runner(options.patience), say=say,
    )  # fmt: skip

    def results() -> Results:
        return Results(
            environment=environment.to_json(),
            warm_up_seconds=WARM_UP_SECONDS,
            entries=tuple(done.entries),
            not_run=done.not_run,
        )

    for number, group in enumerate(groups, 1):
        say(f"group {number} of {len(groups)}: {group.title}")
        done.measure(group)
        show(group, results())
    found = results()
    product = peer_of(found).partition(" ")[0]
    output = (
        options.output or ROOT / "bench/results" / f"{time.strftime('%Y-%m-%d-%H%M%S')}-table-beside-{product}.json"
    )
    found.write(output)
    print(f"\nresult file: {output}")
    return found, output


def show(group: LoadGroup, results: Results) -> None:
    """Print the rows of a group."""
    print(f"\n{group.title}")
    for row in rows(group, results):
        not_run = "not run" if row.measured is None else "the peer: not run"
        print(row.name + (f": {not_run}: {row.note}" if row.note else ""))
        if row.measured is not None and group.scenarios:
            print("\n".join(f"  {report.line(one)}" for one in (row.measured, row.peer) if one is not None))
        for judgement in row.judgements:
            print(f"  goal: {judgement}", flush=True)


def outcome(all_rows: Sequence[LoadRow], *, goals: bool) -> int:
    """Print the goals that are missed and what is void, and return the exit status."""
    judged = [one for row in all_rows for one in row.judgements]
    print(f"{sum(one.met is True for one in judged)} of {len(judged)} goals met")
    for row in all_rows:
        for one in row.judgements:
            if one.met is not True:
                print(f"{row.name}: {one}")
    void = [f"VOID {row.name}: {row.void}" for row in all_rows if row.void]
    print("".join(f"{line}\n" for line in void), end="", file=sys.stderr)
    if void:
        return 1
    return 3 if goals and not all(row.met for row in all_rows) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's description. Returns the exit status."""
    options = parse(arguments)
    try:
        groups = [group.lasting(options.seconds) for group in choose(read_groups(), options.rows)]
        if options.list:
            for group in groups:
                print(f"{group.name:14} {group.title}")
                print(
                    "".join(f"    {one}\n" for one in (*(scenario.name for scenario in group.scenarios), *group.ways)),
                    end="",
                )
            return 0
        results, file = (Results.read(options.source), options.source) if options.source else measured(options, groups)
        if options.markdown:
            options.markdown.write_text(markdown(results, groups))
        if options.page:
            options.page.write_text(put(options.page.read_text(), block(results, groups, file)))
    except (ScenarioError, BrokerError, WireError, ResultError, PageError, OSError) as problem:
        print(f"no table: {problem}", file=sys.stderr)
        return 2
    return outcome([row for group in groups for row in rows(group, results)], goals=options.goals)


if __name__ == "__main__":
    sys.exit(main())
