"""Tutorial 9: a message that no consumer could handle goes to a queue of its own, with its history.

To run it, make the two queues as the tutorial does, and then:

    python examples/09_dead_letters.py
"""

import os
from collections.abc import Mapping

import trio

from amqp10.client import ClientConnection, Message, connect
from amqp10.wire.messaging import Error
from amqp10.wire.sections import Header

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
ORDERS, BURIED = "/queues/orders", "/queues/orders.dead"


async def work(connection: ClientConnection) -> None:
    """Take three orders: one is fine, one is rejected, one is given back as failed and comes again."""
    receiver = await connection.open_receiver(ORDERS)
    for _ in range(4):
        delivery = await receiver.receive()
        message = delivery.message
        failed = message.header.delivery_count if message.header is not None else 0
        if message.body == "nonsense":
            delivery.reject(Error(condition="orders:nonsense", description="there is no such article"))
            print("rejected", message.body)
        elif message.body == "difficult" and not failed:
            delivery.modify(delivery_failed=True)
            print("could not do", message.body)
        else:
            delivery.accept()
            print("did", message.body, "at attempt", failed + 1)
    await receiver.close()


def story(annotations: Mapping[str, object]) -> str:
    """The queue in which a message died first, and the reason."""
    return f"{annotations['x-first-death-reason']} in {annotations['x-first-death-queue']}"


async def main() -> None:
    """Send orders, work, and look at the dead letters."""
    async with connect(URL) as connection:
        sender = await connection.open_sender(ORDERS)
        for body in ("easy", "nonsense", "difficult"):
            await sender.send(Message(body, header=Header(durable=True)))
        await work(connection)

        buried = await connection.open_receiver(BURIED)
        delivery = await buried.receive()
        print("buried:", delivery.message.body, "-", story(delivery.message.annotations))
        delivery.release()  # it stays there until an operator decides what to do with it


if __name__ == "__main__":
    trio.run(main)
