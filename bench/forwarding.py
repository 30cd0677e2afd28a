"""``python -m bench.forwarding``: what it costs that a queue lives on another node than its clients use.

Two brokers are started from this tree as nodes of a cluster, and one publisher and one consumer use a classic queue of
the home node: first at the home node itself, then at the entry node. In bulk, messages of 12 bytes are published as
fast as they are confirmed, and consumed with the client's own link credit; unbatched, each message is sent when the one
before was confirmed. The output has the rate and, for both brokers, the CPU time for each message, published and
consumed.

For example:

    python -m bench.forwarding
    python -m bench.forwarding --messages 1000000 --unbatched 20000

Exit status: 0.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from amqp10.client import Message, connect
from bench.broker import Broker
from tests.kit.broker_process import BrokerAddress, broker_process

QUEUE, BODY = "/queues/forwarded", b"x" * 12
BATCH = 1_000
ALONE = "[admin]\nenabled = false\n[cluster]\ntrust_loopback = true\n"


@dataclass(frozen=True, slots=True)
class Reading:
    """The time and the CPU time of both brokers, in seconds."""

    at: float
    entry: float
    home: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description="What it costs that a queue lives on another node.")
    parser.add_argument("--messages", type=int, default=300_000, help="in bulk (default: %(default)s)")
    parser.add_argument("--unbatched", type=int, default=5_000, help="one by one (default: %(default)s)")
    given = parser.parse_args(arguments)
    print(f"{'messages':10} {'client at':10} {'a second':>10} {'entry us':>10} {'home us':>10}")
    with nodes() as (entry, home):
        trio.run(declare, home.url())
        for name, count, batch in (("bulk", given.messages, BATCH), ("unbatched", given.unbatched, 1)):
            for place, url in (("home", home.url()), ("entry", entry.url())):
                trio.run(carry, url, min(count, 10 * batch), batch)  # the connection between the nodes is there
                before = read(entry, home)
                trio.run(carry, url, count, batch)
                after = read(entry, home)
                spent = after.at - before.at
                costs = [1e6 * cpu / count for cpu in (after.entry - before.entry, after.home - before.home)]
                print(f"{name:10} {place:10} {count / spent:10.0f} {costs[0]:10.2f} {costs[1]:10.2f}", flush=True)
    return 0


@contextmanager
def nodes() -> Iterator[tuple[BrokerAddress, BrokerAddress]]:
    """Two nodes: the entry, and the home of the queue."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "home.toml")
        file.write_text(f'{ALONE}node = "home"\n', encoding="utf-8")
        with broker_process("--config", str(file)) as home:
            other = f'[[cluster.nodes]]\nname = "home"\naddress = "{home.host}:{home.port}"\nqueues = ["forwarded"]\n'
            file = Path(folder, "entry.toml")
            file.write_text(f'{ALONE}node = "entry"\n{other}', encoding="utf-8")
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


async def carry(url: str, count: int, batch: int) -> None:
    """Publish and consume so many messages, published ``batch`` at a time."""
    messages = [Message(BODY) for _ in range(batch)]
    async with connect(url) as connection, trio.open_nursery() as nursery:

        async def consume() -> None:
            receiver = await connection.open_receiver(QUEUE)
            got = 0
            while got < count:
                for delivery in await receiver.receive_batch(BATCH):
                    delivery.accept()
                    got += 1

        nursery.start_soon(consume)
        sender = await connection.open_sender(QUEUE)
        for _ in range(count // batch):
            await sender.send_many(messages)


if __name__ == "__main__":
    raise SystemExit(main())
