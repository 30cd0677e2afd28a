"""Publishers and consumers of both protocols at every node of a cluster, which note what they see.

Each works on a connection of its own and begins again when that breaks. A node that does not lead the group of a queue
gives no link credit, or does not answer: a publisher there waits until the node leads.
"""

import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

import pika
import pika.exceptions
import trio

from amqp10.client import ClientSettings, Message, connect
from amqp10.client_core.errors import ClientError
from amqp10.wire.messaging import Accepted, Modified, Rejected, Released
from amqp10.wire.sections import Header
from tests.cluster.history import History

PACE_S = 0.04
"""A publisher sends so often."""
RUN = 4
"""Messages of one run over AMQP 1.0. Over AMQP 0.9.1 it is one."""
AGAIN_S = 0.1
"""The wait before another connection. Pika raises ValueError where one is refused at a bad moment."""
PREFETCH = 64
SOCKET_S = 5.0
STOP_S = 2.0
"""All clients that get answers have ended within this time."""
STAYS = ClientSettings(reconnect=None, idle_time_out_ms=60_000, leader_connections_max=0)
FOLLOWS = replace(STAYS, leader_connections_max=6)


class Load:
    """All clients."""

    def __init__(self, history: History, urls: Sequence[str], *, size: int = 64) -> None:
        """``urls``: of each node. ``size``: of a body, in bytes."""
        self.history = history
        self.over = False
        self.publishing = True
        """Whether publishers go on; what they wait for they await in any case."""
        self._urls = urls
        self._size = size
        self._pace_s = PACE_S
        self._threads: list[threading.Thread] = []
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()

    def start(self, consumed: Sequence[str], kept: Sequence[str], *, forwards: bool = False) -> None:
        """Publish to these queues, and consume the former: the first, third, … over AMQP 1.0, the others over AMQP
        0.9.1. The links of the second node's clients go to the leaders; for the other nodes' they forward.

        ``forwards``: the nodes forward to leaders. Each queue has one consumer then, the first at the first node, and
        so on, because several would get messages at the same time, and the history could not tell their order; and
        publishers send less often, because those of all nodes send at once. Without it, only clients at the leader
        do."""
        self._pace_s = PACE_S * len(self._urls) if forwards else PACE_S
        works: list[Callable[[], Awaitable[None]]] = []
        for number, url in enumerate(self._urls):
            settings = FOLLOWS if number == 1 else STAYS
            for queue in (*consumed, *kept):
                works.append(partial(self._publish_10, url, settings, queue, f"n{number}v10"))
                self._thread(self._publish_091, url, queue, f"n{number}v091")
            for place, queue in enumerate(consumed):
                if forwards and place != number:
                    continue
                if place % 2:
                    self._thread(self._consume_091, url, queue)
                else:
                    works.append(partial(self._consume_10, url, settings, queue))
        self._thread(trio.run, self._all, works)

    def stop(self) -> None:
        """End all clients. Threads that wait for a broker that does not answer are left behind."""
        self.over = True
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._scope.cancel)
        until = time.monotonic() + STOP_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _thread(self, work: Callable[..., object], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    async def _all(self, works: Sequence[Callable[[], Awaitable[None]]]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with trio.open_nursery() as nursery:
                for work in works:
                    nursery.start_soon(work)

    def _message(self, queue: str, publisher: str, life: int, number: int) -> str:
        message = f"{queue}:{publisher}:{life}:{number}"
        self.history.sent(message)
        return message

    def _body(self, message: str) -> bytes:
        return f"{message} ".encode().ljust(self._size, b".")

    # --- AMQP 1.0

    async def _publish_10(self, url: str, settings: ClientSettings, queue: str, publisher: str) -> None:
        life = 0
        while not self.over:
            life += 1
            await _until_lost(partial(self._publish_10_once, url, settings, queue, publisher, life))
            await trio.sleep(AGAIN_S)

    async def _publish_10_once(self, url: str, settings: ClientSettings, queue: str, publisher: str, life: int) -> None:
        async with connect(url, settings) as connection:
            sender = await connection.open_sender(f"/queues/{queue}")
            number = 0
            while not self.over:
                if self.publishing:
                    run = [self._message(queue, publisher, life, number + one) for one in range(RUN)]
                    number += RUN
                    durable = Header(durable=True)
                    fates = await sender.send_many([Message(body=self._body(one), header=durable) for one in run])
                    for first, last, fate in fates:
                        base = fates[0].first
                        some = run[first - base : last - base + 1]
                        if isinstance(fate, Accepted):
                            self.history.confirmed(some)
                        elif isinstance(fate, Released | Rejected):
                            self.history.refused(some, str(fate))
                        elif isinstance(fate, Modified):
                            self.history.uncertain(some)
                await trio.sleep(self._pace_s)

    async def _consume_10(self, url: str, settings: ClientSettings, queue: str) -> None:
        while not self.over:
            await _until_lost(partial(self._consume_10_once, url, settings, queue))
            await trio.sleep(AGAIN_S)

    async def _consume_10_once(self, url: str, settings: ClientSettings, queue: str) -> None:
        async with connect(url, settings) as connection:
            receiver = await connection.open_receiver(f"/queues/{queue}")
            while not self.over:
                for delivery in await receiver.receive_batch(PREFETCH):
                    header = delivery.message.header or Header()
                    assert isinstance(delivery.message.body, bytes)
                    self.history.delivered(_text(delivery.message.body), redelivered=not header.first_acquirer)
                    delivery.accept()

    # --- AMQP 0.9.1

    def _publish_091(self, url: str, queue: str, publisher: str) -> None:
        life = 0
        while not self.over:
            life += 1
            with suppress(pika.exceptions.AMQPError, OSError, ValueError):
                self._publish_091_once(url, queue, publisher, life)
            threading.Event().wait(AGAIN_S)

    def _publish_091_once(self, url: str, queue: str, publisher: str, life: int) -> None:
        connection = opened(url)
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2)
        number = 0
        while not self.over:
            if self.publishing:
                message = self._message(queue, publisher, life, number)
                number += 1
                try:
                    channel.basic_publish("", queue, self._body(message), properties, mandatory=True)
                    self.history.confirmed([message])
                except pika.exceptions.UnroutableError:
                    self.history.refused([message], "returned")
                except pika.exceptions.NackError:
                    self.history.uncertain([message])
            connection.sleep(self._pace_s)
        connection.close()

    def _consume_091(self, url: str, queue: str) -> None:
        while not self.over:
            with suppress(pika.exceptions.AMQPError, OSError, ValueError), closing(opened(url)) as connection:
                channel = connection.channel()
                channel.basic_qos(prefetch_count=PREFETCH)
                for method, _, body in channel.consume(queue, inactivity_timeout=0.5):
                    if method is not None:
                        self.history.delivered(_text(body), redelivered=method.redelivered)
                        channel.basic_ack(method.delivery_tag)
                    if self.over:
                        break
            threading.Event().wait(AGAIN_S)


def opened(url: str) -> pika.BlockingConnection:
    """A connection over AMQP 0.9.1."""
    return pika.BlockingConnection(pika.URLParameters(f"{url}/%2F?socket_timeout={SOCKET_S}&heartbeat=0"))


def drain(history: History, url: str, queue: str) -> None:
    """Read a queue to its end, at the node that leads its group."""
    connection = opened(url)
    channel = connection.channel()
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=False)
        if method is None:
            break
        history.delivered(_text(body), redelivered=method.redelivered)
        channel.basic_ack(method.delivery_tag)
    connection.close()


def read_stream(url: str, stream: str, offset: int) -> dict[int, str]:
    """Read a stream from an offset to its end, at the node that leads its group: the message at each offset."""
    found: dict[int, str] = {}
    with closing(opened(url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        for method, properties, body in channel.consume(
            stream, inactivity_timeout=1, arguments={"x-stream-offset": offset}
        ):
            if method is None:
                break
            found[properties.headers["x-stream-offset"]] = _text(body)
            channel.basic_ack(method.delivery_tag)
    return found


def _text(body: bytes) -> str:
    return body.partition(b" ")[0].decode()


async def _until_lost(work: Callable[[], Awaitable[None]]) -> None:
    """Await it until it ends, or its connection is lost."""
    try:
        await work()
    except* (ClientError, OSError):
        pass
