"""Edges of link credit that no other suite has: extremes, wraps, crossing flows, drains, aborts [2.6.7, 2.6.14]."""

import pytest

from amqp10.wire.framing import encode_frame
from amqp10.wire.messaging import ACCEPTED, Source
from amqp10.wire.performatives import Detach, Disposition, End, Flow
from amqp10.wire.sections import decode_header, scan
from core.config.settings import Settings
from core.slices import run_at_once
from tests.kit.cases import case
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, body_of, data_message, numbered

UINT_MAX = 2**32 - 1


class Linked:
    """A broker with one queue, and a client with a sender at handle 0 and a receiver at handle 1. All frames so far are
    read."""

    def __init__(self, settings: Settings | None = None, **sender_fields: object) -> None:
        self.broker = InProcessBroker(settings)
        self.address = self.broker.queue()
        self.peer: WirePeer = self.broker.connect(max_frame_size=512)
        self.peer.begin()
        self.peer.attach_sender(self.address, **sender_fields)
        self.peer.attach_receiver(self.address)
        self.peer.frames.clear()

    def credit_left(self) -> int:
        """How much link credit the broker has left for the sender, by its own count."""
        return self.peer.link(0).credit.link_credit


@pytest.mark.parametrize("link_credit", [2**31 - 1, 2**31, 2**31 + 1, UINT_MAX])
@case("ours", "link credit of 2^31 and above")
def test_link_credit_of_any_uint(link_credit: int):
    """[FC] link credit of 2^31 and above (ours): link credit is a plain count, up to 4294967295."""
    c = Linked()
    c.broker.fill(numbered(300))
    c.peer.grant(link_credit)
    assert c.peer.bodies() == numbered(300)
    c.peer.grant(link_credit, drain=True)
    flow = c.peer.expect(Flow)
    assert (flow.link_credit, flow.delivery_count) == (0, (300 + link_credit) % 2**32)
    assert not c.peer.take(End)


@case("ours", "null link-credit")
def test_a_flow_that_leaves_the_link_credit_alone():
    """[FC] null link-credit (ours): a link flow without the field leaves the link credit as it is."""
    c = Linked()
    c.peer.grant(5)
    c.peer.grant(None, echo=True)
    flow = c.peer.expect(Flow)
    assert (flow.handle, flow.link_credit) == (1, 5)
    c.broker.fill(numbered(9))
    assert c.peer.bodies() == numbered(5)


@case("ours", "delivery-count absent after progress")
def test_a_flow_without_delivery_count_means_the_initial_one():
    """[FC] delivery-count absent after progress (ours): the field's absence means that the receiver has not seen our
    attach."""
    c = Linked()
    c.broker.fill(numbered(20))
    c.peer.grant(10)
    assert len(c.peer.bodies()) == 10
    c.peer.grant(3, delivery_count=None)
    assert c.peer.nothing_came()
    c.peer.grant(13, delivery_count=None)
    assert c.peer.bodies() == numbered(3, first=10)


@case("ours", "initial delivery-count 2^32-1 from each side")
@case("ours", "next-outgoing-id wrap both ways")
def test_counters_that_wrap():
    """[FC] initial delivery-count 2^32-1 from each side (ours)
    [FC] next-outgoing-id wrap both ways (ours): a drain advances the broker's delivery-count to the wrap; the client's
    counters all begin there."""
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin(next_outgoing_id=UINT_MAX)
    peer.attach_sender(address, initial_delivery_count=UINT_MAX)
    assert peer.expect(Flow).delivery_count == UINT_MAX
    peer.publish(numbered(100))
    (top_up,) = peer.take(Flow)
    assert (top_up.next_incoming_id, top_up.delivery_count, top_up.link_credit) == (99, 99, 170)

    assert len(peer.take(Disposition)) == 1
    run_at_once(broker.engine.purge_queue("q", broker))
    peer.attach_receiver(address)
    peer.grant(UINT_MAX, drain=True)
    assert peer.expect(Flow).delivery_count == UINT_MAX
    broker.fill(numbered(9))
    peer.grant(3, delivery_count=UINT_MAX)
    assert peer.bodies() == numbered(3)
    peer.grant(3, delivery_count=UINT_MAX)
    assert peer.nothing_came()
    peer.grant(6, delivery_count=0, echo=True)
    assert peer.bodies() == numbered(4, first=3)
    assert peer.expect(Flow).delivery_count == 6

    ours = peer.session().window
    ours.next_outgoing_id = UINT_MAX
    peer.flow(next_incoming_id=UINT_MAX, incoming_window=2)
    peer.grant(9, incoming_window=2)
    assert peer.bodies() == numbered(2, first=7)
    peer.flow(echo=True)
    assert peer.expect(Flow).next_outgoing_id == 1


@case("ours", "frames behind an error detach absorbed")
def test_frames_on_their_way_behind_an_error_detach():
    """[FC] frames behind an error detach absorbed (ours): the frames count in the window and have no other effect."""
    c = Linked()
    c.peer.transfer(rcv_settle_mode=1)
    assert c.peer.detached_with("amqp:invalid-field")
    before = c.peer.session().window.incoming_window
    c.peer.publish(numbered(20))
    c.peer.send_all(c.peer.frames_of(data_message(b"x" * 900), 400))
    c.peer.flow(handle=0, delivery_count=0, link_credit=0, echo=True)
    assert c.peer.nothing_came()
    assert c.peer.session().window.incoming_window == before - 23
    assert c.broker.ready() == 0
    c.peer.detach(0)
    c.peer.attach_sender(c.address, handle=0)
    c.peer.transfer(b"again")
    assert c.broker.ready() == 1


@pytest.mark.parametrize("sent_before", [0, 1, 2], ids=["first", "middle", "last"])
@case("ours", "aborted first, middle and last frame")
def test_how_an_aborted_delivery_is_counted(sent_before: int):
    """[FC] aborted first, middle and last frame (ours): no message is delivered, every frame counts in the window, and
    the delivery uses one link credit, as on the sender's side."""
    c = Linked()
    frames = c.peer.frames_of(data_message(b"x" * 900), 400)
    abort, _ = frames[sent_before]
    abort.aborted, abort.more = True, False
    c.peer.send_all([*frames[:sent_before], (abort, b"")])
    assert c.credit_left() == 169
    assert c.peer.session().window.incoming_window == 400 - sent_before - 1
    assert c.peer.session().incoming.count == 0
    c.peer.transfer(b"whole")
    assert [each.first for each in c.peer.take(Disposition)] == [1]
    c.peer.grant(9)
    assert c.peer.bodies() == [b"whole"]


@case("ours", "aborted deliveries do not stop the top-up")
def test_many_aborted_deliveries():
    """[FC] aborted deliveries do not stop the top-up (ours): aborted deliveries wait for no answer, so they do not
    count as unconfirmed."""
    c = Linked()
    for _ in range(300):
        frame, _ = c.peer.transfer_frame()
        frame.aborted = True
        c.peer.send(frame)
    assert len(c.peer.take(Flow, lambda flow: flow.handle == 0)) == 3
    assert c.peer.link(0).credit.unconfirmed == 0


@case("ours", "link credit reduced with buffered messages")
def test_no_delivery_above_a_link_credit_that_was_lowered():
    """[FC] link credit reduced with buffered messages (ours): messages that waited behind the window go back to the
    queue, as never sent."""
    c = Linked()
    c.broker.fill(numbered(20))
    c.peer.grant(20, incoming_window=5)
    assert c.peer.bodies() == numbered(5)
    c.peer.grant(2, incoming_window=0)
    assert c.broker.ready() == 13
    c.peer.flow(incoming_window=100)
    assert c.peer.bodies() == [b"5", b"6"]
    c.peer.grant(0, echo=True)
    assert c.peer.expect(Flow).available == 13
    c.peer.grant(13)
    again = [payload for _, payload in c.peer.deliveries()]
    assert [body_of(payload) for payload in again] == numbered(13, first=7)
    headers = [decode_header(payload, *scan(payload).header) for payload in again]
    assert {(header.first_acquirer, header.delivery_count) for header in headers} == {(True, 0)}


@case("ours", "drain repeated before the first answer")
def test_two_drains_at_once():
    """[FC] drain repeated before the first answer (ours): one flow answers both."""
    c = Linked()
    c.broker.fill(numbered(3))
    c.peer.send_all([c.peer.grant_frame(10, drain=True), c.peer.grant_frame(20, drain=True)])
    assert c.peer.bodies() == numbered(3)
    flow = c.peer.expect(Flow)
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, 20, True)
    assert c.peer.nothing_came()


@case("ours", "drain cancelled by a flow")
def test_a_drain_that_is_taken_back():
    """[FC] drain cancelled by a flow (ours): the flow without drain that follows at once is the one in force, and its
    link credit stays for later messages."""
    c = Linked()
    c.peer.send_all([c.peer.grant_frame(10, drain=True), c.peer.grant_frame(10)])
    assert all(flow.delivery_count == 0 and flow.link_credit == 10 for flow in c.peer.take(Flow))
    c.broker.fill(numbered(12))
    assert c.peer.bodies() == numbered(10)


@case("ours", "drain cancelled by a flow")
def test_a_drain_that_is_taken_back_before_its_answer_could_go_out():
    """[FC] drain cancelled by a flow (ours): the queue has answered. Messages wait for the window and the answer waits
    behind them when the client sends a flow without drain."""
    c = Linked()
    c.broker.fill(numbered(3))
    c.peer.grant(5, drain=True, incoming_window=0)
    c.peer.grant(5, incoming_window=100)
    assert c.peer.bodies() == numbered(3)
    assert all(flow.link_credit == 2 for flow in c.peer.take(Flow))
    c.broker.fill(numbered(9, first=3))
    assert c.peer.bodies() == [b"3", b"4"]


@case("ours", "drain with the window closed, and link credit changed while stashed")
def test_drain_behind_a_closed_window_and_flows_that_cross():
    """[FC] drain with the window closed, and link credit changed while stashed (ours): three flows come before the
    queue has answered the first; the newest is in force."""
    c = Linked()
    c.broker.fill(numbered(8))
    c.peer.send_all(
        [
            c.peer.grant_frame(5, incoming_window=0),
            c.peer.grant_frame(7, drain=True, incoming_window=0),
            c.peer.grant_frame(3, drain=True, incoming_window=0),
        ]
    )
    assert c.peer.nothing_came()
    assert c.broker.ready() == 5
    c.peer.flow(incoming_window=100)
    assert c.peer.bodies() == numbered(3)
    flow = c.peer.expect(Flow)
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, 3, True)
    assert c.peer.nothing_came()


@case("ours", "echo burst")
def test_a_burst_of_echoes():
    """[FC] echo burst (ours): echoes that come in one read get one answer; echoes that come one by one get one each."""
    c = Linked()
    c.peer.send_all([c.peer.grant_frame(5, echo=True) for _ in range(100)])
    assert len(c.peer.take(Flow)) == 1
    c.peer.send_all([c.peer.flow_frame(handle=0, delivery_count=0, link_credit=170, echo=True) for _ in range(100)])
    assert len(c.peer.take(Flow)) == 1
    c.peer.send_all([c.peer.flow_frame(echo=True) for _ in range(100)])
    assert len(c.peer.take(Flow)) == 1
    for _ in range(5):
        c.peer.grant(5, echo=True)
    assert len(c.peer.take(Flow)) == 5


@case("ours", "partial message then detach")
def test_a_message_that_is_partly_sent_when_the_link_goes():
    """[FC] partial message then detach (ours): the broker aborts the delivery, so that the client does not wait for its
    rest."""
    c = Linked(make_settings(amqp10={"unsent_bytes_max": 600}))
    c.broker.fill([b"x" * 5000])
    c.peer.stop_reading(writes=1)
    c.peer.grant(1)
    partial = c.peer.deliveries()
    assert partial
    assert all(transfer.more for transfer, _ in partial)
    c.peer.detach(1)
    c.peer.go_on_reading()
    abort, payload = c.peer.deliveries()[-1]
    assert (abort.aborted, abort.more, payload) == (True, False, b"")
    assert c.peer.expect(Detach).handle == 1
    assert c.broker.ready() == 1


@case("ours", "top-up at 84, 85 and 86 left")
@case("ours", "top-up at 169, 170 and 171 unconfirmed")
def test_the_edges_of_the_top_up():
    """[FC] top-up at 84, 85 and 86 left (ours)
    [FC] top-up at 169, 170 and 171 unconfirmed (ours)"""
    c = Linked()
    c.peer.publish(numbered(84))
    assert (c.credit_left(), c.peer.take(Flow)) == (86, [])
    c.peer.publish(numbered(1))
    assert [flow.link_credit for flow in c.peer.take(Flow)] == [170]
    c.peer.publish(numbered(86))
    assert [flow.link_credit for flow in c.peer.take(Flow)] == [170]

    for confirmed, unconfirmed, granted in ((1, 169, True), (0, 170, False), (0, 171, False)):
        c = Linked()
        c.peer.publish(numbered(confirmed))
        c.broker.stall()
        c.peer.publish(numbered(85 - confirmed))  # 85 are left of 170, so the link credit is topped up
        c.peer.frames.clear()
        c.peer.publish(numbered(unconfirmed - 85 + confirmed))
        assert c.peer.link(0).credit.unconfirmed == unconfirmed
        assert [flow.link_credit for flow in c.peer.take(Flow)] == ([170] if granted else [])


@case("ours", "overrun by 1")
def test_one_message_more_than_there_is_link_credit_for():
    """[FC] overrun by 1 (ours): the messages within the link credit are taken; the next one detaches the link, and the
    session stays."""
    for one_by_one in (False, True):
        c = Linked()
        c.broker.stall()
        for _ in range(3):  # 170 are granted again when 85 are left, but not when 170 are unconfirmed
            c.peer.publish(numbered(85))
        assert c.credit_left() == 0
        c.peer.frames.clear()
        if one_by_one:
            c.peer.transfer()
        else:
            c.peer.publish(numbered(2))
        assert c.peer.detached_with("amqp:link:transfer-limit-exceeded")
        c.broker.recover()
        assert c.broker.ready() == 255
        assert not c.peer.take(End)


@case("ours", "multi-frame message without link credit from the first frame")
def test_a_message_in_pieces_that_has_no_link_credit():
    """[FC] multi-frame message without link credit from the first frame (ours): its first frame is refused; RabbitMQ
    checks only the last frame."""
    c = Linked()
    c.broker.stall()
    for _ in range(3):
        c.peer.publish(numbered(85))
    c.peer.frames.clear()
    first, *_ = c.peer.frames_of(data_message(b"x" * 900), 400)
    c.peer.send_all([first])
    assert c.peer.detached_with("amqp:link:transfer-limit-exceeded")


@case("ours", "disposition without settled")
def test_a_disposition_that_leaves_settled_out():
    """[FC] disposition without settled (ours): the default is false. The outcome is applied, and answered by a settled
    disposition."""
    c = Linked()
    c.broker.fill([b"m"])
    c.peer.grant(1)
    c.peer.deliveries()
    receiver, first, absent, accepted = b"\x41", b"\x43", b"\x40", b"\x00\x53\x24\x45"
    fields = receiver + first + absent + absent + accepted
    c.peer.send_bytes(encode_frame(0, b"\x00\x53\x15\xc0" + bytes([len(fields) + 1, 5]) + fields))
    assert c.peer.expect(Disposition) == Disposition(role=False, first=0, settled=True, state=ACCEPTED)
    assert c.broker.unacknowledged() == c.broker.ready() == 0


@case("ours", "sender-role disposition")
def test_a_disposition_of_a_sender():
    """[FC] sender-role disposition (ours): a publisher may settle what it sent before it is answered."""
    c = Linked()
    c.broker.stall()
    c.peer.publish(numbered(3))
    c.peer.send(Disposition(role=False, first=0, last=1, settled=True))
    assert c.peer.session().incoming.count == 1
    c.peer.send(Disposition(role=False, first=2, settled=False, state=ACCEPTED))
    c.peer.frames.clear()
    c.broker.recover()
    assert [each.first for each in c.peer.take(Disposition)] == [2]
    assert c.broker.ready() == 3
    assert not c.peer.take(End)


@case("ours", "duplicate link name")
def test_a_link_name_that_is_used_twice():
    """[FC] duplicate link name (ours): the newer link gets the name, and the link credit of the former one ends with
    it."""
    c = Linked(name="twice")
    c.broker.stall()
    c.peer.publish(numbered(100))
    c.peer.frames.clear()
    c.peer.attach_sender(c.address, name="twice", handle=5)
    assert c.peer.detached_with("amqp:link:stolen")
    (flow,) = c.peer.take(Flow)
    assert (flow.delivery_count, flow.link_credit) == (0, 170)
    c.broker.recover()
    assert c.broker.ready() == 100


@case("ours", "available in every kind of flow")
def test_available_wherever_a_flow_answers():
    """[FC] available in every kind of flow (ours): echo, drain, drain of an empty queue, stop; and on a dynamic
    source."""
    c = Linked()
    c.broker.fill(numbered(10))
    available = []
    for link_credit, drain in ((0, False), (3, False), (2, True), (0, True), (0, False)):
        c.peer.grant(link_credit, drain=drain, echo=True)
        c.peer.deliveries()
        available += [flow.available for flow in c.peer.take(Flow)]
    assert available == [10, 7, 5, 5, 5]
    c.peer.attach_receiver(None, handle=2, source=Source(dynamic=True))
    c.peer.grant(5, handle=2, drain=True)
    assert c.peer.expect(Flow).available == 0


def test_frames_of_one_message_do_not_take_link_credit_each():
    """One link credit stands for one message, however many frames it has [2.6.7]."""
    c = Linked()
    c.peer.send_all(c.peer.frames_of(data_message(b"x" * 2000), 100))
    assert c.credit_left() == 169
    c.peer.frames.clear()
    c.peer.grant(1, echo=True)
    assert sum(not transfer.more for transfer, _ in c.peer.deliveries()) == 1
    assert c.peer.expect(Flow).delivery_count == 1
