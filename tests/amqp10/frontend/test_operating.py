"""An operator's orders on links: pause, resume, a bound, detach and end. They work at any moment, and no message is
lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.frontend.reasons import REASON_KEY
from amqp10.wire.messaging import ACCEPTED, Source
from amqp10.wire.performatives import Detach, Flow
from amqp10.wire.types import Described, Symbol
from core.config.settings import Settings
from core.engine.options.policies import PolicyDeclaration
from core.errors import Invalid, NotFound
from core.server.orders import BoundLink, CloseLink, CloseSession, Order, PauseLink, ResumeLink
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, body_of, numbered

IN, OUT = "test-0/0/0", "test-0/0/1"
OFFSETS = "rabbitmq:stream-offset-spec"
SETTINGS = make_settings(amqp10={"max_link_credit": 10, "link_credit_top_up": 5, "unconfirmed_limit": 10})


def order(peer: WirePeer, given_: Order) -> None:
    """Give an order to a front end, as the server does."""
    peer.front_end.check(given_)
    peer.front_end.obey(given_, peer.broker.now)
    peer.broker.touch(peer)
    peer.broker.run()


def publishing(settings: Settings = SETTINGS) -> WirePeer:
    broker = InProcessBroker(settings)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.pick(Flow)
    return peer


def consuming(**arguments: object) -> WirePeer:
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(broker.queue(**arguments))
    return peer


def told(peer: WirePeer) -> list[object]:
    flows = peer.take(Flow, lambda flow: REASON_KEY in (flow.properties or {}))
    return [flow.properties[REASON_KEY] for flow in flows]


def stalled(peer: WirePeer) -> list[tuple[object, object]]:
    return [(row["reason"], row["culprit"]) for row in peer.broker.control.snapshot("stalls")]


# --- publishers ------------------------------------------------------------------------------------------------------


def test_a_paused_publisher_loses_its_link_credit_and_hears_why():
    peer = publishing()
    order(peer, PauseLink(IN))
    assert peer.pick(Flow).link_credit == 0
    peer.broker.go_round(1.0)
    assert told(peer) == [Symbol("paused")]
    assert stalled(peer) == [("paused", "operator")]
    order(peer, ResumeLink(IN))
    assert peer.pick(Flow).link_credit == 10
    peer.broker.go_round(1.0)
    assert told(peer) == [None]
    assert stalled(peer) == []


def test_what_was_sent_before_the_peer_heard_of_it_is_taken_and_no_more():
    peer = publishing()
    order(peer, PauseLink(IN))
    peer.publish(numbered(10))
    assert peer.broker.ready() == 10
    assert not peer.take(Detach)
    peer.publish(numbered(1))
    assert peer.detached_with("amqp:link:transfer-limit-exceeded")


def test_answers_do_not_bring_a_paused_publisher_link_credit():
    peer = publishing()
    peer.broker.stall()
    peer.publish(numbered(8))
    order(peer, PauseLink(IN))
    peer.broker.recover()
    assert peer.link(0).credit.link_credit == 0
    order(peer, ResumeLink(IN))
    assert peer.link(0).credit.link_credit == 10


def test_a_bound_takes_back_what_is_above_it_and_holds():
    peer = publishing()
    order(peer, BoundLink(IN, 3))
    assert peer.pick(Flow).link_credit == 3
    for _ in range(5):
        peer.publish(numbered(3))
        assert 1 <= peer.link(0).credit.link_credit <= 3
    assert peer.front_end.snapshot("links", peer.broker.now)[0]["max_link_credit"] == 3
    order(peer, BoundLink(IN, None))
    assert peer.link(0).credit.link_credit == 10


def test_a_bound_above_the_rule_changes_nothing():
    peer = publishing()
    order(peer, BoundLink(IN, 1000))
    assert peer.link(0).credit.link_credit == 10
    assert peer.nothing_came()
    peer.broker.stall()
    while peer.link(0).credit.link_credit:
        peer.publish(numbered(1))
    peer.broker.go_round(1.0)
    assert stalled(peer) == [("unconfirmed-limit", "queue q")]


@pytest.mark.parametrize(("most", "culprit"), [(2, "operator"), (3, "policy of queue q"), (5, "policy of queue q")])
def test_of_two_bounds_the_lower_one_is_the_culprit(most: int, culprit: str):
    broker = InProcessBroker(SETTINGS)
    policy = PolicyDeclaration(
        name="few", pattern="^q$", priority=0, apply_to="queues", definition={"max-link-credit": 3}
    )
    broker.engine.policies.set(policy)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    order(peer, BoundLink(IN, most))
    assert peer.link(0).credit.link_credit == min(most, 3)
    broker.stall()
    while peer.link(0).credit.link_credit:
        peer.publish(numbered(1))
    broker.go_round(1.0)
    assert stalled(peer) == [("policy", culprit)]


def test_a_publisher_that_waits_within_an_operators_bound_is_told_of_it():
    peer = publishing()
    order(peer, BoundLink(IN, 3))
    peer.broker.stall()
    while peer.link(0).credit.link_credit:
        peer.publish(numbered(1))
    peer.broker.go_round(1.0)
    assert told(peer) == [Symbol("policy")]
    assert stalled(peer) == [("policy", "operator")]


def test_a_pause_and_a_bound_are_two_things():
    peer = publishing()
    order(peer, PauseLink(IN))
    order(peer, BoundLink(IN, 4))
    assert peer.link(0).credit.link_credit == 0
    order(peer, ResumeLink(IN))
    assert peer.link(0).credit.link_credit == 4


class CarefulPublisher:
    """A client that reads from the broker only when the test says so, and sends no more than it may."""

    def __init__(self, peer: WirePeer) -> None:
        self.peer = peer
        self.sent = 0
        self.link_credit = 10

    def listen(self) -> None:
        for flow in self.peer.take(Flow, lambda flow: flow.handle == 0):
            self.link_credit = max(0, flow.delivery_count + flow.link_credit - self.sent)

    def publish(self, n: int) -> None:
        n = min(n, self.link_credit)
        self.peer.publish(numbered(n, first=self.sent))
        self.sent += n
        self.link_credit -= n


publisher_steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 12)),
        st.tuples(st.just("bound"), st.integers(1, 12)),
        st.tuples(st.sampled_from(["pause", "resume", "unbound", "listen", "stall", "recover"]), st.none()),
    ),
    max_size=30,
)


@given(publisher_steps)
def test_whatever_is_ordered_and_when_no_message_and_no_link_credit_is_lost(steps):
    peer = publishing()
    broker, client = peer.broker, CarefulPublisher(peer)
    for step, n in steps:
        match step:
            case "publish":
                client.publish(n)
            case "bound":
                order(peer, BoundLink(IN, n))
            case "unbound":
                order(peer, BoundLink(IN, None))
            case "pause":
                order(peer, PauseLink(IN))
            case "resume":
                order(peer, ResumeLink(IN))
            case "listen":
                client.listen()
            case "stall":
                broker.stall()
            case "recover":
                broker.recover()
        credit = peer.link(0).credit
        assert credit.link_credit <= credit.ceiling
        assert credit.room <= 10
        assert credit.unconfirmed + credit.room <= 10 + 10
    broker.recover()
    order(peer, ResumeLink(IN))
    order(peer, BoundLink(IN, None))
    client.listen()
    assert not peer.take(Detach)
    assert client.link_credit == peer.link(0).credit.link_credit > 5  # as without any order
    consumer = broker.connect()
    consumer.begin()
    consumer.attach_receiver("/queues/q", snd_settle_mode=1)
    consumer.grant(1000)
    assert consumer.bodies() == numbered(client.sent)


# --- consumers -------------------------------------------------------------------------------------------------------


def test_a_paused_consumer_gets_nothing_and_hears_why():
    peer = consuming()
    order(peer, PauseLink(OUT))
    peer.grant(10)
    peer.broker.fill(numbered(5))
    assert peer.bodies() == []
    assert peer.broker.ready() == 5
    peer.broker.go_round(1.0)
    assert told(peer) == [Symbol("paused")]
    assert stalled(peer) == [("paused", "operator")]
    order(peer, ResumeLink(OUT))
    assert peer.bodies() == numbered(5)
    peer.broker.go_round(1.0)
    assert told(peer) == [None]
    assert stalled(peer) == []


def test_a_pause_takes_back_what_waits_for_the_window():
    peer = consuming()
    peer.grant(10, incoming_window=2)
    peer.broker.fill(numbered(5))
    assert peer.bodies() == numbered(2)
    order(peer, PauseLink(OUT))
    assert (peer.broker.ready(), peer.broker.unacknowledged()) == (3, 2)
    peer.flow(incoming_window=100)
    assert peer.bodies() == []
    order(peer, ResumeLink(OUT))
    assert peer.bodies() == numbered(3, first=2)


def test_a_drain_of_a_paused_link_is_answered_with_nothing():
    peer = consuming()
    peer.broker.fill(numbered(5))
    order(peer, PauseLink(OUT))
    peer.grant(10, drain=True)
    answer = peer.pick(Flow)
    assert (answer.link_credit, answer.delivery_count, answer.drain) == (0, 10, True)
    assert peer.bodies() == []


def test_a_paused_link_still_settles_and_echoes():
    peer = consuming()
    peer.grant(2)
    peer.broker.fill(numbered(2))
    order(peer, PauseLink(OUT))
    peer.dispose(0, 1)
    peer.grant(7, echo=True)
    assert peer.pick(Flow).link_credit == 7


def test_another_consumer_takes_what_a_paused_one_does_not():
    peer = consuming()
    peer.grant(10)
    order(peer, PauseLink(OUT))
    other = peer.broker.connect()
    other.begin()
    other.attach_receiver("/queues/q")
    other.grant(10)
    peer.broker.fill(numbered(4))
    assert (peer.bodies(), other.bodies()) == ([], numbered(4))


# --- consumers with a bound on what they hold unsettled
# ---------------------------------------------------------------------------------


def test_a_bounded_consumer_holds_so_many_messages_and_no_more():
    peer = consuming()
    order(peer, BoundLink(OUT, 3))
    peer.grant(100)
    peer.broker.fill(numbered(10))
    assert peer.bodies() == numbered(3)
    assert (peer.broker.ready(), peer.broker.unacknowledged()) == (7, 3)
    peer.dispose(0, 0, state=ACCEPTED)
    assert peer.bodies() == numbered(1, first=3)
    peer.dispose(1, 3, state=ACCEPTED)
    assert peer.bodies() == numbered(3, first=4)
    order(peer, BoundLink(OUT, None))
    assert peer.bodies() == numbered(3, first=7)


def test_one_consumer_that_does_not_settle_hoards_no_messages():
    slow = consuming()
    order(slow, BoundLink(OUT, 4))
    quick = slow.broker.connect()
    quick.begin()
    quick.attach_receiver("/queues/q", snd_settle_mode=1)
    for peer in (slow, quick):
        peer.grant(1000)
    slow.broker.fill(numbered(100))
    held, got = slow.bodies(), quick.bodies()
    assert (len(held), len(got)) == (4, 96)
    assert sorted(held + got) == sorted(numbered(100))


def test_a_bounded_consumer_is_stalled_while_messages_wait_for_its_settling():
    peer = consuming()
    order(peer, BoundLink(OUT, 2))
    peer.grant(10)
    peer.broker.fill(numbered(2))
    peer.broker.go_round(2.0)
    assert stalled(peer) == []
    peer.broker.fill(numbered(1, first=2))
    peer.broker.go_round(2.0)
    assert stalled(peer) == [("policy", "operator")]
    assert told(peer) == []  # the client ends it, by settling
    peer.dispose(0, 0, state=ACCEPTED)
    peer.broker.go_round(2.0)
    assert stalled(peer) == []


def test_a_bound_below_what_a_consumer_holds_lets_it_keep_that():
    peer = consuming()
    peer.grant(10, incoming_window=4)
    peer.broker.fill(numbered(8))
    assert peer.bodies() == numbered(4)
    order(peer, BoundLink(OUT, 2))
    assert (peer.broker.ready(), peer.broker.unacknowledged()) == (4, 4)
    peer.flow(incoming_window=100)
    peer.dispose(0, 1, state=ACCEPTED)
    assert peer.bodies() == []
    peer.dispose(2, 2, state=ACCEPTED)
    assert peer.bodies() == numbered(1, first=4)
    (row,) = peer.front_end.snapshot("links", peer.broker.now)
    assert (row["unsettled"], row["unsettled_max"], row["bound_by_operator"]) == (2, 2, 2)


def test_a_drain_of_a_bounded_consumer_brings_what_it_may_hold():
    peer = consuming()
    order(peer, BoundLink(OUT, 2))
    peer.broker.fill(numbered(5))
    peer.grant(10, drain=True)
    assert peer.bodies() == numbered(2)
    answer = peer.pick(Flow)
    assert (answer.link_credit, answer.delivery_count, answer.drain) == (0, 10, True)


def test_a_pause_and_a_bound_of_a_consumer_are_two_things():
    peer = consuming()
    order(peer, PauseLink(OUT))
    order(peer, BoundLink(OUT, 2))
    peer.grant(10)
    peer.broker.fill(numbered(5))
    assert peer.bodies() == []
    order(peer, ResumeLink(OUT))
    assert peer.bodies() == numbered(2)


def policed(most: int | None, broker: InProcessBroker) -> None:
    """Put a policy in force for the queue, or clear it."""
    if most is None:
        broker.engine.policies.clear("few")
    else:
        definition = {"max-unsettled": most}
        broker.engine.policies.set(
            PolicyDeclaration(name="few", pattern="^q$", priority=0, apply_to="queues", definition=definition)
        )
    broker.run()


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_a_policy_bounds_what_each_consumer_holds_and_changes_at_once(kind: str):
    broker = InProcessBroker(durable=True)
    broker.queue(x_queue_type=kind)
    policed(3, broker)
    peer = broker.connect()
    peer.begin()
    first = Described(Symbol(OFFSETS), "first")
    source = Source(address="/queues/q", filter={OFFSETS: first} if kind == "stream" else None)
    peer.attach_receiver("/queues/q", source=source)
    peer.grant(100)
    broker.fill(numbered(12))
    assert peer.bodies() == numbered(3)
    policed(5, broker)
    assert peer.bodies() == numbered(2, first=3)
    order(peer, BoundLink(OUT, 6))  # the policy's bound is lower
    assert peer.bodies() == []
    broker.go_round(2.0)
    assert stalled(peer) == [("policy", "policy of queue q")]
    policed(None, broker)
    assert peer.bodies() == numbered(1, first=5)
    order(peer, BoundLink(OUT, None))
    assert peer.bodies() == numbered(6, first=6)


bounded_steps = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), st.integers(0, 8)),
        st.tuples(st.just("fill"), st.integers(1, 8)),
        st.tuples(st.just("window"), st.integers(0, 4)),
        st.tuples(st.just("bound"), st.integers(1, 6)),
        st.tuples(st.just("settle"), st.integers(1, 6)),
        st.tuples(st.sampled_from(["unbound", "drain", "pause", "resume"]), st.none()),
    ),
    max_size=40,
)


@given(bounded_steps)
def test_whatever_the_bound_a_consumer_gets_every_message_once_in_order_and_holds_no_more(steps):
    peer = consuming()
    broker, filled, got, settled = peer.broker, 0, [], 0
    most, before = None, 0
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
                broker.fill(numbered(n, first=filled))
                filled += n
            case "bound":
                most = n
                order(peer, BoundLink(OUT, n))
            case "unbound":
                most = None
                order(peer, BoundLink(OUT, None))
            case "pause":
                order(peer, PauseLink(OUT))
            case "resume":
                order(peer, ResumeLink(OUT))
            case "settle" if settled < len(got):
                last = min(len(got), settled + n) - 1
                peer.dispose(settled, last, state=ACCEPTED)
                settled = last + 1
        got += peer.bodies()
        holds = len(got) - settled
        assert most is None or holds <= max(most, before)
        assert peer.link(1).unsettled == holds
        before = holds
    order(peer, BoundLink(OUT, None))
    order(peer, ResumeLink(OUT))
    got += peer.bodies()
    peer.grant(1000, incoming_window=1000)
    assert got + peer.bodies() == numbered(filled)


consumer_steps = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), st.integers(0, 8)),
        st.tuples(st.just("fill"), st.integers(1, 8)),
        st.tuples(st.just("window"), st.integers(0, 4)),
        st.tuples(st.sampled_from(["pause", "resume", "drain"]), st.none()),
    ),
    max_size=30,
)


@given(consumer_steps)
def test_whenever_it_is_paused_a_consumer_gets_every_message_once_in_order(steps):
    peer = consuming()
    broker, filled, got = peer.broker, 0, []
    paused = False
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
                broker.fill(numbered(n, first=filled))
                filled += n
            case "pause":
                order(peer, PauseLink(OUT))
                paused = True
            case "resume":
                order(peer, ResumeLink(OUT))
                paused = False
        came = peer.bodies()
        assert not (paused and came)
        got += came
    order(peer, ResumeLink(OUT))
    got += peer.bodies()
    peer.grant(1000, incoming_window=1000)
    last = peer.bodies()
    assert got + last == numbered(filled)
    assert peer.link(1).credit.link_credit == 1000 - len(last)  # only messages use it up


def test_a_message_that_is_partly_sent_is_sent_whole():
    peer = consuming()
    peer.grant(10, incoming_window=1)
    peer.broker.fill([b"a" * 100_000, b"b"])
    order(peer, PauseLink(OUT))
    peer.flow(incoming_window=100)
    assert body_of(b"".join(payload for _, payload in peer.deliveries())) == b"a" * 100_000
    order(peer, ResumeLink(OUT))
    assert peer.bodies() == [b"b"]


# --- ends, and orders that make no sense
# ---------------------------------------------------------------------------------


def test_a_link_is_closed_with_a_reason_and_its_messages_go_back():
    peer = consuming()
    peer.grant(2)
    peer.broker.fill(numbered(3))
    order(peer, CloseLink(OUT, "stuck"))
    detach = peer.pick(Detach)
    assert (detach.error.condition, detach.error.description) == ("amqp:link:detach-forced", "stuck")
    assert peer.broker.ready() == 3


def test_a_session_is_ended_with_a_reason():
    peer = consuming()
    peer.grant(2)
    peer.broker.fill(numbered(3))
    order(peer, CloseSession("test-0/0", "stuck"))
    assert peer.ended_with("amqp:link:detach-forced")
    assert peer.broker.ready() == 3
    assert peer.front_end.snapshot("sessions", peer.broker.now) == []


@pytest.mark.parametrize(
    "wrong", [PauseLink("test-0/0/9"), ResumeLink("test-0"), CloseLink("c", ""), CloseSession("test-0/9", "")]
)
def test_orders_for_links_that_do_not_exist(wrong):
    peer = consuming()
    with pytest.raises(NotFound):
        peer.front_end.check(wrong)
    peer.front_end.obey(wrong, peer.broker.now)  # as if it had gone between the order and its turn
    assert len(peer.front_end.snapshot("links", peer.broker.now)) == 1


def test_a_consumer_of_settled_messages_holds_none_that_could_be_limited():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(broker.queue(), snd_settle_mode=1)
    with pytest.raises(Invalid, match="sends settled messages"):
        peer.front_end.check(BoundLink(OUT, 5))
    peer.front_end.check(BoundLink(OUT, None))


def test_links_of_the_management_node_are_left_alone():
    peer = consuming()
    peer.attach_receiver("/management", handle=5, properties={"paired": True})
    with pytest.raises(Invalid, match="neither publishes nor consumes"):
        peer.front_end.check(PauseLink("test-0/0/5"))
