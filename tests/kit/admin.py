"""An admin application over a real engine and made-up figures of a server.

Tests ask it through ASGI, without a socket, or on a loopback port.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import structlog
import trio
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.types import ASGIApp
from structlog.testing import LogCapture

from core.admin.api.application import Api
from core.admin.api.live import LiveFeed
from core.admin.api.opening import live_feed, make_api
from core.admin.application import admin_application
from core.admin.callers import Callers
from core.admin.console.login_link import LoginLink
from core.admin.console.sessions import ConsoleSessions
from core.admin.encrypted import EncryptedStream
from core.admin.health import Health
from core.admin.service import AdminService
from core.admin.serving import AdminServer
from core.admin.signing_in import AdminTokens, SignIn
from core.clock import Now
from core.config.admin import AdminSettings
from core.config.tls import TlsSettings
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.engine.broker import Broker
from core.errors import NotFound
from core.interface import Snapshot
from core.observe.overview import Overview, OverviewSources
from core.observe.stalls import Stalls
from core.observe.timelines import Timelines
from core.server.certificates import Certificates
from core.server.handshakes import Handshakes
from core.server.orders import Order
from core.server.run import Server, read_clocks
from core.store.definitions import PolicyDeclaration
from core.store.lane import Lane
from tests.kit.engine import make_broker
from tests.kit.logins import make_access

TOKEN = b"0123456789abcdef"


LIMITS = {"queues": 100, "exchanges": 100, "bindings": 100, "policies": 10, "unauthenticated": 10}


@dataclass
class MadeUpServer:
    """A stand-in for the server: tests put rows of connections into it that no client made."""

    rows: dict[str, list[Snapshot]] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)
    turns: int = 0
    drained_since: Now | None = None
    leaving: bool = False
    listening_on: tuple[str, ...] = ("127.0.0.1:5672",)
    work: Callable[[], None] = lambda: None
    """What a turn does beside being counted."""
    certificates: Certificates = field(
        default_factory=lambda: Certificates(TlsSettings(), wall=time.time, log=structlog.get_logger())
    )

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """See :meth:`core.server.run.Server.snapshot`."""
        match kind:
            case "listeners":
                return [{"identity": "127.0.0.1:5672", "host": "127.0.0.1", "port": 5672}]
            case "descriptors":
                return [{"total_limit": 1024, "total_used": 30, "sockets_limit": 900, "sockets_used": 2}]
            case "server":
                return [{"refused": {}, "unauthenticated": 1}]
        return [row for row in self.rows.get(kind, []) if identity in (None, row["identity"])]

    def connections(self, kind: str, identity: str | None = None) -> Iterator[Sequence[Snapshot]]:
        """Yield one row for each connection, whatever identity is asked for."""
        return ([row] for row in self.rows.get(kind, []))

    @property
    def sockets(self) -> tuple[int, int]:
        """How many connections there are, and how many are possible."""
        return len(self.rows.get("connections", [])), 900

    def drain(self, *, wanted: bool) -> None:
        """Begin to let no client in, or end that."""
        self.drained_since = Now(100.0, 1_700_000_000.0) if wanted else None

    def close_connection(self, identity: str, reason: str) -> bool:
        """Note the order; True when the connection has a row."""
        self.closed.append((identity, reason))
        return bool(self.snapshot("connections", identity))

    def order(self, order: Order) -> None:
        """Note the order. Raises NotFound when neither a link nor a session of that identity has a row."""
        if not self.snapshot("links", order.identity) and not self.snapshot("sessions", order.identity):
            raise NotFound(f"there is no '{order.identity}'")
        self.orders.append(order)

    def trace_frames(self, identity: str, *, wanted: bool) -> None:
        """Raises NotFound when the connection has no row."""
        if wanted and not self.snapshot("connections", identity):
            raise NotFound(f"there is no connection '{identity}'")

    def traced_frames(self, identity: str, after: int) -> Snapshot:
        """No frames. Raises NotFound when the connection has no row."""
        if not self.snapshot("connections", identity):
            raise NotFound(f"there is no connection '{identity}'")
        return {"protocol": "amqp-1.0", "frames": [], "next": after, "more": False, "missed": 0, "open": True}

    def turn(self) -> None:
        """Count the calls by which the API says that the engine has work, and have it done."""
        self.turns += 1
        self.work()


@dataclass
class Facts:
    """The facts that the application shows. Tests change them."""

    broker: Broker = field(default_factory=make_broker)
    server: MadeUpServer = field(default_factory=MadeUpServer)
    traffic: dict[str, Traffic] = field(default_factory=lambda: {"amqp10": Traffic(), "amqp091": Traffic()})
    lag_counts: list[int] = field(default_factory=lambda: [0] * 13)
    now: Now = field(default_factory=lambda: Now(100.0, 1_700_000_000.0))
    alarms: list[Snapshot] = field(default_factory=list)
    started: bool = True
    collect: Callable[[], Iterable[Metric]] = lambda: two_families()
    links_asked: list[tuple[str | None, int]] = field(default_factory=list)
    log: LogCapture = field(default_factory=LogCapture)
    login_link: LoginLink | None = None

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """The rows of alarms."""
        assert kind == "alarms"
        return self.alarms

    def collect_links(self, address: str | None, limit: int) -> Iterator[Metric]:
        """Note what was asked for, and yield one family of metrics."""
        self.links_asked.append((address, limit))
        yield GaugeMetricFamily("headgate_link_credit", "Link credit.", value=7)

    def raise_alarm(self, name: str, level: str = "alarm") -> None:
        """Add the row that the registry shows for this alarm."""
        self.alarms.append(
            {"name": name, "level": level, "on": True, "cause": "a test", "since": 5.0, "sources": ["x"]}
        )

    def logged(self, event: str) -> list[dict[str, object]]:
        """The log's lines of one event."""
        return [dict(entry) for entry in self.log.entries if entry["event"] == event]

    def __post_init__(self) -> None:
        self.stalls = Stalls(clock=lambda: self.now)
        self.control = BrokerControl(self.broker, version="1.2.3", pid=4711, stalls=self.stalls)
        self.control.server = cast("Server", self.server)
        self.control.node, self.control.limits, self.control.access = "headgate@here", LIMITS, make_access()
        self.control.lanes = [Lane("classic", generation=1, sync_interval_s=1.0)]
        self.server.work = self.work
        self.overview = Overview(
            OverviewSources(
                counts=lambda: [one.counts() for one in self.traffic.values()],
                connections=lambda: len(self.server.rows.get("connections", [])),
                links=lambda: len(self.server.rows.get("links", [])),
                alarms=lambda: self.broker.snapshot("alarms"),
                stalls=lambda: self.stalls.current.values(),
                queues=self.broker.queue_figures,
                lag_counts=lambda: self.lag_counts,
                clock=lambda: self.now,
            )
        )
        self.timelines = Timelines(
            connections=list,
            changed=lambda: {str(row["identity"]).partition("/")[0] for row in self._rows_on_connections()},
            rows={
                "links": lambda _: self.server.connections("links"),
                "sessions": lambda _: self.server.connections("sessions"),
                "channels": lambda _: self.server.connections("channels"),
                "queues": lambda _: ([row] for row in self.broker.queue_figures()),
            },
            stalls=lambda: self.stalls.current.values(),
            clock=lambda: self.now,
            things_max=50,
        )
        self.control.overview, self.control.timelines = self.overview, self.timelines

    def _rows_on_connections(self) -> Iterator[Snapshot]:
        return (row for kind in ("links", "sessions", "channels") for row in self.server.rows.get(kind, []))

    @property
    def draining(self) -> bool:
        """Whether the broker is stopping."""
        return self.server.leaving

    def pass_time(self, seconds: float = 1.0) -> None:
        """Let time pass, and take a sample."""
        self.now = Now(self.now.monotonic + seconds, self.now.wall + seconds)
        self.overview.sample()
        for _ in self.timelines.sample():
            pass

    def set_policy(self, **fields: Any) -> None:
        """Make a policy."""
        self.broker.policies.set(PolicyDeclaration(**fields))

    def turn(self) -> None:
        """Let the engine do the work that was left to it."""
        self.server.turn()

    def work(self) -> None:
        """Take turns of the engine, as many as moving messages takes."""
        for _ in range(8):
            self.broker.turn(self.now)

    def api(self, **settings: object) -> tuple[Api, LiveFeed]:
        """The application under ``/api``, and the task behind its live stream."""
        given = AdminSettings.model_validate(settings)
        self.control.flow_map_max = given.flow_map_max
        live = live_feed(self.control, self.overview, given, clock=lambda: self.now)
        return make_api(self.control, live, body_max=given.body_max, log=self.logger()), live

    def application(
        self, *, token: bytes | None = None, read_token: bytes | None = None, api: Api | None = None, **settings: object
    ) -> ASGIApp:
        """The admin application over these facts."""
        own = AdminSettings.model_validate({"listen": ["127.0.0.1:0"]} | settings)
        self.sessions = ConsoleSessions(
            idle=own.session_idle,
            age_max=own.session_age_max,
            sessions_max=own.sessions_max,
            random_bytes=self.control.logins.random_bytes,
            monotonic=lambda: self.now.monotonic,
        )
        return admin_application(
            settings=own,
            callers=Callers(
                tokens=AdminTokens(token, read_token),
                sign_in=SignIn(self.control.logins),
                sessions=self.sessions,
                clock=lambda: self.now,
                users_only=own.users_only,
                login_link=self.login_link,
            ),
            api=api or self.api(**settings)[0],
            health=Health(observable=self, started=lambda: self.started, draining=lambda: self.draining),
            collect=lambda: self.collect(),
            collect_links=self.collect_links,
            log=self.logger(),
        )

    def logger(self) -> structlog.typing.FilteringBoundLogger:
        """A logger that writes into :attr:`log`."""
        return structlog.wrap_logger(None, processors=[self.log])


def two_families() -> Iterator[Metric]:
    """Yield a gauge, and a counter with a label."""
    yield GaugeMetricFamily("headgate_connections", "Open connections.", value=3)
    published = CounterMetricFamily("headgate_published", "Messages taken.", labels=["address"])
    published.add_metric(['a"\n\\<b>'], 5)
    yield published


def client_of(app: ASGIApp, *, url: str = "http://127.0.0.1:15692", **headers: str) -> httpx.AsyncClient:
    """A client that asks the application without a socket."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app, raise_app_exceptions=True),
        base_url=url,
        headers=headers,
    )


@dataclass
class Listening:
    """An admin server that listens on a loopback port."""

    server: AdminServer
    facts: Facts

    @property
    def url(self) -> str:
        """The URL of its first socket."""
        host, port = self.server.listening_on[0]
        return f"http://{host}:{port}"

    async def connect(self) -> trio.SocketStream:
        """Connect, and send nothing."""
        host, port = self.server.listening_on[0]
        return await trio.open_tcp_stream(host, port)

    async def raw(self, request: bytes) -> bytes:
        """Send these bytes; returns what is answered until the server closes."""
        async with await self.connect() as stream:
            await stream.send_all(request)
            return await until_closed(stream)


async def until_closed(stream: trio.SocketStream) -> bytes:
    """Read what comes until the other end closes."""
    answer = b""
    try:
        while data := await stream.receive_some():
            answer += data
    except trio.BrokenResourceError:
        pass  # closed with a reset
    return answer


@asynccontextmanager
async def listening(
    facts: Facts, *, token: bytes | None = None, certificates: Certificates | None = None, **settings: object
) -> AsyncIterator[Listening]:
    """Run an admin server until the block ends, over TLS if there are ``certificates``."""
    handshakes = Handshakes(clock=read_clocks, turn=lambda now: None)

    def encrypt(transport: trio.SocketStream) -> EncryptedStream:
        assert certificates is not None
        return EncryptedStream(transport, certificates.new_tunnel(), handshakes)

    api, live = facts.api(**settings)
    own = AdminSettings.model_validate({"listen": ["127.0.0.1:0"], "tls": certificates is not None} | settings)
    service = AdminService(
        facts.application(token=token, api=api, **settings),
        settings=own,
        background=[live.run],
        encrypt=None if certificates is None else encrypt,
    )
    server = AdminServer(lambda: service, settings=own, log=facts.logger())
    await server.open()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            nursery.start_soon(handshakes.run)
            yield Listening(server, facts)
            nursery.cancel_scope.cancel()
    finally:
        server.close()
