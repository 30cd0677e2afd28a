"""The rows that the engine shows of itself."""

import json

import pytest

from core.interface import Disposal, ExchangeTarget
from core.message import Return
from tests.kit.engine import Peer, binding, bodies, exchange, make_broker, queue


def busy_peer() -> Peer:
    """Queue "q": of ten messages six are delivered; of these one is accepted, one rejected, one returned. Two wait."""
    broker = make_broker()
    broker.declare_queue(queue("q", x_max_length=99), "x")
    broker.bind(binding("amq.topic", "q", "a.#"), "x")
    peer = Peer(broker)
    peer.publish("q", bodies(10))
    peer.publish(ExchangeTarget("amq.topic", "b"), bodies(4), anonymous=True)
    consumer = peer.consume("q", 6, priority=3)
    peer.turn()
    broker.settle(consumer, 0, 0, Disposal.ACCEPTED)
    broker.settle(consumer, 1, 1, Disposal.REJECTED)
    broker.settle(consumer, 2, 2, Return())
    broker.set_stage_budget("q", 0)
    peer.publish("q", bodies(2))
    peer.turn()
    return peer


def test_queues():
    assert busy_peer().broker.snapshot("queues", "q") == [
        {
            "name": "q",
            "type": "classic",
            "durable": True,
            "exclusive": False,
            "auto_delete": False,
            "arguments": {"x-max-length": 99},
            "queue_identity": "0" * 31 + "1",
            "policy": None,
            "copies": None,
            "notice": None,
            "messages_waiting": 2,
            "stage_credit_state": "running",
            "stage_credit_held_up_by": [],
            "messages_ready": 5,
            "messages_unacknowledged": 3,
            "oldest_ready_seconds": 0.0,
            "consumers": 1,
            "publishers": 1,
            "max_length": 99,
            "max_length_bytes": None,
            "overflow": "drop-head",
            "ready_bytes": 5 * len(bodies(1)[0]),
            "published": 10,
            "delivered": 6,
            "accepted": 1,
            "rejected": 1,
            "returned": 1,
            "purged": 0,
            "refused": 0,
            "repeated": 0,
            "direct": 6,
            "moved": 0,
            "dead_letters_waiting": 0,
            "dead_lettered": {},
            "dropped": {"rejected": 1},
            "alpha": 4,
            "ram_messages": 4,
            "ram_bytes": 4,
            "returned_ready": 1,
            "next_sequence": 10,
            "messages_moving": 0,
            "last_move": None,
        }
    ]


def test_consumers():
    assert busy_peer().broker.snapshot("consumers") == [
        {
            "name": "0",
            "queue": "q",
            "priority": 3,
            "exclusive": False,
            "active": True,
            "settled_when_sent": False,
            "unsettled_max": None,
            "timeout_ms": None,
            "grant": 0,
            "messages_unacknowledged": 3,
            "delivered": 6,
        }
    ]


def test_publishers():
    broker = make_broker("q")
    peer = Peer(broker)
    for target in (None, ExchangeTarget("amq.topic", "b")):
        peer.publisher(target)
    peer.publish("q", bodies(1))
    shown = [(p["queue"], p["exchange"], p["routing_key"]) for p in broker.snapshot("publishers")]
    assert shown == [(None, None, None), (None, "amq.topic", "b"), ("q", None, None)]


def test_exchanges_and_bindings():
    broker = busy_peer().broker
    broker.declare_exchange(exchange("e", internal=True))
    assert broker.snapshot("exchanges", "e") == [
        {
            "name": "e",
            "type": "direct",
            "durable": True,
            "auto_delete": False,
            "internal": True,
            "arguments": {},
        }
    ]
    assert len(broker.snapshot("exchanges")) == 6
    assert broker.snapshot("bindings") == [
        {
            "name": "amq.topic/a.#/q",
            "source": "amq.topic",
            "destination": "q",
            "destination_is_queue": True,
            "binding_key": "a.#",
            "arguments": {},
        }
    ]


def test_the_engine():
    assert busy_peer().broker.snapshot("engine") == [
        {
            "name": "engine",
            "queues": 1,
            "exchanges": 5,
            "bindings": 1,
            "publishers": 2,
            "consumers": 1,
            "cached_routes": 1,
            "messages_accepted": 10,
            "messages_released": 4,
        }
    ]


def test_kinds_and_identities_that_are_not_ours():
    broker = make_broker("q")
    assert broker.snapshot("links") == []
    assert broker.snapshot("queues", "missing") == []


@pytest.mark.parametrize("kind", ["queues", "consumers", "publishers", "exchanges", "bindings", "alarms", "engine"])
def test_values_are_plain(kind):
    shown = busy_peer().broker.snapshot(kind)
    assert shown != []
    assert json.loads(json.dumps(shown)) == shown
