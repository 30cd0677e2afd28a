"""Tutorial 6: requests and replies, through a queue that the broker makes for the client. With python-qpid-proton.

To run it:

    headgate queues declare requests
    python examples/06_request_reply_proton.py
"""

import os

from proton import Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
QUESTIONS = ("hello", "goodbye")
SECONDS_MAX = 5


class Service(MessagingHandler):
    """Answers requests, one after the other, each at the address that it names."""

    def __init__(self) -> None:
        super().__init__(prefetch=0)

    def on_connection_opened(self, event: Event) -> None:
        """Attach the links, and ask for one request."""
        event.container.create_receiver(event.connection, "/queues/requests").flow(1)
        self.answers = event.container.create_sender(event.connection, None)  # each message says where it goes

    def on_message(self, event: Event) -> None:
        """Answer a request, and ask for the next one. The handler accepts it when this returns."""
        request = event.message
        answer = Message(address=request.reply_to, correlation_id=request.id, body=request.body.upper())
        self.answers.send(answer)
        event.receiver.flow(1)


class Asker(MessagingHandler):
    """Sends the questions, each with the address for its answer and a number by which the answer is known."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = 0

    def on_connection_opened(self, event: Event) -> None:
        """Attach a receiver at an address that the broker chooses."""
        event.container.create_receiver(event.connection, None, dynamic=True)
        event.container.schedule(SECONDS_MAX, self)

    def on_link_opened(self, event: Event) -> None:
        """Send the questions. The broker has answered the attach, so the address for answers is known."""
        if event.receiver:
            reply_to = event.receiver.remote_source.address
            print("answers go to", reply_to)
            requests = event.container.create_sender(event.connection, "/queues/requests")
            for number, question in enumerate(QUESTIONS):
                requests.send(Message(id=number, reply_to=reply_to, body=question))

    def on_message(self, event: Event) -> None:
        """Show an answer."""
        print(f"{QUESTIONS[event.message.correlation_id]}: {event.message.body}")
        self.answered += 1
        if self.answered == len(QUESTIONS):
            event.container.stop()

    def on_timer_task(self, event: Event) -> None:
        """Give up, because no answer has come in time."""
        raise TimeoutError(f"no answer within {SECONDS_MAX} s")


class Conversation(MessagingHandler):
    """Runs the service and the asker, each on a connection of its own. The service could be on another machine."""

    def on_start(self, event: Event) -> None:
        """Connect both."""
        for handler in (Service(), Asker()):
            event.container.connect(URL, reconnect=False, handler=handler)


if __name__ == "__main__":
    Container(Conversation()).run()
