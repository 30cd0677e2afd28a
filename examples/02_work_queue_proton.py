"""Tutorial 2: two workers share a queue, and link credit decides who gets how much. With python-qpid-proton.

To run it:

    headgate queues declare tasks
    python examples/02_work_queue_proton.py 10
    python examples/02_work_queue_proton.py 1
"""

import os
import sys

from proton import Delivery, Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
TASKS = 20


class Tasks(MessagingHandler):
    """Hands out twenty tasks while one of the workers is busy with something else."""

    def __init__(self, link_credit: int) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.link_credit = link_credit
        self.sent = self.accepted = self.done = 0
        self.waiting: list[Delivery] = []

    def on_start(self, event: Event) -> None:
        """Open one connection, with a sender and two workers that have no link credit yet."""
        connection = event.container.connect(URL, reconnect=False)
        self.busy = event.container.create_receiver(connection, "/queues/tasks", name="busy")
        self.quick = event.container.create_receiver(connection, "/queues/tasks", name="quick")
        event.container.create_sender(connection, "/queues/tasks")

    def on_sendable(self, event: Event) -> None:
        """Send as many tasks as there is link credit for."""
        while event.sender.credit and self.sent < TASKS:
            event.sender.send(Message(body=f"task {self.sent}"))
            self.sent += 1

    def on_accepted(self, event: Event) -> None:
        """Count a task that is in the queue. When all are, let the workers begin."""
        self.accepted += 1
        if self.accepted == TASKS:
            self.busy.flow(self.link_credit)
            self.quick.flow(self.link_credit)

    def on_message(self, event: Event) -> None:
        """Take a task. The quick worker does it and asks for another one; the busy one lets it wait."""
        if event.receiver == self.quick:
            self.accept(event.delivery)
            self.quick.flow(1)
            self.done += 1
        else:
            self.waiting.append(event.delivery)
        if self.done + len(self.waiting) == TASKS:
            print(f"with a link credit of {self.link_credit}:")
            print("  the quick worker did", self.done, "tasks")
            print("  the busy worker had", len(self.waiting), "waiting for it")
            for delivery in self.waiting:
                self.accept(delivery)
            event.connection.close()


if __name__ == "__main__":
    Container(Tasks(int(sys.argv[1]) if len(sys.argv) > 1 else 1)).run()
