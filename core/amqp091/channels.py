"""The channels of one connection: open, in use, closing, and the incomplete content of each [0-9-1 2.2.5, 4.2.6].

A channel that we closed drops all input until the peer has answered; one that the peer closed drops all input until we
have answered. Where the two closes cross, the peer may or may not answer ours before it opens the number again.

Of an incomplete content, a channel holds ``max_message_size`` bytes at most, and all together hold
``partial_content_bytes_max``; a content above a limit is skipped without being kept. There are at most ``channel_max``
channels.

This module must not know unparsed bytes, the state of the connection, or what a method means beyond the life of
channels and the frames of contents.
"""

from collections import deque
from enum import Enum, auto
from struct import Struct

from core.amqp091.assembly import ContentAssembly
from core.amqp091.codec import decode_method
from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ReplyCode
from core.amqp091.events import AcksReceived, ChannelClosed, ChannelOpened, Event, MethodReceived, PublishesReceived
from core.amqp091.framing import Amqp091Frame, FrameType
from core.amqp091.methods import (
    AccessRequest,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from core.amqp091.output import Output
from core.amqp091.property_layout import needed_of
from core.amqp091.publish_run import PublishRun

_FROM_CLIENTS = (
    AccessRequest,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
"""Methods that the front end answers. On an open channel, a client may send these, basic.publish, basic.ack,
channel.flow and channel.close, and no others."""


class _State(Enum):
    OPEN = auto()
    CLOSE_SENT = auto()
    """All input is dropped except channel.close-ok, and channel.close, which is answered."""
    CROSSED = auto()
    """As CLOSE_SENT, and the peer has closed the channel as well, before it received our close. It may answer our
    close, or treat the number as free. So channel.open is accepted too."""
    CLOSE_RECEIVED = auto()
    """All input is dropped; we have to send channel.close-ok."""


class _Channel:
    __slots__ = ("assembly", "state")

    def __init__(self) -> None:
        self.state = _State.OPEN
        self.assembly: ContentAssembly | None = None


class Channels:
    """All channels except channel 0."""

    def __init__(
        self,
        *,
        max_message_size: int,
        partial_content_bytes_max: int,
        output: Output,
        events: deque[Event],
    ) -> None:
        """Answers are written to the connection's ``output``, and events are appended to its ``events``."""
        self._max_message_size = max_message_size
        self._partial_content_bytes_max = partial_content_bytes_max
        self._output = output
        self._events = events
        self._channels: dict[int, _Channel] = {}
        self._partial_bytes = 0

    # --- calls of the front end
    # -------------------------------------------------------------------------------------------

    def is_open(self, channel: int) -> bool:
        """Whether frames may be sent on it: it was opened, and we have sent neither channel.close nor
        channel.close-ok."""
        known = self._channels.get(channel)
        return known is not None and known.state in (_State.OPEN, _State.CLOSE_RECEIVED)

    def between_contents(self, channel: int) -> bool:
        """Whether the peer may send a method on it now: no content is incomplete."""
        known = self._channels.get(channel)
        return known is not None and known.state is _State.OPEN and known.assembly is None

    def fail(self, channel: int, fault: ChannelFault) -> None:
        """Close a channel for this fault. Ignored for a channel that we have closed already."""
        known = self._channels.get(channel)
        if known is None or known.state in (_State.CLOSE_SENT, _State.CROSSED):
            return
        if known.state is _State.CLOSE_RECEIVED:
            self.accept_close(channel)
            return
        self._drop_content(known)
        known.state = _State.CLOSE_SENT
        close = ChannelClose(
            reply_code=fault.code,
            reply_text=fault.reply_text,
            class_id=fault.class_id,
            method_id=fault.method_id,
        )
        self._output.write_method(channel, close)
        self._events.append(ChannelClosed(channel, by_peer=False))

    def accept_close(self, channel: int) -> None:
        """Answer the peer's channel.close. Ignored when the peer has closed no such channel."""
        known = self._channels.get(channel)
        if known is not None and known.state is _State.CLOSE_RECEIVED:
            del self._channels[channel]
            self._output.write_method(channel, ChannelCloseOk())

    def clear(self) -> None:
        """Remove all channels, at the end of the connection."""
        self._channels.clear()
        self._partial_bytes = 0

    # --- input from the peer
    # ----------------------------------------------------------------------------------------------

    def frame_received(self, frame: Amqp091Frame) -> None:
        """Take the next frame. Raises Amqp091ConnectionFault."""
        known = self._channels.get(frame.channel)
        if known is None:
            self._take_open(frame)
        elif known.state is _State.OPEN:
            try:
                if frame.frame_type is FrameType.METHOD:
                    self._take_method(known, frame)
                else:
                    self._take_content(known, frame)
            except ChannelFault as fault:
                self.fail(frame.channel, fault)
        else:
            self._take_late(known, frame)

    def _take_open(self, frame: Amqp091Frame) -> None:
        if method_id(frame) != ChannelOpen.ID:
            raise Amqp091ConnectionFault(
                ReplyCode.CHANNEL_ERROR, f"channel {frame.channel} is not open", *method_id(frame)
            )
        decode_method(frame.payload)
        self._channels[frame.channel] = _Channel()
        self._output.write_method(frame.channel, ChannelOpenOk())
        self._events.append(ChannelOpened(frame.channel))

    def _take_late(self, known: _Channel, frame: Amqp091Frame) -> None:
        """Take a frame on a closing channel: sent before the peer received our close, or its answer, or sent after its
        own close."""
        method = method_id(frame)
        if known.state is _State.CLOSE_RECEIVED:
            if method == ChannelOpen.ID:
                text = f"channel {frame.channel} is opened before its close has been answered"
                raise Amqp091ConnectionFault(ReplyCode.CHANNEL_ERROR, text, *method)
        elif method == ChannelCloseOk.ID:
            del self._channels[frame.channel]
        elif method == ChannelClose.ID:
            known.state = _State.CROSSED
            self._output.write_method(frame.channel, ChannelCloseOk())
        elif method == ChannelOpen.ID and known.state is _State.CROSSED:
            self._take_open(frame)

    def _take_method(self, known: _Channel, frame: Amqp091Frame) -> None:
        """Take a method. Raises ChannelFault and Amqp091ConnectionFault."""
        if known.assembly is not None:
            raise known.assembly.unexpected("a method")
        channel = frame.channel
        method = decode_method(frame.payload)
        match method:
            case BasicPublish():
                if method.immediate:
                    raise Amqp091ConnectionFault(ReplyCode.NOT_IMPLEMENTED, "immediate=true", *method.ID)
                known.assembly = ContentAssembly(method)
            case BasicAck():
                self._events.append(AcksReceived(channel, [_acknowledged(method)]))
            case ChannelFlow():
                if not method.active:
                    raise Amqp091ConnectionFault(ReplyCode.NOT_IMPLEMENTED, "active=false", *method.ID)
                self._output.write_method(channel, ChannelFlowOk(active=True))
            case ChannelClose():
                known.state = _State.CLOSE_RECEIVED
                self._events.append(ChannelClosed(channel, by_peer=True))
            case ChannelOpen():
                raise Amqp091ConnectionFault(ReplyCode.CHANNEL_ERROR, f"channel {channel} is open already", *method.ID)
            case _ if isinstance(method, _FROM_CLIENTS):
                self._events.append(MethodReceived(channel, method))
            case _:
                text = f"{type(method).__name__} is not for clients to send on channel {channel}, which is open"
                raise Amqp091ConnectionFault(ReplyCode.COMMAND_INVALID, text, *method.ID)

    def _take_content(self, known: _Channel, frame: Amqp091Frame) -> None:
        """Take a frame of a content. Raises ChannelFault and Amqp091ConnectionFault."""
        assembly = known.assembly
        if assembly is None:
            text = f"a content frame on channel {frame.channel}, where a method is expected"
            raise Amqp091ConnectionFault(ReplyCode.UNEXPECTED_FRAME, text)
        if frame.frame_type is FrameType.HEADER:
            assembly.header_received(frame.payload, self._max_message_size)
        else:
            assembly.body_received(frame.payload)
            self._partial_bytes += len(frame.payload)
        if assembly.complete:
            self._drop_content(known)
            self._events.append(_published(frame.channel, assembly))
        elif self._partial_bytes > self._partial_content_bytes_max:
            raise ChannelFault(
                ReplyCode.CONTENT_TOO_LARGE,
                f"more than {self._partial_content_bytes_max} bytes of contents that are not complete",
                *BasicPublish.ID,
            )

    def _drop_content(self, known: _Channel) -> None:
        if known.assembly is not None:
            self._partial_bytes -= known.assembly.held_bytes
            known.assembly = None


_METHOD_ID = Struct(">HH")


def method_id(frame: Amqp091Frame) -> tuple[int, int]:
    """Class id and method id of a frame that is not decoded; (0, 0) when it has none."""
    if frame.frame_type is not FrameType.METHOD or len(frame.payload) < _METHOD_ID.size:
        return 0, 0
    class_id, number = _METHOD_ID.unpack_from(frame.payload)
    return class_id, number


def _acknowledged(method: BasicAck) -> tuple[int, int]:
    """The range of delivery tags, as in ``AcksReceived``. Raises ChannelFault for tag 0 without ``multiple``."""
    if method.multiple:
        return 0, method.delivery_tag
    if method.delivery_tag == 0:
        raise ChannelFault(ReplyCode.PRECONDITION_FAILED, "unknown delivery tag 0", *method.ID)
    return method.delivery_tag, method.delivery_tag


def _published(channel: int, assembly: ContentAssembly) -> PublishesReceived:
    publish = assembly.publish
    needed = needed_of(assembly.properties)
    assert needed is not None, "the assembly has decoded the properties"
    run = PublishRun(publish.exchange, publish.routing_key, publish.mandatory, needed, [assembly.entry()])
    return PublishesReceived(channel, [run], 1)
