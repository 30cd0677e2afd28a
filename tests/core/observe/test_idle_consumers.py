"""The share of time in which messages wait for consumers that give no link credit or prefetch."""

from collections import deque
from collections.abc import Iterable

import pytest
import trio
import trio.testing

from core.amqp091.methods import BasicQos, BasicQosOk
from core.observe.idle_consumers import SLICE, IdleConsumers
from core.server.rounds import IdleRounds
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import connect


def sample(idle: IdleConsumers, queues: Iterable[tuple[str, bool]], times: int = 1) -> None:
    queues = list(queues)
    for _ in range(times):
        deque(idle.sample(queues), maxlen=0)


def test_the_ratio_goes_towards_1_and_back_to_nothing():
    idle = IdleConsumers(addresses_max=10)
    sample(idle, [("busy", False), ("q", True)], 60)
    assert idle.ratios == {"q": pytest.approx(0.635, abs=0.001)}
    sample(idle, [("q", True)], 600)
    assert idle.ratios["q"] > 0.999
    sample(idle, [("q", False)], 42)
    assert idle.ratios["q"] == pytest.approx(0.5, abs=0.01)
    sample(idle, [("q", False)], 400)
    assert idle.ratios == {}


def test_a_queue_that_is_gone_has_none():
    idle = IdleConsumers(addresses_max=10)
    sample(idle, [("q", True)])
    assert list(idle.ratios) == ["q"]
    sample(idle, [])
    assert idle.ratios == {}


def test_the_number_of_ratios_is_bounded():
    idle = IdleConsumers(addresses_max=2)
    sample(idle, [("a", False), ("b", True), ("c", True), ("d", True)], 5)
    assert list(idle.ratios) == ["b", "c"]


def test_many_queues_are_looked_at_in_slices():
    idle = IdleConsumers(addresses_max=2)
    assert len(list(idle.sample((f"q{n}", True) for n in range(10 * SLICE)))) == 10


# --- what the engine says


def idle_queues(broker: InProcessBroker) -> list[str]:
    return [name for name, idle in broker.engine.idle_consumers() if idle]


def test_a_queue_whose_consumers_have_granted_nothing():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    address = broker.queue()
    broker.fill(numbered(3))
    assert idle_queues(broker) == [], "without consumers it is nobody's fault"
    peer.attach_receiver(address, handle=1)
    peer.attach_receiver(address, handle=2)
    assert idle_queues(broker) == ["q"]
    peer.grant(1, handle=2)
    assert idle_queues(broker) == ["q"], "it has been used up"
    peer.grant(50, handle=2)
    assert idle_queues(broker) == []


def test_a_prefetch_count_that_is_used_up():
    broker = InProcessBroker()
    channel = connect(broker, 1)
    channel.declare()
    channel.call(1, BasicQos(prefetch_count=2), BasicQosOk)
    channel.consume()
    broker.fill(numbered(3))
    assert idle_queues(broker) == ["q"]
    channel.ack(2, multiple=True)
    assert idle_queues(broker) == []


def test_streams_are_left_out():
    broker = InProcessBroker(durable=True)
    broker.queue("s", x_queue_type="stream")
    assert list(broker.engine.idle_consumers()) == []


async def test_a_sample_each_second(autojump_clock: trio.testing.MockClock):
    idle = IdleConsumers(addresses_max=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(IdleRounds(lambda: iter([("q", True)]), idle).run, lambda: None)
        await trio.sleep(60.5)
        nursery.cancel_scope.cancel()
    assert idle.ratios["q"] == pytest.approx(0.635, abs=0.001)
