"""What is made and deleted during the soak: connections, links, queues of each type, exchanges, bindings, policies."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import trio
from anyio.abc import SocketStream

from amqp10.client import ClientConnection, Message, connect
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import Header
from tests.soak.flowing091 import connection
from tests.soak.flowing10 import settings
from tests.soak.plan import QUORUM, STREAM

MESSAGES = 10
PAUSE_S = 0.25
QUEUE_TYPES = ({}, QUORUM, STREAM, {"x-queue-mode": "lazy"}, {"x-max-length": 5, "x-overflow": "drop-head"})


@dataclass(slots=True)
class Rounds:
    """How many rounds of each activity were done."""

    done: dict[str, int] = field(default_factory=dict)

    async def repeat(self, name: str, once: Callable[[int], Awaitable[None]], pause_s: float) -> None:
        """Call something for ever, with the number of the round."""
        while True:
            number = self.done.get(name, 0)
            await once(number)
            self.done[name] = number + 1
            await trio.sleep(pause_s)


async def expect(asked: ClientConnection, method: str, path: str, body: object = None) -> object:
    """Send a management request that must succeed."""
    answer = await asked.request(method, path, body)
    if answer.status not in (200, 201, 204):
        raise AssertionError(f"{method} {path}: {answer}")
    return answer.body


async def come_and_go(url: str, number: int) -> None:
    """Open an AMQP 1.0 connection with a dynamic queue. Each fifth connection is cut off in the middle."""
    streams: list[SocketStream] = []

    async def open_stream(host: str, port: int) -> SocketStream:
        streams.append(await anyio.connect_tcp(host, port))
        return streams[-1]

    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with connect(url, settings(open_stream=open_stream, container_id=f"churn-{number}")) as one:
            receiver = await one.open_receiver(None)
            assert receiver.address is not None
            sender = await one.open_sender(receiver.address)
            await sender.send_many([Message(f"{number}/{index}") for index in range(MESSAGES)])
            if number % 5 == 0:
                await streams[0].aclose()
                return
            for _ in range(MESSAGES):
                (await receiver.receive()).accept()
            await receiver.close()


def come_and_go_091(host: str, port: int, number: int) -> None:
    """Open an AMQP 0.9.1 connection with an exclusive queue and a binding."""
    with connection(host, port) as one:
        channel = one.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.topic", f"churn.{number}.#")
        channel.confirm_delivery()
        for index in range(MESSAGES):
            channel.basic_publish("amq.topic", f"churn.{number}.{index}", b"x" * 100)
        for _ in range(MESSAGES // 2):
            method, _, _ = channel.basic_get(queue)
            channel.basic_ack(method.delivery_tag)
        channel.basic_cancel(channel.basic_consume(queue, lambda *_: None))


async def half_open(host: str, port: int, number: int) -> None:
    """Send half of a protocol header, or other bytes, and close."""
    stream = await trio.open_tcp_stream(host, port)
    async with stream:
        await stream.send_all((b"AMQP", b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x03\x01\x00\x00")[number % 3])
        if number % 3:
            with trio.move_on_after(1.0), contextlib.suppress(trio.BrokenResourceError):
                await stream.receive_some()


async def declare_and_delete(asked: ClientConnection, number: int) -> None:
    """Declare a queue of each type in turn, bind it, fill it, look at it, and purge it or delete it with its
    messages."""
    name, exchange = f"churn-queue-{number}", f"churn-exchange-{number}"
    await expect(
        asked, "PUT", f"/queues/{name}", {"durable": True, "arguments": QUEUE_TYPES[number % len(QUEUE_TYPES)]}
    )
    await expect(asked, "PUT", f"/exchanges/{exchange}", {"type": "topic", "durable": True})
    binding = {"source": exchange, "destination_queue": name, "binding_key": f"key.{number}", "arguments": {}}
    await expect(asked, "POST", "/bindings", binding)
    sender = await asked.open_sender(f"/exchanges/{exchange}/key.{number}")
    messages = [Message(b"." * (100 if n else 10_000), header=Header(durable=True)) for n in range(MESSAGES)]
    for fate in await sender.send_many(messages):
        assert isinstance(fate.fate, Accepted), fate
    await sender.close()
    policy = {"pattern": f"^{name}$", "priority": 1, "apply_to": "queues", "definition": {"max-length": 1000}}
    await expect(asked, "PUT", f"/headgate/policies/{name}", policy)
    await expect(asked, "GET", f"/queues/{name}")
    if number % 2 and QUEUE_TYPES[number % len(QUEUE_TYPES)] is not STREAM:
        await expect(asked, "DELETE", f"/queues/{name}/messages")
    await expect(asked, "DELETE", f"/headgate/policies/{name}")
    await expect(asked, "DELETE", f"/exchanges/{exchange}")
    await expect(asked, "DELETE", f"/queues/{name}")


async def look_around(asked: ClientConnection, number: int) -> None:
    """Send the requests that operators send."""
    kinds = ("queues", "connections", "sessions", "links", "channels", "stages", "stalls", "consumers", "alarms")
    await expect(asked, "GET", f"/headgate/{kinds[number % len(kinds)]}")
    await expect(asked, "GET", "/headgate/status")
