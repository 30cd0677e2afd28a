"""The server: the tree of tasks, snapshots and actions for an operator, and the orderly stop.

One nursery holds everything: an accept loop per listening socket, the reader of all peers, a writer task for each peer
whose socket is full, the timers, the pump's remainder. A stop closes the listeners, says good-bye to
every peer, and gives them a bounded time to answer.
"""

import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_network
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import structlog
import trio

from core.clock import Now
from core.config.server import ServerSettings
from core.config.tls import TlsSettings
from core.errors import NotFound
from core.interface import Snapshot
from core.server.certificates import Certificates
from core.server.connections import Changes, Connections
from core.server.context import ConnectionCounters, ServerContext
from core.server.descriptors import Spare, sockets_limit, total_limit, total_used
from core.server.frame_tap import FrameTaps
from core.server.frontends import FrontEnd, FrontEndFactory, PeerInfo
from core.server.handshakes import Handshakes
from core.server.listener import CannotListen, Listener, open_listeners
from core.server.node_sockets import address_of, listen_at
from core.server.node_tls import NodeTls
from core.server.orders import Order
from core.server.peer import Peer
from core.server.pump import Pump, Turning
from core.server.reader import MakeReader, Reader, open_reader
from core.server.signals import Signals
from core.server.timers import Timers, TurnTimer
from core.server.tls import Tunnel
from core.work import Work

CLOCK_READINGS = 100
"""Readings to find out how far Trio's clock is ahead: another process may come between the two clocks of one reading,
and not of all."""


def read_clocks() -> Now:
    """Read Trio's clock (which tests replace) and the wall clock."""
    return Now(trio.current_time(), time.time())


def open_clocks() -> Callable[[], Now]:
    """Return what reads the clocks as :func:`read_clocks` does, in half the time, as long as this run of Trio lasts.

    Trio's own clock is the monotonic one and a number that it has chosen at its start. What is found here for that
    number is too high by less than a microsecond, so a task that Trio wakes at a deadline does not find itself early.
    """
    ahead = min(-time.perf_counter() + trio.current_time() for _ in range(CLOCK_READINGS))
    perf_counter, wall = time.perf_counter, time.time

    def read() -> Now:
        return Now(perf_counter() + ahead, wall())

    return read


Background = Callable[[Callable[[], None]], Awaitable[None]]
"""A task beside the peers. Its argument is the turn: a function to call when the task has left work for the engine."""


class SharedPort(NamedTuple):
    """What one of several processes on the same addresses needs."""

    socket: Path
    """The Unix socket on which the others connect."""
    nodes: Sequence[str]
    """Their names."""
    may_listen: Callable[[], Awaitable[None]]
    """Waited for before it listens."""


LOOK_SECONDS = 0.05
"""Seconds between two checks whether consumers have settled all: a stop is delayed by no more than this."""


SPREAD_STEP_SECONDS = 0.05
"""Seconds between two closes of ``stop_spread``, if there are so many connections."""
TAKEN = (
    "server.connections_max",
    "server.unauthenticated_max",
    "server.unauthenticated_per_host_max",
    "server.handshake_time_out",
    "server.linger",
    "server.drain_time",
    "server.stop_spread",
    "server.stop_grace",
)
"""Settings that :meth:`Server.take` applies."""


class Server:
    """Serves the given protocols on the configured addresses, over one engine."""

    def __init__(
        self,
        *,
        settings: ServerSettings,
        engine: Turning,
        factories: Sequence[FrontEndFactory],
        log: structlog.typing.FilteringBoundLogger,
        clock: Callable[[], Now] = read_clocks,
        background: Sequence[Background] = (),
        sockets_changed: Callable[[int], None] = lambda count: None,
        store: Callable[[], bool] = lambda: False,
        work: Work | None = None,
        make_reader: MakeReader = open_reader,
        certificates: Certificates | None = None,
        node_tls: NodeTls | None = None,
        shared_port: SharedPort | None = None,
    ) -> None:
        """``background`` are tasks that run beside the peers until the server ends: the store's lanes, samplers.
        ``sockets_changed`` is called with the number of connections when one opens or closes. ``store`` and ``work``
        are for the pump, ``make_reader`` chooses the way of waiting for sockets. ``node_tls`` is for the addresses of
        other nodes; None for none, as is ``shared_port``."""
        self._shared_port = shared_port
        self.counters = ConnectionCounters()
        self.certificates = certificates or Certificates(TlsSettings(), wall=time.time, log=log)
        self._node_tls = node_tls
        self._settings = settings
        self._factories = factories
        self._log = log
        self._clock = clock
        self._background = background
        self._work = work or Work()
        self._make_reader = make_reader
        self._turn_timer = TurnTimer()
        self._pump = Pump(
            engine=engine,
            clock=clock,
            rounds_max=settings.rounds_per_wake_up_max,
            wake_at=self._wake_at,
            store=store,
            work=self._work,
        )
        self.handshakes = Handshakes(clock=clock, turn=self._pump.turn)
        self._timers = Timers(clock, after=self._pump.turn)
        self._connections: Connections[Peer] = Connections(
            connections_max=sockets_limit(settings.connections_max),
            pending_max=settings.unauthenticated_max,
            pending_per_host_max=settings.unauthenticated_per_host_max,
            changed=sockets_changed,
        )
        self._frame_taps = FrameTaps(settings.frame_taps_max)
        self._listeners: list[Listener] = []
        self._shared: ServerContext | None = None
        self._stop = trio.Event()
        self._stop_reason = ""

    async def run(self, started: Callable[[Sequence[tuple[str, int]]], None] | None = None) -> None:
        """Serve until :meth:`stop`, then say good-bye. Raises OSError when the broker cannot listen on an address.

        ``started`` is called with the addresses once connections are accepted.
        """
        opened = [] if self._shared_port is not None else await self._opened()
        spare = Spare()
        async with trio.open_nursery() as nursery:
            reader = self._make_reader(self._clock, self._pump, self._work, nursery)
            try:
                await self._serve(nursery, reader, opened, spare, started)
            finally:
                for listener in self._listeners:
                    listener.close()
                self._cut_off_all("the broker ends")
                reader.close()
                spare.close()
                nursery.cancel_scope.cancel()

    async def _opened(self) -> list[Sequence[socket.socket]]:
        """Return the listening sockets without TLS, those with it, and those for other nodes. Raises CannotListen."""
        settings, shared = self._settings, self._shared_port is not None
        for_nodes = () if self._node_tls is None else self._node_tls.listen
        opened: list[Sequence[socket.socket]] = []
        try:
            opened += [await open_listeners(settings.listen, settings.accept_backlog, shared=shared)]
            opened += [await open_listeners(settings.tls_listen, settings.accept_backlog, shared=shared)]
            opened += [await open_listeners(for_nodes, settings.accept_backlog)]
            if self._shared_port is not None:
                opened += [[listen_at(self._shared_port.socket, settings.accept_backlog)]]
        except OSError as error:
            for listening in chain(*opened):
                listening.close()
            if isinstance(error, CannotListen):
                raise
            raise CannotListen(error.errno, f"cannot listen for other nodes: {error.strerror or error}") from error
        return opened

    async def _serve(
        self,
        nursery: trio.Nursery,
        reader: Reader,
        opened: Sequence[Sequence[socket.socket]],
        spare: Spare,
        started: Callable[[Sequence[tuple[str, int]]], None] | None,
    ) -> None:
        """``opened`` are the sockets without TLS, those with it, and those for other nodes; empty if they are to be
        opened later."""
        shared = self._shared = ServerContext(
            settings=self._settings,
            factories=self._factories,
            clock=self._clock,
            pump=self._pump,
            work=self._work,
            reader=reader,
            timers=self._timers,
            certificates=self.certificates,
            node_certificates=self.certificates if self._node_tls is None else self._node_tls.certificates,
            handshakes=self.handshakes,
            proxies=[ip_network(network) for network in self._settings.proxy_from],
            connections=self._connections,
            counters=self.counters,
            nursery=nursery,
            log=self._log,
        )
        nursery.start_soon(self._timers.run)
        nursery.start_soon(self._pump.run)
        nursery.start_soon(reader.run)
        nursery.start_soon(shared.handshakes.run)
        for task in self._background:
            nursery.start_soon(task, self.turn)
        nodes: Sequence[str] = ()
        if self._shared_port is not None:
            nodes = self._shared_port.nodes
            await self._until_may_listen(self._shared_port.may_listen)
            opened = [] if self.stopping else await self._opened()
        self._listeners = [
            Listener(
                listening, shared=shared, spare=spare, encrypted=0 < kind < 3, for_nodes=kind > 1, nodes_here=nodes
            )
            for kind, sockets in enumerate(opened)
            for listening in sockets
        ]
        for listener in self._listeners:
            nursery.start_soon(listener.run)
        if started is not None and not self.stopping:
            started(self.listening_on)
        await self._stop.wait()
        await self._say_good_bye()

    async def _until_may_listen(self, may_listen: Callable[[], Awaitable[None]]) -> None:
        """Wait until this node may listen, or the stop begins."""
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                await self._stop.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(stop)
            await may_listen()
            nursery.cancel_scope.cancel()

    def turn(self) -> None:
        """Take a turn: the engine does its pending work, and the peers send the results. Publishers that a sync has
        confirmed come before consumers, so that they send again while the consumers are served."""
        self._pump.turn(self._clock(), in_order=True)

    def adopt(
        self,
        connected: socket.socket,
        make: Callable[[PeerInfo, Callable[[], None]], FrontEnd],
        tunnel: Tunnel | None = None,
    ) -> None:
        """Serve a connection that this broker has begun, with the front end that ``make`` makes. The socket is
        non-blocking and connected; its turn is the caller's to take. ``tunnel`` is its TLS, whose handshake is
        complete."""
        assert self._shared is not None, "nothing connects before the server runs"
        self.counters.begun += 1
        remote, local = address_of(connected.getpeername()), address_of(connected.getsockname())
        info = PeerInfo(f"n{self.counters.begun}", *remote, *local)
        if tunnel is not None:
            info = replace(info, encrypted=True, tls=tunnel.facts)
        Peer(connected, info, self._shared, make=make, tunnel=tunnel).serve()

    def read_within(self, seconds: float, whole: bool) -> int:
        """See :meth:`core.server.reader.Reader.read_within`."""
        return 0 if self._shared is None else self._shared.reader.read_within(seconds, whole)

    def _wake_at(self, when: float) -> None:
        if when < self._turn_timer.timer_at:
            self._timers.schedule(self._turn_timer, when)

    def take(self, settings: ServerSettings) -> None:
        """Apply other limits and times, for new and for present connections; see :data:`TAKEN`."""
        self._settings = settings
        if self._shared is not None:
            self._shared.settings = settings
        self._connections.limit(
            connections_max=sockets_limit(settings.connections_max),
            pending_max=settings.unauthenticated_max,
            pending_per_host_max=settings.unauthenticated_per_host_max,
        )

    def stop(self, reason: str) -> None:
        """Begin the orderly stop. The peers are told the reason."""
        self._stop_reason = reason
        self._stop.set()

    async def _say_good_bye(self) -> None:
        for listener in self._listeners:
            listener.close()
        now = self._clock()
        self._pump.turn(now)  # what is in flight is answered before the good-bye
        await self._close_all()
        with trio.move_on_after(self._settings.stop_grace):
            await self._connections.none_left()

    async def _close_all(self) -> None:
        """Tell all peers that they are closed, evenly over ``stop_spread``, the oldest connection first."""
        peers = tuple(self._connections)
        steps = max(1, min(len(peers), round(self._settings.stop_spread / SPREAD_STEP_SECONDS)))
        begin = trio.current_time()
        for step in range(steps):
            await trio.sleep_until(begin + step * self._settings.stop_spread / steps)
            for peer in peers[len(peers) * step // steps : len(peers) * (step + 1) // steps]:
                peer.shut_down(self._stop_reason)
            self._pump.turn(self._clock())

    def _cut_off_all(self, reason: str) -> None:
        now = self._clock()
        for peer in self._connections:
            peer.cut_off(reason, now)

    # --- snapshots and actions
    # ------------------------------------------------------------------------------------------

    @property
    def sockets(self) -> tuple[int, int]:
        """How many connections there are, and how many are possible."""
        return len(self._connections), self._connections.connections_max

    @property
    def listening_on(self) -> list[tuple[str, int]]:
        """Host and port of each listening socket for clients, those without TLS first."""
        return [(listener.host, listener.port) for listener in self._listeners if not listener.for_nodes]

    @property
    def tls_listening_on(self) -> list[tuple[str, int]]:
        """Host and port of each listening socket for clients with TLS."""
        return [
            (listener.host, listener.port)
            for listener in self._listeners
            if listener.encrypted and not listener.for_nodes
        ]

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """Rows of the kinds "listeners", "certificates", "descriptors", "server" and "connections"; for any other kind,
        the front ends' rows."""
        if kind == "listeners":
            rows: list[Snapshot] = [
                {
                    "identity": f"{listener.host}:{listener.port}",
                    "host": listener.host,
                    "port": listener.port,
                    "tls": listener.encrypted,
                    "for_nodes": listener.for_nodes,
                }
                for listener in self._listeners
            ]
        elif kind == "certificates":
            rows = self.certificates.rows()
            if self._node_tls is not None:
                rows += [row | {"identity": "cluster"} for row in self._node_tls.certificates.rows()]
        elif kind == "descriptors":
            rows = [self._descriptors()]
        elif kind == "server":
            rows = [self._totals()]
        else:
            peers = self._connections if identity is None else self._found(identity.partition("/")[0])
            rows = [row for peer in peers for row in peer.snapshot(kind)]
        return [row for row in rows if identity is None or row.get("identity") == identity]

    @property
    def stopping(self) -> bool:
        """Whether the orderly stop has begun."""
        return self._stop.is_set()

    @property
    def leaving(self) -> bool:
        """Whether clients should go to another broker: this one is stopping or being drained."""
        return self.stopping or self._connections.drain.on

    @property
    def drained_since(self) -> Now | None:
        """When the drain began; None when the broker is not being drained."""
        return self._connections.drain.since

    def drain(self, *, wanted: bool) -> None:
        """Refuse new connections except from this machine; or admit all again."""
        drain = self._connections.drain
        if wanted and drain.begin(self._clock()):
            self._log.info("drain-started", connections=len(self._connections))
        elif not wanted and drain.end():
            self._log.info("drain-ended", connections=len(self._connections))

    def connections(self, kind: str, identity: str | None = None) -> Iterator[list[Snapshot]]:
        """Yield the rows of a kind, connection by connection and in parts for a large one, so that other tasks run in
        between. With the identity of a link, yield its row only; with that of a connection, session or channel, the
        rows of its connection only."""
        peers = self._connections if identity is None else self._found(identity.partition("/")[0])
        within = identity if identity is not None and "/" in identity else None
        return (rows for peer in peers for rows in peer.parts(kind, within))

    def changes(self) -> Changes:
        """Return a new reader of the connections that have changed."""
        return self._connections.changes()

    @property
    def connection_identities(self) -> list[str]:
        """The identities of all connections, the oldest first."""
        return self._connections.identities

    def _found(self, identity: str) -> list[Peer]:
        peer = self._connections.find(identity)
        return [] if peer is None else [peer]

    def _descriptors(self) -> Snapshot:
        return {
            "identity": "descriptors",
            "total_limit": total_limit(),
            "total_used": total_used(),
            "sockets_limit": self._connections.connections_max,
            "sockets_used": len(self._connections),
        }

    def _totals(self) -> Snapshot:
        """Counts since the start."""
        counters = self.counters
        return {
            "identity": "server",
            "accepted": counters.accepted,
            "refused": dict(counters.refused),
            "wrong_headers": counters.wrong_headers,
            "handshake_time_outs": counters.handshake_time_outs,
            "tls_handshakes": counters.handshakes,
            "tls_failures": counters.wrapping_failures,
            "faults": counters.faults,
            "unauthenticated": self._connections.pending,
            "bytes_in": counters.bytes_in,
            "bytes_out": counters.bytes_out,
        }

    def close_connection(self, identity: str, reason: str) -> bool:
        """End a connection for an operator, in the turn that follows. False when there is no such connection."""
        peer = self._connections.find(identity)
        if peer is not None:
            peer.shut_down(reason)
        return peer is not None

    def trace_frames(self, identity: str, *, wanted: bool) -> None:
        """Start or end the frame trace of a connection. Raises NotFound, LimitReached."""
        peer = self._connections.find(identity)
        if not wanted:
            self._frame_taps.drop(identity)
            if peer is not None:
                peer.untap()
            return
        if peer is None:
            raise NotFound(f"there is no connection '{identity}'")
        self._frame_taps.check_room(identity, self._clock())
        self._frame_taps.add(identity, peer.tap())

    def traced_frames(self, identity: str, after: int) -> Snapshot:
        """Return the traced frames from this number on, also of a connection that has closed. Raises NotFound."""
        shown = self._frame_taps.show(identity, after, self._clock())
        return shown | {"open": self._connections.find(identity) is not None}

    def order(self, order: Order) -> None:
        """Have a link or session carry out an order, in the turn that follows. Raises NotFound, Invalid."""
        identity = order.identity
        peer = self._connections.find(identity.partition("/")[0])  # a part's name begins with its peer's
        if peer is None:
            raise NotFound(f"there is no '{identity}'")
        peer.order(order)


async def finish_work(*, drain: Callable[[], object], unsettled: Callable[[], int], seconds: float) -> None:
    """Drain before a stop, and wait until nothing is unsettled, for ``seconds`` at most; 0 does neither.

    A broker that stops while deliveries are unsettled delivers them again after its next start.
    """
    if seconds <= 0:
        return
    drain()
    with trio.move_on_after(seconds):
        while True:
            if not unsettled():
                return
            await trio.sleep(LOOK_SECONDS)


async def _nothing() -> None:
    pass


async def serve(
    server: Server,
    started: Callable[[Sequence[tuple[str, int]]], None],
    *,
    signals: Signals,
    reload: Callable[[], None],
    before_stop: Callable[[], Awaitable[None]] = _nothing,
) -> None:
    """Run the server as the process's main job until it has stopped.

    A signal that stops ends it in an orderly way, after ``before_stop``; a second one ends it without waiting. Any
    other signal calls ``reload``.
    """

    async def end(reason: str) -> None:
        await before_stop()
        server.stop(reason)

    async def obey_signals() -> None:
        stopping = False
        while True:
            number = await signals.next()
            if not signals.stops(number):
                reload()
            elif stopping:
                nursery.cancel_scope.cancel()
            else:
                stopping = True
                nursery.start_soon(end, f"the broker is stopping ({number.name})")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(obey_signals)
        await server.run(started)
        nursery.cancel_scope.cancel()
