"""Two real processes on one port: clients do not know at which they are, and kill -9 loses nothing confirmed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pika
import pika.exceptions
import pytest
import trio

from amqp10.client import Message, connect
from core.cluster.digest_homes import homes_by_digest
from tests.kit.broker_process import ROOT
from tests.kit.one_port import OnePort, one_port, until

DURABLE = pika.BasicProperties(delivery_mode=2)
home_of = homes_by_digest(("1", "2"))


def named_at(node: int, prefix: str = "orders") -> str:
    """The name of a queue that lives on a node."""
    return next(name for name in (f"{prefix}-{number}" for number in range(100)) if home_of("/", name) == str(node))


@pytest.fixture(scope="module")
def shared_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnePort]:
    """Two nodes for the tests that stop none. The exchanges and queues of each have names of their own."""
    with one_port(tmp_path_factory.mktemp("shared") / "data") as nodes:
        yield nodes


def drained(channel, queue: str) -> list[str]:
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2].decode())
    return found


@pytest.mark.slow
def test_clients_of_both_protocols_use_every_queue_at_either_node(shared_nodes: OnePort):
    first, second = shared_nodes.connect(1).channel(), shared_nodes.connect(2).channel()
    for channel in (first, second):
        channel.confirm_delivery()
    names = [named_at(1), named_at(2)]
    for name in names:
        first.queue_declare(name, durable=True)
        second.queue_declare(name, passive=True)  # at once: a client is answered when all nodes have it
    stream = named_at(2, "events")
    first.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    first.exchange_declare("news", "fanout", durable=True)
    for name in (*names, stream):
        second.queue_bind(name, "news")
    for channel, text in ((first, "from 1"), (second, "from 2")):
        channel.basic_publish("news", "", text.encode(), DURABLE, mandatory=True)
        for name in names:
            channel.basic_publish("", name, f"{text} to {name}".encode(), DURABLE, mandatory=True)
    assert drained(second, names[0]) == ["from 1", f"from 1 to {names[0]}", "from 2", f"from 2 to {names[0]}"]
    assert drained(first, names[1]) == ["from 1", f"from 1 to {names[1]}", "from 2", f"from 2 to {names[1]}"]

    async def over_amqp10() -> list[str]:
        found = []
        for _ in range(4):  # connections are at either node
            async with connect(shared_nodes.url) as connection:
                sender = await connection.open_sender(f"/queues/{names[1]}")
                await sender.send(Message("over AMQP 1.0"))
                receiver = await connection.open_receiver(f"/queues/{names[1]}")
                delivery = await receiver.receive()
                found.append(delivery.message.body)
                delivery.accept()
        return found

    assert trio.run(over_amqp10) == ["over AMQP 1.0"] * 4
    assert second.queue_delete(names[0]).method.message_count == 0
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue"):
        first.queue_declare(names[0], passive=True)


@pytest.mark.slow
def test_exclusive_and_transient_queues_and_replies_reach_clients_of_the_other_node(shared_nodes: OnePort):
    at_first, at_second = shared_nodes.connect(1), shared_nodes.connect(2)
    first, second = at_first.channel(), at_second.channel()
    first.confirm_delivery()
    own = second.queue_declare("", exclusive=True).method.queue
    first.exchange_declare("passing-news", "fanout")
    second.queue_bind(own, "passing-news")
    first.basic_publish("passing-news", "", b"through the exchange", mandatory=True)
    first.basic_publish("", own, b"by name", mandatory=True)
    assert drained(second, own) == ["through the exchange", "by name"]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="exclusive"):
        at_first.channel().queue_declare(own, passive=True)

    replies: list[bytes] = []
    second.basic_consume("amq.rabbitmq.reply-to", lambda *delivery: replies.append(delivery[3]), auto_ack=True)
    first.queue_declare("requests")
    asking = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
    second.basic_publish("", "requests", b"a question", asking)
    questions: list[str] = []
    first.basic_consume("requests", lambda *delivery: questions.append(delivery[2].reply_to), auto_ack=True)
    until(lambda: at_first.process_data_events(0.1) is None and bool(questions), "the request")
    first.basic_publish("", questions[0], b"an answer", mandatory=True)
    until(lambda: at_second.process_data_events(0.1) is None and bool(replies), "the answer")
    assert replies == [b"an answer"]

    shared = named_at(1, "passing")
    second.queue_declare(shared, auto_delete=True)
    tags = [channel.basic_consume(shared, lambda *delivery: None) for channel in (first, second)]
    second.basic_cancel(tags[1])
    second.queue_declare(shared, passive=True)
    first.basic_cancel(tags[0])
    until(lambda: not is_there(at_second, shared), "its last consumer has gone")

    at_second.close()
    until(lambda: is_unroutable(first, own), "the exclusive queue has gone with its connection")


def is_unroutable(channel, queue: str) -> bool:
    try:
        channel.basic_publish("", queue, b"too late", mandatory=True)
    except (pika.exceptions.UnroutableError, pika.exceptions.NackError):
        return True
    return False


def is_there(connection, queue: str) -> bool:
    try:
        connection.channel().queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    return True


@pytest.mark.slow
def test_a_dynamic_node_gets_answers_from_either_node(shared_nodes: OnePort):
    async def ask(url: str) -> list[str]:
        async with connect(url) as asker:
            receiver = await asker.open_receiver(None)
            for number in range(8):
                async with connect(url) as connection:
                    sender = await connection.open_sender(receiver.address)
                    await sender.send(Message(f"answer {number}"))
            return sorted([(await receiver.receive()).message.body for _ in range(8)])

    assert trio.run(ask, shared_nodes.url) == [f"answer {number}" for number in range(8)]


@pytest.mark.slow
def test_a_node_that_is_killed_comes_back_with_its_durable_messages(tmp_path):
    with one_port(tmp_path / "data") as nodes:
        for home, other in ((2, 1), (1, 2)):
            name = named_at(home)
            with nodes.connect(other) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare(name, durable=True)
                for number in range(50):
                    channel.basic_publish("", name, str(number).encode(), DURABLE, mandatory=True)
                nodes.kill(home)
                assert channel.is_open, "a client of another node stays connected"
            with nodes.connect(home) as connection:
                assert drained(connection.channel(), name) == [str(number) for number in range(50)]
            with nodes.connect(other) as connection:
                connection.channel().queue_declare(f"{name}-later", durable=True)


@pytest.mark.slow
def test_a_declaration_waits_for_the_first_node_and_exclusive_queues_end_with_their_node(tmp_path):
    with one_port(tmp_path / "data") as nodes:
        first, second = nodes.connect(1).channel(), nodes.connect(2).channel()
        second.confirm_delivery()
        own = first.queue_declare("", exclusive=True).method.queue
        second.exchange_declare("news", "fanout", durable=True)
        first.queue_bind(own, "news")
        second.basic_publish("news", "", b"taken", mandatory=True)
        os.kill(nodes.pid(1), signal.SIGKILL)
        second.queue_declare(named_at(2), durable=True)  # is answered by the next life of the first node
        nodes.wait_for(1)
        second.queue_bind(named_at(2), "news")
        until(lambda: not is_there(nodes.connect(2), own), "the queue is removed")
        second.basic_publish("news", "", b"only to the queue that is left", DURABLE, mandatory=True)
        assert drained(second, named_at(2)) == ["only to the queue that is left"]


@pytest.mark.slow
def test_the_nodes_end_with_the_process_of_the_command_however_it_ends(tmp_path):
    name = named_at(2)
    with one_port(tmp_path / "data") as nodes:
        channel = nodes.connect(1).channel()
        channel.confirm_delivery()
        channel.queue_declare(name, durable=True)
        channel.basic_publish("", name, b"kept", DURABLE, mandatory=True)
        pids = [nodes.pid(node) for node in (1, 2)]
        assert nodes.stop(signal.SIGKILL) == -signal.SIGKILL
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "no node is left")
    with one_port(tmp_path / "data") as nodes:
        assert drained(nodes.connect(1).channel(), name) == ["kept"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_nothing_that_was_confirmed_is_lost(tmp_path, seed):
    rng = Random(seed)
    with one_port(tmp_path / "data") as nodes:
        names = [f"q{number}" for number in range(6)]
        with nodes.connect(1) as connection:
            for name in names:
                connection.channel().queue_declare(name, durable=True)
        confirmed: set[str] = set()
        for life in range(4):
            publish(nodes, names, rng, confirmed, f"{seed}-{life}")
        found: list[str] = []
        connection = nodes.connect(rng.choice((1, 2)))
        for name in names:  # the last node to die is ready, and the other one connects to it within 0.2 s
            until(lambda name=name: is_there(connection, name) and gets(connection, name, found), "its home is back")
        assert len(confirmed) >= 4 * 50, "what is published before each kill"
        assert confirmed <= set(found)


def gets(connection, queue: str, found: list[str]) -> bool:
    """Take everything from a queue. Returns whether its home was reached."""
    channel = connection.channel()
    try:
        found += drained(channel, queue)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    return True


def publish(nodes: OnePort, names: list[str], rng: Random, confirmed: set[str], prefix: str) -> None:
    """Publish over a connection to each node while one node is killed."""
    channels = {node: confirming(nodes, node) for node in (1, 2)}

    def is_confirmed(body: str) -> bool:
        """Publish once. What is not confirmed may be there or not, and its channel may be closed."""
        node = rng.choice((1, 2))
        try:
            channels[node].basic_publish("", rng.choice(names), body.encode(), DURABLE, mandatory=True)
        except pika.exceptions.AMQPError:
            with suppress(pika.exceptions.AMQPError):
                channels[node] = confirming(nodes, node)
            return False
        confirmed.add(body)
        return True

    dies = rng.choice((1, 2))
    for number in range(50):  # a node that has just started may not have reached the other one yet
        until(partial(is_confirmed, f"{prefix}-{number}"), "a message is confirmed")
    nodes.kill(dies)
    for number in range(50, 100):
        is_confirmed(f"{prefix}-{number}")


def confirming(nodes: OnePort, node: int):
    channel = nodes.connect(node).channel()
    channel.confirm_delivery()
    return channel


@pytest.mark.slow
def test_the_data_folder_keeps_how_many_nodes_there_are_and_the_messages(tmp_path):
    name = named_at(2)
    with one_port(tmp_path / "data") as nodes:
        channel = nodes.connect(1).channel()
        channel.confirm_delivery()
        channel.queue_declare(name, durable=True)
        channel.basic_publish("", name, b"kept", DURABLE, mandatory=True)
        channel.exchange_declare("news", "topic", durable=True)
        channel.queue_bind(name, "news", "a.*")
        assert "another headgate serve --nodes" in refusal(nodes, 2)
    assert "is the data folder of 2 nodes" in refusal(nodes, 3)
    alone = [sys.executable, "-m", "amqp10", "serve", "--listen", "127.0.0.1:0", "--admin", "off", "--data"]
    done = subprocess.run([*alone, str(tmp_path / "data" / "1")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "is the data folder of one of several nodes" in done.stderr) == (2, True), done.stderr
    with one_port(tmp_path / "data") as nodes:
        channel = nodes.connect(1).channel()
        channel.confirm_delivery()
        channel.basic_publish("news", "a.b", b"through the binding", DURABLE, mandatory=True)
        assert drained(channel, name) == ["kept", "through the binding"]
        nodes.close()
        assert nodes.stop(signal.SIGINT) == 0


def refusal(nodes: OnePort, count: int) -> str:
    command = [sys.executable, "-m", "amqp10", *nodes.command(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (2, 11)
    return done.stderr
