"""Three real brokers and a real etcd: a queue that is auto-delete, and so of one node, is bound to an exchange of all.
It gets what is published there at its own node only, and at the others publishers learn what they would learn without
the binding."""

from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pika.exceptions
import pytest
import trio
from pika.adapters.blocking_connection import BlockingChannel

from amqp10.client import Message, connect
from amqp10.client_core.outcomes import Fate
from amqp10.wire.messaging import Accepted, Released
from tests.kit.cluster_nodes import ClusterNodes, cluster_nodes


@contextmanager
def channel_at(nodes: ClusterNodes, name: str) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(nodes.url(name) + "/%2F?socket_timeout=10")) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


async def sent(url: str, key: str) -> Fate:
    async with connect(url) as connection:
        sender = await connection.open_sender(f"/exchanges/orders/{key}")
        return await sender.send(Message(b"x"))


@pytest.mark.slow
def test_an_auto_delete_queue_gets_what_is_published_at_its_node_and_others_say_that_there_is_no_route():
    with cluster_nodes(groups=1, forwards=True) as nodes:
        with channel_at(nodes, "b") as channel:
            channel.exchange_declare("orders", "topic", durable=True)
            channel.queue_declare("of-b", durable=True, auto_delete=True)
            channel.queue_bind("of-b", "orders", "#")
            channel.queue_bind("of-b", "orders", "again")
            channel.queue_declare("of-all", durable=True, arguments={"x-queue-type": "quorum"})
            channel.queue_bind("of-all", "orders", "both")
        nodes.until(lambda: "of-all" in nodes.command("a", "bindings", "list"), "the others have the binding")
        assert "of-b" not in nodes.command("a", "bindings", "list")

        assert trio.run(sent, nodes.url("b"), "alone") == Accepted()
        assert trio.run(sent, nodes.url("a"), "alone") == Released()
        assert trio.run(sent, nodes.url("a"), "both") == Accepted()
        with channel_at(nodes, "a") as channel:
            with pytest.raises(pika.exceptions.UnroutableError):
                channel.basic_publish("orders", "alone", b"x", mandatory=True)
            channel.basic_publish("orders", "alone", b"x")  # confirmed, as any message without a queue
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as missing:
                channel.queue_bind("of-b", "orders", "#")
            assert missing.value.reply_code == 404
        with channel_at(nodes, "b") as channel:
            assert channel.queue_declare("of-b", passive=True).method.message_count == 1
        assert nodes.log("b").count("binding-of-one-node") == 1
        assert "binding-of-one-node" not in nodes.log("a")
        leader = nodes.leaders("b")[1]
        assert leader is not None
        with channel_at(nodes, leader) as channel:
            assert channel.queue_declare("of-all", passive=True).method.message_count == 1
