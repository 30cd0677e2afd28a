"""An AMQP 0.9.1 connection that carries out many equal operations in one go, and returns when the broker has done all.

Methods that need no answer are sent with no-wait, many to a system call; a passive declare behind them has an answer,
which comes when the broker has done what was sent before. A refusal closes the channel, which raises WireError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from amqp10.load.amqp091 import wire
from amqp10.load.amqp091.handshake import Amqp091Conversation
from amqp10.load.amqp091.wire import ChannelFrame
from amqp10.load.handshake import READ_BYTES
from amqp10.load.wire import WireError

QUEUE_DECLARE, QUEUE_DECLARE_OK = (50, 10), (50, 11)
QUEUE_BIND, QUEUE_UNBIND, QUEUE_UNBIND_OK = (50, 20), (50, 50), (50, 51)
QUEUE_PURGE, QUEUE_DELETE = (50, 30), (50, 40)
EXCHANGE_DECLARE, EXCHANGE_DECLARE_OK = (40, 10), (40, 11)
BASIC_CANCEL, BASIC_CANCEL_OK = (60, 30), (60, 31)

CHANNEL = 1
PUBLISHES_AT_ONCE = 500
"""How many messages are sent before their confirms are awaited: the stage credit of a channel is 400."""
METHODS_AT_ONCE = 500
"""How many methods without an answer are sent before one with an answer, so that the broker's buffers stay small."""
BODY = b"x" * 12
PASSIVE, DURABLE, NO_WAIT = 1, 2, 16
_PASSIVELY = bytes((PASSIVE,)) + wire.table({})

Arguments = dict[str, bytes]
"""A field table; the values are encoded, with their type octets."""


def number(value: int) -> bytes:
    """Encode a signed 64-bit integer as a table's value."""
    return b"l" + struct.pack(">q", value)


def text(value: str) -> bytes:
    """Encode a string as a table's value."""
    return b"S" + wire.long_string(value.encode())


class Peer091:
    """A connection with a channel in confirm mode."""

    def __init__(self, url: str, name: str = "bench-growth") -> None:
        self._conversation = Amqp091Conversation(url, name=name)
        self._conversation.open_channel(CHANNEL, confirms=True)
        self._buffer = self._conversation.rest
        self._at = 0
        self._published = 0
        self._unconfirmed: dict[int, None] = {}
        """The delivery tags without a confirm, in their order."""
        self._delivered: list[int] = []
        """The delivery tags of what arrived and was not asked for yet."""

    def close(self) -> None:
        """Close the channel and the connection, and wait for the answers."""
        self._conversation.rest = self._buffer[self._at :]
        self._conversation.close()

    def drop(self) -> None:
        """Close the socket without a word, where nothing depends on an orderly end."""
        self._conversation.socket.close()

    # --- queues and bindings

    def declare(self, queues: Iterable[str], *, arguments: Arguments | None = None, durable: bool = True) -> None:
        """Declare classic queues."""
        flags = NO_WAIT | (DURABLE if durable else 0)
        table = wire.table(arguments or {})
        self._in_parts(QUEUE_DECLARE, (_named(queue) + bytes((flags,)) + table for queue in queues))

    def delete(self, queues: Iterable[str]) -> None:
        """Delete queues with their messages."""
        self._in_parts(QUEUE_DELETE, (_named(queue) + b"\x04" for queue in queues))

    def begin_declare(self, queues: Iterable[str]) -> None:
        """Send declarations of durable queues, which :meth:`sync_answered` waits for."""
        table = wire.table({})
        self._begin(QUEUE_DECLARE, (_named(queue) + bytes((NO_WAIT | DURABLE,)) + table for queue in queues))

    def begin_delete(self, queues: Iterable[str]) -> None:
        """Send deletions of queues, which :meth:`sync_answered` waits for."""
        self._begin(QUEUE_DELETE, (_named(queue) + b"\x04" for queue in queues))

    def _begin(self, ids: tuple[int, int], all_arguments: Iterable[bytes]) -> None:
        self._send(*(_method(ids, arguments) for arguments in all_arguments), _method(EXCHANGE_DECLARE, _SYNC))

    def sync_answered(self) -> None:
        """Wait until the broker has done what was begun last."""
        self._expect(EXCHANGE_DECLARE_OK)

    def purge(self, queues: Iterable[str]) -> None:
        """Remove the ready messages of queues."""
        self._in_parts(QUEUE_PURGE, (_named(queue) + b"\x01" for queue in queues))

    def declare_exchange(self, exchange: str, kind: str) -> None:
        """Declare a durable exchange."""
        arguments = _named(exchange) + wire.short_string(kind) + bytes((DURABLE,)) + wire.table({})
        self._call(EXCHANGE_DECLARE, arguments, EXCHANGE_DECLARE_OK)

    def bind(self, queue: str, exchange: str, bindings: Iterable[tuple[str, Arguments]]) -> None:
        """Bind a queue to an exchange with each of these keys and arguments."""
        head = _named(queue) + wire.short_string(exchange)
        self._in_parts(
            QUEUE_BIND, (head + wire.short_string(key) + b"\x01" + wire.table(table) for key, table in bindings)
        )

    def unbind(self, queue: str, exchange: str, bindings: Sequence[tuple[str, Arguments]]) -> None:
        """Remove bindings. All methods are sent at once, and their answers awaited."""
        head = _named(queue) + wire.short_string(exchange)
        for at in range(0, len(bindings), METHODS_AT_ONCE):
            part = bindings[at : at + METHODS_AT_ONCE]
            self._send(
                *(_method(QUEUE_UNBIND, head + wire.short_string(key) + wire.table(table)) for key, table in part)
            )
            for _ in part:
                self._expect(QUEUE_UNBIND_OK)

    def _in_parts(self, ids: tuple[int, int], all_arguments: Iterable[bytes]) -> None:
        """Send methods that need no answer."""
        part: list[bytes] = []
        for arguments in all_arguments:
            part.append(_method(ids, arguments))
            if len(part) == METHODS_AT_ONCE:
                self._send(*part)
                self.sync()
                part.clear()
        self._send(*part)
        self.sync()

    def sync(self) -> None:
        """Wait until the broker has done what was sent before."""
        self._call(EXCHANGE_DECLARE, _SYNC, EXCHANGE_DECLARE_OK)

    # --- messages

    def publish(
        self, places: Iterable[tuple[str, str]], *, durable: bool = False, properties: bytes | None = None
    ) -> None:
        """Publish a message to each exchange and routing key, and wait until all are confirmed.

        ``properties`` are encoded, with their flags.
        """
        encoded = properties or (struct.pack(">HB", wire.DELIVERY_MODE, 2) if durable else struct.pack(">H", 0))
        content = wire.frame(wire.HEADER_FRAME, CHANNEL, struct.pack(">HHQ", 60, 0, len(BODY)) + encoded)
        content += wire.frame(wire.BODY_FRAME, CHANNEL, BODY)
        part: list[bytes] = []
        for exchange, key in places:
            head = struct.pack(">H", 0) + wire.short_string(exchange) + wire.short_string(key) + b"\0"
            part.append(_method(wire.BASIC_PUBLISH, head) + content)
            if len(part) == PUBLISHES_AT_ONCE:
                self._publish(part)
                part.clear()
        self._publish(part)

    def _publish(self, part: list[bytes]) -> None:
        first = self._published + 1
        self._published += len(part)
        self._unconfirmed = dict.fromkeys(range(first, self._published + 1))
        self._send(*part)
        while self._unconfirmed:
            frame = self._next_frame()
            if frame.method == wire.BASIC_ACK:
                self._confirmed(*struct.unpack_from(">QB", frame.payload, 4))

    def _confirmed(self, tag: int, multiple: int) -> None:
        """Confirms of several queues may come in any order."""
        if not multiple:
            del self._unconfirmed[tag]
            return
        while self._unconfirmed and (first := next(iter(self._unconfirmed))) <= tag:
            del self._unconfirmed[first]

    def consume(self, queue: str, tag: str, *, prefetch_count: int) -> None:
        """Begin to consume, with acknowledgements; the prefetch count is this consumer's."""
        self._send(wire.qos(CHANNEL, prefetch_count))
        self._expect(wire.BASIC_QOS_OK)
        arguments = _named(queue) + wire.short_string(tag) + b"\0" + wire.table({})
        self._call(wire.BASIC_CONSUME, arguments, wire.BASIC_CONSUME_OK)

    def consumers(self, queue: str, tags: Iterable[str]) -> None:
        """Begin many consumers with the prefetch count that was set last."""
        head, tail = _named(queue), bytes((8,)) + wire.table({})
        self._in_parts(wire.BASIC_CONSUME, (head + wire.short_string(tag) + tail for tag in tags))

    def receive(self, count: int) -> list[int]:
        """Wait for this many deliveries, and return their delivery tags."""
        while len(self._delivered) < count:
            self._next_frame()
        tags, self._delivered = self._delivered[:count], self._delivered[count:]
        return tags

    def cancel(self, tag: str) -> None:
        """End a consumer; its unsettled messages stay on the channel."""
        self._call(BASIC_CANCEL, wire.short_string(tag) + b"\0", BASIC_CANCEL_OK)

    def acknowledge(self, tags: Iterable[int]) -> None:
        """Acknowledge messages one by one."""
        self._send(*(wire.ack(CHANNEL, tag, multiple=False) for tag in tags))
        self.sync()

    # --- the wire

    def _send(self, *frames: bytes) -> None:
        if frames:
            self._conversation.socket.sendall(b"".join(frames))

    def _call(self, ids: tuple[int, int], arguments: bytes, answer: tuple[int, int]) -> ChannelFrame:
        self._send(_method(ids, arguments))
        return self._expect(answer)

    def _expect(self, ids: tuple[int, int]) -> ChannelFrame:
        while (frame := self._next_frame()).method != ids:
            pass
        return frame

    def _next_frame(self) -> ChannelFrame:
        while (found := wire.frame_at(self._buffer, self._at)) is None:
            data = self._conversation.socket.recv(READ_BYTES)
            if not data:
                raise WireError("the broker closed the socket without a word")
            self._buffer = self._buffer[self._at :] + data
            self._at = 0
        frame, self._at = found
        if frame.method in (wire.CONNECTION_CLOSE, wire.CHANNEL_CLOSE):
            raise WireError(wire.closing_reason(frame))
        if frame.method == wire.BASIC_NACK:
            raise WireError("the broker refused a message")
        if frame.method == wire.BASIC_DELIVER:
            self._delivered.append(_delivery_tag(frame))
        return frame


def _named(name: str) -> bytes:
    return struct.pack(">H", 0) + wire.short_string(name)


_SYNC = _named("amq.direct") + wire.short_string("direct") + _PASSIVELY
"""The arguments of a passive declaration, whose answer says that all before it is done."""


def _method(ids: tuple[int, int], arguments: bytes) -> bytes:
    return wire.method(CHANNEL, ids, arguments)


def _delivery_tag(frame: ChannelFrame) -> int:
    consumer_tag_bytes = frame.payload[4]
    tag: int = struct.unpack_from(">Q", frame.payload, 5 + consumer_tag_bytes)[0]
    return tag
