"""``python -m bench.backlog``: a backlog far larger than memory should cost, published, kept, recovered and consumed.

Fills one queue in slices and reads the rate and the broker's memory after each, so that the rate against the depth
shows; then kills the broker (SIGKILL), starts it again on the same data folder and takes the time; then consumes
everything, with the rate and the highest memory. Every message is accounted for. With ``--url`` a broker that runs
already is filled and emptied, without the kill: for another broker beside ours.

For example:

    python -m bench.backlog --messages 10000000 --size 1024 --mode lazy
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
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Self

from bench.broker import ROOT, SCRATCH, Broker, await_listening, connect, free_port
from bench.environment import sync_p50_ms
from bench.load import wire
from bench.load.management import Management
from bench.load.plan import Application, Traffic
from bench.trial import conduct, running

QUEUE = "backlog"
SLICES = 10
LINK_CREDIT = 1000
SAMPLE_SECONDS = 0.1
SECONDS_MAX = 36_000.0
"""A slice ends with its messages, not with the time."""


@dataclass(slots=True)
class Peak:
    """The highest memory of a broker while the block runs, sampled."""

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


def publish_to(broker: Broker, queue: str, traffic: Traffic, index: int = 0) -> float:
    """One slice. Returns messages per second, all of them confirmed."""
    began = time.monotonic()
    with running(broker, traffic, [[Application(publisher=index + 1, publish_to=queue)]]) as processes:
        outcome = conduct(processes)
    if sum(outcome.sent.values()) != traffic.messages or any(outcome.faults.values()):
        sys.exit(f"slice {index}: {outcome.sent} of {traffic.messages} messages, {outcome.faults}: no result")
    return traffic.messages / (time.monotonic() - began)


def consume(broker: Broker, traffic: Traffic, filled: dict[int, int]) -> tuple[float, int]:
    """All messages. Returns messages per second and the highest memory in bytes."""
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
    """The queue, durable."""
    pairs = [wire.string("x-queue-type"), wire.string(kind)]
    if mode == "lazy":
        pairs += [wire.string("x-queue-mode"), wire.string("lazy")]
    with Management(broker.url) as management:
        management.delete_queue(QUEUE)
        management.declare_queue_with(QUEUE, wire.map_of(*pairs))


class OwnBroker:
    """A broker of ours on a data folder that outlives it."""

    def __init__(self) -> None:
        SCRATCH.mkdir(exist_ok=True)
        self.data = Path(tempfile.mkdtemp(prefix="backlog-", dir=SCRATCH))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> tuple[Broker, float]:
        """The broker, and the seconds until it listened."""
        port = free_port()
        log = self.data.with_suffix(".log")
        began = time.monotonic()
        with log.open("ab") as output:
            words = [sys.executable, "-m", "amqp10", "serve", "--listen", f"127.0.0.1:{port}", "--data", str(self.data)]
            self._process = subprocess.Popen(words, stdout=output, stderr=output, cwd=ROOT)
        await_listening(self._process, port, log, 3600.0)
        took = time.monotonic() - began
        return connect(f"amqp://guest:guest@127.0.0.1:{port}", self._process.pid), took

    def end(self, how: signal.Signals) -> None:
        """Kill it, or ask it to stop; wait for that."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        self.end(signal.SIGKILL)

    def remove(self) -> None:
        """The data folder goes."""
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
    given = parser.parse_args(words)
    own = None if given.url else OwnBroker()
    broker = connect(given.url, given.pid) if own is None else own.start()[0]
    try:
        _run(given, broker, own)
    finally:
        if own is not None:
            own.end(signal.SIGTERM)
            own.remove()


def _run(given: argparse.Namespace, broker: Broker, own: OwnBroker | None) -> None:
    print(f"{broker.name}, {given.messages:,} x {given.size} B, {given.type}, {given.mode}; {os.cpu_count()} CPUs,"
          f" fdatasync p50 {sync_p50_ms(ROOT):.3f} ms", flush=True)  # fmt: skip
    declare(broker, given.mode, given.type)
    slice_messages = given.messages // SLICES
    traffic = Traffic(size=given.size, durable=True, messages=slice_messages, seconds=SECONDS_MAX)
    publish_to(broker, QUEUE, Traffic(size=given.size, durable=True, messages=1000, seconds=SECONDS_MAX), 99)
    with Management(broker.url) as management:
        management.purge_queue(QUEUE)
    before = broker.resident_bytes()
    rates = []
    for index in range(SLICES):
        rates.append(publish_to(broker, QUEUE, traffic, index))
        grown = broker.resident_bytes() - before
        print(f"published to {(index + 1) * slice_messages:>12,}: {rates[-1]:>9,.0f}/s, memory +{grown / 1e6:.1f} MB",
              flush=True)  # fmt: skip
    spread = (max(rates) - min(rates)) / median(rates)
    print(f"publish rate {median(rates):,.0f}/s (median), spread over the depth {spread:.0%}")
    if own is not None:
        own.end(signal.SIGKILL)
        broker, took = own.start()
        per = took / given.messages * 100_000
        print(f"killed and recovered in {took:.1f} s: {per:.2f} s per 100,000 messages,"
              f" memory {broker.resident_bytes() / 1e6:.1f} MB")  # fmt: skip
        before = broker.resident_bytes()
    filled = {index + 1: slice_messages for index in range(SLICES)}
    rate, peak = consume(broker, traffic, filled)
    print(f"consumed {rate:,.0f}/s, all in order, highest memory +{(peak - before) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
