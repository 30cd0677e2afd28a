"""Three real brokers and a real etcd: the leader of a queue is killed under load, and nothing that was confirmed is
lost."""

import signal
import threading
import time
from contextlib import suppress

import pika
import pika.exceptions
import pytest

from tests.kit.cluster_nodes import NAMES, ClusterNodes, cluster_nodes

QUEUE = "orders"
PUBLISHERS = 4
BEFORE, AFTER = 150, 60
"""Messages that are confirmed before the kill, and by the next leader."""


def connected(nodes: ClusterNodes, name: str) -> pika.BlockingConnection:
    parameters = pika.URLParameters(nodes.url(name) + "/%2F?socket_timeout=5&blocked_connection_timeout=20")
    return pika.BlockingConnection(parameters)


class Publisher(threading.Thread):
    """Publishes message after message, each when the one before is confirmed, until its connection breaks."""

    def __init__(self, nodes: ClusterNodes, name: str, number: int, life: int) -> None:
        super().__init__(daemon=True)
        self._connection = connected(nodes, name)
        self._number = number
        self._life = life
        self.sent: list[str] = []
        self.confirmed: list[str] = []
        self.refused: list[str] = []
        self.enough = False

    def run(self) -> None:
        with suppress(pika.exceptions.AMQPError, OSError):
            channel = self._connection.channel()
            channel.confirm_delivery()
            properties = pika.BasicProperties(delivery_mode=2)
            while not self.enough:
                body = f"{self._life}-{self._number}-{len(self.sent)}"
                self.sent.append(body)
                try:
                    channel.basic_publish("", QUEUE, body.encode(), properties)
                    self.confirmed.append(body)
                except (pika.exceptions.NackError, pika.exceptions.UnroutableError):
                    self.refused.append(body)
            self._connection.close()


def publish_until(nodes: ClusterNodes, name: str, life: int, count: int) -> list[Publisher]:
    publishers = [Publisher(nodes, name, number, life) for number in range(PUBLISHERS)]
    for publisher in publishers:
        publisher.start()
    nodes.until(lambda: sum(len(one.confirmed) for one in publishers) >= count, f"{count} messages are confirmed")
    return publishers


def leader_of_queue(nodes: ClusterNodes, name: str) -> str | None:
    """With one group, its leader is that of every queue."""
    return nodes.leaders(name)[1]


def drained(nodes: ClusterNodes, name: str) -> list[tuple[str, bool]]:
    """All messages of the queue, and whether they are flagged."""
    found: list[tuple[str, bool]] = []
    connection = connected(nodes, name)
    channel = connection.channel()
    while True:
        method, _, body = channel.basic_get(QUEUE, auto_ack=False)
        if method is None:
            break
        found.append((body.decode(), method.redelivered))
        channel.basic_ack(method.delivery_tag)
    connection.close()
    return found


@pytest.mark.slow
def test_a_leader_that_stood_still_leads_no_more_and_answers_what_was_in_doubt():
    with cluster_nodes(groups=1) as nodes:
        first = leader_of_queue(nodes, "a")
        assert first is not None
        other = next(name for name in NAMES if name != first)
        nodes.command(first, "queues", "declare", QUEUE, "--argument", "x-queue-type=quorum")
        publishers = publish_until(nodes, first, 1, BEFORE)
        nodes.processes[first].send_signal(signal.SIGSTOP)
        nodes.until(lambda: leader_of_queue(nodes, other) not in (first, None), "another node leads")
        nodes.processes[first].send_signal(signal.SIGCONT)
        nodes.until(lambda: not nodes.status(first)["groups"][0]["leads_here"], "the first leader gives up")
        second = leader_of_queue(nodes, other)
        assert second is not None

        def decided() -> bool:
            """What was under way is answered; one message more of each waits, because its node does not lead."""
            return all(len(one.confirmed) + len(one.refused) >= len(one.sent) - 1 for one in publishers)

        nodes.until(decided, "answers")
        confirmed = {body for one in publishers for body in one.confirmed}
        refused = {body for one in publishers for body in one.refused}
        later = publish_until(nodes, second, 2, AFTER)
        for publisher in later:
            publisher.enough = True
            publisher.join(20)
        bodies = [body for body, _ in drained(nodes, second)]
        assert confirmed <= set(bodies), "lost"
        assert refused.isdisjoint(bodies), "there, and answered as not taken on"
        assert len(bodies) == len(set(bodies)), "twice"


@pytest.mark.slow
def test_without_a_majority_of_etcd_no_node_leads_until_it_is_back():
    with cluster_nodes(groups=1) as nodes:
        first = leader_of_queue(nodes, "a")
        assert first is not None
        nodes.command(first, "queues", "declare", QUEUE, "--argument", "x-queue-type=quorum")
        publishers = publish_until(nodes, first, 1, BEFORE)
        for member in (0, 1):
            nodes.etcd.kill(member)
        nodes.until(lambda: not nodes.status(first)["groups"][0]["leads_here"], "the leader gives up")
        for member in (0, 1):
            nodes.etcd.start(member)
        nodes.until(lambda: any(nodes.status(name)["groups"][0]["leads_here"] for name in NAMES), "a node leads")
        leader = next(name for name in NAMES if nodes.status(name)["groups"][0]["leads_here"])
        later = publish_until(nodes, leader, 2, AFTER)
        for publisher in (*publishers, *later):
            publisher.enough = True
        for publisher in later:
            publisher.join(20)
        confirmed = {body for one in (*publishers, *later) for body in one.confirmed}
        bodies = [body for body, _ in drained(nodes, leader)]
        assert confirmed <= set(bodies), "lost"
        assert len(bodies) == len(set(bodies)), "twice"


@pytest.mark.slow
def test_the_leader_is_killed_under_load_and_nothing_confirmed_is_lost():
    with cluster_nodes(groups=1) as nodes:
        first = leader_of_queue(nodes, "a")
        assert first is not None
        follower = next(name for name in NAMES if name != first)
        nodes.command(follower, "queues", "declare", QUEUE, "--argument", "x-queue-type=quorum")
        nodes.until(lambda: QUEUE in nodes.command(first, "queues", "list"), "the leader has the queue")
        publishers = publish_until(nodes, first, 1, BEFORE)
        nodes.kill(first)
        killed_at = time.monotonic()
        for publisher in publishers:
            publisher.join(20)

        def led_again() -> bool:
            leader = leader_of_queue(nodes, follower)
            return leader is not None and leader != first and nodes.status(leader)["groups"][0]["leads_here"]

        nodes.until(led_again, "another node leads")
        took = time.monotonic() - killed_at
        second = leader_of_queue(nodes, follower)
        assert second is not None
        later = publish_until(nodes, second, 2, AFTER)
        for publisher in later:
            publisher.enough = True
            publisher.join(20)
        confirmed = {body for one in (*publishers, *later) for body in one.confirmed}
        sent = {body for one in (*publishers, *later) for body in one.sent}
        found = drained(nodes, second)
        bodies = [body for body, _ in found]
        assert confirmed <= set(bodies), "lost"
        assert set(bodies) <= sent, "unexpected"
        assert len(bodies) == len(set(bodies)), "twice"
        assert all(redelivered for body, redelivered in found if body.startswith("1-"))
        assert not any(redelivered for body, redelivered in found if body.startswith("2-"))
        for publisher in range(PUBLISHERS):
            mine = [int(body.rpartition("-")[2]) for body in bodies if body.startswith(f"1-{publisher}-")]
            assert mine == sorted(mine), "the order of a publisher"
        assert took < 10
        nodes.start(first)
        nodes.until(lambda: nodes.status(first)["joined"], "the killed node is back")
        nodes.until(lambda: not any(nodes.status(second)["groups"][0]["lag"].values()), "all copies have everything")
