"""Where a broker process is put together: configuration in, a running broker out, whatever protocols it speaks.

Everything that lower rooms must not reach for themselves is handed in here: the clocks, the data folder, users, and the
front ends that answer on the port.
"""

import secrets
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from core.access.users import Users
from core.clock import Now
from core.config import Settings
from core.credit_flow.flow import StageCreditSpec
from core.engine.broker import Broker, EngineSettings
from core.engine.quorum.annotations import AnnotationCodec
from core.interface import Converter
from core.message import Origin
from core.observe.log import open_log
from core.server.data import OpenData
from core.server.descriptors import raise_limit, sockets_limit
from core.server.frontends import FrontEndFactory
from core.server.measures import Measures, ResidentSet, disk_free, memory_giver, memory_total
from core.server.run import Server, read_clocks
from core.server.run import serve as run_server
from core.server.sampler import Sampler

SWITCH_SECONDS = 0.0002
"""How long a worker that has synced waits for the interpreter while the loop is busy: with the default of 5 ms, the
longest commits took three times as long."""
REFUSAL_DELAY_S = (1.0, 3.0)
"""A refused authentication is told after a random time between these: guessing is slow, and costs us nothing."""
UNIQUE_BYTES = 12
"""Of the names that nobody can guess."""


def headgate_version() -> str:
    """The version that is installed."""
    try:
        return version("headgate")
    except PackageNotFoundError:
        return "unknown"


def engine_settings(settings: Settings) -> EngineSettings:
    """The part of the configuration that the engine needs."""
    credit = settings.stage_credit
    return EngineSettings(
        queue_messages_per_turn=settings.engine.stage_messages_per_turn.queue,
        queues_max=settings.engine.queues_max,
        exchanges_max=settings.engine.exchanges_max,
        bindings_max=settings.engine.bindings_max,
        policies_max=settings.engine.policies_max,
        paging_ratio=settings.alarms.paging_ratio,
        stage_credit=StageCreditSpec(credit.initial, credit.more_after),
        store_stage_credit=StageCreditSpec(credit.store_initial, credit.store_more_after),
    )


class Protocols(Protocol):
    """What a broker speaks: whoever composes a process brings this."""

    @property
    def converter(self) -> Converter:
        """Knows the inside of messages."""

    @property
    def annotations(self) -> AnnotationCodec:
        """Keeps what consumers add to messages."""

    @property
    def encodings(self) -> Iterable[Origin]:
        """Those of the messages that it knows."""

    def front_ends(self, settings: Settings, broker: Broker, users: Users) -> Sequence[FrontEndFactory]:
        """The protocols that answer on the port. The first also refuses whoever speaks none of them."""

    def started(self, server: Server, sampler: Sampler) -> None:
        """Everything is put together: for those who show it."""


async def serve(
    settings: Settings, protocols: Protocols, *, ready: Callable[[Sequence[tuple[str, int]]], None]
) -> None:
    """Run the broker until SIGTERM or SIGINT. ``ready`` hears the addresses once connections are accepted.

    Raises StoreRefused and StoreDamaged for a data folder that cannot be used, StoreFailure for one that fails.
    """
    descriptors = raise_limit()
    sys.setswitchinterval(SWITCH_SECONDS)
    with open_log(settings.log, sys.stderr, monotonic=time.monotonic) as log:
        connections = sockets_limit(settings.server.connections_max)
        log.info("descriptor-limit", total_limit=descriptors, sockets_limit=connections)
        clock = read_clocks
        data = OpenData(
            settings.data.folder,
            settings.store,
            clock=clock,
            log=log,
            annotations=protocols.annotations,
            encodings=protocols.encodings,
        )
        try:
            await _serve(settings, protocols, data, clock, log, ready)
        finally:
            data.close()


async def _serve(
    settings: Settings,
    protocols: Protocols,
    data: OpenData,
    clock: Callable[[], Now],
    log: FilteringBoundLogger,
    ready: Callable[[Sequence[tuple[str, int]]], None],
) -> None:
    broker = Broker(engine_settings(settings), protocols.converter, storage=data.storage)
    users = Users(
        settings.users,
        cache_seconds=settings.access.password_cache,
        monotonic=lambda: clock().monotonic,
        random_bytes=secrets.token_bytes,
    )
    resident = ResidentSet()
    sampler = Sampler(
        settings=settings.alarms,
        registry=broker.alarms,
        measures=Measures(
            memory_used=resident,
            memory_total=memory_total,
            disk_free=partial(disk_free, settings.data.folder),
            sockets=lambda: server.sockets,
            give_back=memory_giver(),
        ),
        clock=clock,
        memory_sampled=broker.memory_sampled,
        log=log,
    )
    server = Server(
        settings=settings.server,
        engine=broker,
        factories=protocols.front_ends(settings, broker, users),
        log=log,
        clock=clock,
        background=[*data.tasks(broker.alarms), sampler.run],
        sockets_changed=data.sockets_changed,
        store=data.write_inline,
    )
    protocols.started(server, sampler)
    try:
        await run_server(server, ready)
        broker.conclude()
        await data.leave_in_order(server.turn)
    finally:
        resident.close()
