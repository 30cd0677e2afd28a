"""One accepted socket of the admin server: HTTP by hypercorn, bounds by us.

A connection has one deadline, from accept to close, that no client can move: neither by sending its request byte by
byte, nor by not reading the answer. There is one request on a connection, so the deadline is also the request's; a
scraper that comes every few seconds loses nothing by connecting again. An application may say that its answer has no
end; from then on each piece that is sent has the same time, and the system buffers little. HTTP/2 is refused: in
hypercorn it has buffers and streams that we would have to bound, and no client needs it here.

hypercorn's own connection (``TCPServer``) is not used: it shields what it sends from cancellation, so one client that
does not read would keep the broker from stopping.
"""

import math
import socket
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

READ_BYTES = 4096
"""Read at once: a request's head exceeds its limit by no more than this."""

LINGER_S = 0.5
"""For a client that was answered to close: who closes with something unread resets the connection, and the answer is
lost."""

ENDLESS_BUFFER_BYTES = 32 * 1024
"""Of an answer without end, in the system: some dozen events, so that who does not read is found out in a minute."""

SWITCHING = b"HTTP/1.1 101 "
"""hypercorn says so before it tells us that a client wants HTTP/2."""

NO_HTTP_2 = b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class AdminConnection:
    """Serves one socket until it is answered, has gone or its time is over."""

    def __init__(self, stream: trio.SocketStream, *, app: ASGIApp, config: Config, seconds_max: float) -> None:
        self._stream = stream
        self._app = ASGIWrapper(cast("ASGIFramework", app))  # two packages' names for the same type
        self._config = config
        self._seconds_max = seconds_max
        self._scope = trio.CancelScope(deadline=trio.current_time() + seconds_max)
        self._sending = trio.Lock()
        self._answered = False

    async def run(self) -> None:
        """Serve, and close the socket."""
        try:
            with self._scope:
                await self._serve()
        except* (OSError, LocalProtocolError):
            pass  # the peer has gone; hypercorn may complain that its answer was left unfinished
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _serve(self) -> None:
        client = self._stream.socket.getpeername()[:2]
        server = self._stream.socket.getsockname()[:2]
        async with TaskGroup() as tasks:
            protocol = H11Protocol(
                self._app,
                self._config,
                WorkerContext(max_requests=None),
                tasks,
                ConnectionState({ENDLESS: self._endless}),
                False,
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
            protocol.stream = None  # which refers to the protocol: both go without a look for cycles
            self._scope.cancel()  # no answer can be sent any more

    def _endless(self) -> None:
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ENDLESS_BUFFER_BYTES)
        self._scope.deadline = math.inf

    async def _receive(self) -> bytes | bytearray:
        try:
            return await self._stream.receive_some(READ_BYTES)
        except trio.BrokenResourceError:
            return b""

    async def _send(self, event: Event) -> None:
        """What hypercorn calls. Whether a connection is idle does not matter here."""
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
