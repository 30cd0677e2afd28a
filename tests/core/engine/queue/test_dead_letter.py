"""Dead-lettering: every reason, what becomes of the copy, cycles, and at-least-once."""

from dataclasses import replace

import pytest

from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.engine.broker import Broker
from core.engine.options.in_force import QueueOptions
from core.engine.queue.budgets import REMOVED_AT_ONCE
from core.engine.queue.dead_letter import (
    HERE_MAX,
    KEPT_UNDER_WAY_MAX,
    LETTER_WORK,
    RETRY_SECONDS,
    SENT_AT_ONCE,
    SENT_BYTES_AT_ONCE,
    is_cycle,
)
from core.engine.queue.queue import Queue
from core.engine.ready.backing import MemoryBacking
from core.engine.routing.router import HEADERS_WORK
from core.interface import Consumer, DeathReason, Delivered, Disposal, ExchangeTarget
from core.message import Attributes, Return
from tests.kit.dead_letters import PlainConverter, body, deaths
from tests.kit.engine import NOW, Peer, binding, bodies, entries_for, exchange, later, make_broker, queue
from tests.kit.settings import GENERAL

REJECTED, EXPIRED = DeathReason.REJECTED, DeathReason.EXPIRED


def make(*declarations) -> tuple[Broker, Peer]:
    broker = make_broker(converter=PlainConverter())
    for declaration in declarations:
        broker.declare_queue(declaration, "x")
    return broker, Peer(broker)


def dying(name: str = "q", exchange_name: str = "", **arguments: object):
    """A queue that dead-letters, by default through the default exchange into the queue ``dead``."""
    arguments.setdefault("x_dead_letter_routing_key", "dead")
    return queue(name, x_dead_letter_exchange=exchange_name, **arguments)


def run(broker: Broker, now: Now = NOW) -> None:
    """Run turns until nothing moves."""
    for _ in range(500):
        if not broker.turn(now):
            return
    raise AssertionError("it never comes to rest")


def shown(broker: Broker, name: str = "q") -> dict[str, object]:
    return broker.snapshot("queues", name)[0]


def taken(peer: Peer, name: str = "dead", now: Now = NOW) -> list[bytes]:
    """Take everything that is ready in a queue, and accept it; returns the bodies."""
    consumer = peer.consume(name, 10_000)
    run(peer.broker, now)
    entries = entries_for(peer.mailbox.take(), consumer)
    peer.broker.settle(consumer, 0, 10**6, Disposal.ACCEPTED)
    peer.broker.cancel(consumer)
    return entries


def reject_all(peer: Peer, n: int, name: str = "q") -> Consumer:
    consumer = peer.consume(name, n)
    run(peer.broker)
    peer.broker.settle(consumer, 0, n - 1, Disposal.REJECTED)
    run(peer.broker)
    return consumer


@pytest.mark.parametrize("at_once", [True, False])
def test_what_consumers_reject_is_dead_lettered_in_order(at_once):
    broker, peer = make(queue("dead"), dying())
    peer.publish("q", bodies(250))
    consumer = peer.consume("q", 250)
    run(broker)
    ranges = [(0, 99), (100, 199), (200, 249)] if at_once else [(n, n) for n in range(250)]
    for first, last in ranges:
        broker.settle(consumer, first, last, Disposal.REJECTED)
    run(broker)
    entries = taken(peer)
    assert [body(entry) for entry in entries] == bodies(250)
    assert {tuple(deaths(entry)) for entry in entries} == {("q:rejected",)}
    assert shown(broker)["dead_lettered"] == {"rejected": 250}
    assert shown(broker)["dead_letters_waiting"] == 0


def test_without_a_dead_letter_exchange_they_are_dropped_and_counted():
    broker, peer = make(queue("q"))
    peer.publish("q", bodies(3))
    reject_all(peer, 3)
    assert shown(broker)["dropped"] == {"rejected": 3}


def test_what_expires_loses_its_time_to_live():
    broker, peer = make(queue("dead"), dying())
    peer.publish("q", bodies(2), Attributes(ttl_ms=1000, durable=True))
    run(broker)
    assert broker.deadline() == NOW.monotonic + 1
    run(broker, later(1))
    consumer = peer.consume("dead", 9)
    run(broker, later(100))
    (action,) = [a for a in peer.mailbox.take() if isinstance(a, Delivered) and a.consumer is consumer]
    assert action.attributes == Attributes(ttl_ms=None, durable=True, redelivered=True)
    assert not action.first_acquirer
    assert [deaths(entry) for entry in action.entries] == [["q:expired"]] * 2
    assert b"1000" in action.entries[0]


def test_what_is_pushed_out_by_the_length_limit():
    broker, peer = make(queue("dead"), dying(x_max_length=2))
    peer.publish("q", bodies(5))
    run(broker)
    assert [deaths(entry) for entry in taken(peer)] == [["q:maxlen"]] * 3
    assert taken(peer, "q") == bodies(2, 3)


def test_a_message_that_comes_back_to_a_full_queue_is_pushed_out():
    broker, peer = make(queue("dead"), dying(x_max_length=1))
    peer.publish("q", bodies(1))
    consumer = peer.consume("q", 1)
    run(broker)
    peer.publish("q", bodies(1, 1))
    run(broker)
    broker.cancel(consumer)
    run(broker)
    assert [body(entry) for entry in taken(peer)] == [b"0"]
    assert taken(peer, "q") == [b"1"]


def test_through_an_exchange_by_the_messages_own_keys():
    broker, peer = make(queue("one"), queue("two"), queue("q", x_dead_letter_exchange="dlx"))
    broker.declare_exchange(exchange("dlx"))
    broker.declare_exchange(exchange("in"))
    for source, destination, key in (("dlx", "one", "k"), ("dlx", "two", "cc"), ("in", "q", "k")):
        broker.bind(binding(source, destination, key), "x")
    peer.publish(ExchangeTarget("in", "k"), [b"m"], keys=("cc",))
    reject_all(peer, 1)
    assert [body(entry) for name in ("one", "two") for entry in taken(peer, name)] == [b"m", b"m"]


@pytest.mark.parametrize("where", ["nowhere", ""])
def test_no_route_at_most_once_is_a_loss_that_is_counted(where):
    broker, peer = make(dying(exchange_name=where))
    peer.publish("q", bodies(4))
    reject_all(peer, 4)
    assert shown(broker)["dropped"] == {"no route": 4}
    assert shown(broker)["dead_letters_waiting"] == 0


def test_a_target_without_room_at_most_once():
    broker, peer = make(queue("dead", x_max_length=1, x_overflow="reject-publish"), dying())
    peer.publish("q", bodies(3))
    reject_all(peer, 3)
    assert shown(broker)["dead_lettered"] == {"rejected": 1}
    assert shown(broker)["dropped"] == {"refused": 2}


def test_a_cycle_of_expiry_ends_where_it_began():
    broker, peer = make(
        dying("a", x_message_ttl=10, x_dead_letter_routing_key="b"),
        dying("b", x_message_ttl=10, x_dead_letter_routing_key="a"),
    )
    peer.publish("a", bodies(2))
    for seconds in range(5):
        run(broker, later(seconds))
    assert shown(broker, "a")["dead_lettered"] == {"expired": 2}
    assert shown(broker, "b")["dropped"] == {"cycle": 2}


def test_a_rejection_may_go_round_for_ever():
    broker, peer = make(
        dying("work", x_dead_letter_routing_key="wait"),
        dying("wait", x_message_ttl=10, x_dead_letter_routing_key="work"),
    )
    consumer = peer.consume("work", 1000)
    peer.publish("work", [b"m"])
    for number in range(5):
        run(broker, later(number))
        (entry,) = entries_for(peer.mailbox.take(), consumer)
        assert len(deaths(entry)) == 2 * number
        broker.settle(consumer, number, number, Disposal.REJECTED)
        run(broker, later(number))


@pytest.mark.parametrize(
    ("told", "cycle"),
    [
        ([("a", EXPIRED)], True),
        ([("a", REJECTED)], False),
        ([("b", EXPIRED), ("a", EXPIRED)], True),
        ([("b", REJECTED), ("a", EXPIRED)], False),
        ([("b", EXPIRED), ("a", REJECTED)], False),
        ([("a", EXPIRED), ("b", REJECTED)], True),
        ([("b", EXPIRED)], False),
        ([], False),
    ],
)
def test_what_a_cycle_is(told, cycle):
    assert is_cycle("a", told) is cycle


def test_the_copy_is_kept_until_the_target_has_confirmed():
    broker, peer = make(queue("dead"), dying())
    broker.set_stage_budget("dead", 0)
    peer.publish("q", bodies(3))
    reject_all(peer, 3)
    assert shown(broker)["dead_letters_waiting"] == 3
    broker.set_stage_budget("dead", 2)
    broker.turn(NOW)
    broker.turn(NOW)
    assert shown(broker)["dead_letters_waiting"] == 1
    run(broker)
    assert shown(broker)["dead_letters_waiting"] == 0


@pytest.mark.parametrize("way", ["rejected", "delivered too often"])
def test_what_consumers_have_added_goes_along(way):
    broker, peer = make(queue("dead"), dying(x_queue_type="classic"))
    (source,) = [each for name, each in broker._queues.items() if name == "q"]
    source.apply(replace(source.options, delivery_limit=1), NOW)
    peer.publish("q", bodies(2))
    consumer = peer.consume("q", 9)
    run(broker)
    broker.settle(consumer, 0, 0, Return(delivery_failed=True, annotations={"x-a": 1, "x-b": 1}))
    run(broker)
    last = Return(delivery_failed=True, annotations={"x-b": 2})
    broker.settle(consumer, 2, 2, Disposal.REJECTED if way == "rejected" else last)
    broker.settle(consumer, 1, 1, Disposal.REJECTED)
    run(broker)
    first, second = sorted(taken(peer))
    assert body(first) == (b"0+x-a=1+x-b=1" if way == "rejected" else b"0+x-a=1+x-b=2")
    assert body(second) == b"1"


def test_a_dead_letter_counts_as_delivered_before_also_if_no_consumer_had_it():
    broker, peer = make(queue("dead"), dying(x_message_ttl=10))
    peer.publish("q", bodies(2))
    run(broker)
    run(broker, later(1))
    peer.publish("dead", bodies(1, 2))
    consumer = peer.consume("dead", 9)
    run(broker, later(1))
    delivered = [a for a in peer.mailbox.take() if isinstance(a, Delivered) and a.consumer is consumer]
    assert [(a.first_acquirer, a.delivery_count, len(a.entries)) for a in delivered] == [(False, 0, 2), (True, 0, 1)]


def test_a_deleted_queue_has_no_letters():
    broker, peer = make(queue("dead"), dying())
    broker.set_stage_budget("dead", 0)
    peer.publish("q", bodies(3))
    reject_all(peer, 3)
    broker.delete_queue("q", "x")
    broker.set_stage_budget("dead", None)
    run(broker)
    assert len(taken(peer)) == 3


class AtLeastOnce:
    """A queue that keeps dead letters until their target takes them, in a broker with plain queues otherwise."""

    def __init__(self) -> None:
        self.broker, self.peer = make(queue("dead"), dying(x_max_length=10**6, x_overflow="reject-publish"))
        (queue_,) = [q for name, q in self.broker._queues.items() if name == "q"]
        options = {name: getattr(queue_.options, name) for name in QueueOptions.__dataclass_fields__}
        queue_.apply(QueueOptions(**{**options, "at_least_once": True}), NOW)


def test_at_least_once_few_are_under_way():
    one = AtLeastOnce()
    one.broker.set_stage_budget("dead", 0)
    one.peer.publish("q", bodies(100))
    reject_all(one.peer, 100)
    assert shown(one.broker, "dead")["messages_waiting"] == KEPT_UNDER_WAY_MAX
    one.broker.set_stage_budget("dead", None)
    run(one.broker)
    assert [body(entry) for entry in taken(one.peer)] == bodies(100)


def test_at_least_once_what_is_not_taken_is_tried_again_and_never_lost():
    one = AtLeastOnce()
    one.broker.delete_queue("dead", "x")
    one.peer.publish("q", bodies(40))
    reject_all(one.peer, 40)
    for number in range(1, 4):
        assert shown(one.broker)["dead_letters_waiting"] == 40
        assert one.broker.deadline() == NOW.monotonic + number * RETRY_SECONDS
        run(one.broker, later(number * RETRY_SECONDS))
    one.broker.declare_queue(queue("dead"), "x")
    run(one.broker, later(4 * RETRY_SECONDS))
    assert sorted(int(body(entry)) for entry in taken(one.peer, now=later(99))) == list(range(40))
    assert shown(one.broker)["dropped"] == {}


def test_a_queue_whose_letters_are_stuck_gives_up_and_hands_out_nothing_more():
    broker, peer = make(queue("dead"), dying(x_message_ttl=1000))
    broker.set_stage_budget("dead", 0)
    total = HERE_MAX + 2 * REMOVED_AT_ONCE
    peer.publish("q", bodies(total))
    run(broker)
    while broker.deadline() < later(5).monotonic:
        run(broker, later(1.5))
    peer.publish("q", [b"new"])
    consumer = peer.consume("q", 1)
    run(broker, later(1.5))
    assert entries_for(peer.mailbox.take(), consumer) == []
    stuck = shown(broker)["dead_letters_waiting"]
    assert HERE_MAX <= stuck < HERE_MAX + REMOVED_AT_ONCE
    assert shown(broker)["messages_ready"] == total + 1 - stuck
    broker.set_stage_budget("dead", None)
    run(broker, later(1.6))
    assert entries_for(peer.mailbox.take(), consumer) == [b"new"]
    run(broker, later(9))
    assert shown(broker)["dead_lettered"] == {"expired": total}


def test_a_queue_without_a_courier_does_not_dead_letter():
    one = Queue(
        "q",
        QueueOptions(dead_letter_exchange="x"),
        lambda _level: MemoryBacking(),
        stage_credit=CreditFlow("q", GENERAL),
    )
    assert one.counts()["dropped"] == {}


def test_what_it_takes_to_route_letters_counts():
    """A headers exchange reads the headers of each letter."""
    broker, peer = make(queue("dead"), dying(exchange_name="amq.headers"))
    broker.bind(binding("amq.headers", "dead"), "x")
    peer.publish("q", bodies(20))
    consumer = peer.consume("q", 20)
    run(broker)
    broker.settle(consumer, 0, 19, Disposal.REJECTED)
    before = broker.work.spent
    broker.turn(NOW)
    assert broker.work.spent - before >= 20 * (LETTER_WORK + HEADERS_WORK)
    run(broker)
    assert len(taken(peer)) == 20


def test_a_dispatch_sends_so_many_letters_and_the_others_follow_in_order():
    broker, peer = make(queue("dead"), dying())
    broker.set_stage_budget("dead", 0)
    peer.publish("q", bodies(4096))
    consumer = peer.consume("q", 4096)
    run(broker)
    broker.settle(consumer, 0, 4095, Disposal.REJECTED)
    for turn in range(1, 5):
        before = broker.work.spent
        broker.turn(NOW)
        assert shown(broker, "dead")["messages_waiting"] == turn * SENT_AT_ONCE
        assert broker.work.spent - before >= SENT_AT_ONCE * LETTER_WORK
        assert broker.deadline() <= NOW.monotonic, "the queue goes on at once"
    broker.set_stage_budget("dead", None)
    run(broker)
    assert [body(entry) for entry in taken(peer)] == bodies(4096)
    assert shown(broker)["dead_lettered"] == {"rejected": 4096}


def test_large_letters_are_sent_by_their_bytes():
    broker, peer = make(queue("dead"), dying())
    broker.set_stage_budget("dead", 0)
    large = [bytes([number]) * (SENT_BYTES_AT_ONCE // 2) for number in range(5)]
    peer.publish("q", large)
    consumer = peer.consume("q", 5)
    run(broker)
    broker.settle(consumer, 0, 4, Disposal.REJECTED)
    broker.turn(NOW)
    assert 1 <= shown(broker, "dead")["messages_waiting"] <= 2
    broker.set_stage_budget("dead", None)
    run(broker)
    assert [body(entry) for entry in taken(peer)] == large
