"""The script of RabbitMQ's AMQP 1.0 client for Python."""

import importlib
from contextlib import suppress
from datetime import timedelta
from importlib.metadata import version as version_of
from types import ModuleType
from typing import Any

QUEUE, EXCHANGE = "recorded-rabbitmq", "recorded-rabbitmq-exchange"


def version() -> str:
    """The client and its version."""
    return f"rabbitmq-amqp-python-client {version_of('rabbitmq-amqp-python-client')}"


def converse(url: str) -> None:
    """Run the script."""
    client = importlib.import_module("rabbitmq_amqp_python_client")
    environment = client.Environment(uri=f"{url}/")
    connection = environment.connection()
    connection.dial()
    management = connection.management()
    declare(client, management)
    publish(client, connection)
    consume(client, connection)
    for queue in (QUEUE, f"{QUEUE}-other", f"{QUEUE}-quorum"):
        management.delete_queue(queue)
    management.close()
    environment.close()


def declare(client: ModuleType, management: Any) -> None:
    """Queues with every argument, exchanges of every type, bindings, and what is refused."""
    management.declare_queue(client.ClassicQueueSpecification(name=QUEUE))
    management.declare_queue(
        client.ClassicQueueSpecification(
            name=f"{QUEUE}-other",
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
    management.queue_info(f"{QUEUE}-other")
    management.declare_queue(client.QuorumQueueSpecification(name=f"{QUEUE}-quorum"))
    management.queue_info(f"{QUEUE}-quorum")
    for kind in client.ExchangeType:
        with suppress(client.ValidationCodeException):
            name = f"{EXCHANGE}-{kind.value}"
            management.declare_exchange(client.ExchangeSpecification(name=name, exchange_type=kind))
            management.bind(
                client.ExchangeToQueueBindingSpecification(
                    source_exchange=name, destination_queue=QUEUE, binding_key="a/b c"
                )
            )
            management.unbind(f"/bindings/src={name};dstq={QUEUE};key=a%2Fb%20c;args=")
            management.delete_exchange(name)
    management.declare_exchange(client.ExchangeSpecification(name=EXCHANGE))
    management.bind(
        client.ExchangeToQueueBindingSpecification(source_exchange=EXCHANGE, destination_queue=QUEUE, binding_key="key")
    )
    for refused in (
        lambda: management.declare_queue(client.ClassicQueueSpecification(name=QUEUE, max_len=5)),
        lambda: management.declare_queue(client.ClassicQueueSpecification(name="line\nfeed")),
        lambda: management.declare_queue(client.ClassicQueueSpecification(name="amq.mine")),
        lambda: management.queue_info("nowhere"),
        lambda: management.purge_queue("nowhere"),
        lambda: management.delete_exchange("amq.topic"),
    ):
        with suppress(client.ValidationCodeException):
            refused()


def publish(client: ModuleType, connection: Any) -> None:
    """To a queue, through an exchange, by the address in the message, and what is not taken."""
    qpid = importlib.import_module("rabbitmq_amqp_python_client.qpid.proton.utils")
    publisher = connection.publisher(client.AddressHelper.queue_address(QUEUE))
    for size in (0, 1, 1_000, 100_000):
        publisher.publish(client.Message(body=bytes(size), durable=size != 1))
    publisher.publish(client.Message(body=b"with properties", application_properties={"colour": "red", "size": 5}))
    publisher.close()
    for key in ("key", "nothing"):
        routed = connection.publisher(client.AddressHelper.exchange_address(EXCHANGE, key))
        with suppress(qpid.SendException):
            routed.publish(client.Message(body=b"routed"))
        routed.close()
    by_message = connection.publisher()
    for address in (client.AddressHelper.queue_address(QUEUE), "/queues/nowhere", "/queues/a b"):
        with suppress(client.AmqpMessageRejectedException):
            by_message.publish(client.Message(body=b"by address", address=address))
    by_message.close()
    with suppress(qpid.LinkDetached):
        connection.publisher("/queues/nowhere")


def consume(client: ModuleType, connection: Any) -> None:
    """Each outcome, settled deliveries, link credit, and what was not settled."""
    qpid = importlib.import_module("rabbitmq_amqp_python_client.qpid.proton.utils")

    class Enough(Exception):
        """The consumer has what it wanted."""

    class Taker(client.AMQPMessagingHandler):  # type: ignore[misc]
        """Gives the messages these outcomes, in order."""

        def __init__(self, *outcomes: str) -> None:
            super().__init__()
            self.outcomes = list(outcomes)

        def on_amqp_message(self, event: Any) -> None:
            outcome = self.outcomes.pop(0)
            if outcome == "requeue_with_annotations":
                self.delivery_context.requeue_with_annotations(event, {client.symbol("x-opt-why"): "busy"})
            elif outcome:
                getattr(self.delivery_context, outcome)(event)
            if not self.outcomes:
                raise Enough

    def take(taker: Any, **options: Any) -> None:
        consumer = connection.consumer(client.AddressHelper.queue_address(QUEUE), message_handler=taker, **options)
        with suppress(Enough):
            consumer.run()
        consumer.close()

    take(Taker("accept", "discard", "requeue", "requeue_with_annotations", ""), credit=5)
    take(Taker("accept", "accept"), credit=1)
    settled = client.ConsumerOptions(settle_strategy=client.ConsumerSettleStrategy.PreSettled)
    take(Taker("", ""), consumer_options=settled, credit=2)
    with suppress(qpid.LinkDetached):
        connection.consumer("/queues/nowhere")
