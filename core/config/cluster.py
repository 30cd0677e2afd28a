"""Settings of a cluster: this node's name, the other nodes, which queues live where, and the groups of quorum queues
that nodes keep together through etcd."""

from collections import Counter
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from core.config.address import UNIX, is_loopback, parse_address, parse_node_address
from core.config.section import Section
from core.config.units import Bytes, FilePath, Seconds, Unit

NAME = r"^[A-Za-z0-9._-]{1,64}$"
HEARTBEATS_MIN = 5
"""etcd does not start with an election timeout of fewer heartbeats."""


class NodeSettings(Section):
    """Another node of the cluster."""

    name: str = Field(pattern=NAME)
    """Its name: what it has as cluster.node."""

    address: str = Field(min_length=1, max_length=512)
    """Where it listens for other nodes, HOST:PORT: an address in its cluster.listen. With trust_loopback and without
    cluster.certificate, an address where it listens for clients. The processes of headgate serve --nodes have
    unix:PATH."""

    queues: tuple[str, ...] = Field(default=(), strict=False)
    """The queues that live there, on every virtual host: names, or beginnings of names with * behind them."""

    @field_validator("address")
    @classmethod
    def _address(cls, address: str) -> str:
        parse_node_address(address)
        return address


class ClusterSettings(Section):
    """The nodes of a cluster. Clients may use any node: it forwards to the node on which a queue lives."""

    node: str = Field(default="", pattern=r"^[A-Za-z0-9._-]{0,64}$")
    """The name of this node. When empty, the broker is alone."""

    trust_loopback: bool = False
    """Whether a connection from this machine may call itself a node without a certificate: for trials only."""

    nodes: tuple[NodeSettings, ...] = Field(default=(), strict=False)
    """The other nodes."""

    listen: tuple[str, ...] = Field(default=(), strict=False)
    """Addresses on which other nodes connect, HOST:PORT, with TLS of version 1.3. Both ends show a certificate. Clients
    are refused there. The processes of headgate serve --nodes have unix:PATH, which only their own user can open."""

    certificate: FilePath | None = None
    """A PEM file with the certificate of this node, followed by the intermediate ones. Its common name, or one of its
    DNS names, is the name of the node; it is for servers and for clients."""

    key: FilePath | None = None
    """A PEM file with the key of the certificate, without a pass phrase."""

    ca: FilePath | None = None
    """A PEM file with the certificate of the authority that has signed those of all nodes. It must sign for nodes only:
    a certificate with the name of a node has all rights."""

    name: str = Field(default="headgate", pattern=NAME)
    """The name of the cluster. Its keys in etcd begin with /hg/ and this name."""

    members: tuple[str, ...] = Field(default=(), max_length=7, strict=False)
    """The names of the nodes that keep quorum queues together through etcd, this one among them; the same list in the
    same order on each. Three or five of them: a majority has to be there. It is the first list only: headgate cluster
    join and leave change it in etcd. When empty, quorum queues are on one node."""

    etcd: tuple[str, ...] = Field(default=(), max_length=9, strict=False)
    """HOST:PORT of each member of etcd, version 3.4.23, 3.5.3 or newer."""

    etcd_peers: tuple[str, ...] = Field(default=(), max_length=7, strict=False)
    """When set, each broker starts an etcd of its own, watches it, and ends it: HOST:PORT where these talk to each
    other, one for each of members, in the same order, as are the addresses in etcd then. The broker has to find the
    program etcd on PATH. When empty, etcd is run by you."""

    etcd_heartbeat_interval: Seconds = Field(default=0.02, ge=0.005, le=1)
    """How often the leader of the etcd that brokers start says that it is there. etcd advises about the time of a round
    trip between two members, which is below 2 ms in one data centre; 20 ms cost little CPU time."""

    etcd_election_timeout: Seconds = Field(default=0.2, ge=0.05, le=50)
    """A member of the etcd that brokers start, which has heard nothing of the leader for once to twice this time, has
    another one elected: the longest part of a fail-over when the leader of etcd ends. It must be at least ten times the
    round trip between two members, and at least five times etcd_heartbeat_interval. A leader says nothing while its
    disk syncs, so it must also be longer than that usually takes: 200 ms are for disks whose syncs take up to 90 ms.
    For slower disks or longer ways take more, with the same value on each node."""

    groups: Annotated[int, Unit("groups")] = Field(default=16, ge=1, le=64)
    """Groups over which quorum queues are spread; each has a leader of its own. It must be the same on all nodes, and
    never changes."""

    engine_request_limit: Bytes = Field(default=2**20, ge=2**17, le=2**30)
    """The largest request to etcd; larger runs of messages go in parts. It must be below etcd's --max-request-bytes,
    which is 1.5 MiB by itself."""

    engine_quota: Bytes = Field(default=2**31, ge=2**24)
    """The quota of etcd, its --quota-backend-bytes, which is 2 GiB by itself. From four fifths of it on, publishers
    wait and no batch is kept for a member that is away."""

    away_time_max: Seconds = Field(default=600.0, ge=10)
    """A member that is away for longer no longer holds batches in etcd: it copies the groups from another member when
    it is back."""

    away_bytes_max: Bytes = Field(default=256 * 2**20, ge=2**20)
    """The same, when a group has so many bytes in etcd that only members that are away still need."""

    advertise: str = Field(default="", max_length=255)
    """HOST:PORT that clients and the other nodes are told for this node. When empty, the addresses of server.listen."""

    advertise_tls: str = Field(default="", max_length=255)
    """HOST:PORT that clients with TLS are told for this node. When empty, the host of advertise with the port of
    server.tls_listen; without advertise, the addresses of server.tls_listen."""

    first_node: str = Field(default="", pattern=r"^[A-Za-z0-9._-]{0,64}$")
    """The name of the node that keeps the definitions of all, without etcd. headgate serve --nodes sets it; all nodes
    are processes of one machine and one port then, and each queue lives on the node that its name decides."""

    order: str = Field(default="", max_length=4096)
    """The socket of first_node, unix:PATH. headgate serve --nodes sets it."""

    etcd_ca: FilePath | None = None
    """The certificate of the authority that has signed those of etcd, in PEM. Without it, etcd is reached without
    TLS."""

    etcd_certificate: FilePath | None = None
    """The certificate of this node for etcd, in PEM."""

    etcd_key: FilePath | None = None
    """The key of etcd_certificate, in PEM."""

    @field_validator("listen")
    @classmethod
    def _addresses(cls, listen: tuple[str, ...]) -> tuple[str, ...]:
        for address in listen:
            parse_node_address(address)
        return listen

    @field_validator("order")
    @classmethod
    def _order_socket(cls, order: str) -> str:
        if order and not order.startswith(f"{UNIX}/"):
            raise ValueError("must be unix: and a path")
        return order

    @field_validator("nodes")
    @classmethod
    def _names_once(cls, nodes: tuple[NodeSettings, ...]) -> tuple[NodeSettings, ...]:
        for name, count in Counter(node.name for node in nodes).items():
            if count > 1:
                raise ValueError(f"must not have the name {name!r} {count} times")
        return nodes

    @model_validator(mode="after")
    def _may_connect(self) -> Self:
        if self.nodes and not self.node:
            raise ValueError("must have the name of this node in node")
        for node in self.nodes:
            if node.name == self.node:
                raise ValueError(f"must not have this node, {self.node!r}, among the others")
            host = parse_node_address(node.address)[0]
            trusted = host.startswith(UNIX) or (self.trust_loopback and is_loopback(host))
            if self.certificate is None and not trusted:
                raise ValueError("with nodes must have certificate, key and ca; or trust_loopback, on this machine")
        return self

    @model_validator(mode="after")
    def _proves_its_name(self) -> Self:
        files = (self.certificate, self.key, self.ca)
        if any(file is not None for file in files) and None in files:
            raise ValueError("must have all of certificate, key and ca, or none of them")
        if self.certificate is None and not all(address.startswith(UNIX) for address in self.listen):
            raise ValueError("with listen must have certificate, key and ca")
        if self.certificate is not None and not self.node:
            raise ValueError("with certificate must have the name of this node in node")
        return self

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.first_node:
            self._check_one_port()
        if not self.members and not self.etcd and not self.etcd_peers:
            return self
        if self.node not in self.members:
            raise ValueError(f"must have its node {self.node!r} among its members")
        twice = [name for name, count in Counter(self.members).items() if count > 1]
        if twice:
            raise ValueError(f"must not have the member {twice[0]!r} twice")
        if not self.etcd:
            raise ValueError("must have the addresses of etcd in etcd")
        if (self.etcd_certificate is None) != (self.etcd_key is None):
            raise ValueError("must have both of etcd_certificate and etcd_key, or none of them")
        self._check_peers()
        return self

    def _check_one_port(self) -> None:
        if not self.node or not self.order or self.socket is None:
            raise ValueError(
                "with first_node must have node, order and a socket in listen; serve --nodes sets them all"
            )
        if self.members or self.etcd or self.etcd_peers or self.certificate is not None:
            raise ValueError("must not have first_node beside members, etcd or certificate")
        if not all(name.isascii() and name.isdigit() for name in self.names):
            raise ValueError("with first_node must have nodes whose names are numbers")
        if self.first_node not in self.names:
            raise ValueError(f"must have its first_node {self.first_node!r} among the nodes")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of this node and the others, sorted."""
        return tuple(sorted((self.node, *(node.name for node in self.nodes))))

    @property
    def shares(self) -> bool:
        """Whether definitions are shared with other nodes."""
        return bool(self.members or self.first_node)

    @property
    def socket(self) -> str | None:
        """The path of the Unix socket on which other nodes connect; None if there is none."""
        return next((one.removeprefix(UNIX) for one in self.listen if one.startswith(UNIX)), None)

    def _check_peers(self) -> None:
        if not self.etcd_peers:
            return
        if self.etcd_election_timeout < HEARTBEATS_MIN * self.etcd_heartbeat_interval:
            raise ValueError(f"must have an etcd_election_timeout of {HEARTBEATS_MIN} times etcd_heartbeat_interval")
        if not len(self.etcd_peers) == len(self.etcd) == len(self.members):
            raise ValueError("must have one address in etcd_peers, and one in etcd, for each of members")
        for address in (*self.etcd_peers, *self.etcd):
            parse_address(address)
        if self.etcd_ca is not None and self.etcd_certificate is None:
            raise ValueError("must have etcd_certificate and etcd_key beside etcd_ca, for the etcd that it starts")

    def clients_of(self, node: str, encrypted: bool) -> tuple[str, ...]:
        """Where clients connect to another node, as far as these settings say: they do for trials only, in which nodes
        connect where clients do."""
        if encrypted or not self.trust_loopback or self.certificate is not None:
            return ()
        return tuple(one.address for one in self.nodes if one.name == node and not one.address.startswith(UNIX))

    def home_of(self, virtual_host: str, queue: str) -> str | None:
        """Return the node on which a queue lives, as far as these settings say; None for any other queue."""
        for node in self.nodes:
            for pattern in node.queues:
                if queue == pattern or (pattern.endswith("*") and queue.startswith(pattern[:-1])):
                    return node.name
        return None
