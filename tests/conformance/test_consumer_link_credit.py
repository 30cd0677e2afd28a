"""Link credit of consumers, as RabbitMQ's client suite shows it: drain, get, stop, available, refills [2.6.7].

One receiver on one queue, of each type in turn, unless a test says otherwise. The broker gives its answer behind the
transfers that a flow brought, so each test reads transfers first and the flow after them.
"""

import pytest

from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Detach, Flow
from tests.kit.cases import case
from tests.kit.queue_types import for_each_queue_type, for_each_type, from_first
from tests.kit.wire import InProcessBroker, WirePeer, body_of, numbered


class Consuming:
    """A broker with one queue, and a receiver on it."""

    def __init__(self, kind: str = "classic", **attach_fields: object) -> None:
        self.broker = InProcessBroker(durable=True)
        address = self.broker.queue(x_queue_type=kind)
        self.peer = self.broker.connect()
        self.peer.begin()
        self.attached = self.peer.attach_receiver(address, source=from_first(address), **attach_fields)

    def answer(self) -> Flow:
        """The one flow that came. Nothing else came beside it."""
        flow = self.peer.expect(Flow)
        assert self.peer.nothing_came()
        return flow

    def available(self) -> int:
        """The messages available to this consumer, as the broker says."""
        self.peer.grant(0, echo=True)
        return self.answer().available


@for_each_type
@case("amqp_client_SUITE", "roundtrip_with_drain_classic")
@case("amqp_client_SUITE", "roundtrip_with_drain_quorum")
@case("amqp_client_SUITE", "roundtrip_with_drain_stream")
def test_drain_delivers_what_is_there_and_nothing_later(kind: str):
    """[FC] roundtrip_with_drain_classic (amqp_client_SUITE)
    [FC] roundtrip_with_drain_quorum (amqp_client_SUITE)
    [FC] roundtrip_with_drain_stream (amqp_client_SUITE)"""
    c = Consuming(kind)
    c.broker.fill([b"first"])
    c.peer.grant(1, drain=True)
    assert c.peer.bodies() == [b"first"]
    assert c.answer().link_credit == 0
    c.broker.fill([b"later"])
    assert c.peer.nothing_came()
    assert c.available() == 1


@for_each_type
@case("amqp_client_SUITE", "drain_many_classic")
@case("amqp_client_SUITE", "drain_many_quorum")
@case("amqp_client_SUITE", "drain_many_stream")
def test_drain_of_many(kind: str):
    """[FC] drain_many_classic (amqp_client_SUITE)
    [FC] drain_many_quorum (amqp_client_SUITE)
    [FC] drain_many_stream (amqp_client_SUITE)"""
    c = Consuming(kind)
    c.broker.fill(numbered(5000))
    c.peer.grant(4999, drain=True)
    assert c.peer.bodies() == numbered(4999)
    assert c.answer().link_credit == 0
    c.peer.grant(1, drain=True)
    assert c.peer.bodies() == [b"4999"]
    assert c.answer().link_credit == 0

    c.broker.fill(numbered(5000))
    delivered = c.peer.link(1).credit.delivery_count
    for link_credit, drain in ((0, False), (1, False), (2500, False), (5000, False), (5000, True)):
        c.peer.grant(link_credit, drain=drain, delivery_count=delivered)
    assert c.peer.bodies() == numbered(5000)

    c.peer.frames.clear()
    c.peer.grant(2_000_000_000, drain=True)
    flow = c.answer()
    assert (flow.link_credit, flow.drain, flow.delivery_count) == (0, True, 10_000 + 2_000_000_000)


@for_each_type
@case("amqp_client_SUITE", "sync_get_unsettled_classic")
@case("amqp_client_SUITE", "sync_get_unsettled_quorum")
@case("amqp_client_SUITE", "sync_get_unsettled_stream")
def test_one_link_credit_is_one_message_and_settling_gives_none(kind: str):
    """[FC] sync_get_unsettled_classic (amqp_client_SUITE)
    [FC] sync_get_unsettled_quorum (amqp_client_SUITE)
    [FC] sync_get_unsettled_stream (amqp_client_SUITE)"""
    c = Consuming(kind, snd_settle_mode=0)
    c.broker.fill(numbered(3))
    for number in range(3):
        c.peer.grant(1)
        assert c.peer.bodies() == [b"%d" % number]
        c.peer.dispose(number, state=ACCEPTED)
        assert c.peer.nothing_came()
    assert c.available() == c.broker.unacknowledged() == 0


@for_each_type
@case("amqp_client_SUITE", "sync_get_unsettled_2_classic")
@case("amqp_client_SUITE", "sync_get_unsettled_2_quorum")
@case("amqp_client_SUITE", "sync_get_unsettled_2_stream")
def test_link_credit_of_two_in_three_rounds(kind: str):
    """[FC] sync_get_unsettled_2_classic (amqp_client_SUITE)
    [FC] sync_get_unsettled_2_quorum (amqp_client_SUITE)
    [FC] sync_get_unsettled_2_stream (amqp_client_SUITE)"""
    c = Consuming(kind, snd_settle_mode=0)
    c.broker.fill(numbered(5))
    rounds = []
    for _ in range(3):
        c.peer.grant(2)
        rounds.append(len(c.peer.bodies()))
    assert rounds == [2, 2, 1]


@for_each_type
@case("amqp_client_SUITE", "sync_get_settled_classic")
@case("amqp_client_SUITE", "sync_get_settled_quorum")
@case("amqp_client_SUITE", "sync_get_settled_stream")
def test_one_link_credit_is_one_settled_message(kind: str):
    """[FC] sync_get_settled_classic (amqp_client_SUITE)
    [FC] sync_get_settled_quorum (amqp_client_SUITE)
    [FC] sync_get_settled_stream (amqp_client_SUITE)"""
    c = Consuming(kind, snd_settle_mode=1)
    c.broker.fill(numbered(3))
    for number in range(3):
        c.peer.grant(1)
        ((transfer, payload),) = c.peer.deliveries()
        assert (transfer.settled, body_of(payload)) == (True, b"%d" % number)
    assert c.broker.unacknowledged() == 0


@for_each_type
@case("amqp_client_SUITE", "timed_get_classic")
@case("amqp_client_SUITE", "timed_get_quorum")
@case("amqp_client_SUITE", "timed_get_stream")
def test_get_with_a_time_limit_on_an_empty_queue(kind: str):
    """[FC] timed_get_classic (amqp_client_SUITE)
    [FC] timed_get_quorum (amqp_client_SUITE)
    [FC] timed_get_stream (amqp_client_SUITE)"""
    c = Consuming(kind)
    c.peer.grant(1)
    assert c.peer.nothing_came()
    c.peer.grant(1, drain=True)
    flow = c.answer()
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, 1, True)
    c.broker.fill([b"too late"])
    assert c.peer.nothing_came()
    c.peer.grant(1)
    assert c.peer.bodies() == [b"too late"]


@for_each_type
@case("amqp_client_SUITE", "stop_classic")
@case("amqp_client_SUITE", "stop_quorum")
@case("amqp_client_SUITE", "stop_stream")
def test_stop_and_go_on(kind: str):
    """[FC] stop_classic (amqp_client_SUITE)
    [FC] stop_quorum (amqp_client_SUITE)
    [FC] stop_stream (amqp_client_SUITE)"""
    c = Consuming(kind)
    c.broker.fill(numbered(600))
    c.peer.grant(400)
    seen = c.peer.bodies()
    c.peer.grant(0, delivery_count=200)  # the delivery-count that the client had seen when it stopped
    assert c.peer.nothing_came()
    c.broker.fill(numbered(10, first=600))
    assert c.peer.nothing_came()
    c.peer.grant(1000)
    assert seen + c.peer.bodies() == numbered(610)


@for_each_type
@case("amqp_client_SUITE", "available_messages_classic")
@case("amqp_client_SUITE", "available_messages_quorum")
@case("amqp_client_SUITE", "available_messages_stream")
def test_available_messages(kind: str):
    """[FC] available_messages_classic (amqp_client_SUITE)
    [FC] available_messages_quorum (amqp_client_SUITE)
    [FC] available_messages_stream (amqp_client_SUITE)"""
    c = Consuming(kind)
    assert c.available() == 0
    c.broker.fill(numbered(3))
    assert c.available() == 3
    c.peer.grant(1, echo=True)
    assert c.peer.bodies() == [b"0"]
    assert c.answer().available == 2
    c.peer.grant(9, drain=True)
    assert c.peer.bodies() == [b"1", b"2"]
    assert c.answer().available == 0
    c.broker.fill(numbered(5001))
    c.peer.grant(0)
    c.peer.grant(1, echo=True)
    assert c.peer.bodies() == [b"0"]
    assert c.answer().available == 5000


@for_each_type
@case("amqp_client_SUITE", "receive_many_made_available_over_time_classic")
@case("amqp_client_SUITE", "receive_many_made_available_over_time_quorum")
@case("amqp_client_SUITE", "receive_many_made_available_over_time_stream")
def test_one_grant_is_good_for_messages_that_come_in_waves(kind: str):
    """[FC] receive_many_made_available_over_time_classic (amqp_client_SUITE)
    [FC] receive_many_made_available_over_time_quorum (amqp_client_SUITE)
    [FC] receive_many_made_available_over_time_stream (amqp_client_SUITE)"""
    c = Consuming(kind)
    c.peer.grant(5000)
    received = []
    for wave in range(4):
        c.broker.fill(numbered(1250, first=1250 * wave))
        received += c.peer.bodies()
    assert received == numbered(5000)
    c.broker.fill([b"one too many"])
    assert c.peer.nothing_came()
    assert c.available() == 1


@for_each_type
@case("amqp_client_SUITE", "receive_many_auto_flow_classic")
@case("amqp_client_SUITE", "receive_many_auto_flow_quorum")
@case("amqp_client_SUITE", "receive_many_auto_flow_stream")
def test_a_consumer_that_refills_its_link_credit_and_its_window(kind: str):
    """[FC] receive_many_auto_flow_classic (amqp_client_SUITE)
    [FC] receive_many_auto_flow_quorum (amqp_client_SUITE)
    [FC] receive_many_auto_flow_stream (amqp_client_SUITE)"""
    c = Consuming(kind)
    c.broker.fill(numbered(10_000))
    received: list[bytes] = []
    seen = 0
    while len(received) < 10_000:
        c.peer.grant(1300, delivery_count=seen, incoming_window=1300)
        came = c.peer.bodies()
        assert 0 < len(came) <= 1300
        received += came
        seen = len(received)
    assert received == numbered(10_000)


@for_each_type
@pytest.mark.parametrize("settled", [False, True])
@case("amqp_client_SUITE", "async_notify_settled_classic")
@case("amqp_client_SUITE", "async_notify_settled_quorum")
@case("amqp_client_SUITE", "async_notify_settled_stream")
@case("amqp_client_SUITE", "async_notify_unsettled_classic")
@case("amqp_client_SUITE", "async_notify_unsettled_quorum")
@case("amqp_client_SUITE", "async_notify_unsettled_stream")
def test_link_credit_of_ten_refilled_at_five(settled: bool, kind: str):
    """[FC] async_notify_settled_classic (amqp_client_SUITE)
    [FC] async_notify_settled_quorum (amqp_client_SUITE)
    [FC] async_notify_settled_stream (amqp_client_SUITE)
    [FC] async_notify_unsettled_classic (amqp_client_SUITE)
    [FC] async_notify_unsettled_quorum (amqp_client_SUITE)
    [FC] async_notify_unsettled_stream (amqp_client_SUITE)

    The queue is on this node. A queue that takes on three messages and stalls again stands for a slow one.
    """
    c = Consuming(kind, snd_settle_mode=1 if settled else 0)
    received: list[bytes] = []
    granted_at = 0
    c.peer.grant(10)
    for number in range(0, 30, 3):
        c.broker.stall()
        c.broker.fill(numbered(3, first=number))
        assert c.peer.nothing_came()
        c.broker.recover()
        for transfer, payload in c.peer.deliveries():
            assert bool(transfer.settled) is settled
            received.append(body_of(payload))
        if len(received) - granted_at >= 5:
            granted_at = len(received)
            c.peer.grant(10)
    assert received == numbered(30)


@for_each_type
@case("amqp_client_SUITE", "incoming_window_closed_transfer_flow_order")
def test_the_drain_flow_comes_behind_the_transfer_it_follows(kind: str):
    """[FC] incoming_window_closed_transfer_flow_order (amqp_client_SUITE)"""
    c = Consuming(kind)
    c.broker.fill([b"one"])
    c.peer.grant(2, drain=True, incoming_window=0)
    assert c.peer.nothing_came()
    c.peer.flow(incoming_window=10)
    assert [type(frame).__name__ for _, frame, _ in c.peer.frames] == ["Transfer", "Flow"]
    assert c.peer.bodies() == [b"one"]
    flow = c.answer()
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, 2, True)


@for_each_type
@case("amqp_client_SUITE", "incoming_window_closed_stop_link")
def test_stopping_a_link_whose_window_is_closed(kind: str):
    """[FC] incoming_window_closed_stop_link (amqp_client_SUITE): nothing is delivered above the link credit, where
    RabbitMQ may still send the one message that it had drained."""
    c = Consuming(kind)
    c.broker.fill(numbered(2))
    c.peer.flow(incoming_window=0)
    c.peer.grant(1, drain=True, incoming_window=0)
    c.peer.grant(0, echo=True, incoming_window=0)
    c.peer.flow(incoming_window=10)
    assert c.peer.bodies() == []
    assert c.answer().link_credit == 0
    assert c.available() == 2


@for_each_type
@case("amqp_client_SUITE", "incoming_window_closed_close_link")
def test_detaching_a_link_whose_window_is_closed(kind: str):
    """[FC] incoming_window_closed_close_link (amqp_client_SUITE)"""
    c = Consuming(kind)
    c.broker.fill(numbered(2))
    c.peer.grant(2, incoming_window=0)
    c.peer.detach(1)
    assert c.peer.expect(Detach).closed
    c.peer.flow(incoming_window=10)
    assert c.peer.nothing_came()
    assert c.broker.ready() == 2


@for_each_queue_type
@case("amqp_client_SUITE", "incoming_window_closed_rabbitmq_internal_flow_classic")
@case("amqp_client_SUITE", "incoming_window_closed_rabbitmq_internal_flow_quorum")
def test_a_closed_window_leaves_the_messages_in_the_queue(kind: str):
    """[FC] incoming_window_closed_rabbitmq_internal_flow_classic (amqp_client_SUITE)
    [FC] incoming_window_closed_rabbitmq_internal_flow_quorum (amqp_client_SUITE)"""
    c = Consuming(kind)
    c.broker.fill(numbered(5000))
    c.peer.grant(5000, incoming_window=0)
    assert c.peer.nothing_came()
    assert c.broker.ready() == 5000 - 256
    assert c.broker.unacknowledged() == 256
    c.peer.flow(incoming_window=5000)
    assert c.peer.bodies() == numbered(5000)


@for_each_queue_type
@case("amqp_client_SUITE", "tcp_back_pressure_rabbitmq_internal_flow_classic")
@case("amqp_client_SUITE", "tcp_back_pressure_rabbitmq_internal_flow_quorum")
def test_a_client_that_stops_reading_leaves_the_messages_in_the_queue(kind: str):
    """[FC] tcp_back_pressure_rabbitmq_internal_flow_classic (amqp_client_SUITE)
    [FC] tcp_back_pressure_rabbitmq_internal_flow_quorum (amqp_client_SUITE)"""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind)
    peer = broker.connect(max_frame_size=600)
    peer.begin()
    peer.attach_receiver(address)
    bodies = [b"%d." % number + b"x" * 1000 for number in range(1000)]
    broker.fill(bodies)
    peer.stop_reading()
    peer.grant(1000)
    assert broker.ready() == 1000 - 256
    peer.go_on_reading()
    assert _joined(peer) == bodies


def _joined(peer: WirePeer) -> list[bytes]:
    """The bodies of deliveries that came in several frames."""
    messages, message = [], b""
    for transfer, payload in peer.deliveries():
        message += payload
        if not transfer.more:
            messages.append(body_of(message))
            message = b""
    assert not message
    return messages
