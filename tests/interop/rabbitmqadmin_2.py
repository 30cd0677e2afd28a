"""RabbitMQ's own ``rabbitmqadmin`` of version 2, a program in Rust, against the admin server of a whole broker.

Cargo installs the program. This file is not collected by default, and needs to be told where the program is:

    cargo install rabbitmqadmin --root rabbitmqadmin
    RABBITMQADMIN_2=rabbitmqadmin/bin/rabbitmqadmin python -m pytest tests/interop/rabbitmqadmin_2.py
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ConnectionClosedByBroker

from amqp10.cli.free_ports import free_ports
from tests.kit.broker_process import broker_process

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

Admin = Callable[..., str]


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    """Runs the program, and returns what it prints; it must end with status 0 unless ``fails`` is set. The broker has a
    client of AMQP 0.9.1 with two consumers of the queue ``watched``."""
    http = str(free_ports(1)[0])

    def run(*arguments: str, fails: bool = False) -> str:
        command = [os.environ["RABBITMQADMIN_2"], "-H", "127.0.0.1", "-P", http, "-u", "guest", "-p", "guest"]
        ran = subprocess.run(
            [*command, "--non-interactive", *arguments], capture_output=True, text=True, timeout=30, check=False
        )
        assert (ran.returncode != 0) is fails, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    with broker_process("--admin", f"127.0.0.1:{http}") as broker:
        connection = pika.BlockingConnection(pika.ConnectionParameters(port=broker.port))
        consume(connection.channel())
        yield run
        with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED"):  # by the last test
            connection.process_data_events(time_limit=10)


def consume(channel: BlockingChannel) -> None:
    channel.queue_declare("watched", durable=True)
    channel.basic_qos(prefetch_count=7)
    for auto_ack in (False, True):
        channel.basic_consume("watched", lambda *delivery: None, auto_ack=auto_ack)


@pytest.mark.parametrize(
    "what",
    [
        "nodes", "users", "vhosts", "permissions", "connections", "channels", "queues", "exchanges", "bindings",
        "consumers", "parameters", "policies", "operator_policies", "vhost_limits", "user_limits", "feature_flags",
        "deprecated_features", "deprecated_features_in_use",
    ],
)  # fmt: skip
def test_lists(admin: Admin, what: str):
    admin("list", what)


def test_what_a_client_does_is_listed(admin: Admin):
    assert "AMQP 0-9-1" in admin("list", "connections")
    assert "guest" in admin("list", "user_connections", "--username", "guest")
    assert "running" in admin("list", "channels")
    consumers = [line for line in admin("list", "consumers").splitlines() if "watched" in line]
    assert sorted("true" in line.split("watched")[1].split()[1:3] for line in consumers) == [False, True]


def test_the_overview(admin: Admin):
    assert "Headgate" in admin("show", "overview")
    admin("show", "churn")


def test_users_virtual_hosts_and_permissions(admin: Admin):
    admin("declare", "user", "--name", "shop", "--password", "one", "--tags", "management")
    admin("declare", "vhost", "--name", "branch")
    rights = ("--configure", "^s", "--write", ".*", "--read", ".*")
    admin("--vhost", "branch", "declare", "permissions", "--user", "shop", *rights)
    assert "^s" in admin("list", "permissions")
    admin("declare", "user_limit", "--user", "shop", "--name", "max-connections", "--value", "10")
    admin("--vhost", "branch", "declare", "vhost_limit", "--name", "max-queues", "--value", "100")
    assert "max-connections" in admin("list", "user_limits")
    assert "max-queues" in admin("--vhost", "branch", "list", "vhost_limits")
    admin("delete", "user_limit", "--user", "shop", "--name", "max-connections")
    admin("--vhost", "branch", "delete", "vhost_limit", "--name", "max-queues")
    admin("--vhost", "branch", "delete", "permissions", "--user", "shop")
    admin("delete", "user", "--name", "shop")
    admin("delete", "vhost", "--name", "branch")
    assert "shop" not in admin("list", "users")
    assert "branch" not in admin("list", "vhosts")


def test_queues_exchanges_bindings_and_policies(admin: Admin):
    admin("declare", "queue", "--name", "orders", "--type", "classic", "--durable", "true")
    admin("declare", "queue", "--name", "safe", "--type", "quorum", "--durable", "true")
    admin("declare", "stream", "--name", "history", "--expiration", "1D", "--max-length-bytes", "1000000")
    admin("declare", "exchange", "--name", "news", "--type", "topic", "--durable", "true")
    ends = ("--source", "news", "--destination-type", "queue", "--destination", "orders", "--routing-key", "a.#")
    admin("declare", "binding", *ends, "--arguments", "{}")
    assert "a.#" in admin("list", "bindings")
    cap = ("--pattern", "^orders$", "--apply-to", "queues", "--priority", "1", "--definition", '{"max-length":100}')
    admin("declare", "policy", "--name", "cap", *cap)
    admin("policies", "patch", "--name", "cap", "--definition", '{"max-length":50}')
    assert "50" in admin("policies", "list_matching_object", "--name", "orders", "--type", "queues")
    admin("delete", "policy", "--name", "cap")
    admin("delete", "binding", *ends, "--arguments", "{}")
    assert "a.#" not in admin("list", "bindings")
    admin("delete", "exchange", "--name", "news")
    admin("delete", "stream", "--name", "history")
    for name in ("safe", "orders"):
        admin("delete", "queue", "--name", name)
    assert "orders" not in admin("list", "queues")


def test_publish_get_and_purge(admin: Admin):
    admin("declare", "queue", "--name", "letters", "--type", "classic", "--durable", "true")
    admin("publish", "message", "--routing-key", "letters", "--payload", "hello")
    assert "hello" in admin("get", "messages", "--queue", "letters")
    assert "hello" not in admin("get", "messages", "--queue", "letters")
    admin("publish", "message", "--routing-key", "letters", "--payload", "again")
    admin("purge", "queue", "--name", "letters")
    assert "again" not in admin("get", "messages", "--queue", "letters")
    admin("delete", "queue", "--name", "letters")


def test_definitions(admin: Admin, tmp_path: Path):
    file = tmp_path / "definitions.json"
    admin("declare", "queue", "--name", "kept", "--type", "classic", "--durable", "true")
    admin("definitions", "export", "--file", str(file))
    assert "kept" in {queue["name"] for queue in json.loads(file.read_text())["queues"]}
    admin("delete", "queue", "--name", "kept")
    admin("definitions", "import", "--file", str(file))
    assert "kept" in admin("list", "queues")
    admin("delete", "queue", "--name", "kept")


def test_health(admin: Admin):
    for check in ("local_alarms", "cluster_wide_alarms", "node_is_quorum_critical"):
        admin("health_check", check)
    admin("health_check", "protocol_listener", "--protocol", "amqp")
    admin("health_check", "port_listener", "--port", "1", fails=True)


def test_what_is_missing_is_told(admin: Admin):
    assert "404" in admin("close", "connection", "--name", "none", fails=True)
    assert "404" in admin("delete", "queue", "--name", "none", fails=True)


def test_the_connections_of_a_user_are_closed(admin: Admin):
    admin("close", "user_connections", "--username", "nobody-has-this-name")
    assert "closing" not in admin("list", "connections")
    admin("close", "user_connections", "--username", "guest")
    assert "closing" in admin("list", "connections")  # until the client reads it, when this module's tests are over
