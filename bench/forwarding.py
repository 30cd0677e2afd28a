"""``python -m bench.forwarding``: what it costs that a queue lives on another node than its clients use.

Two brokers are started from this tree as nodes of a cluster, and one publisher and one consumer use a classic queue of
the home node: at the home node itself, and at the entry node, in turn. In bulk, messages of 12 bytes are published as
fast as they are confirmed, 1,000 at a time, and consumed; unbatched, each message is sent when the one before was
confirmed. The output has the rate, for both brokers the CPU time for each message, published and consumed, and the
time to the confirm of a batch, or of a message: the median and the 99th percentile. At the end, the medians of all
rounds, and what the way over the entry adds.

With ``--flow fixed``, which is the default of a broker, a publisher has 170 messages under way at most; with
``adaptive``, as many as the distance needs.

For example:

    python -m bench.forwarding
    python -m bench.forwarding --flow adaptive --link-credit 2000 --rounds 5

Exit status: 0.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import trio

from amqp10.client import Message, ReceiverOptions, connect
from bench.broker import Broker
from tests.kit.broker_process import BrokerAddress, broker_process

QUEUE, BODY = "/queues/forwarded", b"x" * 12
BATCH = 1_000
WARM_UP = 10
"""Batches before each measurement: the connection between the nodes is there, and code has run."""
COLUMNS = ("a second", "entry us", "home us", "p50 ms", "p99 ms")


@dataclass(frozen=True, slots=True)
class Reading:
    """The time and the CPU time of both brokers, in seconds."""

    at: float
    entry: float
    home: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description="What it costs that a queue lives on another node.")
    parser.add_argument("--messages", type=int, default=300_000, help="in bulk, a round (default: %(default)s)")
    parser.add_argument("--unbatched", type=int, default=5_000, help="one by one, a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of both places in turn (default: %(default)s)")
    parser.add_argument("--flow", choices=("fixed", "adaptive"), default="fixed", help="amqp10.flow of both brokers")
    parser.add_argument("--link-credit", type=int, default=200, help="of the consumer (default: %(default)s)")
    given = parser.parse_args(arguments)
    print(f"{'messages':10} {'client at':10}" + "".join(f" {column:>10}" for column in COLUMNS))
    with nodes(given.flow) as (entry, home):
        trio.run(declare, home.url())
        for name, count, batch in (("bulk", given.messages, BATCH), ("unbatched", given.unbatched, 1)):
            found: dict[str, list[list[float]]] = {"home": [], "entry": []}
            for _ in range(given.rounds if count else 0):
                for place, url in (("home", home.url()), ("entry", entry.url())):
                    row = measured(entry, home, url, count, batch, given.link_credit)
                    found[place].append(row)
                    show(name, place, row)
            if count:
                middle = {
                    place: [median(column) for column in zip(*rows, strict=True)] for place, rows in found.items()
                }
                for place, row in middle.items():
                    show(f"{name}, median", place, row)
                show(f"{name}, added", "", [there - here for here, there in zip(*middle.values(), strict=True)])
    return 0


def show(name: str, place: str, row: Sequence[float]) -> None:
    """Print a line of the table."""
    rate, *others = row
    print(f"{name:10} {place:10} {rate:10.0f}" + "".join(f" {value:10.2f}" for value in others), flush=True)


def measured(
    entry: BrokerAddress, home: BrokerAddress, url: str, count: int, batch: int, link_credit: int
) -> list[float]:
    """One measurement: the values of :data:`COLUMNS`."""
    trio.run(carry, url, WARM_UP * batch, batch, link_credit)
    before = read(entry, home)
    times = trio.run(carry, url, count, batch, link_credit)
    after = read(entry, home)
    costs = [1e6 * cpu / count for cpu in (after.entry - before.entry, after.home - before.home)]
    points = quantiles(times, n=100)
    return [count / (after.at - before.at), *costs, 1e3 * points[49], 1e3 * points[98]]


@contextmanager
def nodes(flow: str) -> Iterator[tuple[BrokerAddress, BrokerAddress]]:
    """Two nodes: the entry, and the home of the queue."""
    alone = f'[admin]\nenabled = false\n[amqp10]\nflow = "{flow}"\n[cluster]\ntrust_loopback = true\n'
    with TemporaryDirectory() as folder:
        file = Path(folder, "home.toml")
        file.write_text(f'{alone}node = "home"\n', encoding="utf-8")
        with broker_process("--config", str(file)) as home:
            other = f'[[cluster.nodes]]\nname = "home"\naddress = "{home.host}:{home.port}"\nqueues = ["forwarded"]\n'
            file = Path(folder, "entry.toml")
            file.write_text(f'{alone}node = "entry"\n{other}', encoding="utf-8")
            with broker_process("--config", str(file)) as entry:
                yield entry, home


def read(entry: BrokerAddress, home: BrokerAddress) -> Reading:
    """Read the clocks."""
    cpu = [Broker("Headgate", broker.url(), broker.pid).cpu_seconds() for broker in (entry, home)]
    return Reading(time.perf_counter(), *cpu)


async def declare(url: str) -> None:
    """Declare the queue."""
    async with connect(url) as connection:
        await connection.request("PUT", QUEUE, {"durable": False, "arguments": {"x-queue-type": "classic"}})


async def carry(url: str, count: int, batch: int, link_credit: int) -> list[float]:
    """Publish and consume so many messages, published ``batch`` at a time. Returns how long each batch took until it
    was confirmed, in seconds."""
    messages = [Message(BODY) for _ in range(batch)]
    times = []
    async with connect(url) as connection, trio.open_nursery() as nursery:

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
