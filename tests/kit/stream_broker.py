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

import trio
import trio.testing

from amqp10.client import Backoff, ClientConnection, ClientSettings, connect
from amqp10.serve import Mechanism
from core.access.mechanisms import offered
from core.clock import Now
from core.config.settings import Settings
from tests.kit.logins import from_here, make_access, user
from tests.kit.wire import InProcessBroker, WirePeer

URL = "amqp://guest:guest@broker"
WALL = 1_700_000_000.0


class Served:
    """One connection as the broker has it."""

    def __init__(self, stream: trio.StapledStream, peer: WirePeer) -> None:
        self.stream = stream
        self.peer = peer
        self.has_output = trio.Event()
        self.hears = trio.Event()


class StreamBroker:
    """The broker, and its ends of the client's streams."""

    def __init__(self, nursery: trio.Nursery, settings: Settings | None = None) -> None:
        self.broker = InProcessBroker(settings)
        self.served: list[Served] = []
        self.opened = 0
        """How many streams clients have opened or tried to open."""
        self.down = False
        self.deaf = False
        """While True, connections are accepted and not read."""
        self._nursery = nursery
        self._access = make_access(monotonic=trio.current_time, random_bytes=secrets.token_bytes, anonymous=True)

    def settings(self, **chosen: object) -> ClientSettings:
        """Settings for clients of this broker. They do not reconnect unless ``chosen`` says so."""
        base = ClientSettings(open_stream=self.open_stream, reconnect=None, random_fraction=lambda: 1.0)
        return replace(base, **chosen)  # type: ignore[arg-type]

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        """Open a memory stream in place of a socket."""
        self.opened += 1
        await trio.lowlevel.checkpoint()
        if self.down:
            raise OSError(errno.ECONNREFUSED, "refused")
        near, far = trio.testing.memory_stream_pair()
        mechanisms = offered(self._access, from_here())
        served = Served(far, WirePeer(self.broker, [Mechanism(one) for one in mechanisms]))
        if not self.deaf:
            served.hears.set()
        self.served.append(served)
        self._nursery.start_soon(self._read, served)
        self._nursery.start_soon(self._write, served)
        self._nursery.start_soon(self._tick, served)
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
            served.hears = trio.Event()

    async def hear_again(self) -> None:
        """Read from the connections again."""
        for served in self.served:
            served.hears.set()
        await settle()

    def _tell_time(self) -> None:
        self.broker.now = Now(trio.current_time(), WALL + trio.current_time())

    async def _read(self, served: Served) -> None:
        try:
            while not served.peer.lost and (data := await served.stream.receive_some()):
                await served.hears.wait()
                if served.peer.lost:
                    break
                self._tell_time()
                served.peer.send_bytes(bytes(data))
                self.pump()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self._tell_time()
        served.peer.disconnect()
        self.pump()

    async def _write(self, served: Served) -> None:
        try:
            while True:
                output, served.peer.raw = served.peer.raw, b""
                if output:
                    await served.stream.send_all(output)
                elif served.peer.lost:
                    break
                else:
                    await served.has_output.wait()
                    served.has_output = trio.Event()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        await trio.aclose_forcefully(served.stream)

    async def _tick(self, served: Served) -> None:
        while not served.peer.lost:
            deadline = served.peer.front_end.deadline()
            now = trio.current_time()
            if deadline is not None and deadline <= now:
                self._tell_time()
                served.peer.front_end.tick(self.broker.now)
                self.broker.touch(served.peer)
                self.pump()
            else:
                # A deadline may come closer during the sleep, so look again after a second of the test's time.
                await trio.sleep_until(min(now + 1.0, math.inf if deadline is None else deadline))


@asynccontextmanager
async def stream_broker(settings: Settings | None = None) -> AsyncIterator[StreamBroker]:
    """A broker with a queue "q", for the block."""
    async with trio.open_nursery() as nursery:
        broker = StreamBroker(nursery, settings)
        broker.broker.queue()
        yield broker
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected(**chosen: object) -> AsyncIterator[tuple[StreamBroker, ClientConnection]]:
    """A broker with a queue "q", and a client that is connected to it."""
    async with stream_broker() as broker, connect(URL, broker.settings(**chosen)) as connection:
        yield broker, connection


PATIENT = Backoff(first_s=1.0, longest_s=8.0)
"""Round numbers for tests of reconnecting. With the random fraction of 1.0 the delays are 1, 2, 4, 8, 8 s."""


async def settle() -> None:
    """Let everything happen that can happen without time passing."""
    await trio.testing.wait_all_tasks_blocked(0.0)
