"""How AMQP 0.9.1 joins a process: how it introduces itself, its mechanisms, and the check of the first eight bytes."""

import platform
import random
from collections.abc import Callable
from functools import partial

from core.access.checked_engine import CheckedEngine
from core.access.entering import OnlyTheDefault, VirtualHostsByName
from core.access.login import Access
from core.access.logins import Logins
from core.access.mechanisms import offered_on_091, withheld
from core.access.rights import no_rights
from core.amqp091.connection import Amqp091Connection
from core.amqp091.errors import ReplyCode
from core.amqp091.framing import FRAME_MIN_SIZE, PROTOCOL_HEADER, method_frame
from core.amqp091.frontend.front_end import Amqp091FrontEnd
from core.amqp091.frontend.replies import host_refusal
from core.amqp091.methods import ConnectionClose
from core.amqp091.negotiation import Negotiation
from core.amqp091.table import FieldTable
from core.config import Settings
from core.config.amqp091 import Amqp091Settings
from core.counters.traffic import Traffic
from core.interface import Converter, Engine, Mailbox
from core.observe.flow_events.recorder import FlowEvents
from core.observe.stalls import Stalls
from core.server.drain import DRAINED
from core.server.frontends import FrontEnd, FrontEndFactory, PeerInfo, login_peer
from core.version import headgate_version
from core.work import Work

COMPATIBLE_PRODUCT, COMPATIBLE_VERSION = "RabbitMQ", "4.1.0"
"""In our server-properties: they name the dialect, not the maker, as the open of AMQP 1.0 does."""
REFUSAL_DELAY_S = (1.0, 3.0)
"""A refused login is answered after a random time between these: that makes guessing slow, and costs us nothing."""
UNIQUE_BYTES = 16
"""The random bytes of names that must not be guessed."""
OTHER_VERSIONS = (b"AMQP\x01\x01", b"AMQP\x00\x00\x08", b"AMQP\x00\x00\x09\x00", b"AMQP\x00\x00\x0a")
"""How the protocol headers of 0.8, 0.9 and 0.10 begin. Their peers are told our version [0-9-1 4.2.2]."""


def server_properties() -> FieldTable:
    """How connection.start describes this broker, beside its capabilities."""
    return {
        "cluster_name": "headgate",
        "information": f"Headgate {headgate_version()}",
        "platform": f"Python {platform.python_version()}",
        "product": COMPATIBLE_PRODUCT,
        "version": COMPATIBLE_VERSION,
    }


def amqp091_factory(
    *,
    settings: Settings,
    engine: Engine,
    converter: Converter,
    access: Access,
    stalls: Stalls,
    random_bytes: Callable[[int], bytes],
    mark: Callable[[str], str] = str,
    traffic: Traffic | None = None,
    flow: FlowEvents | None = None,
    work: Work | None = None,
    hosts: VirtualHostsByName | None = None,
) -> FrontEndFactory:
    """Make the front end factory of AMQP 0.9.1 for the server."""
    properties = server_properties()

    def refusal_delay_s() -> float:
        return random.uniform(*REFUSAL_DELAY_S)

    chosen = hosts or OnlyTheDefault(engine)
    logins = Logins() if traffic is None else traffic.logins

    def make(info: PeerInfo, notify: Callable[[], None]) -> FrontEnd:
        peer = login_peer(access, info, notify, protocol="amqp-0-9-1")
        rights_of = partial(access.rights_of, peer)

        def refuse_virtual_host(virtual_host: str, identity: str) -> str | None:
            return host_refusal(chosen, virtual_host, rights_of(identity, virtual_host), peer.audit)

        return Amqp091FrontEnd(
            info,
            mailbox=Mailbox(notify),
            connection=Amqp091Connection(
                settings.amqp091,
                logins.counting(offered_on_091(access, peer)),
                withheld=withheld(access, peer),
                not_offered=partial(access.not_offered, peer),
                server_properties=properties,
                refusal_delay_s=refusal_delay_s,
                refuse_virtual_host=refuse_virtual_host,
                first_frame_max=access.largest_login(FRAME_MIN_SIZE),
            ),
            engine=CheckedEngine(engine, no_rights(""), peer.audit),
            converter=converter,
            stalls=stalls,
            settings=settings,
            unique=lambda: mark(random_bytes(UNIQUE_BYTES).hex()),
            wake=notify,
            traffic=traffic,
            flow=flow,
            work=work,
            rights_of=rights_of,
            hosts=hosts,
        )

    return FrontEndFactory(
        name="amqp-0-9-1",
        accepts=lambda preface: preface == PROTOCOL_HEADER or preface.startswith(OTHER_VERSIONS),
        make=make,
        refusal=lambda reason: refusal(settings.amqp091, properties, reason),
    )


def refusal(settings: Amqp091Settings, properties: FieldTable, reason: str) -> bytes:
    """connection.start, and connection.close with the reason, for a peer that cannot be served. No answer is
    awaited."""
    start = Negotiation(settings, (), server_properties=properties).start()
    if reason == DRAINED:
        close = ConnectionClose(reply_code=ReplyCode.CONNECTION_FORCED, reply_text=f"CONNECTION_FORCED - {reason}")
    else:
        close = ConnectionClose(reply_code=ReplyCode.RESOURCE_ERROR, reply_text=f"RESOURCE_ERROR - {reason}")
    return method_frame(0, start) + method_frame(0, close)
