"""Builds the AMQP 1.0 front end for the server, and the whole broker with both protocols.

The front end gets everything that is outside of it from here: randomness, users, and the operations of the management
node.
"""

import os
import platform
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from amqp10.addresses import named_queue
from amqp10.conversion.annotation_codec import SectionCodec
from amqp10.conversion.converter import MessageConverter
from amqp10.errors import ConnectionFault, ErrorCondition
from amqp10.frontend.failover import leader_told, no_leader, other_nodes_property
from amqp10.frontend.far_clients import NODE_KEY
from amqp10.frontend.flow_self import packet_message
from amqp10.frontend.front_end import Amqp10FrontEnd
from amqp10.frontend.publisher_windows import PublisherWindows
from amqp10.management.node import ManagementNode
from amqp10.protocol.connection import Connection
from amqp10.protocol.handshake import NoHandshake, ServerHandshake
from amqp10.protocol.sasl import (
    OUTCOME_SYS_TEMP,
    AnswerPending,
    Challenge,
    Failure,
    SaslMechanisms,
    SaslOutcome,
    Success,
    encode_sasl_frame,
)
from amqp10.protocol.settings import ConnectionSettings, SessionLimits
from amqp10.wire.framing import PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL
from core import process
from core.access import exchange
from core.access.checked_engine import CheckedEngine
from core.access.login import Access, LoginPeer
from core.access.logins import Logins
from core.access.mechanisms import offered, withheld
from core.access.rights import no_rights
from core.amqp091.factory import amqp091_factory
from core.amqp091.plain_messages import PlainMessages
from core.cluster.digest_homes import marked
from core.config import Settings
from core.config.address import UNIX, is_loopback, parse_address, parse_node_address
from core.config.amqp10 import Amqp10Settings
from core.config.cluster import ClusterSettings
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.engine.broker import Broker
from core.engine.forwarding.nodes import HomeNode
from core.engine.machinery import no_nodes
from core.engine.virtual_hosts import VirtualHosts
from core.interface import Converter, Mailbox
from core.message import Origin
from core.observe.flow_events.recorder import FlowEvents
from core.observe.stalls import Stalls
from core.operations.on_request import OperationsOnRequest
from core.order_position import OrderPosition
from core.process import REFUSAL_DELAY_S, UNIQUE_BYTES, headgate_version
from core.server.dialling import Dialling
from core.server.drain import DRAINED
from core.server.frontends import FrontEnd, FrontEndFactory, PeerInfo, login_peer
from core.server.signals import Signals

if TYPE_CHECKING:
    from amqp10.forwarding.node_connection import Dial, FarNode

COMPATIBLE_PRODUCT, COMPATIBLE_VERSION = "RabbitMQ", "4.1.0"
"""The product and version in our open name RabbitMQ, because RabbitMQ's own AMQP 1.0 clients refuse other servers. They
also decide by the version which features to use; these are the features of 4.1. See docs/decisions."""
CONTAINER_ID = "headgate"
CAPABILITIES = ("LINK_PAIR_V1_0", "ANONYMOUS-RELAY")
NODE_WINDOW = 8192
"""Transfers that another node may send on a session before it gets our next flow: eight batches of a consumer. Link
credit is what bounds them, and all of it is that of clients."""
LET_IN = encode_sasl_frame(SaslMechanisms(sasl_server_mechanisms=("PLAIN", "ANONYMOUS"))) + encode_sasl_frame(
    SaslOutcome(code=0)
)
"""A SASL exchange that succeeds whatever the peer sends in it."""


def connection_settings(settings: Amqp10Settings) -> ConnectionSettings:
    """What the broker announces on a connection, and its limits."""
    return ConnectionSettings(
        container_id=CONTAINER_ID,
        max_frame_size=settings.max_frame_size,
        channel_max=settings.channel_max,
        idle_time_out_ms=round(settings.idle_time_out * 1000),
        idle_time_out_min_ms=round(settings.idle_time_out_min * 1000),
        close_time_out_ms=round(settings.close_time_out * 1000),
        pre_open_frame_size_max=settings.pre_open_frame_size_max,
        partial_delivery_bytes_max=settings.partial_delivery_bytes_max,
        frames_per_turn_max=settings.frames_per_turn_max,
        unsent_bytes_max=settings.unsent_bytes_max,
        session=SessionLimits(
            max_incoming_window=settings.max_incoming_window,
            window_top_up=settings.window_top_up,
            incoming_window_margin=settings.incoming_window_margin,
            unsettled_limit=settings.unsettled_limit,
            handle_max=settings.handle_max,
        ),
        properties={
            "product": COMPATIBLE_PRODUCT,
            "version": COMPATIBLE_VERSION,
            "information": f"Headgate {headgate_version()}",
            "platform": f"Python {platform.python_version()}",
        },
        offered_capabilities=CAPABILITIES,
    )


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism of :mod:`core.access` as a :class:`amqp10.protocol.sasl.SaslServerMechanism`."""

    inner: exchange.SaslMechanism

    @property
    def name(self) -> str:
        """The name as registered with IANA."""
        return self.inner.name

    def start(self) -> "LoginAttempt":
        """Begin an attempt."""
        return LoginAttempt(self.inner.start())


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """One attempt to log in: replies of :mod:`core.access` become the classes of the SASL layer."""

    inner: exchange.SaslExchange

    def respond(self, response: bytes) -> Challenge | Success | Failure | AnswerPending:
        """Answer a response of the peer."""
        kind, data = self.inner.respond(response)
        match kind:
            case "success":
                return Success(data.decode())
            case "challenge":
                return Challenge(data)
            case "wait":
                return AnswerPending()
            case "later":
                return Failure("too many logins have failed or wait", OUTCOME_SYS_TEMP)
            case "failure":
                return Failure("the credentials are wrong")


def management_node(broker: Broker, control: BrokerControl) -> ManagementNode:
    """The management node of a broker, with every operation of :mod:`core.operations`."""
    control.queue_of_address = named_queue
    return ManagementNode(control, OperationsOnRequest("/headgate", broker.work).table, broker.machinery.homes)


def amqp10_factory(
    *,
    settings: Settings,
    broker: Broker,
    control: BrokerControl,
    converter: Converter,
    access: Access,
    stalls: Stalls,
    traffic: Traffic | None = None,
    flow: FlowEvents | None = None,
) -> FrontEndFactory:
    """The AMQP 1.0 front end, for the server's accept loop."""
    node = management_node(broker, control)
    announced = connection_settings(settings.amqp10)
    logins = Logins() if traffic is None else traffic.logins
    windows = PublisherWindows(settings.amqp10)
    mark = name_mark(settings.cluster)

    def connection(peer: LoginPeer) -> Connection:
        login_bytes, own = access.largest_login(announced.pre_open_frame_size_max), announced
        if login_bytes != own.pre_open_frame_size_max:
            own = replace(announced, pre_open_frame_size_max=login_bytes)
        if (other_nodes := broker.machinery.other_nodes) is not no_nodes:
            own = replace(own, more_properties=partial(other_nodes_property, other_nodes, peer))
        return Connection(own, handshake(peer, own.pre_open_frame_size_max))

    def handshake(peer: LoginPeer, frame_size_max: int) -> ServerHandshake:
        return ServerHandshake(
            [Mechanism(mechanism) for mechanism in logins.counting(offered(access, peer))],
            withheld=withheld(access, peer),
            not_offered=partial(access.not_offered, peer),
            bare_allowed=access.anonymous and peer.node_names is None,
            refusal_delay_s=partial(random.uniform, *REFUSAL_DELAY_S),
            frame_size_max=frame_size_max,
        )

    def leader(peer: LoginPeer) -> Callable[[str | None], dict[str, object]]:
        if not settings.cluster.node:
            return no_leader  # a broker alone
        return partial(leader_told, broker.machinery.homes.clients_of, peer)

    def make(info: PeerInfo, notify: Callable[[], None]) -> FrontEnd:
        peer = login_peer(access, info, notify, protocol="amqp-1.0")
        return Amqp10FrontEnd(
            info,
            mailbox=Mailbox(notify),
            connection=connection(peer),
            engine=CheckedEngine(broker, no_rights(""), peer.audit),
            converter=converter,
            management=node,
            stalls=stalls,
            settings=settings,
            unique=lambda: mark(secrets.token_hex(UNIQUE_BYTES)),
            wake=notify,
            traffic=traffic,
            flow=flow,
            work=broker.work,
            rights_of=partial(access.rights_of, peer),
            hosts=control.hosts,
            windows=windows,
            order=broker.machinery.order,
            leader=leader(peer),
        )

    return FrontEndFactory(
        name="amqp-1.0",
        accepts=lambda preface: preface in (PROTOCOL_HEADER_SASL, PROTOCOL_HEADER_AMQP),
        make=make,
        refusal=lambda reason: refusal(announced, reason),
        for_nodes=True,
    )


def far_nodes(settings: Settings, converter: Converter, dial: "Dial") -> Mapping[str, HomeNode]:
    """The other nodes of the cluster by name; ``dial`` connects to them."""
    order = OrderPosition()  # where addresses are in the configuration, definitions are not in an order that is read
    return {
        one.name: far_node(settings, converter, dial, order, one.name, one.address) for one in settings.cluster.nodes
    }


def far_node(
    settings: Settings, converter: Converter, dial: "Dial", order: OrderPosition, name: str, address: str
) -> "FarNode":
    """Another node of the cluster; ``dial`` connects to it. ``order``: how far this node is."""
    from amqp10.forwarding.node_connection import FarNode  # here and not above: most brokers are alone

    announced = connection_settings(settings.amqp10)
    announced = replace(
        announced,
        container_id=f"{CONTAINER_ID} {settings.cluster.node}",
        properties={NODE_KEY: settings.cluster.node},
        run_frames_max=max(announced.run_frames_max, settings.amqp10.queue_grant_max),
        session=replace(
            announced.session,
            max_incoming_window=max(NODE_WINDOW, announced.session.max_incoming_window),
            window_top_up=max(NODE_WINDOW // 2, announced.session.window_top_up),
        ),
    )

    def hosted(hostname: str) -> ConnectionSettings:
        return replace(announced, hostname=hostname)

    return FarNode(
        name=name,
        address=parse_node_address(address),
        settings=hosted,
        converter=converter,
        dial=dial,
        order=order,
        certified=settings.cluster.certificate is not None or address.startswith(UNIX),
    )


def name_mark(cluster: ClusterSettings) -> Callable[[str], str]:
    """Return what is done to the parts of names that no client can guess. Among several processes on one port they end
    with the number of the node."""
    return (lambda random_part: marked(random_part, cluster.node)) if cluster.first_node else str


def refusal(settings: ConnectionSettings, reason: str) -> bytes:
    """The bytes of a whole handshake that ends in a close with the reason, for a peer that cannot be served.

    They can be sent at once: no bytes of the peer are needed, and its authentication always succeeds.
    """

    connection = Connection(settings, NoHandshake())
    drained = reason == DRAINED
    condition = ErrorCondition.CONNECTION_FORCED if drained else ErrorCondition.RESOURCE_LIMIT_EXCEEDED
    fault = ConnectionFault(condition, reason)
    connection.close(fault, monotonic=0.0)
    return PROTOCOL_HEADER_SASL + LET_IN + PROTOCOL_HEADER_AMQP + connection.data_to_send(0.0)


class AllProtocols:
    """Implements :class:`core.process.Protocols` with AMQP 1.0, AMQP 0.9.1, and the conversion between them."""

    def __init__(self) -> None:
        self.converter = MessageConverter()
        self.annotations = SectionCodec()
        self.encodings = tuple(Origin)
        self.traffic = {"amqp10": Traffic(), "amqp091": Traffic()}
        self._control: BrokerControl | None = None

    def front_ends(
        self, settings: Settings, hosts: VirtualHosts, access: Access, stalls: Stalls, flow: FlowEvents
    ) -> Sequence[FrontEndFactory]:
        """The front ends of both protocols. AMQP 1.0 is first, because the first one refuses peers of unknown
        protocols."""
        broker = hosts.default
        self._control = BrokerControl(broker, version=headgate_version(), pid=os.getpid(), stalls=stalls, hosts=hosts)
        self._control.message_forms = PlainMessages(self.converter)
        return (
            amqp10_factory(
                settings=settings,
                broker=broker,
                control=self._control,
                converter=self.converter,
                access=access,
                stalls=stalls,
                traffic=self.traffic["amqp10"],
                flow=flow,
            ),
            amqp091_factory(
                settings=settings,
                work=broker.work,
                engine=broker,
                hosts=hosts,
                converter=self.converter,
                access=access,
                stalls=stalls,
                mark=name_mark(settings.cluster),
                random_bytes=secrets.token_bytes,
                traffic=self.traffic["amqp091"],
                flow=flow,
            ),
        )

    def nodes(self, settings: Settings, dial: Dialling) -> Mapping[str, HomeNode]:
        """The other nodes of the cluster, reached over AMQP 1.0."""
        return far_nodes(settings, self.converter, dial)

    def node_at(
        self, settings: Settings, dial: Dialling, order: OrderPosition, name: str, address: str
    ) -> HomeNode | None:
        """Another node, where nodes have certificates, or trust connections of this machine."""
        trusted = settings.cluster.trust_loopback and is_loopback(parse_address(address)[0])
        if settings.cluster.certificate is None and not trusted:
            return None
        return far_node(settings, self.converter, dial, order, name, address)

    def flow_message(self, packet: bytes, wall: float) -> tuple[bytes, Origin]:
        """A packet of flow events as an AMQP 1.0 message."""
        return packet_message(packet, wall), Origin.AMQP10

    @property
    def control(self) -> BrokerControl:
        """The control plane, which the front ends share."""
        assert self._control is not None
        return self._control


async def serve(
    settings: Settings,
    *,
    ready: process.Ready,
    signals: Signals,
    read: Callable[[], Settings],
    config: Path | None = None,
) -> None:
    """Run the whole broker; see :func:`core.process.serve`."""
    await process.serve(settings, AllProtocols(), ready=ready, signals=signals, read=read, config=config)
