"""Messages that pika publishes and the Trio client consumes, and the other way round: each is converted."""

import importlib

import trio

from amqp10.client import ClientSettings, Message, ReceiverOptions, connect
from amqp10.wire.sections import AMQP_SEQUENCE, Header, Properties
from tests.recorded.clients import pika as pika_script
from tests.recorded.clients import trio_client as trio_script

QUEUE = "recorded-both"
SETTINGS = ClientSettings(container_id="recorded-both", reconnect=None)
N = 4
"""Messages in each direction."""


def version() -> str:
    """Both clients and their versions."""
    return f"{pika_script.version()} and {trio_script.version()}"


def converse(url: str) -> None:
    """Run the script: one connection after the other."""
    pika = importlib.import_module("pika")
    connection = pika_script.opened(pika, url)
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", QUEUE, b"plain")
    channel.basic_publish("", QUEUE, b"every property", pika_script.properties(pika))
    channel.basic_publish("", QUEUE, bytes(10_000), pika.BasicProperties(headers={"x-any": 1, "none": None}))
    channel.basic_publish("amq.fanout", "", b"unrouted")
    channel.basic_publish("", QUEUE, b"ttl", pika.BasicProperties(expiration="3600000", priority=200))
    connection.close()
    trio.run(consume_and_publish, url)
    connection = pika_script.opened(pika, url)
    channel = connection.channel()
    for _ in range(N):
        channel.basic_get(QUEUE, auto_ack=True)
    channel.queue_delete(QUEUE)
    connection.close()


async def consume_and_publish(url: str) -> None:
    """Take what pika has published, and publish for it."""
    address = f"/queues/{QUEUE}"
    async with connect(url, SETTINGS) as connection:
        receiver = await connection.open_receiver(address, options=ReceiverOptions(automatic=False), name="receiver")
        receiver.grant(N)
        for _ in range(N):
            (await receiver.receive()).accept()
        await receiver.drain()
        await receiver.close()
        sender = await connection.open_sender(address, name="sender")
        for message in (
            Message(b"data"),
            Message("a text"),
            Message([1, "two", {"three": 3.0}], section=AMQP_SEQUENCE),
            Message(
                b"every section",
                properties=Properties(
                    message_id="id", user_id=b"guest", subject="subject", reply_to="/queues/reply", correlation_id=7,
                    content_type="text/plain", group_id="group", group_sequence=3,
                ),
                application_properties={"text": "täxt", "number": -5, "yes": True, "real": 0.5},
                annotations={"x-opt-any": "thing", "x-cc": "cc"},
                footer={"x-opt-foot": True},
                header=Header(durable=True, priority=7, ttl=3_600_000),
            ),
        ):  # fmt: skip
            await sender.send(message)
        await sender.close()
