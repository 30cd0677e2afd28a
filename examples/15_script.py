"""Tutorial 15: a script without ``await``. It fills a small queue with a batch, is told why it has to wait, and works.

To run it:

    python examples/15_script.py
"""

import os

from amqp10.client import ClientSettings, LinkWait, Message, NotAccepted, SendTimedOut
from amqp10.client.scripts import ScriptConnection, connect

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
QUEUE = {"arguments": {"x-max-length": 100, "x-overflow": "block"}}


def tell(address: str | None, wait: LinkWait | None) -> None:
    """Print why a link waits, when that changes."""
    print(f"{address}: {'waits no more' if wait is None else f'waits: {wait.reason} ({wait.culprit})'}", flush=True)


def fill(connection: ScriptConnection) -> None:
    """Send until the queue is full, many messages with one wait."""
    with connection.open_sender("/queues/parcels") as sender:
        print("accepted:", sender.send_many(Message(f"parcel {number}") for number in range(100)))
        try:
            while True:  # the broker's link credit lets some more in
                sender.send(Message("one more"), within_s=0.5)
        except SendTimedOut as late:
            print("sent:", late.sent, "- what helps:", sender.wait and sender.wait.remedy)


def work(connection: ScriptConnection) -> None:
    """Take a hundred messages; the loop itself has no end."""
    done = 0
    with connection.open_receiver("/queues/parcels") as receiver:
        for delivery in receiver:
            delivery.accept()
            done += 1
            if done == 100:
                break
    print("worked off:", done)


def lose(connection: ScriptConnection) -> None:
    """Send to an exchange that has no queue for the messages: the error names them."""
    try:
        with connection.open_sender("/exchanges/amq.direct/nowhere") as sender, sender.batch() as batch:
            batch.send(Message("the first"))
            batch.send(Message("the second"))
    except NotAccepted as error:
        print(error)


def main() -> None:
    """Fill, work, lose."""
    with connect(URL, ClientSettings(when_waiting=tell)) as connection:
        connection.request("PUT", "/queues/parcels", QUEUE)
        fill(connection)
        work(connection)
        lose(connection)
        connection.request("DELETE", "/queues/parcels")


if __name__ == "__main__":
    main()
