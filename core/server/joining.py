"""What makes a broker a node among others: of a cluster over etcd, or of several processes on one port."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from structlog.typing import FilteringBoundLogger

from core.access.users import Users
from core.clock import Now
from core.cluster.digest_homes import homes_by_digest, node_in_name
from core.config import Settings
from core.config.cluster import ClusterSettings
from core.engine.forwarding.nodes import HomeNode, Homes
from core.engine.routing.agreement import Agreement
from core.engine.virtual_hosts import VirtualHosts
from core.server.data import OpenData
from core.server.dialling import Dialling
from core.server.run import Background, SharedPort

if TYPE_CHECKING:
    from core.server.cluster_task import ClusterTask
    from core.server.nodes_task import NodesTask


def homes_of(settings: ClusterSettings, agreement: Agreement | None, nodes: Mapping[str, HomeNode]) -> Homes:
    """Return on which node each queue lives, as far as settings say. ``nodes``: the other nodes."""
    if settings.first_node and agreement is not None:
        home_of = homes_by_digest(settings.names, agreement.placed)
        return Homes(settings.node, home_of, passing=lambda queue: node_in_name(queue) is not None, nodes=nodes)
    return Homes(settings.node, settings.home_of, nodes=nodes, clients_of=settings.clients_of)


class Joined(NamedTuple):
    """This node among others; a broker alone has neither."""

    cluster: "ClusterTask | None"
    one_port: "NodesTask | None"

    @property
    def shared_port(self) -> SharedPort | None:
        """What the server needs to know of other processes on its port."""
        return None if self.one_port is None else self.one_port.shared_port

    def begin(self, hosts: VirtualHosts, users: Users) -> Sequence[Background]:
        """Have users know the virtual hosts, virtual hosts tell users when one is deleted, and the node know both.
        Returns the node's tasks."""
        users.virtual_hosts = lambda: hosts.names
        hosts.closing, hosts.forget_rights = users.close_virtual_host, users.forget_virtual_host
        hosts.resume()
        task = self.cluster or self.one_port
        if task is None:
            return ()
        task.begin(users)
        return task.tasks


def join(
    settings: Settings,
    data: OpenData,
    hosts: VirtualHosts,
    node_at: Callable[[str, str], HomeNode | None],
    dialling: Dialling,
    clock: Callable[[], Now],
    log: FilteringBoundLogger,
) -> Joined:
    """Make what settings say of other nodes. Raises Invalid; StoreDamaged, StoreFailure and CannotListen for the first
    of several processes on one port."""
    groups, agreement = data.storage.groups, data.agreement
    if agreement is None:
        return Joined(None, None)
    if groups is None:
        from core.server.nodes_task import NodesTask  # here and not above, also below: most brokers are alone

        return Joined(None, NodesTask(settings, hosts, agreement, clock=clock, log=log))
    from core.server.cluster_task import ClusterTask

    return Joined(ClusterTask(settings, groups, hosts, agreement, node_at, dialling, clock=clock, log=log), None)
