"""``python -m bench.calls``: round trips of ``Service.call`` on one connection, and the effect of a slow target on
them.

One service calls another, with ``--in-flight`` calls at any time, each in a task of its own: a request goes through the
broker to the host, and the answer back through the broker. Caller, host and broker are separate processes. The output
has round trips a second, their latency, and each process's CPU time for one round trip. The sum and the largest of
these CPU times tell which rate is possible on a machine that does nothing else.

With --slow-target the caller also has calls to a second service in flight on the same connection; its host answers each
request after --answers-after seconds. Runs with and without these calls alternate, and each two neighbouring runs give
a ratio of the 99th percentiles of the calls to the first service.

Every answer is compared with its request, and the host counts the requests that it executes: a run in which a message
was lost, duplicated or mixed up is void.

For example:

    python -m bench.calls
    python -m bench.calls --in-flight 200 --seconds 5 --runs 5 --goals
    python -m bench.calls --slow-target --in-flight 20 --runs 5
    python -m bench.calls --slow-target --answers-after never
    python -m bench.calls --url amqp://guest:guest@127.0.0.1:5672 --pid 4242

Exit status: 0; with --goals, 1 when a goal is missed; 2 when a run is void or nothing could be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import psutil

from bench import environment
from bench.broker import SCRATCH, Broker, BrokerError, connect, started
from bench.calling.plan import CALLER, FAST, SLOW, Calls, Measurement, Plan
from bench.results import Entry, Figures, Results, Spread
from bench.run import HEADGATE
from bench.trial import LoadProcess, TrialError

RATE_MIN = 10_000
"""Round trips a second, on two cores that the broker shares with the services."""
P99_RATIO_MAX = 1.5
"""The largest ratio of the 99th percentile with a slow target to the one without."""
MODULE = "bench.calling"
PARAMETERS = {"in_flight", "seconds", "warm_up", "size", "transient", "slow_target", "slow_in_flight", "answers_after"}
"""The arguments of the command line that a result file has."""


@dataclass(frozen=True, slots=True)
class Services:
    """The processes of a measurement."""

    broker: Broker
    caller: LoadProcess
    host: LoadProcess

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time of each process so far, in seconds."""
        return {
            "caller": process_seconds(self.caller.pid),
            "host": process_seconds(self.host.pid),
            "broker": self.broker.cpu_seconds(),
        }


def process_seconds(pid: int) -> float:
    """CPU time of a process so far, user and system, in seconds; the kernel counts it in ticks of 10 ms."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@contextlib.contextmanager
def running(broker: Broker, given: argparse.Namespace) -> Iterator[Services]:
    """Start hosts and a caller, and wait until all are connected."""
    plans = [Plan(url=broker.url, role="host", type=FAST, durable=not given.transient)]
    if given.slow_target:
        after = given.answers_after
        plans.append(Plan(url=broker.url, role="host", type=SLOW, durable=not given.transient, answers_after_s=after))
    plans.append(Plan(url=broker.url, role="caller", type=CALLER, durable=not given.transient))
    with contextlib.ExitStack() as stack:
        processes = []
        for plan in plans:
            processes.append(stack.enter_context(LoadProcess(plan, [sys.executable, "-m", MODULE])))
            processes[-1].expect("ready")
        yield Services(broker, processes[-1], processes[0])


def measure(services: Services, measurement: Measurement) -> Figures:
    """Make one run. ``void`` in its figures says why it is void; empty for a valid run."""
    executed_before, suppressed_before = executed(services.host, measurement)
    cpu_before = services.cpu_seconds()
    services.caller.tell(measurement)
    report = services.caller.expect("report")
    cpu = services.cpu_seconds()
    calls = Calls(**{name: report[name] for name in Calls.__dataclass_fields__})  # type: ignore[arg-type]
    executed_after, suppressed_after = executed(services.host, measurement)
    per_call = {name: (cpu[name] - cpu_before[name]) / max(calls.all_calls, 1) * 1e6 for name in cpu}
    return {
        **asdict(calls),
        "rate": round(calls.calls / calls.seconds, 1),
        "p50_ms": round(calls.p50_ms, 3),
        "p99_ms": round(calls.p99_ms, 3),
        **{f"{name}_cpu_us": round(cost, 1) for name, cost in per_call.items()},
        "cpu_us": round(sum(per_call.values()), 1),
        "void": fault(calls, executed_after - executed_before, suppressed_after - suppressed_before),
    }


def executed(host: LoadProcess, told: Measurement) -> tuple[int, int]:
    """How many requests a host has executed so far, and how many it recognised as duplicates."""
    host.tell(told)  # any line makes the host report
    report = host.expect("report")
    return cast("int", report["executed"]), cast("int", report["suppressed"])


def fault(calls: Calls, times_executed: int, times_suppressed: int) -> str:
    """Why a run is void; empty when it is valid."""
    faults = []
    if calls.wrong:
        faults.append(f"{calls.wrong} calls went wrong: {calls.problem}")
    elif times_executed != calls.all_calls:
        faults.append(f"{calls.all_calls} calls were answered, and {times_executed} executed")
    if times_suppressed:
        faults.append(f"{times_suppressed} requests came twice")
    if not calls.calls:
        faults.append("no call at all")
    return "; ".join(faults)


def line(name: str, figures: Figures) -> str:
    """One run as a line of text."""
    cost = ", ".join(f"{who} {figures[f'{who}_cpu_us']}" for who in ("caller", "host", "broker"))
    shown = (
        f"{name}: {figures['rate']:>10,}/s, p50 {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms;"
        f" CPU a round trip {figures['cpu_us']} µs ({cost})"
    )
    return f"{shown}  VOID: {figures['void']}" if figures["void"] else shown


def spread_of(name: str, spread: Spread, digits: int = 0) -> str:
    """The median, lowest and highest value, as text."""
    return f"{name} {spread.median:,.{digits}f} ({spread.low:,.{digits}f}-{spread.high:,.{digits}f})"


def summary(entry: Entry) -> str:
    """All runs of one kind, as text."""
    figures = entry.figures
    parts = [spread_of("round trips/s", figures["rate"])]
    parts += [spread_of(f"{name} ms", figures[f"{name}_ms"], 2) for name in ("p50", "p99")]
    parts += [spread_of(f"{who} CPU µs", figures[f"{who}_cpu_us"], 1) for who in ("caller", "host", "broker")]
    return f"{entry.scenario}: " + "; ".join(parts)


def measure_all(services: Services, given: argparse.Namespace) -> list[Entry]:
    """Make all runs; with a slow target, runs of two kinds alternate."""
    kinds = {"undisturbed": 0, "beside a slow target": given.slow_in_flight} if given.slow_target else {"calls": 0}
    runs: dict[str, list[Figures]] = {kind: [] for kind in kinds}
    for number in range(given.runs):
        for kind, slow_in_flight in kinds.items():
            measurement = Measurement(
                seconds=given.seconds,
                warm_up_seconds=given.warm_up,
                in_flight=given.in_flight,
                slow_in_flight=slow_in_flight,
                body_bytes=given.size,
            )
            runs[kind].append(measure(services, measurement))
            print(line(f"{number + 1}, {kind}", runs[kind][-1]), flush=True)
    parameters: Figures = {name: value for name, value in vars(given).items() if name in PARAMETERS}
    return [
        Entry(scenario=kind, parameters=parameters, broker=services.broker.name, runs=tuple(of_kind))
        for kind, of_kind in runs.items()
    ]


def p99_ratios(entries: Sequence[Entry]) -> Spread:
    """The ratio of each run with the slow target to the run without it before."""
    undisturbed, disturbed = entries
    return Spread.of(
        [
            cast("float", after["p99_ms"]) / cast("float", before["p99_ms"])
            for before, after in zip(undisturbed.runs, disturbed.runs, strict=True)
        ]
    )


def verdict(entries: Sequence[Entry], *, slow_target: bool) -> tuple[str, bool]:
    """Whether the goals were met, with a text."""
    if slow_target:
        ratio = p99_ratios(entries)
        goal = f"goal: p99 beside a slow target at most {P99_RATIO_MAX} times the undisturbed one"
        return f"{spread_of('ratio of p99', ratio, 2)}; {goal}", ratio.median <= P99_RATIO_MAX
    rate = entries[0].figures["rate"].median
    return f"goal: at least {RATE_MIN:,} round trips a second", rate >= RATE_MIN


def positive(word: str) -> int:
    """Parse a number of calls, runs or bytes."""
    number = int(word)
    if number < 1:
        raise ValueError
    return number


def seconds_or_never(word: str) -> float | None:
    """Parse how long a slow host waits before it answers; None for ever."""
    return None if word == "never" else float(word)


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.calls", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--in-flight", type=positive, default=200, help="calls at any time (default 200)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a run (default 5)")
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds before each run (default 1)")
    parser.add_argument("--runs", type=positive, default=5, help="of each kind (default 5)")
    parser.add_argument("--size", type=positive, default=20, help="bytes of a body, and of its answer (default 20)")
    parser.add_argument("--transient", action="store_true", help="messages that are not durable")
    parser.add_argument("--slow-target", action="store_true", help="compare with a slow service called beside")
    parser.add_argument("--slow-in-flight", type=int, default=400, help="calls to the slow service (default 400)")
    parser.add_argument(
        "--answers-after", type=seconds_or_never, default=1.0, help="seconds, or 'never', of the slow host (default 1)"
    )
    parser.add_argument("--goals", action="store_true", help="exit with 1 when a goal is missed")
    parser.add_argument("--output", type=Path, help="write a result file too")
    parser.add_argument("--url", help="a broker that runs already; else Headgate is started from this tree")
    parser.add_argument("--pid", type=int, help="its process, when the port does not tell it")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    given = parsed(words)
    try:
        broker = contextlib.nullcontext(connect(given.url, given.pid)) if given.url else started(HEADGATE)
        with broker as reached, running(reached, given) as services:
            entries = measure_all(services, given)
    except (BrokerError, TrialError, OSError) as problem:
        print(f"nothing could be measured: {problem}", file=sys.stderr)
        return 2
    for entry in entries:
        print(summary(entry))
    if given.output is not None:
        found = environment.observe(SCRATCH).to_json()
        Results(environment=found, warm_up_seconds=given.warm_up, entries=tuple(entries)).write(given.output)
    if any(entry.void for entry in entries):
        return 2
    words_of_verdict, reached_goal = verdict(entries, slow_target=given.slow_target)
    print(f"{words_of_verdict}: {'reached' if reached_goal else 'MISSED'}")
    return 1 if given.goals and not reached_goal else 0


if __name__ == "__main__":
    sys.exit(main())
