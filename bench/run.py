"""Measure a broker: `python -m bench.run`, or `make bench`.

Examples:
  python -m bench.run --list
  python -m bench.run bulk-12 bulk-12-ids bulk-12-properties bulk-12-priorities --goals
  python -m bench.run lone-500 lone-5000
  python -m bench.run bulk-12 unbatched-12 bulk-4096 --tls
  python -m bench.run bulk-12 unbatched-12 bulk-4096 --tls --peer-url amqps://guest:guest@127.0.0.1:5671
  python -m bench.run memory-connections --tls --goals
  python -m bench.run unbatched-12 durable-unbatched-12 --client go-amqp
  python -m bench.run --peer-url amqp://guest:guest@127.0.0.1:5673 --peer-pid 4711
  python -m bench.run bulk-12 --url amqp://guest:guest@127.0.0.1:5672 --runs 7 --output mine.json

Without --url, Headgate is started from this tree with default settings, once per scenario, on a free port with a fresh
data folder. With a peer, each scenario runs on both alternately, A B A B, so that other load on the machine disturbs
both alike. With --tls, Headgate is measured without TLS and with it; a peer at amqps:// is then the third in turn, and
Headgate with TLS is compared with it. Goals about memory are held to both ways then, and no others are judged.

Some goals compare a scenario with another one, which must be in the same run. The list of scenarios begins with those
whose messages are unlike each other, as those of real programs are.

Exit status: 0; 1 when a result is void (messages lost, doubled, reordered, changed or refused); 2 when nothing could be
measured; with --goals, 3 when a goal of a scenario is missed or could not be judged.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from amqp10.load.plan import PATIENCE_SECONDS
from amqp10.load.wire import WireError
from bench import report
from bench.broker import ROOT, SCRATCH, Broker, BrokerError, connect, started_with_tls
from bench.clients.programs import PROTOCOLS, Client, ClientError, command
from bench.environment import observe
from bench.goals import Judgement, judge, judge_beside
from bench.results import Entry, Results
from bench.scenario import Scenario, ScenarioError, load_scenarios
from bench.turns import WARM_UP_SECONDS, measured_and_peer, runner, take_turns

RUNS = 5
SERVE = "{python} -m amqp10 serve --listen 127.0.0.1:{port} --data {data}"
HEADGATE = f"{SERVE} --admin off"
"""The command without an admin server, whose cost bench.watched measures."""

OpenBrokers = Callable[[], AbstractContextManager[Sequence[Broker]]]
"""Opens the broker to measure, and the one to compare it with if there is one."""


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
    patience: float
    output: Path | None
    list: bool
    goals: bool
    client: Client | None
    tls: bool


def parse(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m bench.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="scenarios, by the name of their file; all when none is named")
    parser.add_argument("--list", action="store_true", help="show the scenarios and stop")
    parser.add_argument("--seed", type=int, help="of the bodies' content, instead of what the scenario says")
    add_options(parser)
    parser.add_argument("--tls", action="store_true", help="run each scenario without TLS, with it, and on the peer")
    parser.add_argument("--client", choices=PROTOCOLS, help="send and receive with it; see python -m bench.clients")
    parser.add_argument("--output", type=Path, help="the result file (bench/results/ with time and commit)")
    found = vars(parser.parse_args(arguments))
    return Options(**{**found, "names": tuple(found["names"])})


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that makes runs on a broker and its peer."""
    parser.add_argument("--runs", type=int, default=RUNS, help="measured runs per scenario and broker (5)")
    parser.add_argument("--seconds", type=float, help="how long to publish, instead of what the scenario says")
    parser.add_argument("--url", help="measure the broker that runs there instead of starting Headgate")
    parser.add_argument("--pid", type=int, help="its process; found by its port if we may look")
    parser.add_argument("--start", default=HEADGATE, help="how to start the broker; {python}, {port}, {data}")
    parser.add_argument("--peer-url", help="the broker to compare with")
    parser.add_argument("--peer-pid", type=int, help="its process; found by its port if we may look")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_SECONDS, help="seconds to wait for messages that do not come (10)"
    )
    parser.add_argument("--goals", action="store_true", help="exit with 3 when a goal is missed or cannot be judged")


def chosen(options: Options) -> list[Scenario]:
    """The scenarios to run, with the overrides of the command line.

    Scenarios that the client cannot carry out are left out with a line that says why. Raises ScenarioError when such a
    scenario is named, and ClientError when the client of the command line is not there.
    """
    files = load_scenarios()
    if unknown := [name for name in options.names if name not in files]:
        raise ScenarioError(f"no scenario {unknown[0]!r}; --list shows them")
    if options.client is not None:
        command(options.client)
    kept = []
    for scenario in [one for name in (options.names or files) for one in files[name]]:
        try:
            wanted = with_overrides(scenario, options)
            command(wanted.client)
            kept.append(wanted)
        except (ValueError, ClientError) as reason:
            if options.names:
                raise ScenarioError(f"{scenario.name}: {reason}") from reason
            print(f"left out: {scenario.name}: {reason}")
    return kept


def with_overrides(scenario: Scenario, options: Options) -> Scenario:
    """The scenario with the overrides of the command line; memory is measured over as many seconds as it takes."""
    traffic = scenario.traffic
    if options.seed is not None:
        traffic = replace(traffic, seed=options.seed)
    if options.seconds is not None and not scenario.is_memory:
        traffic = replace(traffic, seconds=options.seconds)
    return replace(scenario, traffic=traffic, client=options.client or scenario.client)


class Measurement:
    """Runs scenarios and prints the results as they come."""

    def __init__(self, options: Options, open_brokers: OpenBrokers) -> None:
        self._options = options
        self._open_brokers = open_brokers
        self._run = runner(options.patience)
        self.entries: list[Entry] = []
        self.goals_met = True
        self._of_measured: dict[str, Entry] = {}

    def measure(self, scenario: Scenario) -> None:
        """Make all runs of one scenario."""
        print(report.heading(scenario), flush=True)
        found = self._found(scenario)
        self.entries += found
        print("\n".join(map(report.line, found)))
        peer = found[1] if len(found) > 1 else None
        for measured, other in pairwise(found):
            print(report.versus(measured, other))
        if not self._options.tls:
            self._judge(judge(scenario.goal, found[0], peer))
            self._of_measured[scenario.name] = found[0]
        elif scenario.is_memory:  # the other goals are those of brokers without TLS
            self._judge([judgement for entry in found[:2] for judgement in judge(scenario.goal, entry, None)])

    def _found(self, scenario: Scenario) -> list[Entry]:
        """Make the runs. Memory with TLS is measured in a process of its own: in the one where connections without TLS
        were measured, those with TLS would use the memory that the first have given back."""
        apart = self._options.tls and scenario.is_memory
        found: list[Entry] = []
        for part in (slice(1), slice(1, None)) if apart else (slice(None),):
            with self._open_brokers() as brokers:
                [entries] = take_turns([(scenario, brokers[part])], self._options.runs, self._run)
            found += entries
        return found

    def _judge(self, judgements: Iterable[Judgement]) -> None:
        for judgement in judgements:
            print(f"{'':22}goal: {judgement}", flush=True)
            self.goals_met &= judgement.met is True

    def compare_scenarios(self, scenarios: Sequence[Scenario]) -> None:
        """Judge the goals that compare two scenarios of this run."""
        for scenario in scenarios:
            for judgement in judge_beside(scenario.goal, self._of_measured[scenario.name], self._of_measured):
                print(f"{scenario.name}: goal: {judgement}", flush=True)
                self.goals_met &= judgement.met is True


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's description."""
    options = parse(arguments)
    if options.tls and options.url:
        print("cannot measure: --tls measures a broker that it starts, without --url", file=sys.stderr)
        return 2
    try:
        scenarios = chosen(options)
        if options.list:
            print("\n".join(f"{one.name:28} {one.title}" for one in scenarios))
            return 0
        return run(options, scenarios)
    except (ScenarioError, ClientError, BrokerError, WireError, ValueError, OSError) as problem:
        print(f"cannot measure: {problem}", file=sys.stderr)
        return 2


def run(options: Options, scenarios: Sequence[Scenario]) -> int:
    environment = observe(SCRATCH)
    print(environment)
    peer = connect(options.peer_url, options.peer_pid) if options.peer_url else None
    print(f"peer: {peer.name}" if peer else "peer: none; figures stand alone (give --peer-url to compare)")

    @contextlib.contextmanager
    def open_brokers() -> Iterator[Sequence[Broker]]:
        if not options.tls:
            with measured_and_peer(options.start, options.url, options.pid, peer) as brokers:
                yield brokers
            return
        with started_with_tls(options.start) as both:
            yield [*both, *([] if peer is None else [peer])]

    measurement = Measurement(options, open_brokers)
    for scenario in scenarios:
        measurement.measure(scenario)
    if not options.tls:
        measurement.compare_scenarios(scenarios)
    print(report.sweeps(measurement.entries))
    results = Results(
        environment=environment.to_json(), warm_up_seconds=WARM_UP_SECONDS, entries=tuple(measurement.entries)
    )
    output = options.output or ROOT / "bench/results" / f"{time.strftime('%Y%m%d-%H%M%S')}-{environment.commit}.json"
    results.write(output)
    print(f"\nresult file: {output}")
    if any(entry.void for entry in measurement.entries):
        print("VOID: at least one entry is not a result", file=sys.stderr)
        return 1
    return 3 if options.goals and not measurement.goals_met else 0


if __name__ == "__main__":
    sys.exit(main())
