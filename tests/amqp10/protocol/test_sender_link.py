"""A sending link without a session: what waits, what is sent in how many frames, and where answers come [2.6.7]."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.link_credit import QueueGrant, SenderCredit
from amqp10.protocol.lifecycle import LinkState
from amqp10.protocol.link import RECEIVER, SENDER, LinkEnd, OutputHandle
from amqp10.protocol.sender_link import SETTLED, DeliveriesSent, SenderLink
from amqp10.wire.messaging import RELEASED, Source, Target
from amqp10.wire.performatives import Attach, Disposition, Flow, Transfer
from tests.kit.link_channel import LinkChannelInMemory

UNSETTLED = 0
HEADER = b"\x00\x53\x70\x45"


def attached(
    *, snd: int = UNSETTLED, link_credit: int = 100, max_message_size: int | None = None, **channel: int
) -> tuple[LinkChannelInMemory, SenderLink]:
    """A link that may send this many messages."""
    session = LinkChannelInMemory(**channel)
    link = SenderLink(session, LinkEnd(session, name="orders", role=SENDER, handle=OutputHandle(2)))
    link.end.attach_received(Attach(name="orders", handle=0, role=RECEIVER, max_message_size=max_message_size))
    link.attach(source=Source(), target=Target(), snd_settle_mode=snd, rcv_settle_mode=0)
    link.credit.flow_received(delivery_count=0, link_credit=link_credit, drain=False)
    session.take()
    return session, link


def sent_numbers(session: LinkChannelInMemory) -> list[tuple[int, int]]:
    """The ranges that were reported as sent."""
    return [(event.first, event.last) for event in session.events if isinstance(event, DeliveriesSent)]


def test_attaching_tells_the_initial_delivery_count():
    session = LinkChannelInMemory()
    end = LinkEnd(session, name="orders", role=SENDER, handle=OutputHandle(2))
    link = SenderLink(session, end, initial_delivery_count=2**32 - 1)
    link.attach(
        source=Source(),
        target=Target(),
        snd_settle_mode=SETTLED,
        rcv_settle_mode=0,
        max_message_size=99,
        offered_capabilities=("queue",),
        properties={"paired": True},
    )
    (attach,) = session.taken(Attach)
    assert isinstance(attach, Attach)
    assert attach.initial_delivery_count == 2**32 - 1
    assert (attach.max_message_size, attach.offered_capabilities) == (99, ("queue",))
    assert attach.properties == {"paired": True}
    assert link.settled
    assert not link.pending


def test_a_run_waits_until_it_gets_its_turn():
    session, link = attached()
    link.send_run(5, [b"a", b"b", b"c"], HEADER)
    assert session.wanting == [link]
    assert (link.waiting, link.pending, link.idle) == (3, True, False)
    assert session.written == []
    assert link.transmit(10, 10_000) == 3
    frames = session.take()
    assert [payload for _, payload in frames] == [HEADER + b"a", HEADER + b"b", HEADER + b"c"]
    transfers = [frame for frame, _ in frames if isinstance(frame, Transfer)]
    assert [frame.delivery_id for frame in transfers] == [0, 1, 2]
    assert [frame.delivery_tag for frame in transfers] == [number.to_bytes(4) for number in (5, 6, 7)]
    assert not any(frame.settled or frame.more for frame in transfers)
    assert (link.credit.link_credit, link.credit.delivery_count) == (97, 3)
    assert [(piece.first, piece.last, piece.number) for piece in session.outgoing.ranges()] == [(0, 2, 5)]
    assert sent_numbers(session) == [(5, 7)]
    assert session.window.remote_incoming_window == 997
    assert link.idle
    assert not link.pending


def test_on_a_settled_link_nothing_is_unsettled():
    session, link = attached(snd=SETTLED)
    link.send_run(0, [b"a", b"b" * 2000], b"")
    link.transmit(100, 10_000)
    transfers = [frame for frame, _ in session.take() if isinstance(frame, Transfer)]
    assert all(frame.settled for frame in transfers if frame.delivery_id is not None)
    assert session.outgoing.count == 0


@pytest.mark.parametrize(("frames", "sent"), [(0, 0), (1, 1), (2, 2), (4, 4), (9, 5)])
def test_no_more_frames_than_allowed(frames, sent):
    session, link = attached()
    link.send_run(0, [b"a", b"b"], b"")
    link.send_run(2, [b"c", b"d", b"e"], b"")
    assert link.transmit(frames, 10_000) == sent
    assert link.waiting == 5 - sent
    assert [payload for _, payload in session.take()] == [b"a", b"b", b"c", b"d", b"e"][:sent]


def test_no_more_bytes_than_about_what_is_allowed():
    """The last frame may go over the number of bytes that is allowed. With none allowed, no frame is sent."""
    session, link = attached()
    link.send_run(0, [b"x" * 100] * 10, b"")
    assert link.transmit(100, 0) == 0
    assert 1 <= link.transmit(100, 300) <= 3
    assert link.transmit(100, 1) == 1
    assert session.window.remote_incoming_window == 1000 - (10 - link.waiting)


def test_delivery_numbers_above_a_uint_have_longer_tags():
    session, link = attached()
    link.send_run(2**32 - 1, [b"a", b"b", b"c" * 600], b"")
    link.transmit(100, 10_000)
    tags = {frame.delivery_id: frame.delivery_tag for frame, _ in session.take() if isinstance(frame, Transfer)}
    assert tags[0] != tags[1]
    assert tags[2] == (2**32 + 1).to_bytes(8)


def test_delivery_ids_wrap_on_the_wire():
    session, link = attached()
    session.next_delivery_id = 2**32 - 1
    link.send_run(0, [b"a", b"b", b"c" * 600], b"")
    link.transmit(100, 10_000)
    ids = [frame.delivery_id for frame, _ in session.take() if isinstance(frame, Transfer)]
    assert ids[:3] == [2**32 - 1, 0, 1]
    assert [(piece.first, piece.last) for piece in session.outgoing.ranges()] == [(2**32 - 1, 2**32 + 1)]


@given(sizes=st.lists(st.integers(0, 1500), min_size=1, max_size=8), turns=st.lists(st.integers(1, 4), min_size=1))
def test_any_sizes_in_any_turns_arrive_whole(sizes, turns):
    """However often the window closes in between, the frames of one delivery are sent one after another."""
    session, link = attached()
    entries = [bytes([number]) * size for number, size in enumerate(sizes)]
    link.send_run(0, list(entries), HEADER)
    turn = 0
    while link.pending:
        used = link.transmit(turns[turn % len(turns)], 10_000)
        assert used <= turns[turn % len(turns)]
        turn += 1
    arrived, gathered = [], b""
    for frame, payload in session.take():
        assert isinstance(frame, Transfer)
        assert len(payload) < 512
        gathered += payload
        if not frame.more:
            arrived.append(gathered)
            gathered = b""
    assert arrived == [HEADER + entry for entry in entries]
    assert session.window.remote_incoming_window == 1000 - session.window.next_outgoing_id
    assert [last - first for first, last in sent_numbers(session)].count(-1) == 0
    assert sum(last - first + 1 for first, last in sent_numbers(session)) == len(sizes)


def test_a_header_section_may_take_several_frames():
    """Annotations that the broker adds stand before the message, with the header section."""
    session, link = attached()
    link.send_run(0, [b"entry", b""], HEADER * 300)
    link.transmit(100, 10_000)
    frames = session.take()
    assert len(frames) > 4
    assert b"".join(payload for _, payload in frames) == HEADER * 300 + b"entry" + HEADER * 300


def test_large_messages_are_not_copied_into_the_output():
    session, link = attached(frame_size_max=100_000)
    whole, large = b"w" * 50_000, b"l" * 250_000
    link.send_run(0, [whole, large], HEADER)
    link.transmit(100, 1_000_000)
    pieces = [piece for piece in session.pieces if len(piece) > 1_000]
    assert pieces[0] is whole
    assert [piece.obj is large for piece in pieces[1:]] == [True, True, True]


def test_a_delivery_may_stop_in_the_middle():
    session, link = attached()
    link.send_run(0, [b"x" * 2000], b"")
    assert link.transmit(2, 10_000) == 2
    assert sent_numbers(session) == []
    assert (link.waiting, link.idle, link.pending) == (0, False, True)
    assert link.credit.delivery_count == 1
    link.transmit(10, 10_000)
    assert sent_numbers(session) == [(0, 0)]


def test_a_message_larger_than_the_receiver_takes_is_not_begun():
    _, link = attached(max_message_size=10)
    with pytest.raises(LinkFault, match="11 bytes waits, but this receiver takes at most 10") as fault:
        link.send_run(0, [b"x", b"x" * 7], HEADER)
    assert fault.value.condition is ErrorCondition.MESSAGE_SIZE_EXCEEDED
    assert link.idle
    link.send_run(0, [b"x" * 6], HEADER)
    assert link.waiting == 1


@pytest.mark.parametrize(
    ("link_credit", "ranges"),
    [(9, []), (7, []), (6, [(6, 6)]), (4, [(4, 6)]), (3, [(4, 6), (3, 3)]), (0, [(4, 6), (0, 3)])],
)
def test_taking_back_begins_with_the_newest(link_credit, ranges):
    session, link = attached()
    link.grant = QueueGrant(256)
    link.grant.request(7)
    link.grant.delivered(7)
    link.send_run(0, [b"0", b"1", b"2", b"3"], b"")
    link.send_run(4, [b"4", b"5", b"6"], b"")
    link.credit.flow_received(delivery_count=0, link_credit=link_credit, drain=False)
    assert link.take_back() == ranges
    assert link.waiting == link.grant.waiting == min(7, link_credit)
    link.transmit(100, 10_000)
    assert [payload for _, payload in session.take()] == [b"%d" % n for n in range(min(7, link_credit))]


def test_what_is_partly_sent_is_not_taken_back():
    session, link = attached()
    link.send_run(0, [b"x" * 1000, b"y"], b"")
    link.transmit(1, 10_000)
    link.credit.flow_received(delivery_count=0, link_credit=0, drain=False)
    assert link.take_back() == [(1, 1)]
    link.transmit(10, 10_000)
    assert sent_numbers(session) == [(0, 0)]
    assert link.credit.delivery_count == 1


def test_an_answer_goes_behind_everything_that_waits():
    session, link = attached(link_credit=5)
    link.send_run(0, [b"a", b"b" * 900], b"")
    link.answer_flow(available=3, drained=True)
    assert session.wanting == [link, link]
    assert link.transmit(2, 10_000) == 2
    assert session.taken(Flow) == []
    link.transmit(2, 10_000)
    (flow,) = session.taken(Flow)
    assert isinstance(flow, Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.available) == (2, 5, 0, 3)
    assert not link.pending


def test_an_answer_needs_neither_window_nor_room():
    session, link = attached(remote_window=0)
    link.answer_flow(available=0, drained=False)
    assert link.transmit(0, 0) == 0
    (flow,) = session.taken(Flow)
    assert isinstance(flow, Flow)
    assert (flow.link_credit, flow.delivery_count) == (100, 0)


def test_of_two_answers_the_newest_counts_and_drained_is_not_forgotten():
    session, link = attached()
    link.answer_flow(available=1, drained=True)
    link.answer_flow(available=2, drained=False)
    link.transmit(0, 0)
    (flow,) = session.taken(Flow)
    assert isinstance(flow, Flow)
    assert (flow.available, flow.link_credit) == (2, 0)


def test_an_answer_is_not_drained_when_draining_was_called_off():
    session, link = attached()
    link.cancel_drained()
    assert not link.pending
    link.answer_flow(available=1, drained=True)
    link.cancel_drained()
    link.transmit(0, 0)
    (flow,) = session.taken(Flow)
    assert isinstance(flow, Flow)
    assert (flow.available, flow.link_credit) == (1, 100)


def test_its_state_and_properties_in_a_flow():
    session, link = attached()
    link.credit.flow_received(delivery_count=0, link_credit=4, drain=True)
    link.write_flow(available=9, properties={"k": "v"})
    assert session.taken(Flow) == [
        Flow(
            incoming_window=10,
            next_outgoing_id=0,
            outgoing_window=0,
            handle=2,
            delivery_count=0,
            link_credit=4,
            available=9,
            drain=True,
            properties={"k": "v"},
        )
    ]


@pytest.mark.parametrize("window", [0, 1])
def test_abandoned_in_the_middle(window):
    """The delivery that was partly sent is aborted if a frame may be sent. Those that waited are reported, and never
    sent."""
    session, link = attached()
    link.send_run(3, [b"x" * 2000, b"y", b"z"], b"")
    link.send_run(6, [b"w"], b"")
    link.transmit(2, 10_000)
    session.take()
    session.window.remote_incoming_window = window
    link.answer_flow(available=0, drained=False)
    link.abandon()
    aborted = [Transfer(handle=2, delivery_id=0, aborted=True)] if window else []
    assert session.taken(Transfer) == aborted
    assert session.window.remote_incoming_window == 0
    assert link.unsent == [(4, 5), (6, 6)]
    assert (link.waiting, link.pending, link.idle) == (0, False, True)
    assert link.transmit(10, 10_000) == 0
    assert session.take() == []


def test_a_link_without_anything_to_say():
    session, link = attached()
    assert link.end.state is LinkState.ATTACHED
    assert link.transmit(10, 10_000) == 0
    assert link.take_back() == []
    link.abandon()
    assert link.unsent == []
    assert session.take() == []
    assert isinstance(link.credit, SenderCredit)


# --- deliveries that are taken back


def released(session: LinkChannelInMemory) -> list[tuple[int, int | None]]:
    dispositions = session.taken(Disposition)
    for disposition in dispositions:
        assert isinstance(disposition, Disposition)
        assert (disposition.role, disposition.settled, disposition.state) == (SENDER, False, RELEASED)
    return [(one.first, one.last) for one in dispositions if isinstance(one, Disposition)]


def test_released_deliveries_stay_unsettled_until_the_receiver_settles():
    session, link = attached()
    link.send_run(0, [b"a", b"b", b"c"], HEADER)
    link.transmit(10, 10_000)
    session.take()
    link.release(1, 2)
    assert released(session) == [(1, 2)]
    assert session.outgoing.count == 3
    link.release(0, 0)
    assert released(session) == [(0, None)]


def test_what_still_waits_is_not_sent_any_more():
    session, link = attached()
    link.grant = QueueGrant(100)
    link.grant.request(100)
    link.grant.delivered(10)
    link.send_run(0, [b"%d" % number for number in range(6)], HEADER)
    link.send_run(6, [b"%d" % number for number in range(6, 10)], HEADER)
    link.transmit(2, 10_000)
    session.take()
    link.release(1, 3)
    assert released(session) == [(1, None)]
    assert (link.waiting, link.grant.waiting) == (6, 6)
    link.release(5, 7)
    assert released(session) == []
    assert (link.waiting, link.grant.waiting) == (3, 3)
    link.transmit(100, 10_000)
    assert sent_numbers(session)[-2:] == [(4, 4), (8, 9)]
    assert link.idle
    assert session.outgoing.count == 5


def test_other_links_and_other_numbers_are_let_alone():
    session, link = attached()
    _, other = attached()
    session.outgoing.add(0, 5, other, 0)
    session.next_delivery_id = 5
    link.send_run(0, [b"a", b"b"], HEADER)
    link.transmit(10, 10_000)
    session.take()
    link.release(0, 10)
    assert released(session) == [(5, 6)]
    link.release(7, 9)
    assert released(session) == []


@given(
    messages=st.lists(
        st.tuples(st.sampled_from([b"", HEADER, b"\x00\x53\x70\xc0\x02\x01\x41"]), st.integers(0, 900)),
        min_size=1,
        max_size=12,
    ),
    turns=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 2000)), max_size=6),
    back=st.integers(0, 6),
    released=st.integers(0, 12),
)
def test_messages_with_header_sections_of_their_own(messages, turns, back, released):
    """They are sent whole or in pieces, taken back from the end, and released from the middle."""
    session, link = attached(frame_size_max=512)
    whole = [header + bytes([place]) * size for place, (header, size) in enumerate(messages)]
    link.send_run(
        0, [bytes([place]) * size for place, (_, size) in enumerate(messages)], [each for each, _ in messages]
    )
    for frames, size in turns:
        link.transmit(frames, size)
    begun = len(messages) - link.waiting
    returned = {
        number for first, last in link.take_back(max(0, link.waiting - back)) for number in range(first, last + 1)
    }
    assert returned == set(range(len(messages) - min(back, len(messages) - begun), len(messages)))
    if released >= begun:
        link.release(released, released)
    while not link.idle:
        link.transmit(100, 100_000)
    arrived, pieces = [], b""
    for frame, payload in session.take():
        if isinstance(frame, Transfer):
            pieces += payload
            if not frame.more:
                arrived.append(pieces)
                pieces = b""
    gone = returned | ({released} if released >= begun else set())
    assert arrived == [each for number, each in enumerate(whole) if number not in gone]


def test_the_header_section_counts_in_what_the_receiver_takes():
    _, link = attached(max_message_size=10)
    link.send_run(0, [b"x" * 10, b"x" * 6], [b"", HEADER])
    with pytest.raises(LinkFault) as fault:
        link.send_run(2, [b"x" * 10, b"x" * 7], [b"", HEADER])
    assert fault.value.condition == ErrorCondition.MESSAGE_SIZE_EXCEEDED
