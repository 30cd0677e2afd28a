"""Virtual hosts with whole processes: commands, proton, pika and HTTP; rights across them; a kill; a deletion."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.command_line import HEADGATE, run_process

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

pika = pytest.importorskip("pika")


def run(url: str, *words: str, typed: str = "") -> str:
    """Run a command; returns what it printed."""
    ran = run_process(*HEADGATE, *words, url=url, given=typed)
    assert ran.code == 0, ran.err
    return ran.out


def opened(broker: BrokerAddress, host: str, user: str) -> Any:
    """A connection of pika to a virtual host; the user's password is its name."""
    credentials = pika.PlainCredentials(user, user)
    return pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, host, credentials))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def broker(data: Path) -> Iterator[BrokerAddress]:
    """A broker with virtual hosts a and b, and a user of each with the tag management and all permissions there."""
    with broker_process("--data", str(data)) as address:
        for name in ("a", "b"):
            run(address.url(), "vhosts", "add", name)
            run(address.url(), "users", "set", name, "--new-password", "--tags", "management", typed=f"{name}\n")
            run(address.url(), "permissions", "set", name, ".*", ".*", ".*", "--vhost", name)
            run(address.url(f"{name}:{name}", f"/{name}"), "queues", "declare", "q")
        yield address


def test_pika_finds_the_queue_of_its_own_virtual_host(broker: BrokerAddress):
    for name in ("a", "b"):
        connection = opened(broker, name, name)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "q", name.encode())
        connection.close()
    for name in ("a", "b"):
        connection = opened(broker, name, name)
        channel = connection.channel()
        assert [channel.basic_get("q", auto_ack=True)[2] for _ in range(2)] == [name.encode(), None]
        connection.close()


def test_proton_publishes_and_consumes_in_its_own_virtual_host(broker: BrokerAddress, connect: Callable[..., Any]):
    peers = {name: connect(broker.url(f"{name}:{name}"), virtual_host=f"vhost:{name}").opened() for name in ("a", "b")}
    for name, peer in peers.items():
        peer.publish("/queues/q", name)
    for name, peer in peers.items():
        (row,) = json.loads(run(broker.url(), "queues", "list", "--json", "--vhost", name))
        assert row["messages_ready"] == 1
        receiver = peer.receiver("/queues/q")
        peer.flow(receiver, 1)
        (got,) = peer.take(receiver, 1)
        assert got.message.body == name
        receiver.close()
        run(broker.url(f"{name}:{name}", f"/{name}"), "queues", "purge", "q")


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("b", "NOT_ALLOWED - access to vhost 'b' refused for user 'a'"),
        ("/", "NOT_ALLOWED - access to vhost '/' refused for user 'a'"),
        ("nowhere", "NOT_ALLOWED - vhost nowhere not found"),
    ],
)
def test_pika_is_refused_elsewhere(broker: BrokerAddress, host: str, told: str):
    with pytest.raises(pika.exceptions.AMQPConnectionError) as error:
        opened(broker, host, "a")
    assert told in repr(error.value).replace("\\'", "'")


@pytest.mark.parametrize(("host", "condition"), [("b", "amqp:unauthorized-access"), ("nowhere", "amqp:not-found")])
def test_proton_is_told_why_it_is_refused(
    broker: BrokerAddress, connect: Callable[..., Any], host: str, condition: str
):
    peer = connect(broker.url("a:a"), virtual_host=f"vhost:{host}")
    peer.until(lambda: peer.connection.remote_condition is not None)
    assert peer.connection.remote_condition.name == condition


def test_commands_of_one_user_reach_nothing_of_the_other(broker: BrokerAddress):
    url = broker.url("a:a", "/a")
    for words in (("queues", "list"), ("queues", "peek", "q"), ("queues", "delete", "q"), ("vhosts", "delete", "b")):
        hosts = () if words[0] == "vhosts" else ("--vhost", "b")
        assert run_process(*HEADGATE, *words, *hosts, url=url).code != 0, words
    assert [row["name"] for row in json.loads(run(broker.url(), "queues", "list", "--json", "--vhost", "b"))] == ["q"]


def test_a_limit_is_named_to_who_meets_it(broker: BrokerAddress, connect: Callable[..., Any]):
    run(broker.url(), "vhosts", "limit", "a", "--max-connections", "0", "--max-queues", "1")
    peer = connect(broker.url("a:a"), virtual_host="vhost:a")
    peer.until(lambda: peer.connection.remote_condition is not None)
    assert peer.connection.remote_condition.name == "amqp:resource-limit-exceeded"
    assert "max-connections" in peer.connection.remote_condition.description
    run(broker.url(), "vhosts", "limit", "a", "--max-connections", "-1")
    ran = run_process(*HEADGATE, "queues", "declare", "another", url=broker.url("a:a", "/a"))
    assert "max-queues" in ran.err


def _fill_and_kill(folder: str) -> None:
    with broker_process("--data", folder) as broker:
        run(broker.url(), "vhosts", "add", "b")
        run(broker.url(), "vhosts", "limit", "b", "--max-queues", "7")
        run(broker.url("guest:guest", "/b"), "queues", "declare", "q")
        connection = opened(broker, "b", "guest")
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
        connection.close()
        os.kill(broker.pid, signal.SIGKILL)


def test_what_is_there_outlives_a_kill_and_a_deletion_closes_connections(tmp_path: Path):
    folder = str(tmp_path)
    with pytest.raises(AssertionError, match="ended with status"):
        _fill_and_kill(folder)
    with broker_process("--data", folder) as broker:
        (row,) = [row for row in json.loads(run(broker.url(), "vhosts", "list", "--json")) if row["name"] == "b"]
        assert (row["queues"], row["max_queues"]) == (1, 7)
        connection = opened(broker, "b", "guest")
        channel = connection.channel()
        assert channel.basic_get("q", auto_ack=True)[2] == b"kept"
        run(broker.url(), "vhosts", "delete", "b")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="vhost 'b' was deleted"):
            connection.process_data_events(time_limit=10)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            opened(broker, "b", "guest")
