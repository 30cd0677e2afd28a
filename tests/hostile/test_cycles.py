"""Objects of things that end are freed at once: none of them is in a reference cycle that waits for the collector.

The broker does not look for cycles among objects that have lived long (core/process.py), so a cycle would stay in
memory.
"""

import json
import os
import re
import signal
from pathlib import Path
from urllib.parse import quote

import pika
import pytest
import trio

from amqp10.client import ClientSettings, NotLetIn, connect
from core.amqp091.frontend.consuming import GETTERS_KEPT
from tests.hostile.stalls import ATTACKS
from tests.kit.stall_field import Field, battlefield

LOOKS_MAX = 2_000
"""How long the broker may take to notice closed connections. Each check is a request, of 2 ms."""
OURS = re.compile(r"(amqp10|core|hypercorn|h11|trio)\.")
"""Libraries with an object for each connection count, too, because their objects would stay in memory as well."""

EVERYTHING_THAT_ENDS = (
    "3,500 bindings",
    "auto-delete exchanges",
    "500 durable queues",
    "138 channels",
    "2,047 channels",
    "20 consumers never read",
    "5,000 consumers",
    "100,000 rejected to dead letters",
    "consumer time-out of 50,000",
    "transaction of 50,000",
    "4,352 dynamic nodes",
    "4,352 dynamic nodes, sessions end",
    "detach with 100,000 unsettled",
    "20,000 links",
    "why over 4,352 links",
    "50,000 transfers",
    "30 readers of a long stream",
    "100 policies, 3,000 queues",
    "lists over 5,000 queues",
    "frames are looked at",
    "300 logins",
    "dead letters kept, 20,000",
    "management of 3,500 queues and bindings",
)


def logins_with_scram(where: Field) -> None:
    """Log in with SCRAM-SHA-256, which the client prefers; the last attempt fails."""

    async def log_in(password: str) -> None:
        async with connect(f"amqp://guest:{password}@{where.host}:{where.port}", ClientSettings(reconnect=None)):
            pass

    for _ in range(5):
        trio.run(log_in, "guest")
    with pytest.raises(NotLetIn):
        trio.run(log_in, "wrong")


def consumers_are_cancelled(where: Field) -> None:
    """Cancel consumers of AMQP 0.9.1 with and without deliveries, and read from more queues than a channel keeps its
    attachments for."""
    with pika.BlockingConnection(pika.ConnectionParameters(where.host, where.port)) as connection:
        channel = connection.channel()
        for number in range(GETTERS_KEPT + 3):
            queue = channel.queue_declare(f"got-{number}").method.queue
            channel.basic_publish("", queue, b"read")
            channel.basic_get(queue, auto_ack=number % 2 == 0)
        for queue, count in (("got-0", 0), ("got-1", 3)):
            for _ in range(count):
                channel.basic_publish("", queue, b"unacknowledged")
            channel.basic_cancel(channel.basic_consume(queue, lambda *_: None))


OTHERS_THAT_END = (logins_with_scram, consumers_are_cancelled)


def cycles(where: Field, pipe: Path) -> dict[str, int]:
    """The objects that only the collector can free, by type."""
    os.kill(where.pid, signal.SIGUSR2)
    return {kind: count for kind, count in json.loads(pipe.read_text()).items() if OURS.match(kind)}


def test_objects_of_ended_connections_are_freed_at_once(tmp_path: Path):
    pipe = tmp_path / "cycles"
    os.mkfifo(pipe)
    lost = {}
    endings = {name: ATTACKS[name].run for name in EVERYTHING_THAT_ENDS} | {
        one.__name__: one for one in OTHERS_THAT_END
    }
    with battlefield(0.01, ("tests.kit.cycle_counter", str(pipe))) as where:
        os.kill(where.pid, signal.SIGUSR1)
        for name, run in endings.items():
            run(where)
            where.close()
            where.clients.clear()
            assert any(not json.loads(where.http("GET", "/api/connections")) for _ in range(LOOKS_MAX))
            for queue in json.loads(where.http("GET", "/api/queues")):
                if not queue["name"].startswith("$"):  # the broker's own connection
                    where.http("DELETE", f"/api/queues/%2F/{quote(queue['name'], safe='')}")
            lost[name] = cycles(where, pipe)
    found = {name: kinds for name, kinds in lost.items() if kinds}
    assert not found, json.dumps(found)
