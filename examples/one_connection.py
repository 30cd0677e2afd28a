"""10,000 messages out and in again, on one connection and one session, with python-qpid-proton.

To run it:

    headgate queues declare numbers
    python examples/one_connection.py

Publisher and consumer share one connection and one session here. Each has link credit of its own, so neither can hold
the other up.
"""

import os
import sys

from proton import Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
QUEUE = "/queues/numbers"
COUNT = 10_000


class Numbers(MessagingHandler):
    """Sends the numbers from 0 up, and receives them in the same order."""

    def __init__(self) -> None:
        super().__init__(auto_accept=False)
        self.sent = self.confirmed = self.received = 0
        self.problem = ""

    def on_start(self, event: Event) -> None:
        """Open one connection, and on its one session a receiver and a sender."""
        connection = event.container.connect(URL, reconnect=False)
        event.container.create_receiver(connection, QUEUE)
        event.container.create_sender(connection, QUEUE)

    def on_sendable(self, event: Event) -> None:
        """Send as many messages as the broker has given link credit for."""
        while event.sender.credit and self.sent < COUNT:
            event.sender.send(Message(body=self.sent))
            self.sent += 1

    def on_accepted(self, event: Event) -> None:
        """Count a message that the broker has accepted."""
        self.confirmed += 1
        self.close_when_done(event)

    def on_message(self, event: Event) -> None:
        """Check a message that has come, and accept it."""
        if event.message.body != self.received:
            self.problem = f"{event.message.body} came where {self.received} was next"
            event.connection.close()
        self.accept(event.delivery)
        self.received += 1
        self.close_when_done(event)

    def close_when_done(self, event: Event) -> None:
        """Close when everything is sent, confirmed, received and settled."""
        if self.confirmed == self.received == COUNT:
            event.connection.close()

    def on_link_error(self, event: Event) -> None:
        """Report that the broker did not attach a link, for example because there is no such queue."""
        self.problem = event.link.remote_condition.description
        event.connection.close()

    def on_transport_error(self, event: Event) -> None:
        """Report that there is no connection."""
        self.problem = f"{event.transport.condition.description}; is the broker running?"


def main() -> None:
    """Run until every message is back, or an error was reported."""
    numbers = Numbers()
    Container(numbers).run()
    if numbers.problem:
        sys.exit(f"one_connection: {numbers.problem}")
    print(f"sent {numbers.sent}, confirmed {numbers.confirmed}, received {numbers.received}, all in order")


if __name__ == "__main__":
    main()
