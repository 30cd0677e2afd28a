"""A client's side of an AMQP 0.9.1 connection, for tests of the server's: frames in, methods out, and no sockets."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.access.exchange import FAILURE, Reply, SaslExchange, SaslMechanism, success
from core.amqp091.codec import decode_method
from core.amqp091.connection import Amqp091Connection
from core.amqp091.content import PROPERTIES_AT
from core.amqp091.errors import ReplyCode
from core.amqp091.events import Amqp091ConnectionClosed, Amqp091ConnectionOpened, ChannelClosed, ChannelOpened, Event
from core.amqp091.framing import PROTOCOL_HEADER, FrameType, encode_frame, method_frame, read_frame
from core.amqp091.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
)
from core.amqp091.properties import BasicProperties, encode_properties
from core.amqp091.table import FieldTable, FieldValue
from core.config.amqp091 import Amqp091Settings

FRAME_MAX = 131_072
PASSWORD = b"right"
CAPABILITIES: dict[str, FieldValue] = {"authentication_failure_close": True, "basic.nack": True}
PROPERTIES: FieldTable = {"product": "test", "capabilities": CAPABILITIES}


@dataclass(frozen=True, slots=True)
class Password:
    """A mechanism that lets in a client that says ``PASSWORD``, at once or when challenged."""

    name: str = "PLAIN"

    def start(self) -> SaslExchange:
        """Begin an attempt."""
        return _PasswordExchange()


class _PasswordExchange:
    def respond(self, response: bytes) -> Reply:
        if not response:
            return "challenge", b"who are you?"
        return success("alice") if response == PASSWORD else FAILURE


MECHANISMS: Sequence[SaslMechanism] = (Password(),)


def opening(
    *,
    channel_max: int = 2047,
    frame_max: int = FRAME_MAX,
    heartbeat: int = 0,
    response: bytes = PASSWORD,
    properties: FieldTable = PROPERTIES,
) -> bytes:
    """All that a client sends until its connection is open."""
    methods: Sequence[Method] = (
        ConnectionStartOk(client_properties=properties, mechanism="PLAIN", response=response),
        ConnectionTuneOk(channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat),
        ConnectionOpen(virtual_host="/"),
    )
    return PROTOCOL_HEADER + b"".join(method_frame(0, method) for method in methods)


def publish(
    channel: int,
    body: bytes,
    *,
    method: BasicPublish | None = None,
    properties: BasicProperties | None = None,
    body_frame_bytes: int = FRAME_MAX,
) -> bytes:
    """The frames of one message, with its body cut into frames of at most this many bytes."""
    return (
        method_frame(channel, method or BasicPublish(exchange="", routing_key="q"))
        + header_frame(channel, len(body), properties=properties)
        + b"".join(
            body_frame(channel, body[at : at + body_frame_bytes]) for at in range(0, len(body), body_frame_bytes)
        )
    )


def header_frame(
    channel: int, body_size: int, *, class_id: int = 60, weight: int = 0, properties: BasicProperties | None = None
) -> bytes:
    """A content header frame that announces a body of this many bytes."""
    fixed = class_id.to_bytes(2) + weight.to_bytes(2) + body_size.to_bytes(8)
    assert len(fixed) == PROPERTIES_AT
    return encode_frame(FrameType.HEADER, channel, fixed + encode_properties(properties or BasicProperties()))


def body_frame(channel: int, body: bytes) -> bytes:
    """A content body frame."""
    return encode_frame(FrameType.BODY, channel, body)


def methods_in(data: bytes) -> list[tuple[int, Method]]:
    """The channel and method of each method frame in a server's output; heartbeats are left out."""
    found: list[tuple[int, Method]] = []
    position = 0
    while position < len(data):
        frame = read_frame(data, position, 2**31)
        assert frame is not None, "the output ends amid a frame"
        position = frame.end
        if frame.frame_type is FrameType.METHOD:
            found.append((frame.channel, decode_method(frame.payload)))
    return found


class Peer:
    """A connection under test, and its client. ``now`` is the time of everything that is done next."""

    def __init__(
        self,
        settings: Amqp091Settings | None = None,
        mechanisms: Sequence[SaslMechanism] = MECHANISMS,
        *,
        refusal_delay_s: float = 0.0,
    ):
        self.connection = Amqp091Connection(
            settings or Amqp091Settings(), mechanisms, refusal_delay_s=lambda: refusal_delay_s
        )
        self.now = 0.0
        self.publishes_max = 1000

    def open(self, *channels: int, heartbeat: int = 0, channel_max: int = 2047, frame_max: int = FRAME_MAX) -> "Peer":
        """Open the connection and these channels, and discard the server's output so far."""
        events = self.say(opening(heartbeat=heartbeat, channel_max=channel_max, frame_max=frame_max))
        assert isinstance(events[0], Amqp091ConnectionOpened), self.heard()
        for channel in channels:
            self.say(method_frame(channel, ChannelOpen()))
        self.heard()
        return self

    def say(self, data: bytes) -> list[Event]:
        """Send bytes to the server; returns the events that it reports."""
        self.connection.receive_data(data, self.now)
        return self.events()

    def call(self, channel: int, *methods: Method) -> list[Event]:
        """Send methods to the server; returns the events that it reports."""
        return self.say(b"".join(method_frame(channel, method) for method in methods))

    def events(self) -> list[Event]:
        """All events that the server has to report."""
        events: list[Event] = []
        while event := self.connection.next_event(lambda channel: self.publishes_max, self.now):
            events.append(event)
        assert not self.connection.input_left
        return events

    def heard(self) -> list[tuple[int, Method]]:
        """The methods that the server has sent since the last call."""
        return methods_in(b"".join(self.connection.pieces_to_send(self.now)))

    def wait(self, seconds: float) -> list[Event]:
        """Let time pass, with a tick at every deadline; returns the events that the server reports."""
        until = self.now + seconds
        events: list[Event] = []
        while (deadline := self.connection.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.connection.tick(self.now)
            events += self.events()
            self.connection.pieces_to_send(self.now)
        self.now = until
        return events


def opened(
    *channels: int,
    max_message_size: int = 2**20,
    partial_content_bytes_max: int = 2**20,
    close_time_out: float = 5.0,
) -> Peer:
    """A peer whose connection and channels are open, under these settings."""
    settings = Amqp091Settings(
        max_message_size=max_message_size,
        partial_content_bytes_max=partial_content_bytes_max,
        close_time_out=close_time_out,
    )
    return Peer(settings).open(*channels)


def assert_connection_closed(refused: Peer, code: ReplyCode, events: Sequence[Event]) -> None:
    """Check that the server closed the connection with this code, and ignores all but the answer to that."""
    (closed,) = events
    assert isinstance(closed, Amqp091ConnectionClosed)
    assert (closed.reply_code, closed.by_peer) == (code, False)
    channel, close = refused.heard()[-1]
    assert channel == 0
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == code
    assert close.reply_text.startswith(code.name)
    assert not refused.connection.opened
    assert refused.call(1, QueueDeclare(queue="late")) == []
    assert refused.heard() == []


def assert_channel_closed(refused: Peer, channel: int, code: ReplyCode, events: Sequence[Event]) -> None:
    """Check that the server closed the channel with this code, ignores all but the answer to that, and lets the channel
    be opened again."""
    assert list(events) == [ChannelClosed(channel, by_peer=False)]
    ((on, close),) = refused.heard()
    assert on == channel
    assert isinstance(close, ChannelClose)
    assert close.reply_code == code
    assert close.reply_text.startswith(code.name)
    assert refused.connection.opened
    assert not refused.connection.channel_is_open(channel)
    assert refused.call(channel, QueueDeclare(queue="late")) == []
    assert refused.call(channel, ChannelCloseOk(), ChannelOpen()) == [ChannelOpened(channel)]
    assert refused.heard() == [(channel, ChannelOpenOk())]
