"""A link to the anonymous terminus waits for the queues that it used last, while one of them is full, with adaptive
flow control."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.frontend.recent_queues import MESSAGES_MAX, QUEUES_MAX, RecentQueues
from amqp10.wire.sections import Properties, encode_properties
from amqp10.wire.types import Symbol
from core.interface import Mailbox, PublisherBlocked
from core.observe.why import why
from core.slices import run_at_once
from tests.amqp10.test_stalls import told
from tests.kit.looker import Looker
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, data_message

IN = "test-0/0/0"
FULL = {"x_max_length": 2, "x_overflow": "block"}


def relay(flow: str = "adaptive") -> WirePeer:
    """A client with a link to the anonymous terminus."""
    broker = InProcessBroker(make_settings(amqp10={"flow": flow}))
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(None)
    return peer


def publish(peer: WirePeer, queue: str, n: int = 1) -> None:
    payload = encode_properties(Properties(to=f"/queues/{queue}")) + data_message(b"x")
    peer.publish([b"x"] * n, payload=payload)


def use_up(peer: WirePeer, queue: str) -> None:
    """Publish all that the link credit allows, until there is none."""
    for _ in range(20):
        left = peer.link(0).credit.link_credit
        if not left:
            return
        publish(peer, queue, min(left, 100))
    raise AssertionError("there is always link credit")


def row(peer: WirePeer) -> dict[str, object]:
    return next(shown for shown in peer.front_end.snapshot("links", peer.broker.now) if shown["identity"] == IN)


def consume_all(peer: WirePeer, queue: str) -> None:
    consumer = peer.broker.connect()
    consumer.begin()
    consumer.attach_receiver(f"/queues/{queue}", snd_settle_mode=1)
    consumer.grant(100_000)


def recent(peer: WirePeer) -> RecentQueues:
    found = peer.link(0).reference.recent
    assert isinstance(found, RecentQueues)
    return found


def test_a_link_waits_while_a_queue_that_it_used_last_is_full_and_is_told_so():
    peer = relay()
    broker = peer.broker
    broker.queue("full", **FULL)
    use_up(peer, "full")
    assert (row(peer)["withheld"], row(peer)["full_queue"]) == (True, "full")
    taken = broker.ready("full")
    broker.go_round(1.0)
    assert [(stall["reason"], stall["culprit"]) for stall in broker.control.snapshot("stalls")] == [
        ("queue-full", "queue full")
    ]
    assert told(peer) == [Symbol("queue-full")]
    for ledger in (True, False):
        answer = run_at_once(why(Looker(broker, ledger=ledger), "links", IN))
        assert answer is not None
        assert (answer["reason"], answer["culprit"]) == ("queue-full", "queue full")
    assert peer.link(0).credit.unconfirmed == 0, "what came was taken on"
    assert taken > 2
    consume_all(peer, "full")
    broker.go_round(1.0)
    assert told(peer) == [None]
    assert peer.link(0).credit.link_credit > 0
    assert row(peer)["full_queue"] is None


def test_with_fixed_flow_control_the_link_keeps_its_link_credit():
    peer = relay("fixed")
    peer.broker.queue("full", **FULL)
    for _ in range(10):
        publish(peer, "full", 50)
    assert peer.broker.ready("full") == 500
    assert peer.link(0).credit.link_credit > 0
    assert (row(peer)["withheld"], row(peer)["full_queue"]) == (False, None)
    assert len(peer.broker.engine.snapshot("publishers")) == 1


def test_each_full_queue_has_to_take_messages_again():
    peer = relay()
    for name in ("a", "b"):
        peer.broker.queue(name, **FULL)
        publish(peer, name, 2)
    use_up(peer, "b")
    assert row(peer)["full_queue"] == "a"
    consume_all(peer, "a")
    assert row(peer)["full_queue"] == "b"
    assert peer.link(0).credit.link_credit == 0
    consume_all(peer, "b")
    assert row(peer)["full_queue"] is None
    assert peer.link(0).credit.link_credit > 0


def test_a_queue_that_was_not_used_lately_holds_nothing_up():
    peer = relay()
    peer.broker.queue("old", **FULL)
    peer.broker.queue("used")
    publish(peer, "old")
    publish(peer, "used", MESSAGES_MAX // 2)
    publish(peer, "used", MESSAGES_MAX // 2)
    peer.broker.fill([b"1", b"2"], "old")
    assert (row(peer)["withheld"], recent(peer).names) == (False, ["used"])
    publish(peer, "old")
    assert row(peer)["full_queue"] == "old"


def test_a_deleted_queue_holds_nothing_up_and_does_not_end_the_link():
    peer = relay()
    peer.broker.queue("full", **FULL)
    use_up(peer, "full")
    peer.broker.engine.delete_queue("full", peer.broker)
    peer.broker.run()
    assert peer.link(0).end.attached
    assert peer.link(0).credit.link_credit > 0
    assert (row(peer)["full_queue"], recent(peer).names) == (None, [])


def test_the_last_queues_count_and_the_engine_forgets_the_others():
    peer = relay()
    for number in range(QUEUES_MAX + 3):
        peer.broker.queue(f"q{number}")
        publish(peer, f"q{number}")
    publish(peer, "q5")
    peer.broker.queue("last")
    publish(peer, "last")
    assert set(recent(peer).names) == {"q4", "q5", "q6", "q7", "q8", "q9", "q10", "last"}
    assert len(peer.broker.engine.snapshot("publishers")) == 1 + QUEUES_MAX
    peer.detach(0)
    assert peer.broker.engine.snapshot("publishers") == []


def test_a_message_to_a_queue_that_is_not_there_is_rejected_as_before():
    peer = relay()
    for number in range(QUEUES_MAX):
        peer.broker.queue(f"q{number}")
        publish(peer, f"q{number}")
    publish(peer, "nowhere")
    assert (len(recent(peer).names), peer.link(0).end.attached) == (QUEUES_MAX, True)


def test_news_of_a_queue_that_counts_no_more_is_no_news():
    peer = relay()
    queues = recent(peer)
    peer.broker.queue("q")
    publish(peer, "q")
    (old,) = (queue.publisher for queue in queues._queues.values())
    queues.release()
    queues.told(PublisherBlocked(old, "queue-full"))
    assert (queues.full, queues.names) == (None, [])
    assert queues.gone(old)


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(1, 200), st.booleans()), max_size=60))
def test_no_more_queues_count_than_may_and_all_of_them_were_used_last(steps):
    broker = InProcessBroker()
    own = broker.engine.publisher(Mailbox(lambda: None), broker, None, None)
    queues, used, sent = RecentQueues(broker.engine, own), {}, 0
    for number in range(16):
        broker.queue(f"q{number}")
    for number, messages, full in steps:
        name = f"q{number}"
        sent += messages
        queues.used(name, messages)
        used[name] = sent
        if full:
            queues.told(PublisherBlocked(queues._queues[name].publisher, "queue-full"))
        assert name in queues.names
        assert len(queues.names) <= QUEUES_MAX
        last = sorted(used, key=used.__getitem__)[-len(queues.names) :]
        assert set(queues.names) == set(last)
        assert len(broker.engine.snapshot("publishers")) == 1 + len(queues.names)
    queues.release()
    assert len(broker.engine.snapshot("publishers")) == 1


@pytest.mark.parametrize("reason", [None, "queue-full"])
def test_news_sets_what_holds_the_link_up(reason):
    broker = InProcessBroker()
    broker.queue("q")
    own = broker.engine.publisher(Mailbox(lambda: None), broker, None, None)
    queues = RecentQueues(broker.engine, own)
    queues.used("q", 1)
    queues.told(PublisherBlocked(queues._queues["q"].publisher, "queue-full"))
    queues.told(PublisherBlocked(queues._queues["q"].publisher, reason))
    assert (queues.full is None) == (reason is None)


def test_a_full_queue_that_is_forgotten_holds_up_nothing():
    """The link publishes to so many other queues that the full one is none of those that it used last."""
    peer = relay()
    peer.broker.queue("full", **FULL)
    publish(peer, "full", 3)
    assert row(peer)["full_queue"] == "full"
    for number in range(QUEUES_MAX):
        peer.broker.queue(f"q{number}")
        publish(peer, f"q{number}")
    assert (row(peer)["full_queue"], row(peer)["withheld"]) == (None, False)
    left = peer.link(0).credit.link_credit
    publish(peer, "q0", left)
    assert peer.link(0).credit.link_credit > 0
