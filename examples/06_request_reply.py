"""Tutorial 6: requests and replies, through a queue that the broker makes for the client. With Headgate's own client.

To run it:

    headgate queues declare requests
    python examples/06_request_reply.py
"""

import os

import trio

from amqp10.client import ClientConnection, Message, ReceiverOptions, connect
from amqp10.wire.sections import Properties

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
SECONDS_MAX = 5


async def serve(connection: ClientConnection) -> None:
    """Answer requests, one after the other, each at the address that it names."""
    requests = await connection.open_receiver("/queues/requests", options=ReceiverOptions(automatic=False))
    answers = await connection.open_sender(None)  # no address: each message says where it goes
    while True:
        requests.grant(1)
        request = await requests.receive()
        asked = request.message.properties
        assert asked is not None
        properties = Properties(to=asked.reply_to, correlation_id=asked.message_id)
        await answers.send(Message(str(request.message.body).upper(), properties=properties))
        request.accept()


async def ask(connection: ClientConnection, *questions: str) -> None:
    """Send the questions, each with the address for its answer and an id by which the answer is known."""
    answers = await connection.open_receiver(None)
    print("answers go to", answers.address)
    requests = await connection.open_sender("/queues/requests")
    asked = {f"question-{number}": question for number, question in enumerate(questions)}
    for identity, question in asked.items():
        properties = Properties(message_id=identity, reply_to=answers.address)
        await requests.send(Message(question, properties=properties))

    with trio.fail_after(SECONDS_MAX):
        for _ in questions:
            delivery = await answers.receive()
            delivery.accept()
            about = delivery.message.properties
            assert about is not None
            print(f"{asked[str(about.correlation_id)]}: {delivery.message.body}")


async def main() -> None:
    """Ask two questions and get two answers. The service could be another process on another machine."""
    async with connect(URL) as service, connect(URL) as asker, trio.open_nursery() as nursery:
        nursery.start_soon(serve, service)
        await ask(asker, "hello", "goodbye")
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
