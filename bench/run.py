"""Measure a broker: `python -m bench.run`, or `make bench`.

Examples:
  python -m bench.run --list
  python -m bench.run bulk-12 latency-5000
  python -m bench.run --peer-url amqp://guest:guest@127.0.0.1:5673 --peer-pid 4711
  python -m bench.run bulk-12 --url amqp://guest:guest@127.0.0.1:5672 --runs 7 --output mine.json

Without --url, Headgate is started from this tree with default settings, once per scenario, on a free port
with a fresh data folder. With a peer, each scenario runs on both in turn, A B A B, so that what else the
machine does hits both alike.

Exit status: 0; 1 when a result is void (messages lost, doubled, reordered or refused); 2 when nothing could
be measured; with --goals, 3 when a goal of a scenario is missed or could not be judged.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from bench import report
from bench.broker import ROOT, SCRATCH, Broker, BrokerError, connect, started
from bench.environment import observe
from bench.load.wire import WireError
from bench.memory import measure_once
from bench.results import Entry, Figures, Results
from bench.scenario import Scenario, ScenarioError, load_scenarios
from bench.trial import Run, TrialError, run_once

RUNS = 5
WARM_UP_SECONDS = 1.0
PAUSE_SECONDS = 0.3
"""Between two runs: brokers clean up behind a deleted queue."""
HEADGATE = "{python} -m amqp10 serve --listen 127.0.0.1:{port} --data {data}"

OpenBroker = Callable[[], AbstractContextManager[Broker]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line."""

    names: tuple[str, ...]
    runs: int
    seconds: float | None
    seed: int | None
    url: str | None
    pid: int | None
    start: str
    peer_url: str | None
    peer_pid: int | None
    output: Path | None
    list: bool
    goals: bool


def parse(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m bench.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help="scenarios, by the name of their file; all when none is named"
    )
    parser.add_argument("--list", action="store_true", help="show the scenarios and stop")
    parser.add_argument("--runs", type=int, default=RUNS, help="measured runs per scenario and broker (5)")
    parser.add_argument(
        "--seconds", type=float, help="how long to publish, instead of what the scenario says"
    )
    parser.add_argument("--seed", type=int, help="of the bodies' content, instead of what the scenario says")
    parser.add_argument("--url", help="measure the broker that runs there instead of starting Headgate")
    parser.add_argument("--pid", type=int, help="its process; found by its port if we may look")
    parser.add_argument("--start", default=HEADGATE, help="how to start the broker; {python}, {port}, {data}")
    parser.add_argument("--peer-url", help="the broker to compare with")
    parser.add_argument("--peer-pid", type=int, help="its process; found by its port if we may look")
    parser.add_argument("--output", type=Path, help="the result file (bench/results/ with time and commit)")
    parser.add_argument(
        "--goals", action="store_true", help="exit with 3 when a goal is missed or cannot be judged"
    )
    found = vars(parser.parse_args(arguments))
    return Options(**{**found, "names": tuple(found["names"])})


def chosen(options: Options) -> list[Scenario]:
    """The scenarios to run, with what the command line overrides."""
    files = load_scenarios()
    if unknown := [name for name in options.names if name not in files]:
        raise ScenarioError(f"no scenario {unknown[0]!r}; --list shows them")
    scenarios = [one for name in (options.names or files) for one in files[name]]
    overrides = {name: value for name in ("seconds", "seed") if (value := getattr(options, name)) is not None}
    return [replace(one, traffic=replace(one.traffic, **overrides)) for one in scenarios]


def queue_names() -> Iterator[str]:
    """A queue of its own for every run."""
    number = 0
    while True:
        number += 1
        yield f"bench-{os.getpid()}-{number}"


def one_run(broker: Broker, scenario: Scenario, queue: str) -> Figures:
    """The figures of one run; a run that breaks off is void."""
    try:
        if scenario.is_memory:
            return measure_once(broker, scenario, queue).to_json()
        return run_once(broker, scenario, queue).to_json()
    except (TrialError, WireError, OSError) as failure:
        broken = Run(
            messages=0, seconds=0, rate=0, broker_cpu_us=0, client_cpu_us=0, resident_mib=0,
            void=f"broke off: {failure}",
        )  # fmt: skip
        return broken.to_json()


def measure(
    brokers: Sequence[Broker], scenario: Scenario, *, runs: int, queues: Iterator[str]
) -> list[Entry]:
    """All runs of one scenario, the brokers taking turns; an entry per broker."""
    if not scenario.is_memory:
        warm_up = replace(
            scenario.traffic, seconds=WARM_UP_SECONDS, messages=min(scenario.traffic.messages, 100_000)
        )
        for broker in brokers:
            one_run(broker, replace(scenario, traffic=warm_up), next(queues))
    figures: list[list[Figures]] = [[] for _ in brokers]
    for _ in range(1 if scenario.is_memory else runs):
        for broker, kept in zip(brokers, figures, strict=True):
            time.sleep(PAUSE_SECONDS)
            kept.append(one_run(broker, scenario, next(queues)))
    return [
        Entry(scenario=scenario.name, parameters=scenario.parameters(), broker=broker.name, runs=tuple(kept))
        for broker, kept in zip(brokers, figures, strict=True)
    ]


def measure_all(
    scenarios: Sequence[Scenario], open_broker: OpenBroker, peer: Broker | None, *, runs: int
) -> tuple[list[Entry], bool]:
    """Measure and print as we go; the entries, and whether every goal was judged and met."""
    entries: list[Entry] = []
    good = True
    queues = queue_names()
    for scenario in scenarios:
        print(report.heading(scenario), flush=True)
        with open_broker() as broker:
            found = measure([broker] if peer is None else [broker, peer], scenario, runs=runs, queues=queues)
        entries += found
        print("\n".join(map(report.line, found)))
        if peer is not None:
            print(report.versus(*found))
        judged = report.verdicts(scenario.goal, found[0], found[1] if peer is not None else None)
        for words, met in judged:
            print(f"{'':22}goal: {words}: {'met' if met else 'MISSED'}", flush=True)
        good = good and all(met for _, met in judged) and len(judged) == scenario.goal.count
    return entries, good


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's description."""
    options = parse(arguments)
    try:
        scenarios = chosen(options)
        if options.list:
            print("\n".join(f"{one.name:28} {one.title}" for one in scenarios))
            return 0
        return run(options, scenarios)
    except (ScenarioError, BrokerError, WireError, ValueError, OSError) as problem:
        print(f"cannot measure: {problem}", file=sys.stderr)
        return 2


def run(options: Options, scenarios: Sequence[Scenario]) -> int:
    environment = observe(SCRATCH)
    print(f"commit {environment.commit}, {environment.interpreter}, {environment.machine}, "
          f"{len(environment.cpus)} CPUs, fdatasync p50 {environment.fdatasync_p50_ms} ms")  # fmt: skip
    peer = connect(options.peer_url, options.peer_pid) if options.peer_url else None
    print(f"peer: {peer.name}" if peer else "peer: none; figures stand alone (give --peer-url to compare)")

    def open_broker() -> AbstractContextManager[Broker]:
        if options.url is None:
            return started(options.start)
        return contextlib.nullcontext(connect(options.url, options.pid))

    entries, good = measure_all(scenarios, open_broker, peer, runs=options.runs)
    results = Results(
        environment=environment.to_json(), warm_up_seconds=WARM_UP_SECONDS, entries=tuple(entries)
    )
    output = (
        options.output
        or ROOT / "bench/results" / f"{time.strftime('%Y%m%d-%H%M%S')}-{environment.commit}.json"
    )
    results.write(output)
    print(f"\nresult file: {output}")
    if any(entry.void for entry in entries):
        print("VOID: at least one entry is not a result", file=sys.stderr)
        return 1
    return 3 if options.goals and not good else 0


if __name__ == "__main__":
    sys.exit(main())
