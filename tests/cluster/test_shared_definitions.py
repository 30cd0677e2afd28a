"""Three real brokers and a real etcd: definitions that are made at one node are there at all."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.kit.cluster_nodes import NAMES, ClusterNodes, cluster_nodes


@contextmanager
def connected(nodes: ClusterNodes, name: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(nodes.url(name) + "/%2F?socket_timeout=10"))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def listed(nodes: ClusterNodes, name: str, what: str, *arguments: str) -> str:
    return nodes.command(name, what, "list", *arguments, "--json")


def exported(nodes: ClusterNodes, name: str) -> dict[str, list]:
    """The definitions of a node without what depends on the node, as sorted texts."""
    document = json.loads(nodes.command(name, "definitions", "export"))
    return {
        key: sorted(json.dumps(one, sort_keys=True) for one in value)
        for key, value in document.items()
        if isinstance(value, list)
    }


def declare(nodes: ClusterNodes, name: str, kind: str, together: threading.Barrier, answers: list[str]) -> None:
    with connected(nodes, name) as channel:
        together.wait(10)
        try:
            channel.exchange_declare("x", kind, durable=True)
            answers.append("declared")
        except pika.exceptions.ChannelClosedByBroker as closed:
            answers.append(str(closed.reply_code))


@pytest.mark.slow
def test_what_is_declared_at_one_node_is_at_all_and_of_two_contradicting_declarations_one_wins():
    with cluster_nodes(groups=1) as nodes:
        with connected(nodes, "a") as channel:
            channel.exchange_declare("orders", "topic", durable=True)
            channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
            channel.queue_bind("q", "orders", "eu.#")
            channel.exchange_declare("gone", "fanout", durable=True)
            channel.exchange_bind("gone", "orders", "all")
        nodes.command("b", "policies", "set", "short", "^q", '{"max-length": 1000}')
        nodes.command("c", "users", "set", "reader", "--tags", "management")
        nodes.command("c", "vhosts", "add", "shop")
        nodes.command("c", "vhosts", "limit", "shop", "--max-queues", "10")
        nodes.until(lambda: "shop" in listed(nodes, "a", "vhosts"), "the virtual host is everywhere")
        nodes.command("a", "permissions", "set", "reader", "", "", "^q$")
        nodes.until(lambda: "^q$" in nodes.command("b", "permissions", "list", "--json"), "the permission")
        with connected(nodes, "b") as channel:
            channel.exchange_delete("gone")
        nodes.until(lambda: exported(nodes, "a") == exported(nodes, "b") == exported(nodes, "c"), "all are the same")
        found = exported(nodes, "b")
        assert [json.loads(one)["name"] for one in found["queues"]] == ["q"]
        assert "orders" in str(found["exchanges"])
        assert "gone" not in str(found["exchanges"])
        assert len(found["bindings"]) == 1
        assert "max-length" in str(found["policies"])

        nodes.command("b", "queues", "declare", "in-shop", "--argument", "x-queue-type=quorum", "--vhost", "shop")
        nodes.until(lambda: "in-shop" in nodes.command("c", "queues", "list", "--vhost", "shop"), "it is everywhere")
        nodes.command("c", "vhosts", "delete", "shop")
        nodes.until(lambda: all("shop" not in listed(nodes, name, "vhosts") for name in NAMES), "it is gone everywhere")

        answers: list[str] = []
        together, kinds = threading.Barrier(3), ("direct", "topic", "fanout")
        threads = [
            threading.Thread(target=declare, args=(nodes, name, kind, together, answers))
            for name, kind in zip(NAMES, kinds, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(answers) == ["406", "406", "declared"]

        with connected(nodes, "a") as channel:
            channel.queue_declare("classic", durable=True)
        for member in (0, 1):
            nodes.etcd.kill(member)
        with connected(nodes, "a") as channel, pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.exchange_declare("later", "direct", durable=True)
        assert refused.value.reply_code == 406
        assert "etcd does not answer" in refused.value.reply_text
        with connected(nodes, "a") as channel, pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.queue_declare("later", durable=True)
        assert "etcd does not answer" in refused.value.reply_text
        with connected(nodes, "a") as channel:
            channel.queue_declare("classic", durable=True)
            channel.confirm_delivery()
            channel.basic_publish("", "classic", b"still served", pika.BasicProperties(delivery_mode=2))
        nodes.kill("a")
        nodes.start("a")
        with connected(nodes, "a") as channel:
            channel.exchange_declare("orders", passive=True)
            assert channel.basic_get("classic", auto_ack=True)[2] == b"still served"
        for member in (0, 1):
            nodes.etcd.start(member)
        nodes.until(lambda: nodes.status("a")["joined"], "etcd answers again")


@pytest.mark.slow
def test_definitions_are_imported_at_one_node_for_all(tmp_path):
    document = {
        "queues": [
            {"name": f"q{one}", "vhost": "/", "durable": True, "arguments": {"x-queue-type": "quorum"}}
            for one in range(20)
        ],
        "exchanges": [{"name": f"x{one}", "vhost": "/", "type": "direct", "durable": True} for one in range(20)],
        "bindings": [
            {"source": f"x{one}", "vhost": "/", "destination": f"q{one}", "destination_type": "queue",
             "routing_key": "k", "arguments": {}}
            for one in range(20)
        ],
        "policies": [{"name": "p", "vhost": "/", "pattern": "^q", "definition": {"max-length": 5}}],
    }  # fmt: skip
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with cluster_nodes(groups=2) as nodes:
        nodes.command("b", "definitions", "apply", str(path))
        nodes.until(lambda: exported(nodes, "a") == exported(nodes, "b") == exported(nodes, "c"), "all are the same")
        found = exported(nodes, "c")
        assert len(found["queues"]) == len(found["exchanges"]) == len(found["bindings"]) == 20
        assert len(found["policies"]) == 1
        nodes.command("a", "queues", "delete", "q3")
        nodes.until(lambda: len(exported(nodes, "c")["bindings"]) == 19, "its binding is gone with it")
