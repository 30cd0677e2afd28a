"""Tutorial 11: one queue, used by AMQP 0.9.1 (pika) and by AMQP 1.0 (Headgate's client).

To run it:

    python examples/11_two_protocols.py
"""

import os

import pika
import trio

from amqp10.client import Message, connect
from amqp10.wire.sections import Header, Properties

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
QUEUE = "letters"


def publish_with_pika() -> None:
    """Make the queue and publish one durable message; basic_publish returns when it is confirmed."""
    connection = pika.BlockingConnection(pika.URLParameters(URL))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.confirm_delivery()
    properties = pika.BasicProperties(
        message_id="letter-1", type="greeting", headers={"colour": "green"}, delivery_mode=pika.DeliveryMode.Persistent
    )
    channel.basic_publish("", QUEUE, b"hello from 0.9.1", properties, mandatory=True)
    print("pika: published, confirmed")
    connection.close()


async def answer_with_amqp10() -> None:
    """Take the message, show what became of its properties, and put another one into the queue."""
    async with connect(URL) as connection:
        receiver = await connection.open_receiver(f"/queues/{QUEUE}")
        delivery = await receiver.receive()
        message = delivery.message
        assert message.header is not None
        assert message.properties is not None
        print("AMQP 1.0:", message.body, "durable", message.header.durable, "id", message.properties.message_id)
        print(
            "  application-properties", dict(message.application_properties), "annotations", dict(message.annotations)
        )
        delivery.accept()
        await receiver.close()

        sender = await connection.open_sender(f"/queues/{QUEUE}")
        answer = Message(
            b"hello from 1.0",
            header=Header(durable=True),
            properties=Properties(message_id="letter-2", subject="left out", content_type="text/plain"),
            application_properties={"colour": "blue"},
        )
        print("AMQP 1.0: published,", type(await sender.send(answer)).__name__)


def get_with_pika() -> None:
    """Get the answer, and delete the queue."""
    connection = pika.BlockingConnection(pika.URLParameters(URL))
    channel = connection.channel()
    method, properties, body = channel.basic_get(QUEUE, auto_ack=True)
    assert method is not None
    print("pika:", body, "delivery_mode", properties.delivery_mode, "id", properties.message_id)
    print("  headers", properties.headers, "content_type", properties.content_type)
    channel.queue_delete(QUEUE)
    connection.close()


if __name__ == "__main__":
    publish_with_pika()
    trio.run(answer_with_amqp10)
    get_with_pika()
