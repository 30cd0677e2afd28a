"""The length limit: exactly how much fits, and what each way of overflowing does."""

from itertools import accumulate

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.engine.broker import Broker
from core.engine.options.in_force import Overflow, QueueOptions
from core.engine.queue.length_limit import LengthLimit
from core.errors import LimitReached
from core.interface import Confirmed, ExchangeTarget, Outcome, PublisherBlocked, QueueTarget
from core.message import Attributes, Return, Run
from core.slices import run_at_once
from tests.kit.dead_letters import PlainConverter, body, deaths
from tests.kit.engine import NOW, Peer, binding, bodies, confirms, entries_for, make_broker, queue

ACCEPTED, REJECTED = Outcome.ACCEPTED, Outcome.REJECTED
TARGET = QueueTarget("q")


def make(**arguments: object) -> tuple[Broker, Peer]:
    broker = make_broker(converter=PlainConverter())
    broker.declare_queue(queue("q", **arguments), "x")
    return broker, Peer(broker)


def ready(broker: Broker) -> int:
    return broker.queue_info("q", "x").ready


def dropped(broker: Broker) -> object:
    return broker.snapshot("queues", "q")[0]["dropped"]


def taken(peer: Peer, name: str = "q") -> list[bytes]:
    consumer = peer.consume(name, 1000)
    entries = []
    for _ in range(5):
        entries += entries_for(peer.turn(), consumer)
    return entries


@given(
    sizes=st.lists(st.integers(0, 9), max_size=12),
    present=st.integers(0, 20),
    present_bytes=st.integers(0, 60),
    messages=st.none() | st.integers(0, 20),
    octets=st.none() | st.integers(0, 60),
)
def test_room_is_the_longest_beginning_within_both_limits(sizes, present, present_bytes, messages, octets):
    limit = LengthLimit("q", QueueOptions(max_length=messages, max_length_bytes=octets))
    entries = [b"x" * size for size in sizes]
    room = limit.room(entries, present, present_bytes)

    def fits(count: int) -> bool:
        total = present_bytes + sum(sizes[:count])
        return (messages is None or present + count <= messages) and (octets is None or total <= octets)

    assert room == 0 or fits(room)
    assert room == len(entries) or not fits(room + 1)
    assert list(accumulate(sizes))[:room] == list(accumulate(sizes[:room]))


def test_without_a_limit_nothing_acts():
    limit = LengthLimit("q", QueueOptions(overflow=Overflow.REJECT_PUBLISH))
    assert [limit.rejects, limit.drops, limit.blocks, limit.full(10**9, 10**12)] == [False] * 4
    assert limit.excess(10**9, 10**12) == 0


# --- drop-head


@pytest.mark.parametrize("limit", [{"x_max_length": 3}, {"x_max_length_bytes": 3}])
def test_the_oldest_go(limit):
    broker, peer = make(**limit)
    peer.publish("q", bodies(10))
    assert confirms(peer.turn()) == [(0, 9, ACCEPTED)]
    assert (ready(broker), dropped(broker)) == (3, {"maxlen": 7})
    assert taken(peer) == bodies(3, 7)


def test_a_message_that_is_larger_than_the_limit_goes_alone():
    broker, peer = make(x_max_length_bytes=4)
    peer.publish("q", [b"12345"])
    peer.turn()
    assert (ready(broker), dropped(broker)) == (0, {"maxlen": 1})


def test_consumers_come_before_the_limit():
    broker, peer = make(x_max_length=0)
    consumer = peer.consume("q", 5)
    peer.publish("q", bodies(7))
    assert entries_for(peer.turn(), consumer) == bodies(5)
    assert dropped(broker) == {"maxlen": 2}


def test_what_comes_back_counts():
    broker, peer = make(x_max_length=2)
    consumer = peer.consume("q", 2)
    peer.publish("q", bodies(4))
    peer.turn()
    broker.settle(consumer, 0, 1, Return())
    peer.turn()
    assert dropped(broker) == {"maxlen": 2}
    assert taken(peer) == bodies(2, 2)


def test_what_is_urgent_stays():
    _, peer = make(x_max_length=3, x_max_priority=9)
    peer.publish("q", bodies(2), Attributes(priority=9))
    peer.publish("q", bodies(4, 2), Attributes(priority=1))
    peer.turn()
    assert taken(peer) == [b"0", b"1", b"5"]


# --- reject-publish


def test_part_of_a_run_is_rejected_with_the_reason():
    broker, peer = make(x_max_length=4, x_overflow="reject-publish")
    peer.publish("q", bodies(3))
    peer.publish("q", bodies(3, 3))
    peer.publish("q", bodies(2, 6))
    actions = peer.turn()
    assert confirms(actions) == [(0, 3, ACCEPTED), (4, 7, REJECTED)]
    (error,) = [a.error for a in actions if isinstance(a, Confirmed) and a.error]
    assert isinstance(error, LimitReached)
    assert all(word in str(error) for word in ("'q'", "4 messages", "max-length", "raise the limit"))
    assert broker.snapshot("queues", "q")[0]["refused"] == 4
    assert taken(peer) == bodies(4)


def test_bytes_are_counted_message_by_message():
    _, peer = make(x_max_length_bytes=10, x_overflow="reject-publish")
    peer.publish("q", [b"1234", b"1234", b"123", b"1"])
    assert confirms(peer.turn()) == [(0, 1, ACCEPTED), (2, 3, REJECTED)]


def test_there_is_room_again_once_messages_are_handed_out():
    _, peer = make(x_max_length=2, x_overflow="reject-publish")
    peer.publish("q", bodies(3))
    assert confirms(peer.turn()) == [(0, 1, ACCEPTED), (2, 2, REJECTED)]
    peer.consume("q", 2)
    peer.turn()
    peer.publish("q", bodies(1, 3))
    assert confirms(peer.turn()) == [(3, 3, ACCEPTED)]


def test_one_full_queue_rejects_for_all():
    broker, peer = make(x_max_length=2, x_overflow="reject-publish")
    broker.declare_queue(queue("other"), "x")
    for name in ("q", "other"):
        broker.bind(binding("amq.fanout", name), "x")
    broker.set_stage_budget("other", 1)
    peer.publish(ExchangeTarget("amq.fanout", ""), bodies(4))
    answers = [answer for _ in range(4) for answer in confirms(peer.turn())]
    assert [(n, outcome) for first, last, outcome in answers for n in range(first, last + 1)] == [
        (0, ACCEPTED),
        (1, ACCEPTED),
        (2, REJECTED),
        (3, REJECTED),
    ]
    assert taken(peer, "other") == bodies(4)


def test_a_copy_of_what_is_rejected_may_be_dead_lettered():
    broker, peer = make(
        x_max_length=1,
        x_overflow="reject-publish-dlx",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
    )
    broker.declare_queue(queue("dead"), "x")
    peer.publish("q", bodies(3))
    assert confirms(peer.turn()) == [(0, 0, ACCEPTED), (1, 2, REJECTED)]
    entries = taken(peer, "dead")
    assert [(body(entry), deaths(entry)) for entry in entries] == [(b"1", ["q:maxlen"]), (b"2", ["q:maxlen"])]
    assert broker.snapshot("queues", "q")[0]["dead_lettered"] == {"maxlen": 2}


# --- block


def blocks(actions: list) -> list[tuple[object, str | None]]:
    return [(a.publisher, a.reason) for a in actions if isinstance(a, PublisherBlocked)]


def test_publishers_are_told_once_that_it_is_full_and_once_that_it_is_not():
    broker, peer = make(x_max_length=3, x_overflow="block")
    publisher = peer.publisher(None)
    fixed = broker.publisher(peer.mailbox, "x", TARGET, "fixed")
    broker.publish(fixed, TARGET, run_of(5), NOW)
    actions = peer.turn()
    assert blocks(actions) == [(fixed, "queue-full")]
    assert confirms(actions) == [(0, 4, ACCEPTED)], "what was on its way is taken on"
    late = broker.publisher(peer.mailbox, "x", TARGET, "late")
    assert blocks(peer.turn()) == [(late, "queue-full")]
    consumer = peer.consume("q", 2)
    assert blocks(peer.turn()) == []
    broker.grant(consumer, 1, False)
    assert blocks(peer.turn()) == [(fixed, None), (late, None)]
    assert blocks(peer.turn()) == []
    assert publisher not in broker._queues["q"].publishers
    assert ready(broker) == 2


def test_a_queue_that_stops_blocking_lets_go():
    broker, peer = make(x_max_length=1, x_overflow="block")
    fixed = broker.publisher(peer.mailbox, "x", TARGET, "fixed")
    broker.publish(fixed, TARGET, run_of(2), NOW)
    peer.turn()
    broker._queues["q"].apply(QueueOptions(), NOW)
    assert blocks(peer.mailbox.take()) == [(fixed, None)]


def run_of(count: int) -> Run:
    return Run(0, bodies(count), Attributes())


def test_a_purge_makes_room_for_publishers_that_wait():
    broker, peer = make(x_max_length=1, x_overflow="block")
    fixed = broker.publisher(peer.mailbox, "x", TARGET, "fixed")
    broker.publish(fixed, TARGET, run_of(1), NOW)
    assert blocks(peer.turn()) == [(fixed, "queue-full")]
    run_at_once(broker.purge_queue("q", "x"))
    assert blocks(peer.turn()) == [(fixed, None)]
