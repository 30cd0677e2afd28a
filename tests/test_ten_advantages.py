"""The ten advantages that AMQP 1.0's flow control has over that of 0.9.1, in the order of the documents that list them.

Row 3.28: for each advantage there is a test on AMQP 1.0, and behind it one that shows what 0.9.1 does on the same
broker. Each test uses one connection unless it says otherwise, because most of the advantages are about one connection.
"""

import gc
import tracemalloc
from collections.abc import Callable

from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Disposition, Flow, Transfer
from amqp10.wire.types import Symbol
from core.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicGet,
    BasicQos,
    BasicQosOk,
    ConnectionBlocked,
    ConnectionUnblocked,
)
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, WirePeer, body_of, numbered
from tests.kit.wire091 import Wire091Peer, connect


def session(broker: InProcessBroker) -> WirePeer:
    """A client with a session."""
    peer = broker.connect()
    peer.begin()
    return peer


def by_handle(peer: WirePeer) -> dict[int, int]:
    """How many deliveries came on each link."""
    counts: dict[int, int] = {}
    for transfer, _ in peer.deliveries():
        counts[transfer.handle] = counts.get(transfer.handle, 0) + 1
    return counts


def publish_freely(peer: WirePeer, n: int, *, handle: int = 0) -> int:
    """Publish as many of ``n`` messages as link credit and window allow; returns how many."""
    sent = 0
    while sent < n and (room := min(n - sent, peer.link(handle).credit.link_credit, 85)):
        if peer.session().window.announced == 0:
            break
        peer.publish(numbered(room), handle=handle)
        sent += room
    return sent


def prefetch(peer: Wire091Peer, count: int, *, channel: int = 1, whole: bool = False) -> None:
    """Send basic.qos, the only flow control method of 0.9.1: for a channel's later consumers, or for the whole
    channel."""
    peer.call(channel, BasicQos(prefetch_count=count, global_=whole), BasicQosOk)


def by_queue(peer: Wire091Peer) -> dict[str, int]:
    """How many deliveries came from each queue on 0.9.1."""
    counts: dict[str, int] = {}
    for method, _, _ in peer.deliveries():
        counts[method.routing_key] = counts.get(method.routing_key, 0) + 1
    return counts


def overload(peer: Wire091Peer, queue: str) -> None:
    """Publish on channel 1 into a queue that takes on no messages, until the broker stops reading."""
    peer.broker.stall(queue)
    while peer.front_end.reading:
        peer.publish(1, [b"m"] * 100, routing_key=queue)


@case("engine", "3.28")
def test_1_a_consumer_changes_at_any_time_how_many_messages_it_wants():
    """row 3.28 (1): the consumer raises its link credit, lowers it and sets it to nothing while messages flow.

    0.9.1: the prefetch of a consumer is fixed for its life. To change it, the client cancels and consumes again.
    """
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(1000))
    peer = session(broker)
    peer.attach_receiver(address)
    received = []
    for wanted in (10, 200, 1, 0, 50):
        peer.grant(wanted)
        received.append(len(peer.bodies()))
    assert received == [10, 200, 1, 0, 50]


@case("engine", "3.28")
def test_1_on_0_9_1_a_consumer_keeps_the_prefetch_it_began_with():
    """row 3.28 (1): a later basic.qos is for later consumers. For another prefetch the client cancels and consumes
    again."""
    broker = InProcessBroker()
    broker.queue()
    broker.fill(numbered(1000))
    peer = connect(broker)
    prefetch(peer, 10)
    tag = peer.consume()
    assert len(peer.bodies()) == 10
    prefetch(peer, 200)
    assert peer.bodies() == []
    peer.call(1, BasicCancel(consumer_tag=tag), BasicCancelOk)
    peer.consume()
    assert len(peer.bodies()) == 200


@case("engine", "3.28")
def test_2_a_consumer_prefers_one_of_several_queues():
    """row 3.28 (2): two backlogs on one session; moving the link credit moves the deliveries.

    0.9.1: there is one prefetch for the channel or one for each consumer, and it cannot be moved.
    """
    broker = InProcessBroker()
    peer = session(broker)
    high, low = 1, 2
    for handle, name in ((high, "high"), (low, "low")):
        broker.queue(name)
        broker.fill(numbered(500), name)
        peer.attach_receiver(f"/queues/{name}", handle=handle)
    peer.grant(100, handle=high)
    peer.grant(0, handle=low)
    assert by_handle(peer) == {high: 100}
    peer.grant(0, handle=high)
    peer.grant(100, handle=low)
    assert by_handle(peer) == {low: 100}
    peer.grant(90, handle=high)
    peer.grant(10, handle=low)
    assert by_handle(peer) == {high: 90, low: 10}


@case("engine", "3.28")
def test_2_on_0_9_1_the_channel_shares_out_its_prefetch_as_it_likes():
    """row 3.28 (2): the prefetch of the channel says nothing about queues, and that of a consumer cannot be moved."""
    broker = InProcessBroker()
    peer = connect(broker)
    for name in ("high", "low"):
        broker.queue(name)
        broker.fill(numbered(500), name)
    prefetch(peer, 50)
    peer.consume("high")
    peer.consume("low")
    assert by_queue(peer) == {"high": 50, "low": 50}
    prefetch(peer, 100)  # all for one queue, and none for the other: 0.9.1 cannot express it
    peer.ack(0, multiple=True)
    assert by_queue(peer) == {"high": 50, "low": 50}


@case("engine", "3.28")
def test_3_publishing_to_other_queues_goes_on_when_one_is_overloaded():
    """row 3.28 (3): the link to the slow queue runs out of link credit; the other links keep theirs.

    0.9.1: the connection is blocked, and with it publishing to every queue.
    """
    broker = InProcessBroker()
    peer = session(broker)
    for handle, name in enumerate(("slow", "a", "b")):
        peer.attach_sender(broker.queue(name), handle=handle)
    broker.stall("slow")
    assert publish_freely(peer, 10_000, handle=0) == 255
    assert publish_freely(peer, 3000, handle=1) == 3000
    assert publish_freely(peer, 3000, handle=2) == 3000
    assert (broker.ready("slow"), broker.ready("a"), broker.ready("b")) == (0, 3000, 3000)


@case("engine", "3.28")
def test_3_on_0_9_1_publishing_to_the_other_queues_stops_too():
    """row 3.28 (3): the reader stops, and with it every channel."""
    broker = InProcessBroker()
    for name in ("slow", "a", "b"):
        broker.queue(name)
    peer = connect(broker, 1, 2)
    overload(peer, "slow")
    for name in ("a", "b"):
        peer.publish(2, numbered(3000), routing_key=name)
    assert (broker.ready("a"), broker.ready("b")) == (0, 0)
    broker.recover("slow")
    assert (broker.ready("a"), broker.ready("b")) == (3000, 3000)


@case("engine", "3.28")
def test_4_consuming_goes_on_when_a_target_is_overloaded():
    """row 3.28 (4): one connection serves for publishing and consuming.

    0.9.1: a blocked connection is not read, so its acknowledgements stay unread and its consumers get no more messages.
    """
    broker = InProcessBroker()
    peer = session(broker)
    peer.attach_sender(broker.queue("target"))
    peer.attach_receiver(broker.queue("source"))
    broker.fill(numbered(1000), "source")
    broker.stall("target")
    assert publish_freely(peer, 1000) == 255
    received: list[bytes] = []
    next_id = 0
    for _ in range(10):
        peer.grant(100)
        came = peer.bodies()
        peer.dispose(next_id, next_id + len(came) - 1, state=ACCEPTED)
        next_id += len(came)
        received += came
    assert received == numbered(1000)
    assert broker.unacknowledged("source") == 0


@case("engine", "3.28")
def test_4_from_several_sources_while_one_target_is_overloaded():
    """row 3.28 (4): all sources go on at their rate."""
    broker = InProcessBroker()
    peer = session(broker)
    peer.attach_sender(broker.queue("target"))
    sources = {handle: f"source-{handle}" for handle in (1, 2, 3)}
    for handle, name in sources.items():
        peer.attach_receiver(broker.queue(name), handle=handle)
        broker.fill(numbered(300), name)
    broker.stall("target")
    publish_freely(peer, 1000)
    received = dict.fromkeys(sources, 0)
    next_id = 0
    for _ in range(3):
        for handle in sources:
            peer.grant(100, handle=handle)
        counts = by_handle(peer)
        came = sum(counts.values())
        peer.dispose(next_id, next_id + came - 1, state=ACCEPTED)
        next_id += came
        received = {handle: received[handle] + counts[handle] for handle in sources}
    assert set(received.values()) == {300}


@case("engine", "3.28")
@case("engine", "3.31")
def test_4_on_0_9_1_all_sources_dry_up():
    """row 3.28 (4), row 3.31: each consumer gets its prefetch and no more, because its acknowledgements wait unread."""
    broker = InProcessBroker()
    peer = connect(broker, 1, 2)
    broker.queue("target")
    sources = ("source-1", "source-2", "source-3")
    prefetch(peer, 10, channel=2)
    for name in sources:
        broker.queue(name)
        peer.consume(name, channel=2)
    overload(peer, "target")
    for name in sources:
        broker.fill(numbered(300), name)
    assert by_queue(peer) == dict.fromkeys(sources, 10)
    peer.ack(0, multiple=True, channel=2)
    assert by_queue(peer) == {}
    broker.recover("target")
    assert by_queue(peer) == dict.fromkeys(sources, 10)


@case("engine", "3.28")
def test_5_a_consumer_stops_and_resumes():
    """row 3.28 (5): link credit 0 with echo; the answer says that nothing more is on its way.

    0.9.1: only cancelling stops a consumer. What is in flight comes all the same, and its place in the queue is lost.
    """
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(10))
    peer = session(broker)
    peer.attach_receiver(address)
    peer.grant(4)
    peer.grant(0, echo=True)
    kinds = [type(frame) for _, frame, _ in peer.frames]
    assert kinds == [Transfer] * 4 + [Flow]
    first = peer.bodies()
    peer.frames.clear()
    broker.fill(numbered(10, first=10))
    assert peer.nothing_came()
    peer.grant(100)
    assert first + peer.bodies() == numbered(20)


@case("engine", "3.28")
def test_5_on_0_9_1_only_a_cancel_stops_a_consumer():
    """row 3.28 (5): a new consumer goes on later, behind the messages that came meanwhile."""
    broker = InProcessBroker()
    broker.queue()
    broker.fill(numbered(10))
    former, other = connect(broker), connect(broker)
    prefetch(former, 2)
    tag = former.consume()
    assert former.bodies() == numbered(2)
    prefetch(other, 2)
    other.consume()
    former.call(1, BasicCancel(consumer_tag=tag), BasicCancelOk)
    former.ack(2, multiple=True)
    former.consume(consumer_tag=tag)
    assert other.bodies() == numbered(2, first=2)
    assert former.bodies() == numbered(2, first=4)
    assert broker.engine.queue_info("q", None).consumers == 2


@case("engine", "3.28")
def test_6_a_single_active_consumer_hands_over_in_order():
    """row 3.28 (6): stop, settle, detach: the next consumer goes on where the former stopped.

    0.9.1: after a cancel the unsettled messages stay with the old channel. If that fails, they come back behind later
    ones.
    """
    broker = InProcessBroker()
    address = broker.queue(x_single_active_consumer=True)
    broker.fill(numbered(100))
    former, following = session(broker), session(broker)
    former.attach_receiver(address)
    following.attach_receiver(address)
    following.grant(100)
    former.grant(30)
    done = former.bodies()
    former.grant(0, echo=True)
    assert former.expect(Flow).link_credit == 0
    former.dispose(0, 19, state=ACCEPTED)  # ten are not settled: the next consumer gets them first
    former.detach(1)
    assert done[:20] + following.bodies() == numbered(100)


@case("engine", "3.28")
def test_6_on_0_9_1_a_cancel_hands_over_before_the_rest_is_settled():
    """row 3.28 (6), 3.16: unsettled messages of the former consumer come back behind later messages when it fails."""
    broker = InProcessBroker()
    broker.queue(x_single_active_consumer=True)
    broker.fill(numbered(100))
    former, following = connect(broker), connect(broker)
    prefetch(former, 30)
    tag = former.consume()
    following.consume()
    assert former.bodies() == numbered(30)
    former.ack(20, multiple=True)
    former.bodies()
    former.call(1, BasicCancel(consumer_tag=tag), BasicCancelOk)
    early = following.bodies()
    assert early == numbered(50, first=50)
    former.disconnect()
    assert following.bodies() == numbered(30, first=20)


@case("engine", "3.28")
def test_7_a_consumer_learns_how_many_messages_are_available():
    """row 3.28 (7): every flow that answers the consumer says how many.

    0.9.1: a passive declare says it, or basic.get with each message.
    """
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(42))
    peer = session(broker)
    peer.attach_receiver(address)
    available = []
    for wanted in (0, 10, 2):
        peer.grant(wanted, echo=True)
        peer.deliveries()
        available += [flow.available for flow in peer.take(Flow)]
    assert available == [42, 32, 30]


@case("engine", "3.28")
@case("engine", "3.18")
def test_7_on_0_9_1_it_has_to_ask_elsewhere():
    """row 3.28 (7), row 3.18: no delivery says it; a passive declare does, or basic.get with each message."""
    broker = InProcessBroker()
    broker.queue()
    broker.fill(numbered(42))
    peer = connect(broker)
    assert peer.declare(passive=True, durable=True).message_count == 42
    peer.send(1, BasicGet(queue="q"))
    got = peer.got()
    assert got is not None
    assert got[0].message_count == 41


@case("engine", "3.28")
def test_8_flows_can_carry_more():
    """row 3.28 (8): properties of flows; here the broker tells a publisher why it waits.

    0.9.1: there is no room in basic.qos or channel.flow; connection.blocked has a text and is for alarms only.
    """
    broker = InProcessBroker()
    peer = session(broker)
    peer.attach_sender(broker.queue())
    broker.stall()
    publish_freely(peer, 1000)
    peer.frames.clear()
    broker.advance(1.0)
    (flow,) = peer.take(Flow)
    assert flow.handle == 0
    assert flow.properties["headgate:reason"] == Symbol("unconfirmed-limit")


@case("engine", "3.28")
def test_8_on_0_9_1_a_publisher_is_not_told_why_it_waits():
    """row 3.28 (8): basic.qos has no room for more, and connection.blocked is for alarms."""
    broker = InProcessBroker()
    broker.queue()
    peer = connect(broker)
    overload(peer, "q")
    broker.advance(1.0)
    assert not peer.front_end.reading
    assert peer.take() == []


@case("engine", "3.28")
def test_9_an_alarm_stops_transfers_to_the_broker_and_nothing_else():
    """row 3.28 (9): the same connection goes on consuming, and new connections may come.

    0.9.1: a connection that has published is not read any more; RabbitMQ takes no new connections either.
    """
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(10))
    peer = session(broker)
    peer.attach_sender(address)
    peer.attach_receiver(address)
    broker.raise_alarm()
    assert publish_freely(peer, 10) == 0
    peer.grant(5)
    assert peer.bodies() == numbered(5)
    newcomer = session(broker)
    newcomer.attach_receiver(address)
    newcomer.grant(5)
    assert newcomer.bodies() == numbered(5, first=5)
    broker.clear_alarm()
    assert publish_freely(peer, 10) == 10


@case("engine", "3.28")
def test_9_both_alarms():
    """row 3.28 (9): memory and disk have the same effect, and publishing goes on when the last alarm is over."""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(10))
    peer = session(broker)
    peer.attach_sender(address)
    peer.attach_receiver(address)
    for name in ("memory", "disk"):
        broker.raise_alarm(name)
        assert publish_freely(peer, 10) == 0
        peer.grant(5)
        assert len(peer.bodies()) == 5
    broker.clear_alarm("memory")
    assert publish_freely(peer, 10) == 0
    broker.clear_alarm("disk")
    assert publish_freely(peer, 10) == 10


@case("engine", "3.28")
def test_9_on_0_9_1_an_alarm_stops_the_consumers_of_a_connection_that_publishes():
    """row 3.28 (9): the acknowledgements of that connection are not read. A connection that only consumes goes on."""
    broker = InProcessBroker()
    for name in ("q", "target"):
        broker.queue(name)
    both, consumer = connect(broker, 1, 2), connect(broker)
    for peer in (both, consumer):
        prefetch(peer, 5)
        peer.consume()
    for name in ("memory", "disk"):
        broker.raise_alarm(name)
    both.publish(2, numbered(1), routing_key="target")
    assert both.pick(ConnectionBlocked).reason == "low on memory & disk"
    broker.fill(numbered(20))
    for peer in (both, consumer):
        assert len(peer.bodies()) == 5
        peer.send(1, BasicAck(delivery_tag=5, multiple=True))
    assert both.bodies() == []
    assert len(consumer.bodies()) == 5
    broker.clear_alarm("memory")
    assert both.bodies() == []
    broker.clear_alarm("disk")
    assert both.pick(ConnectionUnblocked) == ConnectionUnblocked()
    assert len(both.bodies()) == 5


@case("engine", "3.28")
def test_10_half_the_connections_do():
    """row 3.28 (10): publishing, slow and quick, and consuming share one connection and one session without holding
    each other up. What that saves is measured by the bench scenarios memory-applications and memory-split-applications.

    0.9.1: the advice is one connection to publish and one to consume.
    """
    broker = InProcessBroker()
    peer = session(broker)
    peer.attach_sender(broker.queue("work"), handle=0)
    peer.attach_sender(broker.queue("slow"), handle=1)
    peer.attach_receiver("/queues/work", handle=2)
    broker.stall("slow")
    publish_freely(peer, 1000, handle=1)
    peer.grant(1000, handle=2)
    received = []
    for start in range(0, 850, 85):
        peer.publish(numbered(85, first=start), handle=0)
        received += [body_of(payload) for _, payload in peer.deliveries()]
    assert received == numbered(850)
    confirmed = sum((each.last or each.first) - each.first + 1 for each in peer.take(Disposition))
    assert confirmed == 850
    assert len(peer.front_end.snapshot("connections", peer.broker.now)) == 1


@case("engine", "3.28")
@case("engine", "3.10")
def test_row_3_10_on_0_9_1_it_takes_two_connections():
    """row 3.28 (10), row 3.10: with the publisher on a connection of its own, the consumer is not slowed."""
    broker = InProcessBroker()
    for name in ("work", "slow"):
        broker.queue(name)
    publisher, consumer = connect(broker), connect(broker)
    prefetch(consumer, 10)
    consumer.consume("work")
    overload(publisher, "slow")
    broker.fill(numbered(100), "work")
    received: list[bytes] = []
    while came := consumer.deliveries():
        received += [body for _, _, body in came]
        consumer.ack(came[-1][0].delivery_tag, multiple=True)
    assert received == numbered(100)


APPLICATIONS = 50


def memory_of(make: Callable[[InProcessBroker], list[object]]) -> float:
    """The bytes that the broker uses for each application, with the test's own side of its connections."""
    make(InProcessBroker())  # so that what is kept once for all connections is not counted
    broker = InProcessBroker()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [make(broker) for _ in range(APPLICATIONS)]
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / len(kept)
    finally:
        tracemalloc.stop()


@case("engine", "3.28")
@case("engine", "3.25")
def test_row_3_25_one_connection_costs_less_memory_than_two():
    """row 3.28 (10), row 3.25: applications that publish to a queue of their own and consume from it. Only allocations
    by Python are seen here. The sockets' buffers, of which there are half as many as well, are not. The bench scenarios
    memory-applications and memory-split-applications measure the process with 1,000 applications."""

    def one_connection(broker: InProcessBroker) -> list[object]:
        peer = session(broker)
        peer.attach_sender(broker.queue(), name="out")
        peer.attach_receiver("/queues/q", name="in")
        peer.grant(1)
        peer.frames.clear()
        return [peer]

    def two_connections(broker: InProcessBroker) -> list[object]:
        broker.queue()
        publisher, consumer = connect(broker), connect(broker)
        publisher.select_confirms()
        prefetch(consumer, 1)
        consumer.consume()
        return [publisher, consumer]

    one, two = memory_of(one_connection), memory_of(two_connections)
    assert one < two, f"{one:.0f} and {two:.0f} bytes for each application"
