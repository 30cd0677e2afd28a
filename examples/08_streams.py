"""Tutorial 8: any number of readers read a stream, from any place, any number of times.

To run it:

    headgate queues declare readings --argument x-queue-type=stream
    python examples/08_streams.py
"""

import os

import trio

from amqp10.client import ClientConnection, Message, ReceiverOptions, connect
from amqp10.wire.sections import Header
from amqp10.wire.types import Described, Symbol, ULong

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
ADDRESS = "/queues/readings"
OFFSET_SPEC = "rabbitmq:stream-offset-spec"
FILTER = "rabbitmq:stream-filter"


async def read(connection: ClientConnection, filters: dict[str, object]) -> list[Message]:
    """Read everything that a reader with these filters gets."""
    described = {name: Described(Symbol(name), value) for name, value in filters.items()}
    options = ReceiverOptions(automatic=False, filter=described)
    receiver = await connection.open_receiver(ADDRESS, options=options)
    receiver.grant(100)
    await receiver.drain()
    deliveries = receiver.receive_nowait(100)
    for delivery in deliveries:
        delivery.accept()
    await receiver.close()
    return [delivery.message for delivery in deliveries]


def show(title: str, messages: list[Message]) -> None:
    """Print the bodies of messages in a line."""
    print(f"{title:18}", *[message.body for message in messages])


async def main() -> None:
    """Publish six messages, and start readers at different places."""
    async with connect(URL) as connection:
        sender = await connection.open_sender(ADDRESS)
        for number in range(6):
            city = ("Oslo", "Rome")[number % 2]
            annotations = {"x-stream-filter-value": city}
            await sender.send(Message(f"{city}-{number}", header=Header(durable=True), annotations=annotations))

        everything = await read(connection, {OFFSET_SPEC: "first"})
        show("from the first:", everything)
        show("once more:", await read(connection, {OFFSET_SPEC: "first"}))

        handled = everything[3].annotations["x-stream-offset"]
        assert isinstance(handled, ULong)
        show("behind the fourth:", await read(connection, {OFFSET_SPEC: ULong(handled.value + 1)}))
        show("only from Rome:", await read(connection, {OFFSET_SPEC: "first", FILTER: "Rome"}))
        show("what comes next:", await read(connection, {OFFSET_SPEC: "next"}))


if __name__ == "__main__":
    trio.run(main)
