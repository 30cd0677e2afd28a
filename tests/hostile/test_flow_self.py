"""Receivers of ``/flow/self`` that give no link credit, read nothing, close their window, come and go.

Nothing in the broker grows, and the bystander is not disturbed.
"""

import pytest

from amqp10.wire.performatives import Attach, Detach
from core.observe.flow_events.feed import Feed
from tests.kit.hostile import Arena
from tests.kit.wire import WirePeer

SELF, BUSY = 9, 0
"""The channels of the receiver, and of the links that cause events."""


@pytest.fixture
def arena():
    arena = Arena()
    yield arena
    arena.finish()


def follower(arena: Arena, **flow: object) -> tuple[WirePeer, Feed]:
    peer = arena.attacker()
    peer.begin(SELF)
    peer.attach_receiver("/flow/self", handle=0, channel=SELF)
    if flow:
        peer.grant(handle=0, channel=SELF, **flow)  # type: ignore[arg-type]
    feed = peer.front_end._flow.receiver.feed
    assert isinstance(feed, Feed)
    return peer, feed


def make_events(arena: Arena, peer: WirePeer, n: int) -> None:
    """Attach and detach links: two events for each, and activity."""
    for number in range(n):
        peer.attach_sender(arena.address, handle=5, channel=BUSY, name=f"l{number}")
        arena.broker.advance(0.02)
        peer.detach(5, channel=BUSY)


@pytest.mark.parametrize(
    "flow",
    [
        pytest.param({}, id="no link credit"),
        pytest.param({"link_credit": 2**32 - 1, "incoming_window": 0}, id="closed window"),
        pytest.param({"link_credit": 1, "incoming_window": 1}, id="one of each"),
    ],
)
def test_records_that_a_receiver_does_not_take_are_dropped(arena: Arena, flow: dict[str, object]):
    peer, feed = follower(arena, **flow)

    for _ in range(5):
        make_events(arena, peer, 100)
        peer.frames.clear()
        assert len(feed.ring) <= arena.broker.flow.feed_records_max + 1
        assert peer.link(0, SELF).waiting <= 1
        arena.bystander.round()
    assert feed.ring.dropped_ever > 1000
    assert arena.broker.flow._connections.keys() == {peer.front_end.info.identity}


def test_a_socket_that_is_not_read_keeps_one_packet(arena: Arena):
    peer, feed = follower(arena, link_credit=2**32 - 1)

    peer.stop_reading(writes=1)
    for number in range(300):
        peer.send(Attach(name=f"l{number}", handle=5, role=True), channel=BUSY)
        arena.broker.advance(0.02)
    assert len(feed.ring) <= arena.broker.flow.feed_records_max + 1
    assert peer.link(0, SELF).waiting <= 1
    arena.bystander.round()


def test_coming_and_going_leaves_nothing(arena: Arena):
    peer = arena.attacker()
    peer.begin(SELF)
    for number in range(500):
        peer.attach_receiver("/flow/self", handle=0, channel=SELF, name=f"self{number}")
        peer.grant(100, handle=0, channel=SELF)
        peer.detach(0, channel=SELF)
        peer.frames.clear()
    assert arena.broker.flow._connections == {}
    assert arena.broker.flow.busy == {}
    assert peer.front_end._flow.recorder is None
    arena.bystander.round()


def test_many_receivers_are_refused_but_the_first(arena: Arena):
    peer, _ = follower(arena)
    for handle in range(1, 100):
        peer.attach_receiver("/flow/self", handle=handle, channel=SELF)
    assert len(peer.take(Detach)) == 99
    arena.bystander.round()
