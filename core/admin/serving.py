"""The admin server's sockets, and the limits on its connections.

Up to ``connections_max`` clients are served at once. Up to ``BUSY_MAX`` further ones are answered at once that all
connections are taken, and have a second to read the answer. The others wait in the operating system's backlog. An
exception while serving one client is logged and ends only its connection. The last file descriptors are reserved for
the store, as in :mod:`core.server.listener`.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence

import trio
from hypercorn.config import Config
from starlette.types import ASGIApp
from structlog.typing import FilteringBoundLogger

from core.admin.answers import problem
from core.admin.connection import AdminConnection
from core.admin.encrypted import EncryptedStream
from core.config.admin import AdminSettings
from core.server.descriptors import too_few_left
from core.server.listener import CannotListen, open_listeners
from core.server.tls import TlsFailed

REMEDY = "give it another address with admin.listen or --admin HOST:PORT, or turn it off with --admin off"

BACKLOG = 64
"""The most connections that wait in the operating system until they are accepted."""

BUSY_MAX = 32
"""The most clients at once that are being told that all connections are taken."""

BUSY_S = 1.0
"""Seconds that such a client has to read the answer."""

PAUSE_S = 0.1
"""Seconds of pause after an accept that failed because descriptors or memory ran out."""

TASK_PAUSE_S = 1.0
"""Seconds before a background task that failed is started again."""


class AdminServer:
    """Serves one ASGI application over HTTP."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: AdminSettings,
        log: FilteringBoundLogger,
        background: Sequence[Callable[[], Awaitable[None]]] = (),
        encrypt: Callable[[trio.SocketStream], EncryptedStream] | None = None,
    ) -> None:
        """``background``: tasks that run while the server serves. A task that fails is started again. ``encrypt``
        returns the TLS of a connection; None: there is none."""
        self._encrypt = encrypt
        self._app = app
        self._background = background
        self._busy = problem(
            503, "too-many-connections", f"all {settings.connections_max} connections are taken; try later"
        )
        self._settings = settings
        self._log = log
        self._config = _hypercorn_config(settings)
        self._serving = 0
        self._places = trio.Semaphore(settings.connections_max + BUSY_MAX)
        self._sockets: list[socket.socket] = []

    @property
    def listening_on(self) -> Sequence[tuple[str, int]]:
        """Return host and port of every listening socket."""
        return [listening.getsockname()[:2] for listening in self._sockets]

    @property
    def places(self) -> Sequence[str]:
        """Return HOST:PORT of every listening socket, as in a URL."""
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.listening_on]

    @property
    def urls(self) -> Sequence[str]:
        """Return the URL of every listening socket."""
        return [f"{'http' if self._encrypt is None else 'https'}://{place}/" for place in self.places]

    async def open(self) -> None:
        """Begin to listen. Raises CannotListen."""
        try:
            self._sockets = await open_listeners(self._settings.listen, BACKLOG)
        except CannotListen as error:
            raise CannotListen(error.errno, f"admin server: {error.strerror}; {REMEDY}") from error

    async def run(self) -> None:
        """Serve until cancelled; then all connections are cut off."""
        self._log.info("admin-listening", addresses=", ".join(self.places))
        async with trio.open_nursery() as nursery:
            for task in self._background:
                nursery.start_soon(self._keep_running, task)
            for listening in self._sockets:
                listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
                nursery.start_soon(self._accept, listener, nursery)

    def close(self) -> None:
        """Stop listening."""
        for listening in self._sockets:
            listening.close()

    async def _keep_running(self, task: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await task()
            except Exception as error:  # a bug in a task must not end the broker
                self._log.error("admin-task-failed", exc_info=error, at_most_every=60.0)
            await trio.sleep(TASK_PAUSE_S)

    async def _accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        while True:
            await self._places.acquire()
            nursery.start_soon(self._serve, await self._next(listener))

    async def _next(self, listener: trio.SocketListener) -> trio.SocketStream:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                self._log.warning("admin-accept-failed", reason=str(error), at_most_every=1.0)
            else:
                if not too_few_left(stream.socket.fileno()):
                    return stream
                await trio.aclose_forcefully(stream)
                self._log.warning("admin-accept-failed", reason="out of file descriptors", at_most_every=1.0)
            await trio.sleep(PAUSE_S)

    async def _serve(self, stream: trio.SocketStream) -> None:
        has_place = self._serving < self._settings.connections_max
        app, seconds_max = (self._app, self._settings.request_time_out) if has_place else (self._busy, BUSY_S)
        self._serving += has_place
        try:
            connection = AdminConnection(
                stream, app=app, config=self._config, seconds_max=seconds_max, encrypt=self._encrypt
            )
            await connection.run()
        except* TlsFailed as failures:
            for failure in failures.exceptions:
                self._log.warning("admin-handshake-failed", reason=str(failure), at_most_every=1.0)
        except* Exception as error:
            self._log.error("admin-connection-failed", exc_info=error)
        finally:
            self._serving -= has_place
            self._places.release()


def _hypercorn_config(settings: AdminSettings) -> Config:
    config = Config()
    config.accesslog = config.errorlog = None  # else hypercorn writes to standard error; the broker has its own log
    config.include_server_header = False
    config.h11_max_incomplete_size = settings.request_head_max
    config.keep_alive_max_requests = 0  # every answer says that the connection closes
    return config
