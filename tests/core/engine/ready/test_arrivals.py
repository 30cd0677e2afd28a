"""The age of a queue's oldest ready message, wherever it is kept."""

import pytest

from core.interface import Disposal
from core.message import Attributes, Return
from core.waiting.times import GRAIN_S
from tests.kit.engine import NOW, Peer, bodies, later, make_broker, queue
from tests.kit.kept_broker import KeptBroker

DURABLE = Attributes(durable=True)
ROUNDED = 0.05
"""The precision with which an age is shown: one decimal."""


class Aged:
    """A queue of one type on a broker with storage. Tests move its time."""

    def __init__(self, kind: str) -> None:
        self.one = KeptBroker()
        self.one.broker.declare_queue(queue("q", x_queue_type=kind), "x")
        self.passed = 0.0
        self.one.run(NOW)

    def after(self, seconds: float) -> None:
        self.passed += seconds
        self.one.run(later(self.passed))

    def publish(self, count: int) -> None:
        self.one.peer.publish("q", bodies(count), DURABLE)
        self.one.run(later(self.passed))

    @property
    def age(self) -> object:
        return self.one.shown("q")["oldest_ready_seconds"]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_age_is_that_of_the_oldest_message_that_is_ready(kind: str):
    aged = Aged(kind)
    assert aged.age is None
    aged.publish(2)
    aged.after(60.0)
    aged.publish(3)
    aged.after(5.0)
    assert aged.age == pytest.approx(65.0, abs=ROUNDED)
    consumer = aged.one.peer.consume("q", 2)
    aged.after(1.0)
    assert aged.age == pytest.approx(6.0, abs=GRAIN_S + ROUNDED)  # the consumer holds the first two
    aged.one.broker.settle(consumer, 0, 0, Disposal.ACCEPTED)
    aged.one.broker.settle(consumer, 1, 1, Return())
    aged.after(1.0)
    assert aged.age == pytest.approx(67.0, abs=GRAIN_S + ROUNDED)  # it came back and keeps its age
    aged.one.broker.cancel(consumer)
    assert len(aged.one.taken("q", later(aged.passed))) == 4
    assert aged.age is None


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_was_kept_over_a_start_is_as_old_as_the_start(kind: str):
    aged = Aged(kind)
    aged.publish(2)
    aged.after(60.0)
    aged.one.restart()
    aged.after(0.0)
    assert aged.age == pytest.approx(0.0, abs=ROUNDED)
    aged.after(30.0)
    aged.publish(1)
    aged.after(30.0)
    assert aged.age == pytest.approx(60.0, abs=ROUNDED)


def test_a_message_that_passed_straight_to_a_consumer_has_its_age_when_it_comes_back():
    broker = make_broker("q")
    peer = Peer(broker)
    broker.turn(NOW)
    consumer = peer.consume("q", 1)
    peer.publish("q", bodies(1))
    broker.turn(later(10.0))
    broker.settle(consumer, 0, 0, Return())
    broker.turn(later(40.0))
    assert broker.snapshot("queues", "q")[0]["oldest_ready_seconds"] == pytest.approx(30.0, abs=ROUNDED)


def test_of_priorities_the_oldest_of_all_counts():
    broker = make_broker()
    broker.declare_queue(queue("q", x_max_priority=5), "x")
    peer = Peer(broker)
    peer.publish("q", bodies(1), Attributes(priority=1))
    broker.turn(NOW)
    peer.publish("q", bodies(1), Attributes(priority=5))
    broker.turn(later(20.0))
    assert broker.snapshot("queues", "q")[0]["oldest_ready_seconds"] == pytest.approx(20.0, abs=ROUNDED)


def test_a_stream_has_no_age():
    aged = Aged("stream")
    aged.publish(2)
    aged.after(5.0)
    assert (aged.one.shown("q")["messages_ready"], aged.age) == (2, None)
