"""What the operations of an operator act on: the broker, the server around it, and what the process knows of both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from core.access.login import Access
from core.access.users import Users
from core.engine.broker import Broker
from core.engine.virtual_hosts import VirtualHosts
from core.errors import PreconditionFailed
from core.interface import Snapshot
from core.message import Attributes
from core.observe.stalls import Stalls
from core.recent_rows import RecentRows
from core.rows import SERVER_KINDS
from core.server.reload import Reloaded
from core.server.run import Server
from core.server.sampler import Sampler
from core.virtual_hosts import VIRTUAL_HOST

if TYPE_CHECKING:  # only a broker with an admin server records them, or has the store's lanes shown
    from core.observe.overview import Overview
    from core.observe.timelines import Timelines
    from core.row_walks import RowSource
    from core.server.cluster_task import ClusterTask
    from core.store.lane import Lane

ABOUT_SERVER = frozenset({"listeners", "certificates", "descriptors", "server"})
"""Kinds of rows about the server itself, of which there are a few rows at most."""


class MessageForms(Protocol):
    """Makes messages of plain values, and shows them as such. A protocol with properties by name hands it in."""

    def made(self, properties: Mapping[str, object], body: bytes) -> tuple[bytes, Attributes]:
        """Return a message with these properties and this body. Raises Invalid."""

    def shown(self, entry: bytes, attributes: Attributes) -> tuple[dict[str, object], bytes]:
        """Return the properties of a message, and its body."""


class BrokerControl:
    """The control plane of one broker process. Its attributes beside the broker are set once there is what they name.

    What ``identity`` means stands in a snapshot under the first of :data:`core.rows.IDENTITY_FIELDS` that it has.
    """

    def __init__(
        self, broker: Broker, *, version: str, pid: int, stalls: Stalls, hosts: VirtualHosts | None = None
    ) -> None:
        self.broker = broker
        """The engine of the default virtual host."""
        self.hosts = hosts or VirtualHosts(broker)
        """All virtual hosts."""
        self.stalls = stalls
        self.version = version
        self.server: Server | None = None
        self.sampler: Sampler | None = None
        self.node = ""
        """The name by which the broker calls itself."""
        self.lanes: Sequence[Lane] = ()
        self.limits: Mapping[str, int] = {}
        """The configured limits, by what they limit: queues, exchanges, bindings, policies, unauthenticated."""
        self.access: Access | None = None
        """The users and what logins share."""
        self.recent_log = RecentRows(0)
        """The last lines of the log."""
        self.recent_audit = RecentRows(0)
        """The last records of the audit log."""
        self.settings_text: Callable[[], str] = str
        """Returns the settings in force, as a file without secrets; "" where they are not known."""
        self.reload: Callable[[], Reloaded] = Reloaded
        """Reads the configuration again, and applies what can change."""
        self.cluster: ClusterTask | None = None
        """This node in its cluster; None where this broker is in none."""
        self.queue_of_address: Callable[[str], str] = str
        """Returns the queue that a client's address names, or that is named without one. Raises Invalid."""
        self.message_forms: MessageForms | None = None
        """None without a protocol whose properties RabbitMQ's management API has."""
        self.overview: Overview | None = None
        self.timelines: Timelines | None = None
        self.flow_map_max = 0
        """The most edges of a flow map."""
        self.uptime: Callable[[], float] = float
        """Returns the seconds since the start. This and the three before are set by an admin server."""
        self._pid = pid

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """All rows of a kind, or the one with this identity. Only for kinds of which there are few rows."""
        if kind in SERVER_KINDS or kind in ABOUT_SERVER:
            return [] if self.server is None else self.server.snapshot(kind, identity)
        if kind == "stalls":
            return self.stalls.snapshot(identity)
        return self.broker.snapshot(kind, identity)

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """See :class:`core.row_walks.RowSource`."""
        if kind in SERVER_KINDS:
            return (row for rows in self.connections(kind, identity) for row in rows)
        if kind == "stalls":
            return self.stalls.rows() if identity is None else iter(self.stalls.snapshot(identity))
        if kind == "last_minute":
            return self.stalls.last_minute(identity)
        if kind == "waiting_publishers":
            address = identity or ""
            return iter([{"address": address, "count": self.stalls.waiting_publishers(address)}])
        return self.broker.rows(kind, identity)

    def on(self, host: str) -> "RowSource":
        """The rows with those of the names of this virtual host; other rows, such as connections, are of all. Raises
        NotFound."""
        named = self.hosts.named(host)
        if named is self.broker and len(self.hosts.names) == 1:
            return self
        from core.host_rows import HostRows  # here and not above: a broker with one virtual host needs none

        return HostRows(self.rows, named)

    def host_of(self, identity: str) -> str:
        """The virtual host of a connection, of which this is the identity, or that of a link or session of it."""
        for row in self.snapshot("connections", identity.partition("/")[0]):
            if isinstance(host := row.get("vhost"), str) and self.hosts.find(host) is not None:
                return host
        return VIRTUAL_HOST

    def connections(self, kind: str, identity: str | None = None) -> Iterator[Sequence[Snapshot]]:
        """The rows of one of :data:`core.rows.SERVER_KINDS`, connection by connection."""
        return iter(()) if self.server is None else self.server.connections(kind, identity)

    def status(self) -> Snapshot:
        """A summary of the broker's state: version, listeners, alarms, descriptors."""
        status: Snapshot = {"product": "Headgate", "version": self.version, "pid": self._pid}
        if self.server is not None:
            status["listeners"] = self.snapshot("listeners")
            for row in self.snapshot("descriptors"):
                status["descriptors"] = {key: value for key, value in row.items() if key != "identity"}
            for row in self.snapshot("server"):
                status["refused"] = row["refused"]
        status["alarms"] = [row for row in self.snapshot("alarms") if row["level"] == "alarm"]
        return status

    def cluster_status(self) -> Snapshot:
        """The cluster as this node sees it."""
        if self.cluster is not None:
            return self.cluster.status()
        nothing: Snapshot = {"name": None, "node": None, "joined": False, "trouble": "", "engine": {}}
        return {**nothing, "nodes": [], "groups": []}

    @property
    def in_cluster(self) -> "ClusterTask":
        """This node in its cluster. Raises PreconditionFailed where this broker is in none."""
        if self.cluster is None:
            raise PreconditionFailed("this broker is in no cluster")
        return self.cluster

    def drain(self, *, wanted: bool, force: bool = False) -> Snapshot:
        """Start or end a drain: publishers and consumers stand still, and new connections are refused. A node of a
        cluster hands over what it leads. Returns its progress. Raises PreconditionFailed if a group would lose its
        majority without this node, unless ``force`` is set."""
        if self.cluster is not None:
            self.cluster.set_aside(wanted=wanted, force=force)
        self.broker.drain(wanted=wanted)
        if self.server is not None:
            self.server.drain(wanted=wanted)
        return self.draining()

    def draining(self) -> Snapshot:
        """The progress of a drain: ``unsettled`` counts the messages that consumers hold and have not settled."""
        since = None if self.server is None else self.server.drained_since
        return {
            "draining": since is not None,
            "since": None if since is None else since.wall,
            "connections": 0 if self.server is None else self.server.sockets[0],
            "unsettled": self.hosts.unsettled,
        }

    @property
    def serving(self) -> Server:
        """The server. Raises PreconditionFailed where there is none."""
        if self.server is None:
            raise PreconditionFailed("this broker serves no connections")
        return self.server

    @property
    def logins(self) -> Access:
        """The users and what logins share. Raises PreconditionFailed where there are none."""
        if self.access is None:
            raise PreconditionFailed("this broker has no users")
        return self.access

    @property
    def users(self) -> Users:
        """The users. Raises PreconditionFailed where there are none."""
        return self.logins.users

    @property
    def measuring(self) -> Sampler:
        """What measures memory and disk space. Raises PreconditionFailed where nothing is measured."""
        if self.sampler is None:
            raise PreconditionFailed("this broker does not measure memory and disk space")
        return self.sampler

    @property
    def ready(self) -> bool:
        """Whether the broker accepts new connections."""
        return self.server is not None and bool(self.server.listening_on) and not self.server.leaving

    def turn(self) -> None:
        """Have the engine do work that an operation has left. Not to be called in a turn of the engine."""
        if self.server is not None:
            self.server.turn()
