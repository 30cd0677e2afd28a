"""The script of pika, with its blocking connection."""

import datetime
import importlib
from contextlib import suppress
from decimal import Decimal
from importlib.metadata import version as version_of
from types import ModuleType
from typing import Any

QUEUE, OTHER, LETTERS = "recorded-pika", "recorded-pika-other", "recorded-pika-letters"
SIZES = (0, 1, 4_000, 4_088, 4_089, 30_000)
WAIT_S = 20.0


def version() -> str:
    """The client and its version."""
    return f"pika {version_of('pika')}"


def converse(url: str) -> None:
    """Run the script: one connection after the other."""
    pika = importlib.import_module("pika")  # this module has its name
    connection = opened(pika, url)
    channel = connection.channel()
    topology(channel)
    publish(pika, connection, channel)
    get(channel)
    consume(connection, channel)
    dead_letters(channel)
    transaction(connection)
    direct_reply(pika, connection)
    faults(pika, connection)
    for queue in (QUEUE, OTHER, LETTERS):
        channel.queue_delete(queue)
    channel.exchange_delete("recorded-pika")
    channel.close()
    connection.close()
    with suppress(pika.exceptions.AMQPConnectionError):
        opened(pika, url, virtual_host="nowhere")
    closed_by_an_error(pika, url)


def opened(pika: ModuleType, url: str, **options: Any) -> Any:
    """A connection with small frames, so that bodies have several."""
    parameters = pika.URLParameters(f"{url}/?frame_max=4096")
    for name, value in options.items():
        setattr(parameters, name, value)
    return pika.BlockingConnection(parameters)


def topology(channel: Any) -> None:
    """Exchanges, queues and bindings, declared, declared again, asked for, and removed."""
    for kind in ("direct", "fanout", "topic", "headers"):
        channel.exchange_declare(f"recorded-pika-{kind}", kind, auto_delete=kind == "fanout", durable=kind == "topic")
    channel.exchange_declare("recorded-pika", "topic")
    channel.exchange_declare("recorded-pika", "topic", passive=True)
    channel.exchange_bind("recorded-pika-fanout", "recorded-pika", "fan.#")
    channel.queue_declare(QUEUE, durable=True)
    channel.queue_declare(QUEUE, passive=True)
    channel.queue_declare(OTHER, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    channel.queue_bind(QUEUE, "recorded-pika", "a.*")
    channel.queue_bind(QUEUE, "recorded-pika-fanout")
    channel.queue_bind(QUEUE, "recorded-pika-headers", arguments={"x-match": "any", "kind": "x", "size": 5})
    own = channel.queue_declare("", exclusive=True, auto_delete=True).method.queue
    channel.queue_bind(own, "recorded-pika-direct", "key")
    channel.queue_unbind(own, "recorded-pika-direct", "key")
    channel.queue_delete(own)
    channel.exchange_unbind("recorded-pika-fanout", "recorded-pika", "fan.#")
    for kind in ("direct", "topic"):
        channel.exchange_delete(f"recorded-pika-{kind}")


def publish(pika: ModuleType, connection: Any, channel: Any) -> None:
    """Without confirms and with them: bodies of several sizes, every property, returns, and a queue that is full."""
    for size in SIZES:
        channel.basic_publish("", QUEUE, bytes(size))
        connection.process_data_events()
    channel.queue_declare(QUEUE, passive=True)
    confirmed = connection.channel()
    confirmed.confirm_delivery()
    for size in SIZES:
        confirmed.basic_publish("", QUEUE, b"c" * size, pika.BasicProperties(delivery_mode=2))
    confirmed.basic_publish("", QUEUE, b"properties", properties(pika))
    for key, headers in (("a.b", {}), ("nothing", {"kind": "x"})):
        with suppress(pika.exceptions.UnroutableError):
            confirmed.basic_publish(
                "recorded-pika", key, b"routed", pika.BasicProperties(headers=headers), mandatory=True
            )
    for number in range(3):
        with suppress(pika.exceptions.NackError):
            confirmed.basic_publish("", OTHER, b"until full %d" % number)
    confirmed.close()


def properties(pika: ModuleType) -> Any:
    """Every property, and headers of every type."""
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
    return pika.BasicProperties(
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


def get(channel: Any) -> None:
    """Messages one by one: with and without acknowledgement, given back, rejected, and none there."""
    channel.basic_get(QUEUE, auto_ack=True)
    for settle in (channel.basic_ack, channel.basic_nack, channel.basic_reject):
        settle(channel.basic_get(QUEUE)[0].delivery_tag)
    channel.basic_reject(channel.basic_get(QUEUE)[0].delivery_tag, requeue=False)
    channel.basic_get(OTHER)
    channel.basic_recover(requeue=True)
    channel.queue_purge(OTHER)
    channel.basic_get(OTHER)


def consume(connection: Any, channel: Any) -> None:
    """Consumers with a prefetch-count, one and several acknowledged, a second consumer, cancel."""
    channel.basic_qos(prefetch_count=3)
    tags: list[int] = []
    consumer = channel.basic_consume(QUEUE, lambda _, method, *__: tags.append(method.delivery_tag), consumer_tag="one")
    until(connection, lambda: len(tags) == 3)
    channel.basic_ack(tags[0])
    until(connection, lambda: len(tags) == 4)
    channel.basic_ack(tags[3], multiple=True)
    until(connection, lambda: len(tags) == 7)
    channel.basic_nack(tags[6], multiple=True, requeue=True)
    until(connection, lambda: len(tags) == 10)
    channel.basic_cancel(consumer)
    channel.basic_nack(0, multiple=True)
    channel.basic_qos(prefetch_count=0)
    more: list[int] = []
    channel.basic_consume(
        QUEUE, lambda _, method, *__: more.append(method.delivery_tag), auto_ack=True, consumer_tag="two"
    )
    until(connection, lambda: len(more) >= 6)
    channel.basic_cancel("two")
    channel.queue_declare(QUEUE, passive=True)


def until(connection: Any, condition: Any) -> None:
    """Read from the broker until the condition holds."""
    for _ in range(100):
        if condition():
            return
        connection.process_data_events(time_limit=WAIT_S / 100)
    raise AssertionError(f"not within {WAIT_S} s")


def dead_letters(channel: Any) -> None:
    """A message that is rejected, and one that expires at once, with their headers."""
    channel.queue_declare(LETTERS)
    name = f"{QUEUE}-dying"
    channel.queue_declare(
        name, exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": LETTERS}
    )
    channel.basic_publish("", name, b"rejected")
    channel.basic_reject(channel.basic_get(name)[0].delivery_tag, requeue=False)
    while (letter := channel.basic_get(LETTERS))[0] is None:
        pass
    channel.basic_publish("", name, b"again", letter[1])
    channel.basic_nack(channel.basic_get(name)[0].delivery_tag, requeue=False)
    channel.basic_ack(letter[0].delivery_tag)
    channel.queue_delete(name)
    channel.queue_purge(LETTERS)


def transaction(connection: Any) -> None:
    """Publishes and acknowledgements that are undone and that are done."""
    channel = connection.channel()
    channel.tx_select()
    channel.basic_publish("", QUEUE, b"undone")
    channel.tx_rollback()
    channel.basic_publish("", QUEUE, b"done")
    channel.tx_commit()
    method = channel.basic_get(QUEUE)[0]
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.close()


def direct_reply(pika: ModuleType, connection: Any) -> None:
    """A question and its answer without a queue."""
    channel = connection.channel()
    answers: list[bytes] = []
    channel.basic_consume("amq.rabbitmq.reply-to", lambda *parts: answers.append(parts[3]), auto_ack=True,
                          consumer_tag="answers")  # fmt: skip
    channel.basic_publish("", QUEUE, b"question", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    _, question, _ = channel.basic_get(QUEUE, auto_ack=True)
    channel.basic_publish("", question.reply_to, b"answer")
    until(connection, lambda: answers)
    channel.close()


def faults(pika: ModuleType, connection: Any) -> None:
    """Each fault that costs a channel."""
    for fault in (
        lambda channel: channel.queue_declare("no-such-queue", passive=True),
        lambda channel: channel.exchange_declare("amq.direct", "fanout"),
        lambda channel: channel.queue_declare("amq.mine"),
        lambda channel: channel.queue_declare(QUEUE, durable=False),
        lambda channel: channel.queue_declare("recorded-pika-bad", arguments={"x-max-length": -1}),
        lambda channel: channel.exchange_delete("amq.topic"),
        lambda channel: channel.queue_bind(QUEUE, "no-such-exchange", "key"),
        lambda channel: channel.basic_consume("no-such-queue", print, consumer_tag="none"),
        lambda channel: channel.basic_get("no-such-queue"),
    ):
        with suppress(pika.exceptions.ChannelClosedByBroker):
            fault(connection.channel())
    for late in (
        lambda channel: channel.basic_publish("no-such-exchange", "", b"x"),
        lambda channel: channel.basic_ack(99),
    ):
        channel = connection.channel()
        with suppress(pika.exceptions.ChannelClosedByBroker):
            late(channel)
            channel.queue_declare(QUEUE, passive=True)


def closed_by_an_error(pika: ModuleType, url: str) -> None:
    """A fault that costs the connection: a message that says another user sent it costs only its channel; an unknown
    method costs all."""
    connection = opened(pika, url)
    channel = connection.channel()
    with suppress(pika.exceptions.AMQPError):
        channel.basic_publish("", "nowhere", b"x", pika.BasicProperties(user_id="another"))
        channel.queue_declare("", exclusive=True)
    with suppress(pika.exceptions.AMQPError):
        connection.channel().basic_qos(prefetch_size=1)
    with suppress(pika.exceptions.AMQPError):
        other = connection.channel()
        other.basic_consume("amq.rabbitmq.reply-to", print, auto_ack=True, consumer_tag="x")
        other.basic_consume("amq.rabbitmq.reply-to", print, auto_ack=True, consumer_tag="x")
    with suppress(pika.exceptions.AMQPError):
        connection.close()
