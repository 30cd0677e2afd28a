"""pika and python-qpid-proton on one queue: what one protocol's client publishes the other's consumes."""

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]


@pytest.fixture
def queue(channel, queue_name):
    """A new durable classic queue. The channel's publishes are confirmed, so a message is in the queue when publish
    returns."""
    channel.queue_declare(queue_name, durable=True)
    channel.confirm_delivery()
    yield queue_name
    channel.queue_delete(queue_name)


def test_from_pika_to_proton(channel, pika, peer, queue):
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="none",
        headers={"text": "x", "number": 7, "yes": True},
        delivery_mode=2,
        priority=3,
        correlation_id="correlation",
        message_id="message",
        timestamp=1_000_000_000,
        user_id="guest",
    )
    channel.basic_publish("", queue, b"body", sent)
    receiver = peer.receiver(f"/queues/{queue}")
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    message = got.message
    assert (message.body, message.durable, message.priority) == (b"body", True, 3)
    assert (message.content_type, message.content_encoding) == ("text/plain", "none")
    assert (message.id, message.correlation_id, message.user_id) == ("message", "correlation", b"guest")
    assert message.creation_time == 1_000_000_000
    assert message.properties == {"text": "x", "number": 7, "yes": True}


def test_from_proton_to_pika(channel, proton, peer, queue):
    message = proton.Message(
        body=b"body",
        inferred=True,
        id="message",
        correlation_id="correlation",
        content_type=proton.symbol("text/plain"),
        creation_time=1_000_000_000.0,
        durable=True,
        priority=7,
        properties={"text": "x", "number": 7, "yes": True},
    )
    sender = peer.sender(f"/queues/{queue}")
    peer.settled(peer.send(sender, message))
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (body, method.redelivered, method.routing_key) == (b"body", False, queue)
    assert (properties.delivery_mode, properties.priority) == (2, 7)
    assert (properties.message_id, properties.correlation_id) == ("message", "correlation")
    assert (properties.content_type, properties.timestamp) == ("text/plain", 1_000_000_000)
    assert properties.headers.items() >= {"text": "x", "number": 7, "yes": True}.items()


def test_order_is_kept_across_protocols(channel, proton, peer, queue):
    sender = peer.sender(f"/queues/{queue}")
    for number in range(0, 20, 2):
        channel.basic_publish("", queue, b"%d" % number)
        peer.settled(peer.send(sender, proton.Message(body=b"%d" % (number + 1), inferred=True)))
    receiver = peer.receiver(f"/queues/{queue}")
    receiver.flow(20)
    got = [bytes(got.message.body) for got in peer.take(receiver, 20)]
    assert got == [b"%d" % number for number in range(20)]
