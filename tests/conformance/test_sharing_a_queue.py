"""Several consumers on one queue: single active consumer, priorities, and unsettled messages of a consumer that
leaves."""

from amqp10.wire.messaging import ACCEPTED, Released
from amqp10.wire.performatives import Detach, Flow, Transfer
from amqp10.wire.types import Int
from tests.kit.cases import case
from tests.kit.queue_types import for_each_queue_type, for_each_type, from_first
from tests.kit.wire import InProcessBroker, WirePeer, body_of, numbered


def bodies_by_handle(peer: WirePeer) -> dict[int, list[bytes]]:
    """The bodies that came, by the link that they came on."""
    received: dict[int, list[bytes]] = {}
    for transfer, payload in peer.deliveries():
        received.setdefault(transfer.handle, []).append(body_of(payload))
    return received


def receivers(broker: InProcessBroker, address: str, handles: list[int]) -> WirePeer:
    """A client with a receiver at each of these handles, without link credit."""
    peer = broker.connect()
    peer.begin()
    for handle in handles:
        peer.attach_receiver(address, handle=handle)
    return peer


@for_each_queue_type
@case("amqp_client_SUITE", "single_active_consumer_classic")
@case("amqp_client_SUITE", "single_active_consumer_quorum")
@case("engine", "3.16")
def test_the_next_active_consumer_gets_what_the_former_held_in_order(kind: str):
    """[FC] single_active_consumer_classic (amqp_client_SUITE)
    [FC] single_active_consumer_quorum (amqp_client_SUITE)
    row 3.16: hand-over by detaching: the unsettled messages of the former consumer come first, and in order."""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind, x_single_active_consumer=True)
    peer = receivers(broker, address, [1, 2, 3])
    peer.grant(3, handle=1)
    peer.grant(3, handle=2)
    broker.fill(numbered(5))
    assert bodies_by_handle(peer) == {1: numbered(3)}
    peer.dispose(0, state=ACCEPTED)
    peer.detach(1)
    assert peer.pick(Detach).error is None
    assert bodies_by_handle(peer) == {2: [b"1", b"2", b"3"]}
    peer.detach(2)
    peer.grant(9, handle=3)
    assert bodies_by_handle(peer) == {3: [b"1", b"2", b"3", b"4"]}


@case("engine", "3.16")
def test_a_consumer_that_stops_and_settles_before_it_leaves():
    """row 3.16: hand-over without redelivery: link credit 0 with echo, settle, detach."""
    broker = InProcessBroker()
    address = broker.queue(x_single_active_consumer=True)
    peer = receivers(broker, address, [1, 2])
    broker.fill(numbered(6))
    peer.grant(3, handle=1)
    peer.grant(9, handle=2)
    assert bodies_by_handle(peer) == {1: numbered(3)}
    peer.grant(0, handle=1, echo=True)
    assert peer.pick(Flow).handle == 1
    peer.dispose(0, 2, state=ACCEPTED)
    peer.detach(1)
    received = peer.deliveries()
    assert [body_of(payload) for _, payload in received] == [b"3", b"4", b"5"]
    assert {transfer.handle for transfer, _ in received} == {2}


@for_each_queue_type
@case("amqp_client_SUITE", "single_active_consumer_drain_classic")
@case("amqp_client_SUITE", "single_active_consumer_drain_quorum")
def test_drain_is_answered_for_the_active_and_for_the_others(kind: str):
    """[FC] single_active_consumer_drain_classic (amqp_client_SUITE)
    [FC] single_active_consumer_drain_quorum (amqp_client_SUITE)"""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind, x_single_active_consumer=True)
    broker.fill(numbered(3))
    peer = receivers(broker, address, [1, 2])
    peer.grant(100, handle=2, drain=True)
    flow = peer.pick(Flow)
    assert (flow.handle, flow.link_credit, flow.delivery_count, flow.drain) == (2, 0, 100, True)
    peer.grant(2, handle=1, drain=True)
    assert bodies_by_handle(peer) == {1: [b"0", b"1"]}
    flow = peer.pick(Flow)
    assert (flow.handle, flow.link_credit, flow.delivery_count) == (1, 0, 2)
    peer.grant(5, handle=1, drain=True)
    assert bodies_by_handle(peer) == {1: [b"2"]}
    assert peer.pick(Flow).delivery_count == 7


@for_each_queue_type
@case("amqp_client_SUITE", "consumer_priority_classic")
@case("amqp_client_SUITE", "consumer_priority_quorum")
def test_consumers_with_link_credit_are_served_by_priority(kind: str):
    """[FC] consumer_priority_classic (amqp_client_SUITE)
    [FC] consumer_priority_quorum (amqp_client_SUITE)"""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind)
    peer = broker.connect()
    peer.begin()
    high, default, low = 1, 2, 3
    peer.attach_receiver(address, handle=low, properties={"rabbitmq:priority": Int(-2_000_000_000)})
    peer.attach_receiver(address, handle=default)
    peer.attach_receiver(address, handle=high, properties={"rabbitmq:priority": Int(2_000_000_000)})
    peer.grant(1, handle=low)
    peer.grant(1, handle=default)
    peer.grant(2, handle=high)
    served = []
    for number in range(5):
        broker.fill([b"%d" % number])
        served += [transfer.handle for transfer, _ in peer.deliveries()]
    assert served == [high, high, default, low]
    assert broker.ready() == 1


@for_each_queue_type
@case("amqp_client_SUITE", "detach_requeues_one_session_classic")
@case("amqp_client_SUITE", "detach_requeues_one_session_quorum")
def test_what_a_detached_receiver_held_goes_to_the_other_in_order(kind: str):
    """[FC] detach_requeues_one_session_classic (amqp_client_SUITE)
    [FC] detach_requeues_one_session_quorum (amqp_client_SUITE)"""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind)
    peer = receivers(broker, address, [1, 2])
    peer.grant(50, handle=1)
    peer.grant(50, handle=2)
    for number in range(1, 5):
        broker.fill([b"m%d" % number])
    assert bodies_by_handle(peer) == {1: [b"m1", b"m3"], 2: [b"m2", b"m4"]}
    peer.frames.clear()
    peer.detach(1)
    assert isinstance(peer.frames[0][1], Detach), "the detach is answered before what was held goes elsewhere"
    assert bodies_by_handle(peer) == {2: [b"m1", b"m3"]}
    peer.dispose(0, 100, state=ACCEPTED)
    assert peer.session().outgoing.count == 0
    assert broker.unacknowledged() == broker.ready() == 0


@for_each_queue_type
@case("amqp_client_SUITE", "detach_requeues_two_connections_classic")
@case("amqp_client_SUITE", "detach_requeues_two_connections_quorum")
def test_what_waited_behind_a_window_goes_back_too(kind: str):
    """[FC] detach_requeues_two_connections_classic (amqp_client_SUITE)
    [FC] detach_requeues_two_connections_quorum (amqp_client_SUITE): the window of the first client lets one message
    out, more wait behind it; all of them go to the other client, in order."""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind)
    slow = broker.connect()
    slow.begin(incoming_window=1)
    slow.attach_receiver(address)
    slow.grant(50, incoming_window=1)
    quick = broker.connect()
    quick.begin()
    quick.attach_receiver(address)
    quick.grant(50)
    broker.fill(numbered(6))
    assert (slow.bodies(), quick.bodies()) == ([b"0"], [b"1", b"3", b"5"])
    slow.detach(1)
    returned = quick.deliveries()
    assert [body_of(payload) for _, payload in returned] == [b"0", b"2", b"4"]
    quick.dispose(0, 10, state=ACCEPTED)
    assert broker.ready() == broker.unacknowledged() == 0


@for_each_queue_type
@case("amqp_client_SUITE", "release_multiple_message_order_classic")
@case("amqp_client_SUITE", "release_multiple_message_order_quorum")
def test_released_messages_come_back_in_order(kind: str):
    """release_multiple_message_order_classic (amqp_client_SUITE)
    release_multiple_message_order_quorum (amqp_client_SUITE)"""
    broker = InProcessBroker(durable=True)
    peer = receivers(broker, broker.queue(x_queue_type=kind), [1])
    broker.fill(numbered(4, first=1))
    peer.grant(4)
    assert peer.bodies() == [b"1", b"2", b"3", b"4"]
    peer.dispose(3, state=ACCEPTED)
    peer.dispose(1, 2, state=Released())
    peer.dispose(0, state=ACCEPTED)
    peer.grant(4)
    assert peer.bodies() == [b"2", b"3"]


@for_each_queue_type
@case("amqp_client_SUITE", "accept_multiple_message_order_classic")
@case("amqp_client_SUITE", "accept_multiple_message_order_quorum")
def test_ranges_accepted_out_of_order(kind: str):
    """accept_multiple_message_order_classic (amqp_client_SUITE)
    accept_multiple_message_order_quorum (amqp_client_SUITE)"""
    broker = InProcessBroker(durable=True)
    peer = receivers(broker, broker.queue(x_queue_type=kind), [1])
    broker.fill(numbered(5))
    peer.grant(5)
    left = []
    for first, last in ((1, 3), (4, 4), (0, 0)):
        peer.dispose(first, last, state=ACCEPTED)
        left.append(broker.unacknowledged())
    assert left == [2, 1, 0]
    assert broker.ready() == 0


@case("amqp_client_SUITE", "single_active_consumer_quorum_queue_notification")
def test_consumers_are_told_when_they_become_active_or_inactive():
    """[FC] single_active_consumer_quorum_queue_notification (amqp_client_SUITE): a consumer is told before its first
    delivery, and only when its state changes. The first consumer is active from the beginning."""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type="quorum", x_single_active_consumer=True)
    broker.fill(numbered(3))
    peer = receivers(broker, address, [1, 2])
    peer.grant(1, handle=1)
    peer.grant(1, handle=2, echo=True)
    assert bodies_by_handle(peer) == {1: [b"0"]}
    (flow,) = peer.take(Flow)
    assert (flow.handle, flow.available, flow.properties) == (2, 0, None)

    peer.attach_receiver(address, handle=3, properties={"rabbitmq:priority": Int(9)})
    peer.grant(1, handle=3)
    assert peer.nothing_came()
    peer.dispose(0, state=ACCEPTED)
    assert activity(peer) == [(1, False), (3, True)]
    assert isinstance(peer.frames[0][1], Transfer)
    assert bodies_by_handle(peer) == {3: [b"1"]}
    peer.grant(2, handle=1)
    assert peer.nothing_came()
    peer.detach(3)
    peer.pick(Detach)
    assert activity(peer) == [(1, True)]
    assert bodies_by_handle(peer) == {1: [b"1", b"2"]}


def activity(peer: WirePeer) -> list[tuple[int, bool]]:
    """Take the flows that say whether a consumer is active; they came before all other frames."""
    news = []
    while peer.frames and isinstance(peer.frames[0][1], Flow):
        flow = peer.expect(Flow)
        assert flow.properties is not None
        news.append((flow.handle, flow.properties["rabbitmq:active"]))
    return news


@case("amqp_client_SUITE", "single_active_consumer_priority_quorum_queue")
def test_a_higher_priority_takes_over_when_everything_is_settled():
    """[FC] single_active_consumer_priority_quorum_queue (amqp_client_SUITE): the next consumer is the one of the
    highest priority. Among equals it is the oldest; RabbitMQ takes the one with the most link credit."""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type="quorum", x_single_active_consumer=True)
    broker.fill(numbered(8))
    peer = receivers(broker, address, [1])
    peer.grant(2, handle=1)
    assert bodies_by_handle(peer) == {1: [b"0", b"1"]}
    for handle, priority in ((2, 1), (3, 3), (4, 3)):
        peer.attach_receiver(address, handle=handle, properties={"rabbitmq:priority": Int(priority)})
        peer.grant(2, handle=handle)
    peer.grant(2, handle=1)
    peer.dispose(0, state=ACCEPTED)
    assert not peer.deliveries()
    peer.dispose(1, state=ACCEPTED)
    assert bodies_by_handle(peer) == {3: [b"2", b"3"]}
    peer.detach(3)
    assert bodies_by_handle(peer) == {4: [b"2", b"3"]}
    peer.detach(4)
    assert bodies_by_handle(peer) == {2: [b"2", b"3"]}
    peer.detach(2)
    assert bodies_by_handle(peer) == {1: [b"2", b"3"]}


@for_each_type
@case("engine", "3.17")
def test_row_3_17_available_for_each_type(kind: str):
    """row 3.17: available is how many messages are ready and not delivered; of a stream, how many lie behind the
    reader's offset. The available of a publisher's flow has no effect."""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind)
    broker.fill(numbered(8))
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(address, source=from_first(address))
    peer.grant(5, echo=True)
    assert peer.bodies() == numbered(5)
    assert peer.expect(Flow).available == 3
    broker.fill(numbered(4))
    peer.grant(0, echo=True)
    assert peer.expect(Flow).available == 7
    peer.grant(100, drain=True)
    assert len(peer.bodies()) == 7
    assert peer.expect(Flow).available == 0
    peer.attach_sender(address)
    peer.frames.clear()
    peer.flow(handle=0, delivery_count=0, link_credit=0, available=1_000_000)
    assert peer.nothing_came()
    peer.publish([b"x"])
    peer.grant(0, echo=True)
    assert peer.pick(Flow).available == 1


@for_each_queue_type
@case("engine", "3.17")
def test_row_3_17_nothing_is_available_to_a_consumer_that_waits(kind: str):
    """row 3.17: a consumer that waits behind the single active one is told 0, since none of the messages is for it.
    RabbitMQ's classic queues tell it the ready count."""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind, x_single_active_consumer=True)
    broker.fill(numbered(8))
    peer = receivers(broker, address, [1, 2])
    peer.grant(5, handle=1, echo=True)
    assert peer.pick(Flow).available == 3
    peer.grant(5, handle=2, echo=True)
    assert peer.pick(Flow).available == 0
