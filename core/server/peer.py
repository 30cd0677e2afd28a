"""One accepted socket. It has a task only while it is full: the writer.

A read is one non-blocking ``recv`` and one ``receive_data``. The reader of the server (core.server.reader) asks for it
when the socket has bytes. Then the pump takes a turn, which ends in one non-blocking ``send`` for each touched peer.
There is no await, lock, channel item or cancel scope per read.

Life: SERVING → LINGERING → CLOSED, or straight to CLOSED. The front end is called only while SERVING, and
``connection_lost`` is called in one place: on leaving that phase. LINGERING means that our output is sent and our side
is shut, while the peer may still read; what it sends is thrown away (closing at once would reset the connection, and a
reset destroys data the peer has not read yet).

Back-pressure: while bytes are unsent the front end is not asked for more, and it is told how many bytes are unsent. A
socket whose front end does not want to read is watched no longer, but only once it has bytes: most front ends want to
read again before that.

An exception out of the front end is a bug of ours. It is logged with its stack and costs this connection only, also
when it is raised while another peer's turn flushes this one.
"""

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from math import inf

from core.clock import Now
from core.errors import NotFound
from core.interface import Snapshot
from core.server.certificates import Certificates
from core.server.context import READ_BYTES, ServerContext
from core.server.frame_tap import TAPPED_READ_BYTES, FrameTap, Traceable
from core.server.frontends import PREFACE_BYTES, FrontEnd, FrontEndFactory, PeerInfo, choose, hint
from core.server.orders import Order
from core.server.output import Listeners, SocketOutput
from core.server.proxy_header import ProxyHeaderWrong
from core.server.pump import ALLOWANCE_MIN, ALLOWANCE_OF_ALL, allowance_for
from core.server.tls import TlsFailed, Tunnel
from core.server.wrapping import WRAPPED_READ_BYTES, Wrapping

JOINED_BYTES_MAX = 2048
"""Pieces of at most this size on average are copied into one before they are sent. One piece more costs a system call
0.15 us, as much as copying 1 KiB; from 4 KiB on, it costs less than the copy (docs/design/large-messages.md)."""

ASK_AGAIN_BYTES = 16384
"""An output this large may have been cut at the front end's own limit, which is not below this: there may be more."""

LARGE_READ_BYTES = 4 * READ_BYTES
"""The most that one read takes of an established connection whose last read has filled the shared buffer: 1 MiB. A
message of 1 MiB then costs a sixth less CPU, one of 64 KiB two fifths (docs/design/large-messages.md)."""

LARGE_READ_WORK_MIN = ALLOWANCE_OF_ALL // 16
"""A read is as large only while the peers may do so much in their turns: while at most 16 sockets are ready. The reads
of a pass then take 4 ms, where 256 large ones would take 60."""

FORGIVEN_SECONDS_MIN = 0.05
"""More time for the rest of a handshake, if part of it was in the socket when its time was over."""

TICK_SECONDS_MIN = 0.001
"""The least time to the next tick, so that a deadline that a tick did not move cannot spin the loop."""

NAMES_LOGGED = ("container_id", "user")
"""What a log line names of an established connection, where the protocol's snapshot has it."""


class Phase(Enum):
    """The phases in a connection's life: see the module's docstring."""

    SERVING = "serving"
    LINGERING = "lingering"
    CLOSED = "closed"


class Peer:
    """A connection as the server sees it. Made for an accepted socket; :meth:`serve` begins to read it."""

    __slots__ = (
        "_end_of_input", "_forgiven", "_front_end", "_give_up_at", "_handshake_until", "_heard_at", "_leaving",
        "_orders", "_output", "_paused", "_phase", "_preface", "_reads_much", "_shared", "_shut_down_reason",
        "_socket", "_tap", "_touched", "_watched", "_wrapping", "accepted_at", "bytes_in", "established", "info",
        "protocol", "timer_at",
    )  # fmt: skip

    def __init__(
        self,
        accepted: socket.socket,
        info: PeerInfo,
        shared: ServerContext,
        *,
        proxied: bool = False,
        make: Callable[[PeerInfo, Callable[[], None]], FrontEnd] | None = None,
        tunnel: Tunnel | None = None,
    ) -> None:
        """``accepted`` is non-blocking and belongs to the peer from now on. A ``proxied`` connection begins with a
        header of the PROXY protocol. ``make`` makes the front end of a connection that this broker has begun,
        and ``tunnel`` is its TLS, whose handshake is complete."""
        now = shared.clock()
        self.info = info
        self.protocol: str | None = None
        """The front end's name, once the first eight bytes have chosen it."""
        self.established = False
        self.accepted_at = now.wall
        self.bytes_in = 0
        self.timer_at = inf
        self._socket = accepted
        self._tap: FrameTap | None = None
        self._shared = shared
        new_tunnel = self._certificates.new_tunnel if info.encrypted else None
        self._wrapping = None
        if info.encrypted or proxied:
            self._wrapping = Wrapping(new_tunnel, proxied=proxied, tunnel=tunnel)
        self._front_end: FrontEnd | None = None
        self._leaving: FrontEnd | None = None
        """The front end of a connection that is over, until it has given everything back to the engine."""
        self._preface = b""
        self._phase = Phase.SERVING
        self._touched = False
        self._output = SocketOutput(accepted, shared, Listeners(self._tell_backlog, self._close))
        self._end_of_input = self._paused = self._watched = False
        """The last one is whether the reader of the server watches the socket."""
        self._reads_much = False
        """The next read may take :data:`LARGE_READ_BYTES`."""
        self._shut_down_reason: str | None = None
        self._orders: list[Callable[[Now], None]] = []
        """Orders that were given in this turn."""
        self._give_up_at = inf
        self._heard_at = -inf
        self._forgiven = False
        """Whether it got more time once, because the loop was late when the handshake's time was over."""
        self._handshake_until = now.monotonic + shared.settings.handshake_time_out
        shared.connections.came(self, info)
        shared.timers.schedule(self, self._handshake_until)
        if make is not None:
            self._front_end = make(info, self.touch)
            self.touch()

    @property
    def _certificates(self) -> Certificates:
        return self._shared.certificates if self.info.node_names is None else self._shared.node_certificates

    def serve(self) -> None:
        """Begin to read, until the socket is gone or the connection is finished."""
        self._watch()

    # --- input -----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Have the socket read when it has bytes, unless that is so or not wanted."""
        if not (self._watched or self._paused or self._end_of_input or self._phase is Phase.CLOSED):
            self._watched = True
            self._shared.reader.watch(self._socket.fileno(), self._read_watched)

    def _read_watched(self, now: Now) -> bool:
        """Read once, as a :data:`core.server.reader.Read`."""
        if self._paused or self._end_of_input:
            self._watched = False
            return False
        self._read(now)
        return self._phase is not Phase.CLOSED

    def _read(self, now: Now) -> None:
        try:
            data = self._received()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._close(f"reading failed: {error.strerror}", now)
            return
        if not data:
            self._end_of_input = True
        if self._phase is Phase.LINGERING:
            if not data:
                self._close("both sides have closed", now)
            return
        self._heard_at = now.monotonic if data else self._heard_at
        self.bytes_in += len(data)
        self._shared.counters.bytes_in += len(data)
        self._shared.work.bytes_read += len(data)
        waiting, self._touched, wanted = self._touched, True, True
        try:
            if self._wrapping is not None:
                self._receive_wrapped(self._wrapping, data, now)
            else:
                if self._tap is not None:
                    self._tapped(self._tap, data, outgoing=False, now=now)
                wanted = self._receive(data, now)
        except Exception as error:  # a bug of ours: see the module's docstring
            self._fault(error, now)
        if wanted and not waiting:
            self._shared.pump.touch(self, late=self._paused)  # with input left, it has had its share
        elif not waiting:
            self._touched = False
            self._shared.connections.changed[self.info.identity] = None

    def _received(self) -> bytes:
        """Read once. Raises OSError."""
        if self._tap is not None:
            return self._socket.recv(TAPPED_READ_BYTES)
        if self._wrapping is not None:
            return self._socket.recv(WRAPPED_READ_BYTES)
        if self._reads_much:
            data = self._socket.recv(LARGE_READ_BYTES)
        else:
            data = bytes(self._shared.read_buffer[: self._socket.recv_into(self._shared.read_buffer)])
        ample = self.established and self._shared.work.allowance >= LARGE_READ_WORK_MIN
        self._reads_much = ample and len(data) >= READ_BYTES
        return data

    def _receive(self, data: bytes, now: Now) -> bool:
        """Hand bytes to the front end. Returns whether a flush is wanted."""
        if self._front_end is None:
            self._preface += data
            if len(self._preface) < PREFACE_BYTES:
                if not data:
                    self._close("closed before a protocol header came", now)
                return True
            data, self._preface = self._preface, b""
            self._front_end = self._start_front_end(data[:PREFACE_BYTES])
        if not data:
            self._give_up_at = now.monotonic + self._shared.settings.linger
            self._front_end.receive_eof(now)
        elif not self._front_end.finished:
            work = self._shared.work
            allowance = work.allowance
            if self.established and allowance <= ALLOWANCE_MIN:
                work.allowance = allowance_for(len(data), allowance)
            wanted = self._front_end.receive_data(data, now)
            work.allowance = allowance
            if not wanted:
                return not self.established
            self._paused = not self._front_end.reading  # in case that there is another read before the flush
        return True

    # --- the header of a proxy, and TLS ----------------------------------------------------------------

    def _receive_wrapped(self, wrapping: Wrapping, data: bytes, now: Now) -> None:
        """Take bytes of the socket that are not simply those of the protocol."""
        try:
            plaintext = wrapping.receive(data)
        except (ProxyHeaderWrong, TlsFailed) as failure:
            self._fail(wrapping, failure, now)
            return
        if wrapping.source is not None:
            self._be_from(*wrapping.source, now)
            wrapping.source = None
        if wrapping.over:
            self._wrapping = None
        if wrapping.handshake_has_bytes and not wrapping.in_line:
            wrapping.in_line = True
            self._shared.handshakes.enter(self)
        if self._end_of_input and not wrapping.complete:
            self._close("closed during the TLS handshake", now)
        elif self._phase is Phase.SERVING:
            self._take_plaintext(wrapping, plaintext, now)
            if self._phase is Phase.SERVING and not self._output.unsent and (own := wrapping.take_own_output()):
                self._output.send([own], len(own), now)

    def _be_from(self, host: str, port: int, now: Now) -> None:
        """Count from now on as a connection from this address. The limits of that address apply."""
        before, self.info = self.info, replace(self.info, remote_host=host, remote_port=port)
        reason = self._shared.connections.moved(before, self.info)
        if reason is not None:
            self._shared.count_refusal(reason, host)
            self._close(reason, now)

    def shake(self, now: Now) -> None:
        """Do a step of the TLS handshake, as a :class:`core.server.handshakes.Shaking`."""
        wrapping = self._wrapping
        if wrapping is None or self._phase is not Phase.SERVING:
            return
        wrapping.in_line = False
        tunnel = wrapping.tunnel
        try:
            complete = tunnel.shake()
            output = tunnel.take_output()
            if output:
                sending = self._output
                sending.send([*sending.unsent, output], sending.unsent_bytes + len(output), now)
            if complete and self._phase is Phase.SERVING:
                self._shared.counters.handshakes += 1
                self._certified(tunnel)
                self._take_plaintext(wrapping, tunnel.receive(b""), now)
        except TlsFailed as failure:
            self._fail(wrapping, failure, now)
        except Exception as error:  # a bug of ours: see the module's docstring
            self._fault(error, now)
        self.touch()

    def _certified(self, tunnel: Tunnel) -> None:
        """The handshake is complete: note what the certificate of the peer says, if it has shown one."""
        certificates, found = self._certificates, None
        names = None if self.info.node_names is None else certificates.names(tunnel)
        if names is None:
            found = certificates.client_certificate(tunnel)
        self.info = replace(self.info, tls=tunnel.facts, client_certificate=found, node_names=names)

    def _take_plaintext(self, wrapping: Wrapping, plaintext: bytes, now: Now) -> None:
        """Take what the peer has sent in whole records. Its close in TLS, and that of its socket, end the input."""
        if plaintext:
            if self._tap is not None:
                self._tapped(self._tap, plaintext, outgoing=False, now=now)
            self._receive(plaintext, now)
        self._end_of_input |= wrapping.closed
        if self._end_of_input and self._phase is Phase.SERVING:
            self._receive(b"", now)

    def _fail(self, wrapping: Wrapping, failure: ProxyHeaderWrong | TlsFailed, now: Now) -> None:
        """End a connection whose header or TLS is wrong: log why, and send the alert if there is one."""
        self._shared.counters.wrapping_failures += 1
        event = "connection-not-encrypted" if wrapping.complete else "handshake-failed"
        self._shared.log.warning(event, reason=str(failure), **self._names())
        self._linger(now)

    def _start_front_end(self, preface: bytes) -> FrontEnd:
        shared = self._shared
        served = shared.factories
        if self.info.node_names is not None:
            served = [factory for factory in served if factory.for_nodes]
        factory: FrontEndFactory = choose(served, preface)
        if not factory.accepts(preface):
            shared.counters.wrong_headers += 1
            shared.log.warning("wrong-protocol-header", header=preface, hint=hint(preface), **self._names())
        self.protocol = factory.name
        return factory.make(self.info, self.touch)

    # --- output ----------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Have this peer flushed in this turn or the next. Its mailbox calls this."""
        if not self._touched:
            self._touched = True
            self._shared.pump.touch(self)

    def flush(self, now: Now) -> None:
        """Take the actions and send the output. Called by the pump."""
        self._touched = False
        self._shared.connections.changed[self.info.identity] = None
        if self._leaving is not None:
            self._leave(self._leaving, now)
        front_end = self._front_end
        if front_end is None:
            if self._shut_down_reason is not None:
                self._close(self._shut_down_reason, now)
            return
        try:
            front_end.take_actions(now)
            if self._orders:
                self._obey(now)
            if self._shut_down_reason is not None:
                front_end.shut_down(self._shut_down_reason, now)
                self._shut_down_reason = None
            if not self._output.unsent:
                pieces = front_end.pieces_to_send(now)
                size = sum(map(len, pieces))
                if pieces:
                    if size <= JOINED_BYTES_MAX * len(pieces):
                        pieces = [b"".join(pieces)]
                    if self._tap is not None:
                        self._tapped(self._tap, b"".join(pieces), outgoing=True, now=now)
                    if self._wrapping is None:
                        self._output.send(pieces, size, now)
                    else:
                        sealed = self._wrapping.send(b"".join(pieces))
                        self._output.send([sealed], len(sealed), now)
                if size >= ASK_AGAIN_BYTES:
                    self.touch()
            if self._phase is Phase.SERVING:
                self._look(front_end, now)
        except Exception as error:  # a bug of ours: see the module's docstring
            self._fault(error, now)

    def _tell_backlog(self, unsent_bytes: int, now: Now) -> None:
        if self._front_end is None or self._phase is not Phase.SERVING:
            return
        try:
            self._front_end.output_backlog(unsent_bytes)
        except Exception as error:  # a bug of ours: see the module's docstring
            self._fault(error, now)
        self.touch()

    def _look(self, front_end: FrontEnd, now: Now) -> None:
        """Act on what the front end shows after its work: established, finished, reading, deadline."""
        if not self.established and front_end.established:
            self._shared.connections.no_longer_pending(self.info)
            self.established = True
            self._shared.timers.cancel(self)  # the end of the handshake's time; below a later deadline is entered
            rows = front_end.snapshot("connections", now)
            opened = {key: row[key] for row in rows for key in NAMES_LOGGED if key in row}
            self._shared.log.info("connection-established", protocol=self.protocol, **opened, **self._names())
        if front_end.finished or self._end_of_input:
            if not self._output.unsent:
                self._linger(now)
                return
            self._give_up_at = min(self._give_up_at, now.monotonic + self._shared.settings.linger)
        self._paused = not (front_end.reading or front_end.finished)
        if not (self._paused or self._watched):
            self._watch()
        when = self._next_deadline(front_end)
        if when < self.timer_at:
            self._shared.timers.schedule(self, max(when, now.monotonic + TICK_SECONDS_MIN))

    # --- time ------------------------------------------------------------------------------------------

    def expired(self, now: Now) -> None:
        """Act on a deadline that may have come; it may also have moved on since the timer was set.

        First read what the peer has sent while the loop was late, so that the peer is not blamed for our delay.
        """
        self._hear(now)
        if not (self._forgiven or self.established) and self._handshake_until <= min(self._heard_at, now.monotonic):
            self._forgiven = True
            self._handshake_until = now.monotonic + max(now.monotonic - self._handshake_until, FORGIVEN_SECONDS_MIN)
        if self._give_up_at <= now.monotonic:
            self._close("the peer did not close in time", now)
        elif not self.established and self._handshake_until <= now.monotonic:
            self._shared.counters.handshake_time_outs += 1
            self._shared.log.warning("handshake-timed-out", **self._names())
            self._close("the handshake took too long", now)
        elif self._front_end is not None:
            self._tick(self._front_end, now)
        else:
            self._shared.timers.schedule(self, self._handshake_until)

    def _hear(self, now: Now) -> None:
        """Read the bytes that are in the socket."""
        if self._phase is Phase.SERVING and not (self._paused or self._end_of_input):
            self._read(now)

    def _next_deadline(self, front_end: FrontEnd) -> float:
        when = self._give_up_at
        if not self.established:
            when = min(when, self._handshake_until)
        deadline = front_end.deadline()
        return when if deadline is None else min(when, deadline)

    def _tick(self, front_end: FrontEnd, now: Now) -> None:
        try:
            deadline = front_end.deadline()
            if deadline is not None and deadline <= now.monotonic:
                front_end.tick(now)
                self.touch()
            else:
                self._shared.timers.schedule(self, self._next_deadline(front_end))
        except Exception as error:  # a bug of ours: see the module's docstring
            self._fault(error, now)

    # --- the end ---------------------------------------------------------------------------------------

    def shut_down(self, reason: str) -> None:
        """Say good-bye for the operator, in the turn that follows: front ends may call this."""
        if self._phase is Phase.SERVING and self._shut_down_reason is None:
            self._shut_down_reason = reason
            self.touch()

    def order(self, order: Order) -> None:
        """Have the front end carry out an order in the turn that follows. Raises NotFound, Invalid; see
        core.server.orders."""
        front_end = self._front_end
        if front_end is None:
            raise NotFound(f"connection '{self.info.identity}' has no links and sessions")
        front_end.check(order)
        self._orders.append(partial(front_end.obey, order))
        self.touch()

    def _obey(self, now: Now) -> None:
        orders, self._orders = self._orders, []
        for obey in orders:
            obey(now)

    def cut_off(self, reason: str, now: Now) -> None:
        """Close at once, without a good-bye."""
        self._close(reason, now)

    def _fault(self, error: Exception, now: Now) -> None:
        self._shared.counters.faults += 1
        self._shared.log.error("front-end-failed", exc_info=error, protocol=self.protocol, **self._names())
        if self._front_end is not None and not self._output.unsent and self._phase is Phase.SERVING:
            with suppress(Exception):  # a second fault of a peer that is closed anyway adds nothing
                words = self._front_end.last_words()
                self._socket.send(words if self._wrapping is None else self._wrapping.send(words))
        self._close("internal error", now)

    def _linger(self, now: Now) -> None:
        """Shut our side after the last byte, and let the peer read."""
        self._lose(now, Phase.LINGERING)
        self._handshake_until = inf
        if self._wrapping is not None and not self._output.unsent:
            with suppress(OSError):  # the peer has gone
                self._socket.send(self._wrapping.close())
        if self._end_of_input:
            self._close("the peer has closed", now)
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            closed = error.errno == errno.ENOTCONN  # the peer has closed, and reset the connection at our last bytes
            reason = "both sides have closed" if closed else f"shutting down failed: {error.strerror}"
            self._close(reason, now)
            return
        self._paused = False
        self._watch()
        self._give_up_at = min(self._give_up_at, now.monotonic + self._shared.settings.linger)
        self._shared.timers.schedule(self, self._give_up_at)

    def _close(self, reason: str, now: Now) -> None:
        """Close the socket now. Idempotent."""
        if self._phase is Phase.CLOSED:
            return
        was_serving = self._phase is Phase.SERVING
        self._phase = Phase.CLOSED
        self._output.close(now)
        self._shared.timers.cancel(self)
        self._shared.reader.forget(self._socket.fileno())
        self._socket.close()
        self._shared.connections.gone(self.info, established=self.established)
        if was_serving:
            self._lose(now, Phase.CLOSED)
        self._shared.log.info("connection-closed", reason=reason, **self._names())

    def _lose(self, now: Now, phase: Phase) -> None:
        """Leave SERVING: the front end gives back what it held, and is not used for input or output again."""
        front_end, self._front_end, self._phase = self._front_end, None, phase
        if front_end is not None:
            self._leave(front_end, now)

    def _leave(self, front_end: FrontEnd, now: Now) -> None:
        """Have the front end give back to the engine what the connection held, a turn at a time."""
        self._leaving = None
        try:
            if front_end.connection_lost(now):
                self._leaving = front_end
                self.touch()
        except Exception as error:  # a bug of ours: see the module's docstring
            self._fault(error, now)

    # --- frame traces --------------------------------------------------------------------------------------

    def tap(self) -> FrameTap:
        """Keep the beginnings of frames from now on. Raises NotFound before the protocol is known, or if it cannot be
        traced."""
        front_end: object = self._front_end
        if not isinstance(front_end, Traceable) or self.protocol is None:
            raise NotFound(f"connection '{self.info.identity}' has no frames")
        now = self._shared.clock()
        if self._tap is None or self._tap.unwatched(now):
            self._tap = FrameTap(front_end.cutters(), protocol=self.protocol, now=now)
        return self._tap

    def untap(self) -> None:
        """End the trace."""
        self._tap = None

    def _tapped(self, tap: FrameTap, data: bytes, *, outgoing: bool, now: Now) -> None:
        if tap.unwatched(now):
            self._tap = None
        else:
            tap.take(data, outgoing=outgoing, now=now)

    # --- snapshots -----------------------------------------------------------------------------------------

    def parts(self, kind: str, identity: str | None = None) -> Iterator[list[Snapshot]]:
        """The same rows in parts: see :meth:`core.server.frontends.FrontEnd.parts`."""
        if kind == "connections" or self._front_end is None:
            yield self.snapshot(kind)
            return
        try:
            yield from self._front_end.parts(kind, self._shared.clock(), identity)
        except Exception as error:  # a bug of ours, as in snapshot
            self._fault(error, self._shared.clock())

    def snapshot(self, kind: str) -> list[Snapshot]:
        """The front end's rows; for "connections" always one row, with what the server knows."""
        rows: list[Snapshot] = []
        if self._front_end is not None:
            try:
                rows = self._front_end.snapshot(kind, self._shared.clock())
            except Exception as error:  # a bug of ours in this connection, not in the one that asks
                self._fault(error, self._shared.clock())
        if kind != "connections":
            return rows
        own: Snapshot = self.info.shown() | {
            "protocol": self.protocol,
            "phase": self._phase.value,
            "established": self.established,
            "accepted_at": self.accepted_at,
            "bytes_in": self.bytes_in,
            "bytes_out": self._output.bytes_out,
            "unsent_bytes": self._output.unsent_bytes,
        }
        return [own | row for row in rows or [{}]]

    def _names(self) -> dict[str, object]:
        """The keys that every log line about this connection has."""
        return {"connection": self.info.identity, "peer": f"{self.info.remote_host}:{self.info.remote_port}"}
