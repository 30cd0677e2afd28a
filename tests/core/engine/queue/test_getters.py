"""Getters: attachments for basic.get, which take a message that is ready and are not counted as consumers."""

import pytest

from core.errors import PreconditionFailed, ResourceDeleted
from core.interface import Cancelled, Delivered, Disposal, GrantReply, TakenBack
from core.message import Attributes, Return
from tests.kit.engine import Peer, bodies, deliveries, entries_for, later, make_broker, queue, replies
from tests.kit.kept_broker import KeptBroker


def stocked(count: int, **declaration: object) -> Peer:
    """A peer at a broker whose queue "q" holds this many messages."""
    broker = make_broker()
    broker.declare_queue(queue("q", **declaration), "x")
    peer = Peer(broker)
    if count:
        peer.publish("q", bodies(count))
    peer.turn()
    return peer


def counts(peer: Peer) -> tuple[int, int, int]:
    info = peer.broker.queue_info("q", "x")
    return info.ready, info.unacknowledged, info.consumers


def exists(peer: Peer) -> bool:
    return peer.broker.snapshot("queues", "q") != []


@pytest.mark.parametrize("drain", [True, False])
def test_a_getter_takes_what_is_ready_and_no_more(drain: bool):
    peer = stocked(3)
    getter = peer.consume("q", getter=True)
    peer.broker.grant(getter, 1, drain)
    actions = peer.turn()
    assert [type(action) for action in actions] == [Delivered, GrantReply]
    assert entries_for(actions, getter) == bodies(1)
    assert replies(actions, getter) == [(2, 0)]
    peer.broker.grant(getter, 5, drain)
    actions = peer.turn()
    assert entries_for(actions, getter) == bodies(2, 1)
    assert replies(actions, getter) == [(0, 3)]
    peer.publish("q", bodies(1, 3))
    assert entries_for(peer.turn(), getter) == []


def test_a_getter_is_not_counted_but_what_it_holds_is():
    peer = stocked(3)
    getter = peer.consume("q", 2, getter=True)
    peer.turn()
    assert counts(peer) == (1, 2, 0)
    assert peer.broker.snapshot("consumers") == []
    peer.broker.settle(getter, 0, 0, Disposal.ACCEPTED)
    assert counts(peer) == (1, 1, 0)
    peer.broker.settle(getter, 1, 1, Return())
    peer.broker.grant(getter, 2, True)
    [first, second] = [action for action in peer.turn() if isinstance(action, Delivered)]
    assert (first.entries, first.first_acquirer) == (bodies(1, 1), False)
    assert (second.entries, second.first_acquirer) == (bodies(1, 2), True)


def test_consumers_are_served_first():
    peer = stocked(0)
    consumer = peer.consume("q", 2)
    getter = peer.consume("q", 5, getter=True)
    peer.publish("q", bodies(3))
    actions = peer.turn()
    assert entries_for(actions, consumer) == bodies(2)
    assert entries_for(actions, getter) == bodies(1, 2)


def test_neither_exclusive_nor_single_active_consumers_are_in_its_way():
    peer = stocked(2)
    peer.consume("q", exclusive=True)
    getter = peer.consume("q", 1, getter=True)
    assert entries_for(peer.turn(), getter) == bodies(1)
    peer = stocked(2, x_single_active_consumer=True)
    active = peer.consume("q")
    getter = peer.consume("q", 1, getter=True)
    assert entries_for(peer.turn(), getter) == bodies(1)
    peer.broker.settle(getter, 0, 0, Disposal.ACCEPTED)
    assert active.active
    peer.broker.cancel(active)
    other = peer.consume("q", 1)
    assert other.active
    assert entries_for(peer.turn(), other) == bodies(1, 1)


def test_a_getter_does_not_prevent_an_exclusive_consumer():
    peer = stocked(0)
    peer.consume("q", getter=True)
    assert peer.consume("q", exclusive=True).active


def test_getters_do_not_delete_an_auto_delete_queue_and_do_not_keep_it():
    peer = stocked(1, auto_delete=True)
    getter = peer.consume("q", 1, getter=True)
    peer.turn()
    peer.broker.cancel(getter)
    assert exists(peer)
    assert counts(peer) == (1, 0, 0)
    peer.consume("q", getter=True)
    peer.broker.cancel(peer.consume("q"))
    assert not exists(peer)


def test_a_grant_is_use_of_the_queue_and_being_there_is_not():
    peer = stocked(0, x_expires=10_000)
    getter = peer.consume("q", getter=True)
    peer.turn()
    peer.broker.turn(later(6))
    peer.broker.grant(getter, 1, True)
    peer.broker.turn(later(6))
    peer.broker.turn(later(15.9))
    assert exists(peer)
    peer.broker.turn(later(16.1))
    assert not exists(peer)
    assert [type(action) for action in peer.mailbox.take()] == [GrantReply, Cancelled]


def test_what_a_getter_holds_too_long_is_taken_back():
    peer = stocked(1, x_consumer_timeout=60_000)
    getter = peer.consume("q", 1, getter=True)
    peer.turn()
    peer.broker.turn(later(100))
    [taken] = peer.mailbox.take()
    assert isinstance(taken, TakenBack)
    assert (taken.consumer, taken.first, taken.last) == (getter, 0, 0)
    assert counts(peer) == (1, 0, 0)


def test_priorities_are_taken_from_the_highest():
    one = stocked(0, x_max_priority=2)
    for priority in (0, 2, 1):
        one.publish("q", bodies(1, priority), Attributes(priority=priority))
    one.turn()
    getter = one.consume("q", 3, getter=True)
    assert entries_for(one.turn(), getter) == [b"2", b"1", b"0"]


def test_a_getter_that_asks_when_the_queue_goes_hears_of_it():
    peer = stocked(1)
    getter = peer.consume("q", 1, getter=True)
    peer.broker.delete_queue("q", "x")
    [cancelled] = [action for action in peer.turn() if isinstance(action, Cancelled)]
    assert isinstance(cancelled.error, ResourceDeleted)
    assert cancelled.consumer is getter
    peer.broker.settle(getter, 0, 0, Disposal.ACCEPTED)
    peer.broker.cancel(getter)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_from_queues_that_are_kept(kind: str):
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type=kind), "x")
    one.peer.publish("q", bodies(5))
    one.run()
    getter = one.peer.consume("q", 2, getter=True)
    one.run()
    assert deliveries(one.peer.mailbox.take(), getter) == [(0, b"0"), (1, b"1")]
    one.broker.settle(getter, 1, 1, Disposal.ACCEPTED)
    one.broker.cancel(getter)
    assert one.taken("q") == [b"0", b"2", b"3", b"4"]


def test_a_stream_refuses_getters():
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type="stream"), "x")
    with pytest.raises(PreconditionFailed, match="stream"):
        one.peer.consume("q", getter=True)
    assert one.broker.queue_info("q", "x").consumers == 0
