"""Which deliveries of a quorum queue count as failed: those that a consumer says have failed, and not those that come
back when it leaves."""

import pytest

from core.interface import Disposal
from core.message import Attributes, Return
from tests.kit.engine import bodies, queue
from tests.kit.kept_broker import KeptBroker

DURABLE = Attributes(durable=True)
LIMIT = 2


@pytest.fixture
def broker() -> KeptBroker:
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type="quorum", x_delivery_limit=LIMIT), "x")
    one.peer.publish("q", bodies(3), DURABLE)
    one.run()
    return one


def test_cancelling_a_consumer_is_no_failed_delivery(broker: KeptBroker):
    for _ in range(LIMIT + 3):
        consumer = broker.peer.consume("q", 3)
        broker.run()
        broker.broker.cancel(consumer)
        broker.run()
    assert broker.shown("q")["messages_ready"] == 3
    assert broker.shown("q")["dropped"] == {}
    assert broker.taken("q") == bodies(3)


def test_a_delivery_that_a_consumer_says_has_failed_counts(broker: KeptBroker):
    consumer = broker.peer.consume("q", 100)
    for number in range(LIMIT + 1):
        broker.run()
        broker.broker.settle(consumer, 3 * number, 3 * number + 2, Return(delivery_failed=True))
        broker.run()
    broker.broker.settle(consumer, 0, 10**6, Disposal.ACCEPTED)
    assert broker.shown("q")["dropped"] == {"delivery_limit": 3}
