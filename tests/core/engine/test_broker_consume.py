"""Consuming: grants, turns among consumers, settlement, returns and the single active consumer."""

import pytest

from core.errors import Locked, NotFound, ResourceDeleted
from core.interface import ActivityChanged, Cancelled, Delivered, Disposal, GrantReply, PublisherClosed
from core.message import Attributes, Return
from core.slices import run_at_once
from tests.kit.engine import Peer, bodies, deliveries, entries_for, make_broker, queue, replies

ACCEPTED, REJECTED = Disposal.ACCEPTED, Disposal.REJECTED


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


def stocked(count: int, **declaration: object) -> Peer:
    """A peer at a broker whose queue "q" holds this many messages."""
    broker = make_broker()
    broker.declare_queue(queue("q", **declaration), "x")
    peer = Peer(broker)
    if count:
        peer.publish("q", bodies(count))
    peer.turn()
    return peer


def counts(peer: Peer) -> tuple[int, int]:
    info = peer.broker.queue_info("q", "x")
    return info.ready, info.unacknowledged


# --- grants -------------------------------------------------------------------------------------------------


def test_a_consumer_without_a_grant_gets_nothing():
    peer = stocked(3)
    peer.consume("q")
    assert peer.turn() == []


def test_a_grant_is_set_and_not_added():
    peer = stocked(10)
    consumer = peer.consume("q")
    for _ in range(2):
        peer.broker.grant(consumer, 3, False)
    actions = peer.turn()
    assert entries_for(actions, consumer) == bodies(3)
    assert replies(actions, consumer) == [(7, 0), (7, 0)]


def test_a_grant_can_be_taken_back():
    peer = stocked(0)
    consumer = peer.consume("q", 5)
    peer.broker.grant(consumer, 0, False)
    peer.publish("q", bodies(2))
    actions = peer.turn()
    assert entries_for(actions, consumer) == []
    assert replies(actions, consumer) == [(2, 0), (2, 0)]


def test_a_grant_lasts_over_several_turns():
    peer = stocked(0)
    consumer = peer.consume("q", 5)
    seen = []
    for start in (0, 2, 4):
        peer.publish("q", bodies(2, start))
        seen.append(deliveries(peer.turn(), consumer))
    assert seen == [[(0, b"0"), (1, b"1")], [(2, b"2"), (3, b"3")], [(4, b"4")]]


def test_the_reply_follows_the_deliveries_and_is_given_once():
    peer = stocked(8)
    consumer = peer.consume("q", 5)
    actions = peer.turn()
    assert [type(action) for action in actions] == [Delivered, GrantReply]
    assert replies(actions, consumer) == [(3, 0)]
    assert peer.turn() == []


def test_messages_in_the_stage_are_not_available():
    peer = stocked(0)
    peer.broker.set_stage_budget("q", 2)
    peer.publish("q", bodies(5))
    consumer = peer.consume("q", 0)
    assert replies(peer.turn(), consumer) == [(2, 0)]


# --- drain --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ready", "grant", "available", "drained"),
    [
        (0, 10, 0, 10),
        (3, 10, 0, 7),
        (10, 10, 0, 0),
        (12, 10, 2, 0),
        (3, 0, 3, 0),
        (550, 2 * 10**9, 0, 2 * 10**9 - 550),
    ],
)
def test_drain_gives_back_what_the_queue_could_not_use(ready, grant, available, drained):
    peer = stocked(ready)
    consumer = peer.consume("q")
    peer.broker.grant(consumer, grant, True)
    actions = peer.turn()
    assert replies(actions, consumer) == [(available, drained)]
    assert len(entries_for(actions, consumer)) == min(ready, grant)
    peer.publish("q", bodies(1))
    assert entries_for(peer.turn(), consumer) == []


def test_a_grant_without_drain_leaves_drain_mode():
    peer = stocked(0)
    consumer = peer.consume("q")
    peer.broker.grant(consumer, 5, True)
    peer.broker.grant(consumer, 3, False)
    assert replies(peer.turn(), consumer) == [(0, 0), (0, 0)]
    peer.publish("q", bodies(5))
    assert entries_for(peer.turn(), consumer) == bodies(3)


def test_only_the_newest_of_several_grants_drains():
    peer = stocked(0)
    consumer = peer.consume("q")
    for n in (5, 3):
        peer.broker.grant(consumer, n, True)
    assert replies(peer.turn(), consumer) == [(0, 0), (0, 3)]


def test_the_delivered_list_belongs_to_the_front_end():
    peer = stocked(4)
    consumer = peer.consume("q", 2)
    for _ in range(2):
        for action in peer.turn():
            if isinstance(action, Delivered):
                action.entries.clear()
        peer.broker.grant(consumer, 2, False)
    peer.broker.settle(consumer, 1, 2, Return(unsent=True))
    assert counts(peer) == (2, 2)
    assert entries_for(peer.turn(), consumer) == numbers(1, 2)


# --- turns among consumers ----------------------------------------------------------------------------------


def test_equal_consumers_are_served_message_by_message():
    peer = stocked(0)
    a, b, c = (peer.consume("q", 100) for _ in range(3))
    peer.publish("q", bodies(7))
    actions = peer.turn()
    assert entries_for(actions, a) == numbers(0, 3, 6)
    assert entries_for(actions, b) == numbers(1, 4)
    assert entries_for(actions, c) == numbers(2, 5)
    peer.publish("q", bodies(2, start=7))
    actions = peer.turn()
    assert entries_for(actions, b) == numbers(7)
    assert entries_for(actions, c) == numbers(8)


def test_a_consumer_whose_grant_is_used_up_leaves_the_turns_to_the_others():
    peer = stocked(0)
    a, b = peer.consume("q", 2), peer.consume("q", 100)
    peer.publish("q", bodies(8))
    actions = peer.turn()
    assert entries_for(actions, a) == numbers(0, 2)
    assert entries_for(actions, b) == numbers(1, 3, 4, 5, 6, 7)


def test_fewer_messages_than_consumers_go_round_over_the_turns():
    peer = stocked(0)
    consumers = [peer.consume("q", 10) for _ in range(4)]
    got: list[int] = []
    for start in range(0, 9, 3):
        peer.publish("q", bodies(3, start))
        actions = peer.turn()
        got += [place for place, consumer in enumerate(consumers) for _ in entries_for(actions, consumer)]
    assert got == [0, 1, 2, 0, 1, 3, 0, 2, 3]


def test_attributes_do_not_upset_the_turns():
    peer = stocked(0)
    a, b = peer.consume("q", 10), peer.consume("q", 10)
    for start in range(6):
        peer.publish("q", bodies(1, start), Attributes(priority=start % 2))
    actions = peer.turn()
    assert entries_for(actions, a) == numbers(0, 2, 4)
    assert entries_for(actions, b) == numbers(1, 3, 5)


def test_higher_priority_is_served_first_while_it_has_a_grant():
    peer = stocked(0)
    low = peer.consume("q", 1, priority=-(2 * 10**9))
    default = peer.consume("q", 1)
    high = peer.consume("q", 2, priority=2 * 10**9)
    peer.publish("q", bodies(5))
    actions = peer.turn()
    assert entries_for(actions, high) == numbers(0, 1)
    assert entries_for(actions, default) == numbers(2)
    assert entries_for(actions, low) == numbers(3)
    assert counts(peer) == (1, 4)


def test_an_exclusive_consumer_is_alone():
    peer = stocked(0)
    first = peer.consume("q", exclusive=True)
    with pytest.raises(Locked):
        peer.consume("q")
    peer.broker.cancel(first)
    peer.consume("q")
    with pytest.raises(Locked):
        peer.consume("q", exclusive=True)


def test_a_consumer_needs_a_queue_it_may_use():
    broker = make_broker()
    broker.declare_queue(queue("mine", exclusive=True), owner="me")
    with pytest.raises(Locked):
        Peer(broker, owner="you").consume("mine")
    with pytest.raises(NotFound):
        Peer(broker).consume("missing")


# --- settlement ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disposal", [ACCEPTED, REJECTED])
def test_settled_messages_are_gone(disposal):
    peer = stocked(5)
    consumer = peer.consume("q", 5)
    peer.turn()
    peer.broker.settle(consumer, 1, 3, disposal)
    assert counts(peer) == (0, 2)
    peer.broker.cancel(consumer)
    assert entries_for(peer.turn(), other := peer.consume("q", 9)) == []
    assert entries_for(peer.turn(), other) == numbers(0, 4)


def test_ranges_are_intersected_with_what_is_outstanding():
    peer = stocked(10)
    consumer = peer.consume("q", 10)
    peer.turn()
    for first, last, left in [(2, 4, 7), (3, 6, 5), (3, 6, 5), (8, 2**63, 3), (-5, 0, 2), (0, 2**63, 0)]:
        peer.broker.settle(consumer, first, last, ACCEPTED)
        assert counts(peer) == (0, left)


def test_settling_brings_no_grant():
    peer = stocked(5)
    consumer = peer.consume("q", 1)
    peer.turn()
    peer.broker.settle(consumer, 0, 0, ACCEPTED)
    assert peer.turn() == []


# --- returns ------------------------------------------------------------------------------------------------


def test_released_messages_go_back_to_their_positions_before_everything_that_waits():
    peer = stocked(10)
    consumer = peer.consume("q", 4)
    peer.turn()
    peer.broker.settle(consumer, 1, 2, Return())
    assert counts(peer) == (8, 2)
    peer.broker.grant(consumer, 4, False)
    delivered = [action for action in peer.turn() if isinstance(action, Delivered)]
    assert [(d.first, d.entries, d.first_acquirer, d.delivery_count) for d in delivered] == [
        (4, numbers(1, 2), False, 0),
        (6, numbers(4, 5), True, 0),
    ]


def test_only_a_failed_delivery_counts():
    peer = stocked(3)
    consumer = peer.consume("q", 3)
    for returned, expected in [
        (Return(), (0, False)),
        (Return(delivery_failed=True), (1, False)),
        (Return(delivery_failed=True), (2, False)),
        (Return(unsent=True, delivery_failed=True), (2, False)),
        (Return(), (2, False)),
    ]:
        last = [action for action in peer.turn() if isinstance(action, Delivered)][-1]
        peer.broker.settle(consumer, last.first, last.first + 2, returned)
        peer.broker.grant(consumer, 3, False)
        delivered = [action for action in peer.turn() if isinstance(action, Delivered)]
        assert [(d.delivery_count, d.first_acquirer) for d in delivered] == [expected]
        peer.broker.settle(consumer, delivered[0].first, delivered[0].first + 2, Return(unsent=True))
        peer.broker.grant(consumer, 3, False)


def test_an_unsent_message_was_never_with_a_consumer():
    peer = stocked(2)
    consumer = peer.consume("q", 2)
    peer.turn()
    peer.broker.settle(consumer, 0, 1, Return(unsent=True))
    other = peer.consume("q", 2)
    delivered = [action for action in peer.turn() if isinstance(action, Delivered)]
    assert [(d.consumer, d.entries, d.first_acquirer) for d in delivered] == [(other, numbers(0, 1), True)]


def test_messages_with_different_histories_come_apart():
    peer = stocked(4)
    consumer = peer.consume("q", 4)
    peer.turn()
    peer.broker.settle(consumer, 0, 0, Return(delivery_failed=True))
    peer.broker.settle(consumer, 1, 2, Return())
    peer.broker.settle(consumer, 3, 3, Return(unsent=True))
    peer.broker.grant(consumer, 9, False)
    delivered = [action for action in peer.turn() if isinstance(action, Delivered)]
    assert [(d.entries, d.delivery_count, d.first_acquirer) for d in delivered] == [
        (numbers(0), 1, False),
        (numbers(1, 2), 0, False),
        (numbers(3), 0, True),
    ]


def test_annotations_are_merged_and_such_messages_come_apart_from_others():
    peer = stocked(3)
    consumer = peer.consume("q", 3)
    peer.turn()
    peer.broker.settle(consumer, 0, 1, Return(annotations={"x-a": 1, "x-b": 1}))
    peer.broker.grant(consumer, 2, False)
    peer.turn()
    peer.broker.settle(consumer, 3, 3, Return(annotations={"x-b": 2, "x-c": 2}))
    peer.broker.settle(consumer, 4, 4, Return())
    peer.broker.grant(consumer, 2, False)
    delivered = [action for action in peer.turn() if isinstance(action, Delivered)]
    assert [(d.entries, d.annotations) for d in delivered] == [
        (numbers(0), {"x-a": 1, "x-b": 2, "x-c": 2}),
        (numbers(1), {"x-a": 1, "x-b": 1}),
    ]


def test_an_undeliverable_message_goes_to_others_and_the_consumer_gets_the_next():
    peer = stocked(3)
    first = peer.consume("q", 1)
    peer.turn()
    peer.broker.settle(first, 0, 0, Return(undeliverable_here=True, delivery_failed=True))
    peer.broker.grant(first, 1, False)
    assert entries_for(peer.turn(), first) == numbers(1)
    assert counts(peer) == (2, 1)
    second = peer.consume("q", 9)
    delivered = [action for action in peer.turn() if isinstance(action, Delivered)]
    assert [(d.consumer, d.entries, d.delivery_count) for d in delivered] == [
        (second, numbers(0), 1),
        (second, numbers(2), 0),
    ]


def test_a_message_barred_for_every_consumer_stays_until_a_new_one_comes():
    peer = stocked(1)
    first, second = peer.consume("q", 1), peer.consume("q", 1)
    peer.turn()
    peer.broker.settle(first, 0, 0, Return(undeliverable_here=True))
    assert entries_for(peer.turn(), second) == numbers(0)
    peer.broker.settle(second, 0, 0, Return(undeliverable_here=True))
    for consumer in (first, second):
        peer.broker.grant(consumer, 5, False)
    actions = peer.turn()
    assert replies(actions, first) == replies(actions, second) == [(1, 0)]
    assert entries_for(actions, first) == entries_for(actions, second) == []
    third = peer.consume("q", 1)
    assert entries_for(peer.turn(), third) == numbers(0)


def test_bars_go_with_the_consumer_so_that_its_messages_are_one_run_again():
    peer = stocked(3)
    first = peer.consume("q", 3)
    peer.turn()
    peer.broker.settle(first, 0, 0, Return())
    peer.broker.settle(first, 1, 2, Return(undeliverable_here=True))
    peer.broker.cancel(first)
    peer.consume("q", 3)
    delivered = [action.entries for action in peer.turn() if isinstance(action, Delivered)]
    assert delivered == [bodies(3)]


def test_bars_do_not_hide_the_message_from_lower_priority():
    peer = stocked(2)
    high, low = peer.consume("q", 1, priority=1), peer.consume("q", 1)
    peer.turn()
    peer.broker.settle(high, 0, 0, Return(undeliverable_here=True))
    peer.broker.settle(low, 0, 0, ACCEPTED)
    for consumer in (high, low):
        peer.broker.grant(consumer, 1, False)
    actions = peer.turn()
    assert entries_for(actions, high) == []
    assert entries_for(actions, low) == numbers(0)


# --- cancel -------------------------------------------------------------------------------------------------


def test_what_a_cancelled_consumer_held_goes_to_the_other_in_order():
    peer = stocked(0)
    first, second = peer.consume("q", 10), peer.consume("q", 10)
    peer.publish("q", bodies(6))
    peer.turn()
    peer.publish("q", bodies(2, start=6))
    peer.broker.cancel(first)
    assert entries_for(peer.turn(), second) == numbers(0, 2, 4, 6, 7)


def test_returns_of_several_consumers_merge_into_the_original_order():
    peer = stocked(0)
    consumers = [peer.consume("q", 4) for _ in range(3)]
    peer.publish("q", bodies(12))
    peer.turn()
    for consumer in (consumers[1], consumers[2], consumers[0]):
        peer.broker.cancel(consumer)
    last = peer.consume("q", 100)
    delivered = [action for action in peer.turn() if isinstance(action, Delivered)]
    assert [(d.entries, d.first_acquirer) for d in delivered] == [(bodies(12), False)]
    peer.broker.settle(last, 0, 99, ACCEPTED)
    assert counts(peer) == (0, 0)


def test_nothing_follows_for_a_cancelled_consumer():
    peer = stocked(3)
    consumer = peer.consume("q", 2)
    peer.broker.cancel(consumer)
    peer.broker.cancel(consumer)
    peer.broker.grant(consumer, 5, True)
    peer.broker.settle(consumer, 0, 9, ACCEPTED)
    assert peer.turn() == []
    assert counts(peer) == (3, 0)


def test_an_auto_delete_queue_goes_with_its_last_consumer():
    peer = stocked(2, auto_delete=True)
    first, second = peer.consume("q"), peer.consume("q")
    peer.broker.cancel(first)
    assert counts(peer) == (2, 0)
    peer.broker.cancel(second)
    with pytest.raises(NotFound):
        peer.broker.queue_info("q", "x")


def test_deleting_the_queue_cancels_its_consumers():
    peer = stocked(5)
    consumer = peer.consume("q", 2)
    peer.turn()
    peer.broker.grant(consumer, 0, False)
    assert peer.broker.delete_queue("q", "x") == 3
    (action,) = [action for action in peer.turn() if not isinstance(action, PublisherClosed)]
    assert isinstance(action, Cancelled)
    assert action.consumer is consumer
    assert isinstance(action.error, ResourceDeleted)
    peer.broker.settle(consumer, 0, 1, Return())
    peer.broker.cancel(consumer)
    assert peer.turn() == []


def test_purge_leaves_what_consumers_hold():
    peer = stocked(6)
    consumer = peer.consume("q", 3)
    peer.turn()
    peer.broker.settle(consumer, 0, 0, Return())
    assert run_at_once(peer.broker.purge_queue("q", "x")) == 4
    assert counts(peer) == (0, 2)
    peer.broker.cancel(consumer)
    assert counts(peer) == (2, 0)


def test_positions_go_on_after_a_purge():
    peer = stocked(3)
    attachment = peer.consume("q", 1)
    peer.turn()
    run_at_once(peer.broker.purge_queue("q", "x"))
    peer.publish("q", bodies(2, start=3))
    peer.turn()
    peer.broker.cancel(attachment)
    assert entries_for(peer.turn(), late := peer.consume("q", 9)) == []
    assert entries_for(peer.turn(), late) == numbers(0, 3, 4)


# --- single active consumer ---------------------------------------------------------------------------------


def activity(actions: list) -> list[tuple[object, bool]]:
    return [(a.consumer, a.active) for a in actions if isinstance(a, ActivityChanged)]


def test_only_the_first_consumer_is_active_and_the_others_keep_their_grants():
    peer = stocked(0, x_single_active_consumer=True)
    first, second = peer.consume("q", 3), peer.consume("q", 3)
    assert (first.active, second.active) == (True, False)
    peer.publish("q", bodies(5))
    actions = peer.turn()
    assert entries_for(actions, first) == bodies(3)
    assert entries_for(actions, second) == []
    assert replies(actions, first) == [(2, 0)]
    assert replies(actions, second) == [(0, 0)]
    assert activity(actions) == []


def test_the_next_gets_what_the_active_one_held_in_order():
    peer = stocked(0, x_single_active_consumer=True)
    first, second, third = (peer.consume("q", 3) for _ in range(3))
    peer.publish("q", bodies(4))
    peer.turn()
    peer.broker.settle(first, 0, 0, ACCEPTED)
    peer.broker.cancel(first)
    actions = peer.turn()
    assert activity(actions[:1]) == [(second, True)]
    assert entries_for(actions, second) == numbers(1, 2, 3)
    assert entries_for(actions, third) == []
    assert (second.active, third.active) == (True, False)


def test_drain_is_answered_for_an_inactive_consumer():
    peer = stocked(3, x_single_active_consumer=True)
    peer.consume("q")
    inactive = peer.consume("q")
    peer.broker.grant(inactive, 7, True)
    assert replies(peer.turn(), inactive) == [(0, 7)]


def test_a_newcomer_of_higher_priority_waits_until_the_active_one_has_settled_everything():
    peer = stocked(0, x_single_active_consumer=True)
    active = peer.consume("q", 10)
    peer.publish("q", bodies(2))
    peer.turn()
    newcomer = peer.consume("q", 10, priority=1)
    peer.publish("q", bodies(2, start=2))
    actions = peer.turn()
    assert [type(action) for action in actions if isinstance(action, Delivered)] == []
    peer.broker.settle(active, 0, 0, ACCEPTED)
    assert activity(peer.turn()) == []
    peer.broker.settle(active, 1, 1, ACCEPTED)
    actions = peer.turn()
    assert activity(actions) == [(active, False), (newcomer, True)]
    assert entries_for(actions, newcomer) == numbers(2, 3)


def test_a_newcomer_of_higher_priority_takes_over_at_once_from_an_idle_one():
    peer = stocked(2, x_single_active_consumer=True)
    active = peer.consume("q")
    newcomer = peer.consume("q", 5, priority=1)
    assert (active.active, newcomer.active) == (False, True)
    actions = peer.turn()
    assert activity(actions) == [(active, False)]
    assert entries_for(actions, newcomer) == numbers(0, 1)


def test_equal_priority_never_takes_over():
    peer = stocked(1, x_single_active_consumer=True)
    active = peer.consume("q")
    newcomer = peer.consume("q", 5)
    assert (active.active, newcomer.active) == (True, False)
    assert entries_for(peer.turn(), newcomer) == []


def test_the_active_one_goes_on_when_the_newcomer_leaves_before_the_hand_over():
    peer = stocked(0, x_single_active_consumer=True)
    active = peer.consume("q", 10)
    peer.publish("q", bodies(1))
    peer.turn()
    newcomer = peer.consume("q", 10, priority=1)
    peer.publish("q", bodies(1, start=1))
    assert entries_for(peer.turn(), active) == []
    peer.broker.cancel(newcomer)
    actions = peer.turn()
    assert entries_for(actions, active) == numbers(1)
    assert activity(actions) == []


def test_the_next_is_chosen_by_priority_and_then_by_age():
    peer = stocked(1, x_single_active_consumer=True)
    first = peer.consume("q", priority=5)
    low, old, young = (peer.consume("q", priority=priority) for priority in (0, 3, 3))
    order = []
    for leaving in (first, old, young):
        peer.broker.cancel(leaving)
        order += activity(peer.turn())
    assert order == [(old, True), (young, True), (low, True)]


def test_the_last_active_consumer_leaves_and_a_new_one_is_active():
    peer = stocked(1, x_single_active_consumer=True)
    first = peer.consume("q", 1)
    peer.turn()
    peer.broker.cancel(first)
    second = peer.consume("q", 1)
    assert second.active
    assert entries_for(peer.turn(), second) == numbers(0)
