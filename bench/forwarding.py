"""``python -m bench.forwarding``: what it costs that a queue lives on another node than its clients use.

Two brokers are started from this tree as nodes of a cluster, and one publisher and one consumer use a classic queue of
the home node, in turn: at the home node itself; at the entry node, which forwards; and connected to the entry node with
links that follow the leader to the home node, as the client does by itself. In bulk, messages of 12 bytes are published
as fast as they are confirmed, 1,000 at a time, and consumed; unbatched, each message is sent when the one before was
confirmed. The output has the rate, for both brokers the CPU time for each message, published and consumed, and the
time to the confirm of a batch, or of a message: the median and the 99th percentile. At the end, the medians of all
rounds, and what the way over the entry adds, and what is left of that where links follow.

With ``--flow fixed``, which is the default of a broker, a publisher has 170 messages under way at most; with
``adaptive``, as many as the distance needs.

With ``--two-senders`` something else is measured: what a slow queue of the home node costs the other links of a client.
One connection to the entry has a publisher to a classic queue of the entry, alone, and then beside a second publisher,
to a quorum queue of the home node, whose syncs take ``--sync-delay`` milliseconds longer. Both send settled durable
messages of 12 bytes as fast as their link credit lets them. The output has the messages a second that each queue took,
and the share of its rate alone that the classic link keeps; ``--goal`` checks that the median is 90 % or more.

For example:

    python -m bench.forwarding
    python -m bench.forwarding --flow adaptive --link-credit 2000 --rounds 5
    python -m bench.forwarding --two-senders
    python -m bench.forwarding --two-senders --sync-delay 50 --seconds 5 --rounds 5 --goal

Exit status: 0; 3 when a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import trio

from amqp10.client import ClientSettings, Message, ReceiverOptions, connect
from amqp10.load.management import ManagementPair
from bench.broker import Broker
from bench.together.job import Job, Report
from bench.together.measure import QueueKind, queues
from bench.trial import LoadProcess
from tests.kit.broker_process import UNPREPARED, BrokerAddress, broker_process

QUEUE, BODY = "/queues/forwarded", b"x" * 12
BATCH = 1_000
WARM_UP = 10
"""Batches before each measurement: the connection between the nodes is there, and code has run."""
STAYS, FOLLOWS = ClientSettings(leader_connections_max=0), ClientSettings()
QUICK, SLOW = "two-senders-quick", "two-senders-slow"
ALONE_MIN = 0.9
"""The least share of its rate alone that the link to the quick queue keeps."""
COLUMNS = ("a second", "entry us", "home us", "p50 ms", "p99 ms")


@dataclass(frozen=True, slots=True)
class Reading:
    """The time and the CPU time of both brokers, in seconds."""

    at: float
    entry: float
    home: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.forwarding", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=300_000, help="in bulk, a round (default: %(default)s)")
    parser.add_argument("--unbatched", type=int, default=5_000, help="one by one, a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of both places in turn (default: %(default)s)")
    parser.add_argument("--flow", choices=("fixed", "adaptive"), default="fixed", help="amqp10.flow of both brokers")
    parser.add_argument("--link-credit", type=int, default=200, help="of the consumer (default: %(default)s)")
    parser.add_argument("--two-senders", action="store_true", help="measure a slow queue beside a quick one")
    parser.add_argument("--sync-delay", type=float, default=20.0, help="ms, with --two-senders (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run of these (default: %(default)s)")
    parser.add_argument("--goal", action="store_true", help="of these: exit with 3 when it is missed")
    given = parser.parse_args(arguments)
    if given.two_senders:
        share = two_senders(given.flow, given.sync_delay, given.seconds, given.rounds)
        return 3 if given.goal and share < ALONE_MIN else 0
    print(f"{'messages':10} {'client at':10}" + "".join(f" {column:>10}" for column in COLUMNS))
    with nodes(given.flow) as (entry, home):
        trio.run(declare, home.url())
        for name, count, batch in (("bulk", given.messages, BATCH), ("unbatched", given.unbatched, 1)):
            places = (("home", home.url(), STAYS), ("entry", entry.url(), STAYS), ("followed", entry.url(), FOLLOWS))
            found: dict[str, list[list[float]]] = {place: [] for place, _, _ in places}
            for _ in range(given.rounds if count else 0):
                for place, url, settings in places:
                    row = measured(entry, home, partial(carry, url, settings, given.link_credit), count, batch)
                    found[place].append(row)
                    show(name, place, row)
            if count:
                middle = {
                    place: [median(column) for column in zip(*rows, strict=True)] for place, rows in found.items()
                }
                for place, row in middle.items():
                    show(f"{name}, median", place, row)
                for place in ("entry", "followed"):
                    added = [there - here for here, there in zip(middle["home"], middle[place], strict=True)]
                    show(f"{name}, added", place, added)
    return 0


def show(name: str, place: str, row: Sequence[float]) -> None:
    """Print a line of the table."""
    rate, *others = row
    print(f"{name:10} {place:10} {rate:10.0f}" + "".join(f" {value:10.2f}" for value in others), flush=True)


def measured(
    entry: BrokerAddress,
    home: BrokerAddress,
    work: Callable[[int, int], Awaitable[list[float]]],
    count: int,
    batch: int,
) -> list[float]:
    """One measurement of :func:`carry`: the values of :data:`COLUMNS`."""
    trio.run(work, WARM_UP * batch, batch)
    before = read(entry, home)
    times = trio.run(work, count, batch)
    after = read(entry, home)
    costs = [1e6 * cpu / count for cpu in (after.entry - before.entry, after.home - before.home)]
    points = quantiles(times, n=100)
    return [count / (after.at - before.at), *costs, 1e3 * points[49], 1e3 * points[98]]


def two_senders(flow: str, sync_delay_ms: float, seconds: float, rounds: int) -> float:
    """Measure a slow queue of the home node beside a quick one of the entry, and print. Returns the share of its rate
    alone that the link to the quick queue keeps: the median of all rounds."""
    print(f"{'round':>6} {'alone':>10} {'beside':>10} {'share':>7} {'slow':>8}   messages a second")
    shares = []
    with nodes(flow, f"[store]\nsync_delay = {sync_delay_ms / 1000}\n") as (entry, home):
        for number in range(1, rounds + 1):
            alone, _ = sent_settled(entry, home, (QUICK,), seconds)
            beside, slow = sent_settled(entry, home, (QUICK, SLOW), seconds)
            shares.append(beside / alone)
            print(f"{number:6} {alone:10.0f} {beside:10.0f} {shares[-1]:7.0%} {slow:8.0f}", flush=True)
    print(f"median {'':22} {median(shares):7.0%}")
    return median(shares)


def sent_settled(
    entry: BrokerAddress, home: BrokerAddress, names: tuple[str, ...], seconds: float
) -> tuple[float, float]:
    """Publish settled messages to these queues over one connection. Returns how many the quick queue and the slow one
    took a second."""
    kinds: dict[str, tuple[BrokerAddress, QueueKind]] = {QUICK: (entry, "classic"), SLOW: (home, "quorum")}
    with ExitStack() as stack:
        for name in names:
            node, kind = kinds[name]
            stack.enter_context(queues(Broker("Headgate", node.url(), node.pid), {name: kind}))
        counts = {name: stack.enter_context(ManagementPair(kinds[name][0].url())).message_count for name in names}
        job = Job(url=entry.url(), protocol="1.0", publish_to=names, seconds=seconds)
        process = stack.enter_context(LoadProcess(job, [sys.executable, "-m", "bench.together"]))
        process.expect("ready")
        began = time.monotonic()
        process.go(time.monotonic_ns())
        process.expect("over")
        lasted = time.monotonic() - began
        taken = {name: count(name) / lasted for name, count in counts.items()}
        faults = Report.of(process.expect("report")).faults
        assert not faults, faults
    return taken[QUICK], taken.get(SLOW, 0.0)


@contextmanager
def nodes(flow: str, of_home: str = "") -> Iterator[tuple[BrokerAddress, BrokerAddress]]:
    """Two nodes: the entry, and the home of the queue, which has more settings."""
    alone = f'[admin]\nenabled = false\n[amqp10]\nflow = "{flow}"\n[cluster]\ntrust_loopback = true\n'
    with TemporaryDirectory() as folder:
        file = Path(folder, "home.toml")
        file.write_text(f'{alone}node = "home"\n{of_home}', encoding="utf-8")
        with broker_process("--config", str(file), program=UNPREPARED) as home:
            other = f'[[cluster.nodes]]\nname = "home"\naddress = "{home.host}:{home.port}"\n'
            other += f'queues = ["forwarded", "{SLOW}"]\n'
            file = Path(folder, "entry.toml")
            file.write_text(f'{alone}node = "entry"\n{other}', encoding="utf-8")
            with broker_process("--config", str(file), program=UNPREPARED) as entry:
                yield entry, home


def read(entry: BrokerAddress, home: BrokerAddress) -> Reading:
    """Read the clocks."""
    cpu = [Broker("Headgate", broker.url(), broker.pid).cpu_seconds() for broker in (entry, home)]
    return Reading(time.perf_counter(), *cpu)


async def declare(url: str) -> None:
    """Declare the queue."""
    async with connect(url) as connection:
        await connection.request("PUT", QUEUE, {"durable": False, "arguments": {"x-queue-type": "classic"}})


async def carry(url: str, settings: ClientSettings, link_credit: int, count: int, batch: int) -> list[float]:
    """Publish and consume so many messages, published ``batch`` at a time. Returns how long each batch took until it
    was confirmed, in seconds."""
    messages = [Message(BODY) for _ in range(batch)]
    times = []
    async with connect(url, settings) as connection, trio.open_nursery() as nursery:

        async def consume() -> None:
            receiver = await connection.open_receiver(QUEUE, options=ReceiverOptions(automatic=False))
            left = got = 0
            while got < count:
                if left <= link_credit // 2:
                    left = link_credit
                    receiver.grant(left)
                for delivery in await receiver.receive_batch(BATCH):
                    delivery.accept()
                    got, left = got + 1, left - 1

        nursery.start_soon(consume)
        sender = await connection.open_sender(QUEUE)
        for _ in range(count // batch):
            began = time.perf_counter()
            await sender.send_many(messages)
            times.append(time.perf_counter() - began)
    return times


if __name__ == "__main__":
    raise SystemExit(main())
