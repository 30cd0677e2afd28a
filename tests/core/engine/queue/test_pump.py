"""The pump: what moves in a turn, in which order, and how much work that is."""

import pytest

from core.interface import Confirmed, Delivered
from tests.kit.engine import NOW, Peer, bodies, make_broker


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
