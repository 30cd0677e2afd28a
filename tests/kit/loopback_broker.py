"""A small broker for tests of what measures brokers: queues in memory, no durability, faults when a test wants them.

`LoopbackBroker` holds the queues, `LoopbackConnection` is one connection, sans-IO; `serving` puts a broker behind a
loopback socket in a thread. It encodes with the load generator's own wire module, because the tests are about the
generator's behaviour; its encoding has tests against byte vectors.

The broker is strict: it notes in `violations` what its peer sends beyond link credit or session window.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from amqp10.load import wire
from amqp10.load.wire import Amqp10Frame, DescribedValue

SESSION_WINDOW = 400
PUBLISHER_LINK_CREDIT = 170
MANAGEMENT = "/management"

Fault = Callable[[int, bytes], list[bytes]]
"""Called with the number of a message (counted from 0) and its payload; returns what the queue gets instead."""


def faithful(number: int, payload: bytes) -> list[bytes]:
    return [payload]


def dropping(which: int) -> Fault:
    return lambda number, payload: [] if number == which else [payload]


def doubling(which: int) -> Fault:
    return lambda number, payload: [payload] * (2 if number == which else 1)


def garbling(which: int) -> Fault:
    """A fault that changes the last byte of one body."""
    return lambda number, payload: [payload[:-1] + bytes([payload[-1] ^ 1]) if number == which else payload]


def swapping(which: int) -> Fault:
    """A fault that exchanges one message with the next."""
    held: list[bytes] = []

    def fault(number: int, payload: bytes) -> list[bytes]:
        if number == which:
            held.append(payload)
            return []
        if number == which + 1:
            return [payload, held.pop()]
        return [payload]

    return fault


@dataclass
class LoopbackBroker:
    """The queues by address, and the connections to wake when a message comes."""

    fault: Fault = faithful
    max_frame_size: int = 131072
    product: str = "Loopback"
    queues: dict[str, list[bytes]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    connections: list[LoopbackConnection] = field(default_factory=list)
    enqueued: int = 0

    def connection(self) -> LoopbackConnection:
        connection = LoopbackConnection(self)
        self.connections.append(connection)
        return connection

    def enqueue(self, address: str, payload: bytes) -> None:
        self.queues.setdefault(address, []).extend(self.fault(self.enqueued, payload))
        self.enqueued += 1

    def deliver(self) -> None:
        for connection in self.connections:
            connection.deliver()


@dataclass
class Sending:
    """Our end of a link to a consumer."""

    handle: int
    address: str
    settled: bool
    delivery_count: int = 0
    link_credit: int = 0


@dataclass
class Receiving:
    """Our end of a link from a publisher."""

    handle: int
    address: str
    delivery_count: int = 0
    link_credit: int = PUBLISHER_LINK_CREDIT
    partial: bytes = b""


class LoopbackConnection:
    """One connection: bytes go in by `receive` and come out by `take`."""

    def __init__(self, broker: LoopbackBroker) -> None:
        self._broker = broker
        self._buffer = b""
        self._out: list[bytes] = []
        self._headers_due = [wire.SASL_HEADER, wire.AMQP_HEADER]
        self._window = SESSION_WINDOW
        self._next_incoming_id = 0
        self._next_outgoing_id = 0
        self._next_delivery_id = 250  # so that its encoding grows by three bytes on the way
        self._sending: dict[int, Sending] = {}
        self._receiving: dict[int, Receiving] = {}
        self.closed = False

    def take(self) -> bytes:
        data, self._out = b"".join(self._out), []
        return data

    def receive(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 8:
            if self._buffer[:4] == b"AMQP":
                self._header()
                continue
            size = struct.unpack_from(">I", self._buffer)[0]
            if len(self._buffer) < size:
                break
            frame = wire.decode_frame(self._buffer[:size], 0, size)
            self._buffer = self._buffer[size:]
            if frame is not None:
                self._frame(frame)
        self._broker.deliver()

    def _header(self) -> None:
        header, self._buffer = self._buffer[:8], self._buffer[8:]
        assert header == self._headers_due.pop(0)
        self._out.append(header)
        if header == wire.SASL_HEADER:
            mechanisms = wire.composite(wire.SASL_MECHANISMS, wire.symbol("PLAIN"))
            self._out.append(wire.frame(mechanisms, kind=wire.SASL_FRAME))

    def _say(self, code: int, *fields: bytes, payload: bytes = b"") -> None:
        self._out.append(wire.frame(wire.composite(code, *fields) + payload))

    def _frame(self, frame: Amqp10Frame) -> None:
        match frame.code:
            case wire.SASL_INIT:
                outcome = wire.composite(wire.SASL_OUTCOME, wire.ubyte(0))
                self._out.append(wire.frame(outcome, kind=wire.SASL_FRAME))
            case wire.OPEN:
                properties = wire.map_of(wire.symbol("product"), wire.string(self._broker.product))
                blank = [wire.NULL] * 6
                self._say(
                    wire.OPEN,
                    wire.string("loopback"),
                    wire.NULL,
                    wire.uint(self._broker.max_frame_size),
                    *blank,
                    properties,
                )
            case wire.BEGIN:
                self._say(wire.BEGIN, wire.ushort(0), wire.uint(0), wire.uint(SESSION_WINDOW), wire.uint(2**31 - 1))
            case wire.ATTACH:
                self._attach(frame)
            case wire.FLOW:
                self._flow(frame)
            case wire.TRANSFER:
                self._transfer(frame)
            case wire.CLOSE:
                self._say(wire.CLOSE)
                self.closed = True

    def _attach(self, frame: Amqp10Frame) -> None:
        handle, publishing = frame.number(1), frame.field(2) is wire.ROLE_SENDER
        name = wire.string(str(frame.field(0)))
        # A terminus that is null would be a refusal.
        modes_and_nodes = (
            wire.ubyte(frame.number(3)), wire.ubyte(0), wire.composite(wire.SOURCE), wire.composite(wire.TARGET)
        )  # fmt: skip
        if publishing:
            self._receiving[handle] = Receiving(handle, _address(frame.field(6)))
            self._say(wire.ATTACH, name, wire.uint(handle), wire.boolean(wire.ROLE_RECEIVER), *modes_and_nodes)
            self._grant(self._receiving[handle])
        else:
            self._sending[handle] = Sending(handle, _address(frame.field(5)), settled=frame.number(3) == 1)
            self._say(
                wire.ATTACH, name, wire.uint(handle), wire.boolean(wire.ROLE_SENDER), *modes_and_nodes,
                wire.NULL, wire.NULL, wire.uint(0),
            )  # fmt: skip

    def _session_fields(self) -> tuple[bytes, ...]:
        return tuple(map(wire.uint, (self._next_incoming_id, self._window, self._next_outgoing_id, 2**31 - 1)))

    def _grant(self, link: Receiving) -> None:
        link.link_credit = PUBLISHER_LINK_CREDIT
        numbers = wire.uint(link.handle), wire.uint(link.delivery_count), wire.uint(link.link_credit)
        self._say(wire.FLOW, *self._session_fields(), *numbers)

    def _flow(self, frame: Amqp10Frame) -> None:
        link = self._sending.get(frame.number(4, -1))
        if link is not None:
            link.link_credit = frame.number(5) + frame.number(6) - link.delivery_count

    def _transfer(self, frame: Amqp10Frame) -> None:
        link = self._receiving[frame.number(0)]
        self._next_incoming_id += 1
        self._window -= 1
        if self._window < 0:
            self._broker.violations.append("a transfer beyond the session window")
        if self._window <= SESSION_WINDOW // 2:
            self._window = SESSION_WINDOW
            self._say(wire.FLOW, *self._session_fields())
        link.partial += frame.payload
        if frame.field(5) is True:
            return
        payload, link.partial = link.partial, b""
        link.delivery_count += 1
        link.link_credit -= 1
        if link.link_credit < 0:
            self._broker.violations.append("a message beyond the link credit")
        if link.address == MANAGEMENT:
            self._manage(payload)
        else:
            self._broker.enqueue(link.address, payload)
        if frame.field(4) is not True:
            self._out.append(wire.disposition(frame.number(1), frame.number(1), role=wire.ROLE_RECEIVER))
        if link.link_credit <= PUBLISHER_LINK_CREDIT // 2:
            self._grant(link)

    def _manage(self, payload: bytes) -> None:
        properties, _ = wire.decode(payload, 0)
        assert isinstance(properties, DescribedValue)
        assert isinstance(properties.value, list)
        _, _, to, subject = properties.value[:4]
        waiting = len(self._broker.queues.get(str(to), []))
        if subject == "DELETE":
            self._broker.queues.pop(str(to), None)
        answer = wire.composite(wire.PROPERTIES, wire.NULL, wire.NULL, wire.NULL, wire.string("200"))
        body = wire.map_of(wire.string("message_count"), wire.ulong(waiting))
        self._send(next(one for one in self._sending.values() if one.address == MANAGEMENT),
                   answer + wire.described(wire.AMQP_VALUE, body))  # fmt: skip

    def _send(self, link: Sending, payload: bytes) -> None:
        fields = [
            wire.uint(link.handle),
            wire.uint(self._next_delivery_id),
            wire.binary(struct.pack(">I", link.delivery_count)),
            wire.uint(0),
            wire.boolean(link.settled),
        ]
        self._say(wire.TRANSFER, *fields, payload=payload)
        self._next_delivery_id += 1
        self._next_outgoing_id += 1
        link.delivery_count += 1
        link.link_credit -= 1

    def deliver(self) -> None:
        """Send the messages that wait to the consumers that have link credit."""
        for link in self._sending.values():
            waiting = self._broker.queues.get(link.address, [])
            count = min(max(0, link.link_credit), len(waiting))
            for payload in waiting[:count]:
                self._send(link, payload)
            del waiting[:count]


def _address(terminus: wire.Value) -> str:
    assert isinstance(terminus, DescribedValue)
    assert isinstance(terminus.value, list)
    return str(terminus.value[0])


@contextlib.contextmanager
def serving(broker: LoopbackBroker) -> Iterator[str]:
    """Serve a broker in a thread until the block ends; yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:
        stop, stopped = socket.socketpair()
        thread = threading.Thread(target=_serve, args=(broker, listener, stopped))
        stack.callback(stopped.close)
        stack.callback(stop.close)
        thread.start()
        stack.callback(thread.join)
        stack.callback(stop.send, b"x")
        yield f"amqp://guest:guest@127.0.0.1:{listener.getsockname()[1]}"


def _serve(broker: LoopbackBroker, listener: socket.socket, stopped: socket.socket) -> None:
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(stopped, selectors.EVENT_READ)
        peers: dict[socket.socket, LoopbackConnection] = {}
        while True:
            for key, _ in selector.select():
                if key.fileobj is stopped:
                    return
                if key.fileobj is listener:
                    accepted = stack.enter_context(listener.accept()[0])
                    peers[accepted] = broker.connection()
                    selector.register(accepted, selectors.EVENT_READ)
                    continue
                assert isinstance(key.fileobj, socket.socket)
                _read(key.fileobj, peers[key.fileobj], selector, broker)
            for peer, connection in peers.items():
                if data := connection.take():
                    with contextlib.suppress(OSError):
                        peer.sendall(data)


def _read(
    peer: socket.socket, connection: LoopbackConnection, selector: selectors.BaseSelector, broker: LoopbackBroker
) -> None:
    try:
        data = peer.recv(65536)
    except ConnectionResetError:
        data = b""
    if data:
        connection.receive(data)
    else:
        selector.unregister(peer)
        broker.connections.remove(connection)
