"""Attach, flow and link stealing, as Qpid's wire tests show them [2.6, 2.7.3, 2.7.4]."""

from amqp10.wire.framing import encode_frame
from amqp10.wire.messaging import ACCEPTED, Source, Target
from amqp10.wire.performatives import Attach, Detach, End, Flow
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, WirePeer, body_of, numbered


class Linked:
    """A broker with one queue, and a client with a session."""

    def __init__(self) -> None:
        self.broker = InProcessBroker()
        self.address = self.broker.queue()
        self.peer: WirePeer = self.broker.connect()
        self.peer.begin()

    def sender(self) -> Attach:
        """A sender at handle 0. Its link credit is read."""
        attach = self.peer.attach_sender(self.address)
        self.peer.frames.clear()
        return attach

    def receiver(self) -> Attach:
        """A receiver at handle 1."""
        return self.peer.attach_receiver(self.address)


# --- attach ----------------------------------------------------------------------------------------------------------


@case("transport.link.AttachTest", "emptyAttach")
def test_an_attach_without_its_mandatory_fields():
    """emptyAttach (transport.link.AttachTest)"""
    c = Linked()
    c.peer.send_bytes(encode_frame(0, b"\x00\x53\x12\x45"))
    assert c.peer.closed_with("amqp:invalid-field")


@case("transport.link.AttachTest", "successfulAttachAsSender")
def test_the_answer_to_a_sender():
    """successfulAttachAsSender (transport.link.AttachTest)"""
    c = Linked()
    source = Source(address="me")
    attach = c.peer.attach_sender(c.address, name="s", source=source)
    assert (attach.name, attach.role, attach.handle) == ("s", True, 0)
    assert (attach.source, attach.target) == (source, Target(address=c.address))
    assert attach.initial_delivery_count is None
    assert attach.max_message_size == 16 * 1024 * 1024


@case("transport.link.AttachTest", "successfulAttachAsReceiver")
def test_the_answer_to_a_receiver():
    """successfulAttachAsReceiver (transport.link.AttachTest)"""
    c = Linked()
    target = Target(address="mine")
    attach = c.peer.attach_receiver(c.address, name="r", target=target)
    assert (attach.name, attach.role, attach.initial_delivery_count) == ("r", False, 0)
    assert attach.source.address == c.address
    assert attach.target == target


@case("transport.link.AttachTest", "attachReceiverWithNullTarget")
@case("transport.link.AttachTest", "attachSenderWithNullSource")
def test_an_attach_whose_own_terminus_is_null():
    """attachReceiverWithNullTarget (transport.link.AttachTest)
    attachSenderWithNullSource (transport.link.AttachTest): Headgate takes both, because a client's own terminus does
    not concern the broker; Qpid refuses them. The terminus that the broker must look up is refused when it is null."""
    c = Linked()
    assert c.peer.attach_receiver(c.address, target=None).target is None
    assert c.peer.attach_sender(c.address, source=None).source is None
    assert not c.peer.take(Detach)
    refused = c.peer.attach_receiver(c.address, handle=5, source=None)
    assert (refused.source, refused.target) == (None, None)
    assert c.peer.detached_with("amqp:invalid-field")
    refused = c.peer.attach_sender(c.address, handle=6, target=None)
    assert (refused.source, refused.target) == (None, None)
    assert c.peer.detached_with("amqp:invalid-field")
    c.peer.detach(5)
    c.peer.flow(handle=5, delivery_count=0, link_credit=1)
    assert c.peer.ended_with("amqp:session:unattached-handle")


# --- flow ------------------------------------------------------------------------------------------------------------


@case("transport.link.FlowTest", "emptyFlow")
def test_a_flow_without_its_mandatory_fields():
    """[FC] emptyFlow (transport.link.FlowTest)"""
    c = Linked()
    c.peer.send_bytes(encode_frame(0, b"\x00\x53\x13\x45"))
    assert c.peer.closed_with("amqp:invalid-field")


@case("transport.link.FlowTest", "sessionEchoFlow")
def test_echo_on_the_session():
    """[FC] sessionEchoFlow (transport.link.FlowTest)"""
    c = Linked()
    c.peer.flow(echo=True)
    flow = c.peer.expect(Flow)
    assert (flow.handle, flow.echo, flow.link_credit) == (None, False, None)
    assert (flow.next_incoming_id, flow.incoming_window, flow.next_outgoing_id) == (0, 400, 0)
    assert c.peer.nothing_came()


@case("transport.link.FlowTest", "linkEchoFlow")
def test_echo_on_a_link():
    """[FC] linkEchoFlow (transport.link.FlowTest): on a link of either direction."""
    c = Linked()
    c.receiver()
    c.peer.grant(0, echo=True)
    flow = c.peer.expect(Flow)
    assert (flow.handle, flow.echo, flow.link_credit, flow.delivery_count) == (1, False, 0, 0)
    c.sender()
    c.peer.flow(handle=0, delivery_count=0, link_credit=170, echo=True)
    flow = c.peer.expect(Flow)
    assert (flow.handle, flow.echo, flow.link_credit, flow.delivery_count) == (0, False, 170, 0)
    assert c.peer.nothing_came()


@case("transport.link.FlowTest", "synchronousGet")
def test_synchronous_get():
    """[FC] synchronousGet (transport.link.FlowTest)"""
    c = Linked()
    c.broker.fill(numbered(2))
    c.receiver()
    c.peer.grant(1)
    assert c.peer.bodies() == [b"0"]
    assert c.peer.nothing_came()


@case("transport.link.FlowTest", "drainEmptyQueue")
def test_drain_of_an_empty_queue():
    """[FC] drainEmptyQueue (transport.link.FlowTest)"""
    c = Linked()
    c.receiver()
    c.peer.grant(1, drain=True)
    flow = c.peer.expect(Flow)
    assert (flow.handle, flow.drain, flow.link_credit, flow.delivery_count) == (1, True, 0, 1)


@case("transport.link.FlowTest", "flowWithUnknownHandle")
def test_a_flow_for_a_link_that_is_not_attached():
    """[FC] flowWithUnknownHandle (transport.link.FlowTest)"""
    c = Linked()
    c.peer.flow(handle=9, delivery_count=0, link_credit=1)
    assert c.peer.ended_with("amqp:session:unattached-handle")


@case("transport.link.FlowTest", "synchronousGetWithTimeoutEmptyQueue")
def test_get_with_a_time_limit_that_passes():
    """[FC] synchronousGetWithTimeoutEmptyQueue (transport.link.FlowTest)"""
    c = Linked()
    c.receiver()
    c.peer.grant(1)
    assert c.peer.nothing_came()
    c.peer.grant(1, drain=True)
    flow = c.peer.expect(Flow)
    assert (flow.drain, flow.link_credit, flow.delivery_count) == (True, 0, 1)
    assert c.peer.nothing_came()


@case("transport.link.FlowTest", "synchronousGetWithTimeoutNonEmptyQueue")
def test_get_with_a_time_limit_and_a_message_in_time():
    """[FC] synchronousGetWithTimeoutNonEmptyQueue (transport.link.FlowTest)"""
    c = Linked()
    c.broker.fill([b"in time"])
    c.receiver()
    c.peer.grant(1)
    assert c.peer.bodies() == [b"in time"]
    c.peer.grant(1, drain=True)
    flow = c.peer.expect(Flow)
    assert (flow.drain, flow.link_credit, flow.delivery_count) == (True, 0, 2)


@case("transport.link.FlowTest", "asynchronousNotification")
def test_two_grants_of_one():
    """[FC] asynchronousNotification (transport.link.FlowTest)"""
    c = Linked()
    c.broker.fill(numbered(3))
    c.receiver()
    for number in range(2):
        c.peer.grant(1)
        ((transfer, payload),) = c.peer.deliveries()
        assert body_of(payload) == b"%d" % number
        c.peer.dispose(transfer.delivery_id, state=ACCEPTED)
    assert c.broker.ready() == 1


@case("transport.link.FlowTest", "stoppingALink")
def test_stopping_a_link():
    """[FC] stoppingALink (transport.link.FlowTest)"""
    c = Linked()
    c.receiver()
    c.peer.grant(10)
    c.broker.fill([b"first"])
    assert c.peer.bodies() == [b"first"]
    c.peer.grant(0, echo=True)
    flow = c.peer.expect(Flow)
    assert (flow.handle, flow.link_credit, flow.delivery_count) == (1, 0, 1)
    c.broker.fill([b"later"])
    c.peer.flow(echo=True)
    assert c.peer.expect(Flow).handle is None
    assert c.peer.nothing_came()
    assert c.broker.ready() == 1


@case("transport.link.FlowTest", "drain")
def test_drain():
    """[FC] drain (transport.link.FlowTest)"""
    c = Linked()
    c.broker.fill(numbered(2))
    c.receiver()
    c.peer.grant(10, drain=True)
    assert c.peer.bodies() == numbered(2)
    flow = c.peer.expect(Flow)
    assert (flow.handle, flow.drain, flow.link_credit, flow.delivery_count) == (1, True, 0, 10)


@case("extensions.management.ManagementTest", "drainTemporaryMessageSource")
def test_drain_of_a_dynamic_node():
    """[FC] drainTemporaryMessageSource (extensions.management.ManagementTest): a dynamic queue stands for the temporary
    source of Qpid's management."""
    c = Linked()
    c.peer.attach_receiver(None, source=Source(dynamic=True))
    c.peer.grant(1, drain=True)
    flow = c.peer.expect(Flow)
    assert (flow.drain, flow.link_credit, flow.delivery_count) == (True, 0, 1)


def test_a_detach_that_does_not_close_is_answered_in_kind_and_gives_everything_back():
    """The broker keeps nothing of a link after its detach; unsettled messages go back to the queue [2.6.5]."""
    c = Linked()
    c.broker.fill(numbered(3))
    c.receiver()
    c.peer.grant(2)
    assert c.peer.bodies() == numbered(2)
    c.peer.detach(1, closed=False)
    assert not c.peer.pick(Detach).closed
    assert c.broker.ready() == 3
    attach = c.receiver()
    assert (attach.unsettled, attach.initial_delivery_count) == (None, 0)
    c.peer.grant(5)
    assert c.peer.bodies() == numbered(3)


# --- link stealing ---------------------------------------------------------------------------------------------------


@case("transport.link.LinkStealingTest", "subsequentAttachOnTheSameSession")
def test_attaching_a_name_again_on_the_same_session():
    """subsequentAttachOnTheSameSession (transport.link.LinkStealingTest)"""
    c = Linked()
    c.peer.attach_sender(c.address, name="mine", handle=0)
    c.peer.frames.clear()
    attach = c.peer.attach_sender(c.address, name="mine", handle=1)
    (detach,) = c.peer.take(Detach)
    assert detach.handle == 0
    assert detach.closed
    assert detach.error.condition == "amqp:link:stolen"
    assert attach.handle != 0
    c.peer.detach(0)
    c.peer.transfer(handle=1)
    assert c.broker.ready() == 1
    assert not c.peer.take(End)


@case("transport.link.LinkStealingTest", "subsequentAttachOnDifferentSessions")
def test_attaching_a_name_again_on_another_session():
    """subsequentAttachOnDifferentSessions (transport.link.LinkStealingTest): unsettled messages of the former link go
    back, and come again on the new one."""
    c = Linked()
    c.broker.fill(numbered(3))
    c.peer.begin(channel=1)
    c.peer.attach_receiver(c.address, name="mine")
    c.peer.grant(2)
    assert c.peer.bodies() == numbered(2)
    c.peer.attach_receiver(c.address, name="mine", channel=1)
    ((channel, detach, _),) = [row for row in c.peer.frames if isinstance(row[1], Detach)]
    assert channel == 0
    assert detach.error.condition == "amqp:link:stolen"
    c.peer.grant(9, channel=1)
    assert c.peer.bodies() == numbered(3)


def test_a_sender_and_a_receiver_may_have_the_same_name():
    """A name belongs to a link of one direction [2.6.1]."""
    c = Linked()
    c.peer.attach_sender(c.address, name="both")
    c.peer.attach_receiver(c.address, name="both")
    assert not c.peer.take(Detach)
