"""``python -m bench.work_per_message``: the system calls, wake-ups and Python calls that one message costs the broker.

Each run of a scenario is on a broker that is started for it:

- once as it is, for the CPU time and the rate;
- once under ``strace -f -c``, which counts the system calls of all threads of the broker while the messages go through
  it. A wake-up is an ``epoll_wait``, of which a broker that finds its sockets ready makes more than one;
- twice more under cProfile, with a short and a longer load. The difference between both is what the messages cost
  without the start, the declarations and the end of the broker. Calls of built-in functions count as calls.

strace and cProfile make the broker slower, so that under a load that is as fast as it can be the broker finds more
messages at a time than it would. A load with a rate that the slowed broker can carry has no such error: the scenarios
``lone-100`` to ``lone-1000``.

Examples:
  python -m bench.work_per_message
  python -m bench.work_per_message lone-1000 unbatched-12 --seconds 3
  python -m bench.work_per_message --start 'bin/python -P -m amqp10 serve --listen 127.0.0.1:{port} --data {data}'

Exit status: 0; 1 when a run was void; 2 when strace is not there or a broker does not start.
"""

from __future__ import annotations

import argparse
import pstats
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from amqp10.load.wire import WireError
from bench.broker import SCRATCH, Broker, BrokerError, started
from bench.run import HEADGATE
from bench.scenario import Scenario, ScenarioError, load_scenarios
from bench.trial import Run, TrialError, run_once
from bench.turns import warm_up

SCENARIOS = ("lone-500", "lone-1000", "lone-5000", "unbatched-12", "bulk-12")
SECONDS = 3.0
SHORT = 0.25
"""The share of a short load in a longer one; the difference is long enough to leave the start out of the figures."""
MODULE = "-m amqp10 "
"""The words of a start command that cProfile is put before."""
READS = frozenset(("read", "recvfrom", "recvmsg", "readv"))
WRITES = frozenset(("write", "sendto", "sendmsg", "writev"))
WAITS = frozenset(("epoll_wait", "epoll_pwait", "epoll_pwait2"))
COUNTED_LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")
"""A line of strace's summary: share of time, seconds, microseconds a call, calls, errors (if any), name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one message of a scenario costs the broker, on average; times are in µs."""

    scenario: str
    rate: float
    cpu_us: float
    system_calls: Mapping[str, float]
    python_calls: float

    @property
    def line(self) -> str:
        """The row of the table."""
        named = [self._of(READS), self._of(WRITES), self._of(WAITS)]
        everything = sum(self.system_calls.values())
        figures = [self.cpu_us, *named, everything - sum(named), everything, self.python_calls]
        return f"{self.scenario:20} {self.rate:>10,.0f}" + "".join(f" {figure:>9.2f}" for figure in figures)

    def _of(self, names: frozenset[str]) -> float:
        return sum(count for name, count in self.system_calls.items() if name in names)


HEADING = f"{'':20} {'rate':>10}" + "".join(
    f" {word:>9}" for word in ("CPU µs", "reads", "writes", "wake-ups", "others", "system", "Python")
)


def valid(broker: Broker, scenario: Scenario) -> Run:
    """One run. Raises TrialError when it is void."""
    run = run_once(broker, scenario, "bench-work")
    if run.void:
        raise TrialError(f"a run of {scenario.name} is void: {run.void}")
    return run


def counted_system_calls(summary: str) -> dict[str, int]:
    """Calls by name, from what ``strace -c`` prints."""
    lines = filter(None, map(COUNTED_LINE.match, summary.splitlines()))
    return {found[2]: int(found[1]) for found in lines if found[2] != "total"}


def system_calls(start: str, scenario: Scenario) -> dict[str, float]:
    """System calls for each message, by name. Raises BrokerError when strace cannot look at the broker."""
    with tempfile.NamedTemporaryFile(dir=SCRATCH, suffix=".strace") as summary, started(start) as broker:
        valid(broker, warm_up(scenario))
        watching = subprocess.Popen(
            ["strace", "-f", "-c", "-U", "time-percent,total-time,avg-time,calls,errors,name", "-o", summary.name,
             "-p", str(broker.pid)],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert watching.stderr is not None
        said = watching.stderr.readline()
        if "attached" not in said:
            watching.kill()
            raise BrokerError(f"strace cannot look at the broker: {said.strip()}; it needs the right to trace it")
        run = valid(broker, scenario)
        watching.send_signal(signal.SIGINT)
        watching.communicate()
        counts = counted_system_calls(Path(summary.name).read_text())
    return {name: count / run.messages for name, count in counts.items()}


def python_calls(start: str, scenario: Scenario) -> float:
    """Calls of Python functions for each message, in the thread of the event loop."""
    if MODULE not in start:
        raise BrokerError(f"cProfile needs a start command with {MODULE.strip()!r}, not {start!r}")

    def total(load: Scenario) -> tuple[int, int]:
        with tempfile.NamedTemporaryFile(dir=SCRATCH, suffix=".profile") as profile:
            with started(start.replace(MODULE, f"-m cProfile -o {profile.name} {MODULE}")) as broker:
                messages = valid(broker, load).messages
            return pstats.Stats(profile.name).total_calls, messages  # type: ignore[attr-defined]  # not in typeshed

    seconds = scenario.traffic.seconds * SHORT
    short, long = total(replace(scenario, traffic=replace(scenario.traffic, seconds=seconds))), total(scenario)
    return (long[0] - short[0]) / max(1, long[1] - short[1])


def measured(start: str, scenario: Scenario) -> Work:
    """All figures of one scenario."""
    with started(start) as broker:
        valid(broker, warm_up(scenario))
        run = valid(broker, scenario)
    return Work(
        scenario=scenario.name,
        rate=run.rate,
        cpu_us=run.broker_cpu_us,
        system_calls=system_calls(start, scenario),
        python_calls=python_calls(start, scenario),
    )


def chosen(names: Sequence[str], seconds: float) -> list[Scenario]:
    """The scenarios with these names. Raises ScenarioError when one is not there, or measures memory."""
    files = load_scenarios()
    found = []
    for name in names:
        if name not in files:
            raise ScenarioError(f"no scenario {name!r}; python -m bench.run --list shows them")
        found += [replace(one, traffic=replace(one.traffic, seconds=seconds)) for one in files[name]]
    if memory := [one.name for one in found if one.is_memory]:
        raise ScenarioError(f"{memory[0]} measures memory: name a scenario that sends messages")
    return found


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.work_per_message",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", default=SCENARIOS, help=f"scenarios ({', '.join(SCENARIOS)})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"how long to publish ({SECONDS:g})")
    parser.add_argument("--start", default=HEADGATE, help="how to start the broker; {python}, {port}, {data}")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's description."""
    given = parsed(words)
    SCRATCH.mkdir(exist_ok=True)
    try:
        scenarios = chosen(given.names, given.seconds)
        if shutil.which("strace") is None:
            raise BrokerError("strace is not on the PATH: apt-get install strace")
        print(f"for each message, {given.seconds:g} s of load; see --help\n{HEADING}", flush=True)
        for scenario in scenarios:
            print(measured(given.start, scenario).line, flush=True)
    except TrialError as problem:
        print(f"no result: {problem}", file=sys.stderr)
        return 1
    except (ScenarioError, BrokerError, WireError, OSError) as problem:
        print(f"cannot measure: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
