"""Where RabbitMQ 4 departs from the specification and Headgate does not: one test for each point of part B13."""

import pytest

from amqp10.wire.messaging import ACCEPTED, Modified, Target
from amqp10.wire.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer
from core.config.settings import Settings
from core.interface import ConsumeOptions, Mailbox
from tests.kit.cases import case
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, data_message, numbered


class Linked:
    """A broker with one queue, and a client with a sender at handle 0 and a receiver at handle 1. All frames so far are
    read."""

    def __init__(self, settings: Settings | None = None, **receiver_fields: object) -> None:
        self.broker = InProcessBroker(settings)
        self.address = self.broker.queue()
        self.peer: WirePeer = self.broker.connect()
        self.peer.begin()
        self.peer.attach_sender(self.address)
        self.peer.attach_receiver(self.address, **receiver_fields)
        self.peer.frames.clear()


@case("deviations", "B13.1")
def test_1_an_aborted_delivery_is_discarded():
    """B13.1 (deviations): RabbitMQ takes the aborting frame for the end of the message and delivers the part that it
    has."""
    c = Linked()
    c.peer.send_all(c.peer.frames_of(data_message(b"never"), 4)[:2])
    c.peer.send(Transfer(handle=0, aborted=True))
    c.peer.grant(1, drain=True)
    assert c.peer.deliveries() == []
    assert c.broker.ready() == 0


@case("deviations", "B13.2")
def test_2_an_echo_on_the_session_is_answered():
    """B13.2 (deviations)"""
    c = Linked()
    c.peer.flow(echo=True)
    assert c.peer.expect(Flow).handle is None


@case("deviations", "B13.3")
def test_3_settled_is_false_when_it_is_absent():
    """B13.3 (deviations): the delivery is settled by the broker in answer; RabbitMQ ends the session."""
    c = Linked()
    c.broker.fill([b"m"])
    c.peer.grant(1)
    c.peer.deliveries()
    c.peer.send(Disposition(role=True, first=0, state=ACCEPTED))
    assert c.peer.expect(Disposition).settled
    assert not c.peer.take(End)


@case("deviations", "B13.4")
def test_4_a_disposition_of_a_sender_is_taken():
    """B13.4 (deviations)"""
    c = Linked()
    c.broker.stall()
    c.peer.transfer()
    c.peer.send(Disposition(role=False, first=0, settled=True))
    assert c.peer.nothing_came()
    c.broker.recover()
    assert c.broker.ready() == 1


@case("deviations", "B13.6")
def test_6_transfers_behind_an_error_detach_are_absorbed():
    """B13.6 (deviations): RabbitMQ ends the session."""
    c = Linked()
    bad, payload = c.peer.transfer_frame(rcv_settle_mode=1)
    c.peer.send_all([(bad, payload), *(c.peer.transfer_frame() for _ in range(50))])
    assert c.peer.detached_with("amqp:invalid-field")
    assert c.peer.nothing_came()
    c.broker.fill([b"other link"])
    c.peer.grant(1)
    assert c.peer.bodies() == [b"other link"]


@case("deviations", "B13.7")
def test_7_nothing_is_delivered_above_a_link_credit_that_was_lowered():
    """B13.7 (deviations): RabbitMQ sends the messages that it has already taken out of the queue."""
    c = Linked()
    c.broker.fill(numbered(5))
    c.peer.grant(5, incoming_window=0)
    c.peer.grant(0, incoming_window=0)
    c.peer.flow(incoming_window=100)
    assert c.peer.deliveries() == []
    assert c.broker.ready() == 5


@pytest.mark.parametrize("link_credit", [2**31, 2**32 - 1])
@case("deviations", "B13.8")
def test_8_link_credit_is_any_uint(link_credit: int):
    """B13.8 (deviations)"""
    c = Linked()
    c.broker.fill([b"m"])
    c.peer.grant(link_credit)
    assert c.peer.bodies() == [b"m"]


@case("deviations", "B13.9")
def test_9_a_link_flow_may_leave_link_credit_out():
    """B13.9 (deviations)"""
    c = Linked()
    c.peer.grant(None, echo=True)
    assert c.peer.expect(Flow).link_credit == 0
    assert not c.peer.take(End)


@case("deviations", "B13.11")
def test_11_each_error_has_its_condition_and_its_scope():
    """B13.11 (deviations): a handle above handle-max closes the connection; a message too large detaches its link; a
    close forced by an operator has a condition of its own."""
    c = Linked()
    c.peer.send(Attach(name="x", handle=256, role=False, target=Target(address=c.address), initial_delivery_count=0))
    assert c.peer.closed_with("amqp:connection:framing-error")

    c = Linked(make_settings(amqp10={"max_message_size": 100}))
    c.peer.transfer(b"x" * 200)
    assert c.peer.detached_with("amqp:link:message-size-exceeded")
    assert not c.peer.take(End)

    c = Linked()
    c.peer.front_end.shut_down("the operator says so", c.broker.now)
    c.broker.touch(c.peer)
    c.broker.run()
    assert c.peer.closed_with("amqp:connection:forced")


@case("deviations", "B13.12")
def test_12_a_link_name_belongs_to_one_link():
    """B13.12 (deviations): RabbitMQ keeps both links."""
    c = Linked(name="r")
    c.peer.attach_receiver(c.address, name="r", handle=2)
    assert c.peer.detached_with("amqp:link:stolen")
    c.broker.fill([b"m"])
    c.peer.grant(1, handle=2)
    assert [transfer.handle for transfer, _ in c.peer.deliveries()] == [2]


@case("deviations", "B13.13")
def test_13_undeliverable_here_means_not_to_this_link():
    """B13.13 (deviations): RabbitMQ throws the message away. Headgate keeps it for another link, which may be a new one
    of the same client."""
    c = Linked()
    c.broker.fill([b"not here"])
    c.peer.grant(9)
    assert c.peer.bodies() == [b"not here"]
    c.peer.dispose(0, state=Modified(undeliverable_here=True))
    assert c.peer.nothing_came()
    assert c.broker.ready() == 1
    c.peer.attach_receiver(c.address, handle=2)
    c.peer.grant(9, handle=2)
    assert c.peer.bodies() == [b"not here"]


@case("deviations", "B13.14")
def test_14_a_delivery_needs_its_tag_and_one_message_format():
    """B13.14 (deviations)"""
    c = Linked()
    c.peer.transfer(delivery_tag=None)
    assert c.peer.detached_with("amqp:invalid-field")
    c = Linked()
    first, *rest = c.peer.frames_of(data_message(b"abc"), 4)
    rest[-1][0].message_format = 7
    c.peer.send_all([first, *rest])
    assert c.peer.detached_with("amqp:invalid-field")


@case("deviations", "B13.15")
def test_15_a_message_that_is_partly_sent_is_aborted():
    """B13.15 (deviations): RabbitMQ sends no more of the message."""
    broker = InProcessBroker(make_settings(amqp10={"unsent_bytes_max": 100}))
    address = broker.queue()
    broker.fill([b"x" * 3000])
    peer = broker.connect(max_frame_size=512)
    peer.begin()
    peer.attach_receiver(address)
    peer.stop_reading(writes=1)
    peer.grant(1)
    assert peer.deliveries()[-1][0].more
    broker.engine.delete_queue("q", broker)
    peer.go_on_reading()
    assert peer.deliveries()[-1][0].aborted
    assert peer.detached_with("amqp:resource-deleted")


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({"hostname": "vhost:missing"}, "amqp:not-found"),
        ({"max_frame_size": 100}, "amqp:connection:framing-error"),
        ({"idle_time_out": 1}, "amqp:not-allowed"),
    ],
)
@case("deviations", "B13.16")
def test_16_an_open_that_fails_is_answered_with_the_reason(fields: dict[str, object], condition: str):
    """B13.16 (deviations): the broker answers with open and close; RabbitMQ resets the socket after three seconds."""
    peer = WirePeer(InProcessBroker())
    peer.handshake()
    peer.send(Open(container_id="test", **fields))
    assert isinstance(peer.expect(Open), Open)
    assert peer.expect(Close).error.condition == condition
    peer.broker.advance(6)
    assert peer.lost


@case("deviations", "B13.17")
def test_17_the_target_of_a_receiver_is_in_the_answer():
    """B13.17 (deviations)"""
    c = Linked()
    target = Target(address="where it goes", durable=1)
    assert c.peer.attach_receiver(c.address, handle=5, target=target).target == target


@case("deviations", "B13.18")
def test_18_what_is_refused_to_a_link_costs_the_link():
    """B13.18 (deviations): an exclusive consumer has the queue, and the broker detaches the link. RabbitMQ ends the
    session."""
    c = Linked()
    c.peer.detach(1)
    c.broker.engine.consume("q", Mailbox(lambda: None), object(), ConsumeOptions(exclusive=True), None)
    assert c.peer.attach_receiver(c.address, handle=7).source is None
    assert c.peer.pick(Detach).error is None  # the answer to our attach
    assert c.peer.detached_with("amqp:resource-locked")
    assert not c.peer.take(End)


@pytest.mark.parametrize(
    "performative", [Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1), End(), Detach(handle=0)]
)
@case("deviations", "B13.20")
def test_20_a_frame_on_a_channel_that_was_never_begun(performative: Flow | End | Detach):
    """B13.20 (deviations): RabbitMQ ignores the frame. Headgate closes the connection, because the two sides do not
    agree on which sessions exist."""
    c = Linked()
    c.peer.send(performative, channel=5)
    assert c.peer.closed_with("amqp:not-allowed")
    assert c.peer.lost


@case("deviations", "B13.20")
def test_20_frames_behind_an_error_end_are_passed_over():
    """B13.20 (deviations): frames on a channel whose session the broker has ended are passed over until the client's
    end comes."""
    c = Linked()
    c.peer.transfer(handle=9)
    assert c.peer.ended_with("amqp:session:unattached-handle")
    c.peer.publish(numbered(5))
    c.peer.send(Flow(incoming_window=1, next_outgoing_id=99, outgoing_window=1))
    assert c.peer.nothing_came()
    c.peer.send(End())
    assert isinstance(c.peer.begin(), Begin)


@case("deviations", "rcv-settle-mode second")
def test_the_receiver_settles_second_as_a_consumer():
    """rcv-settle-mode second (deviations): the client sends the outcome, the broker settles, the client settles."""
    c = Linked(rcv_settle_mode=1)
    c.broker.fill(numbered(2))
    c.peer.grant(2)
    c.peer.deliveries()
    c.peer.dispose(0, 1, settled=False, state=ACCEPTED)
    assert c.peer.expect(Disposition) == Disposition(role=False, first=0, last=1, settled=True, state=ACCEPTED)
    assert c.broker.unacknowledged() == 0


@case("deviations", "rcv-settle-mode second")
def test_the_broker_settles_second_as_a_receiver():
    """rcv-settle-mode second (deviations): a publisher that asks for it gets the outcome unsettled and settles. The
    broker forgets the delivery only then."""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    assert peer.attach_sender(broker.queue(), rcv_settle_mode=1).rcv_settle_mode == 1
    peer.frames.clear()
    peer.publish(numbered(3))
    assert peer.expect(Disposition) == Disposition(role=True, first=0, last=2, settled=False, state=ACCEPTED)
    assert peer.session().incoming.count == 3
    peer.send(Disposition(role=False, first=0, last=2, settled=True, state=ACCEPTED))
    assert peer.session().incoming.count == 0
    assert peer.link(0).credit.unconfirmed == 0
