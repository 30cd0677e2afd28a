"""Tutorial 3: every subscriber gets every message. With Headgate's own client.

To run it:

    python examples/03_publish_subscribe.py
"""

import os
from urllib.parse import unquote

import trio

from amqp10.client import ClientConnection, Message, Receiver, connect

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
EXCHANGE = "amq.fanout"


async def subscribe(connection: ClientConnection) -> Receiver:
    """Bind a queue of the subscriber's own to the exchange; the broker chooses its name."""
    receiver = await connection.open_receiver(None)
    assert receiver.address is not None
    queue = unquote(receiver.address.removeprefix("/queues/"))
    await connection.request(
        "POST",
        "/bindings",
        {"source": EXCHANGE, "destination_queue": queue, "binding_key": "", "arguments": {}},
    )
    return receiver


async def main() -> None:
    """Publish once without subscribers, and once with two."""
    async with connect(URL) as connection:
        sender = await connection.open_sender(f"/exchanges/{EXCHANGE}")
        print("no subscriber:", type(await sender.send(Message("first"))).__name__)

        subscribers = [await subscribe(connection), await subscribe(connection)]
        print("two subscribers:", type(await sender.send(Message("second"))).__name__)

        for number, receiver in enumerate(subscribers):
            delivery = await receiver.receive()
            print("subscriber", number, "received", delivery.message.body)
            delivery.accept()


if __name__ == "__main__":
    trio.run(main)
