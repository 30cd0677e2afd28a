"""One node of a cluster: drives its groups, looks at the other nodes, and keeps the definitions of queues with them.

It does not wait. Its owner calls :meth:`step` when :attr:`wanted` is called and from time to time, and does between
two calls what answers have led to. Everything runs in one thread.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import NamedTuple

from core.cluster.beats import BEAT_S, LOOK_S, Beat, Beats, node_number
from core.cluster.definitions import decoded, encoded, queue_key
from core.cluster.etcd import Etcd
from core.cluster.etcd_log import ASK_S, PUT_S, EtcdLog
from core.cluster.etcd_messages import (
    MESSAGES,
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
from core.cluster.group_driver import GroupDriver
from core.cluster.keys import ClusterKeys
from core.engine.quorum.groups import Announced, QuorumGroup, QuorumGroups, SharedQueue
from core.engine.quorum.shared_log import FRESH_S, Owner, Role, cut_at

READ_UNASKED_S = 2.0
"""How often a follower reads a group although no beat says that there is more."""
CUT_S = 5.0
"""How often a leader has the engine forget what all members have."""
COMPACT_S = 30.0
"""How often a node that has had something cut away has the engine forget earlier states of its keys, which take its
space."""
QUEUES_MAX = 100_000
"""The most definitions in one answer."""


class Hooks(NamedTuple):
    """What the broker does for the cluster."""

    never_committed: Callable[[int, int, int], None]
    """A group will never have the commands between two positions."""
    definitions: Callable[[Sequence[SharedQueue]], bool]
    """These are all quorum queues: make and delete some. Returns False if there is more to do."""
    leads_until: Callable[[float], None]
    """Until when this node leads groups without hearing of it again; infinity if it leads none."""
    log: Callable[[str, Mapping[str, object]], None]
    """Write a line of the log."""


class Member:
    """This node."""

    def __init__(
        self,
        etcd: Etcd,
        groups: QuorumGroups,
        *,
        cluster: str,
        node: str,
        members: Sequence[str],
        beat: Beat,
        identity: str,
        clock: Callable[[], float],
        hooks: Hooks,
    ) -> None:
        """``beat`` is the first one of this life. ``identity``: that of the cluster, as this node's data folder has
        it, or a new one."""
        self.etcd = etcd
        self.beats = Beats(node, members)
        self.trouble: dict[int, str] = {}
        """Why this node does not keep some groups."""
        self.refused = ""
        """Why this node takes no part at all."""
        self.identity = identity
        self.joined = False
        """Whether the engine has said that its cluster is this one."""
        self.owners: dict[int, Owner] = {}
        self._groups = groups
        self._keys = ClusterKeys(cluster)
        self._node = node
        self._beat = beat
        self._clock = clock
        self._hooks = hooks
        self._engines = {group.number: self._engine(cluster, group.number) for group in groups.in_order}
        self._drivers = {
            group.number: GroupDriver(group.shared, self._engines[group.number], clock, read_s=READ_UNASKED_S)
            for group in groups.in_order
        }
        self._beat_at = self._look_at = self._cut_at = self._compact_at = -inf
        self._looking = self._joining = self._reading_queues = False
        self._queues_version = -1
        self._queues: list[SharedQueue] | None = None
        """Definitions with which this node is not done."""
        self._cuts = 0
        groups.announce, groups.withdraw = self._announce, self._withdraw

    # --- what the owner calls

    def step(self) -> bool:
        """Do what is due. Returns whether the engine of the broker needs a turn."""
        if self.refused:
            return False
        now = self._clock()
        if not self.joined:
            self._join()
            return False
        turn = False
        for group in self._groups.in_order:
            if group.number not in self.trouble:
                turn |= self._see_to(group)
        self._hooks.leads_until(self._leads_until())
        if now >= self._beat_at + BEAT_S:
            self._beat_at = now
            self._put_beat()
        if now >= self._look_at + LOOK_S and not self._looking:
            self._look_at = now
            self._look(now)
        if now >= self._cut_at + CUT_S:
            self._cut_at = now
            self._cut(now)
        if self._queues is not None:
            if self._hooks.definitions(self._queues):
                self._queues = None
            turn = True
        return turn

    def leading_ends(self, now: float) -> None:
        """Cease to lead the groups of which this node has not heard for a second that it leads them."""
        for group in self._groups.in_order:
            if group.shared.role is Role.LEADER and not group.shared.fresh(now):
                self._hooks.log("group-not-led", {"group": group.number, "why": "the engine has not answered"})
                group.shared.step_down()
                group.queues.see_to()
        self._hooks.leads_until(self._leads_until())

    @property
    def hurries(self) -> bool:
        """Whether something cannot wait for the next look."""
        return any(
            driver.waiting or driver.log.role is Role.CLAIMED or self._is_behind(group)
            for group, driver in zip(self._groups.in_order, self._drivers.values(), strict=True)
        )

    def rows(self) -> list[dict[str, object]]:
        """What this node knows of each group."""
        rows: list[dict[str, object]] = []
        for group in self._groups.in_order:
            owner = self.owners.get(group.number, group.shared.owner)
            leader = self.beats.name_of(owner.node)
            synced = self.beats.synced(group.number)
            furthest = max(self.beats.furthest(group.number), group.shared.ends_at)
            rows.append(
                {
                    "group": group.number,
                    "leader": leader if leader and self.beats.is_here(leader) else None,
                    "epoch": owner.epoch,
                    "end": furthest,
                    "lag": {name: max(0, furthest - synced[node_number(name)]) for name in self.beats.members},
                    "leads_here": group.queues.leads,
                    "trouble": self.trouble.get(group.number, ""),
                }
            )
        return rows

    def nodes(self) -> list[dict[str, object]]:
        """What this node knows of each node."""
        rows: list[dict[str, object]] = []
        for name in self.beats.members:
            beat = self.beats.beat(name)
            rows.append(
                {
                    "node": name,
                    "here": self.beats.is_here(name) if beat is not None or name == self._node else False,
                    "addresses": [] if beat is None else list(beat.addresses),
                    "version": "" if beat is None else beat.version,
                    "leads": [group for group, owner in self.owners.items() if owner.node == node_number(name)],
                    "problems": {} if beat is None else {str(key): why for key, why in beat.problems.items()},
                }
            )
        return rows

    # --- groups

    def _see_to(self, group: QuorumGroup) -> bool:
        """Apply what is committed, answer what never will be, and send what is to be sent."""
        shared, queues = group.shared, group.queues
        ends_at, led = shared.ends_at, queues.leads
        applied = shared.unwritten
        queues.see_to()
        voids = shared.take_voids()
        for first, last in voids:
            self._hooks.never_committed(group.number, first, last)
        if queues.leads != led:
            self._hooks.log("group-led" if queues.leads else "group-not-led", {"group": group.number,
                            "epoch": shared.epoch, "after": ends_at})  # fmt: skip
        self._drivers[group.number].drive()
        return bool(voids) or queues.leads != led or applied != shared.unwritten or shared.unwritten

    def _is_behind(self, group: QuorumGroup) -> bool:
        return group.shared.role is Role.LEADER and not group.queues.leads

    def _engine(self, cluster: str, group: int) -> EtcdLog:
        return EtcdLog(self.etcd, cluster, group, partial(self._stop, group), partial(self._too_large, group))

    def _too_large(self, number: int, size: int) -> None:
        """Etcd does not take a batch, now or later. After another claim it is known not to be in the log, and its
        publishers are told so."""
        self._hooks.log("batch-too-large", {"group": number, "bytes": size, "why": self.etcd.trouble})
        group = self._groups.all[number]
        group.shared.step_down()
        group.queues.see_to()

    def _stop(self, number: int, why: str) -> None:
        self.trouble[number] = why
        self._hooks.log("group-stopped", {"group": number, "why": why})
        group = self._groups.all[number]
        group.shared.step_down()
        group.queues.see_to()

    def _leads_until(self) -> float:
        leading = [group.shared for group in self._groups.in_order if group.queues.leads]
        return min((shared.heard_at for shared in leading), default=inf) + FRESH_S

    def _cut(self, now: float) -> None:
        for group in self._groups.in_order:
            if group.queues.leads:
                upto = cut_at(self.beats.synced(group.number))
                if upto > self._drivers[group.number].cut:
                    self._cuts += 1
                    self._drivers[group.number].cut_away(upto)
        if self._cuts and now >= self._compact_at + COMPACT_S:
            self._compact_at, self._cuts = now, 0
            self._ask("KV/Range", range_of(self._keys.identity), self._compact)

    def _compact(self, response: Message) -> None:
        request = MESSAGES["CompactionRequest"](revision=response.header.revision)
        self._ask("KV/Compact", request, lambda _: None)

    # --- beats

    def _join(self) -> None:
        if self._joining:
            return
        self._joining = True
        key, mine = self._keys.identity, self.identity.encode()
        request = transaction([is_absent(key)], [putting(key, mine)], reading(range_of(key)))

        def answered(response: Message) -> None:
            self._joining = False
            there = self.identity if response.succeeded else found(response)[0][0].value.decode(errors="replace")
            self._joined(there)

        def unanswered() -> None:
            self._joining = False

        self.etcd.ask("KV/Txn", request, answered, unanswered, timeout_s=ASK_S)

    def _joined(self, identity: str) -> None:
        has_data = any(group.shared.ends_at for group in self._groups.in_order)
        if identity != self.identity and has_data:
            self.refused = (
                f"etcd has cluster {identity}, and the data folder of this node is of cluster {self.identity}"
            )
            self._hooks.log("cluster-refused", {"why": self.refused})
            return
        self.identity, self.joined = identity, True
        self._hooks.log("cluster-joined", {"identity": identity, "node": self._node})

    def _put_beat(self) -> None:
        beat = self._beat
        beat.count += 1
        beat.synced = {group.number: group.shared.synced_number for group in self._groups.in_order}
        beat.applied = {group.number: group.shared.ends_at for group in self._groups.in_order}
        beat.problems = self.trouble
        key = self._keys.nodes + self._node.encode()
        self._ask("KV/Txn", transaction([], [putting(key, beat.encoded())], []), lambda _: None)

    def _look(self, sent_at: float) -> None:
        """Ask for the beats, the owners of all groups, and whether the definitions have changed."""
        self._looking = True
        keys = self._keys
        owners = [engine.owner_key for engine in self._engines.values()]
        ranges = [range_of(keys.nodes, keys.nodes_end), range_of(keys.topology_version), *map(range_of, owners)]

        def answered(response: Message) -> None:
            self._looking = False
            beats, version, *owners = found(response)
            self._looked(sent_at, beats, version, owners)

        def unanswered() -> None:
            self._looking = False

        self.etcd.ask("KV/Txn", transaction([], reading(*ranges), []), answered, unanswered, timeout_s=ASK_S)

    def _looked(
        self, sent_at: float, beats: list[Message], version: list[Message], owners: list[list[Message]]
    ) -> None:
        names = {one.key[len(self._keys.nodes) :].decode(errors="replace"): Beat.decoded(one.value) for one in beats}
        self.beats.looked({name: beat for name, beat in names.items() if beat is not None}, sent_at)
        changed = version[0].mod_revision if version else 0
        if changed != self._queues_version and not self._reading_queues:
            self._read_queues()
        for group, kvs in zip(self._groups.in_order, owners, strict=True):
            number = group.number
            owner = self.owners[number] = EtcdLog.owner_in(kvs)
            if number in self.trouble:
                continue
            driver = self._drivers[number]
            driver.owner_heard(owner, sent_at)
            if group.shared.must_copy:
                self._stop(number, "the engine has cut away batches that this node has not: it needs a copy")
            elif group.shared.role is Role.FOLLOWER:
                if self.beats.furthest(number) > group.shared.ends_at:
                    driver.more_to_read()
                if self.beats.should_claim(number, owner.node, sent_at):
                    driver.claim()

    # --- definitions

    def _read_queues(self) -> None:
        self._reading_queues = True
        keys = self._keys
        ranges = reading(range_of(keys.topology_version), range_of(keys.queues, keys.queues_end, limit=QUEUES_MAX))

        def answered(response: Message) -> None:
            self._reading_queues = False
            version, queues = found(response)
            self._queues_version = version[0].mod_revision if version else 0
            self._queues = [queue for one in queues if (queue := decoded(one.value)) is not None]

        def unanswered() -> None:
            self._reading_queues = False

        self.etcd.ask("KV/Txn", transaction([], ranges, []), answered, unanswered, timeout_s=PUT_S)

    def _announce(self, queue: SharedQueue, announced: Announced) -> None:
        key = queue_key(self._keys, queue.virtual_host, queue.declaration.name)
        changes = [putting(key, encoded(queue)), putting(self._keys.topology_version, b"")]
        request = transaction([is_absent(key)], changes, reading(range_of(key)))

        def answered(response: Message) -> None:
            there = queue if response.succeeded else decoded(found(response)[0][0].value)
            announced(there, "" if there is not None else "its definition in the engine cannot be read")

        self._ask_for(request, answered, announced)

    def _withdraw(self, queue: SharedQueue, announced: Announced) -> None:
        key = queue_key(self._keys, queue.virtual_host, queue.declaration.name)
        changes = [deleting(key), putting(self._keys.topology_version, b"")]
        request = transaction([has_value(key, encoded(queue))], changes, [])
        self._ask_for(request, lambda response: announced(queue, ""), announced)

    def _ask_for(self, request: Message, answered: Callable[[Message], None], announced: Announced) -> None:
        if not self.joined:
            announced(None, self.refused or "this node has not reached its cluster yet; try again in a moment")
            return

        def unanswered() -> None:
            announced(None, f"etcd does not answer ({self.etcd.trouble}); try again")

        self.etcd.ask("KV/Txn", request, answered, unanswered, timeout_s=PUT_S)

    def _ask(self, method: str, request: Message, answered: Callable[[Message], None]) -> None:
        self.etcd.ask(method, request, answered, lambda: None, timeout_s=ASK_S)
