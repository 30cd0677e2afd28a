"""Where the process is put together: configuration in, a running broker out.

Everything that lower rooms must not reach for themselves is handed in here: the clocks, randomness, users, the
protocols that answer on the port, and what the management node may do.
"""

import os
import platform
import random
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from structlog.typing import FilteringBoundLogger

from amqp10.annotation_codec import SectionCodec
from amqp10.connection import Connection, ConnectionSettings
from amqp10.control_plane import BrokerControl
from amqp10.converter import MessageConverter
from amqp10.errors import ConnectionFault, ErrorCondition
from amqp10.framing import PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL
from amqp10.frontend.authentication import Mechanism
from amqp10.frontend.front_end import Amqp10FrontEnd
from amqp10.frontend.settings import FrontEndSettings
from amqp10.handshake import NoHandshake, ServerHandshake
from amqp10.management import ManagementNode
from amqp10.sasl import SaslMechanisms, SaslOutcome, encode_sasl_frame
from amqp10.session import SessionLimits
from core.access.mechanisms import offered
from core.access.users import Users
from core.clock import Now
from core.config import Settings
from core.engine.broker import Broker, EngineSettings
from core.interface import Mailbox
from core.observe.log import open_log
from core.server.data import OpenData
from core.server.descriptors import raise_limit
from core.server.frontends import FrontEnd, FrontEndFactory, PeerInfo
from core.server.measures import Measures, ResidentSet, disk_free, memory_giver, memory_total
from core.server.run import Server, read_clocks
from core.server.run import serve as run_server
from core.server.sampler import Sampler

COMPATIBLE_PRODUCT, COMPATIBLE_VERSION = "RabbitMQ", "4.1.0"
"""What product and version say in our open: the dialect, not the maker. RabbitMQ's own AMQP 1.0 clients talk to nothing
else, and decide by the version which features to use; these are the ones of 4.1. See docs/decisions."""
CAPABILITIES = ("LINK_PAIR_V1_0", "ANONYMOUS-RELAY")
REFUSAL_DELAY_S = (1.0, 3.0)
"""A refused authentication is told after a random time between these: guessing is slow, and costs us nothing."""
UNIQUE_BYTES = 12
SWITCH_SECONDS = 0.0002
"""How long a worker that has synced waits for the interpreter while the loop is busy: with the default of 5 ms, the
longest commits took three times as long."""
LET_IN = encode_sasl_frame(SaslMechanisms(sasl_server_mechanisms=("PLAIN", "ANONYMOUS"))) + encode_sasl_frame(
    SaslOutcome(code=0)
)
"""A SASL layer that ends well whatever the peer says in it."""


def headgate_version() -> str:
    """The version that is installed."""
    try:
        return version("headgate")
    except PackageNotFoundError:
        return "unknown"


def front_end_settings(settings: Settings) -> FrontEndSettings:
    """The part of the configuration that AMQP 1.0 needs, in its own words."""
    own = settings.amqp10
    return FrontEndSettings(
        max_frame_size=own.max_frame_size,
        pre_open_frame_size_max=own.pre_open_frame_size_max,
        channel_max=own.channel_max,
        idle_time_out_ms=round(own.idle_time_out * 1000),
        idle_time_out_min_ms=round(own.idle_time_out_min * 1000),
        close_time_out_ms=round(own.close_time_out * 1000),
        partial_delivery_bytes_max=own.partial_delivery_bytes_max,
        frames_per_turn_max=own.frames_per_turn_max,
        session=SessionLimits(
            max_incoming_window=own.max_incoming_window,
            window_top_up=own.window_top_up,
            incoming_window_margin=own.incoming_window_margin,
            handle_max=own.handle_max,
        ),
        max_message_size=own.max_message_size,
        unsent_bytes_max=own.unsent_bytes_max,
        max_link_credit=own.max_link_credit,
        link_credit_top_up=own.link_credit_top_up,
        unconfirmed_limit=own.unconfirmed_limit,
        management_link_credit=own.management_link_credit,
        management_top_up=own.management_link_credit // 2,
        max_queue_credit=own.max_queue_credit,
        reasons=own.flow_reason.enabled,
        reason_after_ms=round(own.flow_reason.after * 1000),
        reason_interval_ms=1000 // own.flow_reason.per_second_max,
        properties={
            "product": COMPATIBLE_PRODUCT,
            "version": COMPATIBLE_VERSION,
            "information": f"Headgate {headgate_version()}",
            "platform": f"Python {platform.python_version()}",
        },
    )


def connection_settings(settings: FrontEndSettings) -> ConnectionSettings:
    """What the broker announces on a connection."""
    return ConnectionSettings(
        container_id=settings.container_id,
        max_frame_size=settings.max_frame_size,
        channel_max=settings.channel_max,
        idle_time_out_ms=settings.idle_time_out_ms,
        idle_time_out_min_ms=settings.idle_time_out_min_ms,
        close_time_out_ms=settings.close_time_out_ms,
        pre_open_frame_size_max=settings.pre_open_frame_size_max,
        partial_delivery_bytes_max=settings.partial_delivery_bytes_max,
        frames_per_turn_max=settings.frames_per_turn_max,
        unsent_bytes_max=settings.unsent_bytes_max,
        session=settings.session,
        properties=settings.properties,
        offered_capabilities=CAPABILITIES,
    )


def amqp10_factory(
    *, settings: FrontEndSettings, broker: Broker, control: BrokerControl, users: Users, anonymous: bool
) -> FrontEndFactory:
    """AMQP 1.0 for the server's accept loop."""
    node = ManagementNode(broker, control)
    announced = connection_settings(settings)

    def handshake(info: PeerInfo) -> ServerHandshake:
        mechanisms = offered(users, loopback=info.loopback, anonymous=anonymous, random_bytes=secrets.token_bytes)
        return ServerHandshake(
            [Mechanism(mechanism) for mechanism in mechanisms],
            bare_allowed=anonymous,
            refusal_delay_s=lambda: random.uniform(*REFUSAL_DELAY_S),
            frame_size_max=settings.pre_open_frame_size_max,
        )

    def make(info: PeerInfo, notify: Callable[[], None]) -> FrontEnd:
        return Amqp10FrontEnd(
            info,
            mailbox=Mailbox(notify),
            connection=Connection(announced, handshake(info)),
            engine=broker,
            topology=broker,
            management=node,
            settings=settings,
            unique=lambda: secrets.token_hex(UNIQUE_BYTES),
            wake=notify,
        )

    return FrontEndFactory(
        name="amqp-1.0",
        accepts=lambda preface: preface in (PROTOCOL_HEADER_SASL, PROTOCOL_HEADER_AMQP),
        make=make,
        refusal=lambda reason: refusal(announced, reason),
    )


def refusal(settings: ConnectionSettings, reason: str) -> bytes:
    """A whole handshake that ends in a close with the reason, for a peer that cannot be served.

    Nothing the peer says is waited for: whoever it is, it is let in only to be told.
    """

    connection = Connection(settings, NoHandshake())
    fault = ConnectionFault(ErrorCondition.RESOURCE_LIMIT_EXCEEDED, reason)
    connection.close(fault, monotonic=0.0)
    return PROTOCOL_HEADER_SASL + LET_IN + PROTOCOL_HEADER_AMQP + connection.data_to_send(0.0)


def engine_settings(settings: Settings) -> EngineSettings:
    """The part of the configuration that the engine needs."""
    return EngineSettings(
        queue_messages_per_turn=settings.engine.stage_messages_per_turn.queue,
        queues_max=settings.engine.queues_max,
        exchanges_max=settings.engine.exchanges_max,
        bindings_max=settings.engine.bindings_max,
        policies_max=settings.engine.policies_max,
        paging_ratio=settings.alarms.paging_ratio,
    )


async def serve(settings: Settings, *, ready: Callable[[Sequence[tuple[str, int]]], None]) -> None:
    """Run the broker until SIGTERM or SIGINT. ``ready`` hears the addresses once connections are accepted.

    Raises StoreRefused and StoreDamaged for a data folder that cannot be used, StoreFailure for one that fails.
    """
    raise_limit()
    sys.setswitchinterval(SWITCH_SECONDS)
    with open_log(settings.log, sys.stderr, monotonic=time.monotonic) as log:
        clock = read_clocks
        data = OpenData(settings.data.folder, settings.store, clock=clock, log=log, annotations=SectionCodec())
        try:
            await _serve(settings, data, clock, log, ready)
        finally:
            data.close()


async def _serve(
    settings: Settings,
    data: OpenData,
    clock: Callable[[], Now],
    log: FilteringBoundLogger,
    ready: Callable[[Sequence[tuple[str, int]]], None],
) -> None:
    broker = Broker(engine_settings(settings), MessageConverter(), storage=data.storage)
    users = Users(
        settings.users,
        cache_seconds=settings.access.password_cache,
        monotonic=lambda: clock().monotonic,
        random_bytes=secrets.token_bytes,
    )
    control = BrokerControl(broker, version=headgate_version(), pid=os.getpid())
    factory = amqp10_factory(
        settings=front_end_settings(settings),
        broker=broker,
        control=control,
        users=users,
        anonymous=settings.access.anonymous,
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
        factories=[factory],
        log=log,
        clock=clock,
        background=[*data.tasks(broker.alarms), sampler.run],
        sockets_changed=data.sockets_changed,
        store=data.write_inline,
    )
    control.server, control.sampler = server, sampler
    try:
        await run_server(server, ready)
        broker.conclude()
        await data.leave_in_order(server.turn)
    finally:
        resident.close()
