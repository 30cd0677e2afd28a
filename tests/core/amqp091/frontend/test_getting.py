"""basic.get: it asks for one message, and its answer always comes in its turn."""

import pytest

from core.amqp091.framing import method_frame
from core.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect, published


@pytest.fixture
def peer() -> Wire091Peer:
    peer = connect(InProcessBroker(), 1, 2)
    peer.declare()
    return peer


def get(peer: Wire091Peer, queue: str = "q", *, no_ack: bool = False) -> tuple[BasicGetOk, bytes] | None:
    """Send basic.get; returns the body of its message."""
    peer.send(1, BasicGet(queue=queue, no_ack=no_ack))
    got = peer.got()
    return None if got is None else (got[0], got[2])


@case("engine", "3.18")
def test_row_3_18_get_ok_tells_how_many_are_left(peer: Wire091Peer):
    """row 3.18: message_count of basic.get-ok is how many messages are left."""
    peer.publish(1, numbered(3), routing_key="q")
    counts = []
    while (got := get(peer)) is not None:
        counts.append(got[0].message_count)
    assert counts == [2, 1, 0]


def test_messages_come_in_order_and_are_held_until_acknowledged(peer: Wire091Peer):
    peer.publish(1, numbered(3), routing_key="q")
    taken = [get(peer) for _ in range(3)]
    assert [(got[0].delivery_tag, got[0].redelivered, got[1]) for got in taken if got] == [
        (1, False, b"0"),
        (2, False, b"1"),
        (3, False, b"2"),
    ]
    assert peer.broker.unacknowledged() == 3
    peer.ack(2, multiple=True)
    peer.send(1, BasicNack(delivery_tag=3))
    again = get(peer)
    assert again is not None
    assert (again[0].delivery_tag, again[0].redelivered, again[1]) == (4, True, b"2")


def test_without_an_acknowledgement(peer: Wire091Peer):
    peer.publish(1, numbered(2), routing_key="q")
    assert get(peer, no_ack=True) is not None
    assert peer.broker.unacknowledged() == 0
    held = get(peer)
    assert held is not None
    assert held[0].delivery_tag == 2
    assert peer.broker.unacknowledged() == 1


def test_a_message_given_back_waits_for_the_next_get(peer: Wire091Peer):
    peer.publish(1, numbered(2), routing_key="q")
    assert get(peer) is not None
    peer.send(1, BasicNack(delivery_tag=1))
    assert peer.take() == []
    assert peer.broker.ready() == 2


def test_an_empty_queue_and_one_that_fills_later(peer: Wire091Peer):
    assert get(peer) is None
    peer.publish(1, numbered(2), routing_key="q")
    assert peer.take() == [], "an empty answer is final: nothing comes later by itself"
    got = get(peer)
    assert got is not None
    assert got[1] == b"0"


def test_a_get_keeps_its_place_among_publishes_and_other_methods(peer: Wire091Peer):
    """One read holds publish, get, publish, get, get, purge. Each get sees what was published before it."""
    one = published(1, [b"1"], routing_key="q")
    two = published(1, [b"2"], routing_key="q")
    ask = method_frame(1, BasicGet(queue="q", no_ack=True))
    rest = method_frame(1, QueueDeclare(queue="q", passive=True)) + method_frame(1, QueuePurge(queue="q"))
    peer.send_bytes(ask + one + ask + two + two + ask + rest + ask)
    came = [(type(method), entry[-1:] if entry else None) for _, method, entry in peer.take()]
    assert came == [
        (BasicGetEmpty, None),
        (BasicGetOk, b"1"),
        (BasicGetOk, b"2"),
        (QueueDeclareOk, None),
        (QueuePurgeOk, None),
        (BasicGetEmpty, None),
    ]


def test_it_does_not_wait_for_another_channel(peer: Wire091Peer):
    peer.publish(1, [b"m"], routing_key="q")
    peer.send_bytes(method_frame(1, BasicGet(queue="q")) + method_frame(2, QueueDeclare(queue="q")))
    assert {channel for channel, _, _ in peer.take()} == {1, 2}


def test_a_get_is_no_consumer_and_has_no_prefetch(peer: Wire091Peer):
    peer.publish(1, numbered(10), routing_key="q")
    peer.call(1, BasicQos(prefetch_count=2, global_=True), BasicQosOk)
    assert [get(peer) is not None for _ in range(4)] == [True] * 4
    assert peer.declare(passive=True).consumer_count == 0
    peer.consume()
    assert len(peer.bodies()) == 2, "what was got does not count"


def test_gets_and_consumers_of_a_channel_share_delivery_tags(peer: Wire091Peer):
    peer.publish(1, numbered(1), routing_key="q")
    assert get(peer) is not None
    peer.consume()
    peer.publish(1, numbered(1), routing_key="q")
    assert peer.expect(BasicDeliver).delivery_tag == 2
    peer.ack(2, multiple=True)
    assert peer.broker.unacknowledged() == 0


def test_from_many_queues(peer: Wire091Peer):
    """The channel gets from more queues than it keeps getters for. Getters with an unacknowledged message stay."""
    for number in range(100):
        peer.declare(f"q{number}")
        peer.publish(1, [b"m"], routing_key=f"q{number}")
        assert get(peer, f"q{number}", no_ack=number % 2 == 0) is not None
    assert peer.snapshots("channels")[0]["unacked"] == 50
    peer.ack(100, multiple=True)
    assert get(peer, "q0") is None
    assert len(peer.broker.engine.snapshot("consumers")) <= 64


def test_a_get_after_its_queue_was_deleted_and_declared_again(peer: Wire091Peer):
    peer.publish(1, numbered(2), routing_key="q")
    assert get(peer) is not None
    peer.call(2, QueueDelete(queue="q"), QueueDeleteOk)
    peer.ack(1)
    assert peer.refusal(1, BasicGet(queue="q"))[0] == 404
    peer.declare()
    assert get(peer) is None


def test_what_is_not_acknowledged_goes_back_when_the_connection_goes(peer: Wire091Peer):
    peer.publish(1, numbered(1), routing_key="q")
    assert get(peer) is not None
    peer.disconnect()
    assert (peer.broker.ready(), peer.broker.unacknowledged()) == (1, 0)
    assert peer.broker.engine.snapshot("consumers") == []


def test_from_a_stream_is_not_implemented():
    peer = connect(InProcessBroker(durable=True))
    peer.declare(durable=True, arguments={"x-queue-type": "stream"})
    assert peer.closed_with(1, BasicGet(queue="q")) == 540


def test_an_acknowledgement_may_follow_in_the_same_read(peer: Wire091Peer):
    peer.publish(1, numbered(1), routing_key="q")
    peer.send(1, BasicGet(queue="q"), BasicAck(delivery_tag=1))
    assert peer.got() is not None
    assert peer.broker.unacknowledged() == 0
    assert peer.take() == []
