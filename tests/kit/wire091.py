"""An AMQP 0.9.1 client at the level of methods, against a broker in this process; no sockets, and time stands still.

What the client sends while the broker does not read stays with the client, as in a socket. The broker reads it when it
reads again.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from core.access.checked_engine import CheckedEngine
from core.access.exchange import Reply, SaslExchange, SaslMechanism, success
from core.access.rights import no_rights
from core.amqp091.codec import decode_method
from core.amqp091.connection import Amqp091Connection
from core.amqp091.content import body_of, entry_of, properties_of
from core.amqp091.framing import PROTOCOL_HEADER, FrameType, content_frames, method_frame, read_frame
from core.amqp091.frontend.front_end import Amqp091FrontEnd
from core.amqp091.frontend.replies import host_refusal
from core.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from core.amqp091.properties import BasicProperties, decode_properties, encode_properties
from core.config.settings import Settings
from core.interface import Mailbox
from core.server.frontends import PeerInfo
from tests.kit.wire import InProcessBroker

MethodT = TypeVar("MethodT", bound=Method)

FRAME_MAX = 131_072
CAPABILITIES = {"connection.blocked": True, "consumer_cancel_notify": True, "authentication_failure_close": True}


class _LetIn:
    """A mechanism that believes every client."""

    name = "PLAIN"

    def start(self) -> SaslExchange:
        return self

    def respond(self, response: bytes) -> Reply:
        return success("guest")


class Wire091Peer:
    """A client. ``received`` is what came and was not taken yet: channel, method, and the entry that follows it."""

    def __init__(
        self,
        broker: InProcessBroker,
        settings: Settings | None = None,
        mechanisms: Sequence[SaslMechanism] = (_LetIn(),),
    ) -> None:
        self.broker = broker
        number = len(broker.peers)
        settings, audit = settings or broker.settings, broker.audited.peer("amqp-0-9-1", f"test-{number}")
        self.front_end = Amqp091FrontEnd(
            PeerInfo(f"test-{number}", "127.0.0.1", 40000 + number, "127.0.0.1", 5672),
            mailbox=Mailbox(self.touch),
            connection=Amqp091Connection(
                settings.amqp091,
                mechanisms,
                refuse_virtual_host=lambda host, user: host_refusal(broker.control.hosts, host, broker.rights, audit),
            ),
            engine=CheckedEngine(broker.engine, no_rights(""), audit),
            converter=broker.converter,
            stalls=broker.stalls,
            settings=settings,
            unique=self._unique,
            wake=self.touch,
            traffic=broker.traffic["amqp091"],
            flow=broker.flow,
            work=broker.engine.work,
            rights_of=lambda user: broker.rights,
            hosts=broker.control.hosts,
        )
        broker.peers.append(self)
        self.received: list[tuple[int, Method, bytes | None]] = []
        self.heartbeats = 0
        self.unread = b""
        """Bytes that were sent and that the broker has not read."""
        self.lost = False
        self._names = 0
        self._buffer = b""
        self._awaiting: tuple[int, Method] | None = None
        self._entry = b""
        self._missing = 0
        """How many bytes of the body have not come."""
        self._writes_left: int | None = None

    def _unique(self) -> str:
        self._names += 1
        return f"{self.front_end.info.identity}-{self._names}"

    # --- bytes ---------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Note that this peer has actions or output."""
        self.broker.touch(self)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes to the broker, as far as it reads, and run everything that follows from them."""
        self.unread += data
        self.touch()
        self.broker.run()

    def flush(self) -> None:
        """Do what the server does for a touched peer."""
        if self.lost:
            return
        front_end, now = self.front_end, self.broker.now
        if self.unread and front_end.reading and not front_end.finished:
            data, self.unread = self.unread, b""
            front_end.receive_data(data, now)
            self.touch()  # the engine's turn comes before the actions
            return
        front_end.take_actions(now)
        while self._writes_left != 0 and (data := b"".join(front_end.pieces_to_send(now))):
            self._buffer += data
            self._decode()
            if self._writes_left is not None:
                self._writes_left -= 1
                front_end.output_backlog(len(data))
        if self.unread and front_end.reading and not front_end.finished:
            self.touch()
        if front_end.finished:
            self.disconnect()

    def snapshots(self, kind: str) -> list[dict[str, object]]:
        """The front end's rows of a kind: "connections" or "channels"."""
        return self.front_end.snapshot(kind, self.broker.now)

    def stop_reading(self, *, writes: int = 0) -> None:
        """Read no more: the socket takes this many writes of the broker, and is full then."""
        self._writes_left = writes

    def go_on_reading(self) -> None:
        """Read again."""
        self._writes_left = None
        self.front_end.output_backlog(0)
        self.touch()
        self.broker.run()

    def disconnect(self) -> None:
        """Close the socket."""
        if not self.lost:
            self.lost = True
            while self.front_end.connection_lost(self.broker.now):
                self.broker.run()
            self.broker.run()

    def _decode(self) -> None:
        offset = 0
        if self._buffer.startswith(b"AMQP"):
            offset = len(PROTOCOL_HEADER)
        while (frame := read_frame(self._buffer, offset, FRAME_MAX)) is not None:
            offset = frame.end
            match frame.frame_type:
                case FrameType.METHOD:
                    method = decode_method(frame.payload)
                    if isinstance(method, BasicDeliver | BasicGetOk | BasicReturn):
                        self._awaiting, self._entry = (frame.channel, method), b""
                    else:
                        self.received.append((frame.channel, method, None))
                case FrameType.HEADER:
                    self._entry, self._missing = frame.payload, int.from_bytes(frame.payload[4:12])
                    self._see_whether_complete()
                case FrameType.BODY:
                    self._entry += frame.payload
                    self._missing -= len(frame.payload)
                    self._see_whether_complete()
                case FrameType.HEARTBEAT:
                    self.heartbeats += 1
        self._buffer = self._buffer[offset:]

    def _see_whether_complete(self) -> None:
        assert self._awaiting is not None, "content without a method"
        if not self._missing:
            channel, method = self._awaiting
            self.received.append((channel, method, self._entry))
            self._awaiting = None

    # --- methods -------------------------------------------------------------------------------------------------

    def send(self, channel: int, *methods: Method) -> None:
        """Send methods in one piece, as from one read of the socket."""
        self.send_bytes(b"".join(method_frame(channel, method) for method in methods))

    def call(self, channel: int, method: Method, kind: type[MethodT]) -> MethodT:
        """Send a method; returns its answer. Other methods that came stay."""
        self.send(channel, method)
        return self.pick(kind)

    def refusal(self, channel: int, method: Method) -> tuple[int, str]:
        """Send a method that closes its channel; returns code and text. The channel is opened again."""
        self.send(channel, method)
        return self.reopened(channel)

    def reopened(self, channel: int) -> tuple[int, str]:
        """Take the broker's close of the channel, and open the channel again; returns code and text."""
        close = self.pick(ChannelClose)
        self.send(channel, ChannelCloseOk())
        self.call(channel, ChannelOpen(), ChannelOpenOk)
        return close.reply_code, close.reply_text

    def closed_with(self, channel: int, method: Method) -> int:
        """Send a method that closes the connection; returns the code."""
        self.send(channel, method)
        close = self.expect(ConnectionClose)
        assert (close.class_id, close.method_id) == method.ID
        self.send(0, ConnectionCloseOk())
        assert self.lost
        return close.reply_code

    def publish(
        self,
        channel: int,
        bodies: Iterable[bytes],
        *,
        routing_key: str,
        exchange: str = "",
        mandatory: bool = False,
        properties: BasicProperties | None = None,
    ) -> None:
        """Publish messages in one piece."""
        self.send_bytes(
            published(
                channel, bodies, routing_key=routing_key, exchange=exchange, mandatory=mandatory, properties=properties
            )
        )

    def take(self) -> list[tuple[int, Method, bytes | None]]:
        """Take everything that came."""
        taken, self.received = self.received, []
        return taken

    def expect(self, kind: type[MethodT]) -> MethodT:
        """Take the next thing that came; it must be of this kind."""
        assert self.received, f"nothing came, where {kind.__name__} should have"
        _, method, _ = self.received.pop(0)
        assert isinstance(method, kind), method
        return method

    def pick(self, kind: type[MethodT]) -> MethodT:
        """Take the first thing of this kind; the others stay."""
        for index, (_, method, _) in enumerate(self.received):
            if isinstance(method, kind):
                del self.received[index]
                return method
        raise AssertionError(f"no {kind.__name__} among {self.received}")

    def methods(self, kind: type[MethodT]) -> list[MethodT]:
        """Take all methods of this kind."""
        found = [method for _, method, _ in self.received if isinstance(method, kind)]
        self.received = [each for each in self.received if not isinstance(each[1], kind)]
        return found

    def deliveries(self) -> list[tuple[BasicDeliver, BasicProperties, bytes]]:
        """Take all deliveries: method, properties, body."""
        found = [
            (method, properties_in(entry), body_of(entry))
            for _, method, entry in self.received
            if isinstance(method, BasicDeliver) and entry is not None
        ]
        self.received = [each for each in self.received if not isinstance(each[1], BasicDeliver)]
        return found

    def got(self) -> tuple[BasicGetOk, BasicProperties, bytes] | None:
        """Take the answer to basic.get, which must be next; None for basic.get-empty."""
        _, method, entry = self.received.pop(0)
        if isinstance(method, BasicGetEmpty):
            return None
        assert isinstance(method, BasicGetOk), method
        assert entry is not None
        return method, properties_in(entry), body_of(entry)

    def returned(self) -> list[tuple[BasicReturn, bytes]]:
        """Take all returned messages: method and body."""
        found = [
            (method, body_of(entry))
            for _, method, entry in self.received
            if isinstance(method, BasicReturn) and entry is not None
        ]
        self.received = [each for each in self.received if not isinstance(each[1], BasicReturn)]
        return found

    def bodies(self) -> list[bytes]:
        """Take all deliveries; returns their bodies."""
        return [body for _, _, body in self.deliveries()]

    # --- what most tests begin with --------------------------------------------------------------------------------

    def open(self, *channels: int, capabilities: dict[str, bool] | None = None, heartbeat: int = 0) -> None:
        """Negotiate, and open channels."""
        self.negotiate(capabilities=capabilities, heartbeat=heartbeat)
        self.expect(ConnectionOpenOk)
        for channel in channels:
            self.send(channel, ChannelOpen())
            self.expect(ChannelOpenOk)

    def negotiate(
        self, virtual_host: str = "/", *, capabilities: dict[str, bool] | None = None, heartbeat: int = 0
    ) -> None:
        """Negotiate up to connection.open, whose answer stays in ``received``."""
        self.send_bytes(PROTOCOL_HEADER)
        self.expect(ConnectionStart)
        known = CAPABILITIES if capabilities is None else capabilities
        self.send(0, ConnectionStartOk(client_properties={"capabilities": {**known}}, mechanism="PLAIN", response=b""))
        tune = self.expect(ConnectionTune)
        self.send(
            0,
            ConnectionTuneOk(channel_max=tune.channel_max, frame_max=tune.frame_max, heartbeat=heartbeat),
            ConnectionOpen(virtual_host=virtual_host),
        )

    def declare(self, queue: str = "q", *, channel: int = 1, **fields: object) -> QueueDeclareOk:
        """Declare a queue. ``fields`` are those of the method, ``arguments`` among them."""
        self.send(channel, QueueDeclare(queue=queue, **fields))  # type: ignore[arg-type]
        return self.pick(QueueDeclareOk)

    def exchange(self, name: str = "x", *, channel: int = 1, **fields: object) -> None:
        """Declare an exchange."""
        self.call(channel, ExchangeDeclare(exchange=name, **fields), ExchangeDeclareOk)  # type: ignore[arg-type]

    def bind(
        self, exchange: str, routing_key: str = "", *, queue: str = "q", channel: int = 1, **fields: object
    ) -> None:
        """Bind a queue to an exchange. ``fields`` are those of the method, ``arguments`` among them."""
        method = QueueBind(queue=queue, exchange=exchange, routing_key=routing_key, **fields)  # type: ignore[arg-type]
        self.call(channel, method, QueueBindOk)

    def select_confirms(self, channel: int = 1) -> None:
        """Select confirm mode."""
        self.send(channel, ConfirmSelect())
        self.expect(ConfirmSelectOk)

    def consume(self, queue: str = "q", *, channel: int = 1, **fields: object) -> str:
        """Consume; returns the consumer tag. Deliveries that follow at once are in ``received``."""
        self.send(channel, BasicConsume(queue=queue, **fields))  # type: ignore[arg-type]
        return self.pick(BasicConsumeOk).consumer_tag

    def ack(self, delivery_tag: int, *, multiple: bool = False, channel: int = 1) -> None:
        """Send an acknowledgement."""
        self.send(channel, BasicAck(delivery_tag=delivery_tag, multiple=multiple))

    def confirms(self) -> list[tuple[str, int, bool]]:
        """Take all confirms, in order: ack or nack, delivery tag, multiple."""
        found = [
            ("ack" if isinstance(method, BasicAck) else "nack", method.delivery_tag, method.multiple)
            for _, method, _ in self.received
            if isinstance(method, BasicAck | BasicNack)
        ]
        self.received = [each for each in self.received if not isinstance(each[1], BasicAck | BasicNack)]
        return found

    def confirmed(self) -> list[tuple[int, bool]]:
        """Take all basic.ack, as delivery tag and multiple."""
        return [(ack.delivery_tag, ack.multiple) for ack in self.methods(BasicAck)]


def connect(broker: InProcessBroker, *channels: int, settings: Settings | None = None) -> Wire091Peer:
    """A client that is open, with these channels; channel 1 by default."""
    peer = Wire091Peer(broker, settings)
    peer.open(*(channels or (1,)))
    return peer


def published(
    channel: int,
    bodies: Iterable[bytes],
    *,
    routing_key: str,
    exchange: str = "",
    mandatory: bool = False,
    properties: BasicProperties | None = None,
) -> bytes:
    """The frames of several publishes."""
    method = BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
    encoded = encode_properties(properties or BasicProperties())
    prefix = method_frame(channel, method)
    return b"".join(prefix + content_frames(channel, entry_of(encoded, body), FRAME_MAX) for body in bodies)


def properties_in(entry: bytes) -> BasicProperties:
    """The properties of an entry."""
    data = properties_of(entry)
    return decode_properties(data, 0, len(data))
