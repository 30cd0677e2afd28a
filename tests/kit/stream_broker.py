"""A real broker for the client's tests, behind memory streams: no socket, and time is the test's clock.

:class:`StreamBroker` puts :class:`tests.kit.wire.InProcessBroker` at the other end of the streams that the client
opens. A test can take the broker down, cut connections, and stop it from reading; everything else is the real broker.
"""

import errno
import math
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from amqp10.client import Backoff, ClientConnection, ClientSettings, connect
from amqp10.serve import Mechanism
from core.access.mechanisms import offered
from core.clock import Now
from core.config.settings import Settings
from tests.kit.both_libraries import settle
from tests.kit.logins import from_here, make_access, user
from tests.kit.memory_streams import MemoryStream, stream_pair
from tests.kit.wire import InProcessBroker, WirePeer

URL = "amqp://guest:guest@broker"
WALL = 1_700_000_000.0


class Served:
    """One connection as the broker has it."""

    def __init__(self, stream: MemoryStream, peer: WirePeer) -> None:
        self.stream = stream
        self.peer = peer
        self.has_output = anyio.Event()
        self.hears = anyio.Event()


class StreamBroker:
    """The broker, and its ends of the client's streams."""

    def __init__(self, tasks: TaskGroup, settings: Settings | None = None, *, durable: bool = False) -> None:
        """``durable``: with streams and quorum queues, on a disk in memory."""
        self.broker = InProcessBroker(settings, durable=durable)
        self.served: list[Served] = []
        self.opened = 0
        """How many streams clients have opened or tried to open."""
        self.down = False
        self.deaf = False
        """While True, connections are accepted and not read."""
        self.silent = False
        """While True, clients get nothing, and no heartbeats either: as of a process that stands still."""
        self._tasks = tasks
        self._access = make_access(monotonic=anyio.current_time, random_bytes=secrets.token_bytes, anonymous=True)

    def settings(self, **chosen: object) -> ClientSettings:
        """Settings for clients of this broker. They do not reconnect unless ``chosen`` says so."""
        base = ClientSettings(open_stream=self.open_stream, reconnect=None, random_fraction=lambda: 1.0)
        return replace(base, **chosen)  # type: ignore[arg-type]

    async def open_stream(self, host: str, port: int) -> MemoryStream:
        """Open a memory stream in place of a socket."""
        self.opened += 1
        await anyio.lowlevel.checkpoint()
        if self.down:
            raise OSError(errno.ECONNREFUSED, "refused")
        near, far = stream_pair()
        mechanisms = offered(self._access, from_here())
        served = Served(far, WirePeer(self.broker, [Mechanism(one) for one in mechanisms]))
        if not self.deaf:
            served.hears.set()
        self.served.append(served)
        self._tasks.start_soon(self._read, served)
        self._tasks.start_soon(self._write, served)
        self._tasks.start_soon(self._tick, served)
        return near

    def pump(self) -> None:
        """Let the broker finish what a test or a client began, and send what came of it."""
        self._tell_time()
        self.broker.run()
        for served in self.served:
            served.has_output.set()

    def cut(self) -> None:
        """Cut every connection, without a closing frame."""
        for served in self.served:
            if not served.peer.lost:
                self._tell_time()
                served.peer.disconnect()
                served.hears.set()
        self.pump()

    def change_users(self) -> None:
        """Change the password of the user, so that the old one is refused."""
        self._access.users.replace([user("guest", "another")])

    def make_deaf(self) -> None:
        """Read nothing more from the connections that exist; output that is ready is still sent."""
        for served in self.served:
            served.hears = anyio.Event()

    async def hear_again(self) -> None:
        """Read from the connections again."""
        for served in self.served:
            served.hears.set()
        await settle()

    def _tell_time(self) -> None:
        self.broker.now = Now(anyio.current_time(), WALL + anyio.current_time())

    async def _read(self, served: Served) -> None:
        try:
            while not served.peer.lost and (data := await served.stream.receive()):
                await served.hears.wait()
                if served.peer.lost:
                    break
                self._tell_time()
                served.peer.send_bytes(data)
                self.pump()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        self._tell_time()
        served.peer.disconnect()
        self.pump()

    async def _write(self, served: Served) -> None:
        try:
            while True:
                output = b""
                if not self.silent:
                    output, served.peer.raw = served.peer.raw, b""
                if output:
                    await served.stream.send(output)
                elif served.peer.lost:
                    break
                else:
                    await served.has_output.wait()
                    served.has_output = anyio.Event()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        await anyio.aclose_forcefully(served.stream)

    async def _tick(self, served: Served) -> None:
        while not served.peer.lost:
            deadline = served.peer.front_end.deadline()
            now = anyio.current_time()
            if deadline is not None and deadline <= now:
                self._tell_time()
                served.peer.front_end.tick(self.broker.now)
                self.broker.touch(served.peer)
                self.pump()
            else:
                # A deadline may come closer during the sleep, so look again after a second of the test's time.
                await anyio.sleep_until(min(now + 1.0, math.inf if deadline is None else deadline))


@asynccontextmanager
async def stream_broker(settings: Settings | None = None, *, durable: bool = False) -> AsyncIterator[StreamBroker]:
    """A broker with a queue "q", for the block."""
    async with anyio.create_task_group() as tasks:
        broker = StreamBroker(tasks, settings, durable=durable)
        broker.broker.queue()
        yield broker
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def connected(**chosen: object) -> AsyncIterator[tuple[StreamBroker, ClientConnection]]:
    """A broker with a queue "q", and a client that is connected to it."""
    async with stream_broker() as broker, connect(URL, broker.settings(**chosen)) as connection:
        yield broker, connection


PATIENT = Backoff(first_s=1.0, longest_s=8.0)
"""Round numbers for tests of reconnecting. With the random fraction of 1.0 the delays are 1, 2, 4, 8, 8 s."""
