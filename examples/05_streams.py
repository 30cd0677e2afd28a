"""Tutorial 5: a stream is read by anybody, from anywhere, any number of times.

To run it:

    headgate queues declare readings --argument x-queue-type=stream
    python examples/05_streams.py
"""

import os

from proton import Described, Message, Timeout, symbol
from proton.reactor import Filter
from proton.utils import BlockingConnection

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
ADDRESS = "/queues/readings"
OFFSET_SPEC = symbol("rabbitmq:stream-offset-spec")
FILTER = symbol("rabbitmq:stream-filter")


def read(connection: BlockingConnection, filters: dict[symbol, object]) -> list[Message]:
    """Everything that a reader with these filters gets."""
    described = Filter({name: Described(name, value) for name, value in filters.items()})
    receiver = connection.create_receiver(ADDRESS, credit=100, options=described)
    messages = []
    while True:
        try:
            messages.append(receiver.receive(timeout=0.5))
        except Timeout:
            receiver.close()
            return messages
        receiver.accept()


def show(title: str, messages: list[Message]) -> None:
    """Their bodies, in a line."""
    print(f"{title:18}", *[message.body for message in messages])


def main() -> None:
    """Six messages in, and readers that begin at different places."""
    connection = BlockingConnection(URL, timeout=10)
    sender = connection.create_sender(ADDRESS)
    for number in range(6):
        city = ("Oslo", "Rome")[number % 2]
        annotations = {symbol("x-stream-filter-value"): city}
        sender.send(Message(durable=True, body=f"{city}-{number}", annotations=annotations))

    everything = read(connection, {OFFSET_SPEC: "first"})
    show("from the first:", everything)
    show("once more:", read(connection, {OFFSET_SPEC: "first"}))

    handled = everything[3].annotations["x-stream-offset"]
    show("behind the fourth:", read(connection, {OFFSET_SPEC: handled + 1}))
    show("only from Rome:", read(connection, {OFFSET_SPEC: "first", FILTER: "Rome"}))
    show("what comes next:", read(connection, {OFFSET_SPEC: "next"}))
    connection.close()


if __name__ == "__main__":
    main()
