"""What a node of a cluster tells its clients: in the open where the other nodes are, and which one leads a queue."""

from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address

from amqp10.frontend.far_clients import NODE_KEY
from amqp10.frontend.virtual_host import HOST_PREFIX
from amqp10.protocol.failover_servers import FailoverServer, failover_property
from amqp10.protocol.leader import leader_property
from amqp10.wire.performatives import Open
from core.access.login import LoginPeer
from core.config.address import is_loopback, parse_address


def other_nodes_property(
    other_nodes: Callable[[bool], Sequence[Sequence[str]]], peer: LoginPeer, remote: Open | None
) -> dict[str, object]:
    """The property with the other nodes for a client, one address of each; nothing for another node.

    ``other_nodes`` returns the addresses of each node that is here, with or without TLS. A client is told those of the
    kind that it uses: with its settings it can reach no others.
    """
    if peer.node_names is not None or (remote is not None and NODE_KEY in (remote.properties or {})):
        return {}
    return failover_property(_servers(other_nodes(peer.encrypted), peer, remote))


def no_leader(home: str | None) -> dict[str, object]:
    """What a broker without a cluster tells of the node that leads a queue."""
    return {}


def leader_told(
    clients_of: Callable[[str, bool], Sequence[str]], peer: LoginPeer, home: str | None
) -> dict[str, object]:
    """The property of the answer to an attach that tells a client which other node leads the queue; nothing where this
    node does (``home`` is None), or where the client cannot reach the other one.

    ``clients_of`` returns where clients connect to a node, with or without TLS.
    """
    if home is None or peer.node_names is not None:
        return {}
    return leader_property(next(_servers([clients_of(home, peer.encrypted)], peer, None), None))


def _servers(nodes: Sequence[Sequence[str]], peer: LoginPeer, remote: Open | None) -> Iterator[FailoverServer]:
    wanted = "" if remote is None else remote.hostname or ""
    for addresses in nodes:
        usable = (found for one in addresses if (found := _reachable(one, loopback=peer.loopback)) is not None)
        for host, port in list(usable)[:1]:
            # Qpid JMS uses this in place of what it was configured with, so a client has to keep its virtual host.
            hostname = wanted if wanted.startswith(HOST_PREFIX) else host
            yield FailoverServer(host, port, "amqps" if peer.encrypted else "amqp", hostname)


def _reachable(address: str, *, loopback: bool) -> tuple[str, int] | None:
    """Host and port of an address, if a client can use it: one on this machine can use those of loopback too."""
    try:
        host, port = parse_address(address)
    except ValueError:
        return None
    return None if port == 0 or _is_unspecified(host) or (is_loopback(host) and not loopback) else (host, port)


def _is_unspecified(host: str) -> bool:
    """Whether the host stands for every address of a machine, which no client can connect to."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
