"""Flow events of a real broker: a blocked publisher, and the end of its block, in ``$flow`` and on ``/flow/self``."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.observe.flow_events.schema import EventKind, FlowEventRecord, decode
from tests.kit.broker_process import ROOT, BrokerAddress, broker_process
from tests.kit.command_line import run_here

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(60)]

SETTINGS = """
[flow_events]
enabled = true
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    """A broker that keeps its flow events."""
    settings = tmp_path_factory.mktemp("settings") / "broker.toml"
    settings.write_text(SETTINGS)
    with broker_process("--config", str(settings)) as address:
        yield address


class Reading:
    """The records that a receiver has got, and that a test has not waited for."""

    def __init__(self, peer: Any, address: str) -> None:
        self.records: list[FlowEventRecord] = []
        self._peer = peer
        self._link = peer.receiver(address)
        peer.attached(self._link)
        peer.flow(self._link, 1000)

    def has(self, condition: Callable[[FlowEventRecord], bool]) -> bool:
        """True when such a record has come that the test has not waited for."""
        for received in self._peer.received.pop(self._link.name, []):
            self.records += decode(received.message.body).records
        return any(map(condition, self.records))

    def until(self, condition: Callable[[FlowEventRecord], bool], what: str) -> FlowEventRecord:
        """The next record of this kind; records before it are passed over."""
        while True:
            while self.records:
                record = self.records.pop(0)
                if condition(record):
                    return record
            (received,) = self._peer.take(self._link, 1)
            assert received.message.content_type == "application/cbor-seq"
            assert received.message.creation_time > 0
            self.records += decode(received.message.body).records


def is_stall(kind: EventKind, address: str) -> Callable[[FlowEventRecord], bool]:
    return lambda record: record.kind == kind and record.fields.get("address") == address


def publish(link: Any) -> bool:
    """Publish as much as the link credit allows."""
    while link.credit > link.queued:
        link.send(sys.modules["proton"].Message(body="x"))
    return True


def headgate(broker: BrokerAddress, *arguments: str) -> str:
    ran = run_here(*arguments, url=broker.url())
    assert ran.code == 0, ran.err
    return ran.out


def stall_now(broker: BrokerAddress) -> dict[str, object]:
    (row,) = json.loads(headgate(broker, "stalls", "list", "--json"))
    return row


def test_a_blocked_publisher_shows_up_in_both(broker, connect, peer, queue):
    """The target is full and withholds link credit. Its flow events can be kept meanwhile."""
    name = "full"
    answer = peer.request("PUT", f"/queues/{name}", {"arguments": {"x-max-length": 1, "x-overflow": "block"}})
    assert answer.subject == "201"
    stream = Reading(connect().opened(), "/queues/%24flow")
    mine = Reading(peer, "/flow/self")
    assert (
        mine.until(lambda record: record.kind == EventKind.CONNECTION_OPENED, "how it stands").fields["user"] == "guest"
    )
    address = f"/queues/{name}"
    link = peer.sender(address)
    peer.attached(link)
    peer.until(lambda: publish(link) and mine.has(is_stall(EventKind.BLOCKED, address)), "the block")
    told = mine.until(is_stall(EventKind.BLOCKED, address), "the block").fields
    kept = stream.until(is_stall(EventKind.BLOCKED, address), "the block").fields
    row = stall_now(broker)
    assert (told["reason"], told["culprit"], told["link"]) == (row["reason"], row["culprit"], row["identity"])
    assert told["reason"] == "queue-full"
    assert kept == told
    headgate(broker, "queues", "purge", name)
    answer = peer.request("DELETE", f"/queues/{name}")
    assert answer.subject == "200"
    assert mine.until(is_stall(EventKind.UNBLOCKED, address), "its end").fields["seconds"] > 0
    assert stream.until(is_stall(EventKind.UNBLOCKED, address), "its end").fields["reason"] == "queue-full"


def test_an_alarm_is_kept_and_its_events_come_when_it_is_over(broker, connect, peer, queue):
    stream = Reading(connect().opened(), "/queues/%24flow")
    mine = Reading(peer, "/flow/self")
    peer.attached(peer.sender(queue))
    headgate(broker, "alarms", "set", "disk")
    try:
        record = mine.until(is_stall(EventKind.BLOCKED, queue), "the block")
        told = record.fields
        assert record.at - float(told["since"]) < 1.0
        assert (told["reason"], told["culprit"]) == ("disk", "alarm disk")
    finally:
        headgate(broker, "alarms", "clear", "disk")
    mine.until(is_stall(EventKind.UNBLOCKED, queue), "its end")
    assert stream.until(lambda record: record.kind == EventKind.ALARM, "the alarm").fields == {
        "alarm": "disk",
        "on": True,
    }
    assert stream.until(is_stall(EventKind.BLOCKED, queue), "the block").fields == told
    stream.until(is_stall(EventKind.UNBLOCKED, queue), "its end")


def test_without_the_setting_there_is_no_stream_and_still_flow_self(connect):
    with broker_process() as address:
        other = connect(address.url()).opened()
        link = other.receiver("/queues/%24flow")
        assert other.closed(link)[0] == "amqp:not-found"
        mine = Reading(other, "/flow/self")
        assert mine.until(lambda record: record.kind == EventKind.CONNECTION_OPENED, "how it stands")
        other.close()


def test_the_example_prints_them(broker, peer, queue):
    peer.publish(queue, "one", "two", "three")
    environment = {**os.environ, "HEADGATE_URL": broker.url()}
    process = subprocess.Popen(
        [sys.executable, str(Path("examples") / "08_flow_events.py")],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    timer = threading.Timer(20.0, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        attached, accepted = "", 0
        for line in process.stdout:
            record = json.loads(line)
            if record["kind"] == "link-attached" and record.get("address") == queue:
                attached = record["link"]
            if record["kind"] == "activity" and record["link"] == attached:
                accepted += record.get("accepted", 0)
                if accepted == 3:
                    break
        assert accepted == 3
    finally:
        timer.cancel()
        process.kill()
        process.communicate()
