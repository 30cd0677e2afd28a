"""Consumers of a 0.9.1 channel: what they get and when, how they end, and what becomes of their unacknowledged
messages."""

import pytest

from core.amqp091.framing import method_frame
from core.amqp091.frontend.consuming import beyond
from core.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    QueueDelete,
    QueueDeleteOk,
)
from core.amqp091.properties import BasicProperties
from core.interface import Delivered
from core.message import Attributes
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect


@pytest.fixture
def peer() -> Wire091Peer:
    """A client with an empty queue q and two channels; channel 2 is for publishing."""
    peer = connect(InProcessBroker(), 1, 2)
    peer.declare()
    return peer


def fill(peer: Wire091Peer, n: int, first: int = 0, queue: str = "q") -> None:
    """Publish messages that can be told apart."""
    peer.publish(2, numbered(n, first), routing_key=queue)


def prefetch(peer: Wire091Peer, count: int, *, channel: int = 1, whole: bool = False) -> None:
    """Send basic.qos, for later consumers or for the whole channel."""
    peer.call(channel, BasicQos(prefetch_count=count, global_=whole), BasicQosOk)


# --- deliveries


def test_a_delivery_says_where_it_comes_from(peer: Wire091Peer):
    peer.bind("amq.topic", "a.#")
    peer.publish(2, [b"by key"], exchange="amq.topic", routing_key="a.b")
    peer.publish(2, [b"straight"], routing_key="q")
    tag = peer.consume(consumer_tag="mine")
    assert tag == "mine"
    assert [method for method, _, _ in peer.deliveries()] == [
        BasicDeliver(consumer_tag="mine", delivery_tag=1, exchange="amq.topic", routing_key="a.b"),
        BasicDeliver(consumer_tag="mine", delivery_tag=2, exchange="", routing_key="q"),
    ]


def test_the_answer_comes_before_the_first_delivery(peer: Wire091Peer):
    fill(peer, 1)
    peer.send(1, BasicConsume(queue="q"))
    assert [type(method) for _, method, _ in peer.take()] == [BasicConsumeOk, BasicDeliver]


def test_without_an_answer_the_client_has_to_name_its_consumer(peer: Wire091Peer):
    fill(peer, 1)
    peer.send(1, BasicConsume(queue="q", consumer_tag="t", no_wait=True))
    assert [type(method) for _, method, _ in peer.take()] == [BasicDeliver]


def test_tags_that_the_server_chooses_differ(peer: Wire091Peer):
    tags = {peer.consume() for _ in range(5)}
    assert len(tags) == 5
    assert all(tag.startswith("amq.ctag-") for tag in tags)


def test_a_tag_that_is_in_use_closes_the_connection(peer: Wire091Peer):
    peer.consume(consumer_tag="t")
    peer.consume(channel=2, consumer_tag="t")
    assert peer.closed_with(1, BasicConsume(queue="q", consumer_tag="t")) == 530


def test_delivery_tags_count_over_all_consumers_of_a_channel(peer: Wire091Peer):
    peer.declare("other")
    peer.consume()
    peer.consume("other", no_ack=True)
    for queue in ("q", "other", "q"):
        fill(peer, 1, queue=queue)
    assert [method.delivery_tag for method, _, _ in peer.deliveries()] == [1, 2, 3]
    peer.ack(3, multiple=True)
    assert peer.broker.unacknowledged() == 0
    assert peer.take() == []


def test_what_needs_no_acknowledgement_is_gone_when_it_is_sent(peer: Wire091Peer):
    fill(peer, 1000)
    peer.consume(no_ack=True)
    assert peer.bodies() == numbered(1000)
    assert (peer.broker.ready(), peer.broker.unacknowledged()) == (0, 0)


def test_messages_go_round_among_the_consumers_of_a_queue(peer: Wire091Peer):
    prefetch(peer, 5)
    for tag in ("a", "b"):
        peer.consume(consumer_tag=tag)
    fill(peer, 10)
    counts = [method.consumer_tag for method, _, _ in peer.deliveries()]
    assert (counts.count("a"), counts.count("b")) == (5, 5)


# --- prefetch


def test_row_1_06_never_more_than_the_prefetch_is_outstanding(peer: Wire091Peer):
    fill(peer, 20)
    prefetch(peer, 3)
    peer.consume()
    assert peer.bodies() == numbered(3)
    for acknowledged in range(1, 18):
        peer.ack(acknowledged)
        assert peer.bodies() == numbered(1, acknowledged + 2)
        assert peer.broker.unacknowledged() == 3


def test_the_prefetch_is_of_consumers_that_come_later(peer: Wire091Peer):
    fill(peer, 100)
    prefetch(peer, 2)
    peer.consume(consumer_tag="few")
    prefetch(peer, 10)
    peer.consume(consumer_tag="more")
    tags = [method.consumer_tag for method, _, _ in peer.deliveries()]
    assert (tags.count("few"), tags.count("more")) == (2, 10)


def test_each_consumer_has_its_own_prefetch(peer: Wire091Peer):
    fill(peer, 100)
    prefetch(peer, 4)
    for tag in "abc":
        peer.consume(consumer_tag=tag)
    assert len(peer.bodies()) == 12


def test_a_prefetch_of_the_channel_is_shared(peer: Wire091Peer):
    fill(peer, 100)
    prefetch(peer, 5, whole=True)
    for tag in "abc":
        peer.consume(consumer_tag=tag)
    assert peer.bodies() == numbered(5)
    peer.ack(2, multiple=True)
    assert len(peer.bodies()) == 2
    assert peer.broker.unacknowledged() == 5


def test_the_prefetches_of_consumer_and_channel_both_hold(peer: Wire091Peer):
    fill(peer, 100)
    prefetch(peer, 3)
    prefetch(peer, 5, whole=True)
    for tag in "ab":
        peer.consume(consumer_tag=tag)
    tags = [method.consumer_tag for method, _, _ in peer.deliveries()]
    assert sorted([tags.count("a"), tags.count("b")]) == [2, 3]


def test_the_channels_prefetch_may_change_at_any_time(peer: Wire091Peer):
    fill(peer, 100)
    prefetch(peer, 2, whole=True)
    peer.consume()
    assert len(peer.bodies()) == 2
    prefetch(peer, 6, whole=True)
    assert len(peer.bodies()) == 4
    prefetch(peer, 3, whole=True)
    peer.ack(3, multiple=True)
    assert peer.bodies() == []
    peer.ack(4)
    assert peer.bodies() == numbered(1, 6)
    prefetch(peer, 0, whole=True)
    assert len(peer.bodies()) == 93


def test_the_channels_prefetch_serves_several_queues_in_turn(peer: Wire091Peer):
    """One message at a time from two backlogs; each queue gets its turn."""
    for queue in ("left", "right"):
        peer.declare(queue)
        fill(peer, 20, queue=queue)
    prefetch(peer, 1, whole=True)
    peer.consume("left")
    peer.consume("right")
    order = []
    for _ in range(10):
        ((method, _, _),) = peer.deliveries()
        order.append(method.routing_key)
        peer.ack(method.delivery_tag)
    assert abs(order.count("left") - order.count("right")) <= 2


def test_what_comes_beyond_the_channels_prefetch_was_never_sent(peer: Wire091Peer):
    prefetch(peer, 1, whole=True)
    peer.consume(consumer_tag="a")
    peer.consume(consumer_tag="b")
    fill(peer, 6)
    for number in range(6):
        ((method, _, body),) = peer.deliveries()
        assert (body, method.redelivered) == (b"%d" % number, False)
        peer.ack(method.delivery_tag)


def test_consumers_without_acknowledgements_know_no_prefetch(peer: Wire091Peer):
    fill(peer, 50)
    prefetch(peer, 1)
    prefetch(peer, 1, whole=True)
    peer.consume(no_ack=True)
    assert len(peer.bodies()) == 50


def test_a_prefetch_in_bytes_is_refused(peer: Wire091Peer):
    assert peer.closed_with(1, BasicQos(prefetch_size=1)) == 540


# --- acknowledgements


@pytest.mark.parametrize("tag", [0, 2, 2**64 - 1])
def test_an_unknown_delivery_tag_closes_the_channel(peer: Wire091Peer, tag: int):
    fill(peer, 1)
    peer.consume()
    peer.take()
    peer.ack(tag)
    close = peer.expect(ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (406, 60, 80)
    assert f"unknown delivery tag {tag}" in close.reply_text
    assert peer.broker.ready() == 1


@pytest.mark.parametrize(
    "again",
    [BasicReject(delivery_tag=1), BasicNack(delivery_tag=1), BasicNack(delivery_tag=1, multiple=True)],
    ids=str,
)
def test_an_acknowledged_delivery_tag_is_unknown(peer: Wire091Peer, again: BasicReject | BasicNack):
    fill(peer, 1)
    peer.consume()
    peer.take()
    peer.ack(1)
    assert peer.refusal(1, again)[0] == 406


def test_acknowledgements_before_an_unknown_one_hold(peer: Wire091Peer):
    fill(peer, 3)
    peer.consume()
    peer.take()
    peer.send_bytes(b"".join(method_frame(1, BasicAck(delivery_tag=tag)) for tag in (1, 2, 9)))
    assert peer.reopened(1)[0] == 406
    peer.consume()
    assert peer.bodies() == [b"2"]


def test_tag_0_means_everything(peer: Wire091Peer):
    fill(peer, 9)
    peer.consume()
    peer.take()
    peer.ack(0, multiple=True)
    assert peer.broker.unacknowledged() == 0
    peer.ack(0, multiple=True)
    assert peer.take() == []


@pytest.mark.parametrize("method", [BasicReject(delivery_tag=3), BasicNack(delivery_tag=3)], ids=str)
def test_what_is_requeued_comes_again_in_its_old_place(peer: Wire091Peer, method: BasicReject | BasicNack):
    fill(peer, 5)
    prefetch(peer, 4)
    peer.consume()
    assert peer.bodies() == numbered(4)
    peer.send(1, method)
    ((again, _, body),) = peer.deliveries()
    assert (body, again.redelivered, again.delivery_tag) == (b"2", True, 5)


def test_a_nack_of_several_goes_back_in_order(peer: Wire091Peer):
    fill(peer, 5)
    prefetch(peer, 3)
    peer.consume()
    assert peer.bodies() == numbered(3)
    other = connect(peer.broker)
    peer.send(1, BasicCancel(consumer_tag="none", no_wait=True))
    peer.send(1, BasicNack(delivery_tag=3, multiple=True))
    assert [(method.redelivered, body) for method, _, body in peer.deliveries()] == [(True, b) for b in numbered(3)]
    peer.disconnect()
    other.consume()
    assert [(method.redelivered, body) for method, _, body in other.deliveries()] == [
        (True, b"0"),
        (True, b"1"),
        (True, b"2"),
        (False, b"3"),
        (False, b"4"),
    ]


def test_what_is_rejected_is_dead_lettered_with_its_history(peer: Wire091Peer):
    peer.declare("dead")
    peer.declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    peer.publish(2, [b"m"], routing_key="work", properties=BasicProperties(headers={"mine": 1}))
    peer.consume("work", consumer_tag="w")
    peer.take()
    peer.send(1, BasicReject(delivery_tag=1, requeue=False))
    peer.consume("dead")
    ((method, properties, body),) = peer.deliveries()
    assert (method.exchange, method.routing_key, body) == ("", "dead", b"m")
    assert properties.headers is not None
    assert properties.headers["mine"] == 1
    (death,) = properties.headers["x-death"]  # type: ignore[union-attr]
    assert isinstance(death, dict)
    assert {key: death[key] for key in ("queue", "reason", "count", "exchange", "routing-keys")} == {
        "queue": "work",
        "reason": "rejected",
        "count": 1,
        "exchange": "",
        "routing-keys": ["work"],
    }
    assert properties.headers["x-first-death-queue"] == "work"


def test_what_expires_is_dead_lettered_without_its_expiration(peer: Wire091Peer):
    peer.declare("dead")
    peer.declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    peer.publish(2, [b"m"], routing_key="work", properties=BasicProperties(expiration="100"))
    peer.broker.advance(1.0)
    peer.consume("dead")
    ((_, properties, _),) = peer.deliveries()
    assert properties.expiration is None
    assert properties.headers is not None
    (death,) = properties.headers["x-death"]  # type: ignore[union-attr]
    assert isinstance(death, dict)
    assert (death["reason"], death["original-expiration"]) == ("expired", "100")


@pytest.mark.parametrize("method", [BasicRecover(requeue=True), BasicRecoverAsync(requeue=True)], ids=str)
def test_recover_brings_everything_back(peer: Wire091Peer, method: BasicRecover | BasicRecoverAsync):
    fill(peer, 3)
    peer.consume()
    assert peer.bodies() == numbered(3)
    peer.send(1, method)
    assert len(peer.methods(BasicRecoverOk)) == isinstance(method, BasicRecover)
    assert [(each.redelivered, body) for each, _, body in peer.deliveries()] == [(True, b) for b in numbered(3)]


@pytest.mark.parametrize("method", [BasicRecover(), BasicRecoverAsync()], ids=str)
def test_recover_without_requeue_is_refused(peer: Wire091Peer, method: BasicRecover | BasicRecoverAsync):
    assert peer.closed_with(1, method) == 540


def test_a_quorum_queue_counts_failed_attempts_and_gives_up_at_its_limit():
    peer = connect(InProcessBroker(durable=True), 1, 2)
    peer.declare(durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 2})
    peer.publish(2, [b"poison"], routing_key="q")
    peer.consume()
    counts = []
    for _ in range(3):
        ((method, properties, _),) = peer.deliveries()
        counts.append((properties.headers or {}).get("x-delivery-count"))
        peer.send(1, BasicReject(delivery_tag=method.delivery_tag))
    assert counts == [None, 1, 2]
    assert peer.deliveries() == []
    assert peer.broker.ready() == 0


# --- ends of consumers


def test_after_a_cancel_nothing_comes_and_what_came_can_be_acknowledged(peer: Wire091Peer):
    fill(peer, 5)
    prefetch(peer, 3)
    tag = peer.consume()
    assert peer.bodies() == numbered(3)
    assert peer.call(1, BasicCancel(consumer_tag=tag), BasicCancelOk).consumer_tag == tag
    assert (peer.broker.ready(), peer.broker.unacknowledged()) == (2, 3)
    peer.ack(2, multiple=True)
    assert peer.bodies() == []
    assert (peer.broker.ready(), peer.broker.unacknowledged()) == (2, 1)
    peer.send(1, BasicNack(delivery_tag=3))
    assert (peer.broker.ready(), peer.broker.unacknowledged()) == (3, 0)


def test_cancelling_what_is_not_there_is_no_fault(peer: Wire091Peer):
    assert peer.call(1, BasicCancel(consumer_tag="none"), BasicCancelOk).consumer_tag == "none"
    peer.send(1, BasicCancel(consumer_tag="none", no_wait=True))
    assert peer.take() == []


def test_a_tag_is_free_after_its_cancel(peer: Wire091Peer):
    fill(peer, 2)
    prefetch(peer, 1)
    for number in range(2):
        peer.consume(consumer_tag="t")
        assert peer.bodies() == numbered(1, number)
        peer.call(1, BasicCancel(consumer_tag="t"), BasicCancelOk)
    peer.ack(2, multiple=True)
    assert peer.broker.unacknowledged() == 0


@pytest.mark.parametrize("ending", ["closed channel", "closed by the broker", "lost connection"])
def test_what_is_not_acknowledged_goes_back_in_order(peer: Wire091Peer, ending: str):
    fill(peer, 6)
    prefetch(peer, 4)
    peer.consume()
    assert peer.bodies() == numbered(4)
    peer.ack(2)
    other = connect(peer.broker)
    match ending:
        case "closed channel":
            peer.call(1, ChannelClose(reply_code=200), ChannelCloseOk)
        case "closed by the broker":
            peer.ack(99)
        case _:
            peer.disconnect()
    other.consume()
    assert [(body, method.redelivered) for method, _, body in other.deliveries()] == [
        (b"0", True),
        (b"2", True),
        (b"3", True),
        (b"4", True),
        (b"5", False),
    ]


@pytest.mark.parametrize("told", [True, False])
def test_a_consumer_whose_queue_is_deleted(told: bool):
    peer = Wire091Peer(InProcessBroker())
    peer.open(1, 2, capabilities={"consumer_cancel_notify": told})
    peer.declare()
    fill(peer, 2)
    tag = peer.consume()
    peer.take()
    peer.call(2, QueueDelete(queue="q"), QueueDeleteOk)
    assert peer.take() == ([(1, BasicCancel(consumer_tag=tag, no_wait=True), None)] if told else [])
    peer.ack(2, multiple=True)
    assert peer.take() == [], "what it held can be acknowledged, and is nobody's"
    peer.declare()
    assert peer.consume(consumer_tag=tag) == tag


def test_a_getter_is_not_told_when_its_queue_is_deleted(peer: Wire091Peer):
    peer.send(1, BasicGet(queue="q"))
    assert peer.got() is None
    peer.call(2, QueueDelete(queue="q"), QueueDeleteOk)
    assert peer.take() == []


# --- several consumers


def test_an_exclusive_consumer_is_the_only_one(peer: Wire091Peer):
    tag = peer.consume(exclusive=True)
    assert peer.refusal(2, BasicConsume(queue="q"))[0] == 403
    peer.call(1, BasicCancel(consumer_tag=tag), BasicCancelOk)
    peer.consume()
    assert peer.refusal(2, BasicConsume(queue="q", exclusive=True))[0] == 403


def test_consuming_from_a_queue_that_does_not_exist(peer: Wire091Peer):
    assert peer.refusal(1, BasicConsume(queue="missing"))[0] == 404


def test_a_higher_priority_is_served_first(peer: Wire091Peer):
    prefetch(peer, 2)
    peer.consume(consumer_tag="low")
    peer.consume(consumer_tag="high", arguments={"x-priority": 5})
    fill(peer, 3)
    assert [method.consumer_tag for method, _, _ in peer.deliveries()] == ["high", "high", "low"]


@pytest.mark.parametrize("priority", ["high", True, 2**31], ids=str)
def test_an_invalid_priority(peer: Wire091Peer, priority: object):
    method = BasicConsume(queue="q", arguments={"x-priority": priority})  # type: ignore[dict-item]
    assert peer.refusal(1, method)[0] == 406


def test_a_single_active_consumer_and_the_one_behind_it(peer: Wire091Peer):
    peer.declare("single", arguments={"x-single-active-consumer": True})
    prefetch(peer, 2)
    peer.consume("single", consumer_tag="first")
    prefetch(peer, 2, channel=2)
    peer.consume("single", channel=2, consumer_tag="second")
    fill(peer, 4, queue="single")
    assert [(method.consumer_tag, body) for method, _, body in peer.deliveries()] == [("first", b"0"), ("first", b"1")]
    peer.call(1, ChannelClose(reply_code=200), ChannelCloseOk)
    assert [(method.consumer_tag, body) for method, _, body in peer.deliveries()] == [
        ("second", b"0"),
        ("second", b"1"),
    ]


def test_row_3_16_cancel_and_then_crash_reorders(peer: Wire091Peer):
    """The next consumer goes on behind the messages that the old one still holds. When the old one fails, they come
    back too late."""
    peer.declare("single", arguments={"x-single-active-consumer": True})
    fill(peer, 6, queue="single")
    prefetch(peer, 2)
    tag = peer.consume("single")
    assert peer.bodies() == [b"0", b"1"]
    following = connect(peer.broker)
    prefetch(following, 2)
    following.consume("single")
    assert following.bodies() == []
    peer.call(1, BasicCancel(consumer_tag=tag), BasicCancelOk)
    assert following.bodies() == [b"2", b"3"]
    peer.disconnect()
    following.ack(2, multiple=True)
    assert following.bodies() == [b"0", b"1"], "0 and 1 are handled after 2 and 3"


def test_row_3_16_closing_the_channel_keeps_the_order(peer: Wire091Peer):
    peer.declare("single", arguments={"x-single-active-consumer": True})
    fill(peer, 4, queue="single")
    prefetch(peer, 2)
    peer.consume("single")
    assert peer.bodies() == [b"0", b"1"]
    following = connect(peer.broker)
    following.consume("single")
    peer.call(1, ChannelClose(reply_code=200), ChannelCloseOk)
    assert following.bodies() == numbered(4)


def test_consumers_of_a_connection_are_bounded():
    settings = make_settings(amqp091={"consumers_max": 3})
    peer = connect(InProcessBroker(), 1, 2, settings=settings)
    peer.declare()
    tags = [peer.consume(channel=channel) for channel in (1, 1, 2)]
    assert peer.refusal(2, BasicConsume(queue="q"))[0] == 406
    peer.consume(channel=2)
    peer.send(1, BasicCancel(consumer_tag=tags[0], no_wait=True))
    peer.consume(channel=2)
    assert peer.refusal(1, BasicConsume(queue="q"))[0] == 406
    assert peer.broker.engine.queue_info("q", None).consumers == 2


@pytest.mark.parametrize("seconds", [0, -1, "soon", True], ids=str)
def test_an_invalid_time_for_acknowledgements(peer: Wire091Peer, seconds: object):
    method = BasicConsume(queue="q", arguments={"x-consumer-timeout": seconds})  # type: ignore[dict-item]
    assert peer.refusal(1, method)[0] == 406


def test_a_client_that_does_not_acknowledge_in_time_loses_its_channel(peer: Wire091Peer):
    peer.consume(arguments={"x-consumer-timeout": 60_000})
    fill(peer, 1)
    assert len(peer.bodies()) == 1
    peer.broker.advance(200.0)
    code, text = peer.reopened(1)
    assert (code, "timed out" in text) == (406, True)
    peer.consume()
    ((method, _, body),) = peer.deliveries()
    assert (body, method.redelivered) == (b"0", True)


def test_a_batch_of_large_messages_is_not_more_than_may_wait_for_the_socket():
    settings = make_settings(amqp091={"unsent_bytes_max": 2**17})
    broker = InProcessBroker()
    peer = connect(broker, settings=settings)
    publisher = connect(broker)
    peer.declare()
    peer.consume(no_ack=True)
    publisher.publish(1, [bytes(2**14)] * 300, routing_key="q")
    assert broker.ready() == 0
    peer.stop_reading()
    publisher.publish(1, [bytes(2**14)] * 600, routing_key="q")
    batch = 2**17 // 2**14
    assert 600 - 256 - 2 * batch <= broker.ready(), "what was granted before, and two batches"
    taken = 600 - broker.ready()
    peer.go_on_reading()
    assert broker.ready() == 0
    assert taken < 600


@pytest.mark.parametrize("sequences", [None, [7, 8, 9, 10]])
def test_a_delivery_is_cut_off_at_its_bytes(sequences):
    entries = [bytes(4), bytes(4), bytes(40), b""]
    action = Delivered(None, 5, list(entries), Attributes(), 0, True, sequences=sequences)  # type: ignore[arg-type]
    pieces, rest = [], beyond(action, 8)
    while rest is not None:
        pieces.append(action)
        action, rest = rest, beyond(rest, 8)
    pieces.append(action)
    assert [(piece.first, len(piece.entries)) for piece in pieces] == [(5, 2), (7, 1), (8, 1)]
    assert [entry for piece in pieces for entry in piece.entries] == entries
    assert [n for piece in pieces for n in piece.sequences or ()] == (sequences or [])
