"""Tutorial 3: every subscriber gets every message. With python-qpid-proton, and subscriptions that stay.

To run it:

    headgate definitions apply examples/03_news.json
    python examples/03_publish_subscribe_proton.py
"""

import os

from proton import Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
SUBSCRIPTIONS = ("news.screen", "news.archive")


class News(MessagingHandler):
    """Publishes once, and reads what came from each subscription's queue."""

    def __init__(self) -> None:
        super().__init__()
        self.published = False
        self.received = 0

    def on_start(self, event: Event) -> None:
        """Open the sender. No subscriber runs in this process yet, but the queues exist."""
        connection = event.container.connect(URL, reconnect=False)
        event.container.create_sender(connection, "/exchanges/news")

    def on_sendable(self, event: Event) -> None:
        """Send the message when there is link credit."""
        if not self.published:
            event.sender.send(Message(body="it rains"))
            self.published = True

    def on_accepted(self, event: Event) -> None:
        """Read the queues, because the message is in both of them."""
        print("two subscriptions: accepted")
        for queue in SUBSCRIPTIONS:
            event.container.create_receiver(event.connection, f"/queues/{queue}")

    def on_message(self, event: Event) -> None:
        """Note that a subscriber has the message. The handler accepts it when this returns."""
        print(event.receiver.source.address, "has", event.message.body)
        self.received += 1
        if self.received == len(SUBSCRIPTIONS):
            event.connection.close()


if __name__ == "__main__":
    Container(News()).run()
