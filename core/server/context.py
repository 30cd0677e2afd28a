"""What all peers of one server share, in one object, so that a peer holds one reference."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Any

import structlog
import trio

from core.clock import Now
from core.config.server import ServerSettings
from core.server.certificates import Certificates
from core.server.connections import Connections
from core.server.frontends import FrontEndFactory
from core.server.handshakes import Handshakes
from core.server.pump import Pump
from core.server.reader import Reader
from core.server.timers import Timers
from core.waiting.blocked_time import BlockedTime
from core.work import Work

READ_BYTES = 262_144
"""The most that one read takes. 64 KiB is as good for small messages; frames of 64 KiB cost half as much with four to a
read (docs/benchmarks)."""


@dataclass(slots=True)
class ConnectionCounters:
    """Counts that only grow. Snapshots read them."""

    accepted: int = 0
    begun: int = 0
    """Connections that this broker has begun, to other nodes."""
    refused: Counter[str] = field(default_factory=Counter)
    """Connections that were not served, by reason."""
    wrong_headers: int = 0
    """Connections whose first eight bytes no protocol knows."""
    handshake_time_outs: int = 0
    handshakes: int = 0
    """TLS handshakes that were completed."""
    wrapping_failures: int = 0
    """Connections that ended because their TLS, or the header of a proxy, was wrong."""
    faults: int = 0
    """Exceptions that escaped a front end: bugs of ours."""
    bytes_in: int = 0
    bytes_out: int = 0
    full_sockets: BlockedTime = field(default_factory=BlockedTime)
    """Connections whose socket takes no more, because the peer does not read."""


@dataclass(slots=True, kw_only=True)
class ServerContext:
    """The parts of the server that a peer works with."""

    settings: ServerSettings
    factories: Sequence[FrontEndFactory]
    clock: Callable[[], Now]
    """``Now.monotonic`` is Trio's current time."""
    pump: Pump
    reader: Reader
    work: Work
    timers: Timers
    certificates: Certificates
    node_certificates: Certificates
    """For the addresses for other nodes."""
    handshakes: Handshakes
    proxies: Sequence[IPv4Network | IPv6Network]
    """The networks of ``server.proxy_from``."""
    connections: Connections[Any]
    """Of :class:`core.server.peer.Peer`, which uses this module."""
    counters: ConnectionCounters
    nursery: trio.Nursery
    """Where the writers of peers run."""
    log: structlog.typing.FilteringBoundLogger
    read_buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(READ_BYTES)))
    """Where every read lands first: one buffer for all connections, since only one reads at a time."""

    def count_refusal(self, reason: str, host: str) -> None:
        """Count and log a connection that is not served."""
        self.counters.refused[reason] += 1
        self.log.warning("connection-refused", reason=reason, peer=host, at_most_every=1.0)
