"""A reader of AMQP 0.9.1 that stands still: the ledger and the log name the alarm, or the stage that is slow."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from core.amqp091.connection import ConnectionSettings
from core.amqp091.frontend.settings import FrontEndSettings
from core.amqp091.properties import BasicProperties
from core.credit_flow.flow import StageCreditSpec
from core.engine.settings import EngineSettings
from core.interface import FlowReason
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, open_storage, work
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect

Begin = Callable[[], tuple[Wire091Peer, Callable[[], object]]]
STOPPED = FrontEndSettings(connection=ConnectionSettings(), channel_messages_per_turn=0)


def with_queue(broker: InProcessBroker, settings: FrontEndSettings | None = None) -> Wire091Peer:
    broker.queue("q")
    return connect(broker, 1, 2, settings=settings)


def publish_while_read(peer: Wire091Peer, body: bytes = b"m") -> None:
    """Publish until the broker reads no more."""
    for _ in range(1000):
        if not peer.front_end.reading:
            return
        peer.publish(1, [body] * 10, routing_key="q", properties=BasicProperties(delivery_mode=2))
    raise AssertionError("the reader never stops")


def alarm(name: str) -> Begin:
    def begin() -> tuple[Wire091Peer, Callable[[], object]]:
        peer = with_queue(InProcessBroker())
        peer.broker.raise_alarm(name)
        peer.publish(1, numbered(1), routing_key="q")
        return peer, lambda: peer.broker.clear_alarm(name)

    return begin


def slow_channel() -> tuple[Wire091Peer, Callable[[], object]]:
    peer = with_queue(InProcessBroker(), STOPPED)
    publish_while_read(peer)

    def hurry() -> None:
        for channel in peer.front_end.channels.values():
            channel._shared.settings = replace(STOPPED, channel_messages_per_turn=200)
        peer.touch()
        peer.broker.run()

    return peer, hurry


def slow_queue() -> tuple[Wire091Peer, Callable[[], object]]:
    peer = with_queue(InProcessBroker())
    peer.broker.stall()
    publish_while_read(peer)
    return peer, peer.broker.recover


def slow_store() -> tuple[Wire091Peer, Callable[[], object]]:
    storage = open_storage(MemoryDisk(), KeptDefinitions())
    settings = EngineSettings(store_stage_credit=StageCreditSpec(40, 20))
    peer = with_queue(InProcessBroker(engine=settings, storage=storage))
    publish_while_read(peer, bytes(5000))

    def write() -> None:
        while work(storage, peer.broker.now.monotonic):
            peer.broker.run()

    return peer, write


SCENARIOS = [
    pytest.param(alarm("memory"), "memory", "alarm memory", id="memory"),
    pytest.param(alarm("disk"), "disk", "alarm disk", id="disk"),
    pytest.param(slow_channel, "stage-credit", "channel test-0/1", id="channel"),
    pytest.param(slow_queue, "stage-credit", "queue q", id="queue"),
    pytest.param(slow_store, "stage-credit", "message store", id="message store"),
]


def shown(broker: InProcessBroker) -> list[tuple[object, object, object]]:
    return [(row["identity"], row["reason"], row["culprit"]) for row in broker.control.snapshot("stalls")]


@pytest.mark.parametrize(("begin", "reason", "culprit"), SCENARIOS)
def test_it_is_named_within_a_second_and_clear_within_a_second(begin: Begin, reason: str, culprit: str):
    peer, end = begin()
    broker = peer.broker
    broker.go_round(1.0)
    assert not peer.front_end.reading
    assert shown(broker) == [("test-0", reason, culprit)]
    broker.go_round(5.0)
    end()
    broker.go_round(1.0)
    assert shown(broker) == []
    assert [(line["event"], line["reason"], line["culprit"]) for line in broker.log.entries] == [
        ("stall-started", reason, culprit),
        ("stall-ended", reason, culprit),
    ]
    assert broker.stalls.seconds == {("", "in", reason): pytest.approx(6.0)}


@pytest.mark.parametrize(("begin", "reason", "culprit"), SCENARIOS)
@pytest.mark.parametrize("how", ["socket", "operator"])
def test_the_stall_ends_with_its_connection(begin: Begin, reason: str, culprit: str, how: str):
    peer, _ = begin()
    peer.broker.go_round(1.0)
    if how == "operator":
        peer.front_end.shut_down("moving", peer.broker.now)
        peer.touch()
        peer.broker.run()
    else:
        peer.disconnect()
    assert dict(peer.broker.stalls.current) == {}
    assert [line["event"] for line in peer.broker.log.entries] == ["stall-started", "stall-ended"]
    peer.broker.go_round(1.0)
    assert dict(peer.broker.stalls.current) == {}


def test_the_culprit_is_who_is_slow_now():
    """The queue that was slow at first takes messages again, and its channel does not."""
    peer, _ = slow_queue()
    broker = peer.broker
    broker.go_round(1.0)
    for channel in peer.front_end.channels.values():
        channel._shared.settings = STOPPED
    broker.recover()
    peer.publish(1, [b"m"] * 1000, routing_key="q")
    broker.go_round(2.0)
    assert shown(broker) == [("test-0", "stage-credit", "channel test-0/1")]


def test_a_reader_that_is_stopped_again_and_again_has_many_short_stalls():
    peer = with_queue(InProcessBroker())
    for _ in range(10):
        peer.broker.stall()
        publish_while_read(peer)
        peer.broker.advance(0.04)
        peer.broker.recover()
        peer.publish(1, [b"m"] * 2000, routing_key="q")
    peer.broker.go_round(1.0)
    assert peer.broker.log.entries == []
    assert peer.broker.stalls.seconds == {("", "in", FlowReason.STAGE_CREDIT): pytest.approx(0.4)}


def test_a_connection_that_only_consumes_is_not_blocked_by_an_alarm():
    peer = with_queue(InProcessBroker())
    peer.consume()
    peer.broker.raise_alarm()
    peer.broker.go_round(1.0)
    assert dict(peer.broker.stalls.current) == {}
