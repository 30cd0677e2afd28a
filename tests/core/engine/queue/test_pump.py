"""The pump: what moves in a turn, in which order, and how much work that is."""

import pytest

from core.engine.confirms import Confirms
from core.engine.queue.pump import MANY_QUEUES, REACHED_MAX, PositionWaiter, QueueTurns
from core.engine.ready.waits import Waits
from core.interface import Confirmed, Delivered, ExchangeTarget, Outcome
from tests.kit.engine import NOW, Peer, binding, bodies, confirms, make_broker
from tests.kit.settings import make_settings


def test_a_turn_without_work():
    broker = make_broker("q")
    assert broker.turn(NOW) is False


def test_queues_take_their_turns_in_the_order_of_the_touch():
    broker = make_broker("a", "b")
    broker.turn(NOW)
    peer = Peer(broker)
    for name in ("b", "a", "b"):
        peer.publish(name, bodies(1))
    peer.consume("a", 9)
    peer.consume("b", 9)
    shown: list[object] = []
    for action in peer.turn():
        if isinstance(action, Confirmed):
            shown.append(action.first)
        elif isinstance(action, Delivered):
            shown.append(action.consumer.queue_name)
    assert shown == [0, 2, "b", 1, "a"]


def test_a_queue_with_work_left_comes_behind_the_others():
    broker = make_broker("busy", "idle")
    broker.set_stage_budget("busy", 1)
    peer = Peer(broker)
    busy, idle = peer.consume("busy", 9), peer.consume("idle", 9)
    peer.publish("busy", bodies(3))
    served = []
    for _ in range(2):
        peer.publish("idle", bodies(1))
        served += [action.consumer for action in peer.turn() if isinstance(action, Delivered)]
    assert served == [busy, idle, busy, idle]


class Told:
    """Something that waits for a position."""

    def __init__(self) -> None:
        self.told = 0

    def reached(self, confirms: Confirms) -> None:
        self.told += 1


def test_a_turn_tells_a_part_of_the_many_that_wait_for_a_position():
    waiting = [Told() for _ in range(2 * REACHED_MAX + 1)]
    written = 0
    waits: Waits[PositionWaiter] = Waits(lambda: written)
    turns = QueueTurns(Confirms(), [waits])
    for position, one in enumerate(waiting, 1):
        waits.add(position, one)
    assert not turns.turn(NOW)
    written = len(waiting)
    told = []
    more = True
    while more:
        more = turns.turn(NOW)
        told.append(sum(one.told for one in waiting))
    assert told == [REACHED_MAX, 2 * REACHED_MAX, len(waiting)]
    assert {one.told for one in waiting} == {1}
    assert not turns.turn(NOW)


def test_a_queue_does_not_wait_for_the_many_queues_of_other_messages():
    """Each turn serves a few queues. Messages to very many queues come before and after the one message."""
    many = [f"q{number}" for number in range(3 * MANY_QUEUES)]
    broker = make_broker(*many, "mine", settings=make_settings(engine={"work_per_turn": {"queues": 100}}))
    for name in many:
        broker.bind(binding("amq.fanout", name), "x")
    while broker.turn(NOW):
        pass
    others, peer = Peer(broker, "others"), Peer(broker)
    others.publish(ExchangeTarget("amq.fanout", ""), bodies(1))
    peer.publish("mine", bodies(1))
    others.publish(ExchangeTarget("amq.fanout", ""), bodies(1))
    assert confirms(peer.turn()) == [(0, 0, Outcome.ACCEPTED)]
    turns = 1
    while broker.turn(NOW):
        turns += 1
    assert turns > 10, "most queues were left over"
    assert confirms(others.mailbox.take()) == [(0, 1, Outcome.ACCEPTED)]


def test_a_deleted_queue_has_no_turn():
    broker = make_broker("q")
    peer = Peer(broker)
    peer.publish("q", bodies(1))
    broker.delete_queue("q", "x")
    peer.mailbox.take()
    assert peer.turn() == []


@pytest.mark.parametrize("consumers", [1, 2, 7])
def test_a_run_stays_a_run_for_every_consumer(consumers):
    peer = Peer(make_broker("q"))
    attached = [peer.consume("q", 1000) for _ in range(consumers)]
    peer.turn()
    peer.publish("q", bodies(700))
    actions = peer.turn()
    assert [type(action) for action in actions] == [Confirmed] + [Delivered] * consumers
    assert [a.consumer for a in actions if isinstance(a, Delivered)] == attached
