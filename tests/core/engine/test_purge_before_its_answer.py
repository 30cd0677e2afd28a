"""A purge asks for the write that must come before its answer, whether its messages were ready, given back, or both."""

import pytest

from core.message import Attributes
from core.slices import run_at_once
from tests.kit.engine import NOW, bodies, queue
from tests.kit.kept_broker import KeptBroker
from tests.kit.storage import lanes

DURABLE = Attributes(durable=True)


@pytest.mark.parametrize("returned", [0, 5, 8], ids=["none-came-back", "some-came-back", "all-came-back"])
@pytest.mark.parametrize(
    "arguments", [{}, {"x_queue_mode": "lazy"}, {"x_queue_type": "quorum"}], ids=["classic", "lazy", "quorum"]
)
def test_one_write_after_a_purge_is_enough_for_a_kill(arguments, returned):
    one = KeptBroker()
    one.broker.declare_queue(queue("q", **arguments), "x")
    one.peer.publish("q", bodies(8), DURABLE)
    one.run()
    if returned:
        consumer = one.peer.consume("q", returned)
        one.run()
        one.broker.cancel(consumer)
        one.run()
    assert run_at_once(one.broker.purge_queue("q", "x")) == 8
    (lane,) = [lane for lane in lanes(one.storage) if lane.write_wanted]
    batch = lane.take_write()
    batch.run(one.disk)
    lane.wrote(batch)
    one.kill()
    one.run(NOW)
    assert one.taken("q") == []
