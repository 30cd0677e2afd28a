"""aio-pika (over aiormq): many publishers and consumers on one connection of asyncio, on Headgate's AMQP 0.9.1 side."""

import asyncio
import importlib

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

WAIT_S = 20.0
"""How long a test waits for a message before it fails."""


@pytest.fixture
def aio_pika():
    return importlib.import_module("aio_pika")


@pytest.fixture
def connected(aio_pika, broker):
    """A function that runs a coroutine function with a connection of its own."""

    def run(body, connect=None):
        async def whole():
            async with await (connect or aio_pika.connect)(broker.url(path="/")) as connection:
                return await asyncio.wait_for(body(connection), WAIT_S)

        return asyncio.run(whole())

    return run


async def bodies(queue, n):
    """Consume and acknowledge n messages."""
    taken = []
    async with queue.iterator() as messages:
        async for message in messages:
            async with message.process():
                taken.append(message.body)
            if len(taken) == n:
                return taken


def test_publishers_at_once_all_confirmed_each_in_order(aio_pika, connected, queue_name):
    async def publish_and_consume(connection):
        publishing, consuming = await connection.channel(), await connection.channel()
        await consuming.set_qos(prefetch_count=20)
        queue = await consuming.declare_queue(queue_name, durable=True)

        async def publish(publisher):
            for number in range(50):
                message = aio_pika.Message(b"%d %d" % (publisher, number), delivery_mode=2)
                confirmed = await publishing.default_exchange.publish(message, routing_key=queue_name)
                assert confirmed.name == "Basic.Ack"

        _, got = await asyncio.gather(asyncio.gather(*map(publish, range(10))), bodies(queue, 500))
        assert (await queue.delete()).message_count == 0
        return got

    got = [tuple(map(int, body.split())) for body in connected(publish_and_consume)]
    assert sorted(got) == [(publisher, number) for publisher in range(10) for number in range(50)]
    for publisher in range(10):
        assert [number for one, number in got if one == publisher] == list(range(50))


def test_a_return_and_a_nack_are_errors_of_publish(aio_pika, connected, queue_name):
    async def refused(connection):
        channel = await connection.channel(on_return_raises=True)
        full = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await channel.declare_queue(queue_name, exclusive=True, arguments=full)
        exchange = channel.default_exchange
        with pytest.raises(aio_pika.exceptions.PublishError, match="NO_ROUTE"):
            await exchange.publish(aio_pika.Message(b"back"), routing_key="no-such-queue")
        await exchange.publish(aio_pika.Message(b"fits"), routing_key=queue_name)
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await exchange.publish(aio_pika.Message(b"does not fit"), routing_key=queue_name)

    connected(refused)


def test_a_message_that_fails_comes_again_or_goes(aio_pika, connected, queue_name):
    async def fail(connection):
        channel = await connection.channel()
        queue = await channel.declare_queue(queue_name, exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(b"hard"), routing_key=queue_name)
        seen = []
        for requeue in (True, False):
            message = await queue.get()
            seen.append((message.body, message.redelivered))
            with pytest.raises(ZeroDivisionError):
                async with message.process(requeue=requeue):
                    raise ZeroDivisionError
        assert seen == [(b"hard", False), (b"hard", True)]
        assert await queue.get(fail=False) is None

    connected(fail)


def test_a_transaction(aio_pika, connected, queue_name):
    async def transact(connection):
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(queue_name, exclusive=True)
        transaction = channel.transaction()
        await transaction.select()
        await channel.default_exchange.publish(aio_pika.Message(b"undone"), routing_key=queue_name)
        await transaction.rollback()
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"done"), routing_key=queue_name)
        assert (await queue.get(no_ack=True)).body == b"done"
        assert await queue.get(no_ack=True, fail=False) is None

    connected(transact)


def test_calls_and_their_answers(aio_pika, connected, queue_name):
    patterns = importlib.import_module("aio_pika.patterns")

    async def call(connection):
        channel = await connection.channel()
        rpc = await patterns.RPC.create(channel)

        async def multiply(*, x, y):
            return x * y

        await rpc.register(queue_name, multiply, auto_delete=True)
        answers = await asyncio.gather(*(rpc.call(queue_name, {"x": n, "y": n}) for n in range(50)))
        await rpc.close()
        return answers

    assert connected(call) == [n * n for n in range(50)]


def test_the_robust_connection_declares_and_consumes(aio_pika, connected, queue_name):
    async def fan_out(connection):
        channel = await connection.channel()
        exchange = await channel.declare_exchange(queue_name, aio_pika.ExchangeType.FANOUT, auto_delete=True)
        queues = [await channel.declare_queue(exclusive=True) for _ in range(3)]
        for queue in queues:
            await queue.bind(exchange)
        await exchange.publish(aio_pika.Message(b"all"), routing_key="")
        return [await bodies(queue, 1) for queue in queues]

    assert connected(fan_out, aio_pika.connect_robust) == [[b"all"]] * 3
