"""Where a broker process is put together: configuration in, a running broker out, whatever protocols it speaks.

Everything that lower rooms must not reach for themselves is handed in here: the clocks, the data folder, users, and the
front ends that answer on the port.
"""

import gc
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Protocol

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
from core.observe.stalls import StallLog, Stalls
from core.server.data import OpenData
from core.server.descriptors import raise_limit, sockets_limit
from core.server.frontends import FrontEndFactory
from core.server.measures import Measures, ResidentSet, disk_free, memory_giver, memory_total
from core.server.run import Server, read_clocks
from core.server.run import serve as run_server
from core.server.sampler import Sampler
from core.server.stall_rounds import StallRounds
from core.server.traffic import Traffic

if TYPE_CHECKING:
    from core.admin.serving import AdminServer

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

    @property
    def traffic(self) -> Mapping[str, Traffic]:
        """What the connections of each protocol count in, by the names that metrics give to protocols."""

    def front_ends(self, settings: Settings, broker: Broker, users: Users, stalls: Stalls) -> Sequence[FrontEndFactory]:
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
    stalls = Stalls(clock=clock, listeners=[StallLog(log)])
    resident, give_back = ResidentSet(), memory_giver()
    sampler = Sampler(
        settings=settings.alarms,
        registry=broker.alarms,
        measures=Measures(
            memory_used=resident,
            memory_total=memory_total,
            disk_free=partial(disk_free, settings.data.folder),
            sockets=lambda: server.sockets,
            give_back=give_back,
        ),
        clock=clock,
        memory_sampled=broker.memory_sampled,
        log=log,
    )
    admin: AdminServer | None = None

    async def serve_admin(turn: Callable[[], None]) -> None:
        if admin is not None:
            await admin.run()

    server = Server(
        settings=settings.server,
        engine=broker,
        factories=protocols.front_ends(settings, broker, users, stalls),
        log=log,
        clock=clock,
        background=[*data.tasks(broker.alarms), sampler.run, StallRounds(stalls).run, serve_admin],
        sockets_changed=data.sockets_changed,
        store=data.write_inline,
    )
    protocols.started(server, sampler)
    gc.collect()  # what the start has left behind is a few MiB
    give_back()
    try:
        if settings.admin.enabled:
            admin = await _open_admin(
                settings,
                broker=broker,
                server=server,
                data=data,
                sampler=sampler,
                traffic=protocols.traffic,
                log=log,
            )
        await run_server(server, ready)
        broker.conclude()
        await data.leave_in_order(server.turn)
    finally:
        if admin is not None:
            admin.close()
        resident.close()


async def _open_admin(
    settings: Settings,
    *,
    broker: Broker,
    server: Server,
    data: OpenData,
    sampler: Sampler,
    traffic: Mapping[str, Traffic],
    log: FilteringBoundLogger,
) -> "AdminServer":
    """The admin server, listening. Its code is loaded here, so that a broker without one does not pay for it."""
    from core.admin.health import Health
    from core.admin.start import open_admin_server
    from core.observe.link_metrics import LinkMetrics
    from core.observe.metric_sources import MetricSources
    from core.observe.metrics import BrokerMetrics

    sources = MetricSources(
        broker=broker,
        server=server,
        connections=server.connections,
        traffic=traffic,
        lanes=data.lanes,
        lag=sampler,
        monotonic=time.monotonic,
    )
    limits = {
        "queues": settings.engine.queues_max,
        "exchanges": settings.engine.exchanges_max,
        "bindings": settings.engine.bindings_max,
        "policies": settings.engine.policies_max,
        "unauthenticated": settings.server.unauthenticated_max,
    }
    metrics = BrokerMetrics(
        sources,
        addresses_max=settings.metrics.addresses_max,
        version=headgate_version(),
        node=f"headgate@{socket.gethostname()}",
        limits=limits,
    )
    return await open_admin_server(
        settings.admin,
        health=Health(
            observable=broker,
            started=lambda: bool(server.listening_on),
            draining=lambda: server.stopping,
        ),
        collect=metrics.collect,
        collect_links=LinkMetrics(server.connections).collect,
        log=log,
    )
