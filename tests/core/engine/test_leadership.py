"""A broker whose node leads its quorum queues no more, and leads them again."""

import pytest

from core.config.settings import Settings
from core.engine.broker import Broker
from core.errors import HomeLost
from core.interface import (
    Confirmed,
    Disposal,
    ExchangeTarget,
    ExchangeType,
    GrantReply,
    Outcome,
    PublisherBlocked,
    QueueTarget,
    TakenBack,
)
from core.message import Attributes
from tests.kit.engine import NOW, Peer, binding, bodies, confirms, deliveries, entries_for, exchange, queue
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, drain, open_storage, work

QUORUM = {"x_queue_type": "quorum"}
DURABLE = Attributes(durable=True)
MOVED = HomeLost("another node leads the queue from now on; attach again")


class Led:
    """A broker with quorum queues, on a disk in memory."""

    def __init__(self, *queues):
        self.storage = open_storage(MemoryDisk(), KeptDefinitions())
        self.broker = Broker(Settings(), storage=self.storage)
        for name in queues or ("q",):
            self.broker.declare_queue(queue(name, **QUORUM), owner="setup")
        self.peer = Peer(self.broker)
        self.quorum = self.storage.quorum

    def settle_down(self):
        actions = self.peer.turn()
        while work(self.storage, NOW.monotonic + 10) or self.broker.turn(NOW):
            actions += self.peer.turn()
        return actions + self.peer.turn()

    def fence(self):
        """Another writer takes the lease, and the queues do not know it yet."""
        self.quorum.log.acquire_lease()

    def lead_again(self):
        self.settle_down()
        drain(self.storage, NOW.monotonic)
        self.quorum.lead_again()
        return self.settle_down()


@pytest.fixture
def led():
    return Led()


def blocked(actions):
    return [action.reason for action in actions if isinstance(action, PublisherBlocked)]


def errors(actions):
    return [action.error for action in actions if isinstance(action, Confirmed)]


def test_a_fenced_append_ends_in_a_demotion(led):
    led.settle_down()
    led.fence()
    led.peer.publish("q", bodies(3), DURABLE)
    actions = led.settle_down()
    assert not led.quorum.leads
    assert confirms(actions) == [(0, 2, Outcome.RELEASED)]
    assert blocked(actions) == ["no-quorum"]


def test_what_was_committed_before_is_confirmed_and_nothing_else(led):
    led.peer.publish("q", bodies(2), DURABLE)
    assert confirms(led.peer.turn()) == []
    led.fence()
    led.peer.publish("q", bodies(2, 2), DURABLE)
    assert confirms(led.settle_down()) == [(0, 1, Outcome.ACCEPTED), (2, 3, Outcome.RELEASED)]
    consumer = led.peer.consume("q", 10)
    assert entries_for(led.lead_again(), consumer) == bodies(2)


def test_a_held_queue_holds_its_publishers_and_their_messages(led):
    led.settle_down()
    led.quorum.demote()
    led.peer.publish("q", bodies(3), DURABLE)
    late = Peer(led.broker, "late")
    late.publish("q", bodies(1, 3), DURABLE)
    actions = led.settle_down()
    assert confirms(actions) == []
    assert blocked(actions) == ["no-quorum"]
    assert blocked(late.mailbox.take()) == ["no-quorum"]
    actions = led.lead_again()
    assert confirms(actions) == [(0, 2, Outcome.ACCEPTED)]
    assert blocked(actions) == [None]
    assert entries_for(led.settle_down(), led.peer.consume("q", 10)) == []


def test_publishers_are_told_when_the_leader_moves_and_when_that_takes_too_long(led):
    led.peer.publisher(QueueTarget("q"))
    led.settle_down()
    led.quorum.tell_moving(moving=True)
    assert blocked(led.settle_down()) == [], "it leads still"
    led.quorum.demote()
    assert blocked(led.settle_down()) == ["leader-moving"]
    led.quorum.tell_moving(moving=False)
    led.quorum.tell_moving(moving=False)
    assert blocked(led.settle_down()) == ["no-quorum"]
    assert blocked(led.lead_again()) == [None]


def test_consumers_give_back_what_they_hold_and_get_it_again_flagged(led):
    consumer = led.peer.consume("q", 2)
    led.peer.publish("q", bodies(3), DURABLE)
    first = led.settle_down()
    assert deliveries(first, consumer) == [(0, b"0"), (1, b"1")]
    led.quorum.demote()
    actions = led.settle_down()
    assert [(a.first, a.last) for a in actions if isinstance(a, TakenBack)] == [(0, 1)]
    led.broker.settle(consumer, 0, 1, Disposal.ACCEPTED)  # too late: it has no effect
    led.broker.grant(consumer, 5, False)
    assert [(a.available, a.drained) for a in led.settle_down() if isinstance(a, GrantReply)] == [(0, 0)]
    again = led.lead_again()
    assert deliveries(again, consumer) == [(2, b"0"), (3, b"1"), (4, b"2")]
    assert not any(action.first_acquirer for action in again if hasattr(action, "first_acquirer"))


def test_a_drain_ends_at_a_held_queue(led):
    led.settle_down()
    led.quorum.demote()
    consumer = led.peer.consume("q")
    led.broker.grant(consumer, 5, True)
    assert [(a.available, a.drained) for a in led.settle_down() if isinstance(a, GrantReply)] == [(0, 5)]


def test_settlements_before_a_demotion_are_kept(led):
    consumer = led.peer.consume("q", 2)
    led.peer.publish("q", bodies(4), DURABLE)
    led.settle_down()
    led.broker.settle(consumer, 0, 1, Disposal.ACCEPTED)
    led.settle_down()
    led.quorum.demote()
    led.settle_down()
    led.broker.grant(consumer, 10, False)
    assert entries_for(led.lead_again(), consumer) == bodies(2, 2)


def test_a_copy_in_another_queue_makes_the_answer_uncertain():
    led = Led("q")
    led.broker.declare_exchange(exchange("fan", ExchangeType.FANOUT))
    led.broker.declare_queue(queue("classic"), owner="setup")
    for name in ("q", "classic"):
        led.broker.bind(binding("fan", name), "setup")
    led.settle_down()
    led.fence()
    led.peer.publish(ExchangeTarget("fan", ""), bodies(2), DURABLE)
    assert confirms(led.settle_down()) == [(0, 1, Outcome.UNCERTAIN)]


def test_dead_letters_go_on_with_the_next_term():
    led = Led("letters")
    led.broker.declare_queue(
        queue("q", **QUORUM, x_dead_letter_exchange="", x_dead_letter_routing_key="nowhere",
              x_dead_letter_strategy="at-least-once", x_overflow="reject-publish"),
        owner="setup",
    )  # fmt: skip
    consumer = led.peer.consume("q", 1)
    led.peer.publish("q", bodies(1), DURABLE)
    led.settle_down()
    led.broker.settle(consumer, 0, 0, Disposal.REJECTED)
    led.settle_down()
    led.quorum.demote()
    led.lead_again()
    row = led.broker.snapshot("queues", "q")[0]
    assert row["dead_letters_waiting"] == 1


def test_numbers_go_on_without_a_leap(led):
    led.peer.publish("q", bodies(3), DURABLE)
    led.settle_down()
    led.quorum.demote()
    led.lead_again()
    led.peer.publish("q", bodies(1, 3), DURABLE)
    led.settle_down()
    assert led.broker.snapshot("queues", "q")[0]["next_sequence"] == 4


def test_a_held_queue_has_nothing_ready_and_loses_nothing(led):
    led.peer.publish("q", bodies(3), DURABLE)
    led.settle_down()
    led.quorum.demote()
    led.settle_down()
    assert led.broker.queue_info("q", "setup").ready == 0
    actions = led.lead_again()
    assert confirms(actions) == []
    assert led.broker.queue_info("q", "setup").ready == 3
    assert led.peer.publisher(QueueTarget("q")).unsynced == 0


def test_a_queue_that_was_made_while_it_was_held_delivers_only_what_is_committed(led):
    led.settle_down()
    led.quorum.demote()
    led.settle_down()
    led.broker.declare_queue(queue("late", **QUORUM), owner="setup")
    consumer = led.peer.consume("late", 5)
    led.lead_again()
    led.peer.publish("late", bodies(2), DURABLE)
    assert entries_for(led.peer.turn(), consumer) == []
    assert entries_for(led.settle_down(), consumer) == bodies(2)


def test_a_queue_moves_when_it_has_answered_what_it_has_taken_on(led):
    led.settle_down()
    led.peer.publish("q", bodies(2), DURABLE)
    assert confirms(led.peer.turn()) == []
    led.quorum.demote()
    led.peer.turn()
    assert not led.broker.make_anew("q", MOVED, NOW.monotonic), "which of them are committed is not known"
    led.peer.publish("q", bodies(1, 2), DURABLE)
    assert confirms(led.settle_down()) == [(0, 1, Outcome.ACCEPTED)]
    assert led.broker.make_anew("q", MOVED, NOW.monotonic)
    actions = led.settle_down()
    assert confirms(actions) == [(2, 2, Outcome.RELEASED)]
    assert errors(actions) == [MOVED]


@pytest.mark.parametrize("deleted", [False, True])
def test_a_run_of_which_some_was_taken_on_is_answered_in_order_when_the_queue_ends(deleted):
    led = Led("q")
    led.broker.declare_exchange(exchange("fan", ExchangeType.FANOUT))
    led.broker.declare_queue(queue("classic"), owner="setup")
    for name in ("q", "classic"):
        led.broker.bind(binding("fan", name), "setup")
    led.settle_down()
    led.broker.set_stage_budget("q", 1)
    led.peer.publish(ExchangeTarget("fan", ""), bodies(3), DURABLE)
    assert confirms(led.peer.turn()) == []
    led.quorum.demote()
    if deleted:
        led.broker.delete_queue("q", "setup")
        assert confirms(led.settle_down()) == [(0, 2, Outcome.ACCEPTED)]
        return
    assert confirms(led.settle_down()) == [(0, 0, Outcome.ACCEPTED)]
    assert led.broker.make_anew("q", MOVED, NOW.monotonic)
    assert confirms(led.settle_down()) == [(1, 2, Outcome.UNCERTAIN)]
