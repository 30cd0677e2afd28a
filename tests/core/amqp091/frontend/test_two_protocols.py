"""The same queues for both protocols: a message published on one is consumed on the other, and counted there."""

import pytest

from amqp10.wire.messaging import ACCEPTED, RELEASED
from core.amqp091.methods import BasicGet, BasicNack
from core.amqp091.properties import BasicProperties
from tests.kit.wire import InProcessBroker, WirePeer, numbered
from tests.kit.wire091 import Wire091Peer, connect


@pytest.fixture
def old() -> Wire091Peer:
    """An AMQP 0.9.1 client, with queue q."""
    peer = connect(InProcessBroker(), 1, 2)
    peer.declare(durable=True)
    return peer


@pytest.fixture
def new(old: Wire091Peer) -> WirePeer:
    """An AMQP 1.0 client of the same broker, with a link each way."""
    peer = old.broker.connect()
    peer.begin()
    peer.attach_sender("/queues/q")
    peer.attach_receiver("/queues/q")
    return peer


def test_from_1_0_to_0_9_1(old: Wire091Peer, new: WirePeer):
    new.publish(numbered(5))
    old.consume()
    deliveries = old.deliveries()
    assert [body for _, _, body in deliveries] == numbered(5)
    assert {(method.exchange, method.routing_key, method.redelivered) for method, _, _ in deliveries} == {
        ("", "q", False)
    }
    old.ack(5, multiple=True)
    assert old.broker.unacknowledged() == 0


def test_from_0_9_1_to_1_0(old: Wire091Peer, new: WirePeer):
    old.publish(1, numbered(5), routing_key="q", properties=BasicProperties(message_id="m-7", delivery_mode=2))
    new.grant(10)
    deliveries = new.deliveries()
    assert [payload.rsplit(b"\xa0\x01", 1)[-1] for _, payload in deliveries] == numbered(5)
    assert all(b"m-7" in payload for _, payload in deliveries)
    new.dispose(0, 4, state=ACCEPTED)
    assert old.broker.unacknowledged() == 0


def test_by_exchange_and_key_of_a_1_0_address(old: Wire091Peer, new: WirePeer):
    old.bind("amq.topic", "a.#")
    new.attach_sender("/exchanges/amq.topic/a.b", handle=7)
    new.transfer(b"m", handle=7)
    old.consume()
    ((method, _, body),) = old.deliveries()
    assert (method.exchange, method.routing_key, body) == ("amq.topic", "a.b", b"m")


def test_a_routing_key_that_a_short_string_cannot_hold_is_cut(old: Wire091Peer):
    """A queue's argument may give its dead letters a routing key longer than a short string."""
    key = "k" * 1000
    old.declare("dying", arguments={"x-dead-letter-exchange": "amq.fanout", "x-dead-letter-routing-key": key})
    old.bind("amq.fanout")
    for consumed in (False, True):
        old.publish(1, [b"m"], routing_key="dying", properties=BasicProperties(expiration="0"))
        if consumed:
            old.consume()
            ((method, _, _),) = old.deliveries()
            assert method.routing_key.startswith("k" * 200)
        else:
            old.send(1, BasicGet(queue="q"))
            got = old.got()
            assert got is not None
            assert got[0].routing_key.startswith("k" * 200)


def test_what_one_gives_back_the_other_gets_as_redelivered(old: Wire091Peer, new: WirePeer):
    old.publish(1, [b"m"], routing_key="q")
    new.grant(1)
    assert len(new.deliveries()) == 1
    new.dispose(0, 0, state=RELEASED)
    old.send(1, BasicGet(queue="q"))
    got = old.got()
    assert got is not None
    assert got[0].redelivered
    old.send(1, BasicNack(delivery_tag=got[0].delivery_tag))
    new.grant(1)
    ((transfer, payload),) = new.deliveries()
    assert transfer.delivery_tag != b"\x00" * 4, "another delivery of the same message"
    assert payload.endswith(b"m")


def test_they_share_a_queue_in_turn(old: Wire091Peer, new: WirePeer):
    old.consume(no_ack=True)
    new.grant(50)
    old.publish(1, numbered(100), routing_key="q")
    mine, theirs = len(old.bodies()), len(new.deliveries())
    assert mine + theirs == 100
    assert theirs == 50


def test_one_priority_and_time_to_live_for_both(old: Wire091Peer, new: WirePeer):
    old.publish(1, [b"short"], routing_key="q", properties=BasicProperties(expiration="100"))
    new.publish([b"long"])
    old.broker.advance(1.0)
    new.grant(10)
    ((_, payload),) = new.deliveries()
    assert payload.endswith(b"long")
