"""``python -m bench.watched``: the cost of observing a broker.

Two brokers of this tree run side by side: one with default settings, and one that is observed: its metrics are scraped
every second and a console is open (the page's stream and polled paths), or it records flow events. Both get the same
load; which one comes first alternates. The output is the ratio of the broker's CPU time per message, the median of all
pairs with its 95 % interval. The observer runs in a process of its own, whose time does not count.

Exit status: 0; 1 when a run is void (messages lost, doubled or reordered); 3 when the median is above the goal.

For example:

    python -m bench.watched --by admin --pairs 20
    python -m bench.watched --by flow-events --scenarios bulk-12 unbatched-12 --seconds 1
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import math
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from amqp10.cli.free_ports import free_ports
from bench.broker import ROOT, SCRATCH, Broker, started
from bench.environment import sync_p50_ms
from bench.run import HEADGATE, SERVE
from bench.scenario import Scenario, load_scenarios
from bench.trial import run_once
from bench.turns import PAUSE_SECONDS, queue_names, warm_up

GOAL = {"admin": 1.05, "flow-events": 1.05}
CONFIDENCE = 0.95
STREAMED = "/api/headgate/live"
POLLED = {"/metrics": 1.0, "/api/headgate/flow-map": 2.0}
"""Paths with the seconds between two requests: Prometheus's, and those of the page that polls the most."""
ANSWER_SECONDS = 10.0


def settings(by: str, admin_port: int) -> str:
    """The observed broker's configuration."""
    if by == "flow-events":
        return "[admin]\nenabled = false\n[flow_events]\nenabled = true\n"
    return f'[admin]\nenabled = true\nlisten = ["127.0.0.1:{admin_port}"]\n'


def ask(port: int, path: str) -> int:
    """Make one request and read the whole answer; returns its size in bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise SystemExit(f"GET {path}: {answer.status} {answer.reason}")
        return len(answer.read())


def poll(port: int) -> None:
    """Poll the paths in :data:`POLLED`, for ever."""
    due = dict.fromkeys(POLLED, time.monotonic())
    while True:
        path = min(due, key=lambda one: due[one])
        time.sleep(max(0.0, due[path] - time.monotonic()))
        due[path] += POLLED[path]
        ask(port, path)


def follow(port: int) -> None:
    """Read the console's stream, for ever."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    connection.request("GET", STREAMED)
    answer = connection.getresponse()
    if answer.status != http.client.OK:
        raise SystemExit(f"GET {STREAMED}: {answer.status} {answer.reason}")
    while answer.read1(65536):
        pass
    raise SystemExit(f"{STREAMED} has ended")


@contextlib.contextmanager
def watching(by: str, port: int) -> Iterator[list[multiprocessing.Process]]:
    """Start the processes that observe."""
    todo = (poll, follow) if by == "admin" else ()
    processes = [multiprocessing.Process(target=one, args=(port,), daemon=True) for one in todo]
    for process in processes:
        process.start()
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.join()


def interval(ratios: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """An interval that contains the median of all possible measurements with at least this confidence.

    Of the sorted values it runs from the r-th lowest to the r-th highest, with the highest r for which the chance that
    fewer than r of n values lie on one side of the median, in either direction, is at most 1 - confidence (the sign
    test, inverted).
    """
    ordered, n = sorted(ratios), len(ratios)
    rank, chance = 0, 0.0
    while rank < n // 2:
        chance += 2 * math.comb(n, rank) / 2**n
        if chance > 1 - confidence:
            break
        rank += 1
    if rank == 0:
        return -math.inf, math.inf
    return ordered[rank - 1], ordered[n - rank]


def measure(plain: Broker, watched: Broker, scenario: Scenario, pairs: int) -> list[float]:
    """The ratio of CPU time per message, observed to plain, for each pair. Ends the process when a run is void."""
    names = queue_names()

    def one(broker: Broker, load: Scenario) -> float:
        time.sleep(PAUSE_SECONDS)
        run = run_once(broker, load, next(names))
        if run.void:
            print(f"{broker.url}: {run.void}: no result", file=sys.stderr)
            raise SystemExit(1)
        return run.broker_cpu_us

    for broker in (plain, watched):
        one(broker, warm_up(scenario))
    ratios = []
    for pair in range(pairs):
        order = (plain, watched) if pair % 2 == 0 else (watched, plain)
        cpu = {broker.url: one(broker, scenario) for broker in order}
        ratios.append(cpu[watched.url] / cpu[plain.url])
    return ratios


def run(given: argparse.Namespace, folder: Path) -> bool:
    """Measure all scenarios; returns whether each met the goal."""
    scenarios = load_scenarios()
    port, file, met = free_ports(1)[0], folder / "watched.toml", True
    file.write_text(settings(given.by, port))
    with started(HEADGATE) as plain, started(f"{SERVE} --config {file}") as watched:
        for name in given.scenarios:
            for scenario in scenarios[name]:
                load = replace(scenario, traffic=replace(scenario.traffic, seconds=given.seconds))
                with watching(given.by, port) as watchers:
                    ratios = measure(plain, watched, load, given.pairs)
                    if not all(process.is_alive() for process in watchers):
                        raise SystemExit("a watching process has stopped: no result")
                low, high = interval(ratios)
                middle = median(ratios)
                met &= middle <= GOAL[given.by]
                print(
                    f"{scenario.name}: CPU per message x{middle:.3f} (95 % interval of the median {low:.3f} to "
                    f"{high:.3f}, {len(ratios)} pairs); goal at most x{GOAL[given.by]:.2f}",
                    flush=True,
                )
    return met


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.watched", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--by", choices=tuple(GOAL), default="admin", help="what watches (default admin)")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.0, help="to publish in each run (default 1)")
    parser.add_argument("--scenarios", nargs="+", default=["bulk-12", "unbatched-12"])
    given = parser.parse_args(words)
    if unknown := [name for name in given.scenarios if name not in load_scenarios()]:
        parser.error(f"no scenario {unknown[0]!r}; python -m bench.run --list shows them")
    SCRATCH.mkdir(exist_ok=True)
    print(f"watched by {given.by}; fdatasync p50 {sync_p50_ms(ROOT):.3f} ms", flush=True)
    with TemporaryDirectory(dir=SCRATCH) as folder:
        return 0 if run(given, Path(folder)) else 3


if __name__ == "__main__":
    sys.exit(main())
