"""What a user's project does with the library alone: publish, consume, and import packages of its own.

The tests run a copy of this project, with the broker's URL as the argument. Nothing of this tree is on its path.
"""

import asyncio
import sys
from importlib.util import find_spec

import core
import pipeline
import tests
from amqp10.client import Message, connect
from amqp10.services import Service

OF_THE_BROKER = ("addresses", "cli", "compaction", "conversion", "frontend", "management", "serve", "top")


async def main(url: str) -> None:
    """Publish three messages, and consume them."""
    async with connect(url) as connection:
        await connection.request("PUT", "/queues/of-the-library", {})
        sender = await connection.open_sender("/queues/of-the-library")
        await sender.send_many(Message(body) for body in ("one", "two", "three"))
        receiver = await connection.open_receiver("/queues/of-the-library")
        bodies = []
        for _ in range(3):
            delivery = await receiver.receive()
            bodies.append(str(delivery.message.body))
            delivery.accept()
    print(*bodies, sep=", ")


print(core.OWNER, pipeline.OWNER, tests.OWNER, sep=", ")
asyncio.run(main(sys.argv[1]))
print(Service.__name__, "is there too")
print("not there:", *(name for name in OF_THE_BROKER if find_spec(f"amqp10.{name}") is None))
