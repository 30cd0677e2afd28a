"""Looking at messages, moving them, and sending dead letters back to the queue that they came from."""

import pytest

from core.engine.broker import Broker
from core.engine.queue.moving import PEEKED_MAX, UNDER_WAY_MAX, Move
from core.errors import Forbidden, Invalid, Locked, NotFound, PreconditionFailed
from core.interface import Delivered, Disposal, ExchangeTarget, QueueTarget, Target
from core.message import Attributes, Return
from tests.kit.dead_letters import PlainConverter, body, deaths
from tests.kit.engine import NOW, Peer, binding, bodies, entries_for, exchange, later, make_broker, queue
from tests.kit.kept_broker import KeptBroker


def make(*names: str) -> tuple[Broker, Peer]:
    broker = make_broker(*names, converter=PlainConverter())
    return broker, Peer(broker)


def stock(peer: Peer, count: int, name: str = "q", attributes: Attributes | None = None) -> None:
    peer.publish(name, bodies(count), attributes or Attributes())
    run(peer.broker)


def run(broker: Broker, now=NOW) -> None:
    for _ in range(200):
        if not broker.turn(now):
            return
    raise AssertionError("it never comes to rest")


def begin(broker: Broker, source: str, target: Target | None, n: int | None = None) -> Move:
    number = broker.replay_messages(source, n) if target is None else broker.move_messages(source, target, n)
    move = broker._queues[source]._move
    assert move.number == number
    return move


def taken(peer: Peer, name: str) -> list[bytes]:
    consumer = peer.consume(name, 10_000)
    run(peer.broker)
    entries = entries_for(peer.mailbox.take(), consumer)
    peer.broker.settle(consumer, 0, 10**6, Disposal.ACCEPTED)
    peer.broker.cancel(consumer)
    return entries


# --- looking


def test_looking_changes_nothing():
    broker, peer = make("q")
    stock(peer, 5, attributes=Attributes(ttl_ms=60_000))
    consumer = peer.consume("q", 2)
    run(broker)
    broker.settle(consumer, 0, 0, Return(delivery_failed=True))
    broker.settle(consumer, 1, 1, Return(undeliverable_here=True))
    run(broker)
    for _ in range(2):
        peeked = broker._queues["q"].peek(4)
        assert [(one.sequence, one.entry, one.delivery_count) for one in peeked] == [
            (0, b"0", 1),
            (1, b"1", 0),
            (2, b"2", 0),
            (3, b"3", 0),
        ]
        assert {one.expires_at for one in peeked} == {NOW.wall + 60}
    assert broker.queue_info("q", "x").ready == 5
    peer.mailbox.take()
    broker.grant(consumer, 9, False)
    run(broker)
    delivered = [action for action in peer.mailbox.take() if isinstance(action, Delivered)]
    told = [(action.entries, action.delivery_count, action.first_acquirer) for action in delivered]
    assert [entry for entries, _, _ in told for entry in entries] == [b"0", b"2", b"3", b"4"]
    assert [(count, first) for entries, count, first in told for _ in entries] == [(1, False)] + [(0, True)] * 3


def test_looking_over_levels_and_at_an_empty_queue():
    broker, peer = make()
    broker.declare_queue(queue("q", x_max_priority=3), "x")
    assert broker._queues["q"].peek(1) == []
    for priority in (1, 3, 2):
        peer.publish("q", [b"%d" % priority], Attributes(priority=priority))
    run(broker)
    assert [one.entry for one in broker._queues["q"].peek(2)] == [b"3", b"2"]


@pytest.mark.parametrize("n", [0, -1, PEEKED_MAX + 1])
def test_a_count_beyond_the_limit_cannot_be_looked_at(n):
    broker, _ = make("q")
    with pytest.raises(Invalid, match="from 1 to 100"):
        broker._queues["q"].peek(n)


def test_what_is_told_of_a_message():
    broker, peer = make("q")
    stock(peer, 1, attributes=Attributes(ttl_ms=60_000, priority=7, durable=True))
    assert broker.peek_queue("q", 9) == [
        {
            "sequence": 0,
            "bytes": 1,
            "priority": 7,
            "durable": True,
            "delivery_count": 0,
            "expires_at": NOW.wall + 60,
            "message_id": None,
            "deaths": [],
            "body": b"0",
        }
    ]


def test_without_a_converter_nothing_is_told_of_its_inside():
    broker = make_broker("q")
    stock(Peer(broker), 1)
    (shown,) = broker.peek_queue("q", 1)
    assert set(shown) == {"sequence", "bytes", "priority", "durable", "delivery_count", "expires_at"}


def test_looking_into_a_stream_begins_with_the_first_message():
    one = KeptBroker(PlainConverter())
    one.broker.declare_queue(queue("s", x_queue_type="stream"), "x")
    for start in (0, 5):
        one.peer.publish("s", bodies(5, start))
        one.run()
    for _ in range(2):
        shown = one.broker.peek_queue("s", 7)
        assert [(one["sequence"], one["body"]) for one in shown] == list(enumerate(bodies(7)))
    assert len(one.broker.peek_queue("s", 100)) == 10
    with pytest.raises(Invalid, match="from 1 to 100"):
        one.broker.peek_queue("s", 101)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_looking_into_a_queue_on_disk_changes_nothing_after_a_kill(kind):
    one = KeptBroker(PlainConverter())
    one.broker.declare_queue(queue("q", x_queue_type=kind), "x")
    one.peer.publish("q", bodies(10), Attributes(durable=True))
    one.run()
    for _ in range(2):
        assert [shown["body"] for shown in one.broker.peek_queue("q", 4)] == bodies(4)
        one.kill()
    assert one.taken("q") == bodies(10)


# --- refusals


@pytest.mark.parametrize(
    ("error", "source", "target", "count"),
    [
        (NotFound, "none", QueueTarget("other"), None),
        (NotFound, "q", QueueTarget("none"), None),
        (NotFound, "q", ExchangeTarget("none", "k"), None),
        (Locked, "mine", QueueTarget("other"), None),
        (Locked, "q", QueueTarget("mine"), None),
        (Forbidden, "q", ExchangeTarget("inner", "k"), None),
        (Invalid, "q", QueueTarget("q"), None),
        (Invalid, "q", QueueTarget("other"), 0),
        (Invalid, "s", QueueTarget("other"), None),
        (Invalid, "s", None, None),
        (NotFound, "none", None, None),
    ],
)
def test_invalid_moves(error, source, target, count):
    one = KeptBroker()
    for name in ("q", "other"):
        one.broker.declare_queue(queue(name), "x")
    one.broker.declare_queue(queue("mine", exclusive=True, durable=False), "somebody")
    one.broker.declare_queue(queue("s", x_queue_type="stream"), "x")
    one.broker.declare_exchange(exchange("inner", internal=True))
    with pytest.raises(error):
        begin(one.broker, source, target, count)
    with pytest.raises(Locked):
        one.broker.peek_queue("mine", 1)
    assert one.shown("q")["last_move"] is None


# --- moving


@pytest.mark.parametrize("n", [1, 300, 1000, 10**6])
def test_messages_move_in_order_and_no_more_than_asked_for(n):
    broker, peer = make("q", "other")
    stock(peer, 1000)
    move = begin(broker, "q", QueueTarget("other"), n)
    assert broker.snapshot("queues", "q")[0]["last_move"] == {"number": 1, "moved": 0, "done": False, "failure": ""}
    run(broker)
    shown = broker.snapshot("queues", "q")[0]
    assert shown["last_move"] == {"number": 1, "moved": min(n, 1000), "done": True, "failure": ""}
    assert (shown["moved"], shown["messages_moving"]) == (min(n, 1000), 0)
    assert (move.moved, move.done, move.failure) == (min(n, 1000), True, "")
    assert taken(peer, "other") == bodies(min(n, 1000))
    assert taken(peer, "q") == bodies(1000 - min(n, 1000), n)


def test_few_are_under_way_and_stay_until_they_are_confirmed():
    broker, peer = make("q", "other")
    stock(peer, 600)
    broker.set_stage_budget("other", 0)
    move = begin(broker, "q", QueueTarget("other"))
    run(broker)
    assert broker.snapshot("queues", "other")[0]["messages_waiting"] == UNDER_WAY_MAX
    assert (move.moved, move.done, broker.queue_info("q", "x").ready) == (0, False, 600 - UNDER_WAY_MAX)
    with pytest.raises(PreconditionFailed, match="already"):
        broker._queues["q"].move(None, 1)
    broker.set_stage_budget("other", None)
    run(broker)
    assert (move.moved, move.done) == (600, True)
    begin(broker, "other", QueueTarget("q"))
    run(broker)
    assert taken(peer, "q") == bodies(600)


def test_through_an_exchange():
    broker, peer = make("q", "a", "b")
    for name in "ab":
        broker.bind(binding("amq.topic", name, "k.*"), "x")
    stock(peer, 3)
    begin(broker, "q", ExchangeTarget("amq.topic", "k.1"))
    run(broker)
    assert taken(peer, "a") == taken(peer, "b") == bodies(3)


def test_messages_that_no_target_takes_stay():
    broker, peer = make("q")
    broker.declare_queue(queue("small", x_max_length=2, x_overflow="reject-publish"), "x")
    stock(peer, 5)
    move = begin(broker, "q", QueueTarget("small"))
    run(broker)
    assert (move.moved, move.done, move.failure) == (2, True, "a message was rejected by the queue where it is to go")
    nowhere = begin(broker, "q", ExchangeTarget("amq.direct", "k"))
    run(broker)
    assert (nowhere.moved, nowhere.failure) == (0, "no queue is there for a message where it is to go")
    assert taken(peer, "q") == bodies(3, 2)


def test_what_came_back_takes_along_what_was_added_and_that_it_was_delivered():
    broker, peer = make("q", "other")
    stock(peer, 4)
    consumer = peer.consume("q", 2)
    run(broker)
    broker.settle(consumer, 0, 0, Return(annotations={"x-why": "late"}))
    broker.cancel(consumer)
    begin(broker, "q", QueueTarget("other"))
    run(broker)
    peer.mailbox.take()
    peer.consume("other", 9)
    run(broker)
    delivered = [action for action in peer.mailbox.take() if isinstance(action, Delivered)]
    assert [(entry, action.first_acquirer) for action in delivered for entry in action.entries] == [
        (b"0+x-why=late", False),
        (b"1", False),
        (b"2", True),
        (b"3", True),
    ]


def test_out_of_an_empty_queue_and_one_move_after_another():
    broker, peer = make("q", "other")
    for number in (1, 2):
        move = begin(broker, "q", QueueTarget("other"))
        run(broker)
        assert (move.number, move.moved, move.done, move.failure) == (number, 0, True, "")
    stock(peer, 1)
    assert begin(broker, "q", None).number == 3


def test_what_has_expired_is_not_moved():
    broker, peer = make("q", "other")
    stock(peer, 2)
    peer.publish("q", [b"short"], Attributes(ttl_ms=10))
    peer.publish("q", [b"long"])
    run(broker)
    move = begin(broker, "q", QueueTarget("other"))
    run(broker, later(5))
    while broker.deadline() <= later(5).monotonic:
        run(broker, later(5))
    assert move.moved == 3
    assert taken(peer, "other") == [b"0", b"1", b"long"]
    assert broker.snapshot("queues", "q")[0]["dropped"] == {"expired": 1}


def test_a_queue_that_is_deleted_moves_nothing_more():
    broker, peer = make("q", "other")
    stock(peer, 600)
    broker.set_stage_budget("other", 0)
    move = begin(broker, "q", QueueTarget("other"))
    run(broker)
    broker.delete_queue("q", "x")
    broker.set_stage_budget("other", None)
    run(broker)
    assert move.done
    assert "deleted" in move.failure
    assert taken(peer, "other") == bodies(UNDER_WAY_MAX)


# --- back to the queue of origin


def test_dead_letters_go_back_to_where_each_died_first():
    broker, peer = make("dead")
    for name in ("a", "b"):
        broker.declare_queue(queue(name, x_dead_letter_exchange="", x_dead_letter_routing_key="dead"), "x")
        stock(peer, 3, name)
        consumer = peer.consume(name, 3)
        run(broker)
        broker.settle(consumer, 0, 2, Disposal.REJECTED)
        run(broker)
    move = begin(broker, "dead", None)
    run(broker)
    assert (move.moved, move.failure) == (6, "")
    for name in ("a", "b"):
        entries = taken(peer, name)
        assert [body(entry) for entry in entries] == bodies(3)
        assert deaths(entries[0]) == [f"{name}:rejected"]


def test_a_message_that_never_died_ends_it_and_stays():
    broker, peer = make("q")
    stock(peer, 3)
    move = begin(broker, "q", None)
    run(broker)
    assert (move.moved, move.done) == (0, True)
    assert "in which queue it died" in move.failure
    assert taken(peer, "q") == bodies(3)
