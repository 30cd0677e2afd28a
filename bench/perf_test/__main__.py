"""``python -m bench.perf_test``: headgate bench and RabbitMQ's PerfTest with the same loads on the same broker.

Both speak AMQP 0.9.1 to one Headgate of this tree, in turns, with queues that are made for each run. A figure is the
median of the seconds after the first three, in which Java compiles, and of all rounds. The messages a second must be
alike within a tenth; latencies are shown beside each other. The CPU time of a tool for one message is that of a run
less that of its start, which a run of one second shows.

Exit status 1 says that the rates of a load differ by more than a tenth. It needs Java 17 or newer, and Maven once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from bench.broker import Broker, BrokerError, started
from bench.perf_test.tools import LOADS, TOOLS, Load, command, readings, run
from bench.together.brokers import START

WARM_UP_S = 3
ALIKE = 0.1
FIGURES = (("sent", "sent/s"), ("received", "received/s"), ("p50", "50 %, ms"), ("p99", "99 %, ms"))


@dataclass(slots=True)
class Measured:
    """What one tool said of one load."""

    seconds: list[Mapping[str, float]] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def figure(self, name: str) -> float:
        """The median of a figure."""
        return median(one[name] for one in self.seconds)


def measure(load: Load, broker: Broker, rounds: int, seconds: int) -> dict[str, Measured]:
    """Run both tools in turns. Raises BrokerError."""
    found = {tool: Measured() for tool in TOOLS}
    for _ in range(rounds):
        for tool, measured in found.items():
            _, start = _run(tool, replace(load, rate=load.producers), broker, 1)
            said, cpu = _run(tool, load, broker, seconds + WARM_UP_S)
            each = list(readings(tool, said, consumers=load.consumers > 0))
            if len(each) <= WARM_UP_S:
                raise BrokerError(f"{tool} said nothing of {load.name}: {said[-500:]}")
            measured.seconds += each[WARM_UP_S:]
            measured.cpu_us.append((cpu - start) / sum(one["sent"] for one in each) * 1e6)
    return found


def _run(tool: str, load: Load, broker: Broker, seconds: int) -> tuple[str, float]:
    queue = "bench-perf-test"
    with broker.management() as management:
        management.declare_queue(queue)
    try:
        return run(command(tool, load, broker.url, queue, seconds))
    finally:
        with broker.management() as management:
            management.delete_queue(queue)


def differ(found: Mapping[str, Measured], consumers: int) -> list[str]:
    """The rates that are not alike."""
    ours, theirs = (found[tool] for tool in TOOLS)
    names = ("sent", "received") if consumers else ("sent",)
    return [name for name in names if abs(ours.figure(name) / max(1.0, theirs.figure(name)) - 1) > ALIKE]


def table(found: Mapping[str, Mapping[str, Measured]]) -> str:
    """The figures of all loads, as a table in Markdown."""
    lines = ["| load | tool | " + " | ".join(title for _, title in FIGURES) + " | CPU of the tool, µs a message |"]
    lines.append("|---|---|" + "--:|" * (len(FIGURES) + 1))
    for load, tools in found.items():
        for tool, measured in tools.items():
            cells = [f"{measured.figure(name):,.{2 if name.startswith('p') else 0}f}" for name, _ in FIGURES]
            lines.append(f"| {load} | {tool} | {' | '.join(cells)} | {median(measured.cpu_us):.1f} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's description."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.perf_test", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each load (default 3)")
    parser.add_argument("--seconds", type=int, default=10, help="that count of each round (default 10)")
    given = parser.parse_args(words)
    if given.rounds < 1 or given.seconds < 1:
        parser.error("--rounds and --seconds must be 1 or more")
    try:
        with started(START) as broker:
            found = {load.name: measure(load, broker, given.rounds, given.seconds) for load in LOADS}
    except BrokerError as problem:
        print(problem, file=sys.stderr)
        return 2
    print(table(found))
    wrong = {load.name: differ(found[load.name], load.consumers) for load in LOADS}
    for name, figures in wrong.items():
        if figures:
            print(f"{name}: the tools differ by more than a tenth: {', '.join(figures)}")
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
