"""``python -m bench.backlog``: publish, keep, recover and consume a backlog that is far larger than memory.

Fills one queue in slices and reads the rate, the broker's CPU time and its memory after each. Then it kills the broker
(SIGKILL), starts it again on the same data folder and measures the time. Then it consumes everything, and measures the
rate and the highest memory. Every message is accounted for. With ``--url`` it fills and empties a running broker,
without the kill, so that another broker can be compared with ours.

A slice is published in parts, and after each part as many messages go to an empty queue of the same kind. The disk, the
kernel's writes and other users of the machine slow both alike. So the rate of the deep queue divided by the rate of the
empty one shows the effect of the depth, and ``--goals`` judges that ratio. The empty queues are purged between the
slices and not before: the kernel reuses the memory of its latest writes for the next ones, and memory that it has not
used for long may cost twice the time.

For example:

    python -m bench.backlog --messages 10000000 --size 1024 --mode lazy --goals
    python -m bench.backlog --messages 500000 --mode default
    python -m bench.backlog --messages 500000 --url amqp://guest:guest@127.0.0.1:5673 --pid 4242
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Self

from amqp10.cli.free_ports import free_ports
from amqp10.load import wire
from amqp10.load.management import ManagementPair
from amqp10.load.plan import Application, PlannedTraffic
from bench.broker import ROOT, SCRATCH, Broker, await_listening, connect
from bench.environment import sync_p50_ms
from bench.trial import conduct, running

QUEUE = "backlog"
SLICES = 10
PARTS = 20
EMPTY_QUEUES = tuple(f"backlog-empty-{part}" for part in range(1, PARTS + 1))
WARM_UP_MESSAGES = 1000
SPREAD_MAX = 0.15
"""The largest spread of the rate over the depth that counts as flat."""
GROWTH_MB_MAX = {"publishing": 10.0, "recovering": 64 * 2**20 / 1e6, "consuming": 40.0}
RECOVERY_SECONDS_MAX = 2.0
"""The time in seconds in which 100,000 messages must be recovered."""
LINK_CREDIT = 1000
SAMPLE_SECONDS = 0.1
SECONDS_MAX = 36_000.0
"""A time so long that a slice ends with its messages, and not with the time."""


@dataclass(slots=True)
class Peak:
    """Samples the highest memory of a broker while the block runs."""

    broker: Broker
    resident: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.resident = max(self.resident, self.broker.resident_bytes())


def highest_resident_bytes(pid: int) -> int:
    """The highest memory of a process since it started, as the kernel reports it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@dataclass(frozen=True, slots=True)
class Published:
    """Messages per second, all of them confirmed, and the broker's CPU time for each message."""

    rate: float
    cpu_us: float


def publish_to(broker: Broker, queue: str, traffic: PlannedTraffic, publisher: int) -> Published:
    """Publish all messages of the traffic."""
    with running(broker, traffic, [[Application(publisher=publisher, publish_to=queue)]]) as processes:
        cpu_before = broker.cpu_seconds()
        outcome = conduct(processes)
        cpu_seconds = broker.cpu_seconds() - cpu_before
    if sum(outcome.sent.values()) != traffic.messages or any(outcome.faults.values()):
        sys.exit(f"publisher {publisher}: {outcome.sent} of {traffic.messages} messages, {outcome.faults}: no result")
    seconds = (outcome.end_ns - outcome.start_ns) / 1e9
    return Published(traffic.messages / seconds, cpu_seconds / traffic.messages * 1e6)


@dataclass(slots=True)
class Slice:
    """The parts published to the deep queue, and as many messages to an empty one after each."""

    deep: list[Published] = field(default_factory=list)
    empty: list[Published] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return median(part.rate for part in self.deep)

    @property
    def to_empty(self) -> float:
        """The rate divided by the rate of the empty queue between the parts."""
        return median(deep.rate / empty.rate for deep, empty in zip(self.deep, self.empty, strict=True))

    def __str__(self) -> str:
        cpu_us, empty_cpu_us = (median(part.cpu_us for part in parts) for parts in (self.deep, self.empty))
        empty_rate = median(part.rate for part in self.empty)
        return (
            f"{self.rate:>9,.0f}/s, {cpu_us:.2f} us of CPU; empty queue {empty_rate:>9,.0f}/s, {empty_cpu_us:.2f} us;"
            f" x{self.to_empty:.3f}"
        )


def publish_slice(broker: Broker, traffic: PlannedTraffic, index: int) -> Slice:
    """Publish one slice. Each part has its own publisher id, so that all messages can be accounted for."""
    done = Slice()
    for part, empty_queue in enumerate(EMPTY_QUEUES, index * PARTS + 1):
        done.deep.append(publish_to(broker, QUEUE, traffic, part))
        done.empty.append(publish_to(broker, empty_queue, traffic, part))
    purge(broker, EMPTY_QUEUES, traffic.messages)
    return done


def purge(broker: Broker, queues: Sequence[str], messages: int) -> None:
    """Purge the queues. Each must have ``messages`` messages."""
    with ManagementPair(broker.url) as management:
        for queue in queues:
            if (there := management.message_count(queue)) != messages:
                sys.exit(f"queue {queue}: {there} messages where {messages} were confirmed: no result")
            management.purge_queue(queue)


def spread(rates: Sequence[float]) -> float:
    """The difference between the highest and the lowest rate, as a share of the median."""
    return (max(rates) - min(rates)) / median(rates)


def consume(broker: Broker, traffic: PlannedTraffic, filled: dict[int, int]) -> tuple[float, int]:
    """Consume all messages. Returns messages per second and the highest memory in bytes."""
    consumer = Application(consume_from=QUEUE, link_credit=LINK_CREDIT)
    began = time.monotonic()
    with Peak(broker) as peak, running(broker, traffic, [[consumer]], patience_seconds=60.0) as processes:
        outcome = conduct(processes, filled=filled)
    received = [one for one in outcome.received if one]
    whole = [{publisher: [(0, count)] for publisher, count in filled.items()}]
    if received != whole or any(outcome.faults.values()):
        sys.exit(f"received {outcome.total_received} of {sum(filled.values())}, or not in order; {outcome.faults}")
    return sum(filled.values()) / (time.monotonic() - began), peak.resident


def declare(broker: Broker, mode: str, kind: str) -> None:
    """Declare all queues, durable."""
    pairs = [wire.string("x-queue-type"), wire.string(kind)]
    if mode == "lazy":
        pairs += [wire.string("x-queue-mode"), wire.string("lazy")]
    with ManagementPair(broker.url) as management:
        for queue in (QUEUE, *EMPTY_QUEUES):
            management.delete_queue(queue)
            management.declare_queue_with(queue, wire.map_of(*pairs))


class OwnBroker:
    """A broker of ours on a data folder that outlives it."""

    def __init__(self) -> None:
        SCRATCH.mkdir(exist_ok=True)
        self.data = Path(tempfile.mkdtemp(prefix="backlog-", dir=SCRATCH))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> tuple[Broker, float]:
        """Start the broker; returns it, and the seconds until it listened."""
        port = free_ports(1)[0]
        log = self.data.with_suffix(".log")
        began = time.monotonic()
        with log.open("ab") as output:
            words = [sys.executable, "-m", "amqp10", "serve", "--listen", f"127.0.0.1:{port}", "--admin", "off"]
            words += ["--data", str(self.data)]
            self._process = subprocess.Popen(words, stdout=output, stderr=output, cwd=ROOT)
        await_listening(self._process, port, log, 3600.0)
        took = time.monotonic() - began
        return connect(f"amqp://guest:guest@127.0.0.1:{port}", self._process.pid), took

    def end(self, how: signal.Signals) -> None:
        """Kill the broker, or ask it to stop; wait until it has ended."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait()

    def kill(self) -> None:
        """Kill the broker."""
        self.end(signal.SIGKILL)

    def remove(self) -> None:
        """Remove the data folder."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.with_suffix(".log").unlink(missing_ok=True)


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.backlog", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body (default 1024)")
    parser.add_argument("--mode", choices=("lazy", "default"), default="lazy")
    parser.add_argument("--type", choices=("classic", "quorum"), default="classic")
    parser.add_argument("--url", help="a broker that runs; default: one of ours is started, killed and started again")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--goals", action="store_true", help="exit with 1 unless flat, small and quick to recover")
    given = parser.parse_args(words)
    if given.messages < SLICES * PARTS:
        parser.error(f"--messages {given.messages}: at least {SLICES * PARTS}, one for each part")
    own = None if given.url else OwnBroker()
    broker = connect(given.url, given.pid) if own is None else own.start()[0]
    try:
        missed = _run(given, broker, own)
    finally:
        if own is not None:
            own.end(signal.SIGTERM)
            own.remove()
    if given.goals and missed:
        sys.exit("missed: " + "; ".join(missed))


def _run(given: argparse.Namespace, broker: Broker, own: OwnBroker | None) -> list[str]:
    """Run the whole benchmark. Returns the goals that were missed."""
    print(f"{broker.name}, {given.messages:,} x {given.size} B, {given.type}, {given.mode}; {os.cpu_count()} CPUs,"
          f" fdatasync p50 {sync_p50_ms(ROOT):.3f} ms", flush=True)  # fmt: skip
    declare(broker, given.mode, given.type)
    part_messages = given.messages // (SLICES * PARTS)
    traffic = PlannedTraffic(size=given.size, durable=True, messages=part_messages, seconds=SECONDS_MAX)
    idle = broker.resident_bytes()
    missed = _fill(broker, traffic)
    if own is not None:
        own.end(signal.SIGKILL)
        broker, took = own.start()
        per = took / given.messages * 100_000
        grown = (highest_resident_bytes(broker.pid) - idle) / 1e6
        print(f"killed and recovered in {took:.1f} s: {per:.2f} s per 100,000 messages, highest memory +{grown:.1f} MB")
        if per > RECOVERY_SECONDS_MAX:
            missed.append(f"recovery in {per:.2f} s per 100,000 messages, not {RECOVERY_SECONDS_MAX:.0f}")
        missed += _too_large("recovering", grown)
    before = broker.resident_bytes()
    rate, peak = consume(broker, traffic, dict.fromkeys(range(1, SLICES * PARTS + 1), part_messages))
    grown = (peak - before) / 1e6
    print(f"consumed {rate:,.0f}/s, all in order, highest memory +{grown:.1f} MB")
    return missed + _too_large("consuming", grown)


def _fill(broker: Broker, traffic: PlannedTraffic) -> list[str]:
    for queue in (QUEUE, *EMPTY_QUEUES):
        publish_to(broker, queue, replace(traffic, messages=WARM_UP_MESSAGES), 1)
    purge(broker, (QUEUE, *EMPTY_QUEUES), WARM_UP_MESSAGES)
    before = broker.resident_bytes()
    slices: list[Slice] = []
    for index in range(SLICES):
        slices.append(publish_slice(broker, traffic, index))
        grown = (broker.resident_bytes() - before) / 1e6
        print(f"published to {(index + 1) * PARTS * traffic.messages:>12,}: {slices[-1]}; memory +{grown:.1f} MB",
              flush=True)  # fmt: skip
    rates, ratios = [one.rate for one in slices], [one.to_empty for one in slices]
    print(f"publish rate {median(rates):,.0f}/s, {spread(rates):.0%} between the slowest slice and the fastest;"
          f" x{median(ratios):.3f} of the empty queue's, {spread(ratios):.0%} between them")  # fmt: skip
    flat = spread(ratios) <= SPREAD_MAX
    return ([] if flat else [f"rate over the depth not flat within {SPREAD_MAX:.0%}"]) + _too_large("publishing", grown)


def _too_large(doing: str, grown: float) -> list[str]:
    limit = GROWTH_MB_MAX[doing]
    return [f"memory +{grown:.1f} MB while {doing}, not {limit:.0f}"] if grown > limit else []


if __name__ == "__main__":
    main()
