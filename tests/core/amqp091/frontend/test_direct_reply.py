"""Direct reply-to: requests and answers without a queue that a client declares."""

import pytest

from core.amqp091.frontend.direct_reply import DIRECT_REPLY_TO
from core.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    QueueDeclare,
    QueueDeclareOk,
)
from core.amqp091.properties import BasicProperties
from tests.kit.wire import InProcessBroker
from tests.kit.wire091 import Wire091Peer, connect

REQUEST = BasicProperties(reply_to=DIRECT_REPLY_TO, correlation_id="1")


@pytest.fixture
def client() -> Wire091Peer:
    """A client with two channels, and a server that consumes requests."""
    return connect(InProcessBroker(), 1, 2)


@pytest.fixture
def server(client: Wire091Peer) -> Wire091Peer:
    server = connect(client.broker)
    server.declare("requests")
    server.consume("requests", no_ack=True)
    return server


def reply_to(server: Wire091Peer) -> str:
    """The reply-to of the one request that has come."""
    ((_, properties, _),) = server.deliveries()
    assert properties.reply_to is not None
    return properties.reply_to


def test_a_request_and_its_answer_across_connections(client: Wire091Peer, server: Wire091Peer):
    client.consume(DIRECT_REPLY_TO, no_ack=True)
    client.publish(1, [b"?"], routing_key="requests", properties=REQUEST)
    address = reply_to(server)
    assert address.startswith(DIRECT_REPLY_TO + ".")
    server.publish(1, [b"!"], routing_key=address, properties=BasicProperties(correlation_id="1"))
    ((method, properties, body),) = client.deliveries()
    assert (method.exchange, body, properties.correlation_id) == ("", b"!", "1")


def test_each_channel_has_its_own_reply_queue(client: Wire091Peer, server: Wire091Peer):
    for channel in (1, 2):
        client.consume(DIRECT_REPLY_TO, channel=channel, no_ack=True)
    addresses = []
    for channel in (1, 2):
        client.publish(channel, [b"?"], routing_key="requests", properties=REQUEST)
        addresses.append(reply_to(server))
        server.publish(1, [b"!"], routing_key=addresses[-1])
        assert [where for where, _, _ in client.take()] == [channel]
    assert len(set(addresses)) == 2


def test_a_request_without_a_consumer_for_the_answer(client: Wire091Peer, server: Wire091Peer):
    client.publish(1, [b"?"], routing_key="requests", properties=REQUEST)
    assert client.reopened(1)[0] == 406
    client.consume(DIRECT_REPLY_TO, channel=2, no_ack=True)
    client.publish(1, [b"?"], routing_key="requests", properties=REQUEST)
    assert client.reopened(1)[0] == 406, "it must be the same channel"


def test_a_new_consumer_gets_the_answers_to_new_requests(client: Wire091Peer, server: Wire091Peer):
    addresses = []
    for _ in range(2):
        tag = client.consume(DIRECT_REPLY_TO, no_ack=True)
        client.publish(1, [b"?"], routing_key="requests", properties=REQUEST)
        addresses.append(reply_to(server))
        server.publish(1, [b"!"], routing_key=addresses[-1])
        assert client.bodies() == [b"!"]
        client.call(1, BasicCancel(consumer_tag=tag), BasicCancelOk)
    assert len(set(addresses)) == 2


def test_the_reply_queue_goes_with_its_channel(client: Wire091Peer, server: Wire091Peer):
    client.consume(DIRECT_REPLY_TO, no_ack=True)
    client.publish(1, [b"?"], routing_key="requests", properties=REQUEST)
    address = reply_to(server)
    assert server.call(1, QueueDeclare(queue=address, passive=True), QueueDeclareOk).consumer_count == 1
    client.call(1, ChannelClose(reply_code=200), ChannelCloseOk)
    assert server.refusal(1, QueueDeclare(queue=address, passive=True))[0] == 404
    client.call(1, ChannelOpen(), ChannelOpenOk)
    client.consume(DIRECT_REPLY_TO, no_ack=True)


def test_declaring_direct_reply_to_has_no_effect(client: Wire091Peer):
    for passive in (False, True):
        assert client.declare(DIRECT_REPLY_TO, passive=passive).queue == DIRECT_REPLY_TO
    assert client.broker.engine.snapshot("queues") == []


def test_direct_reply_to_needs_no_ack_and_takes_one_consumer(client: Wire091Peer):
    assert client.refusal(1, BasicConsume(queue=DIRECT_REPLY_TO))[0] == 406
    client.consume(DIRECT_REPLY_TO, no_ack=True)
    assert client.refusal(1, BasicConsume(queue=DIRECT_REPLY_TO, no_ack=True))[0] == 406


def test_an_answer_that_comes_too_late_is_mandatory_or_gone(client: Wire091Peer, server: Wire091Peer):
    client.consume(DIRECT_REPLY_TO, no_ack=True)
    client.publish(1, [b"?"], routing_key="requests", properties=REQUEST)
    address = reply_to(server)
    client.disconnect()
    server.publish(1, [b"!"], routing_key=address)
    assert server.take() == []
    server.publish(1, [b"!"], routing_key=address, mandatory=True)
    assert [body for _, body in server.returned()] == [b"!"]


def test_answered_by_a_client_of_amqp_1_0():
    broker = InProcessBroker()
    broker.queue("requests")
    client = connect(broker)
    server = broker.connect()
    server.begin()
    server.attach_receiver("/queues/requests")
    server.grant(10)
    client.consume(DIRECT_REPLY_TO, no_ack=True)
    client.publish(1, [b"?"], routing_key="requests", properties=REQUEST)
    ((_, payload),) = server.deliveries()
    start = payload.index(f"/queues/{DIRECT_REPLY_TO}".encode())
    address = payload[start : start + payload[start - 1]].decode()
    server.attach_sender(address, handle=5)
    server.transfer(b"!", handle=5)
    assert client.bodies() == [b"!"]
