"""A TCP proxy that delays bytes, as a long way does: `python -m bench.delay_proxy`.

Each byte arrives half of the round trip after it was sent, in either direction, in order, at any rate. With --jitter,
what is read at a time takes longer by a random time up to that. It never overtakes what was read before it, of this
connection or another, so a long delay holds up all that follows. The proxy needs no rights of root, and no other
packets are touched. It prints its address as one line, and runs until its standard input ends.

Examples:
  python -m bench.delay_proxy --to 127.0.0.1:5672 --round-trip 20
  python -m bench.delay_proxy --to 127.0.0.1:5672 --round-trip 0.5 --listen 127.0.0.1:5700
  python -m bench.delay_proxy --to 127.0.0.1:5672 --round-trip 2 --jitter 40 --seed 7

Exit status: 0; 2 when the command line is wrong or an address cannot be used.
"""

from __future__ import annotations

import argparse
import math
import random
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack

import trio

READ_BYTES = 262_144
HELD_BYTES_MAX = 256 * 2**20
"""What is on the way in one direction of one connection, before the proxy stops reading: 2.5 GB/s for 100 ms."""
TICK = 0.001
"""Seconds. The event loop sleeps in whole milliseconds; a thread sleeps for what is shorter."""


class Way:
    """The bytes that are on their way, of all connections: in the order in which they were read, which is the order in
    which they are due."""

    def __init__(self, seconds: float, jitter: float = 0.0, seed: int = 1) -> None:
        """Bytes take ``seconds``, and longer by up to ``jitter`` seconds."""
        self._seconds = seconds
        self._jitter = jitter
        self._chance = random.Random(seed)
        self._last_due = 0.0
        self._under_way: deque[tuple[float, Direction, bytes]] = deque()
        self._filled = trio.Event()

    def send(self, direction: Direction, data: bytes) -> None:
        """Send bytes on their way; no bytes are the end of the stream."""
        if not (self._seconds or self._jitter):
            direction.arrive(data)
            return
        due = time.monotonic() + self._seconds + self._chance.random() * self._jitter
        self._last_due = due = max(due, self._last_due)
        self._under_way.append((due, direction, data))
        self._filled.set()

    async def run(self) -> None:
        """Let bytes arrive when they are due."""
        while True:
            if not self._under_way:
                self._filled = trio.Event()
                await self._filled.wait()
            left = self._under_way[0][0] - time.monotonic()
            if left > 2 * TICK:
                await trio.sleep(left - TICK)
            elif left > 0:
                await trio.to_thread.run_sync(time.sleep, left)
            else:
                _, direction, data = self._under_way.popleft()
                direction.arrive(data)


class Direction:
    """One direction of one connection."""

    def __init__(self, way: Way, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        self._way = way
        self._source = source
        self._sink = sink
        self._put, self._arrived = trio.open_memory_channel[bytes](math.inf)
        self._held = 0
        self._room = trio.Event()

    def arrive(self, data: bytes) -> None:
        """Bytes have come to the end of their way."""
        self._put.send_nowait(data)

    async def read(self) -> None:
        """Read until the stream ends."""
        data = b"-"
        while data:
            try:
                data = await self._source.receive_some(READ_BYTES)
            except trio.BrokenResourceError:
                data = b""
            self._held += len(data)
            self._way.send(self, data)
            while self._held > HELD_BYTES_MAX:
                self._room = trio.Event()
                await self._room.wait()

    async def write(self) -> None:
        """Write what has arrived, until the end of the stream."""
        async for data in self._arrived:
            try:
                if not data:
                    await self._sink.send_eof()
                    return
                await self._sink.send_all(data)
            except trio.BrokenResourceError:
                return
            self._held -= len(data)
            self._room.set()


async def join(near: trio.SocketStream, host: str, port: int, way: Way) -> None:
    """Serve one connection until both its directions have ended."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(near)
        try:
            far = await trio.open_tcp_stream(host, port)
        except OSError:
            return
        await stack.enter_async_context(far)
        for stream in (near, far):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        nursery = await stack.enter_async_context(trio.open_nursery())
        for direction in (Direction(way, near, far), Direction(way, far, near)):
            nursery.start_soon(direction.read)
            nursery.start_soon(direction.write)


async def serve(listen: tuple[str, int], to: tuple[str, int], way: Way, nursery: trio.Nursery) -> int:
    """Serve in the nursery; bytes take this way in each direction. Returns the port."""
    [listener] = await trio.open_tcp_listeners(listen[1], host=listen[0])

    async def handle(near: trio.SocketStream) -> None:
        await join(near, *to, way)

    nursery.start_soon(way.run)
    nursery.start_soon(trio.serve_listeners, handle, [listener])
    port: int = listener.socket.getsockname()[1]
    return port


async def run(listen: tuple[str, int], to: tuple[str, int], way: Way) -> None:
    """Serve until the standard input ends."""
    async with trio.open_nursery() as nursery:
        port = await serve(listen, to, way, nursery)
        print(f"{listen[0]}:{port}", flush=True)
        await trio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


def address(text: str) -> tuple[str, int]:
    """Host and port. Raises ArgumentTypeError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no host:port")
    return host, int(port)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.delay_proxy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=address, required=True, help="where the broker listens, host:port")
    parser.add_argument("--round-trip", type=float, default=20.0, help="milliseconds (20)")
    parser.add_argument("--jitter", type=float, default=0.0, help="milliseconds, in each direction (0)")
    parser.add_argument("--seed", type=int, default=1, help="of the random times (1)")
    parser.add_argument("--listen", type=address, default=("127.0.0.1", 0), help="host:port; without it a free port")
    asked = parser.parse_args(arguments)
    for name in ("round_trip", "jitter"):
        if not 0 <= getattr(asked, name) <= 60_000:
            parser.error(f"--{name.replace('_', '-')} must be between 0 and 60,000 ms, not {getattr(asked, name):g}")
    way = Way(asked.round_trip / 2000, asked.jitter / 1000, asked.seed)
    try:
        trio.run(run, asked.listen, asked.to, way)
    except* OSError as problems:
        problem = problems.exceptions[0]
        print(f"cannot serve: {problem}", file=sys.stderr)
    else:
        return 0
    return 2


if __name__ == "__main__":
    sys.exit(main())
