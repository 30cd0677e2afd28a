"""The admin server's sockets, and the limits on its connections.

An admin server that has no client takes little memory: the code that answers requests, :mod:`core.admin.service`, is
loaded when the first client connects, in a thread, while the event loop goes on. That client waits a quarter of a
second longer.

Up to ``connections_max`` clients are served at once. Up to ``BUSY_MAX`` further ones are answered at once that all
connections are taken, and have a second to read the answer. The others wait in the operating system's backlog. An
exception while serving one client is logged and ends only its connection. The last file descriptors are reserved for
the store, as in :mod:`core.server.listener`.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import trio
from structlog.typing import FilteringBoundLogger

from core.config.admin import AdminSettings
from core.server.descriptors import too_few_left
from core.server.listener import CannotListen, open_listeners
from core.server.tls import TlsFailed

if TYPE_CHECKING:
    from core.admin.service import AdminService

REMEDY = "give it another address with admin.listen or --admin HOST:PORT, or turn it off with --admin off"

BACKLOG = 64
"""The most connections that wait in the operating system until they are accepted."""

BUSY_MAX = 32
"""The most clients at once that are being told that all connections are taken."""

PAUSE_S = 0.1
"""Seconds of pause after an accept that failed because descriptors or memory ran out."""

TASK_PAUSE_S = 1.0
"""Seconds before a background task that failed is started again."""


class AdminServer:
    """Accepts connections, and has a service answer them."""

    def __init__(
        self,
        load: Callable[[], "AdminService"],
        *,
        settings: AdminSettings,
        log: FilteringBoundLogger,
        background: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        """``load`` is called in a thread, when the first client has connected. ``background``: tasks that run while the
        server serves. A task that fails is started again."""
        self._load = load
        self._service: AdminService | None = None
        self._loading = trio.Lock()
        self._background = background
        self._settings = settings
        self._log = log
        self._serving = 0
        self._places = trio.Semaphore(settings.connections_max + BUSY_MAX)
        self._sockets: list[socket.socket] = []
        self.login_url: str | None = None
        """The login link of the console, to be shown once on a terminal; None if no login is needed or there is none.
        It is a secret: no log may get it."""

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
        return [f"{'https' if self._settings.tls else 'http'}://{place}/" for place in self.places]

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
            nursery.start_soon(self._serve, await self._next(listener), nursery)

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

    async def _serve(self, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
        has_place = self._serving < self._settings.connections_max
        self._serving += has_place
        try:
            service = await self._loaded(nursery)
            await (service.serve if has_place else service.refuse)(stream)
        except* TlsFailed as failures:
            for failure in failures.exceptions:
                self._log.warning("admin-handshake-failed", reason=str(failure), at_most_every=1.0)
        except* Exception as error:
            self._log.error("admin-connection-failed", exc_info=error)
        finally:
            await trio.aclose_forcefully(stream)  # a connection closes it too, and there is none when loading fails
            self._serving -= has_place
            self._places.release()

    async def _loaded(self, nursery: trio.Nursery) -> "AdminService":
        async with self._loading:
            if self._service is None:
                self._service = await trio.to_thread.run_sync(self._load)
                for task in self._service.background:
                    nursery.start_soon(self._keep_running, task)
            return self._service
