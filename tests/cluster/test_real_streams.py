"""Three real brokers and a real etcd: a stream is used at any node, its leader is killed, and offsets stay what they
were."""

import os
import subprocess
import sys
import time
from contextlib import suppress

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.test_any_node import COME_S, DURABLE, QUIET_S, connected
from tests.cluster.test_real_nodes import QUEUE, publish_until
from tests.kit.broker_process import ROOT
from tests.kit.cluster_nodes import NAMES, ClusterNodes, cluster_nodes

STREAM = QUEUE
UNDER_LOAD = 100
"""Messages that are confirmed before the kill."""


def publish(channel: BlockingChannel, bodies: list[str]) -> list[str]:
    """Publish messages, each when the one before is answered, and return those that were confirmed."""
    confirmed = []
    with suppress(pika.exceptions.AMQPConnectionError):
        for body in bodies:
            with suppress(pika.exceptions.NackError, pika.exceptions.UnroutableError):
                channel.basic_publish("", STREAM, body.encode(), DURABLE, mandatory=True)
                confirmed.append(body)
    return confirmed


def read(nodes: ClusterNodes, name: str, offset: str | int, *, least: int, last: str) -> dict[int, str]:
    """Read a stream at a node from an offset on, until nothing more comes and at least so many messages have come, with
    the ``last`` that was published among them."""
    found: dict[int, str] = {}
    deadline = time.monotonic() + COME_S
    with connected(nodes, name) as channel:
        channel.basic_qos(prefetch_count=100)
        for method, properties, body in channel.consume(
            STREAM, inactivity_timeout=QUIET_S, arguments={"x-stream-offset": offset}
        ):
            if method is None:
                if (len(found) >= least and last in found.values()) or time.monotonic() > deadline:
                    break
                continue
            found[properties.headers["x-stream-offset"]] = body.decode()
            channel.basic_ack(method.delivery_tag)
        channel.cancel()
    return found


EXAMPLE = """\
from the first:    Oslo-0 Rome-1 Oslo-2 Rome-3 Oslo-4 Rome-5
once more:         Oslo-0 Rome-1 Oslo-2 Rome-3 Oslo-4 Rome-5
behind the fourth: Oslo-4 Rome-5
only from Rome:    Rome-1 Rome-3 Rome-5
what comes next:
"""


def example(nodes: ClusterNodes, name: str) -> str:
    """What the tutorial of streams prints at a node: filters, offsets and drains of AMQP 1.0."""
    environment = os.environ | {"HEADGATE_URL": nodes.url(name)}
    command = [sys.executable, "examples/08_streams.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def led(nodes: ClusterNodes, names: tuple[str, ...]) -> bool:
    """Whether one of the nodes leads, and says so."""
    return any(row["leads_here"] for name in names for row in nodes.status(name)["groups"])


@pytest.mark.slow
def test_a_stream_is_used_at_any_node_and_its_leader_is_killed():
    with cluster_nodes(groups=1, forwards=True) as nodes:
        leader = nodes.leaders("a")[1]
        assert leader is not None
        others = tuple(name for name in NAMES if name != leader)
        entry, other = others
        nodes.command(entry, "queues", "declare", STREAM, "--argument", "x-queue-type=stream")
        for name in NAMES:
            nodes.until(lambda name=name: STREAM in nodes.command(name, "queues", "list"), "each node has the stream")
        nodes.command(entry, "queues", "declare", "readings", "--argument", "x-queue-type=stream")
        assert example(nodes, entry).split() == EXAMPLE.split()
        confirmed = []
        for name in NAMES:
            with connected(nodes, name) as channel:
                confirmed += publish(channel, [f"{name}-{number}" for number in range(10)])
        assert len(confirmed) == 30
        before = read(nodes, entry, "first", least=30, last=confirmed[-1])
        assert list(before) == list(range(30))
        assert list(before.values()) == confirmed
        assert read(nodes, leader, "first", least=30, last=confirmed[-1]) == before
        assert list(read(nodes, other, 25, least=5, last=confirmed[-1])) == list(range(25, 30))
        assert STREAM in nodes.command(entry, "queues", "leaders").split()
        publishers = publish_until(nodes, leader, 1, UNDER_LOAD)
        nodes.kill(leader)
        for publisher in publishers:
            publisher.join(20)
        for name in others:  # one that does not know the next leader yet answers with basic.nack
            nodes.until(lambda name=name: nodes.leaders(name)[1] in others, "another node leads, and each knows it")
        nodes.until(lambda: led(nodes, others), "it says so itself")
        later = []
        for name in others:
            with connected(nodes, name) as channel:
                later += publish(channel, [f"later-{name}-{number}" for number in range(5)])
        assert len(later) == 10
        under_load = [body for publisher in publishers for body in publisher.confirmed]
        least = len(confirmed + under_load + later)
        after = read(nodes, other, "first", least=least, last=later[-1])
        bodies = list(after.values())
        assert list(after) == list(range(len(after)))
        assert len(set(bodies)) == len(bodies), "twice"
        assert bodies[:30] == confirmed
        assert bodies[-10:] == later
        assert set(under_load) <= set(bodies), "lost"
        assert set(bodies[30:-10]) <= {body for publisher in publishers for body in publisher.sent}, "unexpected"
        for number in range(len(publishers)):
            own = [int(body.rpartition("-")[2]) for body in bodies[30:-10] if body.startswith(f"1-{number}-")]
            assert own == sorted(own), "the order of a publisher"
        nodes.start(leader)
        nodes.until(lambda: nodes.status(leader)["joined"], "the killed node is back")
        assert read(nodes, leader, "first", least=least, last=later[-1]) == after
        nodes.command(leader, "queues", "delete", STREAM)
        for name in NAMES:
            nodes.until(lambda name=name: STREAM not in nodes.command(name, "queues", "list"), "the stream is gone")
