"""A broker in maintenance mode, as clients of AMQP 1.0 see it: nothing new is begun, and what is under way is
settled."""

import pytest

from amqp10.frontend.reasons import REASON_KEY
from amqp10.wire.performatives import Attach, Detach, Flow
from amqp10.wire.types import Symbol
from core.server.orders import PauseLink, ResumeLink
from tests.kit.wire import InProcessBroker, WirePeer, numbered


@pytest.fixture
def peer():
    """A client that publishes at handle 0 and consumes at handle 1."""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.attach_receiver("/queues/q")
    return peer


def drain(peer: WirePeer, *, wanted: bool = True) -> dict[str, object]:
    answer = peer.broker.control.drain(wanted=wanted)
    peer.broker.run()
    return answer


def told(peer: WirePeer) -> set[tuple[object, object]]:
    flows = peer.take(Flow, lambda flow: REASON_KEY in (flow.properties or {}))
    return {(flow.handle, flow.properties[REASON_KEY]) for flow in flows}


def test_publishers_and_consumers_stand_still_and_are_told(peer):
    peer.grant(10)
    drain(peer)
    assert peer.take(Flow)[-1].incoming_window == 0
    peer.broker.fill(numbered(3))
    assert peer.bodies() == []
    peer.broker.go_round(1.0)
    assert told(peer) == {(0, Symbol("drain-mode")), (1, Symbol("drain-mode"))}
    rows = peer.broker.control.snapshot("stalls")
    assert {(row["direction"], row["reason"], row["culprit"]) for row in rows} == {
        ("in", "drain-mode", "operator"),
        ("out", "drain-mode", "operator"),
    }
    drain(peer, wanted=False)
    peer.broker.go_round(1.0)
    assert peer.bodies() == numbered(3)
    assert told(peer) == {(0, None), (1, None)}
    peer.publish(numbered(1))
    assert len(peer.bodies()) == 1


def test_what_consumers_have_they_settle(peer):
    peer.grant(10)
    peer.broker.fill(numbered(3))
    assert drain(peer)["unsettled"] == 3
    peer.dispose(0, 1, state=None)
    assert peer.broker.control.draining()["unsettled"] == 1
    peer.dispose(2)
    assert peer.broker.control.draining()["unsettled"] == 0
    assert not peer.take(Detach)


def test_what_was_on_its_way_is_taken(peer):
    drain(peer)
    peer.publish(numbered(100))
    assert peer.broker.ready() == 100


@pytest.mark.parametrize("address", ["/queues/q", None])
def test_new_links_are_refused(peer, address):
    drain(peer)
    if address is not None:
        peer.attach_receiver(address, handle=6)
    else:
        peer.attach_sender(address, handle=6)
    detach = peer.pick(Detach)
    assert detach.error.condition == "amqp:link:detach-forced"
    assert "being drained" in detach.error.description
    drain(peer, wanted=False)
    peer.detach(6)
    assert peer.attach_receiver("/queues/q", handle=7).source is not None


def test_the_management_node_stays_open_to_those_that_come(peer):
    drain(peer)
    late = peer.broker.connect()
    late.begin()
    late.attach_receiver("/management", handle=1, name="m", properties={"paired": True})
    late.attach_sender("/management", handle=0, name="m", properties={"paired": True})
    assert not late.take(Detach)
    assert late.take(Flow)[-1].link_credit > 0
    late.attach_sender("/queues/q", handle=2)
    assert late.detached_with("amqp:link:detach-forced")


def test_an_operator_may_pause_and_drain_in_any_order(peer):
    peer.grant(10)
    drain(peer)
    peer.front_end.obey(PauseLink("test-0/0/1"), peer.broker.now)
    drain(peer, wanted=False)
    peer.broker.fill(numbered(2))
    assert peer.bodies() == []
    peer.front_end.obey(ResumeLink("test-0/0/1"), peer.broker.now)
    peer.broker.touch(peer)
    peer.broker.run()
    assert peer.bodies() == numbered(2)


def test_draining_twice_is_draining_once(peer):
    drain(peer)
    before = len(peer.take(Flow))
    drain(peer)
    assert (before > 0, peer.take(Flow)) == (True, [])
    assert not peer.take(Attach)
