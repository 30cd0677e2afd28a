"""Consuming through the front end: batches, answers to drain and echo, outcomes, and how messages return [2.6.7,
3.4]."""

import pytest

from amqp10.frontend.outgoing import ADDED_ANNOTATIONS_BYTES_MAX, check_added_annotations, disposal_of
from amqp10.wire.messaging import ACCEPTED, RELEASED, Modified, Received, Rejected, Source, Target
from amqp10.wire.performatives import Attach, Disposition, Flow
from amqp10.wire.sections import decode_header, decode_map_section, scan
from amqp10.wire.types import Described, Symbol, ULong
from core.engine.options.policies import PolicyDeclaration
from core.interface import Disposal, Mailbox, QueueTarget, TakenBack
from core.message import Attributes, Return, Run
from core.server.orders import BoundLink
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, body_of, data_message, numbered

BATCH = 4


def consumer(n: int = 0, **attach_fields: object) -> tuple[InProcessBroker, WirePeer]:
    """A client that consumes at handle 1, in batches of four, from a queue that holds this many messages."""
    broker = InProcessBroker(make_settings(amqp10={"max_queue_credit": BATCH}))
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(address, **attach_fields)
    if n:
        broker.fill(numbered(n))
    peer.frames.clear()
    return broker, peer


def grant_of_engine(broker: InProcessBroker) -> int:
    (shown,) = broker.engine.snapshot("consumers")
    return int(str(shown["grant"]))


@pytest.mark.parametrize(
    ("state", "disposal"),
    [
        (ACCEPTED, Disposal.ACCEPTED),
        (Rejected(), Disposal.REJECTED),
        (RELEASED, Return()),
        (None, Return()),
        (Received(section_number=0, section_offset=0), Return()),
        (Described(ULong(0x34), []), Return()),
        (Modified(), Return()),
        (
            Modified(delivery_failed=True, undeliverable_here=True),
            Return(delivery_failed=True, undeliverable_here=True),
        ),
        (Modified(message_annotations={"a": 1}), Return(annotations={"a": 1})),
        (Modified(message_annotations={}), Return()),
    ],
)
def test_what_an_outcome_means_to_the_engine(state, disposal):
    assert disposal_of(state) == disposal


def test_annotations_are_kept_up_to_a_bound():
    for state in (None, RELEASED, Modified(), Modified(message_annotations={"a": "x" * 1000})):
        check_added_annotations(state)
    with pytest.raises(Exception, match=f"at most {ADDED_ANNOTATIONS_BYTES_MAX} are kept"):
        check_added_annotations(Modified(message_annotations={"a": "x" * ADDED_ANNOTATIONS_BYTES_MAX}))


@pytest.mark.parametrize("link_credit", [1, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 2 * BATCH + 1, 100, 2**32 - 1])
def test_link_credit_of_any_size_in_batches(link_credit):
    broker, peer = consumer(3 * BATCH)
    peer.grant(link_credit)
    assert peer.bodies() == numbered(min(3 * BATCH, link_credit))
    link = peer.link(1)
    assert link.grant.outstanding + link.waiting <= BATCH
    assert grant_of_engine(broker) == link.grant.outstanding


def test_no_batch_while_the_previous_one_waits_for_the_window():
    broker, peer = consumer(3 * BATCH)
    peer.grant(100, incoming_window=1)
    assert peer.bodies() == numbered(1)
    assert broker.ready() == 2 * BATCH
    for n in range(1, 3 * BATCH):
        peer.flow(incoming_window=1)
        assert peer.bodies() == numbered(1, first=n)
        assert broker.unacknowledged() <= n + 1 + BATCH


def test_a_drain_is_answered_behind_all_batches():
    _, peer = consumer(2 * BATCH + 1)
    peer.grant(100, drain=True)
    assert [type(each).__name__ for _, each, _ in peer.frames] == ["Transfer"] * (2 * BATCH + 1) + ["Flow"]
    (flow,) = peer.take(Flow)
    assert (flow.link_credit, flow.delivery_count, flow.available, flow.drain) == (0, 100, 0, True)


def test_a_drain_that_the_queue_can_fill_leaves_the_rest():
    _, peer = consumer(3 * BATCH)
    peer.grant(BATCH, drain=True)
    assert peer.bodies() == numbered(BATCH)
    (flow,) = peer.take(Flow)
    assert (flow.link_credit, flow.delivery_count, flow.available) == (0, BATCH, 2 * BATCH)


@pytest.mark.parametrize(("n", "available"), [(0, 0), (2, 0), (BATCH, 0), (3 * BATCH, 0)])
def test_echo_is_answered_once_behind_what_it_brings(n, available):
    _, peer = consumer(n)
    peer.grant(100, echo=True)
    (flow,) = peer.take(Flow)
    assert (flow.link_credit, flow.delivery_count, flow.available) == (100 - n, n, available)


def test_echo_without_link_credit_tells_what_is_there():
    _, peer = consumer(7)
    peer.grant(0, echo=True)
    (flow,) = peer.take(Flow)
    assert (flow.link_credit, flow.available) == (0, 7)


def test_link_credit_that_is_lowered_while_deliveries_wait():
    """Deliveries beyond the new link credit go back as never sent, before anything else is handed out."""
    broker, peer = consumer(BATCH)
    peer.grant(BATCH, incoming_window=0)
    assert broker.unacknowledged() == BATCH
    peer.grant(1, incoming_window=0)
    assert broker.unacknowledged() == 1
    peer.grant(BATCH, incoming_window=100)
    deliveries = peer.deliveries()
    assert [body_of(payload) for _, payload in deliveries] == numbered(BATCH)
    for _, payload in deliveries:
        header = decode_header(payload, *scan(payload).header)
        assert (header.first_acquirer, header.delivery_count) == (True, 0)


def test_what_comes_back_is_told_to_the_next():
    _, peer = consumer(3)
    peer.grant(3)
    peer.dispose(0, state=RELEASED)
    peer.dispose(1, state=Modified(delivery_failed=True, message_annotations={"x-opt-why": "broken"}))
    peer.dispose(2)
    peer.frames.clear()
    peer.grant(3)
    told = []
    for _, payload in peer.deliveries():
        bounds = scan(payload)
        header = decode_header(payload, *bounds.header)
        annotations = decode_map_section(payload, *bounds.message_annotations)
        told.append((body_of(payload), header.first_acquirer, header.delivery_count, annotations))
    assert told == [
        (b"0", False, 0, {}),
        (b"1", False, 1, {Symbol("x-opt-why"): "broken"}),
        (b"2", False, 0, {}),
    ]


def test_a_settled_link_is_done_with_what_it_has_sent():
    broker, peer = consumer(3 * BATCH, snd_settle_mode=1)
    peer.grant(2 * BATCH + 1, incoming_window=BATCH)
    assert broker.unacknowledged() <= BATCH
    peer.flow(incoming_window=100)
    assert broker.unacknowledged() == 0
    assert broker.ready() == BATCH - 1
    peer.detach(1)
    assert broker.ready() == BATCH - 1


def test_outcomes_that_come_unsettled_are_settled_by_us():
    broker, peer = consumer(2, rcv_settle_mode=1)
    peer.grant(2)
    peer.dispose(0, 1, settled=False, state=ACCEPTED)
    assert peer.take(Disposition) == [Disposition(role=False, first=0, last=1, settled=True, state=ACCEPTED)]
    assert broker.unacknowledged() == 0


def test_a_detach_gives_back_what_waits_as_never_sent():
    broker, peer = consumer(BATCH)
    peer.grant(BATCH, incoming_window=2)
    assert peer.bodies() == numbered(2)
    peer.detach(1)
    assert broker.ready() == BATCH
    peer.attach_receiver("/queues/q", handle=2)
    peer.grant(BATCH, handle=2, incoming_window=100)
    firsts = [decode_header(payload, *scan(payload).header).first_acquirer for _, payload in peer.deliveries()]
    assert firsts == [False, False, True, True]


def test_rejected_messages_are_dropped():
    broker, peer = consumer(2)
    peer.grant(1)
    peer.dispose(0, state=Rejected())
    peer.detach(1)
    assert broker.ready() == 1


def test_deliveries_that_the_queue_takes_back_are_released_and_the_client_settles_them():
    broker, peer = consumer(6)
    peer.grant(BATCH, incoming_window=3)
    link = peer.link(1)
    assert peer.bodies() == numbered(3)
    attachment = link.reference.consumer
    attachment.mailbox.put(TakenBack(attachment, 1, 3))
    broker.run()
    (disposition,) = peer.take(Disposition)
    assert (disposition.role, disposition.first, disposition.last) == (False, 1, 2)
    assert (disposition.state, disposition.settled) == (RELEASED, False)
    peer.flow(incoming_window=100)
    assert peer.bodies() == numbered(1, 4)  # the fourth had not been sent, and is not sent now
    peer.dispose(1, 2, state=RELEASED)
    assert peer.session().outgoing.count == 2
    assert not peer.take(Disposition)


def test_a_policy_bounds_the_queue_grant():
    broker, peer = consumer(10)
    attachment = peer.link(1).reference.consumer
    attachment.link_credit_max = 2
    peer.grant(7)
    assert peer.bodies() == numbered(7)
    assert peer.link(1).grant.batch == 2
    peer.grant(100)
    assert peer.bodies() == numbered(3, 7)
    assert 0 < grant_of_engine(broker) <= 2
    attachment.link_credit_max = None
    broker.fill(numbered(2, 10))
    assert peer.bodies() == numbered(2, 10)
    assert peer.link(1).grant.batch == BATCH


# --- the most messages that a consumer may hold unsettled


def test_a_bound_holds_for_a_client_that_does_not_wait_for_the_answer_to_its_attach():
    broker = InProcessBroker()
    address = broker.queue()
    definition = {"max-unsettled": 3}
    broker.engine.policies.set(
        PolicyDeclaration(name="few", pattern="^q$", priority=0, apply_to="queues", definition=definition)
    )
    broker.fill(numbered(12))
    peer = broker.connect()
    peer.begin()
    attach = Attach(name="receiver", handle=1, role=True, source=Source(address=address), target=Target())
    peer.send_all([(attach, b""), peer.flow_frame(handle=1, delivery_count=0, link_credit=100)])
    assert peer.bodies() == numbered(3)


def test_a_bound_holds_for_deliveries_that_the_queue_has_handed_over_before():
    broker, peer = consumer()
    peer.grant(100)
    target, order = QueueTarget("q"), BoundLink("test-0/0/1", 1)
    publisher = broker.engine.publisher(Mailbox(lambda: None), broker, target, None)
    run = Run(0, [data_message(body) for body in numbered(12)], Attributes())
    broker.engine.publish(publisher, target, run, broker.now)
    broker.engine.turn(broker.now)
    assert broker.ready() == 12 - BATCH
    for most in (1, None):
        peer.front_end.check(order)
        peer.front_end.obey(BoundLink("test-0/0/1", most), broker.now)
        broker.touch(peer)
        broker.run()
        assert peer.bodies() == (numbered(1) if most else numbered(11, first=1))
