"""One client in a process of its own: sends messages one by one, sends as many together, and receives all of them.

Each function does all three with one library, as the library's documents advise, and returns the CPU time of its
process for each in microseconds a message. An outcome is awaited for each message, and each delivery is accepted.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from functools import partial

import aio_pika
import anyio
from proton import Message as ProtonMessage
from proton.utils import BlockingConnection as ProtonConnection

from amqp10.client import Message, SendBatch, connect, scripts
from amqp10.client_core.url import Url

QUEUE = "client-cost"
BODY = bytes(100)
TOGETHER = 256
"""Messages that are sent before their outcomes are awaited."""
Costs = dict[str, float | None]


class Meter:
    """The CPU time of this process since the last question, for a number of messages."""

    def __init__(self) -> None:
        self._before = time.process_time()

    def per_message(self, messages: int) -> float:
        """Microseconds a message."""
        before, self._before = self._before, time.process_time()
        return (self._before - before) * 1e6 / messages


def costs(one_by_one: float, together: float | None, received: float) -> Costs:
    """The figures by their names."""
    return {"one by one": one_by_one, "together": together, "received": received}


async def own(url: str, n: int) -> Costs:
    """The client that awaits, under the library that runs this."""
    async with connect(url) as connection:
        sender = await connection.open_sender(f"/queues/{QUEUE}")
        meter = Meter()
        for _ in range(n):
            await sender.send(Message(BODY))
        one_by_one = meter.per_message(n)
        async with SendBatch(sender) as batch:
            for _ in range(n):
                await batch.send(Message(BODY))
        together = meter.per_message(n)
        receiver = await connection.open_receiver(f"/queues/{QUEUE}")
        left = 2 * n
        async for delivery in receiver:
            assert delivery.message.body == BODY
            delivery.accept()
            left -= 1
            if not left:
                break
        return costs(one_by_one, together, meter.per_message(2 * n))


def own_script(url: str, n: int) -> Costs:
    """The client for scripts; both of its threads count."""
    with scripts.connect(url) as connection:
        sender = connection.open_sender(f"/queues/{QUEUE}")
        meter = Meter()
        for _ in range(n):
            sender.send(Message(BODY))
        one_by_one = meter.per_message(n)
        sender.send_many(Message(BODY) for _ in range(n))
        together = meter.per_message(n)
        left = 2 * n
        for delivery in connection.open_receiver(f"/queues/{QUEUE}"):
            assert delivery.message.body == BODY
            delivery.accept()
            left -= 1
            if not left:
                break
        return costs(one_by_one, together, meter.per_message(2 * n))


async def with_aio_pika(url: str, n: int) -> Costs:
    """aio-pika: AMQP 0.9.1 on asyncio, with confirms."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=200)
        exchange = channel.default_exchange
        meter = Meter()
        for _ in range(n):
            await exchange.publish(aio_pika.Message(BODY), QUEUE)
        one_by_one = meter.per_message(n)
        for begin in range(0, n, TOGETHER):
            many = range(begin, min(n, begin + TOGETHER))
            await asyncio.gather(*(exchange.publish(aio_pika.Message(BODY), QUEUE) for _ in many))
        together = meter.per_message(n)
        queue = await channel.get_queue(QUEUE)
        left = 2 * n
        async with queue.iterator() as messages:
            async for message in messages:
                assert message.body == BODY
                await message.ack()
                left -= 1
                if not left:
                    break
        return costs(one_by_one, together, meter.per_message(2 * n))


def with_proton(url: str, n: int) -> Costs:
    """python-qpid-proton's blocking client, which has no call for many messages."""
    parsed = Url.parse(url)
    connection = ProtonConnection(
        f"amqp://{parsed.place}", user=parsed.user, password=parsed.password, allowed_mechs="PLAIN"
    )
    sender = connection.create_sender(f"/queues/{QUEUE}")
    meter = Meter()
    for _ in range(2 * n):
        sender.send(ProtonMessage(BODY, inferred=True))
    one_by_one = meter.per_message(2 * n)
    receiver = connection.create_receiver(f"/queues/{QUEUE}", credit=200)
    for _ in range(2 * n):
        message = receiver.receive()  # its body is a view into its memory
        assert message.body == BODY
        receiver.accept()
    received = meter.per_message(2 * n)
    connection.close()
    return costs(one_by_one, None, received)


CLIENTS: dict[str, Callable[[str, int], Costs]] = {
    "amqp10.client, asyncio": lambda url, n: anyio.run(partial(own, url, n), backend="asyncio"),
    "amqp10.client, Trio": lambda url, n: anyio.run(partial(own, url, n), backend="trio"),
    "amqp10.client.scripts": own_script,
    "aio-pika": lambda url, n: asyncio.run(with_aio_pika(url, n)),
    "python-qpid-proton": with_proton,
}


if __name__ == "__main__":
    print(json.dumps(CLIENTS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))))
