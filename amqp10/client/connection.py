"""A connection to a broker, under asyncio or Trio: opens it, keeps it, opens it again when it breaks, and closes it.

    async with connect("amqp://guest:guest@localhost") as connection:
        sender = await connection.open_sender("/queues/orders")
        await sender.send(Message(b"hello"))

It uses the same sans-IO engine as the broker. One background task owns the network connection; all other methods only
change the engine's state and wake that task.

When the connection breaks and ``reconnect`` is set, it is opened again after a growing delay, its sessions begin again
and their links attach again. Some state is lost, and the user learns of it: messages without an outcome become
uncertain, and deliveries that were not settled come again.
"""

import errno
import logging
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from itertools import count
from math import inf

import anyio
from anyio.abc import ByteStream, TaskGroup, TaskStatus
from anyio.streams.tls import TLSStream

from amqp10.client.addresses import BrokerAddresses, urls_of
from amqp10.client.endpoint_status import EndpointStatus
from amqp10.client.leaders import IDLE_MS, LeaderNode, LeaderNodes
from amqp10.client.management import Management
from amqp10.client.receiver import Receiver, ReceiverOptions
from amqp10.client.sender import Sender
from amqp10.client.session import ClientSession, FollowedLinks
from amqp10.client.settings import ClientSettings
from amqp10.client.wire import Wire
from amqp10.client_core import tls
from amqp10.client_core.errors import BadUrl, ClientError, ConnectionLost, NotEncrypted, NotLetIn, TimedOut, Unreachable
from amqp10.client_core.events import take_event
from amqp10.client_core.opening import broker_properties, new_engine, random_name, why_over
from amqp10.client_core.requests import Answer
from amqp10.client_core.url import Url
from amqp10.protocol.connection import Connection, Event
from amqp10.protocol.events import ConnectionClosed
from amqp10.protocol.failover_servers import FailoverServer, failover_servers
from amqp10.protocol.leader import FOLLOWS_LEADERS
from amqp10.protocol.settings import ConnectionSettings

LOG = logging.getLogger("amqp10.client")


@asynccontextmanager
async def connect(
    url: str | Url | Sequence[str | Url], settings: ClientSettings | None = None
) -> AsyncIterator["ClientConnection"]:
    """A connection for the block, which is closed at the end of the block.

    Of several URLs the first that can be reached is used; the others follow in turn when the connection is lost.

    Raises BadUrl, Unreachable, NotEncrypted, NotLetIn, TimedOut, and ConnectionLost for a broker that closes it at
    once.
    """
    urls = urls_of(url)
    with single_errors():
        async with anyio.create_task_group() as tasks:
            connection = ClientConnection(urls, settings or ClientSettings(), tasks)
            await tasks.start(connection.run)
            try:
                yield connection
            finally:
                await connection.close()
                tasks.cancel_scope.cancel()


class ClientConnection:
    """A connection with its sessions and links, made by :func:`connect`."""

    def __init__(self, urls: Sequence[Url], settings: ClientSettings, tasks: TaskGroup | None = None) -> None:
        """``tasks`` is for its connections to the nodes that lead queues; with None it has none."""
        self._addresses = BrokerAddresses(urls)
        self.settings = settings
        self.status = EndpointStatus()
        self.container_id = settings.container_id or random_name("headgate-client")
        self._names = count(1)
        self._engine: Connection | None = None
        self._wire: Wire | None = None
        self._opening = anyio.CancelScope()
        self._task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
        self._established = False
        self._closing = False
        self._failure: ClientError | None = None
        self._sessions: dict[ClientSession, None] = {}
        self._default: ClientSession | None = None
        self._management: Management | None = None
        most = settings.leader_connections_max
        self._nodes = None if tasks is None or not most else LeaderNodes(tasks, most, self._connection_at)

    # --- the user's side -------------------------------------------------------------------------------------------

    @property
    def url(self) -> Url:
        """Where the connection is, or is being made."""
        return self._addresses.current

    @property
    def broker(self) -> Mapping[str, object]:
        """The broker's description of itself: product, version and so on, plain values."""
        return {} if self._engine is None else broker_properties(self._engine)

    async def begin_session(self) -> ClientSession:
        """Begin a session. Links that are opened on the connection itself share one session."""
        session = self.new_session()
        await session.status.usable()
        return session

    async def open_sender(self, address: str | None, *, settled: bool = False, name: str | None = None) -> Sender:
        """Attach a sender on the shared session; see :meth:`ClientSession.open_sender`."""
        return await self._shared_session().open_sender(address, settled=settled, name=name)

    async def open_receiver(
        self, address: str | None, *, options: ReceiverOptions | None = None, name: str | None = None
    ) -> Receiver:
        """Attach a receiver on the shared session; see :meth:`ClientSession.open_receiver`."""
        return await self._shared_session().open_receiver(address, options=options, name=name)

    async def request(self, method: str, path: str, body: object = None) -> Answer:
        """Send a request to the management node; see :meth:`Management.request`."""
        if self._management is None:
            self._management = Management(
                self.new_session(), name=self.new_link_name(), time_out_s=self.settings.request_time_out_s
            )
        return await self._management.request(method, path, body)

    def end_management(self) -> None:
        """End the session of the management requests; the next request begins another."""
        if self._management is not None:
            self._management.end()
            self._management = None

    async def close(self) -> None:
        """Close, and wait a limited time for the broker's answer. Messages without an outcome become uncertain."""
        self._closing = True
        if self._nodes is not None:
            await self._nodes.close()
        if self._engine is not None and self.status.up:
            self._settle()
            self._engine.close(monotonic=anyio.current_time())
            self.wake()
            with anyio.move_on_after(self.settings.close_time_out_s), suppress(ClientError):
                while self.status.up:
                    await self.status.change()
        self._end(ConnectionLost("the connection was closed"))

    # --- the sessions' side ----------------------------------------------------------------------------------------

    @property
    def has_links(self) -> bool:
        """Whether one of its sessions has links."""
        return any(session.has_links for session in self._sessions)

    def wake(self) -> None:
        """Wake the background task: there is output."""
        if self._wire is not None:
            self._wire.wake()

    def new_link_name(self) -> str:
        """A name that no other link of this connection has."""
        return f"{self.container_id}-{next(self._names)}"

    # --- the connection's life -------------------------------------------------------------------------------------

    async def run(self, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Connect, and connect again after each loss. Raises only when no address can be reached the first time."""
        self._task_status = task_status
        backoff, attempt, texts = self.settings.reconnect, 0, list[str]()
        while True:
            began = anyio.current_time()
            failure = await self._connect_once()
            if not self._established:
                texts.append(failure.text)
                if isinstance(failure, NotLetIn) or self._addresses.next():
                    failure = type(failure)("; ".join(texts), failure.condition)
                    self._end(failure)
                    raise failure
                continue
            was_up = self.status.up
            self._lose(failure)
            if was_up and backoff is not None and anyio.current_time() - began > backoff.longest_s:
                attempt = 0
                self._addresses.lasted()
            refused = isinstance(failure, NotLetIn) and not self._addresses.forget()
            if self._closing or backoff is None or refused:
                self._end(failure)
                return
            if not self._addresses.next():
                continue
            if not backoff.allows(attempt):
                self._end(failure)
                return
            await anyio.sleep(backoff.delay_s(attempt, self.settings.random_fraction()))
            attempt += 1

    async def _connect_once(self) -> ClientError:
        """Make one network connection, from the look-up of the host name to its end. Returns why it ended."""
        settings, place = self.settings, self.url.place
        engine = new_engine(self.url, self.url.password, self._engine_settings(), settings.mechanisms)
        self._failure = None
        with anyio.move_on_after(settings.connect_time_out_s) as self._opening:
            try:
                stream = await settings.open_stream(self.url.host, self.url.port)
                if self.url.tls is not None:
                    stream = await _encrypted(stream, tls.context_of(self.url.tls), self.url.host)
            except ssl.SSLError as error:
                return NotEncrypted(f"cannot connect to {place}: {tls.failure(error)}")
            except OSError as error:
                return Unreachable(f"cannot connect to {place}: {_cause(error)}")
            except BadUrl as error:
                return error
            self._engine = engine
            self._wire = Wire(
                stream,
                engine,
                take_event=self._take_event,
                after_events=self._after_events,
                before_output=self._settle,
                write_time_out_s=settings.write_time_out_s,
            )
            await self._wire.run()
        if self._opening.cancelled_caught:
            return TimedOut(f"no connection to {place} within {settings.connect_time_out_s:g} s")
        return self._failure or why_over(engine, place)

    def _lose(self, reason: ClientError) -> None:
        self._engine = self._wire = None
        for session in list(self._sessions):
            session.lost(reason)
        self.status.went_away(reason)

    def _end(self, reason: ClientError) -> None:
        for session in list(self._sessions):
            session.ended(reason)
        self._sessions.clear()
        self.status.ended(reason)

    # --- the engine's events ---------------------------------------------------------------------------------------

    def _after_events(self) -> None:
        """A batch of events is processed. Only now can the connection count as open, because a broker that refuses a
        client opens and closes at once."""
        engine = self._engine
        if engine is not None and engine.opened and not self.status.up:
            self._opening.deadline = inf
            self._hear(engine)
            for session in self._sessions:
                session.begin(engine)
            self.status.came_up()
            if not self._established:
                self._established = True
                self._task_status.started()
        for session in self._sessions:
            session.shared.look_at_closing()

    def _hear(self, engine: Connection) -> None:
        """Note where else the broker says that clients may connect. It has let us in, and where the mechanism is SCRAM
        it has proved that it knows the user."""
        if not self.settings.use_failover_servers or engine.remote is None:
            return
        try:
            servers = failover_servers(engine.remote.properties or {})
        except ValueError as error:
            LOG.warning("the failover-server-list of the broker at %s is ignored: %s", self.url.place, error)
            return
        if servers is not None:
            self._addresses.heard(servers)

    def _settle(self) -> None:
        """Call this before output: it settles, in ranges, the deliveries that were accepted one by one."""
        for session in self._sessions:
            session.shared.settle()

    def _take_event(self, event: Event) -> None:
        if isinstance(event, ConnectionClosed) and self._engine is not None:
            self._failure = why_over(self._engine, self.url.place, event)
            if self.settings.reconnect is None and self._established and not self._closing:
                self._lose(self._failure)  # now: a broker that was silent for too long may not answer our close either
                self._end(self._failure)
                return
        take_event(event)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _forget_session(self, session: ClientSession) -> None:
        """Drop a session that must not begin again."""
        self._sessions.pop(session, None)
        if session is self._default:
            self._default = None

    def _shared_session(self) -> ClientSession:
        if self._default is None:
            self._default = self.new_session()
        return self._default

    def new_session(self, links_of: FollowedLinks | None = None) -> ClientSession:
        """A session that begins as soon as there is a connection; ``links_of``: for links of another one, which come
        here because this node leads their queues. Raises the reason when the connection is over."""
        self.status.check()
        session = ClientSession(
            self.settings,
            wake=self.wake,
            new_link_name=self.new_link_name,
            forget=self._forget_session,
            nodes=self._nodes,
            links_of=links_of,
        )
        self._sessions[session] = None
        if self._engine is not None and self.status.up:
            session.begin(self._engine)
            self.wake()
        return session

    def _connection_at(self, leader: FailoverServer) -> LeaderNode[ClientSession] | None:
        """A connection to a node that leads a queue, as the present broker says, which has let us in: with everything
        of the URL but host and port."""
        url = self.url
        scheme = "amqp" if url.tls is None else "amqps"
        if leader.scheme not in ("", scheme):
            return None
        there = replace(url, host=leader.network_host, port=leader.port)
        settings = replace(
            self.settings,
            container_id=self.container_id,
            reconnect=None,
            idle_time_out_ms=min(self.settings.idle_time_out_ms, IDLE_MS),
        )
        if there == url:
            return None
        node = ClientConnection([there], settings)
        return LeaderNode(
            host=there.host,
            port=there.port,
            status=node.status,
            run=node.run,
            close=node.close,
            new_session=node.new_session,
            has_links=lambda: node.has_links,
        )

    def _engine_settings(self) -> ConnectionSettings:
        settings = self.settings
        return ConnectionSettings(
            container_id=self.container_id,
            hostname=self.url.hostname,
            max_frame_size=settings.max_frame_size,
            idle_time_out_ms=settings.idle_time_out_ms,
            close_time_out_ms=round(settings.close_time_out_s * 1000),
            desired_capabilities=(FOLLOWS_LEADERS,) if settings.leader_connections_max else (),
            properties={"product": "Headgate client"},
        )


async def _encrypted(stream: ByteStream, context: ssl.SSLContext, host: str) -> ByteStream:
    """Make the TLS handshake. Raises OSError; its subclass SSLError where the other side is not accepted."""
    try:
        # Not standard_compatible: a peer that ends the connection without a farewell of TLS has ended it all the same.
        return await TLSStream.wrap(stream, hostname=host, ssl_context=context, standard_compatible=False)
    except ssl.SSLError:
        await anyio.aclose_forcefully(stream)
        raise
    except (anyio.BrokenResourceError, anyio.EndOfStream):
        await anyio.aclose_forcefully(stream)
        raise ConnectionResetError(errno.ECONNRESET, "the connection ended in the TLS handshake") from None


def _cause(error: OSError) -> str:
    """The system's text alone: anyio puts an error of its own around those of the single attempts."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        cause = next((one for one in cause.exceptions if isinstance(one, OSError)), None)
    if isinstance(cause, OSError):
        return _cause(cause)
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)  # the look-up of a name has error numbers of its own


@contextmanager
def single_errors() -> Iterator[None]:
    """Raise the only exception of a group by itself: a task group wraps errors, and users want to catch their own."""
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise
