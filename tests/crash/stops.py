"""``python -m tests.crash.stops --runs N``: stop a broker N times while its clients go on, and check how it ended.

Each run starts a broker on the same data folder, audits the promises of the runs before it, and stops it at a random
moment with SIGTERM and SIGINT in turns. Meanwhile publishers of both protocols wait for confirms, consumers settle,
clients of both protocols come and go, others send nothing or garbage, and one scrapes the metrics. A stop is in order
when the exit code is 0, the log has neither an error nor a stack, the next start is a clean one, and no confirmed
message is missing.

For example:

    python -m tests.crash.stops --runs 200
    python -m tests.crash.stops --runs 50 --busy 2 --seed 7
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from amqp10.client import connect
from amqp10.client_core.errors import ClientError
from amqp10.wire.framing import PROTOCOL_HEADER_SASL
from tests.crash.cycle import (
    CLIENT,
    KINDS,
    Subject,
    audit,
    broker,
    consume,
    declare,
    log_of,
    publish,
    work_while_it_lives,
)
from tests.crash.ledger import Verdict
from tests.kit.amqp091_socket import Amqp091Socket

SIGNALS = (signal.SIGTERM, signal.SIGINT)
CONFIGURATION = """
[server]
stop_grace = "1s"
"""
BY_091 = "classic 0-9-1"
"""The type of the queue whose publisher speaks AMQP 0.9.1."""
RUNS_PER_QUEUE = 20
"""After this many runs the queues get new names, because a stream that keeps everything takes longer to read
each time."""
LIFE_S = 0.4
"""The longest time from the first confirm of each publisher until the signal."""
RUN_SECONDS_MAX = 120.0
"""The longest time of a run on a busy machine. Otherwise a run takes a second or two."""
CHURNERS = 3
"""How many tasks of each kind open connections, one after the other."""
BURST = 8
"""How many connections a task of garbage opens at once."""
GARBAGE = (
    b"",
    b"AMQP",
    PROTOCOL_HEADER_SASL,
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01",
    bytes(64),
)
"""What those connections send: nothing, half a header, a header, HTTP, the beginning of TLS, zeros."""
Churn = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Counted:
    """The counts of a number of runs."""

    stops: int = 0
    slowest_s: float = 0.0
    connections: int = 0
    """Connections that were opened and closed again."""
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"{self.stops} stops, the slowest {self.slowest_s:.2f} s; {self.connections:,} connections came and went"
        ]
        return "\n".join([*lines, *(f"  {kind}: {verdict}" for kind, verdict in self.verdicts.items())])


class Stops:
    """Brokers that run one after another on one data folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.counted = Counted()
        self._folder = folder
        self._rng = random.Random(seed)
        self._subjects: list[Subject] = []
        self._configuration = folder.with_name("broker.toml")
        self._configuration.write_text(CONFIGURATION)
        self._log_seen = 0

    async def run(self, runs: int, *, say: bool = False) -> None:
        """Stop a broker this many times, and audit a last start. Raises AssertionError for a stop that was not in
        order."""
        began = time.monotonic()
        for number in range(runs):
            if number % RUNS_PER_QUEUE == 0:
                self._subjects = [Subject(kind, f"{kind.replace(' ', '-')}-{number}") for kind in (*KINDS, BY_091)]
            await self._run_once(SIGNALS[number % len(SIGNALS)], everything=True)
            self.counted.stops += 1
            if say and (number + 1) % 10 == 0:
                print(f"{number + 1} stops, {time.monotonic() - began:.0f} s", flush=True)
        await self._run_once(SIGNALS[0], everything=False)

    async def _run_once(self, number: signal.Signals, *, everything: bool) -> None:
        with trio.fail_after(RUN_SECONDS_MAX):
            options = ("--config", str(self._configuration), "--admin", "127.0.0.1:0")
            async with broker(self._folder, *options) as (url, process):
                async with connect(url, CLIENT) as connection:
                    for subject in self._subjects:
                        await declare(connection, subject)
                        settle = self._rng.random() < 0.5
                        await self._audit(partial(audit, connection, subject, settle=settle), subject)
                async with trio.open_nursery() as nursery:
                    if everything:
                        self._begin_everything(nursery, url)
                        await self._something_confirmed()
                        await trio.sleep(self._rng.random() * LIFE_S)
                    began = time.monotonic()
                    process.send_signal(number)
                    await trio.to_thread.run_sync(process.wait)
                    self.counted.slowest_s = max(self.counted.slowest_s, time.monotonic() - began)
                    nursery.cancel_scope.cancel()
        assert process.returncode == 0, f"exit code {process.returncode} after {number.name}"
        self._check_log()

    async def _audit(self, work: Callable[[dict[str, Verdict]], Awaitable[None]], subject: Subject) -> None:
        verdicts: dict[str, Verdict] = {}
        await work(verdicts)
        self.counted.verdicts.setdefault(subject.kind, Verdict()).add(verdicts[subject.kind])

    def _begin_everything(self, nursery: trio.Nursery, url: str) -> None:
        port = int(url.rpartition(":")[2])
        for subject in self._subjects:
            rng = random.Random(self._rng.random())
            nursery.start_soon(work_while_it_lives, url, consume, subject, rng)
            if subject.kind == BY_091:
                nursery.start_soon(self._again, partial(publish_091, port, subject))
            else:
                nursery.start_soon(work_while_it_lives, url, publish, subject, rng)
        churn: Sequence[Churn] = (
            partial(come_and_go, url),
            partial(come_and_go_091, port),
            partial(talk_nonsense, port, self._rng),
        )
        for work in churn:
            for _ in range(CHURNERS):
                nursery.start_soon(self._again, work)
        nursery.start_soon(self._again, partial(scrape, self._admin_port()))

    async def _something_confirmed(self) -> None:
        """Wait until each publisher has had a confirm."""
        before = [len(subject.ledger.confirmed) for subject in self._subjects]
        while any(  # noqa: ASYNC110 - nothing tells of outcomes, they are looked up
            len(subject.ledger.confirmed) <= count for subject, count in zip(self._subjects, before, strict=True)
        ):
            await trio.sleep(0.005)

    async def _again(self, work: Churn) -> None:
        """Call something again and again until the block is left, also when the broker has ended or lets no
        client in."""
        while True:
            try:
                await work()
            except* (ClientError, OSError, trio.BrokenResourceError, AssertionError):
                await trio.sleep(0.01)
            self.counted.connections += 1

    # --- the log

    def _lines(self) -> Iterator[dict[str, object]]:
        """The log of the present or last broker. Raises AssertionError for a line that is no event."""
        for line in log_of(self._folder).read_text()[self._log_seen :].splitlines():
            assert line.startswith("{"), f"in the log: {line}"
            yield json.loads(line)

    def _admin_port(self) -> int:
        (line,) = (line for line in self._lines() if line["event"] == "admin-listening")
        return int(str(line["addresses"]).rpartition(":")[2])

    def _check_log(self) -> None:
        for line in self._lines():
            assert line["level"] not in ("error", "critical"), line
            assert "exception" not in line, line
            if line["event"] == "store-opened":
                assert line["clean"] or not self.counted.stops, line
        self._log_seen = len(log_of(self._folder).read_text())


async def publish_091(port: int, subject: Subject) -> None:
    """Publish numbers in bursts, each after the burst before it was confirmed."""
    async with Amqp091Socket(await trio.open_tcp_stream("127.0.0.1", port)) as client:
        await client.log_in()
        while True:
            numbers = range(subject.next_number, subject.next_number + BURST)
            subject.next_number = numbers.stop
            subject.ledger.uncertain |= set(numbers)
            await client.publish(subject.name, [str(number).encode() for number in numbers])
            await client.confirmed()
            subject.ledger.confirmed |= set(numbers)
            subject.ledger.uncertain -= set(numbers)


async def come_and_go(url: str) -> None:
    """A client of AMQP 1.0 that logs in, opens a link to a dynamic node, and leaves."""
    async with connect(url, CLIENT) as connection:
        await connection.open_receiver(None)


async def come_and_go_091(port: int) -> None:
    """The same with AMQP 0.9.1. It leaves without a closing method."""
    async with Amqp091Socket(await trio.open_tcp_stream("127.0.0.1", port)) as client:
        await client.log_in()


async def talk_nonsense(port: int, rng: random.Random) -> None:
    """Open several connections at once that never log in."""
    with ExitStack() as stack:
        for _ in range(BURST):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            stack.callback(stream.socket.close)
            await stream.send_all(rng.choice(GARBAGE))
        await trio.sleep(rng.random() * 0.02)


async def scrape(port: int) -> None:
    """Scrape the metrics once."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        while await stream.receive_some():
            pass


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Run this many processes that only compute."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m tests.crash.stops"
    )
    parser.add_argument("--runs", type=int, default=200, help="how often to stop (default 200)")
    parser.add_argument("--busy", type=int, default=0, help="processes that keep the machine busy (default 0)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="repeats a run's random choices")
    parser.add_argument("--folder", type=Path, help="kept after a failure; default: a temporary one")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="headgate-stops-"))
    folder.mkdir(parents=True, exist_ok=True)
    stops = Stops(folder / "data", arguments.seed)
    with busy(arguments.busy):
        try:
            trio.run(partial(stops.run, arguments.runs, say=True))
        except* AssertionError as errors:
            sys.exit(
                f"seed {arguments.seed}, folder {folder} (kept), {stops.counted.stops} stops: {errors.exceptions[0]}"
            )
    print(stops.counted)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
