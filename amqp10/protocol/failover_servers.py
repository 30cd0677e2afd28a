"""The connection property ``failover-server-list``: where else the clients of a broker may connect when they lose it.

The specification does not have it. Qpid JMS and Qpid Dispatch read it, Apache ActiveMQ Artemis sends it: a list of maps
with symbols as keys, in the properties of the broker's open.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from amqp10.wire.types import Int, Symbol, plain

FAILOVER_SERVER_LIST = "failover-server-list"
SERVERS_MAX = 16
"""A longer list is nonsense: a cluster of this broker has seven nodes, and other brokers have pairs or a handful."""
HOST_BYTES_MAX = 255
"""The longest name of a host in DNS is shorter [RFC 1035, 2.3.4]."""


@dataclass(frozen=True, slots=True)
class FailoverServer:
    """One broker of the list."""

    network_host: str
    """The name or address of its machine."""
    port: int
    scheme: str = ""
    """amqp, or amqps with TLS; "" for that of the connection over which the list came."""
    hostname: str = ""
    """The hostname for the open of a client there [2.7.1]; "" for the one that it uses by itself."""

    def encoded(self) -> dict[Symbol, object]:
        """Return this broker as a map of the list, with AMQP types."""
        # Qpid JMS reads any number as the port, and Artemis sends an int.
        keys = {"hostname": self.hostname, "network-host": self.network_host, "port": Int(self.port)}
        return {Symbol(key): value for key, value in (keys | {"scheme": self.scheme}).items() if value != ""}

    @classmethod
    def decoded(cls, item: object) -> Self:
        """The server of a map without AMQP types. Raises ValueError."""
        if not isinstance(item, dict):
            raise ValueError("it has an entry that is no map")
        host, port = item.get("network-host"), item.get("port")
        if (
            not isinstance(host, str)
            or not 0 < len(host.encode()) <= HOST_BYTES_MAX
            or not (host.isascii() and host.isprintable())
        ):
            raise ValueError("an entry has no network-host, or one that is no name of a host")
        if isinstance(port, str) and port.isascii() and port.isdigit() and len(port) <= 5:  # so does Qpid Dispatch
            port = int(port)
        if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
            raise ValueError(f"the port of {host} is no number from 1 to 65535")
        scheme, hostname = item.get("scheme") or "", item.get("hostname") or ""
        if not isinstance(scheme, str) or not isinstance(hostname, str):
            raise ValueError(f"the scheme or hostname of {host} is no string")
        return cls(host, port, scheme, hostname)


def failover_property(servers: Iterable[FailoverServer]) -> dict[str, object]:
    """The property with these servers; nothing without any."""
    encoded = [server.encoded() for server in servers]
    return {FAILOVER_SERVER_LIST: encoded} if encoded else {}


def failover_servers(properties: Mapping[str, object]) -> list[FailoverServer] | None:
    """The servers in the properties of an open; None if it has no list. Raises ValueError for one that is nonsense."""
    if FAILOVER_SERVER_LIST not in properties:
        return None
    listed = properties[FAILOVER_SERVER_LIST]
    if not isinstance(listed, list):
        raise ValueError("it is no list")
    if len(listed) > SERVERS_MAX:
        raise ValueError(f"it has {len(listed)} entries, and {SERVERS_MAX} are the most")
    return [FailoverServer.decoded(plain(item)) for item in listed]
