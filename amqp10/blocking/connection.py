"""A blocking connection to a broker, on the same sans-IO engine as the broker itself.

It has one plain socket, one session, and links on it. A caller that waits drives the connection: bytes are sent and
received until the condition holds or the time is over. Between these waits, which may be as long as Spark works on a
batch, a thread of the connection answers heartbeats. All other work is done in the caller's thread, and one lock keeps
the two apart. A broken connection stays broken.

Bounds: a read takes ``READ_BYTES``; input is bounded by link credit, and output by the engine's ``unsent_bytes_max``.
"""

import select
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from time import monotonic
from types import TracebackType
from typing import Any, Self

from amqp10.client_core.errors import ClientError, ConnectionLost, NotEncrypted, NotLetIn, TimedOut, Unreachable, told
from amqp10.client_core.events import take_event
from amqp10.client_core.opening import (
    MECHANISMS,
    MechanismName,
    broker_properties,
    new_engine,
    open_if_let_in,
    random_name,
    session_limits,
    why_over,
)
from amqp10.client_core.url import Url
from amqp10.protocol.events import ConnectionClosed
from amqp10.protocol.session import Session
from amqp10.protocol.settings import ConnectionSettings
from amqp10.wire.messaging import Error

READ_BYTES = 262_144
"""Bytes of one read: about 1,700 messages of 100 bytes, which the engine takes as a few runs."""
INCOMING_WINDOW = 8192
"""Transfers that the broker may send before it gets our next flow; topped up at half. With frames of 131,072 bytes that
is 1 GiB at most, but link credit is what bounds a batch."""
RUN_FRAMES_MAX = 8192
"""Frames that the engine takes as one run: no other connection waits for this thread, so as many as the window
allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingSettings:
    """How a connection introduces itself, and its time-outs, in seconds unless the name says otherwise."""

    container_id: str | None = None
    """The client's name, as the broker shows it. None: a random one."""
    product: str = "Headgate client"
    """What the open's properties say of the program."""
    connect_time_out_s: float = 10.0
    """From the look-up of the name to the broker's open. A broker may take 3 s to refuse a password."""
    answer_time_out_s: float = 30.0
    """For the answer to a begin, an attach or a request."""
    close_time_out_s: float = 5.0
    """For the answer to a close: nothing depends on it any more."""
    idle_time_out_ms: int = 30_000
    """Our idle-time-out in the open; a broker that is silent for twice as long is considered dead [2.4.5]."""
    mechanisms: tuple[MechanismName, ...] = MECHANISMS
    """The SASL mechanisms that may be used with a password, the preferred first."""


class BlockingConnection:
    """A connection with its session. Made by :meth:`open`; ``with`` closes it."""

    def __init__(self, url: Url, settings: BlockingSettings) -> None:
        self.url = url
        self.settings = settings
        self.container_id = settings.container_id or random_name("headgate-client")
        self.lock = threading.RLock()
        """Held by every thread that uses the engine or the socket."""
        self._engine = new_engine(
            url,
            url.password,
            ConnectionSettings(
                container_id=self.container_id,
                hostname=url.hostname,
                idle_time_out_ms=settings.idle_time_out_ms,
                close_time_out_ms=round(settings.close_time_out_s * 1000),
                run_frames_max=RUN_FRAMES_MAX,
                properties={"product": settings.product},
                session=session_limits(INCOMING_WINDOW),
            ),
            settings.mechanisms,
        )
        self._socket: socket.socket | None = None
        self._not_now: tuple[type[OSError], ...] = (BlockingIOError,)
        """What the socket raises that has nothing to read, or no room for more output."""
        self._unsent = memoryview(b"")
        self._names = count(1)
        self._failure: ClientError | None = None
        self._session: Session | None = None
        self._closing = False
        self._stopped = threading.Event()
        self._keeper: threading.Thread | None = None

    @classmethod
    def open(cls, url: Url, settings: BlockingSettings | None = None) -> Self:
        """Connect, log in, open, and begin a session. Raises Unreachable, NotEncrypted, NotLetIn, TimedOut,
        ConnectionLost, and BadUrl for files of TLS that cannot be used."""
        connection = cls(url, settings or BlockingSettings())
        try:
            connection._connect()
        except BaseException:
            connection._abandon()
            raise
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def broker(self) -> Mapping[str, object]:
        """The properties of the broker's open: product, version and so on, plain values."""
        return broker_properties(self._engine)

    @property
    def session(self) -> Session:
        """The session that all links of this connection share."""
        assert self._session is not None
        return self._session

    @property
    def failure(self) -> ClientError | None:
        """Why the connection cannot be used any more; None while it can."""
        return self._failure

    def new_link_name(self) -> str:
        """A name that no other link of this connection has."""
        return f"{self.container_id}-{next(self._names)}"

    def wait_until(self, done: Callable[[], bool], *, within_s: float, what: str) -> None:
        """Drive the connection until ``done`` returns True. Raises TimedOut, which names ``what``, or the reason why
        the connection is over."""
        if not self.moved_until(done, within_s=within_s):
            raise TimedOut(f"{self.url.place} did not answer within {within_s:g} s: {what}")

    def moved_until(self, done: Callable[[], bool], *, within_s: float) -> bool:
        """As :meth:`wait_until`, but returns False when the time is over."""
        deadline = monotonic() + within_s
        with self.lock:
            while True:
                self._write()
                if done():
                    return True
                if self._failure is not None:
                    raise self._failure
                left = deadline - monotonic()
                if left <= 0:
                    return False
                self._exchange(left)

    def flush(self, *, within_s: float | None = None) -> None:
        """Write all pending output to the socket. Raises TimedOut when the broker reads nothing."""
        seconds = self.settings.answer_time_out_s if within_s is None else within_s
        self.wait_until(lambda: not self._unsent, within_s=seconds, what="it takes nothing of what we send")

    def close(self) -> None:
        """Close, and wait for the broker's answer for a limited time. Unsettled messages return to their queues."""
        with self.lock:
            if self._failure is None and not self._closing:
                self._closing = True
                self._engine.close(monotonic=monotonic())
                with suppress(ClientError):  # the connection is over, which is the aim
                    self.moved_until(lambda: self._engine.finished, within_s=self.settings.close_time_out_s)
            self._abandon()

    # --- beginning and end -----------------------------------------------------------------------------------------

    def _connect(self) -> None:
        settings, url = self.settings, self.url
        deadline = monotonic() + settings.connect_time_out_s
        try:
            # The encoding of names in other scripts, which Python asks for each str, takes 1 ms of CPU to import.
            host = url.host.encode() if url.host.isascii() else url.host
            address: tuple[Any, int] = (host, url.port)  # the stubs know no bytes here
            self._socket = socket.create_connection(address, settings.connect_time_out_s)
        except TimeoutError:
            raise TimedOut(f"no connection to {url.place} within {settings.connect_time_out_s:g} s") from None
        except OSError as error:
            raise Unreachable(f"cannot connect to {url.place}: {error.strerror or error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if url.tls is not None:
            self._socket, self._not_now = _encrypted(self._socket, url)
        self._socket.setblocking(False)
        engine = self._engine
        self.wait_until(
            lambda: engine.opened, within_s=max(0.0, deadline - monotonic()), what="the open of the connection"
        )
        self._session = engine.new_session()
        self._session.reference = self
        self._session.begin()
        session = self._session
        self.wait_until(lambda: session.mapped, within_s=settings.answer_time_out_s, what="the begin of the session")
        self._keeper = threading.Thread(target=self._keep, name=f"heartbeats of {self.container_id}", daemon=True)
        self._keeper.start()

    def _keep(self) -> None:
        """Answer heartbeats while no caller waits. A failure is raised in the next caller that waits."""
        while not self._stopped.wait(self._keep_interval_s()):
            with self.lock:
                if self._failure is not None or self._closing:
                    return
                self._write()
                self._exchange(0.0)
                self._write()

    def _keep_interval_s(self) -> float:
        """A quarter of the shorter idle-time-out, since a heartbeat is due at half of it [2.4.5]."""
        remote, ours = self._engine.remote, self.settings.idle_time_out_ms
        theirs = remote.idle_time_out if remote is not None and remote.idle_time_out else ours
        return min(theirs, ours) / 4000

    def _abandon(self) -> None:
        """Close the socket and end the thread."""
        self._stopped.set()
        if self._failure is None:
            self._failure = ConnectionLost(f"the connection to {self.url.place} was closed")
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._keeper is not None and self._keeper is not threading.current_thread():
            self._keeper = None

    # --- bytes -----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write as much of the pending output as the socket takes."""
        engine = self._engine
        while True:
            if not self._unsent:
                self._take_events()
                self._unsent = memoryview(engine.data_to_send(monotonic()))
                self._take_events()
                engine.output_backlog(len(self._unsent))
                if not self._unsent:
                    if engine.finished and self._failure is None and not self._closing:
                        self._failure = why_over(engine, self.url.place)
                    return
            if self._socket is None:
                return
            try:
                sent = self._socket.send(self._unsent)
            except self._not_now:
                return
            except OSError as error:
                self._broke(error)
                return
            self._unsent = self._unsent[sent:]
            engine.output_backlog(len(self._unsent))

    def _exchange(self, seconds: float) -> None:
        """Wait for the socket or the engine's deadline, at most so long, and take the input."""
        engine = self._engine
        if self._socket is None or self._failure is not None:
            return
        deadline = engine.deadline()
        if deadline is not None:
            seconds = min(seconds, max(0.0, deadline - monotonic()))
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        ready = poll.poll(seconds * 1000)
        now = monotonic()
        if deadline is not None and now >= deadline:
            engine.tick(now)
        if any(mask & ~select.POLLOUT for _, mask in ready):
            self._read()
        self._take_events()

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(READ_BYTES)
        except self._not_now:
            return
        except OSError as error:
            self._broke(error)
            return
        if data:
            self._engine.receive_data(data, monotonic())
        else:
            self._engine.receive_eof()

    def _broke(self, error: OSError) -> None:
        self._engine.receive_eof()
        self._take_events()
        if self._failure is None or not isinstance(self._failure, NotLetIn):
            self._failure = ConnectionLost(f"the connection to {self.url.place} broke: {error.strerror or error}")

    # --- events ----------------------------------------------------------------------------------------------------

    def begun(self) -> None:
        """See :class:`amqp10.client_core.events.SessionUser`: the engine's state says that the session is mapped."""

    def ended_by_peer(self, error: Error | None) -> None:
        """See :class:`amqp10.client_core.events.SessionUser`."""
        self._failure = ConnectionLost(*told("the broker ended the session", error))

    def _take_events(self) -> None:
        while (event := self._engine.next_event()) is not None:
            if isinstance(event, ConnectionClosed):
                self._failure = why_over(self._engine, self.url.place, event)
            take_event(event)
        open_if_let_in(self._engine)


def _encrypted(plain: socket.socket, url: Url) -> tuple[socket.socket, tuple[type[OSError], ...]]:
    """Make the TLS handshake, within the time-out of the socket. Returns the socket with TLS, and what it raises when
    it would block. Raises NotEncrypted, TimedOut, BadUrl."""
    from amqp10.client_core import tls

    assert url.tls is not None
    try:
        return tls.context_of(url.tls).wrap_socket(plain, server_hostname=url.host), tls.NOT_NOW
    except TimeoutError:
        plain.close()
        raise TimedOut(f"{url.place} did not answer in the TLS handshake") from None
    except OSError as error:
        plain.close()
        raise NotEncrypted(f"cannot connect to {url.place}: {tls.failure(error)}") from None
