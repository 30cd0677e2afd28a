"""A publisher that asks for more link credit: headgate's own link property max-link-credit of a sender's attach."""

import pytest

from amqp10.wire.performatives import Disposition, Flow
from amqp10.wire.types import UInt, ULong
from core.config.settings import Settings
from core.engine.options.policies import PolicyDeclaration
from tests.kit.apart import Apart
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, numbered

PROPERTY = "headgate:max-link-credit"
FRAME_BYTES = 60
"""Of a message with a body of one byte, more than that."""


def publishing(
    wanted: int | None, broker: InProcessBroker | None = None, settings: Settings | None = None
) -> tuple[WirePeer, object]:
    """A client that can use so much link credit, and what the broker's attach says of it."""
    broker = broker or InProcessBroker(settings)
    peer = broker.connect()
    peer.begin()
    properties = None if wanted is None else {PROPERTY: UInt(wanted)}
    answer = peer.attach_sender(broker.queue(), properties=properties)
    return peer, (answer.properties or {}).get(PROPERTY)


def grants(peer: WirePeer) -> list[tuple[int | None, int | None]]:
    """Take the flows that came for links: link-credit and incoming-window."""
    return [(flow.link_credit, flow.incoming_window) for flow in peer.take(Flow, lambda flow: flow.handle is not None)]


def test_it_gets_what_it_wants_when_the_size_of_its_messages_is_known():
    """The first link credit is the ordinary one. The session's window always has room for all of it, besides the 400
    frames that each session has."""
    peer, said = publishing(1000)
    assert said == ULong(1000)
    assert [link_credit for link_credit, _ in grants(peer)] == [170]
    peer.publish(numbered(85))
    assert grants(peer) == [(1000, 1400)]
    peer.publish(numbered(499))
    assert grants(peer) == []
    peer.publish(numbered(1))
    assert grants(peer) == [(1000, 1400)]


def test_no_more_is_under_way_than_half_as_many_again():
    peer, _ = publishing(1000)
    peer.publish(numbered(85))
    peer.broker.stall()
    sent, left = 0, 1000
    grants(peer)
    while left:
        peer.publish([b"x"])
        sent, left = sent + 1, left - 1
        for link_credit, _ in grants(peer):
            left = link_credit or 0
    assert sent == 1500
    peer.broker.recover()
    assert grants(peer)[-1][0] == 1000
    assert sum((one.last or one.first) - one.first + 1 for one in peer.take(Disposition)) == 85 + sent


@pytest.mark.parametrize(
    ("wanted", "most", "said"),
    [(None, 170, None), (50, 50, ULong(50)), (170, 170, ULong(170)), (2**32 - 1, 4096, ULong(4096))],
)
def test_the_broker_says_what_holds(wanted: int | None, most: int, said: object):
    peer, answer = publishing(wanted)
    assert answer == said
    peer.publish(numbered(min(most, 170) - 1))
    peer.publish([b"x"])
    assert peer.link(0).credit.most == most
    assert grants(peer)[-1][0] == most


def test_a_policy_and_an_operator_bound_it():
    broker = InProcessBroker()
    broker.queue()
    broker.engine.policies.set(
        PolicyDeclaration(name="few", pattern="^q$", priority=0, apply_to="queues", definition={"max-link-credit": 300})
    )
    peer, said = publishing(1000, broker)
    assert said == ULong(300)
    peer.publish(numbered(85))
    assert grants(peer)[-1] == (300, 700)
    broker.engine.policies.clear("few")
    broker.run()
    peer.publish(numbered(300))
    assert grants(peer)[-1][0] == 1000
    peer.link(0).reference.bound(10)
    broker.touch(peer)
    broker.run()
    assert grants(peer)[-1][0] == 10


def test_with_adaptive_flow_control_a_policy_bounds_the_first_link_credit_too():
    broker = InProcessBroker(make_settings(amqp10={"flow": "adaptive"}))
    broker.queue()
    broker.engine.policies.set(
        PolicyDeclaration(name="few", pattern="^q$", priority=0, apply_to="queues", definition={"max-link-credit": 50})
    )
    peer, _ = publishing(None, broker)
    assert grants(peer) == [(50, 450)]
    for _ in range(20):
        peer.publish(numbered(50))
        broker.advance(0.001)
        assert 0 < grants(peer)[-1][0] <= 50


def test_large_messages_get_what_the_budget_has_room_for_and_never_less_than_the_ordinary_link_credit():
    peer, _ = publishing(1000, settings=make_settings(amqp10={"link_unconfirmed_bytes_max": 150_000}))
    peer.publish([b"x"] * 85)
    assert grants(peer)[-1][0] == 1000
    peer.publish([b"x" * 300] * 500)
    assert grants(peer) == [], "it has more than half of what it may have now"
    peer.publish([b"x" * 300] * 400)
    ((link_credit, _),) = grants(peer)
    assert link_credit is not None
    assert 150_000 / 1.5 / (300 + FRAME_BYTES) < link_credit < 150_000 / 1.5 / 300
    peer.publish([b"x" * 30_000] * link_credit)
    assert grants(peer)[-1][0] == 170


def test_links_share_the_budget_of_the_broker_and_give_it_back():
    broker = InProcessBroker(make_settings(amqp10={"unconfirmed_bytes_max": 400_000}))
    peers = [publishing(4096, broker)[0] for _ in range(3)]
    for peer in peers:
        peer.publish([b"x" * 100] * 85)
    given = [grants(peer)[-1][0] or 0 for peer in peers]
    assert 4096 > given[0] > given[1] > given[2] > 170, "each takes half of what is free"
    assert broker.windows is not None
    assert 0 < broker.windows.bytes_held <= 400_000
    for peer in peers:
        peer.disconnect()
    assert broker.windows.bytes_held == 0


def test_an_alarm_stops_it_and_lets_it_go_on():
    peer, _ = publishing(1000)
    peer.publish(numbered(85))
    grants(peer)
    peer.broker.raise_alarm()
    assert peer.take(Flow)[-1].incoming_window == 0
    peer.publish(numbered(1000))
    peer.broker.clear_alarm()
    assert peer.take(Flow)[-1].incoming_window == 1400
    assert peer.link(0).credit.link_credit == 1000


def test_where_another_node_leads_the_queue_the_answer_promises_nothing():
    a = Apart()
    answer = a.peer.attach_sender(a.address, properties={PROPERTY: UInt(1000)})
    assert PROPERTY not in (answer.properties or {})
    assert [link_credit for link_credit, _ in grants(a.peer)][-1] == 170


def test_the_node_that_leads_the_queue_gives_what_is_wanted_through_another_node():
    a = Apart()
    a.peer.attach_sender(a.address, properties={PROPERTY: UInt(1000)})
    grants(a.peer)
    a.peer.publish(numbered(85))
    assert grants(a.peer)[-1][0] == 1000
    a.peer.publish(numbered(500))
    assert grants(a.peer)[-1][0] == 1000


@pytest.mark.parametrize(("wanted", "most"), [(None, 170), (50, 50), (2**32 - 1, 4096)])
def test_the_bounds_hold_through_another_node(wanted: int | None, most: int):
    a = Apart()
    a.peer.attach_sender(a.address, properties=None if wanted is None else {PROPERTY: UInt(wanted)})
    assert grants(a.peer)[-1][0] == min(most, 170)
    a.peer.publish(numbered(min(most, 170)))
    assert grants(a.peer)[-1][0] == most


def test_a_policy_bounds_it_at_the_node_that_leads_the_queue():
    a = Apart()
    a.home.engine.policies.set(
        PolicyDeclaration(
            name="few", pattern="^far$", priority=0, apply_to="queues", definition={"max-link-credit": 300}
        )
    )
    a.peer.attach_sender(a.address, properties={PROPERTY: UInt(1000)})
    a.peer.publish(numbered(85))
    assert grants(a.peer)[-1][0] == 300


def test_with_adaptive_flow_control_the_window_keeps_to_it():
    peer, said = publishing(50, settings=make_settings(amqp10={"flow": "adaptive"}))
    assert said == ULong(50)
    assert peer.link(0).credit.most == 50
