"""Connects to other nodes, when a connection to one asks for it, and again when it is lost."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import trio

from core.config.address import UNIX
from core.errors import Invalid
from core.server.frontends import FrontEnd, PeerInfo
from core.server.node_sockets import connect_to
from core.server.node_tls import NodeTls
from core.server.tls import TlsFailed, Tunnel

CONNECT_SECONDS_MAX = 3.0
"""A node that has not accepted, and completed the TLS handshake, by then counts as down: another data centre does so
in 0.6 s."""

LOCAL_PAUSE_S = 0.2
"""The longest pause before another try to reach a process of this machine: it has ended, and is started again. A try
costs nothing."""


class Dialled(NamedTuple):
    """A connection to another node, over one socket after the other."""

    node: str
    host: str
    port: int
    make: Callable[[PeerInfo, Callable[[], None], Tunnel | None], FrontEnd]
    """Makes the front end for a socket that was just connected, over TLS if there is a tunnel."""
    failed: Callable[[str], None]
    """Called when the node cannot be reached, with the reason."""


Adopt = Callable[[socket.socket, Callable[[PeerInfo, Callable[[], None]], FrontEnd], Tunnel | None], None]


class Dialling:
    """One task, and one for each connection that is being made. Methods are for the thread of the event loop."""

    def __init__(self, adopt: Adopt, tls: NodeTls | None = None) -> None:
        """``adopt`` serves a connected socket, with a front end that the given function makes, over TLS if there is
        ``tls``."""
        self.refused: Callable[[str, str, int], None] = lambda node, host, port: None
        """Called when the address of a node refuses a connection, with its name, host and port: no process listens
        there."""
        self._adopt = adopt
        self._tls = tls
        self._hurries: dict[str, trio.Event] = {}
        """For each node, what ends the pauses before another try to reach it."""
        self._waiting: list[tuple[Dialled, float]] = []
        self._wanted = trio.Event()

    def __call__(self, connection: Dialled, pause: float) -> None:
        """Connect after a pause, in seconds."""
        self._waiting.append((connection, pause))
        self._wanted.set()

    def hurry(self, node: str) -> None:
        """Have a node tried now that has a pause before another try: it is back."""
        hurry = self._hurries.pop(node, None)
        if hurry is not None:
            hurry.set()

    async def run(self, turn: Callable[[], None]) -> None:
        """Connect what is to be connected, for ever."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._wanted.wait()
                self._wanted = trio.Event()
                waiting, self._waiting = self._waiting, []
                for connection, pause in waiting:
                    nursery.start_soon(self._connect, connection, pause, turn)

    async def _connect(self, connection: Dialled, pause: float, turn: Callable[[], None]) -> None:
        pause = min(pause, LOCAL_PAUSE_S) if connection.host.startswith(UNIX) else pause
        with trio.move_on_after(pause):
            await self._hurries.setdefault(connection.node, trio.Event()).wait()
        try:
            connected, tunnel = await self._connected(connection)
        except OSError as error:
            connection.failed(error.strerror or str(error))
            if is_refusal(error):
                self.refused(connection.node, connection.host, connection.port)
        except (TlsFailed, Invalid, trio.BrokenResourceError) as error:
            connection.failed(str(error) or "the TLS handshake broke off")
        else:
            self._adopt(connected, lambda info, touch: connection.make(info, touch, tunnel), tunnel)
        turn()

    async def _connected(self, connection: Dialled) -> tuple[socket.socket, Tunnel | None]:
        """Return a connected, non-blocking socket, and its TLS. Raises OSError, TlsFailed, Invalid, and
        trio.BrokenResourceError when the connection breaks."""
        host, port, tunnel = connection.host, connection.port, None
        if host.startswith(UNIX):
            return connect_to(Path(host.removeprefix(UNIX))), None
        with trio.move_on_after(CONNECT_SECONDS_MAX):
            stream = await trio.open_tcp_stream(host, port)
            try:
                stream.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    tunnel = await self._tls.secure(stream, connection.node)
                kept = socket.socket(fileno=stream.socket.detach())
            finally:
                stream.socket.close()
            kept.setblocking(False)
            return kept, tunnel
        raise OSError(f"{host}:{port} does not answer")


def is_refusal(error: OSError) -> bool:
    """Whether an attempt to connect has failed because no process listens there. A name of a host may have several
    addresses: all of them refuse then."""
    if isinstance(error.__cause__, ExceptionGroup):
        return all(isinstance(one, ConnectionRefusedError) for one in error.__cause__.exceptions)
    return isinstance(error, ConnectionRefusedError)
