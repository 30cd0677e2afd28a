"""Tutorial 5: patterns of routing keys, and a reader that takes two messages at a time. With python-qpid-proton.

To run it:

    headgate definitions apply examples/05_sales.json
    python examples/05_topics_proton.py
"""

import os

from proton import Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
KEYS = ("eu.lamp.ordered", "us.lamp.ordered", "eu.desk.paid", "us.desk.returned")
QUEUES = ("sales.europe", "sales.orders", "sales.audit")


class Sales(MessagingHandler):
    """Publishes four messages, and reads what each pattern took."""

    def __init__(self) -> None:
        super().__init__(prefetch=0)
        self.sent = self.accepted = 0
        self.to_read = list(QUEUES)
        self.pair: list[object] = []

    def on_start(self, event: Event) -> None:
        """Open a sender without an address: each message says where it goes."""
        connection = event.container.connect(URL, reconnect=False)
        event.container.create_sender(connection, None)

    def on_sendable(self, event: Event) -> None:
        """Send as many messages as there is link credit for."""
        while event.sender.credit and self.sent < len(KEYS):
            key = KEYS[self.sent]
            event.sender.send(Message(address=f"/exchanges/sales/{key}", body=key))
            self.sent += 1

    def on_accepted(self, event: Event) -> None:
        """Count a message that is in its queues. After the last one, read the queues."""
        self.accepted += 1
        if self.accepted == len(KEYS):
            self.read_next(event)

    def read_next(self, event: Event) -> None:
        """Ask for two messages of the next queue."""
        if self.to_read:
            event.container.create_receiver(event.connection, f"/queues/{self.to_read.pop(0)}").drain(2)
        else:
            event.connection.close()

    def on_message(self, event: Event) -> None:
        """Show a message. The handler accepts it when this returns."""
        self.pair.append(event.message.body)

    def on_link_flow(self, event: Event) -> None:
        """Note the broker's answer to a drain: the messages that were there, at most two, have come."""
        receiver = event.receiver
        if receiver and not receiver.draining():
            if self.pair:
                print(f"{receiver.source.address}:", *self.pair)
                self.pair.clear()
                receiver.drain(2)
            else:
                self.read_next(event)


if __name__ == "__main__":
    Container(Sales()).run()
