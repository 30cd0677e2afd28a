"""Link flow control in the words of its theory: what link credit is, who decides, the formula under races [2.6.7]."""

import pytest

from amqp10.client.receiver import AUTOMATIC_LINK_CREDIT, AUTOMATIC_TOP_UP_BELOW
from amqp10.flow.link_credit import ReceiverCredit, SenderCredit
from amqp10.wire.performatives import Begin, Flow
from amqp10.wire.types import Symbol
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, WirePeer, numbered

UINT_MAX = 2**32 - 1


def consuming(n: int = 0) -> WirePeer:
    """A client with a receiver at handle 1, and this many messages in its queue."""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(n))
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(address)
    return peer


@case("engine", "3.1")
def test_each_of_the_two_levels_stops_deliveries_alone():
    """row 3.1: link flow control and session flow control; a delivery needs both."""
    peer = consuming(10)
    peer.grant(0, incoming_window=100)
    assert peer.bodies() == []
    peer.grant(2, incoming_window=0)
    assert peer.bodies() == []
    peer.flow(incoming_window=100)
    assert peer.bodies() == numbered(2)


@case("engine", "3.2")
def test_one_link_credit_is_one_message_counted_down_on_both_sides():
    """row 3.2: nothing before the first flow, at most as many messages as link credits, nothing after; 0 to
    4294967295."""
    peer = consuming(100)
    assert peer.nothing_came()
    ours = ReceiverCredit()
    ours.grant(7)
    peer.grant(7)
    ours.received(len(peer.bodies()))
    theirs = peer.link(1).credit
    assert (ours.link_credit, ours.delivery_count) == (theirs.link_credit, theirs.delivery_count) == (0, 7)
    peer.grant(0)
    assert peer.bodies() == []
    peer.grant(UINT_MAX)
    assert len(peer.bodies()) == 93
    assert peer.link(1).credit.link_credit == UINT_MAX - 93


@case("engine", "3.3")
def test_synchronous_get():
    """row 3.3: the client gives one link credit and waits for one message, again and again."""
    peer = consuming(3)
    received = []
    for _ in range(3):
        peer.grant(1)
        received.append(peer.bodies())
    assert received == [[b"0"], [b"1"], [b"2"]]


@case("engine", "3.4")
def test_asynchronous_notification():
    """row 3.4: the client gives six link credits, and sets them to six again at every third message, before they run
    out."""
    peer = consuming()
    broker = peer.broker
    peer.grant(6)
    lowest = 6
    received: list[bytes] = []
    for number in range(60):
        broker.fill([b"%d" % number])
        received += peer.bodies()
        lowest = min(lowest, peer.link(1).credit.link_credit)
        if len(received) % 3 == 0:
            peer.grant(6)
    assert received == numbered(60)
    assert lowest == 3


@case("engine", "3.5")
def test_a_flow_sets_the_link_credit_and_does_not_add_to_it():
    """row 3.5: two flows of 50 are 50; a receiver may lower it too."""
    peer = consuming()
    peer.grant(50)
    peer.grant(50)
    assert peer.link(1).credit.link_credit == 50
    peer.grant(10)
    peer.broker.fill(numbered(100))
    assert peer.bodies() == numbered(10)


@case("engine", "3.6")
def test_what_the_client_advises():
    """row 3.6: 200 link credits, set to 200 again below 100: the default of our own client."""
    credit = ReceiverCredit(
        maximum=AUTOMATIC_LINK_CREDIT,
        top_up_at=AUTOMATIC_TOP_UP_BELOW - 1,
        unconfirmed_limit=AUTOMATIC_LINK_CREDIT,
    )
    assert credit.refill()
    assert credit.link_credit == 200
    credit.received(100)
    assert not credit.refill()
    credit.received(1)
    assert credit.refill()
    assert credit.link_credit == 200


@pytest.mark.parametrize("initial", [0, 10, UINT_MAX])
@case("engine", "3.12")
def test_the_sender_chooses_where_its_delivery_count_begins(initial: int):
    """row 3.12: a serial number [RFC 1982] that wraps from 4294967295 to 0."""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue(), initial_delivery_count=initial)
    assert peer.expect(Flow).delivery_count == initial
    peer.publish(numbered(85))
    (flow,) = peer.take(Flow)
    assert (flow.delivery_count, flow.link_credit) == ((initial + 85) % 2**32, 170)

    ours = SenderCredit(initial)
    ours.flow_received(delivery_count=initial, link_credit=3, drain=False)
    ours.sent(2)
    assert (ours.delivery_count, ours.link_credit) == ((initial + 2) % 2**32, 1)


RACES = [
    # delivery-count and link-credit of the receiver, delivery-count of the sender, and how much the sender may send
    (20, 6, 21, 5),  # the example of the documents
    (20, 6, 20, 6),
    (20, 6, 25, 1),
    (20, 6, 26, 0),
    (20, 6, 30, 0),  # lowered while transfers were on their way: 0, and not less
    (0, 0, 0, 0),
    (UINT_MAX, 6, 0, 5),
    (UINT_MAX - 2, 6, 2, 1),
    (UINT_MAX - 2, 6, 3, 0),
    (0, UINT_MAX, 0, UINT_MAX),
    (0, UINT_MAX, 10, UINT_MAX - 10),
    (UINT_MAX, UINT_MAX, 5, UINT_MAX - 6),
    (0, 2**31, 1, 2**31 - 1),
    (7, 2**31 - 1, 7, 2**31 - 1),
]


@pytest.mark.parametrize(("seen", "granted", "sent", "left"), RACES)
@case("engine", "3.13")
def test_the_formula_under_races(seen: int, granted: int, sent: int, left: int):
    """row 3.13: link-credit(snd) := delivery-count(rcv) + link-credit(rcv) - delivery-count(snd), and not below 0."""
    credit = SenderCredit(sent)
    credit.flow_received(delivery_count=seen, link_credit=granted, drain=False)
    assert credit.link_credit == left
    assert credit.delivery_count == sent


@case("engine", "3.13")
def test_the_example_of_the_formula_on_the_wire():
    """row 3.13: the receiver has seen 20 and wants 6, the sender has sent 21: 5 more."""
    peer = consuming(100)
    peer.grant(21)
    assert len(peer.bodies()) == 21
    peer.grant(6, delivery_count=20)
    assert peer.bodies() == numbered(5, first=21)


@pytest.mark.parametrize(("ready", "granted"), [(0, 5), (3, 5), (5, 5), (9, 5)])
@case("engine", "3.14")
def test_drain(ready: int, granted: int):
    """row 3.14: with an empty queue, too few, exactly enough or too many messages all link credit is used up, and one
    flow says so."""
    peer = consuming(ready)
    peer.grant(granted, drain=True)
    assert peer.bodies() == numbered(min(ready, granted))
    flow = peer.expect(Flow)
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, granted, True)
    assert flow.available == max(0, ready - granted)
    assert peer.nothing_came()


@case("engine", "3.15")
def test_echo():
    """row 3.15: echo is answered with a flow. A stop is link credit 0 with echo, and transfers that were in flight come
    before the answer."""
    peer = consuming(10)
    peer.stop_reading()
    peer.grant(4)
    peer.grant(0, echo=True, delivery_count=0)
    peer.go_on_reading()
    arrived = peer.bodies()
    flow = peer.expect(Flow)
    assert (flow.link_credit, flow.delivery_count) == (0, len(arrived))
    assert peer.nothing_came()


@case("engine", "3.16")
def test_pause_and_resume():
    """row 3.16: a paused consumer gets no messages and keeps those that it has. When it resumes it gets the rest in
    order."""
    peer = consuming(20)
    peer.grant(5)
    first = peer.bodies()
    peer.grant(0, echo=True)
    assert peer.expect(Flow).link_credit == 0
    peer.broker.fill(numbered(5, first=20))
    assert peer.nothing_came()
    peer.grant(100)
    assert first + peer.bodies() == numbered(25)


@case("engine", "3.19")
def test_flows_carry_properties():
    """row 3.19: the broker says in them why a publisher waits. Properties that a client sends are taken and have no
    effect."""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.frames.clear()
    peer.flow(handle=0, delivery_count=0, link_credit=0, properties={"any": Symbol("thing")})
    assert peer.nothing_came()
    broker.raise_alarm()
    peer.frames.clear()
    broker.advance(1.0)
    (flow,) = peer.take(Flow, lambda flow: flow.handle == 0)
    assert flow.properties["headgate:reason"] == Symbol("memory")


@case("engine", "3.20")
def test_the_sender_and_the_receiver_each_decide_on_two_fields():
    """row 3.20: the receiver decides on link-credit and drain, the sender on delivery-count and available. What the
    other side's flow says of them is not taken over."""
    peer = consuming(10)
    peer.grant(3, available=1_000, echo=True)
    assert len(peer.bodies()) == 3
    flow = peer.expect(Flow)
    assert (flow.available, flow.delivery_count, flow.link_credit) == (7, 3, 0)

    broker = peer.broker
    peer.attach_sender("/queues/q")
    peer.frames.clear()
    peer.flow(handle=0, delivery_count=0, link_credit=1_000_000, drain=True, echo=True)
    flow = peer.expect(Flow)
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (170, 0, False)
    assert broker.ready() == 7


@case("engine", "3.27")
def test_what_one_consumer_may_have_waiting():
    """row 3.27: at most 256 messages are between the queue and the wire, whatever link credit and window the client has
    given, and the next batch comes when these have gone."""
    peer = consuming(2000)
    peer.grant(4_000_000_000, incoming_window=0)
    link, broker = peer.link(1), peer.broker
    in_queue = []
    for _ in range(5):
        assert link.waiting + link.grant.outstanding <= 256
        in_queue.append(broker.ready())
        peer.flow(incoming_window=128)
        assert len(peer.bodies()) == 128
    assert in_queue == [1744, 1744, 1488, 1488, 1232]
    peer.grant(3_000_000_000, incoming_window=0)  # another grant brings no more
    assert link.waiting + link.grant.outstanding <= 256
    peer.flow(incoming_window=1)
    assert len(peer.bodies()) == 1
    assert link.waiting + link.grant.outstanding <= 256


@case("engine", "3.23")
def test_the_begin_tells_the_window():
    """row 3.23: the window is 400 from the start, whatever the client's own window is."""
    broker = InProcessBroker()
    peer = broker.connect()
    assert isinstance(begun := peer.begin(incoming_window=0), Begin)
    assert begun.incoming_window == 400
