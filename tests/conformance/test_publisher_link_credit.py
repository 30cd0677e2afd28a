"""Link credit of publishers, and the effect of a resource alarm: link flow stops one link, an alarm stops all
publishing."""

from amqp10.wire.messaging import ACCEPTED, Released
from amqp10.wire.performatives import Attach, Detach, Disposition, Flow
from tests.kit.cases import case
from tests.kit.queue_types import for_each_type
from tests.kit.wire import InProcessBroker, WirePeer, numbered


def publishing(broker: InProcessBroker, address: str | None = None) -> WirePeer:
    """A client with one sender at handle 0, whose frames so far have been read."""
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address or broker.queue())
    peer.frames.clear()
    return peer


def link_grants(peer: WirePeer) -> list[Flow]:
    """Take the flows that came for links."""
    return peer.take(Flow, lambda flow: flow.handle is not None)


@case("engine", "3.7")
def test_the_trace_of_grants_to_a_publisher():
    """row 3.7: 170 at the attach, set to 170 again whenever 85 are left, with the publisher's own delivery-count."""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue(), initial_delivery_count=2**32 - 6)
    first = peer.expect(Flow)
    assert (first.handle, first.delivery_count, first.link_credit) == (0, 2**32 - 6, 170)
    trace = []
    for sent in range(1, 341):
        peer.transfer()
        trace += [(sent, flow.delivery_count, flow.link_credit) for flow in link_grants(peer)]
    assert trace == [(85, 79, 170), (170, 164, 170), (255, 249, 170), (340, 334, 170)]


@case("engine", "3.7")
def test_no_grant_while_too_many_are_not_confirmed():
    """row 3.7: with 170 unconfirmed there is no top-up; the most that can be under way is 85 + 170 = 255."""
    broker = InProcessBroker()
    peer = publishing(broker)
    broker.stall()
    sent = 0
    left = 170
    while left:
        peer.publish([b"x"])
        sent, left = sent + 1, left - 1
        for flow in link_grants(peer):
            left = flow.link_credit
    assert sent == 255
    broker.recover()
    (flow,) = link_grants(peer)
    assert (flow.link_credit, flow.delivery_count) == (170, 255)
    assert sum((each.last or each.first) - each.first + 1 for each in peer.take(Disposition)) == 255


@for_each_type
@case("amqp_client_SUITE", "link_flow_control")
def test_a_stalled_queue_stops_its_link_and_no_other(kind: str):
    """[FC] link_flow_control (amqp_client_SUITE): the queue is stalled by its stage, not by a lost node."""
    broker = InProcessBroker(durable=True)
    stalled, moving = broker.queue("stalled", x_queue_type=kind), broker.queue("moving")
    peer = publishing(broker, stalled)
    peer.attach_sender(moving, handle=1)
    peer.frames.clear()
    broker.stall("stalled")
    for _ in range(3):
        peer.publish(numbered(85))
    assert peer.link(0).credit.link_credit == 0
    peer.frames.clear()
    for start in range(0, 1000, 85):
        peer.publish(numbered(min(85, 1000 - start)), handle=1)
        assert {flow.handle for flow in link_grants(peer)} <= {1}
    assert broker.ready("moving") == 1000
    assert broker.ready("stalled") == 0
    peer.frames.clear()
    broker.recover("stalled")
    (flow,) = link_grants(peer)
    assert (flow.handle, flow.link_credit) == (0, 170)
    assert broker.ready("stalled") == 255


@case("amqp_client_SUITE", "resource_alarm_before_session_begin")
def test_an_alarm_that_is_older_than_the_session():
    """[FC] resource_alarm_before_session_begin (amqp_client_SUITE)"""
    broker = InProcessBroker()
    address = broker.queue()
    broker.raise_alarm("memory")
    broker.raise_alarm("disk")
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address)
    assert [(flow.link_credit, flow.incoming_window) for flow in link_grants(peer)] == [(170, 0)]
    peer.frames.clear()
    broker.clear_alarm("memory")
    assert peer.nothing_came()
    broker.clear_alarm("disk")
    assert peer.expect(Flow).incoming_window == 400
    peer.publish([b"now"])
    assert peer.take(Disposition)[0].state == ACCEPTED


@case("amqp_client_SUITE", "resource_alarm_after_session_begin")
def test_an_alarm_stops_publishing_and_nothing_else():
    """[FC] resource_alarm_after_session_begin (amqp_client_SUITE)"""
    broker = InProcessBroker()
    address = broker.queue()
    peer = publishing(broker, address)
    peer.attach_receiver(address)
    peer.publish(numbered(6))
    peer.frames.clear()
    broker.raise_alarm()
    flow = peer.expect(Flow)
    assert (flow.handle, flow.incoming_window) == (None, 0)

    peer.grant(2)
    peer.attach_receiver(address, handle=2)
    peer.grant(2, handle=2)
    other = broker.connect()
    other.begin()
    other.attach_receiver(address)
    other.grant(2)
    assert peer.bodies() + other.bodies() == numbered(6)
    peer.dispose(0, 3, state=ACCEPTED)
    other.dispose(0, 1, state=ACCEPTED)
    assert broker.unacknowledged() == 0

    peer.frames.clear()
    broker.clear_alarm()
    assert peer.expect(Flow).incoming_window == 400
    peer.publish(numbered(1))
    assert len(peer.take(Disposition)) == 1


@case("amqp_client_SUITE", "resource_alarm_send_many")
def test_an_alarm_in_the_middle_of_a_burst():
    """[FC] resource_alarm_send_many (amqp_client_SUITE): messages that were on their way are taken; then the client
    sees a window of 0."""
    broker = InProcessBroker()
    peer = publishing(broker)
    sent, window = 0, 400
    while window:
        if sent == 300:
            broker.raise_alarm()
        peer.publish(numbered(50))
        sent += 50
        for flow in peer.take(Flow):
            window = flow.incoming_window
    assert sent == 350
    assert broker.ready() == 350
    assert not peer.take(Detach)


@case("amqp_address_SUITE", "target_per_message_exchange_absent_unsettled")
def test_link_credit_is_topped_up_for_messages_that_go_nowhere():
    """[FC] target_per_message_exchange_absent_unsettled (amqp_address_SUITE)"""
    broker = InProcessBroker()
    peer = publishing(broker, None)
    peer.attach_sender(None, handle=5)
    peer.frames.clear()
    to = b"/exchanges/missing"
    properties = b"\x00\x53\x73\xc0" + bytes([len(to) + 5]) + b"\x03\x40\x40\xa1" + bytes([len(to)]) + to
    for _ in range(12):
        peer.publish(numbered(85), handle=5, payload=properties + b"\x00\x53\x75\xa0\x01x")
    rejections = peer.take(Disposition)
    assert {each.state.error.condition for each in rejections} == {"amqp:not-found"}
    assert sum((each.last or each.first) - each.first + 1 for each in rejections) == 12 * 85
    assert len(link_grants(peer)) == 12


@case("engine", "3.24")
def test_an_alarm_with_one_connection_that_does_both():
    """row 3.24: the window towards publishers is 0. The same connection goes on consuming, and may attach consumers."""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(10))
    peer = publishing(broker, address)
    broker.raise_alarm()
    peer.frames.clear()
    assert isinstance(peer.attach_receiver(address), Attach)
    peer.grant(10)
    assert peer.bodies() == numbered(10)
    assert peer.session().window.announced == 0


@case("amqp_client_SUITE", "publishing_to_non_existing_queue_should_settle_with_released")
@case("amqp_dotnet_SUITE", "no_routes_is_released")
def test_a_message_without_a_route_is_released():
    """publishing_to_non_existing_queue_should_settle_with_released (amqp_client_SUITE)
    no_routes_is_released (amqp_dotnet_SUITE)"""
    broker = InProcessBroker()
    peer = publishing(broker, "/exchanges/amq.direct/nobody")
    peer.transfer()
    assert isinstance(peer.expect(Disposition).state, Released)
