"""How a node comes to be of the cluster that etcd has, and how it begins one that etcd has not.

A node puts the identity of its cluster, if there is none. Before that, no node beats, claims or reads anything. So
what is put *before* the identity is there before any other node does anything. A node that begins a new cluster with
its copies of an earlier one, because etcd has lost its data, uses that:

1. It puts the key ``recovery`` with its new identity, if there is neither. From then on no other node begins the
   cluster, and two such nodes do not mix what they put.
2. For each group of which it has batches, it puts that etcd is *cut* behind the last one, and that it is the owner, in
   the epoch of that batch. A node without these batches has to copy the group before it leads it; epochs go on.
3. It puts the identity and the list of the members.
4. When its definitions are in etcd, it deletes ``recovery``. Until then, other nodes wait: what they have themselves
   must not come before the definitions of the queues that have messages.

Each transaction is made only if there is no identity and the key of step 1 is still its own. So all of it can be done
again from the beginning, after a crash or a request without an answer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from core.cluster.etcd import Etcd
from core.cluster.etcd_messages import (
    Message,
    deleting,
    found,
    has_value,
    is_absent,
    putting,
    range_of,
    reading,
    transaction,
)
from core.cluster.keys import NUMBER, ClusterKeys, GroupKeys, encoded_owner
from core.engine.quorum.shared_log import Owner

ASK_S = 2.0
"""How long each request may take: it is made at a start only."""
GROUPS_AT_ONCE = 50
"""Groups in one transaction. Each needs two operations, and etcd takes 128 unless its operator says otherwise."""


class GroupEnd(NamedTuple):
    """Where the log of a group goes on."""

    number: int
    """The last batch that the node has."""
    owner: Owner
    """The node, in the epoch of that batch."""


class Offered(NamedTuple):
    """What a node begins a new cluster with."""

    ends: Mapping[int, GroupEnd]
    members: bytes
    """The value of the list of the members."""


class Beginning:
    """One node's way into its cluster."""

    def __init__(
        self,
        etcd: Etcd,
        cluster: str,
        identity: str,
        *,
        offered: Callable[[], Offered] | None,
        joined: Callable[[str], None],
        refused: Callable[[str], None],
        log: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        """``identity``: that of this node's data folder, or a new one. ``offered`` returns what a new cluster begins
        with; None for a node that only joins. ``joined`` is called with the identity of the cluster, once;
        ``refused`` with the reason why this node cannot begin one."""
        self.waits_for = ""
        """Why this node does not join yet; empty if etcd has not said so."""
        self._etcd, self._cluster, self._keys = etcd, cluster, ClusterKeys(cluster)
        self._identity, self._mine = identity, identity.encode()
        self._offered = offered
        self._has_joined, self._refused, self._log = joined, refused, log
        self._asking = False
        self._ended = offered is None

    @property
    def recovers(self) -> bool:
        """Whether this node begins the cluster with its copies, and other nodes wait."""
        return not self._ended

    def step(self) -> None:
        """Ask etcd which cluster it has, unless it is being asked. Called until this node has joined."""
        if self._asking:
            return
        identity, recovery = self._keys.identity, self._keys.recovery
        first = putting(identity if self._offered is None else recovery, self._mine)
        there = reading(range_of(identity), range_of(recovery))
        self._ask(transaction([is_absent(identity), is_absent(recovery)], [first], there), self._answered)

    def _answered(self, response: Message) -> None:
        if response.succeeded:
            if self._offered is None:
                self._join(self._identity, response)
            else:
                self._put_parts(self._parts(self._offered()))
            return
        identity, recovery = (_text(kvs) for kvs in found(response))
        if self._offered is None:
            self._join_or_wait(identity, recovery, response)
        elif identity == self._identity:
            self._join(identity, response)
        elif not identity and recovery == self._identity:
            self._put_parts(self._parts(self._offered()))
        else:
            self._refused(
                f"etcd has cluster {identity or recovery} already, and this node begins cluster {self._identity} with "
                "its copies. Start it first, with an etcd without data; or start it with an empty data folder, and it "
                "copies from the other nodes"
            )

    def _join(self, identity: str, response: Message) -> None:
        """From now on only the etcd that has said so counts."""
        self.waits_for = ""
        self._etcd.cluster = response.header.cluster_id
        self._has_joined(identity)

    def _join_or_wait(self, identity: str, recovery: str, response: Message) -> None:
        if not recovery:
            self._join(identity, response)
            return
        why = (
            f"a node begins cluster {recovery} with its copies, and this one joins when the definitions are there; "
            "start the broker of the folder with which headgate cluster recover was used"
        )
        if why != self.waits_for:
            self.waits_for = why
            self._log("cluster-recovering", {"identity": recovery, "why": why})

    def _parts(self, offered: Offered) -> list[list[Message]]:
        """The operations of each transaction."""
        groups = [(GroupKeys(self._cluster, group), end) for group, end in sorted(offered.ends.items())]
        parts: list[list[Message]] = []
        for at in range(0, len(groups), GROUPS_AT_ONCE):
            part: list[Message] = []
            for keys, end in groups[at : at + GROUPS_AT_ONCE]:
                part += [putting(keys.cut, NUMBER.pack(end.number)), putting(keys.owner, encoded_owner(end.owner))]
            parts.append(part)
        return [*parts, [putting(self._keys.identity, self._mine), putting(self._keys.members, offered.members)]]

    def _put_parts(self, parts: Sequence[list[Message]]) -> None:
        keys = self._keys
        conditions = [is_absent(keys.identity), has_value(keys.recovery, self._mine)]

        def answered(response: Message) -> None:
            if not response.succeeded:
                return  # the next step finds out why
            if len(parts) > 1:
                self._put_parts(parts[1:])
            else:
                self._log("cluster-begun", {"identity": self._identity})
                self._join(self._identity, response)

        self._ask(transaction(conditions, parts[0], []), answered)

    def end(self) -> bool:
        """Let the other nodes join: they get all definitions of this one. Returns whether etcd has that."""
        if not self._ended and not self._asking:
            key = self._keys.recovery
            self._ask(transaction([has_value(key, self._mine)], [deleting(key)], []), self._has_ended)
        return self._ended

    def _has_ended(self, _: Message) -> None:
        self._ended = True

    def _ask(self, request: Message, answered: Callable[[Message], None]) -> None:
        self._asking = True

        def come_back(response: Message) -> None:
            self._asking = False
            answered(response)

        self._etcd.ask("KV/Txn", request, come_back, self._rest, timeout_s=ASK_S)

    def _rest(self) -> None:
        self._asking = False


def _text(kvs: Sequence[Message]) -> str:
    return kvs[0].value.decode(errors="replace") if kvs else ""
