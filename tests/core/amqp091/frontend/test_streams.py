"""Streams for 0.9.1 consumers: where a consumer begins, what each message carries, and what a consumer must ask for."""

import pytest

from core.amqp091.methods import BasicConsume, BasicQos, BasicQosOk
from core.amqp091.properties import BasicProperties
from core.amqp091.table import Amqp091Timestamp
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect


@pytest.fixture
def peer() -> Wire091Peer:
    """A client with a stream q of ten messages, and a prefetch."""
    peer = connect(InProcessBroker(durable=True), 1, 2)
    peer.declare(durable=True, arguments={"x-queue-type": "stream"})
    peer.publish(2, numbered(10), routing_key="q")
    peer.call(1, BasicQos(prefetch_count=100), BasicQosOk)
    return peer


def offsets(peer: Wire091Peer) -> list[object]:
    return [(properties.headers or {})["x-stream-offset"] for _, properties, _ in peer.deliveries()]


@pytest.mark.parametrize(
    ("where", "first"),
    [
        ("first", 0),
        (0, 0),
        (7, 7),
        ("next", None),
        (Amqp091Timestamp(1_600_000_000), 0),
        (Amqp091Timestamp(1_800_000_000), None),
        ("1h", 0),
    ],
    ids=str,
)
def test_where_to_begin(peer: Wire091Peer, where: object, first: int | None):
    peer.consume(arguments={"x-stream-offset": where})
    assert offsets(peer) == ([] if first is None else list(range(first, 10)))


def test_without_a_word_it_begins_with_what_comes(peer: Wire091Peer):
    peer.consume()
    peer.publish(2, [b"new"], routing_key="q")
    assert offsets(peer) == [10]


@pytest.mark.parametrize("where", ["middle", -1, True, "7x", "xD"], ids=str)
def test_offsets_at_which_no_consumer_can_begin(peer: Wire091Peer, where: object):
    method = BasicConsume(queue="q", arguments={"x-stream-offset": where})  # type: ignore[dict-item]
    assert peer.refusal(1, method)[0] == 406


def test_reading_takes_nothing_away_and_the_prefetch_holds(peer: Wire091Peer):
    peer.call(1, BasicQos(prefetch_count=4), BasicQosOk)
    for tag in ("a", "b"):
        peer.consume(consumer_tag=tag, arguments={"x-stream-offset": "first"})
    assert sorted(peer.bodies()) == sorted(numbered(4) * 2)
    peer.ack(8, multiple=True)
    assert sorted(peer.bodies()) == sorted(numbered(4, 4) * 2)


def test_a_stream_wants_acknowledgements_and_a_prefetch(peer: Wire091Peer):
    assert peer.refusal(2, BasicConsume(queue="q"))[0] == 406
    assert peer.closed_with(1, BasicConsume(queue="q", no_ack=True)) == 540


def test_filters(peer: Wire091Peer):
    for value in ("red", "blue"):
        headers = {"x-stream-filter-value": value}
        peer.publish(2, [value.encode()], routing_key="q", properties=BasicProperties(headers=headers))  # type: ignore[arg-type]
    arguments = {"x-stream-offset": "first", "x-stream-filter": ["blue"]}
    peer.consume(arguments=arguments)
    assert b"blue" in peer.bodies()
    method = BasicConsume(queue="q", arguments={"x-stream-filter": [1]})
    assert peer.refusal(1, method)[0] == 406


def test_what_waits_behind_a_delivery_that_went_back_goes_back_too(peer: Wire091Peer):
    """The channel gets room while it takes deliveries that were made before: another queue is deleted."""
    peer.declare("other")
    peer.call(1, BasicQos(prefetch_count=2, global_=True), BasicQosOk)
    peer.consume(consumer_tag="mine")
    peer.consume("other", consumer_tag="other")
    peer.publish(2, numbered(2), routing_key="other")
    assert [method.consumer_tag for method, _, _ in peer.deliveries()] == ["other"] * 2
    peer.front_end.output_backlog(2**40)  # it takes no actions
    peer.broker.fill([b"10"])
    peer.broker.engine.begin_deleting_here("other", peer)
    peer.broker.fill([b"11"])
    peer.front_end.output_backlog(0)
    peer.touch()
    peer.broker.run()
    assert peer.bodies() == [b"10", b"11"]
