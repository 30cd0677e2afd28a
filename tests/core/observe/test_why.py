"""Which stage holds a publisher up: three load shapes, and each of the three stages slowed. Rows 1.13 and 4.30."""

import pytest

from core.amqp091.methods import ExchangeDeclare, QueueBind
from core.amqp091.properties import BasicProperties
from core.observe.why import why
from core.slices import run_at_once
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.looker import Looker
from tests.kit.settings import make_settings
from tests.kit.storage import KeptDefinitions, open_storage, sync, write
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect

PERSISTENT = BasicProperties(delivery_mode=2)
SMALL = numbered(5000)
LARGE = [bytes(4096)] * 6000
"""How many messages are published. Each has a body for the message store, and they are more than a queue's 4000."""


class SlowDisk:
    """A broker whose lanes write and sync only when the test says so."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.storage = open_storage(self.disk, KeptDefinitions())
        self.broker = InProcessBroker(storage=self.storage)

    def work(self) -> None:
        """Write and sync everything that has been staged, again and again until nothing follows."""
        store = self.storage.store
        for _ in range(1000):
            worked = [write(lane, self.disk) for lane in (store.classic, store.quorum)]
            store.quorum.want_sync()
            worked.append(sync(store.quorum, self.disk, self.broker.now.monotonic))
            self.broker.run()
            if not any(worked):
                return
        raise AssertionError("the lanes do not come to rest")


def verdict(broker: InProcessBroker, peer: Wire091Peer) -> tuple[object, object]:
    answer = run_at_once(why(Looker(broker), "connections", peer.front_end.info.identity))
    assert answer is not None
    assert answer["waits"] is (answer["stage"] is not None)
    return answer["stage"], answer["names"]


# --- load shapes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queues", [1, 5])
def test_many_small_transient_messages_wait_for_the_channel(queues):
    broker = InProcessBroker()
    peer = connect(broker)
    peer.send(1, ExchangeDeclare(exchange="x", type="fanout"))
    for number in range(queues):
        peer.declare(f"q{number}")
        peer.send(1, QueueBind(queue=f"q{number}", exchange="x"))
    assert verdict(broker, peer) == (None, [])
    peer.publish(1, SMALL, exchange="x", routing_key="")
    assert verdict(broker, peer) == ("channel", ["test-0/1"])
    assert broker.ready("q0") == len(SMALL)


def test_many_small_persistent_messages_wait_for_the_queue():
    slow = SlowDisk()
    peer = connect(slow.broker)
    peer.declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    slow.work()
    peer.publish(1, SMALL, routing_key="q", properties=PERSISTENT)
    assert verdict(slow.broker, peer) == ("queue", ["q"])
    assert not peer.front_end.reading
    slow.work()
    assert slow.broker.ready("q") == len(SMALL)


def test_large_persistent_messages_on_a_slow_disk_wait_for_the_message_store():
    slow = SlowDisk()
    peer = connect(slow.broker)
    peer.declare("q", durable=True)
    slow.work()
    peer.publish(1, LARGE, routing_key="q", properties=PERSISTENT)
    assert verdict(slow.broker, peer) == ("message store", ["q"])
    assert not peer.front_end.reading
    slow.work()
    assert slow.broker.ready("q") == len(LARGE)


# --- slowed stages ---------------------------------------------------------------------------------------------------


def test_a_channel_that_takes_few_messages_in_a_turn():
    broker = InProcessBroker()
    settings = make_settings(engine={"stage_messages_per_turn": {"channel": 0}})
    peer = connect(broker, settings=settings)
    peer.declare()
    peer.publish(1, numbered(500), routing_key="q")
    assert verdict(broker, peer) == ("channel", ["test-0/1"])


def test_a_queue_that_takes_few_messages_in_a_turn_among_others_that_do_not():
    broker = InProcessBroker()
    peer = connect(broker, 1, 2)
    peer.declare("slow")
    peer.declare("fast")
    broker.engine.set_stage_budget("slow", 0)
    peer.publish(2, numbered(150), routing_key="fast")
    peer.publish(1, numbered(1000), routing_key="slow")
    assert verdict(broker, peer) == ("queue", ["slow"])
    broker.engine.set_stage_budget("slow", None)
    broker.run()
    broker.advance(6.0)
    assert verdict(broker, peer) == (None, [])


def test_the_message_store_of_a_publisher_to_two_queues():
    """The queue that gets small messages is not named."""
    slow = SlowDisk()
    peer = connect(slow.broker, 1, 2)
    for name in ("large", "small"):
        peer.declare(name, durable=True)
    slow.work()
    peer.publish(2, numbered(150), routing_key="small", properties=PERSISTENT)
    peer.publish(1, LARGE, routing_key="large", properties=PERSISTENT)
    assert verdict(slow.broker, peer) == ("message store", ["large"])


# --- other answers ---------------------------------------------------------------------------------------------------


def test_alarms_come_first():
    broker = InProcessBroker()
    peer = connect(broker)
    peer.declare()
    broker.raise_alarm("memory")
    answer = run_at_once(why(Looker(broker), "connections", "test-0"))
    assert answer is not None
    assert (answer["state"], answer["waits"]) == ("blocking", False)
    peer.publish(1, [b"x"], routing_key="q")
    answer = run_at_once(why(Looker(broker), "connections", "test-0"))
    assert answer is not None
    assert (answer["state"], answer["waits"], answer["stage"]) == ("blocked", True, None)
    assert "low on memory" in str(answer["sentence"])


def test_an_amqp_1_0_connection_has_no_stages():
    broker = InProcessBroker()
    broker.connect()
    answer = run_at_once(why(Looker(broker), "connections", "test-0"))
    assert answer is not None
    assert (answer["protocol"], answer["stage"]) == ("amqp-1.0", None)
    assert answer["sentence"] == "Nothing holds up connection test-0: none of its 0 links waits."


def test_no_connection_of_that_name():
    assert run_at_once(why(Looker(InProcessBroker()), "connections", "c17")) is None
