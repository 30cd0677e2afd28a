"""The ten advantages that AMQP 1.0's flow control has over that of 0.9.1, in the order of the documents that list them.

Row 3.28: one test for each. What 0.9.1 does instead is said in the docstring; it cannot be shown until this broker
speaks it. Each test uses one connection unless it says otherwise: that is the point of most of them.
"""

from amqp10.messaging import ACCEPTED
from amqp10.performatives import Disposition, Flow, Transfer
from amqp10.types import Symbol
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, WirePeer, body_of, numbered


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


@case("engine", "3.28")
def test_1_a_consumer_changes_at_any_time_how_many_messages_it_wants():
    """row 3.28 (1): up, down, and to nothing, while messages flow.

    0.9.1: the prefetch of a consumer is fixed for its life; changing it means to cancel and to consume again.
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
def test_2_a_consumer_prefers_one_of_several_queues():
    """row 3.28 (2): two backlogs on one session; moving the link credit moves the deliveries.

    0.9.1: the prefetch is one for the channel or one for each consumer, and cannot be moved.
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
def test_3_publishing_to_other_queues_goes_on_when_one_is_overloaded():
    """row 3.28 (3): the link to the slow queue runs out of link credit; the others have theirs.

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
def test_4_consuming_goes_on_when_a_target_is_overloaded():
    """row 3.28 (4): one connection serves for both.

    0.9.1: a blocked connection is not read, so its acknowledgements stay unread and its consumers starve.
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
def test_5_a_consumer_stops_and_resumes():
    """row 3.28 (5): link credit 0 with echo; the answer tells that nothing more is on its way.

    0.9.1: only cancelling stops a consumer; what is in flight comes all the same, and its place in the queue is lost.
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
def test_6_a_single_active_consumer_hands_over_in_order():
    """row 3.28 (6): stop, settle, detach: the next one goes on where the former stopped.

    0.9.1: after a cancel the unsettled messages stay with the old channel; if that fails they come back behind later
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
    former.dispose(0, 19, state=ACCEPTED)  # ten are not dealt with: they are the first that the next one gets
    former.detach(1)
    assert done[:20] + following.bodies() == numbered(100)


@case("engine", "3.28")
def test_7_a_consumer_learns_how_many_messages_are_available():
    """row 3.28 (7): in every flow that answers it.

    0.9.1: a passive declare, or a message got one by one, tells it.
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
def test_9_an_alarm_stops_transfers_to_the_broker_and_nothing_else():
    """row 3.28 (9): the same connection consumes on, and new ones may come.

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
    assert len(peer.front_end.snapshot("connections")) == 1
