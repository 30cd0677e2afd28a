"""``python -m bench.declarations``: how fast queues are declared, filled and deleted, and what their neighbours notice.

Durable classic queues are declared, get one durable message each, and are deleted, over AMQP 0.9.1 and over the
management node of AMQP 1.0, in three ways:

- pipelined: one client sends many requests before it reads the answers;
- one at a time: one client waits for each answer;
- many clients: each of them waits for its answers, and all ask at once.

Meanwhile another process asks the broker for a small answer, again and again with a pause of a millisecond. The longest
wait for such an answer is at least as long as the event loop was ever late; on a busy machine it is longer, because the
processes wait for a processor too. The last column is the broker's CPU time for the three operations on one queue.

The broker is started for the measurement, with default settings but for the limit of queues. On ext4 without a journal
a folder with a file takes up to 2 ms of CPU time, and not 0.1 ms, for minutes after thousands of files were removed, as
each run does: compare two brokers on file systems that were just made, or with pauses. Headgate writes the description
of a queue a second after its declaration; the CPU time of those is counted with what is done then.

Examples:
  python -m bench.declarations
  python -m bench.declarations --queues 500 --only pipelined
  python -m bench.declarations --beside 10000 --goals

Exit status: 0; 1 with --goals when a pipelined rate is below {goal:,} a second or an answer took longer than {late} ms.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from amqp10.load import wire
from amqp10.load.management import ManagementPair
from amqp10.load.wire import WireError
from bench.broker import SCRATCH, Broker, started
from bench.goals import Judgement, figures_of
from bench.growth.peer091 import Peer091
from bench.growth.peer10 import Peer10
from bench.results import Entry, Figures
from bench.run import SERVE
from bench.turns import Say, void_run

GOAL = 3000
"""Operations a second."""
LATE_MS = 20
CLIENTS = 20
PROBE_PAUSE_SECONDS = 0.001
SETTINGS = "[engine]\nqueues_max = 2000000\n"
MANAGED = wire.map_of(wire.string("arguments"), wire.map_of())

RATES = ("declared", "filled", "deleted")

Ask = Callable[[Sequence[str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of declaring, filling and deleting queues; each function takes their names."""

    name: str
    declare: Ask
    fill: Ask
    delete: Ask


def _one_at_a_time(ask: Ask) -> Ask:
    def each(names: Sequence[str]) -> None:
        for name in names:
            ask([name])

    return each


def _by_many(begin: Sequence[Ask], end: Sequence[Callable[[], None]]) -> Ask:
    """Each client asks for one queue before the first one waits for its answer."""

    def all_at_once(names: Sequence[str]) -> None:
        for first in range(0, len(names), len(begin)):
            some = names[first : first + len(begin)]
            for name, ask in zip(some, begin, strict=False):
                ask([name])
            for _, wait in zip(some, end, strict=False):
                wait()

    return all_at_once


def _ways091(url: str) -> list[Way]:
    peer = Peer091(url)
    clients = [Peer091(url) for _ in range(CLIENTS)]
    waits = [client.sync_answered for client in clients]

    def fill(names: Sequence[str]) -> None:
        peer.publish([("", name) for name in names], durable=True)

    return [
        Way(name="0.9.1, pipelined", declare=peer.declare, fill=fill, delete=peer.delete),
        Way(name="0.9.1, one at a time", declare=_one_at_a_time(peer.declare), fill=_one_at_a_time(fill),
            delete=_one_at_a_time(peer.delete)),
        Way(name=f"0.9.1, {CLIENTS} clients", declare=_by_many([client.begin_declare for client in clients], waits),
            fill=fill, delete=_by_many([client.begin_delete for client in clients], waits)),
    ]  # fmt: skip


def _ways10(url: str) -> list[Way]:
    management, peer = ManagementPair(url), Peer10(url)
    clients = [ManagementPair(url) for _ in range(CLIENTS)]
    (link,) = peer.attach(None, role=wire.ROLE_SENDER)
    ends = [client.end for client in clients]

    def fill(names: Sequence[str]) -> None:
        peer.publish_to(link, [f"/queues/{name}" for name in names])

    def declare(names: Sequence[str]) -> None:
        management.request_all("PUT", [f"/queues/{name}" for name in names], MANAGED)

    def delete(names: Sequence[str]) -> None:
        management.request_all("DELETE", [f"/queues/{name}" for name in names], wire.NULL)

    def beginning(method: str, body: bytes) -> list[Ask]:
        def ask(client: ManagementPair) -> Ask:
            return lambda names: client.begin(method, f"/queues/{names[0]}", body)

        return [ask(client) for client in clients]

    return [
        Way(name="1.0, pipelined", declare=declare, fill=fill, delete=delete),
        Way(name="1.0, one at a time", declare=_one_at_a_time(declare), fill=_one_at_a_time(fill),
            delete=_one_at_a_time(delete)),
        Way(name=f"1.0, {CLIENTS} clients", declare=_by_many(beginning("PUT", MANAGED), ends), fill=fill,
            delete=_by_many(beginning("DELETE", wire.NULL), ends)),
    ]  # fmt: skip


def ways(url: str, wanted: str = "") -> list[Way]:
    """The ways in whose names this text is, with their connections."""
    return [way for way in (*_ways091(url), *_ways10(url)) if wanted in way.name]


def _probe(url: str, line: Connection) -> None:
    """Ask for small answers until told to stop, and send the longest wait since the last question, in seconds."""
    peer = Peer091(url)
    worst = 0.0
    while True:
        began = time.monotonic()
        peer.sync()
        worst = max(worst, time.monotonic() - began)
        if line.poll(PROBE_PAUSE_SECONDS):
            if not line.recv():
                return
            line.send(worst)
            worst = 0.0


class Probe:
    """The process that asks beside."""

    def __init__(self, url: str) -> None:
        self._line, other = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=_probe, args=(url, other), daemon=True)
        self._process.start()
        self.worst()

    def worst(self) -> float:
        """The longest wait since the last call, in seconds."""
        self._line.send(True)
        found: float = self._line.recv()
        return found

    def stop(self) -> None:
        """End the process."""
        self._line.send(False)
        self._process.join()


def measure(broker: Broker, way: Way, names: Sequence[str], probe: Probe) -> tuple[list[float], list[float], float]:
    """Declare, fill and delete the queues. Returns the rates, the longest waits beside, and the CPU time of a queue."""
    rates, waits = [], []
    cpu = broker.cpu_seconds()
    for ask in (way.declare, way.fill, way.delete):
        probe.worst()
        began = time.monotonic()
        ask(names)
        rates.append(len(names) / (time.monotonic() - began))
        waits.append(probe.worst())
    return rates, waits, (broker.cpu_seconds() - cpu) / len(names)


def compared(brokers: Sequence[Broker], wanted: Sequence[str], queues: int, runs: int, say: Say) -> list[list[Entry]]:
    """Measure the ways with these names on the brokers by turns. Returns for each way an entry per broker."""
    names = [f"declared-{one}" for one in range(queues)]
    with contextlib.ExitStack() as stack:
        asked = []
        for broker in brokers:
            probe = Probe(broker.url)
            stack.callback(probe.stop)
            asked.append((broker, {way.name: way for way in ways(broker.url)}, probe))
        figures: list[list[list[Figures]]] = [[[] for _ in brokers] for _ in wanted]
        for number in range(runs):
            say(f"run {number + 1} of {runs}")
            for name, kept in zip(wanted, figures, strict=True):
                for (broker, of_broker, probe), of_runs in zip(asked, kept, strict=True):
                    of_runs.append(_figures(broker, of_broker[name], names, probe))
    return [
        [
            Entry(scenario=f"declarations, {name}", parameters={"queues": queues}, broker=broker.name, runs=tuple(runs))
            for broker, runs in zip(brokers, kept, strict=True)
        ]
        for name, kept in zip(wanted, figures, strict=True)
    ]


def _figures(broker: Broker, way: Way, names: Sequence[str], probe: Probe) -> Figures:
    try:
        rates, waits, cpu = measure(broker, way, names, probe)
    except (WireError, OSError) as failure:
        return void_run(f"broke off: {failure}")
    return {
        **dict(zip(RATES, rates, strict=True)),
        "longest_wait_ms": 1000 * max(waits),
        "broker_cpu_us": 1e6 * cpu,
        "void": "",
    }


def judged(entry: Entry) -> list[Judgement]:
    """The goals of a pipelined way."""
    return [
        Judgement(what=f"queues {name}", limit=GOAL, than="a second", at_least=True, found=figures_of(entry, name))
        for name in RATES
    ] + [
        Judgement(what="longest wait beside", limit=LATE_MS, than="ms", found=figures_of(entry, "longest_wait_ms"))
    ]  # fmt: skip


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; ends the program with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.declarations",
        description=(__doc__ or "").format(goal=GOAL, late=LATE_MS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--queues", type=int, default=2000, help="queues that are declared in each way (2000)")
    parser.add_argument("--beside", type=int, default=0, help="durable queues that are there already (0)")
    parser.add_argument("--only", default="", metavar="TEXT", help="ways in whose name this text is")
    parser.add_argument("--goals", action="store_true", help="a missed goal makes exit status 1")
    options = parser.parse_args(arguments)
    if options.queues < 1 or options.beside < 0:
        parser.error("--queues is 1 or more, and --beside 0 or more")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's description. Returns the exit status."""
    options = parse(arguments)
    missed = []
    SCRATCH.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="declarations-", dir=SCRATCH) as folder:
        path = Path(folder) / "broker.toml"
        path.write_text(SETTINGS)
        with started(f"{SERVE} --config {path}") as broker:
            Peer091(broker.url).declare([f"beside-{one}" for one in range(options.beside)])
            probe = Probe(broker.url)
            names = [f"declared-{one}" for one in range(options.queues)]
            print(f"{'way':<24}{'declare/s':>12}{'fill/s':>12}{'delete/s':>12}{'longest waits ms':>24}{'CPU us':>10}")
            for way in ways(broker.url, options.only):
                rates, waits, cpu = measure(broker, way, names, probe)
                beside = ", ".join(f"{1000 * wait:.1f}" for wait in waits)
                figures = "".join(f"{rate:>12,.0f}" for rate in rates)
                print(f"{way.name:<24}{figures}{beside:>24}{1e6 * cpu:>10.0f}", flush=True)
                if max(waits) * 1000 > LATE_MS or ("pipelined" in way.name and min(rates) < GOAL):
                    missed.append(way.name)
            probe.stop()
    if missed and options.goals:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
