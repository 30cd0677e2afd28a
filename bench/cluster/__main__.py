"""Three nodes of Headgate beside three nodes of another broker: quorum queues with three copies.

Three nodes of Headgate are started from this tree, each with an etcd beside it, with default settings; the peer's three
nodes run already. Both have their disks and CPUs of this machine in common, and take turns. Two things are measured:

- Rate, and CPU time per message of *all* processes: three brokers and three members of etcd against the three processes
  of the peer. Publisher and consumer connect to the node that leads the queue.
- Fail-over: the node that leads is killed (kill -9, with its etcd) while two clients publish, one at that node, one at
  another. What counts is the longest time without an accepted message of each. The output and the result say of each
  kill of Headgate's nodes whether the leader of etcd ended with it.

A goal is judged by the median of the ratios of runs that were made one after the other: in bulk at least twice the
peer's rate, CPU per message at most half of the peer's, fail-over at most as long as the peer's.

Examples:
  python -m bench.cluster --list
  python -m bench.cluster --runs 3 --output mine.json
  python -m bench.cluster quorum-12 --fail-overs 0
  python -m bench.cluster --peer-url amqp://guest:guest@127.0.0.1:5681 --peer-url amqp://guest:guest@127.0.0.1:5682 \\
      --peer-url amqp://guest:guest@127.0.0.1:5683 --peer-pid 4711 --peer-pid 4712 --peer-pid 4713 \\
      --peer-restart 'sh start-node.sh {number}' --goals

--peer-restart is a command that starts one node of the peer again, whose number from 1 stands for {number}, waits until
it is there, and prints its process id last. Without it, the peer's fail-over is not measured.

Exit status: 0; 1 when a result is void (messages lost, duplicated without a flag, reordered, changed or refused); 2
when nothing could be measured; with --goals, 3 when a goal is missed or could not be judged.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from amqp10.cli.exits import CommandError
from amqp10.client_core.errors import ClientError
from amqp10.load.plan import PATIENCE_SECONDS
from amqp10.load.wire import WireError
from bench import report
from bench.broker import ROOT, SCRATCH, BrokerError
from bench.cluster.fail_over import GAPS, PLACES, TOOK_ENGINE, measured
from bench.cluster.nodes import NAMES, MeasuredCluster, OwnCluster, PeerCluster, own_cluster
from bench.environment import observe
from bench.goals import Judgement, judge, pair_ratios
from bench.results import Entry, Figures, Results
from bench.run import RUNS
from bench.scenario import Goal, Scenario, load_scenarios
from bench.turns import WARM_UP_SECONDS, queue_names, runner, take_turns

SCENARIOS = ("quorum-12", "quorum-1024", "quorum-4096", "quorum-unbatched-12")
RATE_MIN, CPU_MAX, FAIL_OVER_MAX = 2.0, 0.5, 1.0
"""Times the peer's."""
FAIL_OVER = "cluster-fail-over"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; ends the program with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="scenarios of bench.run with quorum queues; all of --list")
    parser.add_argument("--list", action="store_true", help="show the scenarios and stop")
    parser.add_argument("--runs", type=int, default=RUNS, help="measured runs per scenario and cluster (5)")
    parser.add_argument("--fail-overs", type=int, help="how often each cluster loses its leader (as --runs)")
    parser.add_argument("--seconds", type=float, help="how long to publish, instead of what the scenario says")
    parser.add_argument("--peer-url", action="append", default=[], help="a node of the peer; three times")
    parser.add_argument("--peer-pid", action="append", default=[], type=int, help="its process; three times")
    parser.add_argument("--peer-restart", default="", metavar="COMMAND", help="starts node {number} of the peer again")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_SECONDS, help="seconds to wait for messages that do not come (10)"
    )
    parser.add_argument("--output", type=Path, help="the result file (bench/results/ with the time)")
    parser.add_argument("--goals", action="store_true", help="exit with 3 when a goal is missed or cannot be judged")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error(f"--runs {options.runs}: one run or more is needed")
    if len(options.peer_url) not in (0, len(NAMES)) or len(options.peer_pid) != len(options.peer_url):
        parser.error(f"give --peer-url and --peer-pid {len(NAMES)} times each, or not at all")
    if options.fail_overs is None:
        options.fail_overs = options.runs
    return options


def chosen(names: Sequence[str], seconds: float | None) -> list[Scenario]:
    """The scenarios with these names, with the goals of a cluster. Raises ValueError for others."""
    files = load_scenarios()
    found = []
    for name in names or SCENARIOS:
        if name not in files or files[name][0].queue_type != "quorum":
            raise ValueError(f"no scenario {name!r} with a quorum queue; known are {', '.join(SCENARIOS)}")
        [one] = files[name]
        bulk = one.traffic.shape == "bulk"
        goal = Goal(rate_ratio_min=RATE_MIN if bulk else None, cpu_ratio_max=CPU_MAX)
        traffic = one.traffic if seconds is None else replace(one.traffic, seconds=seconds)
        found.append(replace(one, name=f"cluster-{name}", goal=goal, traffic=traffic))
    return found


class ClusterMeasurement:
    """Measures both clusters by turns, and prints what it finds."""

    def __init__(self, own: OwnCluster, peer: PeerCluster | None, patience: float) -> None:
        self._own = own
        self._clusters: list[MeasuredCluster] = [own, *([] if peer is None else [peer])]
        self._peer = peer
        self._run = runner(patience)
        self._queues = queue_names()
        self.entries: list[Entry] = []
        self.judgements: list[tuple[str, Judgement]] = []
        self.not_run: dict[str, str] = {}

    def rates(self, scenario: Scenario, runs: int) -> None:
        """Make the runs of a scenario at the first node of each cluster, which leads the queue."""
        print(report.heading(scenario), flush=True)
        all_before, etcd_before = self._own.brokers[0].cpu_seconds(), self._own.etcd_seconds()
        [entries] = take_turns([(scenario, [cluster.brokers[0] for cluster in self._clusters])], runs, self._run)
        print("\n".join(map(report.line, entries)))
        share = (self._own.etcd_seconds() - etcd_before) / (self._own.brokers[0].cpu_seconds() - all_before)
        print(f"{'':22}etcd has {share:.0%} of the CPU time of Headgate's nodes")
        self._note(entries, judge(scenario.goal, entries[0], entries[1] if len(entries) > 1 else None))

    def fail_overs(self, count: int) -> None:
        """Kill the node that leads, another one each time."""
        clusters = [*self._clusters]
        if self._peer is not None and not self._peer.restarts:
            clusters.remove(self._peer)
            self.not_run[FAIL_OVER] = "without --peer-restart, the peer's nodes are not killed"
        names = [cluster.brokers[0].name for cluster in clusters]
        found: list[list[Figures]] = [[] for _ in clusters]
        print(f"\n{FAIL_OVER}: the longest time without an accepted message", flush=True)
        for number in range(count):
            for cluster, name, figures in zip(clusters, names, found, strict=True):
                figures.append(self._fail_over(cluster, number % len(NAMES)))
                print(f"{name[:21]:22}{said(figures[-1])}", flush=True)
        entries = [
            Entry(scenario=FAIL_OVER, parameters={"nodes": len(NAMES)}, broker=name, runs=tuple(figures))
            for name, figures in zip(names, found, strict=True)
        ]
        other = entries[1] if len(entries) > 1 else None
        self._note(entries, [
            Judgement(what=f"fail-over for a client at the {place}" if place == "leader" else "fail-over elsewhere",
                      limit=FAIL_OVER_MAX, than="times the peer's", found=pair_ratios(entries[0], other, GAPS[place]))
            for place in PLACES
        ])  # fmt: skip

    def _fail_over(self, cluster: MeasuredCluster, number: int) -> Figures:
        try:
            return measured(cluster, next(self._queues), number)
        except (ClientError, CommandError, WireError, OSError, psutil.Error) as failure:
            return {"void": f"broke off: {failure}"}

    def _note(self, entries: Sequence[Entry], judgements: Sequence[Judgement]) -> None:
        self.entries += entries
        for judgement in judgements:
            self.judgements.append((entries[0].scenario, judgement))
            print(f"{'':22}goal: {judgement}", flush=True)


def said(figures: Figures) -> str:
    """The figures of one fail-over in words."""
    if figures["void"]:
        return f"VOID: {figures['void']}"
    gaps = ", ".join(f"{place} {figures[name]:.3f} s" for place, name in GAPS.items())
    engine = {"yes": "with etcd's leader, ", "no": "without etcd's leader, "}.get(str(figures.get(TOOK_ENGINE)), "")
    return f"{gaps} ({engine}{figures['messages']:,} messages)"


@contextlib.contextmanager
def clusters(options: argparse.Namespace) -> Iterator[tuple[OwnCluster, PeerCluster | None]]:
    """The own cluster, started, and the peer if there is one. Raises BrokerError, WireError and OSError."""
    peer = PeerCluster(options.peer_url, options.peer_pid, options.peer_restart) if options.peer_url else None
    print(f"peer: {peer.brokers[0].name}" if peer else "peer: none; what is compared with it is not judged")
    with own_cluster() as own:
        yield own, peer


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's description. Returns the exit status."""
    options = parse(arguments)
    try:
        scenarios = chosen(options.names, options.seconds)
        if options.list:
            print("\n".join(f"{one.name.removeprefix('cluster-'):28} {one.title}" for one in scenarios))
            return 0
        environment = observe(SCRATCH)
        print(environment)
        with clusters(options) as (own, peer):
            done = ClusterMeasurement(own, peer, options.patience)
            for scenario in scenarios:
                done.rates(scenario, options.runs)
            if options.fail_overs:
                done.fail_overs(options.fail_overs)
    except (BrokerError, WireError, ValueError, OSError) as problem:
        print(f"cannot measure: {problem}", file=sys.stderr)
        return 2
    output = options.output or ROOT / "bench/results" / f"{time.strftime('%Y-%m-%d-%H%M%S')}-cluster.json"
    results = Results(
        environment=environment.to_json(), warm_up_seconds=WARM_UP_SECONDS, entries=tuple(done.entries),
        not_run=done.not_run,
    )  # fmt: skip
    results.write(output)
    print(f"\nresult file: {output}")
    return outcome(done, goals=options.goals)


def outcome(done: ClusterMeasurement, *, goals: bool) -> int:
    """Print what is void and which goals are not met, and return the exit status."""
    missed = [f"{name}: {one}" for name, one in done.judgements if one.met is not True]
    print(f"{len(done.judgements) - len(missed)} of {len(done.judgements)} goals met", *missed, sep="\n")
    void = [f"VOID {one.scenario}, {one.broker}: {one.void}" for one in done.entries if one.void]
    print("".join(f"{line}\n" for line in void), end="", file=sys.stderr)
    if void:
        return 1
    return 3 if goals and missed else 0


if __name__ == "__main__":
    sys.exit(main())
