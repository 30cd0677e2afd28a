"""Connects to other nodes, when a connection to one asks for it, and again when it is lost."""

import socket
from collections.abc import Callable
from typing import Protocol

import trio

from core.server.frontends import FrontEnd, PeerInfo

CONNECT_SECONDS_MAX = 3.0
"""A node that has not accepted by then counts as down: another data centre answers in 0.3 s."""


class Dialled(Protocol):
    """A connection to another node, over one socket after the other."""

    host: str
    port: int

    def make(self, info: PeerInfo, touch: Callable[[], None]) -> FrontEnd:
        """The front end for a socket that was just connected."""

    def failed(self, why: str) -> None:
        """The node cannot be reached."""


Adopt = Callable[[socket.socket, Callable[[PeerInfo, Callable[[], None]], FrontEnd]], None]


class Dialling:
    """One task, and one for each connection that is being made."""

    def __init__(self, adopt: Adopt) -> None:
        """``adopt`` serves a connected socket, with a front end that the given function makes."""
        self._adopt = adopt
        self._waiting: list[tuple[Dialled, float]] = []
        self._wanted = trio.Event()

    def __call__(self, connection: Dialled, pause: float) -> None:
        """Connect after a pause, in seconds."""
        self._waiting.append((connection, pause))
        self._wanted.set()

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
        await trio.sleep(pause)
        try:
            connected = await _connected(connection.host, connection.port)
        except OSError as error:
            connection.failed(error.strerror or str(error))
        else:
            self._adopt(connected, connection.make)
        turn()


async def _connected(host: str, port: int) -> socket.socket:
    """Return a connected, non-blocking socket. Raises OSError."""
    with trio.move_on_after(CONNECT_SECONDS_MAX):
        stream = await trio.open_tcp_stream(host, port)
        stream.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kept = socket.socket(fileno=stream.socket.detach())
        kept.setblocking(False)
        return kept
    raise OSError(f"{host}:{port} does not answer")
