"""The script of aio-pika."""

import asyncio
import importlib
from contextlib import suppress
from importlib.metadata import version as version_of
from types import ModuleType
from typing import Any

QUEUE, OTHER = "recorded-aio-pika", "recorded-aio-pika-other"
SIZES = (0, 1, 10_000, 150_000)


def version() -> str:
    """The client and its version."""
    return f"aio-pika {version_of('aio-pika')}"


def converse(url: str) -> None:
    """Run the script."""
    aio_pika = importlib.import_module("aio_pika")  # this module has its name

    async def run() -> None:
        async with await aio_pika.connect(f"{url}/") as connection:
            await publish(aio_pika, connection)
            await consume(aio_pika, connection)
            await transaction(aio_pika, connection)
            await faults(aio_pika, connection)

    asyncio.run(run())


async def publish(aio_pika: ModuleType, connection: Any) -> None:
    """Confirmed messages of several sizes, many at once, one that returns and one that is refused."""
    channel = await connection.channel(on_return_raises=True)
    await channel.declare_queue(QUEUE, durable=True)
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    await channel.declare_queue(OTHER, arguments=full)
    exchange = channel.default_exchange
    for size in SIZES:
        await exchange.publish(message(aio_pika, bytes(size), f"of {size}"), routing_key=QUEUE)
    many = [message(aio_pika, b"%d" % number, f"many {number}") for number in range(20)]
    await asyncio.gather(*(exchange.publish(one, routing_key=QUEUE) for one in many))
    with suppress(aio_pika.exceptions.PublishError):
        await exchange.publish(message(aio_pika, b"back", "back"), routing_key="no-such-queue")
    for number in range(2):
        with suppress(aio_pika.exceptions.DeliveryError):
            await exchange.publish(message(aio_pika, b"%d" % number, f"full {number}"), routing_key=OTHER)
    await channel.close()


def message(aio_pika: ModuleType, body: bytes, message_id: str) -> Any:
    """A durable message, with the id that aio-pika would make up otherwise."""
    return aio_pika.Message(body, delivery_mode=2, message_id=message_id, headers={"n": 1, "text": "x"})


async def consume(aio_pika: ModuleType, connection: Any) -> None:
    """An iterator with a prefetch-count, messages that fail, get, and what is there no more."""
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=4)
    queue = await channel.get_queue(QUEUE)
    taken = 0
    async with queue.iterator(consumer_tag="iterator") as messages:
        async for one in messages:
            await one.ack()
            taken += 1
            if taken == 10:
                break
    for requeue in (True, False):
        one = await queue.get()
        await one.reject(requeue=requeue)
    one = await queue.get()
    await one.nack()
    await queue.get(no_ack=True)
    await queue.purge()
    await queue.get(fail=False)
    fanout = await channel.declare_exchange("recorded-aio-pika", aio_pika.ExchangeType.FANOUT, auto_delete=True)
    own = await channel.declare_queue(exclusive=True)
    await own.bind(fanout)
    await fanout.publish(message(aio_pika, b"all", "all"), routing_key="")
    await own.get()
    await own.unbind(fanout)
    await channel.close()


async def transaction(aio_pika: ModuleType, connection: Any) -> None:
    """Messages that are undone and that are done."""
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.get_queue(QUEUE)
    transaction = channel.transaction()
    await transaction.select()
    await channel.default_exchange.publish(message(aio_pika, b"undone", "undone"), routing_key=QUEUE)
    await transaction.rollback()
    await channel.default_exchange.publish(message(aio_pika, b"done", "done"), routing_key=QUEUE)
    await transaction.commit()
    await queue.get(no_ack=True)
    await channel.close()


async def faults(aio_pika: ModuleType, connection: Any) -> None:
    """Faults that cost a channel, and the end of the queues."""
    for name, passive, durable in (("no-such-queue", True, True), ("amq.mine", False, True), (QUEUE, False, False)):
        channel = await connection.channel()
        with suppress(aio_pika.exceptions.ChannelClosed):
            await channel.declare_queue(name, passive=passive, durable=durable)
    channel = await connection.channel()
    for name in (QUEUE, OTHER):
        await channel.queue_delete(name)
    await channel.close()
