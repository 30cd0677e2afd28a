"""Tutorial 1: three messages to a queue and back, with python-qpid-proton.

To run it:

    headgate queues declare hello
    python examples/01_hello_proton.py
"""

import os

from proton import Message
from proton.utils import BlockingConnection

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")


def main() -> None:
    """Three messages out, three messages in."""
    connection = BlockingConnection(URL, timeout=10)
    sender = connection.create_sender("/queues/hello")
    for number in range(3):
        delivery = sender.send(Message(body=f"message {number}"))
        print(f"sent {number}: {delivery.remote_state.name}, link credit left: {sender.link.credit}")

    receiver = connection.create_receiver("/queues/hello")
    for _ in range(3):
        message = receiver.receive(timeout=10)
        print("received", message.body)
        receiver.accept()

    connection.close()


if __name__ == "__main__":
    main()
