"""python-qpid-proton: connections, sessions, addresses, and whole messages both ways."""

import time
from uuid import uuid4

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

MESSAGES = 10_000
FIELDS = (
    *("body", "id", "user_id", "address", "subject", "reply_to", "correlation_id", "content_type", "content_encoding"),
    *("expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id"),
    *("durable", "priority", "properties"),
)
UNAUTHORIZED = "amqp:unauthorized-access"


@pytest.mark.slow
def test_ten_thousand_messages_on_one_connection_and_one_session(peer, proton, queue):
    receiver = peer.receiver(queue)
    sender = peer.sender(queue)
    receiver.flow(200)
    deliveries, bodies = [], []

    def step():
        for _ in range(min(sender.credit, MESSAGES - len(deliveries))):
            deliveries.append(sender.send(proton.Message(body=len(deliveries))))
        arrived = peer.received.setdefault(receiver.name, [])
        for got in arrived:
            bodies.append(got.message.body)
            got.delivery.update(proton.Delivery.ACCEPTED)
            got.delivery.settle()
        if arrived:
            receiver.flow(len(arrived))
            arrived.clear()
        return len(bodies) == MESSAGES and all(delivery.settled for delivery in deliveries[-200:])

    peer.until(step, "all messages")
    assert bodies == list(range(MESSAGES))
    peer.settled(deliveries)
    assert {delivery.remote_state for delivery in deliveries} == {proton.Delivery.ACCEPTED}
    assert peer.request("GET", queue).body["message_count"] == 0
    receiver.close()
    peer.closed(receiver)
    assert peer.request("DELETE", queue).body == {"message_count": 0}  # nothing unsettled has come back


def test_what_a_message_is_made_of_arrives_as_it_was(peer, proton, queue):
    identity = uuid4()
    message = proton.Message(
        body={"list": [1, 2.5, None, True], "bytes": b"\x00\xff"},
        id=identity,
        user_id=b"guest",
        address="anywhere",
        subject="subject",
        reply_to="/queues/answers",
        correlation_id=proton.ulong(7),
        content_type=proton.symbol("text/plain"),
        content_encoding=proton.symbol("none"),
        expiry_time=2_000_000_000.0,
        creation_time=1_000_000_000.0,
        group_id="group",
        group_sequence=3,
        reply_to_group_id="answers",
        durable=True,
        priority=7,
        ttl=60.0,
        properties={"string": "x", "int": 1, "none": None, "time": proton.timestamp(1)},
        annotations={proton.symbol("x-opt-own"): "kept"},
    )
    peer.settled(peer.send(peer.sender(queue), message))
    receiver = peer.receiver(queue)
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    for field in FIELDS:
        assert getattr(got.message, field) == getattr(message, field), field
    assert got.message.annotations[proton.symbol("x-opt-own")] == "kept"
    assert got.message.first_acquirer


@pytest.mark.parametrize("body", [None, "", b"", 0, False, [], {}, "text", ["list", {"of": "maps"}]])
def test_bodies_of_every_kind(peer, proton, queue, body):
    peer.settled(peer.send(peer.sender(queue), proton.Message(body=body)))
    receiver = peer.receiver(queue)
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    assert got.message.body == body


@pytest.mark.parametrize("frame_size", [512, 4096, 131_072])
def test_messages_of_many_frames_both_ways(connect, proton, queue, frame_size):
    peer = connect(max_frame_size=frame_size).opened()
    body = bytes(range(256)) * 1024
    sender, receiver = peer.sender(queue), peer.receiver(queue)
    receiver.flow(3)
    deliveries = peer.send(sender, *(proton.Message(body=body + bytes([number])) for number in range(3)))
    got = peer.take(receiver, 3)
    assert [one.message.body for one in got] == [body + bytes([number]) for number in range(3)]
    peer.settled(deliveries)


def test_a_message_larger_than_the_broker_takes(peer, proton, queue):
    sender = peer.sender(queue)
    peer.attached(sender)
    peer.send(sender, proton.Message(body=bytes(sender.remote_max_message_size)))
    condition, description = peer.closed(sender)
    assert condition == "amqp:link:message-size-exceeded"
    assert str(sender.remote_max_message_size) in description


@pytest.mark.parametrize("settled", [False, True])
def test_settle_modes_of_a_publisher(peer, proton, queue, settled):
    sender = peer.sender(queue, snd_settle_mode=proton.Link.SND_SETTLED if settled else proton.Link.SND_UNSETTLED)
    peer.attached(sender)
    assert sender.remote_snd_settle_mode == sender.snd_settle_mode
    deliveries = peer.send(sender, proton.Message(body="one"))
    if not settled:
        peer.settled(deliveries)
    receiver = peer.receiver(queue)
    receiver.flow(1)
    assert peer.take(receiver, 1)[0].message.body == "one"


@pytest.mark.parametrize(
    ("snd", "rcv", "answered_snd"), [("UNSETTLED", "FIRST", "UNSETTLED"), ("SETTLED", "FIRST", "SETTLED")]
)
def test_settle_modes_of_a_consumer(peer, proton, queue, snd, rcv, answered_snd):
    peer.publish(queue, "one")
    receiver = peer.receiver(
        queue,
        snd_settle_mode=getattr(proton.Link, f"SND_{snd}"),
        rcv_settle_mode=getattr(proton.Link, f"RCV_{rcv}"),
    )
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    assert receiver.remote_snd_settle_mode == getattr(proton.Link, f"SND_{answered_snd}")
    assert got.delivery.settled == (answered_snd == "SETTLED")
    receiver.close()
    peer.closed(receiver)
    left = peer.request("GET", queue).body["message_count"]
    assert left == (0 if answered_snd == "SETTLED" else 1)


def test_rcv_settle_mode_second(peer, proton, queue):
    """The consumer sends the outcome first, and settles when the broker has settled."""
    peer.publish(queue, "one")
    receiver = peer.receiver(queue, rcv_settle_mode=proton.Link.RCV_SECOND)
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    assert receiver.remote_rcv_settle_mode == proton.Link.RCV_SECOND
    got.delivery.update(proton.Delivery.ACCEPTED)
    peer.until(lambda: got.delivery.settled, "the broker to settle")
    got.delivery.settle()
    receiver.close()
    peer.closed(receiver)
    assert peer.request("GET", queue).body["message_count"] == 0


# --- connections and sessions ----------------------------------------------------------------------------------------


def test_an_idle_time_out_of_half_a_second(connect):
    peer = connect(heartbeat=0.5).opened()  # proton announces half of its own
    end = time.monotonic() + 1.2
    peer.container.timeout = 0.1
    peer.until(lambda: time.monotonic() > end)
    assert peer.disconnected is None
    assert peer.connection.transport.frames_input > 4  # empty frames, as there was nothing else to send


@pytest.mark.slow
def test_a_wrong_password_is_told(connect, broker):
    peer = connect(broker.url("guest:wrong"))
    with pytest.raises(AssertionError, match=f"{UNAUTHORIZED}.*Authentication failed"):
        peer.opened()


def test_a_client_without_a_name_is_guest(connect, broker, proton, queue):
    peer = connect(broker.url(), allowed_mechs="ANONYMOUS").opened()
    sender = peer.sender(queue)
    peer.attached(sender)
    deliveries = peer.send(sender, proton.Message(body=1, user_id=b"guest"))
    peer.settled(deliveries)
    assert [delivery.remote_state for delivery in deliveries] == [proton.Delivery.ACCEPTED]
    peer.send(sender, proton.Message(body=1, user_id=b"other"))
    assert peer.closed(sender)[0] == UNAUTHORIZED


def test_the_default_virtual_host(connect):
    connect(virtual_host="vhost:/").opened()


def test_a_virtual_host_that_does_not_exist(connect):
    peer = connect(virtual_host="vhost:other")
    condition, description = peer.closed(peer.connection)
    assert condition == "amqp:not-found"
    assert "'other'" in description


def test_what_the_broker_says_of_itself(peer, proton):
    properties = peer.connection.remote_properties
    assert properties[proton.symbol("information")].startswith("Headgate ")
    assert {"LINK_PAIR_V1_0", "ANONYMOUS-RELAY"} <= {str(one) for one in peer.connection.remote_offered_capabilities}


def test_as_many_sessions_as_there_are_channels(peer, proton, queue):
    """Each session publishes and consumes on its own. A session that is ended does not affect the others."""
    sessions = [peer.session() for _ in range(63)]  # and the one that declared the queue
    senders = [peer.sender(queue, name=f"s{number}", session=session) for number, session in enumerate(sessions)]
    peer.attached(*senders)
    deliveries = [peer.send(sender, proton.Message(body=number))[0] for number, sender in enumerate(senders)]
    peer.settled(deliveries)
    for session in sessions[::2]:
        session.close()
    for session in sessions[::2]:
        peer.closed(session)
    receivers = [
        peer.receiver(queue, name=f"r{number}", session=session) for number, session in enumerate(sessions[1::2])
    ]
    peer.attached(*receivers)
    for receiver in receivers:
        receiver.flow(3)
    peer.until(lambda: sum(map(len, peer.received.values())) == 63, "all messages")
    bodies = [got.message.body for receiver in receivers for got in peer.received[receiver.name]]
    assert sorted(bodies) == list(range(63))


def test_the_blocking_connection_of_the_examples(broker, proton, queue):
    from proton.utils import BlockingConnection

    connection = BlockingConnection(broker.url(), timeout=10)
    sender = connection.create_sender(queue)
    receiver = connection.create_receiver(queue)
    for number in range(5):
        delivery = sender.send(proton.Message(body=number))
        assert delivery.remote_state == proton.Delivery.ACCEPTED
    for number in range(5):
        assert receiver.receive(timeout=10).body == number
        receiver.accept()
    connection.close()


@pytest.mark.parametrize("role", ["create_sender", "create_receiver"])
def test_the_blocking_connection_tells_why_an_attach_is_refused(broker, role):
    from proton.utils import BlockingConnection, LinkDetached

    connection = BlockingConnection(broker.url(), timeout=10)
    with pytest.raises(LinkDetached, match="there is no queue 'nowhere'"):
        getattr(connection, role)("/queues/nowhere")
    connection.create_sender(None)  # session and connection are still open
    connection.close()


@pytest.mark.parametrize("asked", ["copy", "selector", "temporary topic"])
def test_the_blocking_connection_tells_what_a_queue_does_not_do(broker, proton, queue, asked):
    from proton.reactor import Copy, LinkOption, Selector
    from proton.utils import BlockingConnection, LinkDetached

    class TemporaryTopic(LinkOption):
        def apply(self, link):
            link.source.capabilities.put_object(proton.symbol("temporary-topic"))

    connection = BlockingConnection(broker.url(), timeout=10)
    option = {"copy": Copy(), "selector": Selector("color = 'red'"), "temporary topic": TemporaryTopic()}[asked]
    dynamic = asked == "temporary topic"
    with pytest.raises(LinkDetached, match="amqp:not-implemented"):
        connection.create_receiver(None if dynamic else queue, options=option, dynamic=dynamic)
    connection.create_receiver(None, dynamic=True)
    connection.close()


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "condition", "text"),
    [
        ("/queues/nowhere", "amqp:not-found", "there is no queue 'nowhere'"),
        ("/exchanges/nowhere", "amqp:not-found", "nowhere"),
        ("/queues/", "amqp:invalid-field", "the queue name is empty"),
        ("/queues/a b", "amqp:invalid-field", "must be percent-encoded"),
        ("orders", "amqp:invalid-field", "here perhaps '/queues/orders'"),
    ],
)
def test_a_publisher_at_a_bad_address(peer, address, condition, text):
    sender = peer.sender(address)
    told, description = peer.closed(sender)
    assert told == condition
    assert text in description
    assert sender.remote_target.address is None


@pytest.mark.parametrize(
    ("address", "condition", "text"),
    [
        ("/queues/nowhere", "amqp:not-found", "there is no queue 'nowhere'"),
        ("/exchanges/amq.topic", "amqp:invalid-field", "an exchange keeps no messages"),
        ("orders", "amqp:invalid-field", "here perhaps '/queues/orders'"),
    ],
)
def test_a_consumer_at_a_bad_address(peer, address, condition, text):
    receiver = peer.receiver(address)
    told, description = peer.closed(receiver)
    assert told == condition
    assert text in description


def test_request_and_reply_through_a_dynamic_node(peer, connect, proton, queue):
    answers = peer.receiver(None)
    peer.attached(answers)
    address = answers.remote_source.address
    assert address.startswith("/queues/amq.dyn-")
    answers.flow(1)
    peer.settled(peer.send(peer.sender(queue), proton.Message(body="question", reply_to=address, correlation_id="1")))

    server = connect().opened()
    requests = server.receiver(queue)
    requests.flow(1)
    (request,) = server.take(requests, 1)
    answer = proton.Message(body="answer", address=request.message.reply_to, correlation_id="1")
    server.settled(server.send(server.sender(None), answer))

    (got,) = peer.take(answers, 1)
    assert (got.message.body, got.message.correlation_id) == ("answer", "1")
    answers.close()
    peer.closed(answers)
    assert peer.closed(peer.sender(address))[0] == "amqp:not-found"  # the node was deleted with its link


def test_an_anonymous_sender(peer, proton, queue):
    sender = peer.sender(None)
    to_the_queue, to_nowhere, without = peer.send(
        sender,
        proton.Message(body=1, address=queue),
        proton.Message(body=2, address="/queues/nowhere"),
        proton.Message(body=3),
    )
    peer.settled([to_the_queue, to_nowhere, without])
    assert to_the_queue.remote_state == proton.Delivery.ACCEPTED
    assert to_nowhere.remote_state == proton.Delivery.REJECTED
    assert to_nowhere.remote.condition.description == "there is no queue 'nowhere'"
    assert without.remote_state == proton.Delivery.REJECTED
    assert "'to'" in without.remote.condition.description
    receiver = peer.receiver(queue)
    receiver.flow(3)
    assert [got.message.body for got in peer.drain(receiver)] == [1]


def test_an_unroutable_message_is_released(peer, proton):
    (delivery,) = peer.send(peer.sender("/exchanges/amq.direct/nobody"), proton.Message(body=1))
    peer.settled([delivery])
    assert delivery.remote_state == proton.Delivery.RELEASED
