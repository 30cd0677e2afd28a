"""An AMQP 0.9.1 reader that is blocked: the ledger and the log name the alarm, or the stage that is slow."""

from collections.abc import Callable

import pytest

from core.interface import FlowReason
from tests.kit.stall_scenarios import READERS, Scenario, publish_while_read, slow_queue, with_queue
from tests.kit.wire import InProcessBroker
from tests.kit.wire091 import Wire091Peer

Begin = Callable[[], Scenario[Wire091Peer]]
SCENARIOS = [pytest.param(cause.begin, cause.reason, cause.culprit, id=cause.name) for cause in READERS]


def shown(broker: InProcessBroker) -> list[tuple[object, object, object]]:
    return [(row["identity"], row["reason"], row["culprit"]) for row in broker.control.snapshot("stalls")]


@pytest.mark.parametrize(("begin", "reason", "culprit"), SCENARIOS)
def test_a_stall_is_named_within_a_second_and_clears_within_a_second(begin: Begin, reason: str, culprit: str):
    scenario = begin()
    broker, peer, end = scenario.broker, scenario.peer, scenario.end
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
    peer = begin().peer
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


def test_the_culprit_is_the_stage_that_is_slow_now():
    """At first the queue is slow. Then the queue takes messages again, and its channel does not."""
    peer = slow_queue().peer
    broker = peer.broker
    broker.go_round(1.0)
    for channel in peer.front_end.channels.values():
        channel._shared.messages_per_turn = 0
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
