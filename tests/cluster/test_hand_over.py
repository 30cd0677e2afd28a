"""Three real brokers and a real etcd: leaders are handed over, without the wait for a node that is away."""

import json
import threading
import time
from contextlib import suppress
from itertools import pairwise

import pika
import pika.exceptions
import pytest

from tests.kit.cluster_nodes import NAMES, WAIT_S, ClusterNodes, cluster_nodes
from tests.kit.command_line import run_here

QUEUE = "orders"
GAP_MAX_S = 3.0
"""The goal is 0.5 s; a machine under load takes longer, and without a hand-over it takes 2 s until a node is away and
then the claim. docs/cluster.md has what was measured."""


class Publisher(threading.Thread):
    """Publishes at a node that does not lead, and notes when each message was confirmed."""

    def __init__(self, nodes: ClusterNodes, name: str) -> None:
        super().__init__(daemon=True)
        self._url = nodes.url(name) + "/%2F?socket_timeout=5&blocked_connection_timeout=10"
        self.confirmed: list[tuple[float, str]] = []
        self.sent = 0
        self.over = False

    def run(self) -> None:
        while not self.over:
            with suppress(pika.exceptions.AMQPError, OSError):
                connection = pika.BlockingConnection(pika.URLParameters(self._url))
                try:
                    self._publish(connection)
                finally:
                    connection.close()

    def _publish(self, connection: pika.BlockingConnection) -> None:
        channel = connection.channel()
        channel.confirm_delivery()
        while not self.over:
            self.sent += 1
            body = f"m{self.sent}"
            try:
                channel.basic_publish("", QUEUE, body.encode(), pika.BasicProperties(delivery_mode=2))
                self.confirmed.append((time.monotonic(), body))
            except (pika.exceptions.NackError, pika.exceptions.UnroutableError):
                time.sleep(0.02)

    def longest_gap(self, since: float) -> float:
        times = [when for when, _ in self.confirmed if when > since - 0.2]
        return max((after - before for before, after in pairwise(times)), default=WAIT_S)


def refused(nodes: ClusterNodes, name: str, *arguments: str) -> str:
    done = run_here(*arguments, url=nodes.url(name))
    assert done.code != 0
    return done.err


@pytest.mark.slow
def test_a_leader_is_handed_over_for_maintenance_and_comes_back_with_a_rebalance(capsys):
    with cluster_nodes(groups=3, forwards=True) as nodes:
        nodes.command("a", "queues", "declare", QUEUE, "--argument", "x-queue-type=quorum")
        ((row,),) = [json.loads(nodes.command("a", "queues", "leaders", "--json"))]
        leader, group = row["leader"], row["group"]
        assert leader in NAMES
        entry, other = (name for name in NAMES if name != leader)
        nodes.until(lambda: QUEUE in nodes.command(entry, "queues", "list"), "the entry has the queue")
        publisher = Publisher(nodes, entry)
        publisher.start()
        nodes.until(lambda: len(publisher.confirmed) > 50, "messages are confirmed")

        began = time.monotonic()
        nodes.command(leader, "drain")
        nodes.until(lambda: nodes.leaders(entry)[group] in (entry, other), "another node leads")
        nodes.until(lambda: leader not in nodes.leaders(entry).values(), "the node leads nothing")
        count = len(publisher.confirmed)
        nodes.until(lambda: len(publisher.confirmed) > count + 50, "messages are confirmed again")
        away = publisher.longest_gap(began)

        assert "would have 1 of 3 copies without node" in refused(nodes, other, "drain")
        nodes.command(leader, "undrain")
        began = time.monotonic()
        nodes.until(lambda: _is_here_again(nodes, entry, leader), "the node claims again")
        nodes.command(entry, "cluster", "rebalance")
        nodes.until(lambda: sorted(nodes.leaders(entry).values()) == ["a", "b", "c"], "each node leads a group")
        count = len(publisher.confirmed)
        nodes.until(lambda: len(publisher.confirmed) > count + 50, "messages are confirmed again")
        back = publisher.longest_gap(began)
        publisher.over = True
        publisher.join(20)
        with capsys.disabled():
            print(f"\nlongest time without an accepted message: {away:.3f} s for maintenance, {back:.3f} s back")
        assert max(away, back) < GAP_MAX_S

        lost = {body for _, body in publisher.confirmed}
        connection = pika.BlockingConnection(pika.URLParameters(nodes.url(other)))
        channel = connection.channel()
        for method, _, body in channel.consume(QUEUE, inactivity_timeout=3, auto_ack=True):
            if method is None:
                break
            lost.discard(body.decode())
            if not lost:
                break
        connection.close()
        assert not lost


def _is_here_again(nodes: ClusterNodes, at: str, name: str) -> bool:
    return any(row["node"] == name and row["here"] and not row["set_aside"] for row in nodes.status(at)["nodes"])
