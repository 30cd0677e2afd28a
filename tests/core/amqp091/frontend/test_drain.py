"""A broker in maintenance mode, as clients of AMQP 0.9.1 see it."""

import pytest

from core.amqp091.methods import BasicQos, BasicQosOk, ConnectionBlocked, ConnectionClose, ConnectionUnblocked
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect


@pytest.fixture
def peer() -> Wire091Peer:
    peer = connect(InProcessBroker(), 1, 2)
    peer.declare()
    return peer


def drain(peer: Wire091Peer, *, wanted: bool = True) -> None:
    peer.broker.control.drain(wanted=wanted)
    peer.broker.run()


def test_a_publisher_is_blocked_and_told_why(peer: Wire091Peer):
    drain(peer)
    peer.publish(1, numbered(1), routing_key="q")
    assert peer.pick(ConnectionBlocked).reason == "the broker is being drained"
    peer.broker.go_round(1.0)
    (stall,) = peer.broker.control.snapshot("stalls")
    assert (stall["reason"], stall["culprit"]) == ("drain-mode", "operator")
    drain(peer, wanted=False)
    peer.pick(ConnectionUnblocked)
    assert peer.broker.ready() == 1


def test_consumers_get_nothing_more_and_settle_what_they_have(peer: Wire091Peer):
    peer.consume()
    peer.consume(channel=2)
    peer.broker.fill(numbered(4))
    assert len(peer.deliveries()) == 4
    drain(peer)
    peer.broker.fill(numbered(3, first=4))
    peer.ack(2, multiple=True)
    peer.ack(2, multiple=True, channel=2)
    assert peer.deliveries() == []
    assert (peer.broker.ready(), peer.broker.unacknowledged()) == (3, 0)
    drain(peer, wanted=False)
    assert {body for _, _, body in peer.deliveries()} == set(numbered(3, first=4))


def test_a_prefetch_count_of_the_channel_is_kept_to_afterwards(peer: Wire091Peer):
    peer.call(1, BasicQos(prefetch_count=2, global_=True), BasicQosOk)
    peer.consume()
    peer.broker.fill(numbered(5))
    assert len(peer.deliveries()) == 2
    drain(peer)
    peer.ack(1)
    assert peer.deliveries() == []
    drain(peer, wanted=False)
    assert len(peer.deliveries()) == 1
    peer.ack(3, multiple=True)
    assert len(peer.deliveries()) == 2


def test_a_new_client_is_refused(peer: Wire091Peer):
    drain(peer)
    late = Wire091Peer(peer.broker)
    late.open()
    close = late.pick(ConnectionClose)
    assert (close.reply_code, "being drained" in close.reply_text) == (320, True)
