"""Tutorial 1: three messages to a queue and back, with Headgate's own client.

To run it:

    headgate queues declare hello
    python examples/01_hello.py
"""

import os

import trio

from amqp10.client import Message, connect

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")


async def main() -> None:
    """Three messages out, three messages in."""
    async with connect(URL) as connection:
        sender = await connection.open_sender("/queues/hello")
        for number in range(3):
            outcome = await sender.send(Message(f"message {number}"))
            print(f"sent {number}: {type(outcome).__name__}, link credit left: {sender.link_credit}")

        receiver = await connection.open_receiver("/queues/hello")
        for _ in range(3):
            delivery = await receiver.receive()
            print("received", delivery.message.body)
            delivery.accept()


if __name__ == "__main__":
    trio.run(main)
