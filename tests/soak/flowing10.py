"""The flows of the soak over AMQP 1.0, with the project's own client."""

from collections.abc import Callable

import anyio
import trio
from anyio.abc import SocketStream

from amqp10.client import ClientConnection, ClientSettings, Message, Receiver, ReceiverOptions, Sent, connect
from amqp10.client_core.errors import ClientError
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import Header
from amqp10.wire.types import Described, Symbol
from tests.soak.plan import Flow, body, number_of

OPEN_MAX = 1000
"""A publisher waits while this many of its messages are not settled."""
BATCH = 50
LIFE_MESSAGES = 300
"""How many messages a consumer gets before its connection is cut."""
NOT_SETTLED = 7
"""How many of the last messages before a cut get no outcome."""
OFFSETS = "rabbitmq:stream-offset-spec"


def settings(**others: object) -> ClientSettings:
    """Settings of a client that reports every failure."""
    return ClientSettings(reconnect=None, idle_time_out_ms=60_000, **others)  # type: ignore[arg-type]


async def publish(url: str, flow: Flow, rate: float, stop: trio.Event) -> None:
    """Publish until the soak stops."""
    address = f"/exchanges/{flow.exchange}/{flow.name}" if flow.exchange else f"/queues/{flow.name}"
    header = Header(durable=flow.durable)
    wanted = Sent if flow.presettled else Accepted
    async with connect(url, settings()) as connection:
        sender = await connection.open_sender(address, settled=flow.presettled)
        while not stop.is_set():
            if flow.book.open < OPEN_MAX:
                numbers = flow.book.issue(flow.burst)
                fates = await sender.send_many([Message(body(n, flow.sizes), header=header) for n in numbers])
                for fate in fates:
                    if isinstance(fate.fate, wanted):
                        flow.book.confirmed += fate.messages
                    else:
                        flow.book.refused(f"an outcome {fate}")
            with trio.move_on_after(flow.burst / flow.per_second / rate):
                await stop.wait()


async def consume(url: str, flow: Flow, _: trio.Event) -> None:
    """Consume until cancelled."""
    if flow.settles == "cut":
        while True:
            await _one_life(url, flow)
    async with connect(url, settings()) as connection:
        receiver = await _open(connection, flow)
        while True:
            for delivery in await receiver.receive_batch(BATCH):
                message = delivery.message
                number = number_of(message.body)  # type: ignore[arg-type]
                again = not (message.header or Header()).first_acquirer
                flow.book.deliver(number, again=again)
                if flow.settles == "release" and number % 10 == 0 and not again:
                    delivery.release()
                    continue
                delivery.accept()
                flow.book.settle(number)


async def _open(connection: ClientConnection, flow: Flow) -> Receiver:
    offset = {OFFSETS: Described(Symbol(OFFSETS), "first")} if flow.stream else None
    options = ReceiverOptions(settled=flow.settles == "settled", filter=offset)
    return await connection.open_receiver(f"/queues/{flow.queue}", options=options)


async def _one_life(url: str, flow: Flow) -> None:
    """Run a consumer whose socket is closed without a closing frame while it holds deliveries."""
    streams: list[SocketStream] = []

    async def open_stream(host: str, port: int) -> SocketStream:
        streams.append(await anyio.connect_tcp(host, port))
        return streams[-1]

    settled: list[int] = []
    try:
        async with connect(url, settings(open_stream=open_stream)) as connection:
            receiver = await _open(connection, flow)
            for index in range(LIFE_MESSAGES):
                delivery = await receiver.receive()
                message = delivery.message
                number = number_of(message.body)  # type: ignore[arg-type]
                flow.book.deliver(number, again=not (message.header or Header()).first_acquirer)
                if index < LIFE_MESSAGES - NOT_SETTLED:
                    delivery.accept()
                    flow.book.settle(number)
                    settled.append(number)
            await streams[0].aclose()
    except (ClientError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        pass  # as wanted
    flow.book.cut(settled)


async def drained(flows: list[Flow], seconds: float, progress: Callable[[], int]) -> None:
    """Wait until no number is open, or none has come for this many seconds."""
    last, since = progress(), trio.current_time()
    while any(flow.book.open for flow in flows) and trio.current_time() - since < seconds:
        await trio.sleep(0.2)
        if progress() != last:
            last, since = progress(), trio.current_time()
