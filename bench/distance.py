"""Measure publishers at a distance: `python -m bench.distance`.

Publishers, which share one session, send to one queue through a proxy that delays all bytes (bench/delay_proxy.py); a
consumer without delay takes the messages. Each line has messages a second, the time from sending a message to its
confirm (median and 99 %), and the broker's CPU time for each message, with fixed and with adaptive flow control, and of
a peer if there is one. They take turns, so that other load on the machine disturbs all alike. The way without delay
goes through the proxy, too.

Without options, all is measured: six round trips, three numbers of links, two sizes, classic and quorum queues. With a
peer and five runs of three seconds that takes an hour and a half. So it can be measured in parts, each with a result
file of its own; --judge reads the files and prints the goals for all of them together.

The goals, by the rates of pairs of runs: without delay, adaptive is at least 0.95 times fixed; one link at 2 ms and
more has at least 5 times the rate of fixed, and 10 times that of the peer; 32 links at up to 50 ms have at least 0.8
times their rate without delay.

Examples:
  python -m bench.distance
  python -m bench.distance --round-trips 0 2 50 --links 1 --sizes 12 --queues classic --runs 3
  python -m bench.distance --queues quorum --links 32 --peer-url amqp://guest:guest@127.0.0.1:5673 --peer-pid 4711
  python -m bench.distance --seconds 1 --output mine.json
  python -m bench.distance --judge mine.json yours.json

Exit status: 0; 1 when a result is void (messages lost, doubled, reordered or refused), and with --judge when a goal is
missed; 2 when nothing could be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from amqp10.load.plan import Application, Plan, PlannedTraffic
from amqp10.load.wire import WireError
from bench.broker import ROOT, SCRATCH, Broker, BrokerError, connect, started
from bench.environment import observe
from bench.goals import Judgement, Quartiles
from bench.results import Entry, Figures, ResultError, Results
from bench.run import HEADGATE
from bench.trial import LoadProcess, TrialError, conduct, summarise

ROUND_TRIPS_MS = (0.0, 0.5, 2.0, 10.0, 50.0, 100.0)
LINKS = (1, 4, 32)
SIZES = (12, 4096)
BYTES_MAX = 2**30
"""What a run sends at most, so that the messages of a consumer that is behind fit into memory."""
CONSUMER_LINK_CREDIT = 2000
LOAD = [sys.executable, "-m", "amqp10.load"]
QUEUES = ("classic", "quorum")
FLOWS = ("fixed", "adaptive")
NEVER_WORSE = 0.95
"""Times the rate of fixed that adaptive has at least without delay."""
FAR_MS = 2.0
"""From this round trip on, one link has to be so many times as fast as others."""
TIMES_FIXED, TIMES_PEER = 5.0, 10.0
MANY_LINKS, MANY_LINKS_MS, KEPT_SHARE = 32, 50.0, 0.8
"""So many links keep this share of their rate without delay, up to this round trip."""
HEADING = (
    f"{'':12}{'messages/s':>12} {'(lowest - highest)':>22}{'confirm p50':>13}{'p99':>9}{'broker':>9}\n"
    f"{'':12}{'':12} {'':22}{'ms':>13}{'ms':>9}{'µs/msg':>9}"
)


@dataclass(frozen=True, slots=True)
class Point:
    """What is measured: a round trip in milliseconds, links that publish, the size of a body in bytes, and the type of
    the queue."""

    round_trip: float
    links: int
    size: int
    queue_type: str = "classic"

    def __str__(self) -> str:
        links = f"{self.links} link{'s' * (self.links > 1)}"
        return f"{self.round_trip:g} ms, {links}, {self.size:,} B, {self.queue_type} queue"

    def parameters(self) -> Figures:
        """The fields, as they stand in result files."""
        return {
            "round_trip_ms": self.round_trip, "links": self.links, "size": self.size, "queue_type": self.queue_type
        }  # fmt: skip

    @staticmethod
    def of(entry: Entry) -> Point:
        """What an entry of a result file was measured for."""
        found = entry.parameters
        return Point(
            float(str(found["round_trip_ms"])), int(str(found["links"])), int(str(found["size"])),
            str(found["queue_type"]),
        )  # fmt: skip


@contextlib.contextmanager
def far(broker: Broker, round_trip: float, *, jitter: float = 0.0, seed: int = 1) -> Iterator[str]:
    """The URL of a broker at this distance (milliseconds)."""
    place = urlsplit(broker.url)
    words = [sys.executable, "-m", "bench.delay_proxy", "--to", f"{place.hostname}:{place.port or 5672}"]
    words += ["--jitter", str(jitter), "--seed", str(seed)]
    with subprocess.Popen(
        [*words, "--round-trip", str(round_trip)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        try:
            where = proxy.stdout.readline().strip()
            if not where:
                raise BrokerError("the delay proxy did not start; its last words are above")
            login = place.netloc.rpartition("@")[0]
            yield urlunsplit(place._replace(netloc=f"{login}@{where}" if login else where))
        finally:
            proxy.stdin.close()


def applications(point: Point, queue: str) -> tuple[tuple[Application, ...], tuple[Application, ...]]:
    """The publishers, on one session, and the consumer."""
    publishers = [
        Application(publisher=number, publish_to=queue, shares="session" if number > 1 else "nothing")
        for number in range(1, point.links + 1)
    ]
    return tuple(publishers), (Application(consume_from=queue, link_credit=CONSUMER_LINK_CREDIT),)


def one_run(broker: Broker, point: Point, queue: str, *, seconds: float) -> Figures:
    """The figures of one run; a run that is interrupted is void."""
    traffic = PlannedTraffic(
        size=point.size, seconds=seconds, durable=point.queue_type != "classic", timed=True,
        messages=max(1, BYTES_MAX // (point.size + 200) // point.links),
    )  # fmt: skip
    try:
        with broker.management() as management:
            management.declare_queue(queue, queue_type=point.queue_type)
        try:
            return _measured(broker, point, queue, traffic)
        finally:
            with broker.management() as management:
                management.delete_queue(queue)
    except (TrialError, BrokerError, WireError, OSError) as failure:
        return {"void": f"broke off: {failure}"}


def _measured(broker: Broker, point: Point, queue: str, traffic: PlannedTraffic) -> Figures:
    with far(broker, point.round_trip) as url, contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(LoadProcess(Plan(url=where, traffic=traffic, applications=group), LOAD))
            for where, group in zip((url, broker.url), applications(point, queue), strict=True)
        ]
        for process in processes:
            process.expect("ready")
        cpu_before = broker.cpu_seconds()
        outcome = conduct(processes)
        cpu_seconds, resident = broker.cpu_seconds() - cpu_before, broker.resident_bytes()
    return summarise(outcome, consumed=True, cpu_seconds=cpu_seconds, resident=resident).to_json()


def line(name: str, entry: Entry) -> str:
    """One broker at one point."""
    if entry.void:
        return f"{name:12}VOID: {entry.void}"
    found = entry.figures
    rate, p50, p99, cpu = (found[figure] for figure in ("rate", "p50_ms", "p99_ms", "broker_cpu_us"))
    spread = f"({rate.low:,.0f} - {rate.high:,.0f})"
    return f"{name:12}{rate.median:>12,.0f} {spread:>22}{p50.median:>13,.2f}{p99.median:>9,.2f}{cpu.median:>9,.2f}"


def compared(entries: dict[str, Entry]) -> str:
    """What adaptive gives beside the others."""
    mine = entries["adaptive"]
    parts = [
        f"{mine.figures['rate'].median / other.figures['rate'].median:.3g} times {name}"
        for name, other in entries.items()
        if other is not mine and not other.void and not mine.void
    ]
    return f"{'':12}adaptive: {', '.join(parts)}" if parts else ""


def judgements(entries: Sequence[Entry]) -> list[tuple[Point, Judgement]]:
    """The goals for the points that were measured; a goal that needs a broker or a point that was not is left out."""
    by_point: dict[Point, dict[str, Entry]] = {}
    for entry in entries:
        by_point.setdefault(Point.of(entry), {})[entry.broker] = entry
    judged: list[tuple[Point, Judgement]] = []
    for point, found in by_point.items():
        limits: list[tuple[float, str, Entry | None]] = []
        if point.round_trip == 0:
            limits.append((NEVER_WORSE, "fixed", found.get("fixed")))
        if point.round_trip >= FAR_MS and point.links == 1:
            limits.append((TIMES_FIXED, "fixed", found.get("fixed")))
            limits += [(TIMES_PEER, name, entry) for name, entry in found.items() if name not in FLOWS]
        if point.links == MANY_LINKS and 0 < point.round_trip <= MANY_LINKS_MS:
            near = by_point.get(replace(point, round_trip=0.0), {})
            limits.append((KEPT_SHARE, "its rate at 0 ms", near.get("adaptive")))
        judged += [
            (point, Judgement(what="rate", limit=limit, than=f"times {name}", at_least=True, found=ratios(mine, other)))
            for limit, name, other in limits
            if (mine := found.get("adaptive")) is not None and other is not None
        ]
    return judged


def ratios(mine: Entry, other: Entry) -> Quartiles | None:
    """How many times the other rate this one is, by pairs of runs; None when a run is void."""
    if mine.void or other.void:
        return None
    pairs = zip(mine.runs, other.runs, strict=False)
    return Quartiles.of([float(str(one["rate"])) / float(str(two["rate"])) for one, two in pairs])


def summary(judged: Sequence[tuple[Point, Judgement]]) -> str:
    """A line for each goal, and how many are met."""
    lines = [f"{point}: {judgement}" for point, judgement in judged]
    met = sum(judgement.met is True for _, judgement in judged)
    return "\n".join([*lines, f"{met} of {len(judged)} goals are met"])


def measure(asked: argparse.Namespace) -> list[Entry]:
    """Measure all points, and print a line for each broker at each."""
    entries: list[Entry] = []
    points = [Point(*one) for one in product(asked.round_trips, asked.links, asked.sizes, asked.queues)]
    numbers = count(1)
    with contextlib.ExitStack() as stack:
        brokers = {
            flow: stack.enter_context(
                started(asked.start, configuration=f'[amqp10]\nflow = "{flow}"\n'),
            )
            for flow in FLOWS
        }
        if asked.peer_url:
            peer = connect(asked.peer_url, asked.peer_pid)
            brokers[peer.name] = peer
        for number, point in enumerate(points, 1):
            print(f"\n{number} of {len(points)}: {point}\n{HEADING}", flush=True)
            runs: dict[str, list[Figures]] = {name: [] for name in brokers}
            for _ in range(asked.runs):
                for name, broker in brokers.items():
                    queue = f"distance-{os.getpid()}-{next(numbers)}"
                    runs[name].append(one_run(broker, point, queue, seconds=asked.seconds))
            parameters = point.parameters() | {"seconds": asked.seconds}
            found = {
                name: Entry(scenario=str(point), parameters=parameters, broker=name, runs=tuple(runs[name]))
                for name in brokers
            }
            for name, entry in found.items():
                print(line(name[:11], entry), flush=True)
            print(compared(found), flush=True)
            entries += found.values()
    return entries


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line. Exits with 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.distance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--round-trips", type=float, nargs="+", default=ROUND_TRIPS_MS, metavar="MS")
    parser.add_argument("--links", type=int, nargs="+", default=LINKS, help="links that publish (1 4 32)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes of a body (12 4096)")
    parser.add_argument("--queues", choices=QUEUES, nargs="+", default=QUEUES, help="types of the queue (both)")
    parser.add_argument("--runs", type=int, default=5, help="measured runs for each broker and point (5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to publish (3)")
    parser.add_argument("--start", default=HEADGATE, help="how to start the broker; {python}, {port}, {data}")
    parser.add_argument("--peer-url", help="the broker to compare with")
    parser.add_argument("--peer-pid", type=int, help="its process; found by its port if we may look")
    parser.add_argument("--output", type=Path, help="the result file (bench/results/ with time and commit)")
    parser.add_argument(
        "--judge", type=Path, nargs="+", metavar="FILE", help="measure nothing: print the goals for these result files"
    )
    asked = parser.parse_args(arguments)
    for name, least in (("round_trips", 0), ("links", 1), ("sizes", 12)):
        if (wrong := min(getattr(asked, name))) < least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}, not {wrong:g}")
    for name in ("runs", "seconds"):
        if getattr(asked, name) <= 0:
            parser.error(f"--{name} must be above 0, not {getattr(asked, name):g}")
    return asked


def judge(files: Sequence[Path]) -> int:
    """Print the goals for result files. Returns the exit status."""
    try:
        judged = judgements([entry for file in files for entry in Results.read(file).entries])
    except (ResultError, OSError, KeyError, ValueError) as problem:
        print(f"cannot judge: {problem}", file=sys.stderr)
        return 2
    print(summary(judged))
    return 0 if all(judgement.met for _, judgement in judged) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write the result file. Returns the exit status."""
    asked = parse(arguments)
    if asked.judge:
        return judge(asked.judge)
    environment = observe(SCRATCH)
    print(f"commit {environment.commit}, {environment.interpreter}, {environment.machine}, "
          f"{len(environment.cpus)} CPUs")  # fmt: skip
    try:
        entries = measure(asked)
    except (BrokerError, WireError, ValueError, OSError) as problem:
        print(f"cannot measure: {problem}", file=sys.stderr)
        return 2
    output = asked.output or ROOT / "bench/results" / f"{time.strftime('%Y%m%d-%H%M%S')}-distance.json"
    Results(environment=environment.to_json(), warm_up_seconds=0.0, entries=tuple(entries)).write(output)
    print(f"\n{summary(judgements(entries))}\nresult file: {output}")
    return 1 if any(entry.void for entry in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
