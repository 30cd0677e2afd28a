"""Clients of both protocols that send frames as given and count what comes back, without flow control or an event loop.

They can do everything that a broker forbids, so attackers are made of them. A thread reads, unless the client is told
to read nothing.
"""

import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

from amqp10.wire.framing import PROTOCOL_HEADER_AMQP, encode_frame
from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import Attach, Begin, Flow, Open, Performative, Transfer, encode_performative
from core.amqp091 import methods as methods_091
from core.amqp091.codec import decode_method
from core.amqp091.framing import method_frame
from core.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpenOk,
    Method,
)
from tests.kit.amqp091_peer import opening
from tests.kit.attacked_server import OPENING
from tests.kit.wire import data_message

PATIENCE_S = 120.0
READ_BYTES = 2**18
GUEST = b"\0guest\0guest"
_FRAME_091 = struct.Struct(">BHI").unpack_from
_METHOD_091 = struct.Struct(">HH").unpack_from
_FRAME_BYTES_091 = 8
PERFORMATIVE_AT = 10
"""The offset of the performative's code in an AMQP 1.0 frame."""
ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE, BEGIN = 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x11
WIDE = 2**31 - 1


class Refused(Exception):
    """The broker has closed a channel or the connection."""


class PlainSocket:
    """A socket, and counts of the frames or methods that came, by kind."""

    def __init__(self, host: str, port: int, *, receive_buffer: int | None = None) -> None:
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(PATIENCE_S)
        self._socket.connect((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.came: Counter[object] = Counter()
        self.ended = False
        self._news = threading.Condition()

    def send(self, data: bytes) -> None:
        """Send all bytes. It waits while the broker does not read."""
        self._socket.sendall(data)

    def some(self) -> bytes:
        """Receive what has come; b"" at the end."""
        try:
            return self._socket.recv(READ_BYTES)
        except OSError:
            return b""

    def counted(self, kinds: Counter[object], *, ended: bool = False) -> None:
        """Count more of what came."""
        with self._news:
            self.came.update(kinds)
            self.ended = self.ended or ended
            self._news.notify_all()

    def wait_for(self, kind: object, count: int, seconds: float = PATIENCE_S) -> None:
        """Wait until this many of a kind have come in all. Raises TimeoutError, ConnectionError."""
        with self._news:
            if not self._news.wait_for(lambda: self.came[kind] >= count or self.ended, seconds):
                raise TimeoutError(f"{self.came[kind]} of {count} of {kind} came within {seconds} s")
            if self.came[kind] < count:
                raise ConnectionError(f"the connection ended after {self.came[kind]} of {count} of {kind}")

    def close(self) -> None:
        """Close the socket without a closing frame."""
        with suppress(OSError):  # the broker was faster
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


M = TypeVar("M", bound=Method)


class Client091:
    """A connection of AMQP 0.9.1 with channel 1."""

    def __init__(self, host: str, port: int, *, reads: bool = True, receive_buffer: int | None = None) -> None:
        self.plain = PlainSocket(host, port, receive_buffer=receive_buffer)
        self._last: dict[type[Method], bytes] = {}
        self._buffer = b""
        self.refusal: Method | None = None
        self.send(opening(response=GUEST) + method_frame(1, ChannelOpen()))
        if reads:
            threading.Thread(target=self._read, daemon=True).start()
            self.wait(ChannelOpenOk, 1)
        else:
            while not self.plain.came[ConnectionOpenOk]:
                self._take(self.plain.some())

    def send(self, data: bytes) -> None:
        """Send frames."""
        self.plain.send(data)

    def tell(self, *methods: Method, channel: int = 1) -> None:
        """Send methods, and do not wait for answers."""
        self.send(b"".join(method_frame(channel, method) for method in methods))

    def call(self, method: Method, channel: int = 1) -> Method:
        """Send a method; returns its answer. Raises Refused."""
        answer = BasicGetOk if isinstance(method, BasicGet) else getattr(methods_091, f"{type(method).__name__}Ok")
        before = self.plain.came[answer]
        self.tell(method, channel=channel)
        self.wait(answer, before + 1)
        return decode_method(self._last[answer])

    def consume(self, queue: str, *, channel: int = 1) -> None:
        """Consume, with acknowledgements and without a prefetch count."""
        before = self.plain.came[BasicConsumeOk]
        self.tell(BasicConsume(queue=queue), channel=channel)
        self.wait(BasicConsumeOk, before + 1)

    def wait(self, kind: type[M], count: int, seconds: float = PATIENCE_S) -> None:
        """Wait until this many methods of a kind have come in all. Raises Refused, TimeoutError, ConnectionError."""
        try:
            self.plain.wait_for(kind, count, seconds)
        except ConnectionError:
            if self.refusal is not None:
                raise Refused(str(self.refusal)) from None
            raise

    def close(self) -> None:
        """Close the socket without a closing method."""
        self.plain.close()

    def _read(self) -> None:
        while data := self.plain.some():
            self._take(data)
        self.plain.counted(Counter(), ended=True)

    def _take(self, data: bytes) -> None:
        buffer, at = self._buffer + data, 0
        kinds: Counter[object] = Counter()
        while len(buffer) - at >= _FRAME_BYTES_091:
            kind, _, size = _FRAME_091(buffer, at)
            if len(buffer) - at < size + _FRAME_BYTES_091:
                break
            if kind == 1:
                found = methods_091.METHODS[_METHOD_091(buffer, at + 7)]
                kinds[found] += 1
                self._last[found] = buffer[at + 7 : at + 7 + size]
                if found in (ChannelClose, ConnectionClose):
                    self.refusal = decode_method(self._last[found])
            at += size + _FRAME_BYTES_091
        self._buffer = buffer[at:]
        self.plain.counted(kinds, ended=self.refusal is not None)


class Client10:
    """A connection of AMQP 1.0 with session 0."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        sessions: int = 1,
        on_frame: Callable[[int, bytes], None] | None = None,
        before_open: bytes = OPENING,
    ) -> None:
        """The reader's thread calls ``on_frame`` for each frame, with the code of its performative and the whole
        frame. ``before_open`` is sent before the open frame; the default logs in as guest."""
        self._on_frame = on_frame
        self.plain = PlainSocket(host, port)
        self._delivery_id = 0
        self.last: dict[int, bytes] = {}
        self.send(before_open + performative(Open(container_id="attacker", max_frame_size=65536)))
        seen = b""
        while PROTOCOL_HEADER_AMQP not in seen:
            seen += self.plain.some()
        self._buffer = seen.partition(PROTOCOL_HEADER_AMQP)[2]
        threading.Thread(target=self._read, daemon=True).start()
        begin = Begin(next_outgoing_id=0, incoming_window=WIDE, outgoing_window=WIDE, handle_max=2**32 - 1)
        self.send(b"".join(performative(begin, channel=channel) for channel in range(sessions)))
        self.wait(BEGIN, sessions)

    def send(self, data: bytes) -> None:
        """Send frames."""
        self.plain.send(data)

    def wait(self, code: int, count: int, seconds: float = PATIENCE_S) -> None:
        """Wait until this many performatives with this code have come in all. Raises TimeoutError, ConnectionError."""
        self.plain.wait_for(code, count, seconds)

    def came(self, code: int) -> int:
        """How many performatives with this code have come."""
        return cast("int", self.plain.came[code])

    def close(self) -> None:
        """Close the socket without a close frame."""
        self.plain.close()

    def _read(self) -> None:
        self._take(b"")
        while data := self.plain.some():
            self._take(data)
        self.plain.counted(Counter(), ended=True)

    def _take(self, data: bytes) -> None:
        buffer, at = self._buffer + data, 0
        kinds: Counter[object] = Counter()
        while len(buffer) - at >= 8:
            size = int.from_bytes(buffer[at : at + 4])
            if len(buffer) - at < size:
                break
            if size > PERFORMATIVE_AT:
                code = buffer[at + PERFORMATIVE_AT]
                kinds[code] += 1
                self.last[code] = buffer[at : at + size]
                if self._on_frame is not None:
                    self._on_frame(code, buffer[at : at + size])
            at += size
        self._buffer = buffer[at:]
        self.plain.counted(kinds)


def performative(value: Performative, payload: bytes = b"", channel: int = 0) -> bytes:
    """Encode a performative as one frame."""
    return encode_frame(channel, encode_performative(value), payload)


def sender(address: str | None, handle: int = 0, *, name: str = "", channel: int = 0) -> bytes:
    """The attach frame of a link that publishes."""
    return performative(
        Attach(
            name=name or f"s{channel}-{handle}",
            handle=handle,
            role=False,
            source=Source(),
            target=Target(address=address),
            initial_delivery_count=0,
        ),
        channel=channel,
    )


def receiver(address: str | None, handle: int = 1, *, name: str = "", channel: int = 0, dynamic: bool = False) -> bytes:
    """The attach frame of a link that consumes."""
    source = Source(dynamic=True) if dynamic else Source(address=address)
    link = name or f"r{channel}-{handle}"
    return performative(Attach(name=link, handle=handle, role=True, source=source, target=Target()), channel=channel)


def grant(
    link_credit: int, handle: int = 1, *, channel: int = 0, drain: bool = False, delivery_count: int = 0
) -> bytes:
    """A flow frame with link credit."""
    flow = Flow(
        next_incoming_id=0,
        incoming_window=WIDE,
        next_outgoing_id=0,
        outgoing_window=WIDE,
        handle=handle,
        delivery_count=delivery_count,
        link_credit=link_credit,
        drain=drain,
    )
    return performative(flow, channel=channel)


def transfers(bodies: list[bytes], *, handle: int = 0, first: int = 0, settled: bool = True) -> bytes:
    """Deliveries of one frame each, with one data section each."""
    return message_transfers([data_message(body) for body in bodies], handle=handle, first=first, settled=settled)


def message_transfers(messages: list[bytes], *, handle: int = 0, first: int = 0, settled: bool = True) -> bytes:
    """Deliveries of one frame each, of whole messages."""
    return b"".join(
        performative(
            Transfer(
                handle=handle,
                delivery_id=first + index,
                delivery_tag=(first + index).to_bytes(4),
                message_format=0,
                settled=settled,
            ),
            message,
        )
        for index, message in enumerate(messages)
    )
