"""One accepted socket of the admin server: hypercorn handles HTTP, and this module enforces the limits.

A connection has one deadline, from accept to close. A client cannot extend it, neither by sending its request byte by
byte nor by not reading the answer. A connection carries one request, so the deadline is also the request's. For a
scraper that comes every few seconds, a new connection each time costs little.

An application may declare that its answer has no end. From then on the connection has no deadline, each piece has to be
sent within the same time, and the operating system's buffer is small. HTTP/2 is refused: hypercorn's implementation has
buffers and streams without limits, and no client of the admin server needs it.

hypercorn's own connection (``TCPServer``) is not used: it shields its sends from cancellation, so one client that does
not read would keep the broker from stopping.
"""

import math
import socket
from collections.abc import Callable
from typing import cast

import trio
from h11 import LocalProtocolError
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.h11 import H2CProtocolRequiredError, H2ProtocolAssumedError, H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState
from starlette.types import ASGIApp

from core.admin.api.live import ENDLESS
from core.admin.encrypted import EncryptedStream

READ_BYTES = 4096
"""Bytes read at once. A request's head can exceed its limit by no more than this."""

LINGER_S = 0.5
"""Seconds for which a client that was answered may close first. A socket that is closed with unread input resets the
connection, and the client could lose the answer."""

ENDLESS_BUFFER_BYTES = 32 * 1024
"""Size of the operating system's send buffer for an answer without end: some dozen events. So a client that does not
read is noticed within a minute."""

SWITCHING = b"HTTP/1.1 101 "
"""The beginning of hypercorn's answer to a client that wants HTTP/2. hypercorn sends it before it raises its error."""

NO_HTTP_2 = b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class AdminConnection:
    """Serves one socket until its request is answered, the client has gone, or the deadline has passed."""

    def __init__(
        self,
        transport: trio.SocketStream,
        *,
        app: ASGIApp,
        config: Config,
        seconds_max: float,
        encrypt: Callable[[trio.SocketStream], EncryptedStream] | None = None,
    ) -> None:
        """``encrypt`` returns the TLS of the connection; None: it has none."""
        self._transport = transport
        self._encrypted = None if encrypt is None else encrypt(transport)
        self._stream = self._encrypted or transport
        self._app = ASGIWrapper(cast("ASGIFramework", app))  # two packages' names for the same type
        self._config = config
        self._seconds_max = seconds_max
        self._scope = trio.CancelScope(deadline=trio.current_time() + seconds_max)
        self._sending = trio.Lock()
        self._answered = False

    async def run(self) -> None:
        """Serve, and close the socket. Raises TlsFailed."""
        try:
            with self._scope:
                if self._encrypted is not None:
                    await self._encrypted.shake_hands()
                await self._serve()
        except* (OSError, LocalProtocolError, trio.BrokenResourceError):
            pass  # the peer has gone; hypercorn may raise because its answer was not finished
        finally:
            await trio.aclose_forcefully(self._transport)

    async def _serve(self) -> None:
        client = self._transport.socket.getpeername()[:2]
        server = self._transport.socket.getsockname()[:2]
        async with TaskGroup() as tasks:
            protocol = H11Protocol(
                self._app,
                self._config,
                WorkerContext(max_requests=None),
                tasks,
                ConnectionState({ENDLESS: self._endless}),
                self._encrypted is not None,
                client,
                server,
                self._send,
            )
            await protocol.initiate()
            try:
                while data := await self._receive():
                    if not self._answered:
                        await protocol.handle(RawData(bytes(data)))
            except (H2CProtocolRequiredError, H2ProtocolAssumedError):
                await self._send(RawData(NO_HTTP_2))
            protocol.stream = None  # it refers back: so both are freed without a collection of cycles
            self._scope.cancel()  # no answer can be sent any more

    def _endless(self) -> None:
        self._transport.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ENDLESS_BUFFER_BYTES)
        self._scope.deadline = math.inf

    async def _receive(self) -> bytes | bytearray:
        try:
            return await self._stream.receive_some(READ_BYTES)
        except trio.BrokenResourceError:
            return b""

    async def _send(self, event: Event) -> None:
        """Handle an event from hypercorn. Its events about idle connections are ignored."""
        try:
            async with self._sending:
                if isinstance(event, RawData) and not event.data.startswith(SWITCHING):
                    with trio.fail_after(self._seconds_max):
                        await self._stream.send_all(event.data)
                elif isinstance(event, Closed):
                    await self._stream.send_eof()
                    self._answered = True
                    self._scope.deadline = min(self._scope.deadline, trio.current_time() + LINGER_S)
        except (trio.BrokenResourceError, trio.TooSlowError):
            self._scope.cancel()
