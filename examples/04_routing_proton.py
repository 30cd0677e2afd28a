"""Tutorial 4: a routing key decides which queues get a message. With python-qpid-proton.

To run it:

    headgate definitions apply examples/04_log.json
    python examples/04_routing_proton.py
"""

import os

from proton import Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
REPORTS = [("error", "disk full"), ("info", "started"), ("error", "fan stopped"), ("debug", "tick")]
QUEUES = ("log.alarms", "log.archive")


class Reports(MessagingHandler):
    """Publishes four reports, counts their outcomes, and reads both queues."""

    def __init__(self) -> None:
        super().__init__(prefetch=0)
        self.sent = self.accepted = self.released = 0
        self.found: dict[str, list[object]] = {f"/queues/{queue}": [] for queue in QUEUES}

    def on_start(self, event: Event) -> None:
        """Open a sender without an address: each message says where it goes."""
        connection = event.container.connect(URL, reconnect=False)
        event.container.create_sender(connection, None)

    def on_sendable(self, event: Event) -> None:
        """Send as many reports as there is link credit for."""
        while event.sender.credit and self.sent < len(REPORTS):
            severity, text = REPORTS[self.sent]
            event.sender.send(Message(address=f"/exchanges/log/{severity}", body=text))
            self.sent += 1

    def on_accepted(self, event: Event) -> None:
        """Count a report that is in every queue that wants it."""
        self.accepted += 1

    def on_released(self, event: Event) -> None:
        """Count a report that no queue wants."""
        self.released += 1

    def on_settled(self, event: Event) -> None:
        """Note one more outcome. After the last one, read the queues."""
        if self.accepted + self.released == len(REPORTS):
            print(f"{self.accepted} accepted, {self.released} released")
            for address in self.found:
                event.container.create_receiver(event.connection, address).drain(100)

    def on_message(self, event: Event) -> None:
        """Show a report. The handler accepts it when this returns."""
        self.found[event.receiver.source.address].append(event.message.body)

    def on_link_flow(self, event: Event) -> None:
        """Note a flow of the broker: a receiver that does not drain any more has everything."""
        if event.receiver and not event.receiver.draining():
            address = event.receiver.source.address
            print(address, "had", self.found.pop(address))
            event.receiver.close()
            if not self.found:
                event.connection.close()


if __name__ == "__main__":
    Container(Reports()).run()
