"""Times: expiry of messages and of unused queues, and deliveries that consumers hold too long."""

from math import inf

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.clock import Now
from core.engine.broker import Broker
from core.engine.queue.expiry import EXPIRY_GRAIN_MS, TIMEOUT_GRAINS, DeliveryTimes, Disuse, expires_at, monotonic
from core.errors import NotFound
from core.interface import ConsumeOptions, Delivered, Disposal, TakenBack
from core.message import Attributes, Return
from tests.kit.engine import NOW, Peer, bodies, entries_for, later, make_broker, queue, replies


def make(**arguments: object) -> tuple[Broker, Peer]:
    broker = make_broker()
    broker.declare_queue(queue("q", **arguments), "x")
    return broker, Peer(broker)


def turn(peer: Peer, now: Now) -> list:
    peer.broker.turn(now)
    return peer.mailbox.take()


def dropped(broker: Broker) -> object:
    return broker.snapshot("queues", "q")[0]["dropped"]


# --- arithmetic


@pytest.mark.parametrize(
    ("own", "queues", "seconds"),
    [(None, None, None), (1000, None, 1), (None, 2000, 2), (1000, 2000, 1), (3000, 2000, 2)],
)
def test_the_lower_time_to_live_holds(own, queues, seconds):
    expected = None if seconds is None else NOW.wall + seconds
    assert expires_at(own, queues, NOW) == expected


@given(wall=st.floats(1e9, 3e9), ttl_ms=st.integers(1, 10**9))
def test_nothing_expires_early_or_much_too_late(wall, ttl_ms):
    expiry = expires_at(ttl_ms, None, Now(0.0, wall))
    assert expiry is not None
    assert -0.001 <= expiry - (wall + ttl_ms / 1000) <= (EXPIRY_GRAIN_MS + 1) / 1000


def test_a_time_to_live_of_zero_is_over_at_once():
    assert expires_at(0, None, NOW) == NOW.wall


def test_wall_clock_times_follow_the_clocks():
    assert monotonic(NOW.wall + 5, NOW) == NOW.monotonic + 5


@given(
    timeout_ms=st.integers(100, 10**6),
    steps=st.lists(st.tuples(st.integers(1, 3), st.floats(0, 100)), min_size=1, max_size=60),
)
def test_deliveries_are_overdue_within_a_grain_and_never_early(timeout_ms, steps):
    marks, timeout = DeliveryTimes(timeout_ms), timeout_ms / 1000
    made: list[float] = []
    time, below = 0.0, 0
    for count, pause in steps:
        time += pause
        now = Now(time, 0.0)
        due = marks.overdue(now)
        below = max(below, due)
        assert all(made_at + timeout <= time + 1e-6 for made_at in made[:below])
        late = timeout * (1 + 1 / TIMEOUT_GRAINS) + 1e-6
        assert all(made_at + late > time for made_at in made[below:])
        made += [time] * count
        marks.delivered(len(made), now)
        assert len(marks._marks) <= TIMEOUT_GRAINS + 2


def test_marks_that_are_cleared():
    marks = DeliveryTimes(1000)
    marks.delivered(3, NOW)
    assert marks.deadline > NOW.monotonic + 1
    marks.clear()
    assert (marks.deadline, marks.overdue(later(99))) == (inf, 0)


def test_an_unused_queue_is_overdue_after_its_time():
    disuse = Disuse()
    assert disuse.look(None, False, NOW) == inf
    assert disuse.look(1000, False, NOW) == NOW.monotonic + 1
    assert disuse.look(1000, True, later(0.9)) == inf
    assert disuse.look(1000, False, later(5)) == NOW.monotonic + 6
    disuse.used()
    assert disuse.look(1000, False, later(7)) == NOW.monotonic + 8
    assert not disuse.expired
    disuse.look(1000, False, later(8))
    assert disuse.expired


# --- messages


def test_messages_expire_at_the_front_without_a_consumer():
    broker, peer = make(x_message_ttl=1000)
    peer.publish("q", bodies(3))
    turn(peer, NOW)
    assert broker.deadline() == NOW.monotonic + 1
    turn(peer, later(0.99))
    assert broker.queue_info("q", "x").ready == 3
    turn(peer, later(1))
    assert broker.queue_info("q", "x").ready == 0
    assert dropped(broker) == {"expired": 3}
    assert broker.deadline() == inf


def test_expired_messages_behind_one_that_lives_longer_wait_and_are_not_delivered():
    broker, peer = make()
    peer.publish("q", [b"old"], Attributes(ttl_ms=1000))
    peer.publish("q", [b"long"])
    peer.publish("q", [b"short"], Attributes(ttl_ms=1000))
    peer.publish("q", [b"last"])
    turn(peer, later(5))
    assert broker.queue_info("q", "x").ready == 4, "published after that time, as the clocks go"
    turn(peer, later(7))
    assert broker.queue_info("q", "x").ready == 3
    consumer = peer.consume("q", 9)
    assert entries_for(turn(peer, later(7)), consumer) == [b"long", b"last"]
    assert dropped(broker) == {"expired": 2}


def test_an_expired_message_is_skipped_under_drain():
    broker, peer = make()
    peer.publish("q", bodies(1), Attributes(ttl_ms=1))
    turn(peer, NOW)
    consumer = peer.consume("q")
    broker.grant(consumer, 5, True)
    actions = turn(peer, later(1))
    assert entries_for(actions, consumer) == []
    assert replies(actions, consumer) == [(0, 5)]


def test_what_comes_back_too_late_expires():
    broker, peer = make(x_message_ttl=1000)
    consumer = peer.consume("q", 2)
    peer.publish("q", bodies(2))
    turn(peer, NOW)
    broker.settle(consumer, 0, 1, Return())
    turn(peer, later(2))
    assert dropped(broker) == {"expired": 2}


def test_what_a_consumer_holds_does_not_expire():
    broker, peer = make(x_message_ttl=1000)
    consumer = peer.consume("q", 2)
    peer.publish("q", bodies(2))
    turn(peer, NOW)
    turn(peer, later(9))
    broker.settle(consumer, 0, 1, Disposal.ACCEPTED)
    assert broker.snapshot("queues", "q")[0]["accepted"] == 2


@pytest.mark.parametrize(("room", "got"), [(0, 0), (2, 2), (9, 4)])
def test_a_time_to_live_of_zero_reaches_a_consumer_that_waits(room, got):
    broker, peer = make(x_message_ttl=0)
    consumer = peer.consume("q", room)
    peer.publish("q", bodies(3))
    peer.publish("q", bodies(1, 3))
    assert entries_for(turn(peer, NOW), consumer) == bodies(got)
    assert sum(dropped(broker).values()) == 4 - got


def test_a_time_to_live_of_zero_behind_one_that_stands():
    _, peer = make()
    consumer = peer.consume("q", 2)
    peer.publish("q", [b"stands"])
    peer.publish("q", [b"passes"], Attributes(ttl_ms=0))
    assert entries_for(turn(peer, NOW), consumer) == [b"stands", b"passes"]


def test_single_messages_that_follow_closely_expire_together():
    _, peer = make(x_message_ttl=1000)
    for number in range(5):
        peer.publish("q", bodies(1, number))
        turn(peer, later(0.001 + number / 1000))
    consumer = peer.consume("q", 9)
    assert len([a for a in turn(peer, later(0.02)) if isinstance(a, Delivered) and a.consumer is consumer]) == 1


def test_a_bounded_number_expires_in_one_turn_and_the_rest_in_the_next():
    broker, peer = make(x_message_ttl=1000)
    peer.publish("q", bodies(25_000))
    while broker.turn(NOW):
        pass
    turns = 0
    while broker.queue_info("q", "x").ready:
        assert broker.deadline() <= later(1).monotonic
        turn(peer, later(1))
        turns += 1
    assert turns == 3


# --- queues


def test_an_unused_queue_goes():
    broker, peer = make(x_expires=1000)
    turn(peer, NOW)
    turn(peer, later(0.5))
    broker.declare_queue(queue("q", x_expires=1000), "x")
    turn(peer, later(0.6))
    turn(peer, later(1.5))
    assert broker.queue_info("q", "x").ready == 0
    turn(peer, later(2.6))
    with pytest.raises(NotFound):
        broker.queue_info("q", "x")


def test_a_queue_with_a_consumer_stays_until_it_has_gone_for_so_long():
    broker, peer = make(x_expires=1000)
    consumer = peer.consume("q", 1)
    turn(peer, later(10))
    broker.cancel(consumer)
    turn(peer, later(20))
    assert broker.deadline() == later(21).monotonic
    turn(peer, later(20.9))
    assert broker.queue_info("q", "x").consumers == 0
    turn(peer, later(21))
    with pytest.raises(NotFound):
        broker.queue_info("q", "x")


# --- deliveries


@pytest.mark.parametrize("by", ["queue", "consumer", "both"])
def test_deliveries_that_are_held_too_long_are_taken_back(by):
    broker, peer = make(**({} if by == "consumer" else {"x_consumer_timeout": 1000 if by == "queue" else 9000}))
    options = ConsumeOptions(consumer_timeout_ms=None if by == "queue" else 1000)
    consumer = broker.consume("q", peer.mailbox, "peer", options, "consumer")
    broker.grant(consumer, 3, False)
    peer.publish("q", bodies(4))
    turn(peer, NOW)
    broker.settle(consumer, 1, 1, Disposal.ACCEPTED)
    turn(peer, later(1))
    assert broker.deadline() == pytest.approx(NOW.monotonic + 1 + 1 / TIMEOUT_GRAINS)
    actions = turn(peer, later(1.1))
    assert [(a.first, a.last) for a in actions if isinstance(a, TakenBack)] == [(0, 0), (2, 2)]
    broker.settle(consumer, 0, 2, Disposal.REJECTED)
    broker.grant(consumer, 3, False)
    (first, second) = [a for a in turn(peer, later(1.2)) if isinstance(a, Delivered)]
    assert (first.entries, first.delivery_count, first.first_acquirer) == ([b"0", b"2"], 0, False)
    assert (second.entries, second.first_acquirer) == ([b"3"], True)


def test_a_consumer_that_settles_in_time_keeps_its_deliveries():
    broker, peer = make(x_consumer_timeout=1000)
    consumer = peer.consume("q", 9)
    for number in range(5):
        peer.publish("q", bodies(1, number))
        actions = turn(peer, later(number))
        assert not [a for a in actions if isinstance(a, TakenBack)]
        broker.settle(consumer, number, number, Disposal.ACCEPTED)
    turn(peer, later(100))
    assert broker.deadline() == inf
