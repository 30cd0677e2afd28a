"""An admin application over made-up facts, asked through ASGI, and an admin server on a loopback port."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import structlog
import trio
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.types import ASGIApp
from structlog.testing import LogCapture

from core.admin.application import admin_application
from core.admin.health import Health
from core.admin.serving import AdminServer
from core.config.admin import AdminSettings
from core.interface import Snapshot

TOKEN = b"0123456789abcdef"


@dataclass
class Facts:
    """What the application is told. Tests change it."""

    alarms: list[Snapshot] = field(default_factory=list)
    started: bool = True
    draining: bool = False
    collect: Callable[[], Iterable[Metric]] = lambda: two_families()
    links_asked: list[tuple[str | None, int]] = field(default_factory=list)
    log: LogCapture = field(default_factory=LogCapture)

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """Rows of alarms."""
        assert kind == "alarms"
        return self.alarms

    def collect_links(self, address: str | None, limit: int) -> Iterator[Metric]:
        """One family."""
        self.links_asked.append((address, limit))
        yield GaugeMetricFamily("headgate_link_credit", "Link credit.", value=7)

    def raise_alarm(self, name: str, level: str = "alarm") -> None:
        """As the registry shows it."""
        self.alarms.append(
            {"name": name, "level": level, "on": True, "cause": "a test", "since": 5.0, "sources": ["x"]}
        )

    def logged(self, event: str) -> list[dict[str, object]]:
        """The lines of one event."""
        return [dict(entry) for entry in self.log.entries if entry["event"] == event]

    def application(self, *, token: bytes | None = None, **settings: object) -> ASGIApp:
        """The application that is told this."""
        return admin_application(
            settings=AdminSettings.model_validate({"listen": ["127.0.0.1:0"]} | settings),
            token=token,
            health=Health(observable=self, started=lambda: self.started, draining=lambda: self.draining),
            collect=lambda: self.collect(),
            collect_links=self.collect_links,
            log=self.logger(),
        )

    def logger(self) -> structlog.typing.FilteringBoundLogger:
        """Writes into :attr:`log`."""
        return structlog.wrap_logger(None, processors=[self.log])


def two_families() -> Iterator[Metric]:
    """A gauge, and a counter with a label."""
    yield GaugeMetricFamily("headgate_connections", "Open connections.", value=3)
    published = CounterMetricFamily("headgate_published", "Messages taken.", labels=["address"])
    published.add_metric(['a"\n\\<b>'], 5)
    yield published


def client_of(app: ASGIApp, **headers: str) -> httpx.AsyncClient:
    """Asks the application without a socket."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app, raise_app_exceptions=True),
        base_url="http://127.0.0.1:15692",
        headers=headers,
    )


@dataclass
class Listening:
    """An admin server that runs."""

    server: AdminServer
    facts: Facts

    @property
    def url(self) -> str:
        """Of its first socket."""
        host, port = self.server.listening_on[0]
        return f"http://{host}:{port}"

    async def connect(self) -> trio.SocketStream:
        """A bare connection."""
        host, port = self.server.listening_on[0]
        return await trio.open_tcp_stream(host, port)

    async def raw(self, request: bytes) -> bytes:
        """Everything that is answered to these bytes, until the server closes."""
        async with await self.connect() as stream:
            await stream.send_all(request)
            return await until_closed(stream)


async def until_closed(stream: trio.SocketStream) -> bytes:
    """Everything that comes before the other end closes."""
    answer = b""
    try:
        while data := await stream.receive_some():
            answer += data
    except trio.BrokenResourceError:
        pass  # closed with a reset
    return answer


@asynccontextmanager
async def listening(facts: Facts, *, token: bytes | None = None, **settings: object) -> AsyncIterator[Listening]:
    """Serve until the block ends."""
    server = AdminServer(
        facts.application(token=token, **settings),
        settings=AdminSettings.model_validate({"listen": ["127.0.0.1:0"]} | settings),
        log=facts.logger(),
    )
    await server.open()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            yield Listening(server, facts)
            nursery.cancel_scope.cancel()
    finally:
        server.close()
