"""One connection, sans-IO: bytes and the time go in, events and bytes come out [2.4].

A broker and a client use it in the same way. Call ``receive_data`` with the bytes of a read from the socket. Then call
``next_event`` until it returns None, and answer each event by calling methods of the object that it names. Then call
``data_to_send``. Parsing is lazy: the bytes behind an event are parsed only by the next call of ``next_event``, so the
answer to an attach applies to the transfers pipelined behind it. ``deadline`` and ``tick`` are for heartbeats and
time-outs.

The methods for the owner raise no error for anything that a peer does. A peer's fault ends the link, the session or the
connection to which it belongs, with a detach, end or close that names the fault, and is reported as an event.

This module must not know messages, addresses, the engine, or the clock.
"""

from collections import Counter
from math import inf

from amqp10.errors import AmqpError, ConnectionFault, DecodeError, ErrorCondition, LinkFault, SessionFault
from amqp10.protocol.events import ConnectionClosed, ConnectionOpened
from amqp10.protocol.handshake import Handshake, NoHandshake
from amqp10.protocol.lifecycle import CONNECTION, ConnectionState, IllegalTransition, Input, step
from amqp10.protocol.link import error_from
from amqp10.protocol.link_names import LinkNames
from amqp10.protocol.receiver_link import PartialDelivery, ReceiverLink
from amqp10.protocol.session import IncomingChannel, OutgoingChannel, Session, SessionEvent
from amqp10.protocol.settings import ConnectionSettings, SessionLimits
from amqp10.wire.codec.decode import DEPTH_BEFORE_OPEN, DEPTH_MAX
from amqp10.wire.disposition_run import DispositionRun, DispositionRunParser
from amqp10.wire.framing import (
    AMQP_FRAME,
    EMPTY_FRAME,
    MIN_MAX_FRAME_SIZE,
    FrameBounds,
    Piece,
    ReceiveBuffer,
    encode_frame,
    piece_of,
)
from amqp10.wire.messaging import Error
from amqp10.wire.performatives import (
    Begin,
    Close,
    End,
    Open,
    Performative,
    PerformativeDecoder,
    Transfer,
    encode_performative,
)
from amqp10.wire.transfer_run import TransferRun, TransferRunParser

_TRANSFER, _DISPOSITION = 0x14, 0x15
"""Descriptors that the fast path looks for [2.7.5, 2.7.6], at the third byte of the frame body."""


Event = ConnectionOpened | ConnectionClosed | SessionEvent


class Connection:
    """One side of an AMQP 1.0 connection, with its sessions."""

    __slots__ = (
        "_amid_delivery", "_buffer", "_by_incoming", "_by_outgoing", "_close_by", "_close_written", "_disposition_runs",
        "_events_taken", "_grown", "_heard_at", "_heartbeat_s", "_output", "_output_bytes", "_partial_bytes",
        "_performatives", "_spoke_at", "_transfer_runs", "backlog_bytes", "error", "events", "exhausted", "finished",
        "flow_frames", "frame_size_max", "frames_left", "frames_received", "frames_sent", "handshake", "link_names",
        "refilled", "remote", "report", "settings", "state", "to_flush",
    )  # fmt: skip

    def __init__(self, settings: ConnectionSettings, handshake: Handshake) -> None:
        self.settings = settings
        self.handshake = handshake
        self.state = ConnectionState.START
        self.remote: Open | None = None
        self.error: Error | None = None
        """Why the connection was closed, by either side."""
        self.frame_size_max = MIN_MAX_FRAME_SIZE
        self.link_names: LinkNames[Session] = LinkNames()
        self.backlog_bytes = 0
        """Bytes that the socket has not taken, as its owner says."""
        self.frames_received = self.frames_sent = 0
        self.flow_frames: Counter[tuple[str, str]] = Counter()
        """Flow frames sent and received, by direction and kind; many connections may share one counter."""
        self.frames_left = settings.frames_per_turn_max
        """Frames that may still be taken in this turn. Callers may read it, to save a call: :attr:`input_left` is False
        unless it is 0."""
        self._buffer = ReceiveBuffer()
        self.exhausted = False
        """No event follows from the bytes so far. Callers may read it, to save a call."""
        self.events: list[Event] = []
        """Events that were not taken yet; seldom more than two. Callers may read it, to save a call when it is empty. A
        deque would take 0.7 KiB of an idle connection."""
        self._events_taken = 0
        """So many of ``events`` were taken; the list is cleared with the last, so that a peer that causes many of them
        costs no more for each."""
        self.report = self.events.append
        self._output: list[Piece] = []
        self._output_bytes = 0
        self._by_incoming: dict[int, Session] = {}
        self._by_outgoing: dict[int, Session] = {}
        self.to_flush: dict[Session, None] = {}
        """Sessions that have something for the output. Sessions note themselves here, to save a call."""
        self.refilled: dict[ReceiverLink, None] | None = None
        """The links whose rule of link credit was applied, if the owner puts a dictionary here
        before there is a session; the owner clears it."""
        self._partial_bytes = 0
        self._grown: dict[PartialDelivery, None] = {}
        """Incomplete deliveries with frames that have come since all that had come was parsed."""
        self._transfer_runs = TransferRunParser(max_frame_size=settings.max_frame_size)
        self._performatives = PerformativeDecoder()
        self._amid_delivery = False
        """The latest transfer that came alone is not the last one of its delivery, so no run begins behind it."""
        self._disposition_runs = DispositionRunParser(max_frame_size=settings.max_frame_size)
        self._heard_at: float | None = None
        self._spoke_at = 0.0
        self._heartbeat_s = inf
        """How often the peer wants to hear from us: twice within its idle-time-out; infinity for never."""
        self._close_by: float | None = None
        self._close_written = False
        self.finished = False
        """Nothing more will be read; the owner can close the socket once the output is sent. For reading only."""

    # --- the owner's side --------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, monotonic: float) -> None:
        """Take bytes from the peer. Ask for events next."""
        self._heard_at = monotonic
        self.frames_left = self.settings.frames_per_turn_max
        self.exhausted = False
        if not self.finished and self.handshake.refuse_at is None:  # else no byte will be parsed any more
            self._buffer.feed(data)

    @property
    def input_left(self) -> bool:
        """The turn ended before all bytes were parsed. Call ``go_on``, and receive no more before this is False."""
        return self.frames_left == 0 and not self.finished

    def end_turn(self) -> None:
        """Stop parsing until ``go_on``. Events of frames that have been taken already still come."""
        self.frames_left = 0

    def go_on(self) -> None:
        """A new turn for the bytes that are left. Ask for events next."""
        self.frames_left = self.settings.frames_per_turn_max

    def receive_eof(self) -> None:
        """The peer will send nothing more, with or without a close. Events of what it sent before have been taken."""
        if self.state is not ConnectionState.END and not self.finished:
            self._over(self.error, by_peer=True)
        self.finished = True

    def next_event(self) -> Event | None:
        """The next event, or None when the bytes so far hold no more, or the turn is over."""
        while not self.events:
            if self.exhausted or self.finished or self.frames_left == 0:
                return None
            buffer = self._buffer
            taken = buffer.position == len(buffer.data) and self.handshake.complete
            if (taken and not buffer.go_on()) or not self._advance():
                self.exhausted = self.handshake.complete  # an incomplete one may wait for an answer, too
                while self._grown:
                    self._grown.popitem()[0].spare_reads()
                return None
            self.frames_left -= 1
        events, index = self.events, self._events_taken
        event = events[index]
        if index + 1 == len(events):
            events.clear()
            self._events_taken = 0
        else:
            self._events_taken = index + 1
        return event

    def data_to_send(self, monotonic: float) -> bytes:
        """The pending output as :meth:`pieces_to_send` gives it, joined; b"" when there is none."""
        return b"".join(self.pieces_to_send(monotonic))

    def pieces_to_send(self, monotonic: float) -> list[Piece]:
        """The pending output for the socket, up to about ``unsent_bytes_max``; large messages are not copied into it.

        Call it again until it returns [], as long as the socket accepts bytes.
        """
        while self.to_flush:
            sessions = list(self.to_flush)
            self.to_flush.clear()
            for session in sessions:
                session.flush()
        if self._output_bytes and self._output_bytes + self.backlog_bytes >= self.settings.unsent_bytes_max:
            self._flush_blocked()
        output, self._output, self._output_bytes = self._output, [], 0
        if self.handshake.output:
            output, self.handshake.output = [self.handshake.output, *output], b""
        if output:
            self._spoke_at = monotonic
        return output

    def unread(self) -> bytes:
        """The bytes that have been received and not parsed. The first of them begins a frame."""
        return self._buffer.rest()

    def output_backlog(self, waiting_bytes: int) -> None:
        """Note how many bytes of the output the socket has not taken yet. When they get fewer, deliveries go on."""
        shrunk = waiting_bytes < self.backlog_bytes
        self.backlog_bytes = waiting_bytes
        if shrunk:
            self._flush_blocked()

    def deadline(self) -> float | None:
        """The monotonic time at which ``tick`` has something to do."""
        if self.finished:
            return None
        refuse_at, idle_ms = self.handshake.refuse_at, self.settings.idle_time_out_ms
        deadline = self._spoke_at + self._heartbeat_s
        if self._close_by is not None and self._close_by < deadline:
            deadline = self._close_by
        if refuse_at is not None and refuse_at < deadline:
            deadline = refuse_at
        if idle_ms and self._heard_at is not None and (silent_at := self._heard_at + 2 * idle_ms / 1000) < deadline:
            deadline = silent_at
        return None if deadline == inf else deadline

    def tick(self, monotonic: float) -> None:
        """A deadline has come: send an empty frame, or fail the connection of a silent peer [2.4.5]."""
        self.handshake.tick(monotonic)
        if self.handshake.refused or (self._close_by is not None and monotonic >= self._close_by):
            self.finished = True
        idle_ms = self.settings.idle_time_out_ms
        if self.input_left:
            self._heard_at = monotonic  # bytes of the peer wait to be parsed, so it is not silent
        if idle_ms and self._heard_at is not None and monotonic >= self._heard_at + 2 * idle_ms / 1000:
            self._fail(
                ConnectionFault(
                    ErrorCondition.RESOURCE_LIMIT_EXCEEDED,
                    f"no frame for {2 * idle_ms} ms; the idle-time-out announced was {idle_ms} ms",
                )
            )
        if not self.finished and monotonic >= self._spoke_at + self._heartbeat_s:
            self._spoke_at = monotonic
            if not self.backlog_bytes:  # else the bytes that wait for the socket serve as the heartbeat
                self.write_frames(EMPTY_FRAME)

    @property
    def reading(self) -> bool:
        """False while the owner should not read from the peer: bytes wait to be parsed, an answer of the handshake is
        being computed, or the peer asks for answers and does not read them.

        Deliveries stop at half as many bytes as there may be of those answers. So a consumer that does not read can
        always settle its deliveries, and only answers to the peer's own attaches, begins and the like fill the second
        half.
        """
        if self.frames_left == 0 and not self.finished:
            return False
        overdue = self.backlog_bytes + self._output_bytes > 2 * self.settings.unsent_bytes_max
        return not (overdue or (not self.handshake.complete and self.handshake.waiting))

    @property
    def at_rest(self) -> bool:
        """Nothing waits to be parsed, to be reported or to be sent, as after a disposition that has settled."""
        waits = self.events or self.to_flush or self._output or self.handshake.output
        return self.exhausted and not (waits or self.finished or self.frames_left == 0)

    @property
    def opened(self) -> bool:
        """Both opens have been exchanged and no close has gone or come."""
        return self.state is ConnectionState.OPENED

    @property
    def all_sessions(self) -> list[Session]:
        """Every session that has a channel of ours, whatever its state."""
        return list(self._by_outgoing.values())

    @property
    def sessions(self) -> list[Session]:
        """The sessions that are mapped, in order of beginning."""
        return [session for session in self._by_outgoing.values() if session.mapped]

    def session(self, channel: int) -> Session | None:
        """The mapped session with this channel of ours, or None."""
        session = self._by_outgoing.get(channel)
        return session if session is not None and session.mapped else None

    # --- what the owner decides --------------------------------------------------------------------------------------

    def open(self) -> None:
        """Send our open, as the opening or as the answer [2.7.1]."""
        self._step(Input.OPENING_SENT)
        settings = self.settings
        own = Open(
            container_id=settings.container_id,
            hostname=settings.hostname,
            max_frame_size=settings.max_frame_size,
            channel_max=settings.channel_max,
            idle_time_out=settings.idle_time_out_ms,
            offered_capabilities=settings.offered_capabilities,
            desired_capabilities=settings.desired_capabilities,
            properties={**settings.properties, **settings.more_properties(self.remote)} or None,
        )
        self.write(0, own, b"")

    def close(self, fault: AmqpError | None = None, *, monotonic: float) -> None:
        """Close the connection from our side, with a reason if there is one [2.4.3]. An unopened one is opened first.

        Before the end of the handshake no close can be sent: the connection just ends.
        """
        if not self.handshake.complete:
            self.finished = True
            self._over(None if fault is None else error_from(fault), by_peer=False)
            return
        if self.state in (ConnectionState.START, ConnectionState.OPEN_RCVD):
            self.open()
        if self.state not in (ConnectionState.OPENED, ConnectionState.OPEN_SENT):
            return
        for session in self.sessions:
            session.flush()
        self._step(Input.CLOSING_SENT)
        self._close_by = monotonic + self.settings.close_time_out_ms / 1000
        self.error = None if fault is None else error_from(fault)
        self._write_close(self.error)

    def close_for_a_bug(self) -> bytes:
        """A close with amqp:internal-error, for any state that a bug of ours has left. b"" where the peer expects
        none."""
        if self.state is not ConnectionState.OPENED:
            return b""
        error = Error(condition=ErrorCondition.INTERNAL_ERROR, description="the broker has failed; its log says how")
        return encode_frame(0, encode_performative(Close(error=error)))

    def new_session(self, limits: SessionLimits | None = None) -> Session:
        """Make a session of our own; call its ``begin``."""
        channel = self._free_channel(None)
        session = Session(self, channel, limits or self.settings.session)
        self._by_outgoing[channel] = session
        return session

    def forget_sessions(self) -> None:
        """Drop all sessions once the connection is over and its user has dropped all links.

        This breaks the reference cycles, so all objects are freed at once, without the garbage collector.
        """
        for session in self._by_outgoing.values():
            session.forget()
        self.to_flush.clear()
        self._by_incoming.clear()
        self._by_outgoing.clear()
        self.link_names.clear()

    # --- what sessions ask of their connection -----------------------------------------------------------------------

    def write(self, channel: int, performative: Performative, payload: bytes) -> None:
        self.write_frames(encode_frame(channel, encode_performative(performative), payload))

    def write_frames(self, *pieces: Piece) -> None:
        if self._close_written:
            return  # nothing may follow a close [2.4.3]
        self.frames_sent += 1
        self._output += pieces
        for piece in pieces:
            self._output_bytes += len(piece)

    def hold_partial(self, partial: PartialDelivery, change_bytes: int) -> None:
        held = self._partial_bytes + change_bytes
        if change_bytes > 0 and held > self.settings.partial_delivery_bytes_max:
            raise LinkFault(
                ErrorCondition.RESOURCE_LIMIT_EXCEEDED,
                f"more than {self.settings.partial_delivery_bytes_max} bytes of deliveries that are not complete",
            )
        self._partial_bytes = held
        if change_bytes > 0:
            self._grown[partial] = None
        else:
            self._grown.pop(partial, None)

    def output_room(self) -> int:
        return self.settings.unsent_bytes_max - self.backlog_bytes - self._output_bytes

    def _flush_blocked(self) -> None:
        """Flush sessions whose deliveries were held back: there is, or will be, room for them in the output."""
        for session in self._by_outgoing.values():
            if session.blocked:
                self.to_flush[session] = None

    # --- input -----------------------------------------------------------------------------------------------------

    def _advance(self) -> bool:
        """Take the next header, run or frame from the buffer. False: it holds no whole one."""
        try:
            if not self.handshake.complete:
                return self._advance_handshake()
            if self.state is ConnectionState.OPENED and not self._amid_delivery and self._take_run():
                return True
            limit = self.settings.max_frame_size if self.remote else self.settings.pre_open_frame_size_max
            frame = self._buffer.next_frame(limit, in_parts=True)
            if frame is None:
                return False
            self.frames_received += 1
            if frame.frame_type != AMQP_FRAME:
                raise ConnectionFault(
                    ErrorCondition.FRAMING_ERROR, f"frame of type {frame.frame_type}, expected 0 (AMQP)"
                )
            if frame.body_start != frame.body_end:
                self._take_frame(frame, self._buffer.data, self._buffer.take_parts())
        except ConnectionFault as fault:
            self._fail(fault)
        except DecodeError as error:
            self._fail(ConnectionFault(error.condition, error.description))
        return True

    def _advance_handshake(self) -> bool:
        advanced = self.handshake.advance(self._buffer, self._heard_at or 0.0)
        if self.handshake.refused:
            self.finished = True
        elif self.handshake.complete:
            self.handshake = NoHandshake(self.handshake.identity, self.handshake.output)
        return advanced

    def _take_run(self) -> bool:
        """Take a run of similar frames at the head of the buffer by the fast path, if it understands them."""
        data, position = self._buffer.data, self._buffer.position
        descriptor = data[position + 10] if len(data) - position >= 12 else 0
        run: TransferRun | DispositionRun | None
        if descriptor == _TRANSFER:
            run = self._transfer_runs.parse(data, position, limit=self.settings.run_frames_max)
        elif descriptor == _DISPOSITION:
            run = self._disposition_runs.parse(data, position, limit=self.settings.run_frames_max)
        else:
            return False
        if run is None:
            return False
        session = self._by_incoming.get(run.channel) or self._session(run.channel)
        try:
            if isinstance(run, TransferRun):
                if not session.run_received(run):
                    return False  # the first frame may be the last one of the delivery that is incomplete
            elif not session.disposition_received(
                role=run.role, first=run.first, last=run.last, settled=run.settled, state=run.state
            ):
                return True  # it is taken again, for the rest
        except SessionFault as fault:
            session.fail(fault)
        self.frames_received += run.frame_count
        self._buffer.position = run.end_position
        return True

    def _take_frame(self, frame: FrameBounds, data: bytes, parts: list[Piece]) -> None:
        """Take a frame in ``data``, or the beginning of one there, and the rest in ``parts``."""
        channel, start, end = frame.channel, frame.body_start, min(frame.body_end, len(data))
        depth = DEPTH_BEFORE_OPEN if self.remote is None else DEPTH_MAX
        try:
            performative, payload_start = self._performatives.decode(data, start, end, depth)
        except DecodeError:
            if not parts:
                raise
            data, parts, end = b"".join((data, *parts)), [], frame.body_end  # its performative is longer than most
            performative, payload_start = self._performatives.decode(data, start, end, depth)
        if self._close_written and not isinstance(performative, Close):
            return  # the peer sent it before our close arrived [2.4.6]
        if self.remote is None and not self._close_written:
            self._take_open(channel, performative)
            return
        if channel > self.settings.channel_max:
            raise self._channel_fault(channel)
        match performative:
            case Open():
                raise ConnectionFault(ErrorCondition.ILLEGAL_STATE, "a second open")
            case Close():
                self._close_received(performative)
            case Begin():
                self._begin_received(channel, performative)
            case End():
                session = self._session(channel)
                del self._by_incoming[channel]
                session.end_received(performative)
                del self._by_outgoing[session.outgoing_channel]
            case _:
                session = self._session(channel)
                try:
                    self._amid_delivery = isinstance(performative, Transfer) and performative.more
                    while not session.frame_received(performative, piece_of(data, payload_start, end), *parts):
                        if frame.body_end <= len(self._buffer.data):
                            self.frames_received -= 1
                            self._buffer.position = frame.start  # it is taken again, for the rest
                            break
                except SessionFault as fault:
                    session.fail(fault)

    def _take_open(self, channel: int, performative: Performative) -> None:
        if not isinstance(performative, Open):
            raise ConnectionFault(ErrorCondition.ILLEGAL_STATE, f"{type(performative).__name__.lower()} before open")
        if channel != 0:
            raise ConnectionFault(ErrorCondition.FRAMING_ERROR, f"open on channel {channel}; it belongs on channel 0")
        if performative.max_frame_size < MIN_MAX_FRAME_SIZE:
            too_small = f"max-frame-size {performative.max_frame_size} is below the minimum of {MIN_MAX_FRAME_SIZE}"
            raise ConnectionFault(ErrorCondition.FRAMING_ERROR, too_small)
        idle = performative.idle_time_out
        if idle and idle < self.settings.idle_time_out_min_ms:
            raise ConnectionFault(
                ErrorCondition.NOT_ALLOWED,
                f"idle-time-out {idle} ms is below the minimum of {self.settings.idle_time_out_min_ms} ms",
            )
        self._step(Input.OPENING_RECEIVED)
        self.remote = performative
        self.frame_size_max = performative.max_frame_size
        self._spoke_at = self._heard_at or 0.0
        if idle:
            self._heartbeat_s = idle / 2000
        self.report(ConnectionOpened(performative))

    def _begin_received(self, channel: int, begin: Begin) -> None:
        if channel in self._by_incoming:
            raise ConnectionFault(ErrorCondition.ILLEGAL_STATE, f"begin on channel {channel}, which has a session")
        if begin.remote_channel is not None:
            session = self._by_outgoing.get(begin.remote_channel)
            if session is None or session.incoming_channel is not None:
                raise ConnectionFault(
                    ErrorCondition.INVALID_FIELD, f"begin answers channel {begin.remote_channel}, where none was begun"
                )
        else:
            outgoing = self._free_channel(channel)
            session = Session(self, outgoing, self.settings.session)
            self._by_outgoing[outgoing] = session
        self._by_incoming[channel] = session
        session.begin_received(begin, IncomingChannel(channel))

    def _close_received(self, close: Close) -> None:
        self._step(Input.CLOSING_RECEIVED)
        if self.state is ConnectionState.CLOSE_RCVD:
            self._over(close.error, by_peer=True)
            if self.frames_sent == 0:
                self.open()
            self._step(Input.CLOSING_SENT)
            self._write_close(None)
        else:
            self._over(self.error, by_peer=False)
        self.finished = True

    def _session(self, channel: int) -> Session:
        session = self._by_incoming.get(channel)
        if session is None:
            if channel > self.settings.channel_max:
                raise self._channel_fault(channel)
            raise ConnectionFault(ErrorCondition.NOT_ALLOWED, f"frame on channel {channel}, where no session was begun")
        return session

    # --- ending ----------------------------------------------------------------------------------------------------

    def _fail(self, fault: ConnectionFault) -> None:
        """The peer broke a rule of the connection: send a close that says so, and read no more."""
        if self.finished:
            return
        if self.handshake.complete and self.state not in (ConnectionState.DISCARDING, ConnectionState.END):
            if self.state in (ConnectionState.START, ConnectionState.OPEN_RCVD):
                self.open()
            for session in self.sessions:
                session.flush()
            if self.state in (ConnectionState.OPENED, ConnectionState.OPEN_SENT):
                self._step(Input.FAULT)
                self._write_close(error_from(fault))
        self.finished = True
        self._over(error_from(fault), by_peer=False)

    def _over(self, error: Error | None, *, by_peer: bool) -> None:
        self.error = error
        self.to_flush.clear()
        self.report(ConnectionClosed(error, by_peer))

    def _write_close(self, error: Error | None) -> None:
        """Our last frame."""
        self.write(0, Close(error=error), b"")
        self._close_written = True

    def _channel_fault(self, channel: int) -> ConnectionFault:
        return ConnectionFault(
            ErrorCondition.FRAMING_ERROR, f"channel {channel} is above the channel-max {self.settings.channel_max}"
        )

    def _free_channel(self, wanted: int | None) -> OutgoingChannel:
        """A channel that the peer takes [2.7.1]: the wanted one if possible, else the lowest."""
        limit = min(self.settings.channel_max, self.remote.channel_max if self.remote else 0xFFFF)
        if wanted is not None and wanted <= limit and wanted not in self._by_outgoing:
            return OutgoingChannel(wanted)
        channel = 0
        while channel in self._by_outgoing:
            channel += 1
        if channel > limit:
            raise ConnectionFault(
                ErrorCondition.RESOURCE_LIMIT_EXCEEDED, f"no channel is free: {limit + 1} sessions are begun"
            )
        return OutgoingChannel(channel)

    def _step(self, happened: Input) -> None:
        try:
            self.state = step(CONNECTION, self.state, happened)
        except IllegalTransition as illegal:
            if happened in (Input.OPENING_RECEIVED, Input.CLOSING_RECEIVED):
                raise ConnectionFault(ErrorCondition.ILLEGAL_STATE, f"connection: {illegal}") from illegal
            raise
