"""Three real brokers and a real etcd: a quorum queue is used at any node, and follows its leader."""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink, SendingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.client_core.url import Url
from tests.kit.cluster_nodes import NAMES, ClusterNodes, cluster_nodes
from tests.kit.wire import data_message

QUEUE = "orders"
DURABLE = pika.BasicProperties(delivery_mode=2)
QUIET_S = 0.5
"""A queue that has given what is expected, and then nothing for so long, is empty."""
COME_S = 20.0
"""What is expected and has not come by then is lost."""


@contextmanager
def connected(nodes: ClusterNodes, name: str) -> Iterator[BlockingChannel]:
    parameters = pika.URLParameters(nodes.url(name) + "/%2F?socket_timeout=10&blocked_connection_timeout=10")
    connection = pika.BlockingConnection(parameters)
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


def publish(nodes: ClusterNodes, name: str, bodies: list[str]) -> list[str]:
    """Publish messages at a node, and return those that were confirmed."""
    confirmed = []
    with connected(nodes, name) as channel:
        for body in bodies:
            with suppress(pika.exceptions.NackError, pika.exceptions.UnroutableError):
                channel.basic_publish("", QUEUE, body.encode(), DURABLE, mandatory=True)
                confirmed.append(body)
    return confirmed


def drained(nodes: ClusterNodes, name: str, *, most: int, expected: Collection[str] = ()) -> list[tuple[str, bool]]:
    """Take messages at a node: not more than ``most``, and until all that are ``expected`` have come and then none for
    a while."""
    found: list[tuple[str, bool]] = []
    missing, deadline = set(expected), time.monotonic() + COME_S
    with connected(nodes, name) as channel:
        for method, _, body in channel.consume(QUEUE, inactivity_timeout=QUIET_S):
            if method is None:
                if not missing or time.monotonic() > deadline:
                    break
                continue
            missing.discard(body.decode())
            found.append((body.decode(), method.redelivered))
            channel.basic_ack(method.delivery_tag)
            if len(found) == most:
                break
        channel.cancel()
    return found


@pytest.mark.slow
def test_a_queue_is_used_at_any_node_and_follows_its_leader():
    with cluster_nodes(groups=1, forwards=True) as nodes:
        leader = nodes.leaders("a")[1]
        assert leader is not None
        entry, other = (name for name in NAMES if name != leader)
        nodes.command(entry, "queues", "declare", QUEUE, "--argument", "x-queue-type=quorum")
        for name in NAMES:
            nodes.until(lambda name=name: QUEUE in nodes.command(name, "queues", "list"), "each node has the queue")
        first = publish(nodes, entry, [f"{entry}-{number}" for number in range(20)])
        first += publish(nodes, other, [f"{other}-{number}" for number in range(20)])
        assert len(first) == 40
        half = drained(nodes, other, most=10, expected=first)
        assert not any(redelivered for _, redelivered in half)
        with connected(nodes, entry) as channel:
            consumer = channel.consume(QUEUE, inactivity_timeout=10)
            held = [next(consumer)[2].decode() for _ in range(3)]
            nodes.kill(leader)
            with suppress(pika.exceptions.AMQPError, StopIteration):
                while next(consumer)[0] is not None:
                    pass
        nodes.until(lambda: nodes.leaders(entry)[1] in (entry, other), "another node leads")
        assert all("node-refuses" in nodes.log(name) for name in (entry, other)), "they did not wait for its beats"
        nodes.until(lambda: any(row["leads_here"] for name in (entry, other) for row in nodes.status(name)["groups"]),
                    "and serves")  # fmt: skip
        later = [
            body for name in (entry, other) for body in publish(nodes, name, [f"later-{name}-{n}" for n in range(5)])
        ]
        assert len(later) == 10
        left = set(first) - {body for body, _ in half}
        rest = drained(nodes, entry, most=1000, expected=left | set(later)) + drained(nodes, other, most=1000)
        bodies = [body for body, _ in rest]
        assert left <= set(bodies), "lost"
        assert set(later) <= set(bodies)
        assert all(redelivered for body, redelivered in rest if body in held)


ROUNDS = 40
"""A node looks for new definitions four times a second, so that nearly each round finds the leader without them."""


@pytest.mark.slow
def test_a_queue_is_used_at_once_at_a_node_that_does_not_lead_it():
    with cluster_nodes(groups=1, forwards=True) as nodes:
        leader = nodes.leaders("a")[1]
        entry = next(name for name in NAMES if name != leader)
        arguments = {"x-queue-type": "quorum"}
        nodes.command(entry, "queues", "declare", QUEUE, "--argument", "x-queue-type=quorum")
        nodes.until(lambda: len(publish(nodes, entry, ["first"])) == 1, "it is connected to the leader")
        with connected(nodes, entry) as channel, BlockingConnection.open(Url.parse(nodes.url(entry))) as connection:
            management = BlockingManagement(connection)
            for number in range(ROUNDS):
                name = f"channel-{number}"
                channel.queue_declare(name, durable=True, arguments=arguments)
                assert channel.queue_purge(name).method.message_count == 0
                channel.basic_publish("", name, b"one", DURABLE, mandatory=True)
                assert channel.basic_get(name, auto_ack=True)[2] == b"one"
                address = f"/queues/link-{number}"
                management.request("PUT", address, {"durable": True, "arguments": arguments})
                receiving, sending = ReceivingLink.open(connection, address), SendingLink.open(connection, address)
                receiving.stream(1, messages=1)
                outcomes = sending.send([data_message(b"two")], within_s=COME_S)
                assert not sending.confirm(outcomes, within_s=COME_S)
                (run,) = receiving.arrived(within_s=COME_S)
                assert [entry.endswith(data_message(b"two")) for entry in run.entries] == [True]


@pytest.mark.slow
def test_a_queue_is_deleted_declared_again_and_used_at_once_at_a_node_that_does_not_lead_it():
    with cluster_nodes(groups=1, forwards=True) as nodes:
        leader = nodes.leaders("a")[1]
        entry = next(name for name in NAMES if name != leader)
        with BlockingConnection.open(Url.parse(nodes.url(entry))) as connection:
            management, address = BlockingManagement(connection), f"/queues/{QUEUE}"
            management.request("PUT", address, {"durable": True, "arguments": {"x-queue-type": "quorum"}})
            nodes.until(lambda: len(publish(nodes, entry, ["first"])) == 1, "it is connected to the leader")
            for _ in range(ROUNDS):
                assert management.request("DELETE", address).body == {"message_count": 1}
                management.request("PUT", address, {"durable": True, "arguments": {"x-queue-type": "quorum"}})
                sending = SendingLink.open(connection, address)
                assert not sending.confirm(sending.send([data_message(b"x")], within_s=COME_S), within_s=COME_S)
