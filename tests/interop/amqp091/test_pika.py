"""pika: queues and messages, from publish to acknowledgement, on Headgate's AMQP 0.9.1 side."""

import datetime
from decimal import Decimal

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

WAIT_S = 20.0
"""How long a test waits for a message before it fails."""
FRAME_OVERHEAD = 8
"""The bytes of a frame that are not its payload [0-9-1 4.2.3]."""
PROPERTIES = (
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to"),
    *("expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"),
)


@pytest.fixture
def queue(channel, queue_name):
    """A new durable classic queue. The channel's publishes are confirmed, so a message is in the queue when publish
    returns."""
    channel.queue_declare(queue_name, durable=True)
    channel.confirm_delivery()
    yield queue_name
    if channel.is_open:
        channel.queue_delete(queue_name)


def publish(channel, queue, *bodies, exchange="", properties=None):
    for body in bodies:
        channel.basic_publish(exchange, queue, body, properties)


def get(channel, queue, *, auto_ack=True):
    """The body of one message from the queue, or None."""
    return channel.basic_get(queue, auto_ack=auto_ack)[2]


def take(channel, queue, n, **options):
    """Consume until there are n messages: (method, properties, body) of each. Nothing is acknowledged here."""
    taken = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=WAIT_S, **options):
        assert method is not None, f"only {len(taken)} messages came"
        taken.append((method, properties, body))
        if len(taken) == n:
            return taken
    raise AssertionError("the consumer was cancelled")


def until(connection, condition, what):
    """Read from the broker until the condition holds."""
    for _ in range(100):
        if condition():
            return
        connection.process_data_events(time_limit=WAIT_S / 100)
    raise AssertionError(f"no {what} within {WAIT_S} s")


def ready(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


# --- publishing and consuming ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue_type", "consumed_from"), [("classic", {}), ("quorum", {}), ("stream", {"x-stream-offset": "first"})]
)
def test_confirmed_messages_are_consumed_in_order(opened, queue_name, queue_type, consumed_from):
    publisher, consumer = opened().channel(), opened().channel()
    publisher.queue_declare(queue_name, durable=True, arguments={"x-queue-type": queue_type})
    publisher.confirm_delivery()
    bodies = [b"%d" % number for number in range(500)]
    publish(publisher, queue_name, *bodies)
    consumer.basic_qos(prefetch_count=50)
    got = []
    for method, _properties, body in consumer.consume(queue_name, inactivity_timeout=WAIT_S, arguments=consumed_from):
        got.append(body)
        if method.delivery_tag % 25 == 0:
            consumer.basic_ack(method.delivery_tag, multiple=True)
        if len(got) == len(bodies):
            break
    assert got == bodies
    consumer.cancel()
    if queue_type != "stream":
        assert ready(publisher, queue_name) == 0
    publisher.queue_delete(queue_name)


def test_properties_and_headers_arrive_as_they_were(channel, pika, queue):
    headers = {
        "text": "täxt",
        "bytes": b"\x00\xff",
        "true": True,
        "small": 7,
        "negative": -(2**31),
        "long": 2**40,
        "decimal": Decimal("12.34"),
        "time": datetime.datetime(2020, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
        "none": None,
        "list": [1, "two", [3], {"four": 4}],
        "table": {"deep": {"deeper": ["x"]}},
    }
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="none",
        headers=headers,
        delivery_mode=2,
        priority=3,
        correlation_id="correlation",
        reply_to="answers",
        expiration="600000",
        message_id="message",
        timestamp=1_000_000_000,
        type="type",
        user_id="guest",
        app_id="application",
        cluster_id="cluster",
    )
    publish(channel, queue, b"body", properties=sent)
    _method, got, body = channel.basic_get(queue, auto_ack=True)
    assert body == b"body"
    assert {name: getattr(got, name) for name in PROPERTIES} == {name: getattr(sent, name) for name in PROPERTIES}


@pytest.mark.parametrize("frame_max", [8192, 131072])
def test_bodies_of_no_one_and_many_frames(opened, queue_name, frame_max):
    channel = opened(frame_max=frame_max).channel()
    channel.queue_declare(queue_name, exclusive=True)
    payload = frame_max - FRAME_OVERHEAD
    sizes = [0, 1, payload - 1, payload, payload + 1, 3 * payload, 1_000_000]
    bodies = [bytes([n]) * size for n, size in enumerate(sizes)]
    publish(channel, queue_name, *bodies)
    assert [body for _, _, body in take(channel, queue_name, len(bodies), auto_ack=True)] == bodies


def test_a_delivery_says_where_it_came_from(channel, queue, queue_name):
    channel.queue_bind(queue, "amq.direct", routing_key="key")
    publish(channel, "key", b"bound", exchange="amq.direct")
    publish(channel, queue, b"direct")
    (first, *_), (second, *_) = take(channel, queue, 2, auto_ack=True)
    assert (first.exchange, first.routing_key, first.delivery_tag, first.redelivered) == ("amq.direct", "key", 1, False)
    assert (second.exchange, second.routing_key, second.delivery_tag) == ("", queue, 2)
    assert first.consumer_tag == second.consumer_tag


# --- confirms and returns --------------------------------------------------------------------------------------------


def test_an_unroutable_mandatory_message_is_returned_and_then_confirmed(channel, pika):
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError) as raised:
        channel.basic_publish("amq.direct", "nobody", b"back", pika.BasicProperties(app_id="kept"), mandatory=True)
    (returned,) = raised.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", "nobody")
    assert (returned.body, returned.properties.app_id) == (b"back", "kept")
    channel.basic_publish("amq.direct", "nobody", b"dropped")  # not mandatory: confirmed and dropped


def test_returns_come_without_confirms_too(connection, channel):
    returned = []
    channel.add_on_return_callback(lambda *message: returned.append(message[3]))
    channel.basic_publish("", "no-such-queue", b"back", mandatory=True)
    until(connection, lambda: returned, "return")
    assert returned == [b"back"]


def test_a_full_queue_that_rejects_is_a_nack(channel, pika, queue_name):
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(queue_name, exclusive=True, arguments=arguments)
    channel.confirm_delivery()
    publish(channel, queue_name, b"fits")
    with pytest.raises(pika.exceptions.NackError):
        publish(channel, queue_name, b"does not fit")
    assert get(channel, queue_name) == b"fits"
    publish(channel, queue_name, b"fits again")


# --- get, acknowledge, requeue, prefetch -----------------------------------------------------------------------------


def test_get_tells_how_many_are_left(channel, queue):
    assert channel.basic_get(queue) == (None, None, None)
    publish(channel, queue, b"one", b"two", b"three")
    method, _properties, body = channel.basic_get(queue)
    assert (body, method.message_count, method.redelivered, method.routing_key) == (b"one", 2, False, queue)
    assert ready(channel, queue) == 2  # an unacknowledged message is not ready
    channel.basic_ack(method.delivery_tag)
    assert channel.queue_purge(queue).method.message_count == 2
    assert get(channel, queue) is None


@pytest.mark.parametrize("give_back", ["nack", "recover", "close"])
def test_what_is_given_back_comes_again_in_order(connection, channel, queue, give_back):
    publish(channel, queue, b"one", b"two", b"three", b"four")
    taker = connection.channel()
    tags = [taker.basic_get(queue)[0].delivery_tag for _ in range(3)]
    if give_back == "nack":
        taker.basic_nack(tags[-1], multiple=True)
    elif give_back == "recover":
        taker.basic_recover(requeue=True)
    else:
        taker.close()
    until(connection, lambda: ready(channel, queue) == 4, "message back")
    again = take(channel, queue, 4, auto_ack=True)
    assert [(body, method.redelivered) for method, _, body in again] == [
        (b"one", True),
        (b"two", True),
        (b"three", True),
        (b"four", False),
    ]


def test_rejected_messages_are_dead_lettered_with_the_reason(channel, queue_name):
    letters = channel.queue_declare("", exclusive=True).method.queue
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
    channel.queue_declare(queue_name, exclusive=True, arguments=arguments)
    publish(channel, queue_name, b"one", b"two")
    first = channel.basic_get(queue_name)[0]
    channel.basic_reject(first.delivery_tag, requeue=False)
    second = channel.basic_get(queue_name)[0]
    channel.basic_nack(second.delivery_tag, requeue=False)
    (_, one, body), (_, two, _) = take(channel, letters, 2, auto_ack=True)
    assert body == b"one"
    for headers in (one.headers, two.headers):
        (death,) = headers["x-death"]
        assert (death["queue"], death["reason"], death["count"]) == (queue_name, "rejected", 1)
        assert (death["exchange"], death["routing-keys"]) == ("", [queue_name])
        assert (headers["x-first-death-queue"], headers["x-first-death-reason"]) == (queue_name, "rejected")


def test_an_expired_message_is_dead_lettered(channel, pika, queue_name):
    letters = channel.queue_declare("", exclusive=True).method.queue
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
    channel.queue_declare(queue_name, exclusive=True, arguments=arguments)
    publish(channel, queue_name, b"late", properties=pika.BasicProperties(expiration="0"))
    ((_, properties, body),) = take(channel, letters, 1, auto_ack=True)
    assert body == b"late"
    (death,) = properties.headers["x-death"]
    assert (death["reason"], death["original-expiration"]) == ("expired", "0")
    assert properties.expiration is None  # otherwise it would expire in the next queue, too


def test_prefetch_counts_for_each_new_consumer(connection, channel, queue):
    publish(channel, queue, *[b"x"] * 10)
    got = {"a": [], "b": []}
    for tag in got:
        channel.basic_qos(prefetch_count=3)
        channel.basic_consume(
            queue, lambda _c, method, _p, _b, to=got[tag]: to.append(method.delivery_tag), False, consumer_tag=tag
        )
    until(connection, lambda: len(got["a"]) + len(got["b"]) == 6, "six deliveries")
    assert ready(channel, queue) == 4  # its answer comes behind every delivery that was due
    assert [len(tags) for tags in got.values()] == [3, 3]
    channel.basic_ack(got["a"][0])
    until(connection, lambda: len(got["a"]) == 4, "one more")
    assert ready(channel, queue) == 3


def test_global_prefetch_is_shared_by_the_channels_consumers(connection, channel, queue):
    channel.basic_qos(prefetch_count=4, global_qos=True)
    got = []
    for _ in range(2):
        channel.basic_consume(queue, lambda _c, method, _p, _b: got.append(method.delivery_tag))
    publish(channel, queue, *[b"x"] * 10)
    until(connection, lambda: len(got) == 4, "four deliveries")
    assert ready(channel, queue) == 6
    channel.basic_ack(max(got), multiple=True)
    until(connection, lambda: len(got) == 8, "four more")
    assert ready(channel, queue) == 2


# --- consumers -------------------------------------------------------------------------------------------------------


def test_a_cancelled_consumer_keeps_what_it_has(connection, channel, queue):
    publish(channel, queue, b"one", b"two")
    channel.basic_qos(prefetch_count=1)
    got = []
    tag = channel.basic_consume(queue, lambda _c, method, _p, _b: got.append(method.delivery_tag))
    until(connection, lambda: got, "delivery")
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 1
    channel.basic_cancel(tag)
    counts = channel.queue_declare(queue, passive=True).method
    assert (counts.consumer_count, counts.message_count) == (0, 1)
    channel.basic_ack(got[0])
    assert get(channel, queue) == b"two"
    assert get(channel, queue) is None


def test_consumers_are_told_when_their_queue_goes(connection, channel, queue_name):
    channel.queue_declare(queue_name)
    cancelled = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue_name, lambda *_: None)
    connection.channel().queue_delete(queue_name)
    until(connection, lambda: cancelled, "cancel")
    assert cancelled == [tag]


def test_an_exclusive_consumer_is_alone(connection, channel, pika, queue):
    channel.basic_consume(queue, lambda *_: None, exclusive=True)
    other = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:
        other.basic_consume(queue, lambda *_: None)
    assert raised.value.reply_code == 403


def test_higher_priorities_come_first(channel, pika, queue_name):
    channel.queue_declare(queue_name, exclusive=True, arguments={"x-max-priority": 5})
    for priority in (1, 5, 3, 5):
        publish(channel, queue_name, b"%d" % priority, properties=pika.BasicProperties(priority=priority))
    assert [get(channel, queue_name) for _ in range(4)] == [b"5", b"5", b"3", b"1"]


def test_the_consumer_of_higher_priority_is_served_first(connection, channel, queue):
    got = {0: [], 10: []}
    for priority in got:
        channel.basic_consume(
            queue,
            lambda _c, _m, _p, body, to=got[priority]: to.append(body),
            auto_ack=True,
            arguments={"x-priority": priority},
        )
    publish(channel, queue, *[b"x"] * 10)
    until(connection, lambda: len(got[0]) + len(got[10]) == 10, "ten deliveries")
    assert (len(got[0]), len(got[10])) == (0, 10)


# --- transactions ----------------------------------------------------------------------------------------------------


def test_a_transaction_is_published_and_acknowledged_as_a_whole(channel, connection, queue):
    publish(channel, queue, b"before")
    taker = connection.channel()
    taker.tx_select()
    method, _, _ = taker.basic_get(queue)
    taker.basic_ack(method.delivery_tag)
    publish(taker, queue, b"one", b"two")
    assert ready(channel, queue) == 0  # the transaction has done nothing yet
    taker.tx_rollback()
    taker.basic_ack(method.delivery_tag)  # the rollback took the acknowledgement back, not the message
    publish(taker, queue, b"three")
    taker.tx_commit()
    taker.close()
    assert [get(channel, queue), get(channel, queue)] == [b"three", None]


@pytest.mark.parametrize("first", ["tx", "confirm"])
def test_a_channel_has_transactions_or_confirms(channel, pika, first):
    select = [channel.tx_select, channel.confirm_delivery]
    if first == "confirm":
        select.reverse()
    select[0]()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:
        select[1]()
    assert raised.value.reply_code == 406


# --- direct reply-to, CC and BCC -------------------------------------------------------------------------------------


def test_a_question_and_its_answer_without_a_queue(opened, pika, queue_name):
    asking, answering = opened(), opened().channel()
    answering.queue_declare(queue_name, exclusive=False, auto_delete=True)
    channel = asking.channel()
    answers = []
    channel.basic_consume(
        "amq.rabbitmq.reply-to",
        lambda _c, method, properties, body: answers.append((method.exchange, properties.correlation_id, body)),
        auto_ack=True,
    )
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    publish(channel, queue_name, b"question", properties=properties)
    ((_, question, _),) = take(answering, queue_name, 1, auto_ack=True)
    assert question.reply_to.startswith("amq.rabbitmq.reply-to.")
    publish(answering, question.reply_to, b"answer", properties=pika.BasicProperties(correlation_id="7"))
    until(asking, lambda: answers, "answer")
    assert answers == [("", "7", b"answer")]


def test_replies_need_a_consumer_without_acknowledgement_and_there_before(connection, pika, queue):
    for refused in (
        lambda channel: channel.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=False),
        lambda channel: publish_and_wait(
            channel, queue, b"no one listens", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
        ),
    ):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:
            refused(connection.channel())
        assert raised.value.reply_code == 406


def publish_and_wait(channel, queue, body, properties=None, exchange=""):
    """Publish, and then wait for the answer to another method: a fault has come by then."""
    publish(channel, queue, body, exchange=exchange, properties=properties)
    channel.basic_qos(prefetch_count=0)


def test_copies_open_and_blind(channel, pika):
    first, second, third = (channel.queue_declare("", exclusive=True).method.queue for _ in range(3))
    properties = pika.BasicProperties(headers={"CC": [second], "BCC": [third], "own": 1})
    publish(channel, first, b"copied", properties=properties)
    for queue in (first, second, third):
        _method, got, body = channel.basic_get(queue, auto_ack=True)
        assert body == b"copied"
        assert got.headers == {"CC": [second], "own": 1}
