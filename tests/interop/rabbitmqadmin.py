"""RabbitMQ's own ``rabbitmqadmin`` (version 1) against the admin server of a whole broker.

The script is a part of RabbitMQ's management plugin and has a licence of its own, so it is not in this repository. Any
RabbitMQ with the plugin serves it; this file is not collected by default, and needs to be told where the script is:

    curl -o rabbitmqadmin http://127.0.0.1:15672/cli/rabbitmqadmin
    RABBITMQADMIN=rabbitmqadmin python -m pytest tests/interop/rabbitmqadmin.py
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amqp10.cli.free_ports import free_ports
from tests.kit.broker_process import broker_process

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

Admin = Callable[..., str]
POLICY = '{"max-length":100}'


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    """Runs the script, and returns what it prints; it must end with status 0 unless ``fails`` is set."""
    script = Path(os.environ["RABBITMQADMIN"])
    port = str(free_ports(1)[0])

    def run(*arguments: str, fails: bool = False) -> str:
        command = [sys.executable, str(script), "-H", "127.0.0.1", "-P", port, *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert (ran.returncode != 0) is fails, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    with broker_process("--admin", f"127.0.0.1:{port}"):
        yield run


def rows(admin: Admin, *what: str) -> list[dict[str, object]]:
    found = json.loads(admin("-f", "raw_json", *what))
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    "what",
    [
        "users", "permissions", "queues", "exchanges", "bindings", "connections", "channels", "consumers", "nodes",
        "policies", "operator_policies", "parameters", "vhosts",
    ],
)  # fmt: skip
def test_lists(admin: Admin, what: str):
    admin("list", what)
    assert rows(admin, "list", what) is not None


def test_the_overview(admin: Admin):
    assert "rabbitmq_version" in admin("show", "overview")


def test_users_and_permissions(admin: Admin):
    admin("declare", "user", "name=shop", "password=one", "tags=management")
    admin("declare", "permission", "vhost=/", "user=shop", "configure=^s", "write=.*", "read=.*")
    assert {row["name"] for row in rows(admin, "list", "users")} >= {"shop"}
    assert [row["configure"] for row in rows(admin, "list", "permissions") if row["user"] == "shop"] == ["^s"]
    assert "Access refused" in admin("-u", "shop", "-p", "wrong", "list", "queues", fails=True)
    admin("-u", "shop", "-p", "one", "list", "queues")
    admin("delete", "permission", "vhost=/", "user=shop")
    admin("delete", "user", "name=shop")
    assert "shop" not in admin("list", "users")


def test_queues_exchanges_bindings_and_policies(admin: Admin):
    admin("declare", "queue", "name=orders", "durable=true")
    admin("declare", "queue", "name=safe", "queue_type=quorum")
    admin("declare", "queue", "name=short", 'arguments={"x-max-length":5}')
    admin("declare", "exchange", "name=news", "type=topic")
    admin("declare", "exchange", "name=inner", "type=fanout", "internal=true", "durable=false", "auto_delete=true")
    admin("declare", "binding", "source=news", "destination=orders", "routing_key=a.#")
    admin("declare", "binding", "source=news", "destination_type=exchange", "destination=inner", "routing_key=x")
    types = {row["name"]: row["type"] for row in rows(admin, "list", "queues")}
    assert types == {"orders": "classic", "safe": "quorum", "short": "classic"}
    admin("declare", "policy", "name=cap", "pattern=^orders$", f"definition={POLICY}", "apply-to=queues")
    assert [row["name"] for row in rows(admin, "list", "policies")] == ["cap"]
    admin("delete", "policy", "name=cap")
    ends = ("source=news", "destination_type=queue", "destination=orders")
    admin("delete", "binding", *ends, "properties_key=a.%23")
    assert "Not found" in admin("delete", "binding", *ends, "properties_key=a.%23", fails=True)
    for kind, name in (("queue", "safe"), ("queue", "short"), ("exchange", "inner"), ("exchange", "news")):
        admin("delete", kind, f"name={name}")
    assert [row["name"] for row in rows(admin, "list", "queues")] == ["orders"]


def test_publish_and_get(admin: Admin, tmp_path: Path):
    admin("declare", "queue", "name=letters")
    admin(
        "publish", "routing_key=letters", "payload=hello", 'properties={"content_type":"text/plain","headers":{"h":1}}'
    )
    admin("publish", "exchange=amq.direct", "routing_key=nowhere", "payload=lost")
    (row,) = rows(admin, "get", "queue=letters")
    assert (row["payload"], row["properties"]) == ("hello", {"content_type": "text/plain", "headers": {"h": 1}})
    file = tmp_path / "payload"
    admin("get", "queue=letters", "ackmode=ack_requeue_false", f"payload_file={file}")
    assert file.read_text() == "hello"
    assert rows(admin, "get", "queue=letters") == []
    assert "Not found" in admin("get", "queue=missing", fails=True)
    admin("publish", "routing_key=letters", "payload=again")
    admin("purge", "queue", "name=letters")
    assert rows(admin, "get", "queue=letters") == []
    admin("delete", "queue", "name=letters")


@pytest.mark.parametrize("host", [(), ("--vhost", "/")])
def test_definitions(admin: Admin, tmp_path: Path, host: tuple[str, ...]):
    file = tmp_path / "definitions.json"
    admin("declare", "queue", "name=kept")
    admin(*host, "export", str(file))
    admin("delete", "queue", "name=kept")
    admin(*host, "import", str(file))
    assert "kept" in admin("list", "queues")
    admin("delete", "queue", "name=kept")


def test_what_is_missing_is_told(admin: Admin):
    assert "Not found" in admin("close", "connection", "name=none", fails=True)
    assert "Not found" in admin("delete", "queue", "name=none", fails=True)
