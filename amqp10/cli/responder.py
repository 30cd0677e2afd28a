"""The responder of ``headgate bench request``: ``python -m amqp10.cli.responder URL QUEUE ANSWERS``.

It prints a line when its links are attached. Then it sends every message of one queue to another as it is, and accepts
it once that is sent. It speaks AMQP 1.0 and runs until it is terminated.
"""

import sys

from amqp10.addresses import queue_address
from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink, SendingLink
from amqp10.cli.consuming import ENDLESS, WITHIN_S
from amqp10.client_core.url import Url as BrokerUrl

LINK_CREDIT = 500


def respond(url: str, queue: str, answers: str) -> None:
    """Answer until the connection ends. Raises ClientError."""
    with BlockingConnection.open(BrokerUrl.parse(url)) as connection:
        sending = SendingLink.open(connection, queue_address(answers))
        receiving = ReceivingLink.open(connection, queue_address(queue))
        receiving.stream(LINK_CREDIT, messages=ENDLESS)
        print("attached", flush=True)
        while True:
            for run in receiving.arrived(within_s=WITHIN_S):
                sending.send(run.entries, within_s=WITHIN_S)
                if not run.settled:
                    receiving.settle(run.first, run.first + len(run.entries) - 1)


if __name__ == "__main__":
    respond(*sys.argv[1:4])
