"""Three real brokers and a real etcd: a durable classic queue is used at any node, and its messages are on one."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pika
import pika.exceptions
import pytest
import trio
from pika.adapters.blocking_connection import BlockingChannel

from amqp10.client import Message, connect
from amqp10.client_core.errors import LinkClosed
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import Header
from tests.kit.cluster_nodes import NAMES, ClusterNodes, cluster_nodes
from tests.kit.command_line import run_here

QUEUE = "work"
DURABLE = pika.BasicProperties(delivery_mode=2)


@contextmanager
def channel_at(nodes: ClusterNodes, name: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(nodes.url(name) + "/%2F?socket_timeout=10"))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


def taken(nodes: ClusterNodes, name: str, n: int) -> list[str]:
    """Take messages at a node, over AMQP 0.9.1."""
    found: list[str] = []
    with channel_at(nodes, name) as channel:
        for method, _, body in channel.consume(QUEUE, inactivity_timeout=10):
            assert method is not None, f"only {found} have come"
            found.append(body.decode())
            channel.basic_ack(method.delivery_tag)
            if len(found) == n:
                return found
    raise AssertionError("consuming has ended")


async def sent(url: str, address: str, body: bytes) -> object:
    async with connect(url) as connection:
        sender = await connection.open_sender(address)
        return await sender.send(Message(body, header=Header(durable=True)))


async def nodes_told(url: str, queue: str) -> tuple[object, object]:
    """The leader of a queue and the nodes that keep it, as the management node says."""
    async with connect(url) as connection:
        answer = await connection.request("GET", f"/queues/{queue}")
        assert isinstance(answer.body, dict)
        return answer.body["leader"], answer.body["replicas"]


@pytest.mark.slow
def test_each_node_tells_clients_which_node_leads_a_queue_and_which_keep_it():
    with cluster_nodes(groups=1, forwards=True) as nodes:
        with channel_at(nodes, "a") as channel:
            channel.queue_declare(QUEUE, durable=True)
            channel.queue_declare("beside", durable=True, arguments={"x-queue-type": "quorum"})
        for name in NAMES:
            nodes.until(lambda name=name: "beside" in nodes.command(name, "queues", "list"), "each node has both")
            assert trio.run(nodes_told, nodes.url(name), QUEUE) == ("a", ["a"])
            assert trio.run(nodes_told, nodes.url(name), "beside") == (nodes.leaders(name)[1], [*NAMES])
        first = nodes.leaders("a")[1]
        assert first is not None
        nodes.kill(first)
        others = [name for name in NAMES if name != first]
        for name in others:
            nodes.until(lambda name=name: nodes.leaders(name)[1] in others, "another node leads")
            assert trio.run(nodes_told, nodes.url(name), QUEUE) == ("a", ["a"])
            assert trio.run(nodes_told, nodes.url(name), "beside") == (nodes.leaders(name)[1], [*NAMES])


@pytest.mark.slow
def test_a_durable_classic_queue_is_used_at_any_node_and_keeps_its_messages_while_its_node_is_away():
    with cluster_nodes(groups=1, forwards=True) as nodes:
        with channel_at(nodes, "a") as channel:
            channel.exchange_declare("orders", "topic", durable=True)
            channel.queue_declare(QUEUE, durable=True)
            channel.queue_declare("beside", durable=True, arguments={"x-queue-type": "quorum"})
            channel.queue_bind("beside", "orders", "both")
        for name in NAMES:
            nodes.until(lambda name=name: QUEUE in nodes.command(name, "queues", "list"), "each node has the queue")
        with channel_at(nodes, "c") as channel:
            channel.queue_declare(QUEUE, durable=True)
            channel.queue_bind(QUEUE, "orders", "eu.#")
            channel.queue_bind(QUEUE, "orders", "both")
        nodes.until(lambda: "eu.#" in nodes.command("b", "bindings", "list"), "each node has the binding")
        assert "binding-of-one-node" not in nodes.log("a") + nodes.log("c")

        with channel_at(nodes, "b") as channel:
            channel.basic_publish("orders", "eu.one", b"1", DURABLE, mandatory=True)
            channel.basic_publish("", QUEUE, b"2", DURABLE, mandatory=True)
        assert trio.run(sent, nodes.url("b"), "/exchanges/orders/eu.two", b"3") == Accepted()
        assert trio.run(sent, nodes.url("b"), f"/queues/{QUEUE}", b"4") == Accepted()
        assert sorted(taken(nodes, "c", 4)) == ["1", "2", "3", "4"]

        with channel_at(nodes, "b") as channel:
            for number in range(20):
                channel.basic_publish("orders", "eu.more", str(number).encode(), DURABLE, mandatory=True)
        nodes.kill("a")
        nodes.until(lambda: nodes.leaders("b")[1] in ("b", "c"), "another node leads")
        with channel_at(nodes, "b") as channel, pytest.raises(pika.exceptions.ChannelClosedByBroker) as away:
            channel.basic_consume(QUEUE, lambda *delivery: None)
        assert away.value.reply_code == 404
        assert "its home node a is down" in away.value.reply_text
        with pytest.raises(LinkClosed, match="home node a is down"):
            trio.run(sent, nodes.url("c"), f"/queues/{QUEUE}", b"refused")
        with channel_at(nodes, "b") as channel:
            with pytest.raises(pika.exceptions.NackError):
                channel.basic_publish("orders", "eu.lost", b"x", DURABLE)
            channel.basic_publish("orders", "no.route", b"x", DURABLE)
            assert channel.queue_declare("beside", passive=True).method.message_count == 0
        nodes.kill("c")
        nodes.start("c")
        nodes.until(lambda: "its home node a is down" in refusal(nodes, "c"), "node c has tried to reach the home")

        nodes.start("a")
        nodes.until(lambda: not refusal(nodes, "c") + refusal(nodes, "b"), "the home is back")
        assert taken(nodes, "c", 20) == [str(number) for number in range(20)]
        leaving = run_here("cluster", "leave", "a", url=nodes.url("b"))
        assert leaving.code != 0
        assert "classic queues live on node a (1)" in leaving.err
        nodes.command("b", "queues", "purge", QUEUE)
        nodes.command("b", "queues", "delete", QUEUE)
        for name in NAMES:
            nodes.until(lambda name=name: QUEUE not in nodes.command(name, "queues", "list"), "it is gone everywhere")


def refusal(nodes: ClusterNodes, name: str) -> str:
    """Why a node refuses a consumer of the queue; nothing if it does not."""
    with channel_at(nodes, name) as channel:
        try:
            channel.basic_cancel(channel.basic_consume(QUEUE, lambda *delivery: None))
        except pika.exceptions.ChannelClosedByBroker as refused:
            return refused.reply_text
        return ""


def is_here(nodes: ClusterNodes, seen_by: str, name: str) -> bool:
    """Whether a node counts as here."""
    return any(row["here"] for row in nodes.status(seen_by)["nodes"] if row["node"] == name)


@pytest.mark.slow
def test_a_queue_is_there_after_a_kill_as_soon_as_its_client_knows_of_it_and_goes_when_its_node_is_forgotten():
    with cluster_nodes(groups=1, forwards=True) as nodes:
        for number in range(3):
            nodes.until(lambda queue=f"new{number}": declares(nodes, "a", queue), "the node has read the definitions")
            with channel_at(nodes, "a") as channel:
                channel.basic_publish("", f"new{number}", b"kept", DURABLE, mandatory=True)
                nodes.kill("a")
            nodes.start("a")
            with channel_at(nodes, "a") as channel:
                assert channel.basic_get(f"new{number}", auto_ack=True)[2] == b"kept"
        assert "classic-queue-made-anew" not in nodes.log("a")

        nodes.kill("a")
        nodes.until(lambda: nodes.leaders("b")[1] in ("b", "c"), "another node leads")
        nodes.until(lambda: not is_here(nodes, "b", "a"), "a node that is here is not forgotten")
        nodes.command("b", "cluster", "forget", "a")
        for name in ("b", "c"):
            nodes.until(lambda name=name: "new" not in nodes.command(name, "queues", "list"), "they are gone")
        assert "queues-of-lost-nodes-removed" in nodes.log("b") + nodes.log("c")
        with channel_at(nodes, "c") as channel:
            channel.queue_declare("new1", durable=True)


def declares(nodes: ClusterNodes, name: str, queue: str) -> bool:
    with channel_at(nodes, name) as channel:
        try:
            channel.queue_declare(queue, durable=True)
        except pika.exceptions.ChannelClosedByBroker:
            return False
        return True
