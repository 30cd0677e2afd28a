"""An alarm that comes and goes: consumers go on, publishers stop with closed windows, and every publisher goes on after
it."""

import random

import pytest

from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Flow
from tests.kit.wire import InProcessBroker, WirePeer, numbered

LINKS_PER_PEER = 25
PEERS = 8
TOGGLES = 1000


def publishers(broker: InProcessBroker) -> list[WirePeer]:
    """Peers with 200 publishing links to 25 queues. Each peer has a consumer on the same session."""
    peers = []
    for number in range(PEERS):
        peer = broker.connect()
        peer.begin()
        for handle in range(LINKS_PER_PEER):
            peer.attach_sender(f"/queues/q{handle}", handle=handle)
        peer.attach_receiver(f"/queues/q{number}", handle=LINKS_PER_PEER)
        peer.flow(handle=LINKS_PER_PEER, delivery_count=0, link_credit=100_000)
        peers.append(peer)
    return peers


@pytest.mark.slow
def test_a_thousand_toggles_leave_none_of_200_links_without_link_credit() -> None:
    broker = InProcessBroker()
    for number in range(LINKS_PER_PEER):
        broker.queue(f"q{number}")
    peers = publishers(broker)
    rng = random.Random(7)
    for _ in range(TOGGLES):
        name = rng.choice(("memory", "disk"))
        broker.raise_alarm(name)
        for peer in rng.sample(peers, 2):
            (closed,) = peer.take(Flow, lambda flow: flow.handle is None)[-1:]
            assert closed.incoming_window == 0
            # The client sent this before it heard of the alarm.
            peer.publish([b"under way"], handle=rng.randrange(LINKS_PER_PEER))
        broker.clear_alarm(name)
        busy = rng.choice(peers)
        busy.publish([b"x"] * 5, handle=rng.randrange(LINKS_PER_PEER))
        for peer in peers:
            peer.frames.clear()
    for peer in peers:
        assert peer.session(0).window.incoming_window > 0
        for handle in range(LINKS_PER_PEER):
            for _ in range(4):  # more than one link credit in all, so it is topped up on the way
                peer.publish([b"last"] * 50, handle=handle)
            assert peer.link(handle).credit.link_credit > 0
    assert sum(broker.ready(f"q{n}") + broker.unacknowledged(f"q{n}") for n in range(LINKS_PER_PEER)) == (
        TOGGLES * (2 + 5) + PEERS * LINKS_PER_PEER * 200
    )


def test_consuming_goes_on_in_the_session_whose_window_is_closed() -> None:
    broker = InProcessBroker()
    broker.queue()
    broker.fill(numbered(1000))
    peer = broker.connect()
    peer.begin()
    peer.attach_sender("/queues/q", handle=0)
    peer.attach_receiver("/queues/q", handle=1)
    broker.raise_alarm()
    for first in range(0, 1000, 100):
        peer.flow(handle=1, delivery_count=first, link_credit=100)
        assert len(peer.bodies()) == 100
        peer.dispose(first, first + 99, settled=True, state=ACCEPTED)
    assert broker.ready() == broker.unacknowledged() == 0


def test_new_connections_attaches_and_management_work_under_an_alarm() -> None:
    broker = InProcessBroker()
    broker.queue()
    broker.raise_alarm()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver("/queues/q", handle=0)
    peer.attach_sender("/management", handle=1)
    assert peer.session(0).window.incoming_window > 0  # no publishing link but the management one
    peer.attach_sender("/queues/q", handle=2)
    (closed,) = peer.take(Flow, lambda flow: flow.handle is None)[-1:]
    assert closed.incoming_window == 0
