"""Real nodes with certificates, each with an etcd of its own: a fourth one joins under load, one that has lost its etcd
gets it anew, and one leaves. Nothing that was confirmed is lost."""

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from amqp10.cli.exits import Exit
from amqp10.cli.free_ports import free_ports
from amqp10.cli.main import run
from tests.kit.broker_process import READY
from tests.kit.command_line import run_here
from tests.kit.prepared_broker import PreparedBroker

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.2")]

QUEUE = "orders"
HOSTS = {"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"}
SECONDS_MAX = 90.0
STOP_S = 20.0
TRIES_MAX = 60
"""A node keeps three of four groups: that many queues are all on it once in 30 million times."""


class Brokers:
    """The brokers, with their files and data in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.etcd_port = free_ports(2)
        self.urls: dict[str, str] = {}
        self._processes: dict[str, PreparedBroker] = {}

    def start(self, name: str) -> None:
        files = self.folder / "nodes" / name
        words = ["serve", "--config", str(files / "headgate.toml"), "--admin", "off", "--data", str(self.data(name))]
        with (files / "log").open("a") as log:
            process = PreparedBroker(*words, stderr=log.fileno())
        self._processes[name] = process
        match = READY.search(process.stdout.readline())
        assert match is not None, self.log(name)
        self.urls[name] = f"amqp://guest:guest@{match['host']}:{match['port']}"

    def data(self, name: str) -> Path:
        return self.folder / f"data-{name}"

    def log(self, name: str) -> str:
        return (self.folder / "nodes" / name / "log").read_text()[-3000:]

    def stop(self, name: str) -> None:
        process = self._processes.pop(name)
        process.terminate()
        try:
            process.wait(STOP_S)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def kill(self, name: str) -> None:
        """kill -9. The etcd of the broker ends with it."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        process.stdout.close()

    def stop_all(self) -> None:
        for name in list(self._processes):
            self.stop(name)

    def status(self, at: str) -> Mapping[str, list[dict[str, object]]]:
        found = run_here("cluster", "status", "--json", url=self.urls[at])
        return json.loads(found.out) if found.code == 0 else {"nodes": [], "groups": []}

    def states(self, at: str) -> dict[str, object]:
        return {str(row["node"]): row["state"] for row in self.status(at)["nodes"]}

    def all_led(self, at: str) -> bool:
        status = self.status(at)
        here = bool(status["nodes"]) and all(row["here"] for row in status["nodes"])
        return here and all(row["leader"] for row in status["groups"])

    def until(self, there: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + SECONDS_MAX
        while not there():
            assert time.monotonic() < end, (what, [self.log(name) for name in self._processes])
            time.sleep(0.2)


class Publisher(threading.Thread):
    """Publishes at a node until it is over."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url + "/%2F?socket_timeout=10&heartbeat=0"
        self.confirmed: list[str] = []
        self.over = False

    def run(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self._url))
        with suppress(pika.exceptions.AMQPError):  # the test ends, and its brokers with it
            channel = connection.channel()
            channel.confirm_delivery()
            number = 0
            while not self.over:
                number += 1
                self._publish(channel, f"m{number}")
                time.sleep(0.01)
            connection.close()

    def _publish(self, channel: BlockingChannel, body: str) -> None:
        durable = pika.BasicProperties(delivery_mode=2)
        try:
            channel.basic_publish("", QUEUE, body.encode(), durable, mandatory=True)
            self.confirmed.append(body)
        except (pika.exceptions.NackError, pika.exceptions.UnroutableError):
            time.sleep(0.02)


def members_of(brokers: Brokers, queue: str) -> list[str]:
    rows = json.loads(run_here("queues", "leaders", "--json", url=brokers.urls["a"]).out)
    return sorted(next(row["members"] for row in rows if row["queue"] == queue))


def declared_with_three_copies(brokers: Brokers, *, without: str) -> str:
    """Declare queues with three copies until this node keeps none of the last one. Returns its name."""
    for number in range(TRIES_MAX):
        name = f"small-{number}"
        arguments = ["--argument", "x-queue-type=quorum", "--argument", "x-quorum-initial-group-size=3"]
        declared = run_here("queues", "declare", name, *arguments, url=brokers.urls[without])
        assert declared.code == 0, declared.err
        members = members_of(brokers, name)
        assert len(members) == 3, "there are four nodes"
        if without not in members:
            return name
    raise AssertionError(f"node {without} keeps each group")


def test_nodes_join_and_leave_under_load_and_an_etcd_is_replaced(tmp_path: Path, tell: Callable[[object], None]):
    brokers, nodes = Brokers(tmp_path), tmp_path / "nodes"
    ports = ["--port", str(brokers.port), "--etcd-port", str(brokers.etcd_port)]
    words = [word for name, host in HOSTS.items() for word in ("--node", f"{name}={host}")]
    assert run(["cluster", "init", str(nodes), *words, *ports]) == 0
    with ExitStack() as stack:
        stack.callback(brokers.stop_all)
        for name in HOSTS:
            brokers.start(name)
        brokers.until(lambda: brokers.all_led("a"), "each group has a leader")
        entry = brokers.urls["a"]
        assert run_here("queues", "declare", QUEUE, "--argument", "x-queue-type=quorum", url=entry).code == 0
        publisher = Publisher(entry)
        publisher.start()

        certified = ["--ca", str(nodes / "a" / "ca.pem"), "--ca-key", str(nodes / "ca.key")]
        join = ["cluster", "join", str(nodes / "d"), "--node", "d=127.0.0.4", *ports]
        assert run_here(*join, url=entry).code == Exit.USAGE, "there are certificates"
        assert (
            "has a node 'b' already" in run_here(*join[:3], "--node", "b=127.0.0.4", *ports, *certified, url=entry).err
        )
        joined = run_here(*join, *certified, url=entry)
        assert joined.code == 0, joined.err
        brokers.start("d")
        brokers.until(lambda: brokers.states("b").get("d") == "member", "d is a member")
        brokers.until(lambda: brokers.all_led("d"), "d sees all")
        small = declared_with_three_copies(brokers, without="a")
        sent = [f"small-{number}" for number in range(20)]
        brokers.until(  # its leader may know of the queue a quarter of a second later
            lambda: run_here("publish", f"/queues/{small}", *sent, url=entry).code == 0, "the leader has the queue"
        )

        brokers.stop("c")
        shutil.rmtree(brokers.data("c") / "etcd")
        brokers.start("c")
        replaced = run_here("cluster", "replace-etcd", "c", url=entry)
        assert replaced.code == 0, replaced.err
        assert "answers" in run_here("cluster", "replace-etcd", "b", url=entry).err
        brokers.until(lambda: (brokers.data("c") / "etcd" / "member").exists(), "c has its etcd again")
        brokers.until(lambda: brokers.all_led("c"), "c is here again")

        refused = run_here("cluster", "leave", "b", url=brokers.urls["d"])
        if refused.code:  # etcd of c may have its vote already
            assert "etcd of node c has no vote yet" in refused.err
        else:
            assert "b" not in brokers.states("a")

        def left() -> bool:
            run_here("cluster", "leave", "b", url=brokers.urls["d"])
            return list(brokers.states("a")) == ["a", "c", "d"]

        brokers.until(left, "b leaves")
        brokers.stop("b")
        count = len(publisher.confirmed)
        brokers.until(lambda: len(publisher.confirmed) > count + 50, "messages are confirmed without b")
        brokers.until(lambda: brokers.all_led("a"), "each group has a leader")
        publisher.over = True
        publisher.join(STOP_S)
        assert members_of(brokers, small) == ["a", "c", "d"], "a has come in for b"
        assert run_here("consume", f"/queues/{small}", "--drain", url=entry).out.split() == sent
        found = run_here("consume", f"/queues/{QUEUE}", "--drain", url=brokers.urls["d"]).out.split()
        assert set(publisher.confirmed) <= set(found), "lost"
        tell(f"{len(publisher.confirmed)} messages confirmed, {len(found)} found")
