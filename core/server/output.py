"""Output of a socket: what it takes at once is sent at once, and the rest as the socket takes it."""

import os
import socket
from collections.abc import Callable
from typing import NamedTuple

import trio

from core.clock import Now
from core.server.context import ServerContext

PIECES_MAX = os.sysconf("SC_IOV_MAX")
"""The most pieces that one system call sends; 1024 on Linux."""

Piece = bytes | memoryview


class Listeners(NamedTuple):
    """What the owner of the output does when something happens to it."""

    backlog: Callable[[int, Now], None]
    """Bytes wait for the socket, or they no longer do: how many."""
    failed: Callable[[str, Now], None]
    """The socket cannot be written to, for this reason."""


class SocketOutput:
    """The pieces that one socket has not taken, and the task that sends them."""

    __slots__ = ("_listeners", "_shared", "_socket", "_writing", "bytes_out", "unsent", "unsent_bytes")

    def __init__(self, accepted: socket.socket, shared: ServerContext, listeners: Listeners) -> None:
        self.unsent: list[Piece] = []
        self.unsent_bytes = 0
        self.bytes_out = 0
        self._socket = accepted
        self._shared = shared
        self._listeners: Listeners | None = listeners
        self._writing = False

    def send(self, pieces: list[Piece], size: int, now: Now) -> None:
        """Make one non-blocking send of pieces with ``size`` bytes in all, which begin with those that are unsent."""
        try:
            sent = self._socket.send(pieces[0]) if len(pieces) == 1 else self._socket.sendmsg(pieces[:PIECES_MAX])
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            if self._listeners is not None:
                self._listeners.failed(f"writing failed: {error.strerror}", now)
            return
        self.bytes_out += sent
        self._shared.counters.bytes_out += sent
        was_full = bool(self.unsent)
        self.unsent_bytes = size - sent
        self.unsent = pieces_behind(pieces, sent) if sent < size else []
        if self.unsent or was_full:
            self._count_full(was_full, now)
            if self._listeners is not None:
                self._listeners.backlog(self.unsent_bytes, now)
        if self.unsent and not self._writing:
            self._writing = True
            self._shared.nursery.start_soon(self._write)

    def close(self, now: Now) -> None:
        """The socket is about to be closed: drop what is unsent, and the listeners, which refer back. Idempotent."""
        self._listeners = None
        if self.unsent:
            self.unsent, self.unsent_bytes = [], 0
            self._shared.counters.full_sockets.end(now.monotonic)
        if self._writing:
            trio.lowlevel.notify_closing(self._socket)

    async def _write(self) -> None:
        shared = self._shared
        try:
            while self.unsent:
                await trio.lowlevel.wait_writable(self._socket)
                now = shared.clock()
                if self.unsent:
                    self.send(self.unsent, self.unsent_bytes, now)
                shared.pump.turn_soon(now)
        except trio.ClosedResourceError:
            pass
        finally:
            self._writing = False

    def _count_full(self, was_full: bool, now: Now) -> None:
        is_full = bool(self.unsent)
        if is_full and not was_full:
            self._shared.counters.full_sockets.begin(now.monotonic)
        elif was_full and not is_full:
            self._shared.counters.full_sockets.end(now.monotonic)


def pieces_behind(pieces: list[Piece], sent: int) -> list[Piece]:
    """Return what is left of the pieces behind the first ``sent`` bytes."""
    for number, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[number + 1 :]]
        sent -= len(piece)
    return []
