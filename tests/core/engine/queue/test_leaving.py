"""A cancel that gives nothing back: the consumer gets no more, and settles what it holds [0-9-1 basic.cancel]."""

import pytest

from core.interface import ActivityChanged, Cancelled, Consumer, Disposal, StreamOptions, StreamPosition, TakenBack
from core.message import Attributes, Return
from tests.kit.engine import Peer, bodies, entries_for, later, make_broker, queue
from tests.kit.kept_broker import KeptBroker

DURABLE = Attributes(durable=True)


def holding(count: int, **declaration: object):
    """A consumer that holds this many messages of "q"."""
    broker = make_broker()
    broker.declare_queue(queue("q", **declaration), "x")
    peer = Peer(broker)
    consumer = peer.consume("q", count)
    peer.publish("q", bodies(count))
    peer.turn()
    return peer, consumer


def counts(peer: Peer) -> tuple[int, int, int]:
    info = peer.broker.queue_info("q", "x")
    return info.ready, info.unacknowledged, info.consumers


def forgotten(peer: Peer, consumer: Consumer) -> bool:
    """Whether the queue knows nothing of the consumer any more, so that a cancel is no work."""
    before = peer.broker.work.spent
    peer.broker.cancel(consumer)
    return peer.broker.work.spent == before


def test_a_cancelled_consumer_gets_no_more_and_is_not_counted():
    peer, consumer = holding(3)
    peer.broker.grant(consumer, 10, False)
    peer.broker.cancel(consumer, requeue=False)
    peer.broker.grant(consumer, 10, False)
    peer.publish("q", bodies(2, 3))
    assert not [action for action in peer.turn() if getattr(action, "consumer", None) is consumer]
    assert counts(peer) == (2, 3, 0)
    assert peer.broker.snapshot("consumers") == []


def test_messages_that_it_holds_are_settled_as_before():
    peer, consumer = holding(4)
    peer.broker.cancel(consumer, requeue=False)
    peer.broker.settle(consumer, 0, 0, Disposal.ACCEPTED)
    peer.broker.settle(consumer, 2, 2, Return())
    peer.broker.settle(consumer, 3, 3, Disposal.REJECTED)
    assert counts(peer) == (1, 1, 0)
    other = peer.consume("q", 9)
    assert entries_for(peer.turn(), other) == [b"2"]


def test_a_second_cancel_gives_the_rest_back_in_order():
    peer, consumer = holding(5)
    peer.broker.cancel(consumer, requeue=False)
    peer.broker.settle(consumer, 1, 2, Disposal.ACCEPTED)
    peer.publish("q", bodies(1, 5))
    peer.broker.cancel(consumer, requeue=False)
    assert counts(peer)[1] == 3
    peer.broker.cancel(consumer)
    peer.broker.settle(consumer, 0, 9, Disposal.ACCEPTED)
    peer.turn()
    assert counts(peer) == (4, 0, 0)
    other = peer.consume("q", 9)
    assert entries_for(peer.turn(), other) == [b"0", b"3", b"4", b"5"]


def test_a_cancelled_consumer_that_has_settled_everything_is_forgotten():
    peer, consumer = holding(2)
    peer.broker.cancel(consumer, requeue=False)
    peer.broker.settle(consumer, 0, 1, Disposal.ACCEPTED)
    assert forgotten(peer, consumer)
    peer.broker.cancel(consumer)
    assert counts(peer) == (0, 0, 0)


def test_a_cancelled_consumer_that_holds_nothing_is_gone_at_once():
    peer = Peer(make_broker("q"))
    consumer = peer.consume("q")
    peer.broker.cancel(consumer, requeue=False)
    assert forgotten(peer, consumer)


def test_the_next_single_active_consumer_takes_over_at_once():
    peer, first = holding(2, x_single_active_consumer=True)
    second = peer.consume("q", 5)
    peer.broker.cancel(first, requeue=False)
    peer.publish("q", bodies(1, 2))
    actions = peer.turn()
    assert [(a.consumer, a.active) for a in actions if isinstance(a, ActivityChanged)] == [(second, True)]
    assert entries_for(actions, second) == [b"2"]
    peer.broker.settle(first, 0, 1, Return())
    assert entries_for(peer.turn(), second) == [b"0", b"1"]


def test_an_auto_delete_queue_goes_with_its_last_consumer_and_what_it_holds():
    peer, consumer = holding(2, auto_delete=True)
    peer.broker.cancel(consumer, requeue=False)
    assert peer.broker.snapshot("queues") == []
    peer.broker.settle(consumer, 0, 1, Return())
    peer.broker.cancel(consumer)
    assert not [action for action in peer.turn() if getattr(action, "consumer", None) is consumer]


def test_a_cancelled_consumer_is_not_told_that_the_queue_was_deleted():
    peer, consumer = holding(2)
    peer.broker.cancel(consumer, requeue=False)
    other = peer.consume("q")
    peer.broker.delete_queue("q", "x")
    assert [action.consumer for action in peer.turn() if isinstance(action, Cancelled)] == [other]
    peer.broker.settle(consumer, 0, 1, Return())


def test_messages_that_it_holds_too_long_are_taken_back():
    peer, consumer = holding(2, x_consumer_timeout=60_000)
    peer.broker.cancel(consumer, requeue=False)
    peer.broker.turn(later(100))
    [taken] = peer.mailbox.take()
    assert isinstance(taken, TakenBack)
    assert (taken.consumer, taken.first, taken.last) == (consumer, 0, 1)
    assert forgotten(peer, consumer)
    assert counts(peer) == (2, 0, 0)


def test_a_message_undeliverable_here_is_for_every_other_consumer():
    peer, consumer = holding(1)
    peer.broker.cancel(consumer, requeue=False)
    peer.broker.settle(consumer, 0, 0, Return(undeliverable_here=True))
    other = peer.consume("q", 1)
    assert entries_for(peer.turn(), other) == [b"0"]


@pytest.mark.parametrize("ending", [KeptBroker.kill, KeptBroker.restart])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_messages_that_it_holds_are_ready_after_a_start(kind: str, ending):
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type=kind), "x")
    one.peer.publish("q", bodies(3), DURABLE)
    consumer = one.peer.consume("q", 3)
    one.run()
    one.broker.cancel(consumer, requeue=False)
    one.broker.settle(consumer, 1, 1, Disposal.ACCEPTED)
    one.run()
    ending(one)
    assert one.taken("q") == [b"0", b"2"]


def test_a_stream_counts_the_messages_of_a_cancelled_consumer():
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type="stream"), "x")
    one.peer.publish("q", bodies(3))
    consumer = one.peer.consume("q", 3, stream=StreamOptions(position=StreamPosition.FIRST))
    one.run()
    one.broker.cancel(consumer, requeue=False)
    assert one.broker.queue_info("q", "x").unacknowledged == 3
    one.broker.settle(consumer, 2, 2, Return(unsent=True))
    one.broker.settle(consumer, 0, 0, Disposal.ACCEPTED)
    assert one.broker.queue_info("q", "x").unacknowledged == 1
    one.broker.cancel(consumer)
    assert one.broker.queue_info("q", "x").unacknowledged == 0
