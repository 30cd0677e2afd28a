"""A server on a loopback port for one test, and a client's end of a connection to it."""

import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
import trio
import trio.testing
from structlog.testing import LogCapture

from core.config.server import ServerSettings
from core.config.tls import TlsSettings
from core.server.certificates import Certificates
from core.server.reader import MakeReader, open_reader
from core.server.run import Server
from tests.kit.echo import HEADER, EchoBroker, EchoFrontEnd


class Client:
    """The test's end of a connection: it sends lines and expects exact bytes."""

    def __init__(self, stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]) -> None:
        self.stream = stream

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def expect(self, expected: bytes) -> None:
        """Check that the next bytes are exactly these."""
        received = b""
        while len(received) < len(expected):
            data = await self.stream.receive_some(len(expected) - len(received))
            assert data, f"the server closed after {received!r}"
            received += data
        assert received == expected

    async def rest(self) -> bytes:
        """Read everything until the server closes."""
        received = b""
        try:
            while data := await self.stream.receive_some():
                received += data
        except trio.BrokenResourceError:
            pass  # closed with a reset
        return received


@dataclass
class Serving:
    """A running server, and the stand-in for the engine behind it."""

    server: Server
    broker: EchoBroker
    log: LogCapture
    clients: list[Client] = field(default_factory=list)

    async def connect(self) -> Client:
        """A connection that has sent nothing yet."""
        host, port = self.server.listening_on[0]
        client = Client(await trio.open_tcp_stream(host, port))
        self.clients.append(client)
        return client

    async def connect_tls(self, context: ssl.SSLContext, name: str = "localhost") -> Client:
        """A connection that has made its TLS handshake. Raises trio.BrokenResourceError where it fails."""
        encrypted = trio.SSLStream(
            await trio.open_tcp_stream(*self.server.tls_listening_on[0]),
            context,
            server_hostname=name,
            https_compatible=True,
        )
        client = Client(encrypted)
        self.clients.append(client)
        await encrypted.do_handshake()
        return client

    async def connect_plain_to_tls(self) -> Client:
        """A connection to the port with TLS that has sent nothing yet."""
        client = Client(await trio.open_tcp_stream(*self.server.tls_listening_on[0]))
        self.clients.append(client)
        return client

    async def open(self) -> tuple[Client, EchoFrontEnd]:
        """An established connection, and the front end that serves it."""
        known = set(self.broker.front_ends)
        client = await self.connect()
        await client.send(HEADER + b"hello\n")
        await client.expect(HEADER + b"hello\n")
        (identity,) = self.broker.front_ends.keys() - known
        return client, self.broker.front_ends[identity]

    def logged(self, event: str) -> list[dict[str, object]]:
        """The log's lines of one event."""
        return [dict(entry) for entry in self.log.entries if entry["event"] == event]


@asynccontextmanager
async def serving(
    make_reader: MakeReader = open_reader, tls: TlsSettings | None = None, **settings: object
) -> AsyncIterator[Serving]:
    """Serve the echo protocol until the block ends; with ``tls``, on a second port too."""
    broker = EchoBroker()
    log = LogCapture()
    own = {"listen": ["127.0.0.1:0"], "tls_listen": [] if tls is None else ["127.0.0.1:0"]}
    logger = structlog.wrap_logger(None, processors=[log])
    server = Server(
        settings=ServerSettings.model_validate(own | settings),
        engine=broker,
        factories=[broker.factory()],
        log=logger,
        make_reader=make_reader,
        certificates=None if tls is None else Certificates(tls, wall=time.time, log=logger),
    )
    async with trio.open_nursery() as nursery:
        started = trio.Event()
        nursery.start_soon(server.run, lambda _: started.set())
        await started.wait()
        running = Serving(server, broker, log)
        try:
            yield running
        finally:
            for client in running.clients:
                await trio.aclose_forcefully(client.stream)
        nursery.cancel_scope.cancel()


async def settled() -> None:
    """Let everything that is ready happen, socket events included, without moving the clock."""
    for _ in range(3):
        await trio.testing.wait_all_tasks_blocked(0.005)
