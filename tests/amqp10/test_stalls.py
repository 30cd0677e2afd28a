"""One scenario for each reason of docs/flow-reasons that AMQP 1.0 has a cause for. The ledger, the log and, where the
peer is told, the link flow name the same reason and the right culprit within a second. Within a second of its end all
clear."""

from collections.abc import Callable

import pytest

from amqp10.frontend.reasons import REASON_KEY
from amqp10.wire.performatives import End, Flow
from amqp10.wire.types import Symbol
from tests.kit.settings import make_settings
from tests.kit.stall_scenarios import IN, LINKS, OUT, Scenario, consuming, publishing, unconfirmed_limit
from tests.kit.wire import InProcessBroker, WirePeer, numbered

SCENARIOS = [pytest.param(cause.begin, cause.identity, cause.reason, cause.culprit, id=cause.name) for cause in LINKS]
TOLD = {
    "drain-mode", "memory", "disk", "paused", "policy", "rate-limit", "queue-full", "unconfirmed-limit", "store-slow",
    "memory-share", "inactive", "no-quorum", "leader-moving",
}  # fmt: skip


def is_told(link: str, reason: str) -> bool:
    """Whether the peer is told on the link. A consumer that holds as much as it may is not: it decides when to
    settle."""
    return reason in TOLD and (link, reason) != (OUT, "policy")


def shown(broker: InProcessBroker) -> list[tuple[object, object, object]]:
    return [(row["identity"], row["reason"], row["culprit"]) for row in broker.control.snapshot("stalls")]


def lines(broker: InProcessBroker) -> list[tuple[object, object, object, object]]:
    return [(line["event"], line["link"], line["reason"], line["culprit"]) for line in broker.log.entries]


def told(peer: WirePeer) -> list[object]:
    flows = peer.take(Flow, lambda flow: REASON_KEY in (flow.properties or {}))
    return [flow.properties[REASON_KEY] for flow in flows]


@pytest.mark.parametrize(("begin", "link", "reason", "culprit"), SCENARIOS)
def test_ledger_log_and_flow_name_a_stall_within_a_second_and_clear_within_a_second(
    begin: Callable[[], Scenario[WirePeer]], link: str, reason: str, culprit: str
):
    scenario = begin()
    broker, peer = scenario.broker, scenario.peer
    broker.go_round(1.0)
    assert shown(broker) == [(link, reason, culprit)]
    assert lines(broker) == [("stall-started", link, reason, culprit)]
    assert told(peer) == ([Symbol(reason)] if is_told(link, reason) else [])
    scenario.end()
    broker.go_round(1.0)
    assert shown(broker) == []
    assert lines(broker)[1:] == [("stall-ended", link, reason, culprit)]
    assert told(peer) == ([None] if is_told(link, reason) else [])
    direction = "in" if link == IN else "out"
    assert [(key.address, key.direction, key.reason) for key in broker.stalls.seconds] == [
        ("/queues/q", direction, reason)
    ]


@pytest.mark.parametrize(("begin", "link", "reason", "culprit"), SCENARIOS)
@pytest.mark.parametrize("how", ["link", "session", "connection", "socket"])
def test_a_stall_ends_with_its_link(
    begin: Callable[[], Scenario[WirePeer]], link: str, reason: str, culprit: str, how: str
):
    scenario = begin()
    broker, peer = scenario.broker, scenario.peer
    broker.go_round(1.0)
    match how:
        case "link":
            peer.detach(int(link[-1]))
        case "session":
            peer.send(End())
        case "connection":
            peer.front_end.shut_down("moving", broker.now)
        case "socket":
            peer.disconnect()
    assert dict(broker.stalls.current) == {}
    assert [line["event"] for line in broker.log.entries] == ["stall-started", "stall-ended"]


def test_a_stall_names_the_link_and_since_when_it_waits():
    scenario = unconfirmed_limit()
    since = scenario.broker.now.wall
    scenario.broker.go_round(3.0)
    (row,) = scenario.broker.control.snapshot("stalls", IN)
    assert row == {
        "identity": IN,
        "connection": "test-0",
        "peer": "127.0.0.1:40000",
        "container_id": "shop",
        "user": "guest",
        "vhost": "/",
        "address": "/queues/q",
        "direction": "in",
        "reason": "unconfirmed-limit",
        "culprit": "queue q",
        "since": since,
        "seconds": pytest.approx(3.0),
    }


def test_peers_that_are_told_nothing_do_not_turn_the_ledger_off():
    broker = InProcessBroker(make_settings(amqp10={"flow_reason": {"enabled": False}}))
    peer = publishing(broker, broker.queue())
    broker.raise_alarm()
    broker.go_round(1.0)
    assert shown(broker) == [(IN, "memory", "alarm memory")]
    broker.clear_alarm()
    assert shown(broker) == []
    assert told(peer) == []


def test_one_alarm_after_the_other():
    broker = InProcessBroker()
    publishing(broker, broker.queue())
    broker.raise_alarm("disk")
    broker.go_round(1.0)
    broker.raise_alarm("memory")
    broker.go_round(1.0)
    broker.clear_alarm("memory")
    broker.go_round(1.0)
    assert shown(broker) == [(IN, "disk", "alarm disk")]
    assert [line["reason"] for line in broker.log.entries if line["event"] == "stall-started"] == [
        "disk",
        "memory",
        "disk",
    ]


@pytest.mark.parametrize(
    ("target", "culprit"), [("/exchanges/amq.fanout", "exchange amq.fanout"), (None, "targets of its messages")]
)
def test_the_culprit_for_a_publisher_without_a_queue(target: str | None, culprit: str):
    broker = InProcessBroker()
    peer = publishing(broker, target)
    broker.go_round(0.2)
    link = peer.link(0)
    link.credit.link_credit = 0
    peer.front_end._blocks.look_at(link.reference)
    broker.touch(peer)
    broker.run()
    broker.go_round(0.2)
    assert shown(broker) == [(IN, "unconfirmed-limit", culprit)]


def test_idleness_is_no_stall():
    broker = InProcessBroker()
    peer = consuming(broker)
    broker.go_round(1.0)  # no link credit, and nothing ready
    peer.grant(10)
    broker.go_round(1.0)  # link credit, and nothing ready
    broker.fill(numbered(10))
    broker.go_round(1.0)  # all of it used up, and nothing ready
    assert peer.link(1).credit.link_credit == 0
    assert broker.stalls.seconds == {}


def test_a_consumer_that_moves_between_two_looks_is_none():
    broker = InProcessBroker()
    peer = consuming(broker)
    broker.fill(numbered(100))
    for _ in range(20):
        broker.go_round(0.2)
        peer.grant(1)
    assert broker.stalls.seconds == {}


def test_a_publisher_that_is_never_out_of_link_credit_is_not_watched():
    broker = InProcessBroker()
    peer = publishing(broker, broker.queue())
    for _ in range(20):
        peer.publish(numbered(100))
        broker.go_round(0.2)
    assert broker.stalls.seconds == {}
    assert peer.front_end._blocks.deadline() is None


def test_the_brokers_reasons_come_before_the_clients():
    """A consumer that first gives no link credit and then waits behind another one has one stall at a time."""
    broker = InProcessBroker()
    peer = consuming(broker, x_single_active_consumer=True)
    peer.attach_receiver("/queues/q", handle=2)
    broker.fill(numbered(5))
    peer.grant(0, handle=2)
    broker.go_round(1.0)
    assert shown(broker) == [(OUT, "link-credit", "client")], "the active one; the other could get nothing anyway"
    peer.grant(10, handle=2)
    broker.go_round(1.0)
    assert sorted(map(str, shown(broker))) == sorted(
        map(str, [(OUT, "link-credit", "client"), ("test-0/0/2", "inactive", "active consumer of queue q")])
    )
    peer.detach(1)
    broker.go_round(1.0)
    assert shown(broker) == []
