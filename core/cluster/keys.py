"""The keys of a cluster in etcd, and what their values are.

=============================  ===============================================================================
key, below /hg/<cluster>/      value
=============================  ===============================================================================
``groups/<g>/owner``           epoch and node of the owner (u64 each, big-endian)
``groups/<g>/cut``             the highest number that was cut away (u64)
``groups/<g>/log/<n>``         the batch with this number (u64); core/engine/quorum/batches.py
``nodes/<name>``               what a node says of itself, twice a second (CBOR); core/cluster/beats.py
``topology/queues/<vhost>/…``  the definition of a quorum queue (CBOR); core/cluster/definitions.py
``topology/version``           put with each change of the topology
``identity``                   32 hexadecimal digits, put once: which cluster this is
=============================  ===============================================================================

Numbers in keys are big-endian too, so that their order is that of etcd.
"""

from struct import Struct

from core.engine.quorum.shared_log import Owner

NUMBER = Struct(">Q")
_OWNER = Struct(">QQ")


class GroupKeys:
    """The keys of one group."""

    def __init__(self, cluster: str, group: int) -> None:
        root = f"/hg/{cluster}/groups/{group}/".encode()
        self.owner = root + b"owner"
        self.cut = root + b"cut"
        self._log = root + b"log/"
        self.log_end = root + b"log0"
        """Behind the last key of the log: "0" follows "/"."""

    def batch(self, number: int) -> bytes:
        """The key of a batch."""
        return self._log + NUMBER.pack(number)

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
        self.topology_version = root + b"topology/version"
        self.identity = root + b"identity"


def encoded_owner(owner: Owner) -> bytes:
    """The value of an owner."""
    return _OWNER.pack(owner.epoch, owner.node)


def decoded_owner(value: bytes) -> Owner:
    """The owner with this value."""
    return Owner(*_OWNER.unpack(value))
