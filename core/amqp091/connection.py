"""One AMQP 0.9.1 connection of a server, sans-IO: bytes and the time go in, events and bytes come out [0-9-1 2.2.4].

Usage: call ``receive_data`` with bytes from the socket, then ``next_event`` until it returns None (or until enough was
done in this turn: ``input_left`` then says that there is more). Answer events by calling the connection's methods, then
call ``pieces_to_send``. Parsing is lazy: the bytes behind an event are parsed when the next event is requested.
``deadline`` and ``tick`` are for heartbeats and time-outs. ``fail_channel``, ``close``, ``tick`` and ``receive_eof``
may also leave an event.

No method raises for an action of the peer. A peer's fault closes its channel, or the connection, with the code and the
text that name it, and is reported as an event. Input behind our close is dropped until the peer has answered it: on a
channel all but channel.close-ok, on the connection all but connection.close-ok.

Bounds: of unparsed bytes, one frame and one read; of incomplete contents, ``max_message_size`` for each channel and
``partial_content_bytes_max`` in all; of channels, ``channel_max``. The owner bounds the output: it checks
the size of ``output`` and stops feeding input.

This module must not know queues, the engine, users, or the clock.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from struct import Struct
from types import MappingProxyType

from core.access.exchange import SaslMechanism
from core.amqp091 import ack_run
from core.amqp091.channels import Channels, method_id
from core.amqp091.codec import decode_method
from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ReplyCode
from core.amqp091.events import (
    AcksReceived,
    Amqp091ConnectionClosed,
    Amqp091ConnectionOpened,
    Event,
    PublishesReceived,
    SecretUpdated,
)
from core.amqp091.framing import (
    FRAME_HEADER_BYTES,
    FRAME_MIN_SIZE,
    FRAME_OVERHEAD_BYTES,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    Amqp091Frame,
    Amqp091ReceiveBuffer,
    FrameType,
    method_frame,
    read_frame,
)
from core.amqp091.methods import (
    BasicAck,
    BasicPublish,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionUpdateSecret,
    Method,
)
from core.amqp091.negotiation import Negotiation, NegotiationStage, only_the_default
from core.amqp091.output import Output
from core.amqp091.publish_run import DECODED_BYTES_A_UNIT, SINGLES_MAX, PublishRunParser
from core.amqp091.table import FieldTable
from core.config.amqp091 import Amqp091Settings

_FRAME_EXCESS_BYTES = 8
"""By how much a frame may exceed the agreed size: some clients count without the overhead. RabbitMQ allows this too."""
_LOST_GRACE_S = 1.0
"""After an invalid frame nothing can be parsed, not even connection.close-ok. This is how long the peer may take to
read our connection.close before the socket is closed; RabbitMQ waits as long."""

_SIZE_AT = 3
"""The place of the size in a frame, behind type and channel [0-9-1 4.2.3]."""
_HEAD = Struct(">BHII")
"""Frame type, channel, size, class id and method id together: the beginning of every method frame."""
_PUBLISH, _ACK = (class_id << 16 | method for class_id, method in (BasicPublish.ID, BasicAck.ID))
_METHOD_FRAME = int(FrameType.METHOD)


class _State(Enum):
    NEGOTIATING = auto()
    OPEN = auto()
    CLOSE_SENT = auto()
    """All input is dropped except connection.close-ok, and connection.close, which is answered."""
    CLOSE_RECEIVED = auto()
    """All input is dropped; we have to send connection.close-ok."""
    LOST = auto()
    """As CLOSE_SENT, but no input can be parsed."""
    FINISHED = auto()


class _LostInput(Exception):
    """An invalid frame: the beginning of the next one cannot be known."""

    def __init__(self, fault: Amqp091ConnectionFault) -> None:
        super().__init__(fault)
        self.fault = fault


class Amqp091Connection:
    """The server's side of a connection, with its channels."""

    def __init__(
        self,
        settings: Amqp091Settings,
        mechanisms: Sequence[SaslMechanism],
        *,
        withheld: Mapping[str, str] = MappingProxyType({}),
        not_offered: Callable[[str], None] = lambda name: None,
        server_properties: FieldTable | None = None,
        refusal_delay_s: Callable[[], float] = lambda: 0.0,
        refuse_virtual_host: Callable[[str, str], str | None] = only_the_default,
        first_frame_max: int = FRAME_MIN_SIZE,
    ) -> None:
        """See :class:`core.amqp091.negotiation.Negotiation`, which gets these arguments."""
        self.settings = settings
        self._negotiation = Negotiation(
            settings,
            mechanisms,
            withheld=withheld,
            not_offered=not_offered,
            server_properties=server_properties,
            refusal_delay_s=refusal_delay_s,
            refuse_virtual_host=refuse_virtual_host,
            first_frame_max=first_frame_max,
        )
        self._state = _State.NEGOTIATING
        self._buffer = Amqp091ReceiveBuffer()
        self._events: deque[Event] = deque()
        self.output = Output()
        """What ``pieces_to_send`` would return now. The owner reads its size."""
        self._channels = Channels(
            max_message_size=settings.max_message_size,
            partial_content_bytes_max=settings.partial_content_bytes_max,
            output=self.output,
            events=self._events,
        )
        self.singles_max = SINGLES_MAX
        """The most unlike publishes in one event. The owner sets it to what it has time for."""
        self._publish_runs: PublishRunParser | None = None
        """None before limits are agreed and a publish has arrived."""
        self._decoded_bytes = 0
        """Bytes of the methods and content headers that were decoded one by one so far."""
        self._input_left = False
        self._heard_at = 0.0
        self._spoke_at = 0.0
        self._heartbeats_paused = False
        self._silence_forgiven = False
        self._close_by: float | None = None

    # --- calls of the owner -------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes from the peer. Call ``next_event`` afterwards."""
        self._heard_at = now
        if self._deaf:
            return  # the bytes would never be parsed
        self._buffer.feed(data)
        self._input_left = True

    def receive_eof(self) -> None:
        """Note that the peer sends no more bytes, after a close or without one. All bytes before have been taken."""
        self._report_closed(0, "the peer closed the socket", by_peer=True)
        self._finish()

    def next_event(self, publishes_max: Callable[[int], int], now: float) -> Event | None:
        """Return the next event, or None when the bytes so far hold no more.

        ``publishes_max`` returns the most messages, one or more, that a run of a channel may have.
        """
        while not self._events:
            if not self._advance(publishes_max, now):
                self._input_left = False
                return None
        return self._events.popleft()

    @property
    def input_left(self) -> bool:
        """Whether there may be another event. Feed no more input before ``next_event`` has returned None."""
        return self._input_left or bool(self._events)

    @property
    def work_done(self) -> int:
        """What parsing publishes that are not alike, and tables, has cost so far, in units of :mod:`core.work`."""
        of_runs = 0 if self._publish_runs is None else self._publish_runs.work_done
        return of_runs + self._decoded_bytes // DECODED_BYTES_A_UNIT

    def pieces_to_send(self, now: float) -> list[bytes | memoryview]:
        """Return all output so far: the bytes of all pieces, one after the other; [] when there is none. Large messages
        are not copied into it."""
        if not self.output.size:
            return []
        self._spoke_at = now
        return self.output.take()

    def unread(self) -> bytes:
        """The received bytes that have not been parsed, from the beginning of a frame on."""
        return self._buffer.rest()

    def deadline(self) -> float | None:
        """The monotonic time at which ``tick`` must be called; None when there is no deadline."""
        times = [self._negotiation.refuse_at, self._close_by]
        if self._heartbeat_s:
            times += [self._heard_at + 2 * self._heartbeat_s, self._spoke_at + self._heartbeat_s / 2]
        return min((time for time in times if time is not None), default=None)

    def tick(self, now: float) -> None:
        """Act on a deadline: report a refused login, send a heartbeat, or close the connection of a silent peer.

        Call ``next_event`` afterwards.
        """
        if self._close_by is not None and now >= self._close_by:
            self.accept_close()
            self._finish()
        if self._negotiation.refuse_at is not None and now >= self._negotiation.refuse_at:
            self._negotiation.refuse_at = None
            self._refuse(now)
        if self.input_left:
            self._heard_at = now  # received input waits to be parsed, so the peer was not silent
        if self._heartbeat_s and now >= self._heard_at + 2 * self._heartbeat_s:
            self._silence(now)
        if self._heartbeat_s and now >= self._spoke_at + self._heartbeat_s / 2:
            self._spoke_at = now
            if not self.output.size:  # otherwise the waiting output shows the peer that we are alive
                self.write(HEARTBEAT_FRAME)

    @property
    def heartbeats_paused(self) -> bool:
        """Whether the peer's silence is no fault, because its socket is not being read. We go on sending heartbeats."""
        return self._heartbeats_paused

    @heartbeats_paused.setter
    def heartbeats_paused(self, paused: bool) -> None:
        self._heartbeats_paused = paused
        self._silence_forgiven = True

    @property
    def finished(self) -> bool:
        """No more input will be parsed; close the socket once the output is sent."""
        return self._state is _State.FINISHED

    @property
    def opened(self) -> bool:
        """Whether the negotiation is complete, and neither side has closed the connection."""
        return self._state is _State.OPEN

    @property
    def opening(self) -> bool:
        """Whether the negotiation is not complete."""
        return self._state is _State.NEGOTIATING

    @property
    def awaiting_answer(self) -> bool:
        """Whether the answer to the peer's login is being computed; until then, no input is parsed."""
        return self._state is _State.NEGOTIATING and self._negotiation.stage is NegotiationStage.ANSWER

    @property
    def identity(self) -> str:
        """The name with which the peer has authenticated; "" before that."""
        return self._negotiation.identity

    @property
    def virtual_host(self) -> str:
        """The virtual host that the peer has opened; "" before that."""
        return self._negotiation.virtual_host

    @property
    def client_properties(self) -> FieldTable:
        """The properties that the client has announced; {} before that."""
        return self._negotiation.client_properties

    @property
    def client_capabilities(self) -> Mapping[str, object]:
        """The extensions that the client has announced as supported (True) or not."""
        return self._negotiation.client_capabilities

    @property
    def frame_max(self) -> int:
        """The largest frame that both sides accept, in bytes. Never 0."""
        return self._negotiation.frame_max

    @property
    def channel_max(self) -> int:
        """The highest channel number; 0 before it is agreed."""
        return self._negotiation.channel_max

    @property
    def heartbeat_s(self) -> int:
        """The agreed heartbeat in seconds; 0 for none."""
        return self._negotiation.heartbeat_s

    # --- calls of the front end ---------------------------------------------------------------------------------------

    def channel_is_open(self, channel: int) -> bool:
        """Whether frames may be sent on it: it was opened, and we have sent neither channel.close nor
        channel.close-ok."""
        return self._channels.is_open(channel)

    def send(self, channel: int, method: Method) -> None:
        """Send a method. It is dropped on a closed channel, since the peer would ignore it."""
        if channel == 0 or self.channel_is_open(channel):
            self.write(method_frame(channel, method))

    def write(self, *pieces: bytes | memoryview) -> None:
        """Send whole frames, of open channels; see :meth:`core.amqp091.output.Output.write`."""
        if self._serving:
            self.output.write(*pieces)

    def fail_channel(self, channel: int, fault: ChannelFault) -> None:
        """Close a channel for this fault; input on it is dropped until the peer answers. If the peer has closed it
        already, that close is answered instead; ignored if it is closed."""
        self._channels.fail(channel, fault)

    def accept_channel_close(self, channel: int) -> None:
        """Answer the peer's channel.close, once the input before it has been processed."""
        self._channels.accept_close(channel)

    def close(self, fault: Amqp091ConnectionFault, now: float) -> None:
        """Close the connection for this fault; all input is dropped until the peer answers. Ignored when the connection
        is closed already."""
        if not self._serving:
            return
        self._report_closed(fault.code, fault.text, by_peer=False)
        if self._negotiation.stage is NegotiationStage.HEADER:
            self._finish()  # before its protocol header, the peer would not understand it
            return
        self.output.write_method(0, _close_method(fault))
        self._state = _State.CLOSE_SENT
        self._close_by = now + self.settings.close_time_out

    def accept_close(self) -> None:
        """Answer the peer's connection.close, once the input before it has been processed. This finishes the
        connection."""
        if self._state is _State.CLOSE_RECEIVED:
            self.output.write_method(0, ConnectionCloseOk())
            self._finish()

    def close_for_a_bug(self) -> bytes:
        """Return a connection.close with internal-error, in whatever state a bug of ours has left this; b"" where none
        fits."""
        if self._state is not _State.OPEN:
            return b""
        fault = Amqp091ConnectionFault(ReplyCode.INTERNAL_ERROR, "the broker has failed; its log says how")
        return method_frame(0, _close_method(fault))

    # --- input --------------------------------------------------------------------------------------------------------

    def _advance(self, publishes_max: Callable[[int], int], now: float) -> bool:
        """Parse the next frame or run from the buffer. False when the buffer holds no whole frame."""
        if self._deaf:
            self._buffer.clear()
            return False
        try:
            if self._negotiation.stage is NegotiationStage.HEADER:
                return self._take_header(now)
            if self.awaiting_answer:
                return self._go_on(now)
            if self._buffer.position == len(self._buffer.data) and not self._buffer.go_on():
                return False
            if self._state is _State.OPEN and self._take_run(publishes_max):
                return True
            frame = self._next_frame()
            if frame is None:
                return False
            if frame.channel == 0:
                self._take_connection_frame(frame, now)
            elif self._state is not _State.CLOSE_SENT:
                self._take_channel_frame(frame)
        except _LostInput as lost:
            self.close(lost.fault, now)
            self._state = _State.LOST
            self._close_by = now + _LOST_GRACE_S
        except Amqp091ConnectionFault as fault:
            self.close(fault, now)
        return True

    def _take_header(self, now: float) -> bool:
        header = self._buffer.take(len(PROTOCOL_HEADER))
        if header is None:
            return False
        if header == PROTOCOL_HEADER:
            self.output.write_method(0, self._negotiation.start())
            impossible = self._negotiation.impossible()
            if impossible is not None:
                self.close(impossible, now)
        else:
            self.output.write(PROTOCOL_HEADER)
            self._report_closed(0, f"protocol header {header!r} is not accepted here", by_peer=False)
            self._finish()
        return True

    def _next_frame(self) -> Amqp091Frame | None:
        """Take the next frame; None while it is incomplete. Raises _LostInput."""
        buffer = self._buffer
        try:
            frame = read_frame(buffer.data, buffer.position, self._negotiation.frame_max + _FRAME_EXCESS_BYTES)
        except Amqp091ConnectionFault as fault:
            raise _LostInput(fault) from fault
        if frame is not None:
            buffer.position = frame.end
            return frame
        size_at, size_end = buffer.position + _SIZE_AT, buffer.position + FRAME_HEADER_BYTES
        if size_end <= len(buffer.data):
            buffer.wait_for(FRAME_OVERHEAD_BYTES + int.from_bytes(buffer.data[size_at:size_end]))
        else:
            buffer.wait_for(FRAME_HEADER_BYTES)
        return None

    def _take_channel_frame(self, frame: Amqp091Frame) -> None:
        if self._state is _State.NEGOTIATING:
            text = f"a frame on channel {frame.channel} of a connection that is not open yet"
            raise Amqp091ConnectionFault(ReplyCode.COMMAND_INVALID, text)
        if frame.channel > self.channel_max:
            text = f"channel {frame.channel} is above the negotiated channel_max ({self.channel_max})"
            raise Amqp091ConnectionFault(ReplyCode.NOT_ALLOWED, text)
        if frame.frame_type is not FrameType.BODY:
            self._decoded_bytes += len(frame.payload)
        self._channels.frame_received(frame)

    def _take_run(self, publishes_max: Callable[[int], int]) -> bool:
        """Take a run of like frames at the head of the buffer, if the fast path understands them."""
        data, position = self._buffer.data, self._buffer.position
        if len(data) - position < _HEAD.size:
            return False
        frame_type, channel, _, method = _HEAD.unpack_from(data, position)
        if frame_type != _METHOD_FRAME or not self._channels.between_contents(channel):
            return False
        if method == _PUBLISH:
            return self._take_publish_runs(channel, publishes_max(channel))
        if method == _ACK:
            return self._take_ack_run()
        return False

    def _take_publish_runs(self, channel: int, publishes_max: int) -> bool:
        data = self._buffer.data
        if self._publish_runs is None:
            self._publish_runs = PublishRunParser(frame_max=self.frame_max, body_max=self.settings.max_message_size)
        runs, end = self._publish_runs.parse(data, self._buffer.position, len(data), publishes_max, self.singles_max)
        if not runs:
            return False
        self._buffer.position = end
        self._events.append(PublishesReceived(channel, runs, sum([len(run.entries) for run in runs])))
        return True

    def _take_ack_run(self) -> bool:
        data = self._buffer.data
        run = ack_run.parse(data, self._buffer.position, len(data))
        if run is None:
            return False
        self._buffer.position = run.end_position
        self._events.append(AcksReceived(run.channel, run.ranges))
        return True

    # --- channel 0 ----------------------------------------------------------------------------------------------------

    def _take_connection_frame(self, frame: Amqp091Frame, now: float) -> None:
        if frame.frame_type is FrameType.HEARTBEAT:
            return
        if self._state is _State.CLOSE_SENT:
            self._take_after_close(frame)
            return
        if frame.frame_type is not FrameType.METHOD:
            raise Amqp091ConnectionFault(ReplyCode.CHANNEL_ERROR, "a content frame on channel 0, which has no contents")
        method = decode_method(frame.payload)
        if isinstance(method, ConnectionClose):
            # py-amqp closes with 0, which is no reply code and stands for success.
            self._report_closed(method.reply_code or ReplyCode.REPLY_SUCCESS, method.reply_text, by_peer=True)
            self._state = _State.CLOSE_RECEIVED
            self._close_by = now + self.settings.close_time_out
        elif self._state is _State.NEGOTIATING:
            self._negotiate(method, now)
        elif isinstance(method, ConnectionUpdateSecret):
            self._events.append(SecretUpdated(method.new_secret))
        else:
            raise Amqp091ConnectionFault(
                ReplyCode.COMMAND_INVALID, f"{type(method).__name__} on channel 0 of an open connection", *method.ID
            )

    def _go_on(self, now: float) -> bool:
        answer = self._negotiation.go_on(now)
        if answer is not None:
            self.output.write_method(0, answer)
        return not self.awaiting_answer

    def _negotiate(self, method: Method, now: float) -> None:
        answer = self._negotiation.method_received(method, now)
        if answer is not None:
            self.output.write_method(0, answer)
        if isinstance(method, ConnectionOpen):
            self._state = _State.OPEN
            self._events.append(Amqp091ConnectionOpened(method))

    def _take_after_close(self, frame: Amqp091Frame) -> None:
        """Take a frame behind our connection.close; all are dropped, except connection.close and
        connection.close-ok."""
        match method_id(frame):
            case ConnectionCloseOk.ID:
                self._finish()
            case ConnectionClose.ID:  # both sides have closed; the peer will also answer our close, or close the socket
                self.output.write_method(0, ConnectionCloseOk())

    def _refuse(self, now: float) -> None:
        fault = self._negotiation.refusal()
        if fault is not None:
            self.close(fault, now)
            return
        self._report_closed(ReplyCode.ACCESS_REFUSED, "the login was refused", by_peer=False)
        self._finish()

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def _serving(self) -> bool:
        """Whether it serves: it has not ended, and neither side has closed it."""
        return self._state in (_State.NEGOTIATING, _State.OPEN)

    @property
    def _deaf(self) -> bool:
        """Whether further input will never be parsed."""
        if self._state is _State.NEGOTIATING:
            return self._negotiation.stage is NegotiationStage.NOTHING
        return self._state in (_State.CLOSE_RECEIVED, _State.LOST, _State.FINISHED)

    @property
    def _heartbeat_s(self) -> int:
        """The heartbeat in seconds; 0 when none are due, in either direction."""
        return self._negotiation.heartbeat_s if self._serving else 0

    def _silence(self, now: float) -> None:
        if self._heartbeats_paused or self._silence_forgiven:
            self._silence_forgiven = self._heartbeats_paused
            self._heard_at = now
            return
        self._report_closed(
            0, f"no byte for {2 * self._heartbeat_s} s; the heartbeat is {self._heartbeat_s} s", by_peer=False
        )
        self._finish()

    def _report_closed(self, reply_code: int, reply_text: str, *, by_peer: bool) -> None:
        """Report once that the connection no longer serves."""
        if not self._serving:
            return
        self._channels.clear()
        self._events.append(Amqp091ConnectionClosed(reply_code, reply_text, by_peer))

    def _finish(self) -> None:
        self._state = _State.FINISHED
        self._close_by = None
        self._negotiation.refuse_at = None
        self._buffer.clear()


def _close_method(fault: Amqp091ConnectionFault) -> ConnectionClose:
    return ConnectionClose(
        reply_code=fault.code,
        reply_text=fault.reply_text,
        class_id=fault.class_id,
        method_id=fault.method_id,
    )
