"""A receiving link without a session: assembly of deliveries, refusals, settling [2.6.7, 2.6.14]."""

import sys

import pytest

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.protocol import receiver_link
from amqp10.protocol.link import RECEIVER, SENDER, LinkEnd, OutputHandle
from amqp10.protocol.receiver_link import (
    FRAME_OVERHEAD_BYTES,
    MIXED,
    SECOND,
    SETTLED,
    UNSETTLED,
    DeliveriesReceived,
    ReceiverLink,
)
from amqp10.wire.messaging import ACCEPTED, Source, Target
from amqp10.wire.performatives import Attach, Flow, Transfer
from amqp10.wire.transfer_run import TransferRun, TransferRunParser
from tests.kit.client_frames import CLIENTS, data_section
from tests.kit.link_channel import LinkChannelInMemory

CLIENT = next(client for client in CLIENTS if client.name == "rabbitmq")


def attached(
    *,
    snd: int = MIXED,
    rcv: int = 0,
    link_credit: int = 100,
    max_message_size: int = 0,
    credit: ReceiverCredit | None = None,
    initial_delivery_count: int = 0,
    partial_bytes_max: int = 2**20,
) -> tuple[LinkChannelInMemory, ReceiverLink]:
    """A link on which this many messages may come."""
    session = LinkChannelInMemory(partial_bytes_max=partial_bytes_max)
    link = ReceiverLink(session, LinkEnd(session, name="orders", role=RECEIVER, handle=OutputHandle(2)))
    peer = Attach(name="orders", handle=0, role=SENDER, initial_delivery_count=initial_delivery_count)
    link.end.attach_received(peer)
    link.attach_received()
    link.attach(
        source=Source(),
        target=Target(),
        snd_settle_mode=snd,
        rcv_settle_mode=rcv,
        credit=credit or ReceiverCredit(),
        max_message_size=max_message_size,
    )
    if credit is None:
        link.grant(link_credit)
    session.take()
    session.refilling.clear()
    return session, link


def transfer(delivery_id: int | None = 0, **fields: object) -> Transfer:
    """A frame that begins a delivery, unless the id is None."""
    given: dict[str, object] = {"handle": 0, "delivery_id": delivery_id, "message_format": 0}
    if delivery_id is not None:
        given["delivery_tag"] = b"t%d" % delivery_id
    return Transfer(**(given | fields))  # type: ignore[arg-type]


def more(delivery_id: int | None = 0, **fields: object) -> Transfer:
    """A transfer with more=true."""
    return transfer(delivery_id, more=True, **fields)


def rest(**fields: object) -> Transfer:
    """A transfer that continues a delivery and has no field but its handle."""
    return Transfer(handle=0, **fields)  # type: ignore[arg-type]


def run_of(n: int, *, settled: bool = False, first: int = 0) -> TransferRun:
    """A run from the fast path."""
    frames = b"".join(
        CLIENT.transfer(data_section(b"%d" % number), delivery_id=number, settled=settled)
        for number in range(first, first + n)
    )
    run = TransferRunParser(max_frame_size=2**20).parse(frames, 0, limit=n)
    assert run is not None
    assert len(run.entries) == n
    return run


def received(session: LinkChannelInMemory) -> list[DeliveriesReceived]:
    events = [event for event in session.events if isinstance(event, DeliveriesReceived)]
    session.events.clear()
    return events


def refused(condition: ErrorCondition, match: str):
    """Expect a refusal by the link, with this condition and a description that matches."""
    return pytest.raises(LinkFault, match=f"^{condition}: .*{match}")


# --- attaching, link credit


def test_attaching_grants_at_once_when_there_is_a_rule():
    session = LinkChannelInMemory()
    link = ReceiverLink(session, LinkEnd(session, name="orders", role=RECEIVER, handle=OutputHandle(2)))
    link.end.attach_received(Attach(name="orders", handle=0, role=SENDER, initial_delivery_count=2**32 - 1))
    link.attach_received()
    assert session.refilling == [link]
    link.attach(
        source=None,
        target=Target(),
        snd_settle_mode=SETTLED,
        rcv_settle_mode=SECOND,
        credit=ReceiverCredit(maximum=10, top_up_at=5, unconfirmed_limit=10),
        max_message_size=77,
        offered_capabilities=("queue",),
        properties={"paired": True},
    )
    (attach, _), (flow, _) = session.take()
    assert isinstance(attach, Attach)
    assert isinstance(flow, Flow)
    assert (attach.max_message_size, attach.snd_settle_mode, attach.rcv_settle_mode) == (77, SETTLED, SECOND)
    assert (attach.offered_capabilities, attach.properties) == (("queue",), {"paired": True})
    assert attach.initial_delivery_count is None
    assert (flow.delivery_count, flow.link_credit) == (2**32 - 1, 10)


def test_attaching_first_grants_when_the_answer_comes():
    session = LinkChannelInMemory()
    link = ReceiverLink(session, LinkEnd(session, name="orders", role=RECEIVER, handle=OutputHandle(2)))
    rule = ReceiverCredit(maximum=10, top_up_at=5, unconfirmed_limit=10)
    link.attach(source=None, target=Target(), snd_settle_mode=MIXED, rcv_settle_mode=0, credit=rule)
    assert session.taken(Flow) == []
    link.end.attach_received(Attach(name="orders", handle=0, role=SENDER, initial_delivery_count=3))
    link.attach_received()
    link.refill()
    (flow,) = session.taken(Flow)
    assert isinstance(flow, Flow)
    assert (flow.delivery_count, flow.link_credit) == (3, 10)


def test_granting_by_hand():
    session, link = attached()
    link.grant(5, drain=True, echo=True)
    link.write_flow(properties={"k": "v"})
    first, second = session.taken(Flow)
    assert isinstance(first, Flow)
    assert isinstance(second, Flow)
    assert (first.link_credit, first.drain, first.echo, first.properties) == (5, True, True, None)
    assert (second.link_credit, second.drain, second.echo, second.properties) == (5, True, False, {"k": "v"})


def test_the_rule_is_looked_at_when_something_was_received_or_confirmed():
    session, link = attached(credit=ReceiverCredit(maximum=4, top_up_at=2, unconfirmed_limit=3))
    link.run_received(run_of(3), 0, 0, 3)
    assert session.refilling == [link]
    link.refill()
    (flow,) = session.taken(Flow)
    assert isinstance(flow, Flow)
    assert (flow.link_credit, flow.delivery_count) == (3, 3)  # 4 when 2 were left, and one has come since
    link.confirmed(2)
    assert session.refilling == [link, link]
    link.refill()
    assert session.taken(Flow) == []


def test_nothing_is_granted_behind_a_detach():
    session, link = attached(credit=ReceiverCredit(maximum=4, top_up_at=2, unconfirmed_limit=3))
    link.run_received(run_of(3), 0, 0, 3)
    link.end.detach()
    session.take()
    link.confirmed(3)
    link.refill()
    assert session.take() == []


# --- runs


def test_a_run_is_reported_whole():
    session, link = attached()
    run = run_of(3)
    link.run_received(run, 10, 0, 3)
    (event,) = received(session)
    assert event.entries is run.entries
    assert (event.first, event.settled, event.checked, event.header) == (10, False, True, b"")
    assert event.delivery_tag(2) == (2).to_bytes(4)
    assert [(piece.first, piece.last, piece.number) for piece in session.incoming.ranges()] == [(10, 12, 10)]
    assert (link.credit.link_credit, link.credit.unconfirmed) == (97, 3)


def test_a_part_of_a_run():
    session, link = attached()
    link.run_received(run_of(5, settled=True), 10, 2, 4)
    (event,) = received(session)
    assert [entry[-1:] for entry in event.entries] == [b"2", b"3"]
    assert (event.first, event.settled) == (12, True)
    assert event.delivery_tag(1) == (3).to_bytes(4)
    assert session.incoming.count == 0


def test_of_a_run_beyond_the_link_credit_what_fits_is_taken():
    session, link = attached(link_credit=2)
    with refused(ErrorCondition.TRANSFER_LIMIT_EXCEEDED, "3 message"):
        link.run_received(run_of(5), 10, 0, 5)
    (event,) = received(session)
    assert len(event.entries) == 2
    assert session.incoming.count == 2
    with refused(ErrorCondition.TRANSFER_LIMIT_EXCEEDED, "1 message"):
        link.run_received(run_of(1), 15, 0, 1)


def test_a_run_with_a_message_that_is_too_large():
    session, link = attached(max_message_size=len(data_section(b"0")) - 1)
    with refused(ErrorCondition.MESSAGE_SIZE_EXCEEDED, "at most"):
        link.run_received(run_of(2), 0, 0, 2)
    assert received(session) == []


def test_messages_that_are_too_large_only_together_are_taken():
    run, size = run_of(3), len(data_section(b"0"))
    for most in range(size, run.end_position + 2):
        session, link = attached(max_message_size=most)
        link.run_received(run, 0, 0, 3)
        assert [event.entries for event in received(session)] == [run.entries]


@pytest.mark.parametrize(("snd", "settled"), [(SETTLED, False), (UNSETTLED, True)])
def test_settled_flags_that_do_not_go_with_the_mode(snd, settled):
    session, link = attached(snd=snd)
    with refused(ErrorCondition.INVALID_FIELD, "settle-mode"):
        link.run_received(run_of(1, settled=settled), 0, 0, 1)
    with refused(ErrorCondition.INVALID_FIELD, "settle-mode"):
        link.transfer_received(transfer(settled=settled), b"x")
    assert received(session) == []


# --- frame by frame


def test_a_delivery_in_three_frames():
    session, link = attached()
    link.transfer_received(more(4), b"ab")
    assert link.partial is not None
    link.transfer_received(rest(more=True), b"c")
    assert received(session) == []
    assert session.partial_bytes == 3 + 2 * FRAME_OVERHEAD_BYTES
    link.transfer_received(rest(), b"de")
    (event,) = received(session)
    assert (event.entries, event.first, event.checked, event.header) == ([b"abcde"], 4, False, b"")
    assert event.delivery_tag(0) == b"t4"
    assert session.partial_bytes == 0
    assert link.partial is None
    assert session.incoming.count == 1
    assert (link.credit.delivery_count, link.credit.unconfirmed) == (1, 1)


def test_later_frames_may_repeat_what_the_first_says():
    session, link = attached()
    link.transfer_received(more(4), b"ab")
    link.transfer_received(transfer(4, settled=False), b"c")
    assert received(session)[0].entries == [b"abc"]


def test_a_delivery_may_turn_settled_on_the_way():
    session, link = attached()
    link.transfer_received(more(4), b"ab")
    assert session.incoming.count == 1
    link.transfer_received(rest(settled=True), b"c")
    assert received(session)[0].settled
    assert session.incoming.count == 0


def test_a_delivery_that_is_settled_from_the_first_frame():
    session, link = attached(snd=SETTLED)
    link.transfer_received(more(4, settled=True), b"ab")
    link.transfer_received(rest(), b"c")
    assert received(session)[0].settled
    assert session.incoming.count == 0


def test_an_empty_delivery_without_a_tag_is_reported_as_it_is():
    session, link = attached()
    link.transfer_received(transfer(4, delivery_tag=b""), b"")
    (event,) = received(session)
    assert (event.entries, event.delivery_tag(0)) == ([b""], b"")


@pytest.mark.parametrize("payload", [b"", b"last words"])
def test_an_aborted_delivery_is_settled_and_uses_up_link_credit(payload):
    session, link = attached()
    link.transfer_received(more(4), b"ab")
    link.transfer_received(rest(aborted=True), payload)
    assert received(session) == []
    assert session.incoming.count == session.partial_bytes == 0
    assert (link.credit.delivery_count, link.credit.link_credit, link.credit.unconfirmed) == (1, 99, 0)
    link.transfer_received(transfer(5), b"x")
    assert received(session)[0].entries == [b"x"]


def test_aborted_with_its_only_frame():
    session, link = attached()
    link.transfer_received(transfer(4, aborted=True), b"")
    assert received(session) == []
    assert link.credit.delivery_count == 1


def test_views_of_a_read_count_as_copies_do():
    """A read may bring frames of several links, so each counts what is its own."""
    session, link = attached()
    read, late = bytes(range(250)) * 16, b"end"
    link.transfer_received(more(4), memoryview(read)[100:1900])
    link.transfer_received(rest(more=True), memoryview(read)[2000:], late)
    assert session.partial_bytes == 1_800 + 2_000 + len(late) + 3 * FRAME_OVERHEAD_BYTES
    link.transfer_received(rest(), b"")
    assert session.partial_bytes == 0
    assert [event.entries for event in received(session)] == [[read[100:1900] + read[2000:] + late]]


@pytest.mark.parametrize(("size", "kept"), [(2_500, True), (2_499, False)])
def test_an_incomplete_delivery_keeps_no_read_of_which_it_has_little(size, kept):
    session, link = attached()
    read = bytes(10_000)
    before = sys.getrefcount(read)
    link.transfer_received(more(4), memoryview(read)[: size - 1_000])
    link.transfer_received(rest(more=True), memoryview(read)[9_000:])
    partial = link.partial
    assert partial is not None
    partial.spare_reads()
    assert (sys.getrefcount(read) > before) is kept
    assert session.partial_bytes == size + 2 * FRAME_OVERHEAD_BYTES
    link.transfer_received(rest(), b"end")
    assert [event.entries for event in received(session)] == [[bytes(size) + b"end"]]


def test_what_is_behind_a_part_of_a_read_that_is_kept_is_not_copied():
    _, link = attached()
    read = bytes(10_000)
    link.transfer_received(more(4), memoryview(read)[:9_000])
    partial = link.partial
    assert partial is not None
    partial.spare_reads()
    link.transfer_received(rest(more=True), memoryview(read)[9_900:], b"more")
    partial.spare_reads()
    assert [isinstance(chunk, memoryview) for chunk in partial.chunks] == [True, True, False]


def test_an_aborted_delivery_keeps_no_read_in_memory():
    session, link = attached()
    kept = b"".join((b"a" * 2_500, b"b" * 2_500))
    before = sys.getrefcount(kept)
    link.transfer_received(more(4), memoryview(kept)[100:])
    assert sys.getrefcount(kept) > before
    link.transfer_received(rest(aborted=True), b"")
    assert sys.getrefcount(kept) == before
    assert session.partial_bytes == 0


def test_a_delivery_may_not_begin_without_link_credit_and_may_end_without():
    session, link = attached(link_credit=1)
    link.transfer_received(more(0), b"ab")
    link.transfer_received(rest(), b"c")
    assert len(received(session)) == 1
    with refused(ErrorCondition.TRANSFER_LIMIT_EXCEEDED, "link-credit of 0"):
        link.transfer_received(more(1), b"ab")


@pytest.mark.parametrize(
    ("frame", "condition", "match"),
    [
        (transfer(None), ErrorCondition.INVALID_FIELD, "no delivery-id"),
        (transfer(0, delivery_tag=None), ErrorCondition.INVALID_FIELD, "no delivery-tag"),
        (transfer(0, rcv_settle_mode=SECOND), ErrorCondition.INVALID_FIELD, "rcv-settle-mode second"),
        (transfer(0, resume=True), ErrorCondition.NOT_IMPLEMENTED, "resumed"),
        (transfer(0, message_format=1), ErrorCondition.NOT_IMPLEMENTED, "message-format 1"),
    ],
)
def test_first_frames_that_are_refused(frame, condition, match):
    _, link = attached()
    with refused(condition, match):
        link.transfer_received(frame, b"x")


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        (transfer(5), "delivery-id 5 inside delivery-id 4"),
        (rest(delivery_tag=b"other"), "delivery-tag changed"),
        (rest(message_format=3), "message-format changed"),
        (rest(settled=False), "settled changed"),
    ],
)
def test_later_frames_that_are_refused(frame, match):
    _, link = attached()
    link.transfer_received(more(4, settled=True), b"ab")
    with refused(ErrorCondition.INVALID_FIELD, match):
        link.transfer_received(frame, b"x")


def test_second_is_fine_on_a_link_whose_mode_it_is():
    session, link = attached(rcv=SECOND)
    link.transfer_received(transfer(4, rcv_settle_mode=SECOND, message_format=None), b"x")
    assert len(received(session)) == 1


def test_a_message_that_grows_too_large():
    _, link = attached(max_message_size=5)
    link.transfer_received(more(0), b"abc")
    with refused(ErrorCondition.MESSAGE_SIZE_EXCEEDED, "6 bytes"):
        link.transfer_received(rest(more=True), b"def")


def test_frames_without_end():
    _, link = attached()
    link.transfer_received(more(0), b"")
    for _ in range(receiver_link.EMPTY_FRAMES_PER_DELIVERY_MAX - 1):
        link.transfer_received(rest(more=True), b"")
    with refused(ErrorCondition.TRANSFER_LIMIT_EXCEEDED, "empty"):
        link.transfer_received(rest(more=True), b"")


def test_what_unfinished_deliveries_hold_is_bounded_and_given_back():
    session, link = attached(partial_bytes_max=3 * FRAME_OVERHEAD_BYTES)
    link.transfer_received(more(0), b"a" * FRAME_OVERHEAD_BYTES)
    with refused(ErrorCondition.RESOURCE_LIMIT_EXCEEDED, ""):
        link.transfer_received(rest(more=True), b"a" * FRAME_OVERHEAD_BYTES)
    link.abandon()
    link.abandon()
    assert session.partial_bytes == 0


# --- settling


def test_settling_gives_outcomes_to_what_is_unsettled():
    session, link = attached()
    link.run_received(run_of(4), 10, 0, 4)
    link.run_received(run_of(1, settled=True), 14, 0, 1)
    link.settle(11, 20, ACCEPTED)
    assert [tuple(pending) for pending in session.dispositions.take()] == [(11, 13, True, ACCEPTED)]
    assert session.incoming.count == 1
    link.settle(11, 20, ACCEPTED)
    assert not session.dispositions.pending


def test_with_second_they_stay_until_the_sender_has_settled():
    session, link = attached(rcv=SECOND)
    link.run_received(run_of(4), 10, 0, 4)
    link.settle(11, 12, ACCEPTED)
    assert [tuple(pending) for pending in session.dispositions.take()] == [(11, 12, False, ACCEPTED)]
    assert session.incoming.count == 4
