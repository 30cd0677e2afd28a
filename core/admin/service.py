"""All that answers requests to the admin server, over one ASGI application.

Importing this module loads prometheus-client, starlette and hypercorn, which take 8 MiB. So only
:func:`core.admin.start.open_admin_server` imports it, when the first client has connected.
"""

from collections.abc import Awaitable, Callable, Sequence

import trio
from hypercorn.config import Config
from starlette.types import ASGIApp
from structlog.typing import FilteringBoundLogger

from core.admin.answers import problem
from core.admin.api.opening import live_feed, make_api
from core.admin.application import admin_application
from core.admin.callers import Callers
from core.admin.connection import AdminConnection
from core.admin.console.login_link import LoginLink
from core.admin.console.sessions import ConsoleSessions
from core.admin.encrypted import EncryptedStream
from core.admin.health import Health
from core.admin.signing_in import AdminTokens, SignIn
from core.clock import Now
from core.config.admin import AdminSettings
from core.control_plane import BrokerControl
from core.observe.metrics import BrokerMetrics, LinkMetrics
from core.observe.overview import Overview
from core.observe.scrape import MetricSources

Encrypt = Callable[[trio.SocketStream], EncryptedStream]
"""Returns the TLS of a connection that was accepted."""

BUSY_S = 1.0
"""Seconds that a client which is told that all connections are taken has to read the answer."""


class AdminService:
    """Serves connections that were accepted."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: AdminSettings,
        background: Sequence[Callable[[], Awaitable[None]]] = (),
        encrypt: Encrypt | None = None,
    ) -> None:
        """``encrypt`` returns the TLS of a connection; None: there is none."""
        self.background = background
        """Tasks that run from now on while the server serves."""
        self._app = app
        self._seconds_max = settings.request_time_out
        self._busy = problem(
            503, "too-many-connections", f"all {settings.connections_max} connections are taken; try later"
        )
        self._config = _hypercorn_config(settings)
        self._encrypt = encrypt

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer the request of a connection, and close it. Raises TlsFailed."""
        await self._answer(stream, self._app, self._seconds_max)

    async def refuse(self, stream: trio.SocketStream) -> None:
        """Answer that all connections are taken, and close the connection."""
        await self._answer(stream, self._busy, BUSY_S)

    async def _answer(self, stream: trio.SocketStream, app: ASGIApp, seconds_max: float) -> None:
        connection = AdminConnection(
            stream, app=app, config=self._config, seconds_max=seconds_max, encrypt=self._encrypt
        )
        await connection.run()


def _hypercorn_config(settings: AdminSettings) -> Config:
    config = Config()
    config.accesslog = config.errorlog = None  # else hypercorn writes to standard error; the broker has its own log
    config.include_server_header = False
    config.h11_max_incomplete_size = settings.request_head_max
    config.keep_alive_max_requests = 0  # every answer says that the connection closes
    return config


def make_service(
    settings: AdminSettings,
    *,
    token: bytes | None,
    read_token: bytes | None,
    login_link: LoginLink | None,
    control: BrokerControl,
    overview: Overview,
    sources: MetricSources,
    started: float,
    clock: Callable[[], Now],
    encrypt: Encrypt | None,
    log: FilteringBoundLogger,
) -> AdminService:
    """Return the service of a broker. ``started`` is when the broker was started, in monotonic seconds."""
    live = live_feed(control, overview, settings, clock=clock)
    app = admin_application(
        settings=settings,
        callers=Callers(
            clock=clock,
            tokens=AdminTokens(token, read_token),
            sign_in=SignIn(control.logins),
            sessions=ConsoleSessions(
                idle=settings.session_idle,
                age_max=settings.session_age_max,
                sessions_max=settings.sessions_max,
                random_bytes=control.logins.random_bytes,
                monotonic=lambda: clock().monotonic,
            ),
            users_only=settings.users_only,
            login_link=login_link,
        ),
        api=make_api(control, live, body_max=settings.body_max, log=log),
        health=Health(
            observable=control.broker,
            started=lambda: bool(control.serving.listening_on),
            draining=lambda: control.serving.leaving,
        ),
        collect=BrokerMetrics(sources, started=started).collect,
        collect_links=LinkMetrics(control.connections).collect,
        log=log,
    )
    return AdminService(app, settings=settings, background=[live.run], encrypt=encrypt)
