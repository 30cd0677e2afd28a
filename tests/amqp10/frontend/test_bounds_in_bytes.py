"""A consumer that holds at most so many bytes unsettled, as it wants itself or as a policy says: headgate's own link
property max-unsettled-bytes, and the policy key of this name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.wire.messaging import ACCEPTED, RELEASED, Source, Target
from amqp10.wire.performatives import Attach
from amqp10.wire.types import Described, Symbol, ULong
from core.engine.options.policies import PolicyDeclaration
from core.interface import Mailbox, QueueTarget, TakenBack
from core.message import Attributes, Run
from core.server.orders import BoundLink, PauseLink, ResumeLink
from tests.kit.wire import InProcessBroker, WirePeer, data_message, numbered

PROPERTY = "headgate:max-unsettled-bytes"
SIZE = len(data_message(b"0"))
"""Of a message with a body of one byte."""
OUT = "test-0/0/1"


def consuming(most: int | None, broker: InProcessBroker | None = None, **fields: object) -> WirePeer:
    """A client that wants to hold so many bytes."""
    broker = broker or InProcessBroker()
    peer = broker.connect()
    peer.begin()
    properties = None if most is None else {PROPERTY: ULong(most)}
    peer.attach_receiver(broker.queue(), properties=properties, **fields)
    return peer


def policed(broker: InProcessBroker, most: int | None) -> None:
    """Put a policy in force for the queue, or clear it."""
    if most is None:
        broker.engine.policies.clear("few")
    else:
        definition = {"max-unsettled-bytes": most}
        broker.engine.policies.set(
            PolicyDeclaration(name="few", pattern="^q$", priority=0, apply_to="queues", definition=definition)
        )
    broker.run()


def row(peer: WirePeer) -> dict[str, object]:
    (shown,) = peer.front_end.snapshot("links", peer.broker.now)
    return shown


def stalled(peer: WirePeer) -> list[tuple[object, object]]:
    return [(stall["reason"], stall["culprit"]) for stall in peer.broker.control.snapshot("stalls")]


def body(size: int) -> bytes:
    """The body of a message that has so many bytes, fewer than 256."""
    return b"x" * (size - SIZE + 1)


def test_a_consumer_holds_so_many_bytes_and_no_more():
    peer = consuming(3 * SIZE + 1)
    peer.grant(100)
    peer.broker.fill(numbered(8))
    assert peer.bodies() == numbered(3)
    assert (peer.broker.ready(), peer.broker.unacknowledged()) == (5, 3)
    peer.dispose(0, 0, state=ACCEPTED)
    assert peer.bodies() == numbered(1, first=3)
    peer.dispose(1, 3, state=ACCEPTED)
    assert peer.bodies() == numbered(3, first=4)
    shown = row(peer)
    assert (shown["unsettled_bytes"], shown["unsettled_bytes_max"]) == (3 * SIZE, 3 * SIZE + 1)
    assert (shown["bytes_bound_by"], shown["full_of_bytes"], shown["unsettled_max"]) == ("client", True, None)


@pytest.mark.parametrize("most", [1, SIZE - 1, 200])
def test_a_message_above_the_bound_comes_alone(most: int):
    peer = consuming(most)
    peer.grant(100)
    peer.broker.fill([body(250), body(250), b"0", b"1"])
    for number in range(2):
        assert peer.bodies() == [body(250)]
        peer.dispose(number, state=ACCEPTED)
    assert peer.bodies()[0] == b"0"


def test_a_message_for_which_there_is_no_room_goes_to_another_consumer():
    slow = consuming(100)
    quick = slow.broker.connect()
    quick.begin()
    slow.grant(100)
    slow.broker.fill([body(60), body(60)])
    assert slow.bodies() == [body(60)]
    assert (row(slow)["full_of_bytes"], slow.broker.ready()) == (True, 1)
    quick.attach_receiver("/queues/q")
    quick.grant(10)
    assert quick.bodies() == [body(60)]


def test_what_goes_back_is_asked_for_again_only_after_something_is_settled():
    peer = consuming(100)
    peer.grant(100)
    peer.broker.fill([body(40), body(40), body(30), b"0"])
    assert peer.bodies() == [body(40), body(40)]
    (shown,) = peer.broker.engine.snapshot("consumers")
    assert shown["grant"] == 0
    peer.dispose(1, state=RELEASED)
    assert [len(one) for one in peer.bodies()] == [len(body(40))], "it is at the head again"
    peer.dispose(0, state=ACCEPTED)
    assert peer.bodies() == [body(30), b"0"]


def test_a_bound_holds_for_a_client_that_does_not_wait_for_the_answer_to_its_attach():
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(12))
    peer = broker.connect()
    peer.begin()
    attach = Attach(
        name="receiver", handle=1, role=True, source=Source(address=address), target=Target(),
        properties={PROPERTY: 2 * SIZE},
    )  # fmt: skip
    peer.send_all([(attach, b""), peer.flow_frame(handle=1, delivery_count=0, link_credit=100)])
    assert peer.bodies() == numbered(2)


def test_the_answer_has_what_holds():
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    for handle, (of_policy, wanted, holds) in enumerate([(None, 50, 50), (40, 50, 40), (60, 50, 50), (60, None, None)]):
        if of_policy is not None:
            policed(broker, of_policy)
        properties = {} if wanted is None else {PROPERTY: wanted}
        answer = peer.attach_receiver(address, handle=handle, properties=properties)
        held = (answer.properties or {}).get(PROPERTY)
        assert held == (None if holds is None else ULong(holds))


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_a_policy_bounds_what_each_consumer_holds_and_changes_at_once(kind: str):
    broker = InProcessBroker(durable=True)
    broker.queue(x_queue_type=kind)
    policed(broker, 3 * SIZE)
    peer = broker.connect()
    peer.begin()
    first = Described(Symbol("rabbitmq:stream-offset-spec"), "first")
    filters = {"rabbitmq:stream-offset-spec": first} if kind == "stream" else None
    peer.attach_receiver("/queues/q", source=Source(address="/queues/q", filter=filters))
    peer.grant(100)
    broker.fill(numbered(9))
    came = peer.bodies()
    assert came == numbered(1 if kind == "stream" else 3), "a stream adds an annotation to each message"
    broker.go_round(2.0)
    broker.go_round(2.0)
    assert stalled(peer) == [("policy", "policy of queue q")]
    policed(broker, None)
    assert peer.bodies() == numbered(9 - len(came), first=len(came))
    assert row(peer)["unsettled_bytes"] is None
    policed(broker, 1)
    broker.fill(numbered(1, first=9))
    assert peer.bodies() == numbered(1, first=9), "what it had before counts nothing, so one message may come"
    broker.fill(numbered(1))
    assert peer.bodies() == []
    assert row(peer)["bytes_bound_by"] == "policy"


def test_a_policy_that_comes_while_deliveries_wait_for_the_window():
    peer = consuming(None)
    peer.grant(10, incoming_window=1)
    peer.broker.fill(numbered(5))
    assert peer.bodies() == numbered(1)
    policed(peer.broker, 2 * SIZE)
    peer.flow(incoming_window=100)
    assert peer.bodies() == numbered(2, first=1)
    policed(peer.broker, 3 * SIZE)
    assert peer.bodies() == numbered(1, first=3)


def test_two_bounds_hold_together():
    peer = consuming(3 * SIZE)
    peer.front_end.obey(BoundLink(OUT, 2), peer.broker.now)
    peer.grant(100)
    peer.broker.fill(numbered(8))
    assert peer.bodies() == numbered(2)
    peer.broker.go_round(2.0)
    peer.broker.go_round(2.0)
    assert stalled(peer) == [("policy", "operator")]
    peer.front_end.obey(BoundLink(OUT, 5), peer.broker.now)
    peer.broker.touch(peer)
    peer.broker.run()
    assert peer.bodies() == numbered(1, first=2)
    peer.broker.go_round(2.0)
    peer.broker.go_round(2.0)
    assert stalled(peer) == [("policy", "client")]
    peer.dispose(0, 2, state=ACCEPTED)
    assert peer.bodies() == numbered(3, first=3)


def test_a_drain_brings_what_the_consumer_may_hold():
    peer = consuming(2 * SIZE)
    peer.broker.fill(numbered(5))
    peer.grant(10, drain=True)
    assert peer.bodies() == numbered(2)
    assert peer.link(1).credit.link_credit == 0


def test_deliveries_that_the_queue_takes_back_count_until_the_client_settles_them():
    """The client has them until then. Those that were not sent count no more."""
    peer = consuming(3 * SIZE)
    peer.grant(100, incoming_window=2)
    peer.broker.fill(numbered(6))
    assert peer.bodies() == numbered(2)
    consumer = peer.link(1).reference.consumer
    consumer.mailbox.put(TakenBack(consumer, 1, 2))
    peer.broker.run()
    assert row(peer)["unsettled_bytes"] == 3 * SIZE, "another one has come for the one that was not sent"
    peer.flow(incoming_window=100)
    assert peer.bodies() == numbered(1, first=3)
    assert (row(peer)["unsettled"], row(peer)["full_of_bytes"]) == (3, True)
    peer.dispose(1, state=ACCEPTED)
    assert peer.bodies() == numbered(1, first=4)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), st.integers(0, 8)),
        st.tuples(st.just("fill"), st.integers(SIZE, 60)),
        st.tuples(st.just("window"), st.integers(0, 4)),
        st.tuples(st.just("policy"), st.integers(1, 200)),
        st.tuples(st.just("settle"), st.integers(1, 6)),
        st.tuples(st.just("settle second"), st.none()),
        st.tuples(st.just("drain"), st.none()),
    ),
    max_size=40,
)


@given(steps, st.integers(1, 200))
def test_whatever_the_bound_a_consumer_gets_every_message_once_in_order_and_holds_no_more(steps, most):
    peer = consuming(most)
    broker, filled, got, settled = peer.broker, [], [], set()
    of_policy = before = 0
    for step, n in steps:
        match step:
            case "grant":
                peer.grant(n, incoming_window=3)
            case "window":
                peer.flow(incoming_window=n)
            case "drain":
                peer.grant(5, drain=True, incoming_window=100)
                assert peer.link(1).credit.link_credit == 0
            case "fill":
                filled.append(bytes([len(filled)]) + body(n)[1:])
                broker.fill(filled[-1:])
            case "policy":
                of_policy = n
                policed(broker, n)
            case "settle" | "settle second":
                open_ = [number for number in range(len(got)) if number not in settled]
                chosen = open_[1:2] if n is None else open_[:n]
                if chosen:
                    peer.dispose(chosen[0], chosen[-1], state=ACCEPTED)
                    settled |= set(chosen)
        got += peer.bodies()
        sizes = [len(data_message(one)) for number, one in enumerate(got) if number not in settled]
        bound = min(most, of_policy or most)
        assert sum(sizes) <= max(bound, before) or len(sizes) == 1
        assert row(peer)["unsettled_bytes"] >= sum(sizes)
        before = sum(sizes)
    for _ in range(len(filled) + 1):
        if len(settled) < len(got):
            peer.dispose(0, len(got) - 1, state=ACCEPTED)
            settled = set(range(len(got)))
        peer.grant(100, incoming_window=1000)
        got += peer.bodies()
    assert got == filled


def published(broker: InProcessBroker, *bodies: bytes) -> None:
    """Publish, and let the queues deliver; the front ends take nothing yet."""
    target = QueueTarget("q")
    publisher = broker.engine.publisher(Mailbox(lambda: None), broker, target, None)
    run = Run(0, [data_message(body) for body in bodies], Attributes())
    broker.engine.publish(publisher, target, run, broker.now)
    broker.engine.turn(broker.now)


def test_a_consumer_that_was_paused_before_too_many_bytes_came_is_not_full_of_nothing():
    peer = consuming(100)
    broker = peer.broker
    peer.grant(100)
    broker.fill([b"0"])
    assert peer.bodies() == [b"0"]
    peer.dispose(0, state=ACCEPTED)
    published(broker, body(60), body(60))  # two, because the consumer expects small ones
    for order in (PauseLink(OUT), ResumeLink(OUT)):
        peer.front_end.obey(order, broker.now)
        broker.touch(peer)
        broker.run()
    peer.grant(50)
    assert peer.bodies() == [body(60)]


def test_a_small_message_does_not_overtake_a_large_one_that_went_back():
    """The queue delivers what it took back and what came later in two runs, before the consumer has looked at any."""
    peer = consuming(100)
    broker = peer.broker
    other = broker.connect()
    other.begin()
    other.attach_receiver("/queues/q")
    large = [body(60), body(61)]
    broker.fill(large)
    other.grant(2)
    assert other.bodies() == large
    broker.fill([b"0"])
    peer.grant(100)
    assert peer.bodies() == [b"0"]
    peer.dispose(0, state=ACCEPTED)
    peer.grant(0)
    other.dispose(0, 1, state=RELEASED)
    broker.fill([b"1"])
    peer.grant(100)
    assert peer.bodies() == large[:1]
    peer.dispose(1, state=ACCEPTED)
    assert peer.bodies() == [large[1], b"1"]
