"""Tutorial 1: publish and consume on one connection, with python-qpid-proton.

To run it:

    headgate queues declare hello
    python examples/01_hello.py
"""

import os

from proton import Message
from proton.utils import BlockingConnection

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")


def main() -> None:
    """Three messages out, three messages in."""
    connection = BlockingConnection(URL, timeout=10)
    sender = connection.create_sender("/queues/hello")
    receiver = connection.create_receiver("/queues/hello")

    print("link credit to send with:", sender.link.credit)
    for number in range(3):
        delivery = sender.send(Message(body=f"message {number}"))
        print("sent", number, "and it was", delivery.remote_state.name)

    for _ in range(3):
        message = receiver.receive(timeout=10)
        receiver.accept()
        print("received", message.body)

    connection.close()


if __name__ == "__main__":
    main()
