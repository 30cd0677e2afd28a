"""The official RabbitMQ client of AMQP 1.0 for Python: what it declares, binds, publishes and consumes on Headgate."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]


@pytest.fixture
def client():
    return importlib.import_module("rabbitmq_amqp_python_client")


@pytest.fixture
def environment(client, broker) -> Iterator[object]:
    environment = client.Environment(uri=broker.url(path="/"))
    yield environment
    environment.close()


@pytest.fixture
def connection(environment):
    connection = environment.connection()
    connection.dial()
    return connection


@pytest.fixture
def management(connection):
    return connection.management()


@pytest.fixture
def queue(client, management, queue_name):
    """The address of a new classic queue."""
    management.declare_queue(client.ClassicQueueSpecification(name=queue_name))
    return client.AddressHelper.queue_address(queue_name)


def message(client, body=b"", address=None):
    return client.Message(body=body, address=address)


def publish(connection, client, address, *bodies):
    publisher = connection.publisher(address)
    for body in bodies:
        assert publisher.publish(message(client, body)).remote_state == client.OutcomeState.ACCEPTED
    publisher.close()


def consume(connection, client, address, n, do, **options):
    """Take ``n`` messages and call something with each event; returns the bodies."""

    class Enough(Exception):
        pass

    class Taker(client.AMQPMessagingHandler):
        got = []

        def on_amqp_message(self, event):
            self.got.append(bytes(event.message.body))
            do(self.delivery_context, event)
            if len(self.got) == n:
                raise Enough

    taker = Taker()
    consumer = connection.consumer(address, message_handler=taker, **options)
    with pytest.raises(Enough):
        consumer.run()
    consumer.close()
    return taker.got


@contextmanager
def released(client):
    """What the client reports for a message that the broker released."""
    utils = importlib.import_module("rabbitmq_amqp_python_client.qpid.proton.utils")
    with pytest.raises(utils.SendException) as raised:
        yield
    assert raised.value.state == client.OutcomeState.RELEASED


def accept(context, event):
    context.accept(event)


def count(management, name):
    return management.queue_info(name).message_count


# --- queues ----------------------------------------------------------------------------------------------------------


def test_a_queue_is_declared_shown_and_deleted(client, management, queue_name):
    specification = client.ClassicQueueSpecification(name=queue_name)
    assert management.declare_queue(specification) == specification
    management.declare_queue(specification)  # the same declaration again
    info = management.queue_info(queue_name)
    assert (info.name, info.queue_type, info.message_count, info.consumer_count) == (
        queue_name,
        client.QueueType.classic,
        0,
        0,
    )
    assert (info.is_durable, info.is_exclusive, info.is_auto_delete) == (True, False, False)
    assert info.leader == "headgate"
    assert list(info.members) == ["headgate"]
    assert info.arguments == {"x-queue-type": "classic"}
    management.delete_queue(queue_name)
    management.delete_queue(queue_name)  # the queue does not exist, as asked for
    with pytest.raises(client.ValidationCodeException, match="404"):
        management.queue_info(queue_name)


def test_every_argument_of_a_classic_queue(client, management, queue_name):
    management.declare_queue(
        client.ClassicQueueSpecification(
            name=queue_name,
            auto_expires=timedelta(minutes=5),
            message_ttl=timedelta(minutes=1),
            overflow_behaviour="reject-publish",
            single_active_consumer=True,
            dead_letter_exchange="letters",
            dead_letter_routing_key="dead",
            max_len=100,
            max_len_bytes=1_000_000,
            max_priority=10,
            is_durable=False,
        )
    )
    info = management.queue_info(queue_name)
    assert info.arguments == {
        "x-queue-type": "classic",
        "x-expires": 300_000,
        "x-message-ttl": 60_000,
        "x-overflow": "reject-publish",
        "x-single-active-consumer": True,
        "x-dead-letter-exchange": "letters",
        "x-dead-letter-routing-key": "dead",
        "x-max-length": 100,
        "x-max-length-bytes": 1_000_000,
        "x-max-priority": 10,
    }
    assert not info.is_durable


@pytest.mark.parametrize("name", ["a/b", "a b", "100%", "a;b=c&d", "."])
def test_names_that_must_be_encoded(client, connection, management, name):
    management.declare_queue(client.ClassicQueueSpecification(name=name))
    publish(connection, client, client.AddressHelper.queue_address(name), b"one")
    assert count(management, name) == 1
    assert consume(connection, client, client.AddressHelper.queue_address(name), 1, accept) == [b"one"]
    management.delete_queue(name)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"is_durable": False}, "ErrPreconditionFailed"),  # what the client makes of 409
        ({"max_len": 5}, "ErrPreconditionFailed"),
        ({"is_exclusive": True}, "400"),
    ],
)
def test_a_queue_that_exists_otherwise(client, management, queue, queue_name, fields, status):
    with pytest.raises(client.ValidationCodeException, match=status):
        management.declare_queue(client.ClassicQueueSpecification(name=queue_name, **fields))
    assert count(management, queue_name) == 0  # the link pair goes on


@pytest.mark.parametrize(
    ("name", "fields", "status"),
    [
        ("line\nfeed", {}, "400"),
        ("amq.mine", {}, "403"),
        ("q", {"max_len": -1}, "ErrPreconditionFailed"),
        ("q", {"overflow_behaviour": "explode"}, "ErrPreconditionFailed"),
    ],
)
def test_an_invalid_queue(client, management, name, fields, status):
    with pytest.raises(client.ValidationCodeException, match=status):
        management.declare_queue(client.ClassicQueueSpecification(name=name, **fields))


@pytest.mark.parametrize("kind", ["QuorumQueueSpecification", "StreamSpecification"])
def test_other_queue_types_are_declared_and_say_what_they_are(client, management, queue_name, kind):
    management.declare_queue(getattr(client, kind)(name=queue_name))
    info = management.queue_info(queue_name)
    assert info.queue_type.value == {"QuorumQueueSpecification": "quorum", "StreamSpecification": "stream"}[kind]
    management.delete_queue(queue_name)


def test_an_exclusive_queue_is_its_connections_alone(client, environment, management, queue_name):
    management.declare_queue(client.ClassicQueueSpecification(name=queue_name, is_exclusive=True))
    assert management.queue_info(queue_name).is_exclusive
    other = environment.connection()
    other.dial()
    try:
        for refused in (other.management().queue_info, other.management().purge_queue, other.management().delete_queue):
            with pytest.raises(client.ValidationCodeException, match="400"):
                refused(queue_name)
    finally:
        other.close()


def test_purge_tells_how_many(client, connection, management, queue, queue_name):
    publish(connection, client, queue, *[b"x"] * 20)
    assert count(management, queue_name) == 20
    assert management.purge_queue(queue_name) == 20
    assert count(management, queue_name) == 0
    with pytest.raises(client.ValidationCodeException, match="404"):
        management.purge_queue("nowhere")


def test_a_queue_that_is_deleted_takes_its_links_along(client, connection, management, queue, queue_name):
    publisher = connection.publisher(queue)
    management.delete_queue(queue_name)
    utils = importlib.import_module("rabbitmq_amqp_python_client.qpid.proton.utils")
    with pytest.raises(utils.LinkDetached, match="amqp:resource-deleted"):
        publisher.publish(message(client, b"late"))


# --- exchanges and bindings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "headers"])
def test_exchanges_of_every_type(client, management, queue_name, kind):
    specification = client.ExchangeSpecification(name=queue_name, exchange_type=getattr(client.ExchangeType, kind))
    assert management.declare_exchange(specification) == specification
    management.declare_exchange(specification)
    specification.is_durable = False
    with pytest.raises(client.ValidationCodeException, match="ErrPreconditionFailed"):
        management.declare_exchange(specification)
    management.delete_exchange(queue_name)
    management.delete_exchange(queue_name)
    management.declare_exchange(specification)  # now in the form that was refused
    management.delete_exchange(queue_name)


def test_a_local_random_exchange_gives_each_message_to_one_queue(client, connection, management, queue_name):
    management.declare_exchange(client.ExchangeCustomSpecification(name=queue_name, exchange_type="x-local-random"))
    queues = [f"{queue_name}-{number}" for number in range(2)]
    for name in queues:
        management.declare_queue(client.ClassicQueueSpecification(name=name))
        management.bind(client.ExchangeToQueueBindingSpecification(source_exchange=queue_name, destination_queue=name))
    publish(connection, client, client.AddressHelper.exchange_address(queue_name), *[b"x"] * 10)
    assert sum(count(management, name) for name in queues) == 10


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"name": "amq.mine"}, "403"),
        ({"name": "line\nfeed"}, "400"),
        ({"name": "e", "exchange_type": "no-such-type"}, "400"),
    ],
)
def test_an_invalid_exchange(client, management, fields, status):
    with pytest.raises(client.ValidationCodeException, match=status):
        management.declare_exchange(client.ExchangeCustomSpecification(**{"exchange_type": "direct"} | fields))


def test_a_predeclared_exchange_is_not_deleted(client, management):
    with pytest.raises(client.ValidationCodeException, match="403"):
        management.delete_exchange("amq.topic")


@pytest.mark.parametrize("key", ["key", "", "a/b c", None])
def test_bindings_from_an_exchange_to_a_queue(client, connection, management, queue, queue_name, key):
    management.declare_exchange(client.ExchangeSpecification(name=queue_name))
    binding = client.ExchangeToQueueBindingSpecification(
        source_exchange=queue_name, destination_queue=queue_name, binding_key=key
    )
    path = management.bind(binding)
    assert management.bind(binding) == path
    address = client.AddressHelper.exchange_address(queue_name, key or "")
    publish(connection, client, address, b"one")
    assert count(management, queue_name) == 1
    management.unbind(path)
    management.unbind(binding)  # the binding does not exist
    with released(client):
        publish(connection, client, address, b"two")
    management.delete_exchange(queue_name)


def test_bindings_from_exchange_to_exchange(client, connection, management, queue, queue_name):
    first, second = f"{queue_name}-first", f"{queue_name}-second"
    for name in (first, second):
        management.declare_exchange(client.ExchangeSpecification(name=name, exchange_type=client.ExchangeType.topic))
    link = client.ExchangeToExchangeBindingSpecification(
        source_exchange=first, destination_exchange=second, binding_key="a.#"
    )
    management.bind(link)
    management.bind(
        client.ExchangeToQueueBindingSpecification(
            source_exchange=second, destination_queue=queue_name, binding_key="*.b"
        )
    )
    publish(connection, client, client.AddressHelper.exchange_address(first, "a.b"), b"one")
    assert count(management, queue_name) == 1
    # the client's own unbind names the destination as a queue; the binding's location has the right kind
    (listed,) = management.request(None, f"/bindings?src={first}&dste={second}", "GET", [200]).body
    management.unbind(listed["location"])
    with released(client):
        publish(connection, client, client.AddressHelper.exchange_address(first, "a.b"), b"two")


def test_bindings_with_arguments(client, connection, management, queue, queue_name):
    """The client has no call for arguments, so the test sends requests as its sister libraries do."""
    wanted = {"x-match": "all", "colour": "red", "size": 5}
    body = {"source": "amq.headers", "destination_queue": queue_name, "binding_key": "", "arguments": wanted}
    management.request(body, "/bindings", "POST", [204])
    (listed,) = management.request(None, f"/bindings?src=amq.headers&dstq={queue_name}&key=", "GET", [200]).body
    assert listed["arguments"] == wanted
    assert listed["destination_queue"] == queue_name

    publisher = connection.publisher(client.AddressHelper.exchange_address("amq.headers"))
    fitting = client.Message(body=b"fits", application_properties={"colour": "red", "size": 5})
    assert publisher.publish(fitting).remote_state == client.OutcomeState.ACCEPTED
    with released(client):
        publisher.publish(client.Message(body=b"not", application_properties={"colour": "blue", "size": 5}))

    management.request(None, listed["location"], "DELETE", [204])
    assert management.request(None, f"/bindings?src=amq.headers&dstq={queue_name}", "GET", [200]).body == []


@pytest.mark.parametrize(
    ("source", "destination", "status"),
    [("nowhere", None, "400"), ("amq.direct", "nowhere", "400"), ("", None, "403")],
)
def test_an_invalid_binding(client, management, queue, queue_name, source, destination, status):
    with pytest.raises(client.ValidationCodeException, match=status):
        management.bind(
            client.ExchangeToQueueBindingSpecification(
                source_exchange=source, destination_queue=destination or queue_name
            )
        )


# --- publishing ------------------------------------------------------------------------------------------------------


def test_publisher_outcomes(client, connection, queue):
    publisher = connection.publisher(queue)
    delivery = publisher.publish(message(client, b"one"))
    assert delivery.remote_state == client.OutcomeState.ACCEPTED
    assert delivery.settled
    nowhere = connection.publisher(client.AddressHelper.exchange_address("amq.direct", "nobody"))
    with released(client):
        nowhere.publish(message(client, b"two"))


def test_addresses_in_the_messages(client, connection, management, queue, queue_name):
    publisher = connection.publisher()
    assert publisher.publish(message(client, b"1", queue)).remote_state == client.OutcomeState.ACCEPTED
    assert count(management, queue_name) == 1
    for address in ("/queues/nowhere", "/exchanges/nowhere/key"):
        with pytest.raises(client.AmqpMessageRejectedException, match=r"there is no (queue|exchange) 'nowhere'"):
            publisher.publish(message(client, b"2", address))
    with pytest.raises(client.AmqpMessageRejectedException, match="must be percent-encoded"):
        publisher.publish(message(client, b"3", "/queues/a b"))
    assert publisher.publish(message(client, b"4", queue)).remote_state == client.OutcomeState.ACCEPTED
    assert count(management, queue_name) == 2


@pytest.mark.parametrize("address", ["/queues/nowhere", "/exchanges/nowhere", "/queues/a b"])
def test_a_publisher_at_a_bad_address(client, connection, address):
    utils = importlib.import_module("rabbitmq_amqp_python_client.qpid.proton.utils")
    with pytest.raises(utils.LinkDetached, match=r"amqp:not-found|amqp:invalid-field"):
        connection.publisher(address)
    connection.publisher().close()  # the connection goes on, and so does its session


@pytest.mark.parametrize("durable", [True, False])
def test_durable_is_kept(client, connection, queue, durable):
    publisher = connection.publisher(queue)
    publisher.publish(client.Message(body=b"one", durable=durable))
    seen = []
    consume(connection, client, queue, 1, lambda context, event: seen.append(event.message.durable))
    assert seen == [durable]


def test_a_body_of_several_megabytes(client, connection, queue):
    body = bytes(range(256)) * 12_000
    publish(connection, client, queue, body)
    assert consume(connection, client, queue, 1, accept) == [body]


# --- consuming -------------------------------------------------------------------------------------------------------


def test_accepted_messages_are_gone(client, connection, management, queue, queue_name):
    bodies = [b"%d" % number for number in range(200)]
    publish(connection, client, queue, *bodies)
    assert consume(connection, client, queue, 200, accept) == bodies
    assert count(management, queue_name) == 0


def test_discarded_messages_are_gone_and_requeued_ones_are_not(client, connection, management, queue, queue_name):
    publish(connection, client, queue, b"discard", b"requeue", b"accept")

    def each(context, event):
        getattr(context, bytes(event.message.body).decode())(event)

    assert consume(connection, client, queue, 3, each) == [b"discard", b"requeue", b"accept"]
    assert count(management, queue_name) == 1
    assert consume(connection, client, queue, 1, accept) == [b"requeue"]


def test_requeued_with_annotations(client, connection, queue):
    publish(connection, client, queue, b"one")
    annotations = {client.symbol("x-opt-why"): "busy"}
    consume(connection, client, queue, 1, lambda context, event: context.requeue_with_annotations(event, annotations))
    seen = []
    consume(connection, client, queue, 1, lambda context, event: seen.append(event.message.annotations))
    assert seen[0]["x-opt-why"] == "busy"


def test_pre_settled_deliveries(client, connection, management, queue, queue_name):
    publish(connection, client, queue, *[b"x"] * 10)
    options = client.ConsumerOptions(settle_strategy=client.ConsumerSettleStrategy.PreSettled)
    consume(connection, client, queue, 10, lambda context, event: None, consumer_options=options)
    assert count(management, queue_name) == 0


def test_what_was_not_settled_comes_back(client, connection, management, queue, queue_name):
    publish(connection, client, queue, *[b"%d" % number for number in range(5)])
    consume(connection, client, queue, 3, lambda context, event: None)
    assert count(management, queue_name) == 5
    assert consume(connection, client, queue, 5, accept) == [b"0", b"1", b"2", b"3", b"4"]


def test_the_link_credit_that_was_asked_for(client, connection, management, queue, queue_name):
    publish(connection, client, queue, *[b"x"] * 100)
    consume(connection, client, queue, 5, lambda context, event: None, credit=5)
    assert management.queue_info(queue_name).message_count == 100


@pytest.mark.parametrize("address", ["/queues/nowhere", "/queues/a b"])
def test_a_consumer_at_a_bad_address(client, connection, address):
    utils = importlib.import_module("rabbitmq_amqp_python_client.qpid.proton.utils")
    with pytest.raises(utils.LinkDetached, match=r"amqp:not-found|amqp:invalid-field"):
        connection.consumer(address)
