"""The life of 0.9.1 channels and connections: opening, slow channels, failures, closing, and the answers due to
each."""

import pytest

from core.amqp091.framing import method_frame
from core.amqp091.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect, published


def slow_channel(messages_per_turn: int, **fields: int) -> Wire091Peer:
    """A connection whose channels take on this many publishes in a turn."""
    settings = make_settings(engine={"stage_messages_per_turn": {"channel": messages_per_turn}}, amqp091={**fields})
    peer = connect(InProcessBroker(), 1, 2, settings=settings)
    peer.broker.queue("q")
    return peer


@pytest.fixture
def peer() -> Wire091Peer:
    return connect(InProcessBroker(), 1, 2)


def test_channel_flow_and_access_request(peer: Wire091Peer):
    assert peer.call(1, ChannelFlow(active=True), ChannelFlowOk).active
    assert peer.call(1, AccessRequest(), AccessRequestOk).ticket == 1
    assert peer.closed_with(1, ChannelFlow(active=False)) == 540


def test_a_failed_channel_is_deaf_until_its_close_is_answered(peer: Wire091Peer):
    peer.declare()
    peer.send_bytes(
        method_frame(1, QueuePurge(queue="missing"))
        + published(1, numbered(3), routing_key="q")
        + method_frame(1, QueueDeclare(queue="never"))
        + method_frame(2, QueueDeclare(queue="q"))
    )
    assert [(channel, type(method)) for channel, method, _ in peer.take()] == [(1, ChannelClose), (2, QueueDeclareOk)]
    assert peer.broker.ready() == 0
    peer.send(1, ChannelCloseOk(), ChannelOpen(), QueueDeclare(queue="q"))
    assert [type(method) for _, method, _ in peer.take()] == [ChannelOpenOk, QueueDeclareOk]


def test_a_failure_names_the_method(peer: Wire091Peer):
    peer.send(1, QueuePurge(queue="missing"))
    close = peer.pick(ChannelClose)
    assert (close.class_id, close.method_id) == QueuePurge.ID


def test_a_method_waits_behind_publishes_that_are_not_taken_on():
    peer = slow_channel(4)
    peer.send_bytes(published(1, numbered(10), routing_key="q") + method_frame(1, QueuePurge(queue="q")))
    assert peer.pick(QueuePurgeOk).message_count == 10


def test_a_close_is_answered_when_what_came_before_it_is_done():
    peer = slow_channel(1)
    peer.send_bytes(
        published(1, numbered(20), routing_key="q")
        + method_frame(1, BasicGet(queue="q", no_ack=True))
        + method_frame(1, ChannelClose(reply_code=200))
    )
    assert [type(method) for _, method, _ in peer.take()] == [BasicGetOk, ChannelCloseOk]
    assert peer.broker.ready() == 19


def test_closing_the_connection_loses_nothing_that_waits_in_a_slow_stage():
    peer = slow_channel(1)
    close = method_frame(0, ConnectionClose(reply_code=200))
    peer.send_bytes(published(1, numbered(20), routing_key="q") + published(2, numbered(20), routing_key="q") + close)
    assert isinstance(peer.take()[-1][1], ConnectionCloseOk)
    assert peer.lost
    assert peer.broker.ready() == 40


def test_a_connection_that_the_broker_closes_is_closing_until_the_client_answers(peer: Wire091Peer):
    (opened,) = peer.snapshots("connections")
    peer.front_end.shut_down("the operator asked for it", peer.broker.now)
    (closing,) = peer.snapshots("connections")
    assert (opened["state"], closing["state"]) == ("running", "closing")
    peer.send_bytes(method_frame(0, ConnectionCloseOk()))
    assert peer.lost


def test_a_stage_that_never_moves_holds_up_a_close_for_a_while_only():
    peer = slow_channel(0)
    peer.send_bytes(published(1, numbered(5), routing_key="q") + method_frame(0, ConnectionClose(reply_code=200)))
    assert peer.take() == []
    peer.broker.advance(6.0)
    assert peer.expect(ConnectionCloseOk) == ConnectionCloseOk()
    assert peer.lost


def test_a_connection_that_goes_drops_what_it_had_not_taken_on():
    peer = slow_channel(0)
    peer.publish(1, numbered(5), routing_key="q")
    peer.disconnect()
    assert peer.broker.ready() == 0
    assert peer.broker.engine.snapshot("publishers") == []


def test_methods_that_wait_behind_a_stage_are_bounded():
    peer = slow_channel(0, waiting_methods_max=50)
    peer.publish(1, numbered(1), routing_key="q")
    sent = 0
    while peer.front_end.reading and sent < 1000:
        peer.send(1, QueuePurge(queue="q"))
        sent += 1
    assert sent == 51
    assert peer.front_end.channels[1].waiting_publishes == 1


def test_methods_that_waited_are_all_answered_in_order():
    peer = slow_channel(1, waiting_methods_max=5)
    data = b"".join(
        published(1, [b"m"], routing_key="q") + method_frame(1, QueueDeclare(queue="q", passive=True))
        for _ in range(50)
    )
    peer.send_bytes(data)
    assert [answer.message_count for answer in peer.methods(QueueDeclareOk)] == list(range(1, 51))


def test_a_client_that_does_not_read_is_not_read_from():
    peer = slow_channel(100, unsent_bytes_max=10_000)
    peer.stop_reading()
    sent = 0
    while peer.front_end.reading and sent < 100_000:
        peer.send(1, *[QueueDeclare(queue="q", passive=True)] * 20)
        sent += 20
    assert peer.front_end.connection.output.size < 21_000
    peer.send(1, *[QueueDeclare(queue="q", passive=True)] * 20)
    peer.go_on_reading()
    assert peer.front_end.reading
    assert len(peer.methods(QueueDeclareOk)) == sent + 20


def test_an_answer_too_many_in_one_read_is_no_end():
    peer = slow_channel(100, unsent_bytes_max=1000)
    peer.send(1, *[QueueDeclare(queue="q", passive=True)] * 5000)
    assert len(peer.methods(QueueDeclareOk)) == 5000


def test_deliveries_stop_while_the_client_does_not_read():
    peer = slow_channel(1000, unsent_bytes_max=50_000)
    peer.broker.fill([bytes(1000)] * 2000)
    peer.stop_reading()
    peer.send(1, BasicConsume(queue="q", no_ack=True))
    assert peer.front_end.connection.output.size < 50_000 + 256 * 1100
    assert peer.broker.ready() > 1400
    peer.go_on_reading()
    assert len(peer.bodies()) == 2000


def test_a_published_content_may_be_interleaved_with_other_channels(peer: Wire091Peer):
    peer.declare()
    whole = published(1, [bytes(300_000)], routing_key="q")
    cut = len(method_frame(1, BasicPublish(routing_key="q"))) + 30
    first_frame_end = whole.index(b"\xce\x03\x00\x01\x00", cut - 20) + 1
    peer.send_bytes(whole[:first_frame_end])
    peer.publish(2, [b"between"], routing_key="q")
    peer.send_bytes(whole[first_frame_end:])
    assert peer.broker.ready() == 2


def test_everything_of_a_connection_goes_with_it(peer: Wire091Peer):
    peer.declare()
    peer.publish(1, numbered(3), routing_key="q")
    peer.consume(channel=2)
    peer.send(1, BasicGet(queue="q"))
    peer.disconnect()
    engine = peer.broker.engine
    assert engine.snapshot("consumers") == engine.snapshot("publishers") == []
    assert peer.broker.ready() == 3
