"""A client of AMQP 0.9.1 at the level of methods, on a socket."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import trio

from core.amqp091.codec import decode_method
from core.amqp091.framing import FrameType, method_frame, read_frame
from core.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpenOk,
    QueueDeclare,
)
from core.amqp091.properties import BasicProperties
from tests.kit.amqp091_peer import FRAME_MAX, opening, publish

GUEST = b"\0guest\0guest"
CHANNEL = 1
PERSISTENT = 2


class Amqp091Socket:
    """One connection with one channel, which publishes with confirms and consumes. The connection closes with the
    block."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._buffer = b""
        self._published = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        await self._stream.aclose()

    async def log_in(self) -> None:
        """Log in as guest, open a channel and select confirms."""
        await self._stream.send_all(opening(response=GUEST))
        while not isinstance(await self._method(), ConnectionOpenOk):
            pass
        await self._stream.send_all(method_frame(CHANNEL, ChannelOpen()) + method_frame(CHANNEL, ConfirmSelect()))

    async def consume_own(self, queue: str) -> None:
        """Consume from a new durable queue."""
        await self._stream.send_all(
            method_frame(CHANNEL, QueueDeclare(queue=queue, durable=True))
            + method_frame(CHANNEL, BasicConsume(queue=queue))
        )
        while not isinstance(await self._method(), BasicConsumeOk):
            pass

    async def publish(self, queue: str, bodies: Sequence[bytes]) -> None:
        """Publish persistent messages with one write to the socket."""
        method = BasicPublish(exchange="", routing_key=queue)
        properties = BasicProperties(delivery_mode=PERSISTENT)
        await self._stream.send_all(
            b"".join(publish(CHANNEL, body, method=method, properties=properties) for body in bodies)
        )
        self._published += len(bodies)

    async def round(self, n: int) -> list[bytes]:
        """Wait until everything that was published is confirmed, and return the bodies of the next ``n`` messages,
        which are acknowledged."""
        bodies: list[bytes] = []
        confirmed = last = 0
        while len(bodies) < n or confirmed < self._published:
            kind, payload = await self._frame()
            if kind is FrameType.BODY:
                bodies.append(payload)
            elif kind is FrameType.METHOD:
                method = decode_method(payload)
                if isinstance(method, BasicDeliver):
                    last = method.delivery_tag
                else:
                    assert isinstance(method, BasicAck), f"the broker said {method}"
                    confirmed = max(confirmed, method.delivery_tag)
        await self._stream.send_all(method_frame(CHANNEL, BasicAck(delivery_tag=last, multiple=True)))
        return bodies

    async def confirmed(self) -> None:
        """Wait until everything that was published is confirmed, on a connection that does not consume."""
        confirmed = 0
        while confirmed < self._published:
            method = await self._method()
            if isinstance(method, BasicAck):
                confirmed = max(confirmed, method.delivery_tag)

    async def _method(self) -> object:
        kind, payload = await self._frame()
        return decode_method(payload) if kind is FrameType.METHOD else None

    async def _frame(self) -> tuple[FrameType, bytes]:
        while (frame := read_frame(self._buffer, 0, FRAME_MAX)) is None:
            data = await self._stream.receive_some()
            assert data, "the broker has closed"
            self._buffer += data
        self._buffer = self._buffer[frame.end :]
        return frame.frame_type, frame.payload
