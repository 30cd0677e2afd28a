"""The first node's service for all nodes on one port, itself among them: it puts the changes of definitions in order.

It tells every node the number of the last change at once, and up to which number all of them have made the changes. A
node that is connected and does not make a change within :data:`LATE_S` is not waited for.
"""

import secrets
import socket
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import TypeVar

import trio
from structlog.typing import FilteringBoundLogger

from core.cluster.definitions_engine import KEPT, PAGE, READ_MAX
from core.server.node_sockets import is_same_user, listen_at
from core.server.order_frames import BrokenOff, Frame, FrameReader, FrameWriter
from core.store.errors import StoreFailure
from core.store.order_database import FILE, OrderDatabase

IDENTITY_BYTES = 16
LATE_S = 1.0
"""How long a client waits, at most, because one node does not make a change: it is busy, or stands still."""
LOOK_S = 0.25
BACKLOG = 64
"""As many nodes as there may be."""
UNSENT_BYTES_MAX = 65_536
"""A node that has more than this to read is told no further numbers until it has read some of it."""
Found = TypeVar("Found")


class _Node:
    """A connection of one node."""

    def __init__(self, writer: FrameWriter) -> None:
        self.writer = writer
        self.made = -1
        """Up to which change; -1 before it has read the state."""
        self.behind_since = inf
        """Since when it has made no change, although there are some; infinity if there are none."""
        self.told = (-1, -1)

    def counts(self, now: float) -> bool:
        """Whether clients wait until it has made a change."""
        return self.made >= 0 and now < self.behind_since + LATE_S


class OrderService:
    """The service, over the file in the first node's data folder."""

    def __init__(self, folder: Path, listen: Path, log: FilteringBoundLogger) -> None:
        """``listen``: where its socket is. Raises StoreDamaged, StoreFailure, OSError."""
        self._database = OrderDatabase(folder / FILE, kept=KEPT, identity=secrets.token_hex(IDENTITY_BYTES))
        self._log = log
        self._nodes: dict[_Node, None] = {}
        self._one_at_a_time = trio.Lock()
        try:
            self._listening = listen_at(listen, BACKLOG)
        except BaseException:
            self._database.close()
            raise

    async def run(self, turn: Callable[[], None]) -> None:
        """Serve until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._look)
                while True:
                    await trio.lowlevel.wait_readable(self._listening)
                    try:
                        self._admit(self._listening.accept()[0], nursery)
                    except OSError:  # it has gone meanwhile, or there are no descriptors left
                        await trio.sleep(LOOK_S)
        finally:
            self.close()

    def close(self) -> None:
        """Close the socket and the file."""
        self._listening.close()
        self._database.close()

    def _admit(self, accepted: socket.socket, nursery: trio.Nursery) -> None:
        if is_same_user(accepted):
            accepted.setblocking(False)
            nursery.start_soon(self._serve, trio.SocketStream(trio.socket.from_stdlib_socket(accepted)))
        else:
            accepted.close()
            self._log.warning("order-refused", reason="the process is that of another user")

    async def _look(self) -> None:
        while True:
            await trio.sleep(LOOK_S)
            self._tell()

    async def _serve(self, stream: trio.SocketStream) -> None:
        node = _Node(FrameWriter(stream))
        self._nodes[node] = None
        self._tell()
        try:
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(node.writer.run)
                reader = FrameReader(stream)
                while True:
                    await self._answer(node, await reader.next())
        except* BrokenOff:
            pass
        finally:
            del self._nodes[node]
            self._tell()

    async def _answer(self, node: _Node, frame: Frame) -> None:
        match frame:
            case ["made", int(number)]:
                node.made, node.behind_since = number, inf
                self._tell()
            case ["put", int(id_), int(number), bytes(data), list(operations), int(known)]:
                await self._put(node, id_, number, data, operations, known)
            case ["read", int(id_), int(known)]:
                await self._read(node, id_, known)
            case ["state", int(id_)]:
                await self._send_state(node, id_)
            case _:
                raise BrokenOff("a request that makes no sense")

    async def _put(
        self, node: _Node, id_: int, number: int, data: bytes, operations: list[list[bytes]], known: int
    ) -> None:
        try:
            there = await self._in_thread(
                partial(self._database.put, number, data, [(key, end, value) for key, end, value in operations])
            )
        except StoreFailure as error:
            self._log.error("order-not-kept", reason=str(error))
            node.writer.put("failed", id_, str(error))
            return
        if there:
            node.writer.put("put", id_)
            self._tell()
        else:
            await self._read(node, id_, known)

    async def _read(self, node: _Node, id_: int, known: int) -> None:
        changes = await self._in_thread(partial(self._database.changes, known, READ_MAX))
        node.writer.put("read", id_, self._database.latest, [list(one) for one in changes])

    async def _send_state(self, node: _Node, id_: int) -> None:
        number, keys = await self._in_thread(self._database.state)
        for start in range(0, len(keys), PAGE):
            node.writer.put("keys", id_, [list(one) for one in keys[start : start + PAGE]])
            await trio.lowlevel.checkpoint()
        node.writer.put("state", id_, number)

    async def _in_thread(self, work: Callable[[], Found]) -> Found:
        async with self._one_at_a_time:
            return await trio.to_thread.run_sync(work)

    @property
    def _now(self) -> tuple[int, int]:
        """The last change, and up to which one all nodes have made them."""
        latest, now = self._database.latest, trio.current_time()
        for node in self._nodes:
            if node.made >= latest:
                node.behind_since = inf
            elif node.behind_since == inf:
                node.behind_since = now
        return latest, min((node.made for node in self._nodes if node.counts(now)), default=latest)

    def _tell(self) -> None:
        now = self._now
        for node in self._nodes:
            if node.told != now and node.writer.waiting < UNSENT_BYTES_MAX:
                node.told = now
                node.writer.put("order", self._database.identity, *now)
