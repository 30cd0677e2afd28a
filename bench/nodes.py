"""``python -m bench.nodes``: what several processes on one port gain, and what they cost.

A broker alone and ``headgate serve --nodes 2`` are started from this tree, in turn. Each of many classic queues has a
publisher and a consumer with connections of their own, in one client process; messages that are not durable, of 12
bytes unless ``--size`` says otherwise, are published 500 at a time. The output has the CPU time of each broker process
for a message, published and consumed, and what follows from it for more cores: the kernel spreads connections at
random, so with N nodes each end of a queue is at another node than the queue in N - 1 of N cases, and a message costs

    alone + (N - 1) / N x 2 x (two nodes - alone).

N nodes on N cores then take on N x alone / that cost times what a broker alone does, as long as there are more queues
than nodes: **one queue is on one node**, and is not quicker than there. Only CPU time is counted, so a client process
that is slower than the broker does not matter, nor does a machine with too few cores for the nodes.

For example:

    python -m bench.nodes
    python -m bench.nodes --queues 32 --messages 400000 --rounds 5

Exit status: 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import trio

from amqp10.client import Message, ReceiverOptions, connect
from bench.broker import Broker
from tests.kit.broker_process import UNPREPARED, broker_process
from tests.kit.one_port import one_port

BATCH, LINK_CREDIT = 500, 2_000
WARM_UP = 10
"""Batches before each measurement, for each queue."""
FLOW = ("--set", "amqp10.flow=adaptive")
CORES = (2, 4, 8, 16)


class Load(NamedTuple):
    """What is published and consumed in a measurement."""

    queues: int
    messages: int
    body: bytes


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description="What several processes on one port gain, and what they cost.")
    parser.add_argument("--queues", type=int, default=16, help="with a publisher and a consumer (default: %(default)s)")
    parser.add_argument("--messages", type=int, default=200_000, help="in all, a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of both (default: %(default)s)")
    parser.add_argument("--size", type=int, default=12, help="bytes of a message (default: %(default)s)")
    given = parser.parse_args(arguments)
    load = Load(given.queues, given.messages, b"x" * given.size)
    alone, together = [], []
    for _ in range(given.rounds):
        with broker_process(*FLOW, program=UNPREPARED) as broker:
            alone.append(sum(costs(broker.url(), {"alone": broker.pid}, load)))
        with TemporaryDirectory() as folder, one_port(Path(folder, "data"), 2, *FLOW) as nodes:
            pids = {f"node {node}": nodes.pid(node) for node in (1, 2)}
            together.append(sum(costs(nodes.url, pids, load)))
    one, two = median(alone), median(together)
    print(f"\nCPU time a message, medians: alone {one:.2f} us, two nodes {two:.2f} us")
    for cores in CORES:
        cost = of_nodes(cores, one, two)
        print(
            f"{cores:3} nodes: {cost:.2f} us a message; on {cores} cores {cores * one / cost:.2f} times a broker alone"
        )
    print("computed from CPU time; one queue is on one node, and has what a broker alone has at most")
    return 0


def of_nodes(count: int, alone: float, two: float) -> float:
    """What a message costs with so many nodes, from what it costs alone and with two."""
    return alone + (count - 1) / count * 2 * (two - alone)


def costs(url: str, pids: Mapping[str, int], load: Load) -> list[float]:
    """Publish and consume. Returns the CPU time of each process for a message, in microseconds, and prints it."""
    trio.run(carry, url, load._replace(messages=WARM_UP * load.queues * BATCH))
    brokers = [Broker("Headgate", url, pid) for pid in pids.values()]
    before = [broker.cpu_seconds() for broker in brokers]
    trio.run(carry, url, load)
    found = [1e6 * (broker.cpu_seconds() - at) / load.messages for broker, at in zip(brokers, before, strict=True)]
    print("  ".join(f"{name} {cost:.2f} us" for name, cost in zip(pids, found, strict=True)), flush=True)
    return found


async def carry(url: str, load: Load) -> None:
    """Publish and consume so many messages over all queues."""
    batches = max(1, load.messages // (load.queues * BATCH))
    async with trio.open_nursery() as nursery:
        for number in range(load.queues):
            nursery.start_soon(_carry_one, url, f"/queues/bench-{number}", batches, load.body)


async def _carry_one(url: str, queue: str, batches: int, body: bytes) -> None:
    messages = [Message(body)] * BATCH
    async with connect(url) as publishing, connect(url) as consuming, trio.open_nursery() as nursery:
        await publishing.request("PUT", queue, {"durable": True, "arguments": {"x-queue-type": "classic"}})

        async def consume() -> None:
            receiver = await consuming.open_receiver(queue, options=ReceiverOptions(automatic=False))
            left = got = 0
            while got < batches * BATCH:
                if left <= LINK_CREDIT // 2:
                    left = LINK_CREDIT
                    receiver.grant(left)
                for delivery in await receiver.receive_batch(BATCH):
                    delivery.accept()
                    got, left = got + 1, left - 1

        nursery.start_soon(consume)
        sender = await publishing.open_sender(queue)
        for _ in range(batches):
            await sender.send_many(messages)


if __name__ == "__main__":
    raise SystemExit(main())
