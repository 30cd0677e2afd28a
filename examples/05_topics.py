"""Tutorial 5: patterns of routing keys, and a reader that takes two messages at a time. With Headgate's own client.

To run it:

    headgate definitions apply examples/05_sales.json
    python examples/05_topics.py
"""

import os

import trio

from amqp10.client import ClientConnection, Message, ReceiverOptions, connect
from amqp10.wire.sections import Properties

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
KEYS = ("eu.lamp.ordered", "us.lamp.ordered", "eu.desk.paid", "us.desk.returned")


async def read(connection: ClientConnection, queue: str) -> None:
    """Read everything in a queue, two messages at a time."""
    receiver = await connection.open_receiver(f"/queues/{queue}", options=ReceiverOptions(automatic=False))
    while True:
        receiver.grant(2)
        await receiver.drain()
        await receiver.pause()
        pair = receiver.receive_nowait(2)
        if not pair:
            return
        for delivery in pair:
            delivery.accept()
        print(f"{queue}:", *[delivery.message.body for delivery in pair], f"({receiver.available} more)")


async def main() -> None:
    """Publish four messages, and read what each pattern took."""
    async with connect(URL) as connection:
        sender = await connection.open_sender(None)
        await sender.send_many(Message(key, properties=Properties(to=f"/exchanges/sales/{key}")) for key in KEYS)
        for queue in ("sales.europe", "sales.orders", "sales.audit"):
            await read(connection, queue)


if __name__ == "__main__":
    trio.run(main)
