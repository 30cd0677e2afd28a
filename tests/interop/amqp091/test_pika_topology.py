"""pika: connections, exchanges, queues and their faults, on Headgate's AMQP 0.9.1 side."""

import pytest

from tests.kit.command_line import run_here

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

WAIT_S = 20.0
"""How long a test waits for an event before it fails."""
CAPABILITIES = {
    *("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify"),
    *("connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos"),
    "direct_reply_to",
}


def until(connection, condition, what):
    """Read from the broker until the condition holds."""
    for _ in range(100):
        if condition():
            return
        connection.process_data_events(time_limit=WAIT_S / 100)
    raise AssertionError(f"no {what} within {WAIT_S} s")


@pytest.fixture
def inbox(channel):
    """An exclusive queue whose name the broker chooses."""
    return channel.queue_declare("", exclusive=True).method.queue


@pytest.fixture
def exchange(channel, queue_name):
    """A function that declares exchanges under the test's name. They are deleted after the test."""
    declared = []

    def declare(kind, **options):
        name = f"{queue_name}-{len(declared)}"
        channel.exchange_declare(name, kind, **options)
        declared.append(name)
        return name

    yield declare
    if channel.is_open:
        for name in declared:
            channel.exchange_delete(name)


def drained(channel, queue):
    """The bodies of all messages in a queue."""
    return [body for *_, body in iter(lambda: channel.basic_get(queue, auto_ack=True), (None, None, None))]


# --- connections -----------------------------------------------------------------------------------------------------


def test_the_broker_says_what_it_can(connection):
    assert connection._impl.server_capabilities.keys() >= CAPABILITIES
    assert {"product", "version", "platform"} <= connection._impl.server_properties.keys()


def test_a_wrong_password(opened, pika):
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="403"):
        opened(credentials=pika.PlainCredentials("guest", "wrong"))


def test_a_client_without_a_name_is_guest(opened, pika):
    # pika does not know ANONYMOUS, and takes only classes that it knows.
    anonymous = pika.credentials.ExternalCredentials()
    anonymous.response_for = lambda start: ("ANONYMOUS", b"") if b"ANONYMOUS" in start.mechanisms.split() else None
    queue = opened(credentials=anonymous).channel().queue_declare("", exclusive=True).method.queue
    assert queue.startswith("amq.gen-")


def test_a_virtual_host_that_is_not_there(opened, pika):
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="530"):
        opened(virtual_host="nowhere")


def test_the_lower_of_each_limit_is_agreed(opened):
    parameters = opened(channel_max=7, frame_max=8192, heartbeat=30)._impl.params
    assert (parameters.channel_max, parameters.frame_max, parameters.heartbeat) == (7, 8192, 30)


def test_a_hundred_channels_at_once_and_their_numbers_again(connection):
    for _ in range(2):
        channels = [connection.channel() for _ in range(100)]
        assert [channel.channel_number for channel in channels] == list(range(1, 101))
        for channel in channels:
            channel.close()


def test_publishers_are_told_that_an_alarm_blocks_them_and_that_it_is_over(broker, opened):
    if broker.pid == 0:
        pytest.skip("only Headgate's alarms are set by its command line")
    connection = opened()
    told = []
    connection.add_on_connection_blocked_callback(lambda _c, frame: told.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda _c, _frame: told.append("unblocked"))
    channel = connection.channel()
    inbox = channel.queue_declare("", exclusive=True).method.queue
    assert run_here("alarms", "set", "memory", url=broker.url()).code == 0
    try:
        channel.basic_publish("", inbox, b"waits")
        until(connection, lambda: told, "blocked")
        assert told == ["low on memory"]
    finally:
        assert run_here("alarms", "clear", "memory", url=broker.url()).code == 0
    until(connection, lambda: len(told) == 2, "unblocked")
    assert told[1] == "unblocked"
    assert drained(channel, inbox) == [b"waits"]


# --- exchanges -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 0}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 1}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "b": "y"}, False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, None, False),
        ({"x-match": "all", "x-own": 1}, {}, True),
        ({"x-match": "all-with-x", "x-own": 1}, {}, False),
        ({"x-match": "any-with-x", "x-own": 1}, {"x-own": 1}, True),
    ],
)
def test_the_headers_exchange(channel, pika, exchange, inbox, arguments, headers, matches):
    name = exchange("headers")
    channel.queue_bind(inbox, name, arguments=arguments)
    channel.basic_publish(name, "", b"x", pika.BasicProperties(headers=headers))
    assert drained(channel, inbox) == ([b"x"] if matches else [])


def test_the_topic_exchange(channel, exchange, inbox):
    name = exchange("topic")
    for key in ("kern.*", "#.critical"):
        channel.queue_bind(inbox, name, routing_key=key)
    for key in ("kern.info", "kern.info.more", "critical", "a.b.critical", "kern.critical", "kern"):
        channel.basic_publish(name, key, key.encode())
    assert drained(channel, inbox) == [b"kern.info", b"critical", b"a.b.critical", b"kern.critical"]  # each once


def test_bindings_between_exchanges_and_their_end(channel, exchange, inbox):
    source, destination = exchange("direct"), exchange("fanout")
    channel.exchange_bind(destination, source, routing_key="key")
    channel.queue_bind(inbox, destination)
    channel.basic_publish(source, "key", b"one")
    channel.exchange_unbind(destination, source, routing_key="key")
    channel.basic_publish(source, "key", b"two")
    channel.basic_publish(destination, "any", b"three")
    channel.queue_unbind(inbox, destination)
    channel.basic_publish(destination, "any", b"four")
    assert drained(channel, inbox) == [b"one", b"three"]


def test_what_no_binding_wants_goes_to_the_alternate_exchange(channel, exchange, inbox):
    alternate = exchange("fanout")
    name = exchange("direct", arguments={"alternate-exchange": alternate})
    channel.queue_bind(inbox, alternate)
    channel.basic_publish(name, "nobody", b"found", mandatory=True)
    assert drained(channel, inbox) == [b"found"]


def test_an_internal_exchange_takes_nothing_from_publishers(channel, pika, exchange):
    name = exchange("fanout", internal=True)
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:
        channel.basic_publish(name, "", b"x")
    assert raised.value.reply_code == 403


def test_an_exchange_that_deletes_itself_goes_with_its_last_binding(connection, channel, pika, queue_name, inbox):
    channel.exchange_declare(queue_name, "fanout", auto_delete=True)
    channel.queue_bind(inbox, queue_name)
    channel.queue_unbind(inbox, queue_name)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:
        connection.channel().exchange_declare(queue_name, passive=True)
    assert raised.value.reply_code == 404


# --- queues ----------------------------------------------------------------------------------------------------------


def test_the_broker_names_queues_and_remembers_the_last(channel):
    name = channel.queue_declare("", exclusive=True).method.queue
    assert name.startswith("amq.gen-")
    channel.queue_bind("", "amq.fanout")
    channel.basic_publish("amq.fanout", "", b"x")
    assert drained(channel, "") == [b"x"]


def test_an_exclusive_queue_is_locked_for_others_and_goes_with_its_connection(opened, pika, queue_name):
    owner, other = opened(), opened()
    owner.channel().queue_declare(queue_name, exclusive=True)
    for use in (
        lambda channel: channel.queue_declare(queue_name, passive=True),
        lambda channel: channel.basic_get(queue_name),
        lambda channel: channel.queue_delete(queue_name),
    ):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:
            use(other.channel())
        assert raised.value.reply_code == 405
    owner.close()
    assert other.channel().queue_declare(queue_name, exclusive=True).method.message_count == 0


def test_an_auto_delete_queue_goes_with_its_last_consumer(connection, channel, pika, queue_name):
    channel.queue_declare(queue_name, auto_delete=True)
    channel.basic_cancel(channel.basic_consume(queue_name, lambda *_: None))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:
        connection.channel().queue_declare(queue_name, passive=True)
    assert raised.value.reply_code == 404


def test_queues_and_exchanges_in_use_are_not_deleted_when_asked_so(connection, channel, pika, exchange, queue_name):
    channel.queue_declare(queue_name, durable=True)
    name = exchange("fanout")
    channel.queue_bind(queue_name, name)
    channel.basic_publish(name, "", b"x")
    consuming = connection.channel()
    consuming.basic_qos(prefetch_count=1)
    consuming.basic_consume(queue_name, lambda *_: None)
    channel.basic_publish(name, "", b"y")
    for refused in (
        lambda channel: channel.queue_delete(queue_name, if_empty=True),
        lambda channel: channel.queue_delete(queue_name, if_unused=True),
        lambda channel: channel.exchange_delete(name, if_unused=True),
    ):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:
            refused(connection.channel())
        assert raised.value.reply_code == 406
    consuming.close()
    assert channel.queue_delete(queue_name, if_unused=True).method.message_count == 2
    assert channel.queue_delete(queue_name).method.message_count == 0  # no fault, because the queue does not exist


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (404, lambda channel, _: channel.basic_get("no-such-queue")),
        (404, lambda channel, _: channel.basic_consume("no-such-queue", lambda *_: None)),
        (404, lambda channel, _: channel.queue_bind("no-such-queue", "amq.direct")),
        (404, lambda channel, inbox: channel.queue_bind(inbox, "no-such-exchange")),
        (404, lambda channel, _: channel.exchange_declare("no-such-exchange", passive=True)),
        (406, lambda channel, inbox: channel.queue_declare(f"of-{inbox}", exclusive=True, auto_delete=True)),
        (406, lambda channel, _: channel.exchange_declare("amq.direct", "fanout", durable=True)),
        (406, lambda channel, inbox: channel.exchange_declare(f"no-{inbox}", "no-such-type")),
        (406, lambda channel, inbox: channel.queue_declare(f"no-{inbox}", arguments={"x-max-length": -1})),
        (406, lambda channel, inbox: channel.queue_declare(f"no-{inbox}", arguments={"x-queue-type": "other"})),
        (403, lambda channel, _: channel.queue_declare("amq.mine")),
        (403, lambda channel, inbox: channel.queue_declare(inbox, exclusive=True)),
        (403, lambda channel, _: channel.exchange_declare("amq.mine")),
        (403, lambda channel, _: channel.exchange_delete("amq.direct")),
        (403, lambda channel, _: channel.exchange_declare("", passive=True)),
        (405, lambda channel, inbox: channel.queue_declare(f"of-{inbox}")),
        (403, lambda channel, inbox: channel.queue_bind(inbox, "")),
    ],
)
def test_faults_that_cost_the_channel(connection, channel, pika, inbox, code, fault):
    channel.queue_declare(f"of-{inbox}", exclusive=True)
    broken = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:
        fault(broken, inbox)
    assert raised.value.reply_code == code
    channel.basic_publish("", inbox, b"the other channel goes on")
    assert drained(channel, inbox) == [b"the other channel goes on"]
    assert connection.channel().channel_number == broken.channel_number  # its number may be used again


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (404, lambda channel, pika: channel.basic_publish("no-such-exchange", "", b"x")),
        (406, lambda channel, pika: channel.basic_ack(99)),
        (406, lambda channel, pika: channel.basic_reject(99)),
        (406, lambda channel, pika: channel.basic_publish("", "", b"x", pika.BasicProperties(user_id="somebody"))),
        (406, lambda channel, pika: channel.basic_publish("", "", b"x", pika.BasicProperties(expiration="soon"))),
    ],
)
def test_faults_of_what_is_not_answered_are_told_as_well(connection, pika, code, fault):
    broken = connection.channel()
    fault(broken, pika)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:
        broken.basic_qos(prefetch_count=1)
    assert raised.value.reply_code == code
    assert connection.is_open


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (540, lambda channel: channel.basic_qos(prefetch_size=1)),
        (540, lambda channel: channel.basic_recover(requeue=False)),
        (540, lambda channel: channel.flow(False)),
    ],
)
def test_faults_that_cost_the_connection(opened, pika, code, fault):
    connection = opened()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as raised:
        fault(connection.channel())
    assert raised.value.reply_code == code


def test_flow_that_is_on_is_answered(channel):
    assert channel.flow(True) is True
