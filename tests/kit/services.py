"""Services on a real broker behind memory streams, and commands that note that they were executed."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup, TaskStatus

from amqp10.services import Commands, Service, ServiceOptions, ServiceRequest
from core.interface import Snapshot
from tests.kit.both_libraries import settle
from tests.kit.stream_broker import PATIENT, URL, StreamBroker, stream_broker


class Executed(Commands):
    """The commands of one host: "note" and "safe" (idempotent) note their body, and answer with host and body."""

    def __init__(self, host: str = "") -> None:
        super().__init__()
        self.host = host
        self.bodies: list[object] = []
        self.add("note", self._note, quick=True)
        self.add("safe", self._note, idempotent=True, quick=True)

    def _note(self, request: ServiceRequest) -> object:
        self.bodies.append(request.body)
        return [self.host, request.body]


class Slow(Commands):
    """Commands that run until the test lets them end."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[object] = []
        self.may_end = anyio.Event()
        self.add("note", self._note)
        self.add("safe", self._note, idempotent=True)

    async def _note(self, request: ServiceRequest) -> object:
        self.bodies.append(request.body)
        await self.may_end.wait()
        return request.body


class Together:
    """A broker, and the services that a test opens on it."""

    def __init__(self, broker: StreamBroker, tasks: TaskGroup, options: ServiceOptions) -> None:
        self.broker = broker
        self.options = options
        self._tasks = tasks
        self._scopes: dict[Service, anyio.CancelScope] = {}
        self._before: dict[str, object] = {}

    async def open(self, of_type: str, host: str, commands: Commands | None = None, **chosen: object) -> Service:
        """Run a service in a task of its own until the block ends."""
        service: Service = await self._tasks.start(self._run, self.alone(of_type, host, commands, **chosen))
        await settle()
        self._before = {str(row["name"]): row["published"] for row in self.shown("queues")}
        return service

    async def close(self, service: Service) -> None:
        """End a service as the end of its process does."""
        self._scopes.pop(service).cancel()
        await settle()

    async def _run(self, opening: AbstractAsyncContextManager[Service], task_status: TaskStatus[Service]) -> None:
        with anyio.CancelScope() as scope:
            async with opening as service:
                self._scopes[service] = scope
                task_status.started(service)
                await anyio.sleep_forever()

    def alone(
        self, of_type: str, host: str, commands: Commands | None = None, **chosen: object
    ) -> AbstractAsyncContextManager[Service]:
        """Open a service for a block of the test's own."""
        options = replace(self.options, **chosen)  # type: ignore[arg-type]
        return Service.open(URL, type=of_type, host=host, commands=commands, options=options)

    async def hosts(self, of_type: str, n: int, **chosen: object) -> list[Executed]:
        """Open this many hosts of a type, host1, host2 and so on; returns the commands that each executes."""
        executed = [Executed(f"host{number}") for number in range(1, n + 1)]
        for each in executed:
            await self.open(of_type, each.host, each, **chosen)
        return executed

    def shown(self, kind: str) -> list[Snapshot]:
        """The broker's rows of a kind: queues, exchanges, bindings, consumers."""
        return self.broker.broker.control.snapshot(kind)

    def peers(self, kind: str) -> list[Snapshot]:
        """The front ends' rows of a kind: connections, sessions, links."""
        broker = self.broker.broker
        alive = [served.peer for served in self.broker.served if not served.peer.lost]
        return [row for peer in alive for row in peer.front_end.snapshot(kind, broker.now)]

    def published(self, name: str) -> int:
        """How many messages have come into a queue since the last service was opened, so without the markers of its
        opening."""
        now, before = self.queue(name)["published"], self._before.get(name, 0)
        assert isinstance(now, int)
        assert isinstance(before, int)
        return now - before

    def queue(self, name: str) -> Snapshot:
        """The broker's row of a queue."""
        return next(one for one in self.shown("queues") if one["name"] == name)


@asynccontextmanager
async def together(**chosen: object) -> AsyncIterator[Together]:
    """A broker for the block. Its services connect again after 1, 2, 4 and 8 seconds."""
    async with stream_broker() as broker, anyio.create_task_group() as tasks:
        options = ServiceOptions(client=broker.settings(reconnect=PATIENT))
        yield Together(broker, tasks, replace(options, **chosen))  # type: ignore[arg-type]
        tasks.cancel_scope.cancel()
