"""The keys of a cluster in etcd, and what their values are.

=============================  ===============================================================================
key, below /hg/<cluster>/      value
=============================  ===============================================================================
``groups/<g>/owner``           epoch and node of the owner (u64 each, big-endian)
``groups/<g>/cut``             the highest number that was cut away (u64)
``groups/<g>/log/<n>``         the batch with this number (u64); core/engine/quorum/batches.py. One that is too large
                               for a request is in parts, and this key says in which; core/cluster/parts.py
``groups/<g>/parts/<n><e><k>`` part k (u32) of the batch with number n and epoch e (u64 each)
``wanted/<g><node>``           a request for a part of another node's copy (CBOR), with the numbers of the group and the
                               node that needs it (u64 each); core/cluster/copy_values.py
``groups/<g>/copies/<node>``   the part that this node (u64) wants (CBOR)
``moves/<g>``                  the name of the node that is to lead a group, until it does
``nodes/<name>``               what a node says of itself, twice a second (CBOR); core/cluster/beats.py
``topology/queues/<vhost>/…``  the definition of a quorum queue (CBOR); core/cluster/definitions.py
``topology/names/<vhost>/…``   exchanges, bindings and policies (CBOR); core/cluster/definitions.py
``topology/hosts/<vhost>``     the limits of a virtual host (CBOR)
``topology/users/<name>``      the record of a user, with keys of SCRAM (CBOR)
``topology/number``            how many changes of the definitions there were (u64)
``changes/<n>``                the change with this number (u64), for as long as nodes may need it
``members``                    the list of the members (CBOR); core/cluster/member_list.py
``identity``                   32 hexadecimal digits, put once: which cluster this is
``recovery``                   the identity, while a node begins the cluster with its copies; core/cluster/beginning.py
=============================  ===============================================================================

Numbers in keys are big-endian too, so that their order is that of etcd.
"""

from struct import Struct

from core.engine.quorum.shared_log import Owner

NUMBER = Struct(">Q")
_PART = Struct(">QQI")
_OWNER = Struct(">QQ")


class GroupKeys:
    """The keys of one group."""

    def __init__(self, cluster: str, group: int) -> None:
        root = f"/hg/{cluster}/groups/{group}/".encode()
        self.owner = root + b"owner"
        self.cut = root + b"cut"
        self._log = root + b"log/"
        self._parts = root + b"parts/"
        self._copies = root + b"copies/"
        everyone = ClusterKeys(cluster).wanted
        self.wanted, self.wanted_end = everyone + NUMBER.pack(group), everyone + NUMBER.pack(group + 1)
        self.log_end = root + b"log0"
        """Behind the last key of the log: "0" follows "/"."""

    def batch(self, number: int) -> bytes:
        """The key of a batch."""
        return self._log + NUMBER.pack(number)

    def part(self, number: int, epoch: int = 0, part: int = 0) -> bytes:
        """The key of a part of a batch; by default one before all parts of the batch."""
        return self._parts + _PART.pack(number, epoch, part)

    def wanted_by(self, node: int) -> bytes:
        """The key of a node's request for a part of a copy."""
        return self.wanted + NUMBER.pack(node)

    def copy_for(self, node: int) -> bytes:
        """The key of the part that a node wants."""
        return self._copies + NUMBER.pack(node)

    def number_of(self, key: bytes) -> int:
        """The number of the batch with this key."""
        (number,) = NUMBER.unpack(key[len(self._log) :])
        assert isinstance(number, int)
        return number


class ClusterKeys:
    """The keys of the cluster itself."""

    def __init__(self, cluster: str) -> None:
        root = f"/hg/{cluster}/".encode()
        self.nodes, self.nodes_end = root + b"nodes/", root + b"nodes0"
        self.queues, self.queues_end = root + b"topology/queues/", root + b"topology/queues0"
        self.wanted, self.wanted_end = root + b"wanted/", root + b"wanted0"
        self.moves, self.moves_end = root + b"moves/", root + b"moves0"
        self.topology, self.topology_end = root + b"topology/", root + b"topology0"
        self.names, self.hosts, self.users = (self.topology + one for one in (b"names/", b"hosts/", b"users/"))
        self.topology_number = self.topology + b"number"
        self.topology_version = self.topology + b"version"
        """Earlier versions have put it."""
        self._changes = root + b"changes/"
        self.identity = root + b"identity"
        self.recovery = root + b"recovery"
        self.members = root + b"members"

    def wanted_in(self, key: bytes) -> int:
        """The group of a request for a part of a copy."""
        (group,) = NUMBER.unpack_from(key, len(self.wanted))
        assert isinstance(group, int)
        return group

    def change(self, number: int) -> bytes:
        """The key of a change of the definitions."""
        return self._changes + NUMBER.pack(number)

    def number_of_change(self, key: bytes) -> int:
        """The number of the change with this key."""
        (number,) = NUMBER.unpack(key[len(self._changes) :])
        assert isinstance(number, int)
        return number


def encoded_owner(owner: Owner) -> bytes:
    """The value of an owner."""
    return _OWNER.pack(owner.epoch, owner.node)


def decoded_owner(value: bytes) -> Owner:
    """The owner with this value."""
    return Owner(*_OWNER.unpack(value))
