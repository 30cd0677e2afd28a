"""Stage credit step by step: send, block, ack, grant, bump, unblock, and the end of a party."""

import pytest

from core.credit_flow.flow import CreditFlow, FlowState, StageCreditSpec
from tests.kit.settings import GENERAL, TO_STORE

SMALL = StageCreditSpec(4, 2)


class Wire:
    """Grants on their way, each as (sender, granter, messages)."""

    def __init__(self) -> None:
        self.grants: list[tuple[CreditFlow, CreditFlow, int]] = []

    def post(self, sender: CreditFlow, granter: CreditFlow, n: int) -> None:
        self.grants.append((sender, granter, n))

    def deliver(self) -> None:
        grants, self.grants = self.grants, []
        for sender, granter, n in grants:
            sender.handle_bump(granter, n)


def party(name: str, spec: StageCreditSpec = SMALL) -> CreditFlow:
    return CreditFlow(name, spec)


def room(sender: CreditFlow, receiver: CreditFlow) -> int:
    """How many messages the sender may still send; it may be negative."""
    return sender.account(receiver).room


def test_row_1_08_reader_channel_and_queue_may_send_400_at_first():
    assert (GENERAL.more_after, TO_STORE.more_after) == (200, 800)
    assert party("reader").room(party("channel", GENERAL)) == 400
    assert party("queue").room(party("store", TO_STORE)) == 4000


def test_row_1_10_the_400th_send_blocks_and_not_the_one_before():
    reader, channel = party("reader"), party("channel", GENERAL)
    for _ in range(399):
        reader.send(channel, 1, 0.0)
    assert not reader.blocked
    assert reader.room(channel) == 1
    reader.send(channel, 1, 0.0)
    assert reader.blocked_by == (channel,)
    assert reader.room(channel) == 0


def test_row_0_30_a_blocked_sender_still_sends_and_does_not_block_twice():
    sender, receiver = party("sender"), party("receiver")
    sender.send(receiver, 4, 0.0)
    sender.send(receiver, 3, 1.0)
    assert room(sender, receiver) == -3
    assert sender.room(receiver) == 0
    assert sender.blocked_by == (receiver,)
    assert (sender.blocks, sender.blocked_at) == (1, 0.0)


def test_row_1_09_exactly_one_grant_for_every_200_acknowledged():
    wire = Wire()
    reader, channel = party("reader"), CreditFlow("channel", GENERAL, post=wire.post)
    reader.send(channel, 1000, 0.0)
    for acknowledged in range(1, 1001):
        channel.ack(reader, 1)
        assert wire.grants == [(reader, channel, 200)] * (acknowledged // 200)


def test_a_run_of_acks_hands_its_grants_over_as_one():
    wire = Wire()
    reader, channel = party("reader"), CreditFlow("channel", SMALL, post=wire.post)
    channel.ack(reader, 1)
    channel.ack(reader, 6)
    assert wire.grants == [(reader, channel, 6)]
    assert channel.account(reader).until_grant == 1


def test_a_grant_unblocks_only_when_it_lifts_the_room_above_zero():
    sender, receiver = party("sender"), party("receiver")
    sender.send(receiver, 6, 0.0)
    receiver.ack(sender, 2)
    assert (room(sender, receiver), sender.blocked) == (0, True)
    receiver.ack(sender, 2)
    assert (room(sender, receiver), sender.blocked) == (2, False)
    assert (sender.blocks, sender.unblocks) == (1, 1)


def test_a_grant_of_a_party_that_was_given_up_counts_from_nothing():
    """A bump of a party without an account counts from 0, and not from the initial number."""
    wire = Wire()
    sender, receiver = party("sender"), CreditFlow("receiver", SMALL, post=wire.post)
    sender.send(receiver, 4, 0.0)
    receiver.ack(sender, 2)
    sender.peer_down(receiver)
    assert sender.room(receiver) == 4
    wire.deliver()
    assert room(sender, receiver) == 2
    assert (sender.blocked, sender.unblocks) == (False, 1)


def test_row_0_30_grants_are_kept_back_while_blocked_and_leave_newest_first():
    wire = Wire()
    first, second, third = party("first"), party("second"), party("third")
    middle, below = CreditFlow("middle", SMALL, post=wire.post), party("below")
    middle.send(below, 4, 0.0)
    for sender in (first, second, first, third):
        middle.ack(sender, 2)
    assert wire.grants == []
    assert middle.account(first).deferred == 4
    below.ack(middle, 2)
    assert wire.grants == [(sender, middle, 2) for sender in (third, first, second, first)]
    assert middle.account(first).deferred == 0


def test_row_1_16_one_of_two_blockers_lets_go_and_nothing_leaves():
    upstream, middle = party("upstream"), party("a")
    b, c = party("b"), party("c")
    upstream.send(middle, 4, 0.0)
    middle.send(c, 4, 1.0)
    middle.send(b, 4, 2.0)
    assert middle.blocked_by == (b, c)
    middle.ack(upstream, 4)
    b.ack(middle, 2)
    assert middle.blocked_by == (c,)
    assert (upstream.blocked, middle.unblocks) == (True, 0)
    c.ack(middle, 2)
    assert middle.blocked_by == ()
    assert (upstream.room(middle), upstream.blocked, middle.unblocks) == (4, False, 1)


def test_row_1_15_the_stamp_is_set_only_when_the_first_blocker_appears():
    sender, b, c = party("sender"), party("b"), party("c")
    assert sender.blocked_at is None
    sender.send(b, 4, 10.0)
    sender.send(c, 4, 20.0)
    assert (sender.blocked_at, sender.blocks) == (10.0, 1)
    b.ack(sender, 2)
    sender.send(b, 2, 30.0)
    assert sender.blocked_at == 10.0
    b.ack(sender, 2)
    c.ack(sender, 2)
    sender.send(b, 2, 40.0)
    assert (sender.blocked_at, sender.blocks) == (40.0, 2)


def test_row_1_12_a_party_is_in_flow_for_a_second_after_its_last_block_began():
    sender, receiver = party("sender"), party("receiver")
    assert sender.state(0.0) is FlowState.RUNNING
    sender.send(receiver, 4, 10.0)
    receiver.ack(sender, 2)
    assert not sender.blocked
    assert sender.state(10.999999) is FlowState.FLOW
    assert sender.state(11.0) is FlowState.RUNNING


def test_row_4_29_a_party_that_stays_blocked_is_in_flow_for_ever():
    sender, receiver = party("sender"), party("receiver")
    sender.send(receiver, 4, 10.0)
    assert sender.state(1000.0) is FlowState.FLOW


def test_row_1_17_each_party_counts_for_itself():
    reader, channel, queue = party("reader"), party("channel"), party("queue")
    reader.send(channel, 4, 0.0)
    channel.ack(reader, 3)
    channel.send(queue, 3, 0.0)
    assert [(stage.blocks, stage.unblocks) for stage in (reader, channel, queue)] == [(1, 1), (0, 0), (0, 0)]
    channel.send(queue, 1, 1.0)
    assert [(stage.blocks, stage.unblocks) for stage in (reader, channel, queue)] == [(1, 1), (1, 0), (0, 0)]


def test_blocked_seconds_are_added_up_from_block_to_stamp():
    sender, receiver = party("sender"), party("receiver")
    sender.send(receiver, 4, 10.0)
    assert sender.blocked_seconds(12.5) == 2.5
    receiver.ack(sender, 2)
    sender.stamp(13.0)
    assert sender.blocked_seconds(20.0) == 3.0
    sender.send(receiver, 2, 30.0)
    receiver.ack(sender, 2)
    sender.send(receiver, 2, 31.0)  # a send also sets the time, and blocks again
    assert sender.blocked_seconds(31.5) == 4.5


def test_the_last_one_that_lets_go_is_reported_after_the_grants_have_left():
    heard: list[bool] = []
    upstream, b, c = party("upstream"), party("b"), party("c")
    middle = CreditFlow("middle", SMALL, unblocked=lambda: heard.append(upstream.blocked))
    upstream.send(middle, 4, 0.0)
    middle.send(b, 4, 0.0)
    middle.send(c, 4, 0.0)
    middle.ack(upstream, 2)
    b.ack(middle, 2)
    assert heard == []
    c.ack(middle, 2)
    assert heard == [False]


def test_a_peer_that_goes_down_blocks_no_sender_and_its_account_starts_anew():
    sender, receiver = party("sender"), party("receiver")
    sender.send(receiver, 5, 0.0)
    receiver.ack(sender, 1)
    sender.peer_down(receiver)
    receiver.peer_down(sender)
    assert not sender.blocked
    assert sender.account(receiver) == receiver.account(sender) == (4, 2, 0)


def test_grants_deferred_for_a_peer_that_went_down_are_sent_into_the_void():
    wire = Wire()
    dead, alive = party("dead"), party("alive")
    middle, below = CreditFlow("middle", SMALL, post=wire.post), party("below")
    middle.send(below, 4, 0.0)
    middle.ack(dead, 2)
    middle.ack(alive, 2)
    dead.end(2.0)
    assert middle.account(dead).deferred == 2
    below.end(2.0)
    assert wire.grants == [(alive, middle, 2), (dead, middle, 2)]
    wire.deliver()
    assert dead.peers == ()
    assert room(alive, middle) == 2


def test_an_end_is_told_to_every_party_and_leaves_no_entry_on_either_side():
    queue, store = party("queue"), party("store")
    channels = [party(f"channel {number}") for number in range(3)]
    for channel in channels:
        channel.send(queue, 1, 0.0)  # never acknowledged
    queue.send(store, 1, 0.0)
    assert set(queue.peers) == {*channels, store}
    queue.end(2.0)
    assert [stage.peers for stage in (queue, store, *channels)] == [()] * 5


def test_an_upstream_party_that_ends_leaves_no_entry_either():
    channel, queue = party("channel"), party("queue")
    channel.send(queue, 3, 0.0)
    queue.ack(channel, 1)
    channel.end(2.0)
    assert queue.peers == channel.peers == ()


def test_calls_that_come_too_late_do_nothing():
    wire = Wire()
    channel, queue, store = party("channel"), CreditFlow("queue", SMALL, post=wire.post), party("store")
    channel.send(queue, 4, 0.0)
    queue.send(store, 4, 0.0)
    queue.end(2.0)
    queue.end(2.0)
    assert (queue.blocked, queue.blocks, queue.unblocks) == (False, 1, 1)
    queue.ack(channel, 4)  # the writer reports a write
    store.ack(queue, 4)
    queue.send(store, 1, 1.0)
    channel.send(queue, 9, 1.0)
    queue.handle_bump(store, 2)
    channel.handle_bump(queue, 2)
    assert wire.grants == []
    assert [stage.peers for stage in (channel, queue, store)] == [(), (), ()]
    assert not channel.blocked


def test_a_reading_names_the_party_that_blocks_or_blocked_last():
    sender, b, c = party("sender"), party("b"), party("c")
    sender.send(b, 4, 0.0)
    sender.send(c, 4, 0.0)
    assert sender.reading(5.0).held_up_by == ("c", "b")
    b.ack(sender, 2)
    c.ack(sender, 2)
    assert (sender.reading(0.5).in_flow, sender.reading(0.5).held_up_by) == (True, ("c",))
    assert (sender.reading(2.0).in_flow, sender.reading(2.0).held_up_by) == (False, ())


@pytest.mark.parametrize(("initial", "more_after"), [(4, 5), (4, 0)])
def test_numbers_that_would_let_a_sender_wait_for_ever_are_our_mistake(initial: int, more_after: int):
    with pytest.raises(AssertionError):
        StageCreditSpec(initial, more_after)
