"""Tutorial 4: a routing key decides which queues get a message. With Headgate's own client.

To run it:

    headgate definitions apply examples/04_log.json
    python examples/04_routing.py
"""

import os

import trio

from amqp10.client import ClientConnection, Message, ReceiverOptions, connect
from amqp10.wire.sections import Properties

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
REPORTS = [("error", "disk full"), ("info", "started"), ("error", "fan stopped"), ("debug", "tick")]


async def read(connection: ClientConnection, queue: str) -> list[object]:
    """Read everything that is in a queue now."""
    receiver = await connection.open_receiver(f"/queues/{queue}", options=ReceiverOptions(automatic=False))
    receiver.grant(100)
    await receiver.drain()
    deliveries = receiver.receive_nowait(100)
    for delivery in deliveries:
        delivery.accept()
    return [delivery.message.body for delivery in deliveries]


async def main() -> None:
    """Publish four reports without waiting in between, show their outcomes, and read both queues."""
    async with connect(URL) as connection:
        sender = await connection.open_sender(None)
        receipt = await sender.post(
            Message(text, properties=Properties(to=f"/exchanges/log/{severity}")) for severity, text in REPORTS
        )
        for first, last, outcome in await receipt.fates():
            print(f"reports {first} to {last}: {type(outcome).__name__}")
        print("alarms:", await read(connection, "log.alarms"))
        print("archive:", await read(connection, "log.archive"))


if __name__ == "__main__":
    trio.run(main)
