"""A 0.9.1 connection under an alarm: the broker reads it until it publishes, and stops reading it then."""

import pytest

from core.amqp091.methods import (
    BasicGet,
    BasicQos,
    BasicQosOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect


@pytest.fixture
def peer() -> Wire091Peer:
    peer = connect(InProcessBroker(), 1, 2)
    peer.declare()
    peer.select_confirms()
    return peer


def state(peer: Wire091Peer) -> object:
    return peer.snapshots("connections")[0]["state"]


def test_row_1_02_an_alarm_stops_a_connection_that_publishes_and_its_state_says_so(peer: Wire091Peer):
    assert state(peer) == "running"
    peer.broker.raise_alarm()
    assert state(peer) == "blocking"
    peer.publish(1, numbered(1), routing_key="q")
    assert state(peer) == "blocked"
    peer.broker.clear_alarm()
    assert state(peer) == "running"


def test_row_1_03_a_blocked_client_is_told_why_and_when_it_is_over():
    """Three clients: one says that it can be told of a block, one says that it cannot, one says neither."""
    broker = InProcessBroker()
    clients = []
    for capabilities in ({"connection.blocked": True}, {"connection.blocked": False}, {}):
        client = Wire091Peer(broker)
        client.open(1, capabilities=capabilities)
        clients.append(client)
    broker.raise_alarm()
    for client in clients:
        client.publish(1, numbered(1), routing_key="q")
    broker.clear_alarm()
    told, *untold = [[method for _, method, _ in client.take()] for client in clients]
    assert told == [ConnectionBlocked(reason="low on memory"), ConnectionUnblocked()]
    assert untold == [[], []]


@pytest.mark.parametrize(
    ("alarms", "reason"),
    [(["memory"], "low on memory"), (["disk"], "low on disk"), (["disk", "memory"], "low on memory & disk")],
    ids=str,
)
def test_row_1_03_the_reason_in_words(peer: Wire091Peer, alarms: list[str], reason: str):
    for name in alarms:
        peer.broker.raise_alarm(name)
    peer.publish(1, numbered(1), routing_key="q")
    assert peer.pick(ConnectionBlocked).reason == reason
    for name in alarms:
        assert peer.methods(ConnectionUnblocked) == []
        peer.broker.clear_alarm(name)
    assert peer.pick(ConnectionUnblocked) == ConnectionUnblocked()


def test_a_client_is_told_once_of_alarms_that_overlap(peer: Wire091Peer):
    peer.broker.raise_alarm("memory")
    peer.publish(1, numbered(1), routing_key="q")
    peer.broker.raise_alarm("disk")
    peer.broker.clear_alarm("memory")
    assert len(peer.methods(ConnectionBlocked)) == 1
    assert not peer.front_end.reading


def test_row_4_14_nothing_is_read_from_a_blocked_connection_and_its_silence_is_no_fault():
    broker = InProcessBroker()
    peer = Wire091Peer(broker)
    peer.open(1, heartbeat=10)
    peer.declare()
    broker.raise_alarm()
    peer.publish(1, numbered(5), routing_key="q")
    assert broker.ready() == 1, "the publish that blocks is the last one"
    peer.send(1, QueueDeclare(queue="q"))
    assert peer.methods(QueueDeclareOk) == []
    peer.heartbeats = 0
    broker.advance(100.0)
    assert not peer.lost
    assert peer.heartbeats >= 19, "we go on sending ours"
    broker.clear_alarm()
    assert broker.ready() == 5
    assert len(peer.methods(QueueDeclareOk)) == 1
    broker.advance(100.0)
    assert peer.lost, "now it is a fault again"


def test_row_4_15_a_connection_that_has_not_published_goes_on(peer: Wire091Peer):
    peer.publish(1, numbered(5), routing_key="q")
    peer.take()
    peer.broker.raise_alarm()
    peer.consume(channel=2)
    assert peer.bodies() == numbered(5)
    peer.ack(5, multiple=True, channel=2)
    peer.declare("other")
    peer.send(1, BasicGet(queue="other"))
    assert peer.got() is None
    assert peer.broker.unacknowledged() == 0
    assert state(peer) == "blocking"
    newcomer = connect(peer.broker)
    newcomer.consume()
    assert state(newcomer) == "blocking"
    assert peer.take() == newcomer.take() == []


def test_row_4_15_a_publish_blocks_only_its_own_connection(peer: Wire091Peer):
    other = connect(peer.broker)
    other.consume()
    peer.broker.raise_alarm()
    peer.publish(1, numbered(3), routing_key="q")
    assert (state(peer), state(other)) == ("blocked", "blocking")
    assert other.bodies() == numbered(1)
    other.ack(1)
    assert other.take() == []


def test_a_connection_that_published_only_before_the_alarm_is_not_blocked(peer: Wire091Peer):
    peer.publish(1, numbered(3), routing_key="q")
    for _ in range(2):
        peer.broker.raise_alarm()
        assert state(peer) == "blocking"
        peer.publish(1, numbered(1), routing_key="q")
        assert state(peer) == "blocked"
        peer.broker.clear_alarm()


def test_consumers_of_a_blocked_connection_get_what_they_have_room_for_and_no_more(peer: Wire091Peer):
    source = connect(peer.broker)
    source.declare("source")
    source.publish(1, numbered(10), routing_key="source")
    peer.call(2, BasicQos(prefetch_count=4), BasicQosOk)
    peer.consume("source", channel=2)
    assert len(peer.bodies()) == 4
    peer.broker.raise_alarm()
    peer.publish(1, numbered(1), routing_key="q")
    peer.ack(4, multiple=True, channel=2)
    assert peer.bodies() == [], "the acknowledgement is not read"
    peer.broker.clear_alarm()
    assert peer.bodies() == numbered(4, 4)


def test_a_blocked_connection_can_be_shut_down(peer: Wire091Peer):
    peer.broker.raise_alarm()
    peer.publish(1, numbered(1), routing_key="q")
    peer.front_end.shut_down("the broker stops", peer.broker.now)
    peer.touch()
    peer.broker.run()
    assert peer.pick(ConnectionClose).reply_code == 320
    peer.send(0, ConnectionCloseOk())
    assert peer.lost
