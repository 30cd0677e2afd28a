"""Purging or deleting thousands of messages that a consumer holds or has given back goes in steps, so that the event
loop does not stand still."""

import pytest

from core.amqp091 import methods
from core.engine.broker import Broker
from core.engine.queue.endings import SETTLED_AT_ONCE
from core.engine.ready.remains import FREED_AT_ONCE, Remains
from core.interface import Consumer, Disposal
from core.message import Attributes
from core.slices import run_at_once
from tests.kit.admin import Facts, client_of
from tests.kit.engine import NOW, Peer, make_broker, queue
from tests.kit.kept_broker import KeptBroker
from tests.kit.link_pair import LinkPair
from tests.kit.wire import InProcessBroker
from tests.kit.wire091 import connect

STEPS = 3
COUNT = STEPS * SETTLED_AT_ONCE
KINDS = {"classic": {}, "lazy": {"x_queue_mode": "lazy"}, "quorum": {"x_queue_type": "quorum"}}


def fill(peer: Peer, count: int = COUNT) -> None:
    """Publish messages of which no two neighbours may be in one run, so that each is kept in a record of its own."""
    for number in range(count):
        peer.publish("q", [b"%d" % number], Attributes(durable=True, redelivered=number % 2 > 0))


def settle_down(broker: Broker) -> int:
    """Run turns until nothing is left to do. Returns how many."""
    turns = 1
    while broker.turn(NOW) or broker.deadline() <= NOW.monotonic:
        turns += 1
    return turns


def held(broker: Broker, count: int = COUNT) -> Consumer:
    """Fill queue q. Returns the consumer that holds all messages."""
    peer = Peer(broker)
    fill(peer, count)
    settle_down(broker)
    consumer = peer.consume("q", count)
    settle_down(broker)
    assert broker.queue_info("q", "x").unacknowledged == count
    return consumer


def given_back(broker: Broker) -> None:
    """Fill queue q with messages that a consumer has held and given back."""
    broker.cancel(held(broker))
    settle_down(broker)
    assert broker.queue_info("q", "x").ready == COUNT


def test_a_purge_of_returned_messages_ends_when_all_are_settled():
    broker = make_broker("q")
    given_back(broker)
    purge = broker.purge_queue("q", "x")
    next(purge)
    assert broker.queue_info("q", "x").ready == 0
    broker.turn(NOW)
    next(purge)
    settle_down(broker)
    with pytest.raises(StopIteration) as end:
        next(purge)
    assert end.value.value == COUNT
    assert broker.snapshot("queues", "q")[0]["purged"] == COUNT
    assert broker.queue_info("q", "x").unacknowledged == 0


def test_a_purge_that_is_given_up_goes_on_by_itself():
    broker = make_broker("q")
    given_back(broker)
    next(broker.purge_queue("q", "x"))
    settle_down(broker)
    assert broker.queue_info("q", "x").unacknowledged == 0
    assert run_at_once(broker.purge_queue("q", "x")) == 0


def test_a_queue_may_be_deleted_while_it_is_purged():
    broker = make_broker("q")
    given_back(broker)
    purge = broker.purge_queue("q", "x")
    next(purge)
    assert broker.delete_queue("q", "x") == 0
    assert run_at_once(purge) == COUNT


@pytest.mark.parametrize("arguments", KINDS.values(), ids=KINDS)
def test_the_write_at_the_end_of_a_purge_is_enough_for_a_kill(arguments: dict[str, str]):
    one = KeptBroker()
    one.broker.declare_queue(queue("q", **arguments), "x")
    fill(one.peer)
    one.run()
    consumer = one.peer.consume("q", COUNT)
    one.run()
    one.broker.cancel(consumer)
    one.run()
    purge = one.broker.purge_queue("q", "x")
    while next(purge, "over") != "over":
        one.broker.turn(NOW)
    one.write()
    one.kill()
    one.run(NOW)
    assert one.taken("q") == []


@pytest.mark.parametrize("arguments", KINDS.values(), ids=KINDS)
def test_what_is_held_outlives_a_purge(arguments: dict[str, str]):
    one = KeptBroker()
    one.broker.declare_queue(queue("q", **arguments), "x")
    fill(one.peer, 20)
    one.run()
    consumer = one.peer.consume("q", 10)
    one.run()
    one.broker.settle(consumer, 0, 3, Disposal.ACCEPTED)
    assert run_at_once(one.broker.purge_queue("q", "x")) == 10
    one.write()
    one.kill()
    one.run(NOW)
    assert one.taken("q") == [b"%d" % number for number in range(4, 10)]


def test_what_a_deleted_queue_leaves_is_freed_turn_by_turn():
    broker = make_broker("q")
    held(broker, 2 * FREED_AT_ONCE + 1)
    assert broker.delete_queue("q", "x") == 0
    assert settle_down(broker) == 3


class Freed:
    """An object that counts when it is freed."""

    count = 0

    def __del__(self) -> None:
        Freed.count += 1


def test_so_many_objects_are_freed_at_once():
    Freed.count = 0
    remains = Remains()
    remains.let_go([Freed() for _ in range(FREED_AT_ONCE)])
    assert (Freed.count, remains.left) == (FREED_AT_ONCE, [])
    remains.let_go([Freed() for _ in range(2 * FREED_AT_ONCE + 1)])
    for step in range(3):
        assert remains.left
        assert remains.free_some() > 0
        assert Freed.count == min((step + 2) * FREED_AT_ONCE, 3 * FREED_AT_ONCE + 1)
    assert not remains.left
    assert remains.free_some() == 0


@pytest.fixture
def wired() -> InProcessBroker:
    """A broker with clients. A consumer has given back the messages in its queue q."""
    broker = InProcessBroker()
    broker.queue("q")
    given_back(broker.engine)
    return broker


def test_a_purge_over_0_9_1_is_answered_when_it_is_over_and_what_follows_it_waits(wired: InProcessBroker):
    peer = connect(wired)
    wired.rounds_max = 1
    peer.send(1, methods.QueuePurge(queue="q"), methods.QueueDeclare(queue="q", passive=True))
    assert peer.take() == []
    wired.rounds_max = None
    wired.run()
    assert peer.pick(methods.QueuePurgeOk).message_count == COUNT
    assert peer.pick(methods.QueueDeclareOk).message_count == 0


def test_a_purge_over_1_0_is_answered_when_it_is_over(wired: InProcessBroker):
    peer = wired.connect()
    peer.begin()
    pair = LinkPair(peer).attach()
    pair.grant(1)
    assert pair.ask("DELETE", "/queues/q/messages").body == {"message_count": COUNT}
    assert wired.engine.queue_info("q", "x").unacknowledged == 0


async def test_a_purge_over_http_is_answered_when_it_is_over():
    facts = Facts(broker=make_broker("q"))
    given_back(facts.broker)
    async with client_of(facts.application(), **{"X-Headgate-Request": "1"}) as client:
        assert (await client.delete("/api/queues/%2F/q/contents")).status_code == 204
    assert facts.broker.queue_info("q", "x").unacknowledged == 0
