"""Tutorial 4: ask and be answered, through a node that the broker makes for the asker.

To run it:

    headgate queues declare requests
    python examples/04_request_reply.py
"""

import os

from proton import Message
from proton.utils import BlockingConnection

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")


class Service:
    """Answers requests from a queue, each to the address that it names."""

    def __init__(self) -> None:
        self.connection = BlockingConnection(URL, timeout=10)
        self.requests = self.connection.create_receiver("/queues/requests")
        self.answers = self.connection.create_sender(None)  # no address: each message says where it goes

    def serve_one(self) -> None:
        """Answer the next request."""
        request = self.requests.receive(timeout=10)
        answer = Message(address=request.reply_to, correlation_id=request.id, body=request.body.upper())
        self.answers.send(answer)
        self.requests.accept()


class Asker:
    """Sends requests, and receives their answers at an address of its own."""

    def __init__(self) -> None:
        self.connection = BlockingConnection(URL, timeout=10)
        self.requests = self.connection.create_sender("/queues/requests")
        self.answers = self.connection.create_receiver(None, dynamic=True)
        self.reply_to = self.answers.link.remote_source.address

    def ask(self, number: int, text: str) -> None:
        """Send a request, with where to answer and a number to know the answer by."""
        self.requests.send(Message(id=number, reply_to=self.reply_to, body=text))

    def next_answer(self) -> str:
        """Wait for an answer."""
        answer = self.answers.receive(timeout=10)
        self.answers.accept()
        return f"{answer.correlation_id}: {answer.body}"


def main() -> None:
    """Two questions, two answers. The service could be another process on another machine."""
    asker, service = Asker(), Service()
    print("answers go to", asker.reply_to)
    asker.ask(1, "hello")
    asker.ask(2, "goodbye")
    service.serve_one()
    service.serve_one()
    print(asker.next_answer())
    print(asker.next_answer())
    asker.connection.close()
    service.connection.close()


if __name__ == "__main__":
    main()
