"""One node of a cluster: drives its groups, looks at the other nodes, and agrees with them on definitions.

It does not wait. Its owner calls :meth:`step` when ``groups.wake`` is called and from time to time, and does between
two calls what answers have led to. Everything runs in one thread.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from math import inf
from typing import NamedTuple

from core.cluster.beats import BEAT_S, LOOK_S, Beat, Beats, node_number
from core.cluster.beginning import Beginning, GroupEnd, Offered
from core.cluster.copies import GroupCopies
from core.cluster.copy_values import decoded_wanted
from core.cluster.cuts import Cuts
from core.cluster.definitions_log import DefinitionsLog, Follower
from core.cluster.engine_members import EngineMembers
from core.cluster.engine_space import EngineSpace
from core.cluster.etcd import Etcd
from core.cluster.etcd_definitions import EtcdDefinitions
from core.cluster.etcd_log import ASK_S, NO_SPACE, REQUEST_BYTES_MAX, REQUEST_OVERHEAD, EtcdLog
from core.cluster.etcd_messages import (
    Message,
    deleting,
    found,
    has_value,
    putting,
    range_of,
    reading,
    transaction,
)
from core.cluster.group_driver import GroupDriver
from core.cluster.keys import NUMBER, ClusterKeys
from core.cluster.member_changes import MemberChanges
from core.cluster.member_list import MemberList, MemberState
from core.cluster.moves import Moves
from core.engine.quorum.copying import PART_BYTES_MAX, CopySource, CopyWanted, GroupCopy
from core.engine.quorum.groups import QuorumGroup, QuorumGroups
from core.engine.quorum.shared_log import FRESH_S, Owner, Role
from core.errors import EngineError

READ_UNASKED_S = 2.0
"""How often a follower reads a group although no beat says that there is more."""
SOON_S = 0.05
"""How often a node looks at the others while a group has no leader: clients wait for it."""
LOOK_ELSEWHERE_S = 0.15
"""When a look has no answer for so long, another member of etcd is asked as well: one that stands still, or that has no
leader, would hold this node up until the look is given up."""
LOOKS_MAX = 3
"""The most looks without an answer."""


class Hooks(NamedTuple):
    """What the broker does for the cluster."""

    never_committed: Callable[..., None]
    """A group will never have the commands between two positions, or ``known=False``: may have them. See
    :meth:`core.engine.machinery.Machinery.never_committed`."""
    follower: Follower
    """Makes the definitions on which the nodes have agreed."""
    first_time: bool
    """Whether this node has never had the definitions of the cluster."""
    leads_until: Callable[[float], None]
    """Until when this node leads groups without hearing of it again; infinity if it leads none."""
    log: Callable[[str, Mapping[str, object]], None]
    """Write a line of the log."""
    engine_full: Callable[[str], None] = lambda why: None
    """Publishers have to wait because etcd is nearly full, or need not (an empty text)."""
    members_changed: Callable[[MemberList], None] = lambda listed: None
    """There is another list of the members."""


class Member:
    """This node."""

    def __init__(
        self,
        etcd: Etcd,
        groups: QuorumGroups,
        *,
        cluster: str,
        node: str,
        members: MemberList,
        beat: Beat,
        identity: str,
        clock: Callable[[], float],
        hooks: Hooks,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        away_time_max: float = 600.0,
        away_bytes_max: int = 256 << 20,
        quota: int = 2 << 30,
        scheme: str = "http",
        recovers: bool = False,
    ) -> None:
        """``members``: the list that this node had last. ``beat`` is the first one of this life. ``identity``: that of
        the cluster, as this node's data folder has it, or a new one. ``request_bytes_max``: of a request to etcd.
        ``away_time_max`` in seconds, and ``away_bytes_max``: how long, and with how many bytes of a group, a member
        that is away holds batches in the engine. ``quota``: that of etcd, in bytes. ``scheme``: of the addresses of its
        members. ``recovers``: whether this node begins a new cluster with its copies of an earlier one."""
        self.etcd = etcd
        self.beats = Beats(node, members.names)
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
        self._node, self._number = node, node_number(node)
        self._request_bytes_max = request_bytes_max
        self._beat = beat
        self.space = EngineSpace(
            etcd, self._keys.identity, clock, quota=quota, changed=hooks.engine_full, log=hooks.log
        )
        self._clock, self._hooks = clock, hooks
        self.changes = MemberChanges(
            etcd, cluster, groups.numbers, self.beats, clock,
            first=members, changed=hooks.members_changed, log=hooks.log,
        )  # fmt: skip
        self.engine_members = EngineMembers(etcd, clock, scheme=scheme, log=hooks.log)
        self._engines = {group.number: self._engine(cluster, group.number) for group in groups.in_order}
        self._drivers = {
            group.number: GroupDriver(group.shared, self._engines[group.number], clock, read_s=READ_UNASKED_S)
            for group in groups.in_order
        }
        life = node_number(beat.life)
        for group in groups.in_order:
            self._give_and_take(group, life)
        self.copies = GroupCopies(groups, self._drivers, self.beats, clock, hooks.log)
        self._cuts = Cuts(
            etcd, self._keys.identity, groups, self._drivers, self.beats, self.space,
            away_time_max=away_time_max, away_bytes_max=away_bytes_max,
        )  # fmt: skip
        self._beat_at = self._look_at = self._everything_at = -inf
        self._looks = 0
        self._looked_at = -inf
        """When the last look that had an answer was sent."""
        self._tells = True
        self.moves = Moves(node, self.beats)
        self.beginning = Beginning(
            etcd, cluster, identity, offered=self._offered if recovers else None,
            joined=self._joined, refused=self._refuse, log=hooks.log,
        )  # fmt: skip
        self.definitions = DefinitionsLog(
            EtcdDefinitions(etcd, self._keys), hooks.follower, hooks.log, first_time=hooks.first_time
        )

    def _give_and_take(self, group: QuorumGroup, life: int) -> None:
        """Have the driver of a group copy, and be copied from."""
        driver, engine = self._drivers[group.number], self._engines[group.number]
        driver.copy = GroupCopy(group.shared, group.queues, engine, self._clock, serial=life)
        part_bytes_max = min(PART_BYTES_MAX, self._request_bytes_max - REQUEST_OVERHEAD)
        driver.source = CopySource(group.queues.log, life, self._clock, part_bytes_max=part_bytes_max)
        group.queues.cleaner.keeps_from = driver.source.keeps_from

    # --- what the owner calls

    def step(self) -> bool:
        """Do what is due. Returns whether the engine of the broker needs a turn."""
        if self.refused:
            return False
        now = self._clock()
        if not self.joined:
            self.beginning.step()
            return False
        turn = self._see_to_some(now)
        if now >= self._beat_at + BEAT_S:
            self._beat_at = now
            self._put_beat()
        look_s = LOOK_ELSEWHERE_S if self._looks else SOON_S if self._waits_for_leader else LOOK_S
        if now >= self._look_at + look_s and self._looks < LOOKS_MAX:
            self._look_at = now
            self._look(now)
        mends = self._first_leader == self._number
        if mends:
            self.changes.place()
        self.space.step(mends=mends)
        if any(one.peer for one in self.changes.listed.members):
            self.engine_members.step(self.changes.listed, mends=mends)
        self._cuts.step(now)
        return self.definitions.step() or turn

    def _see_to_some(self, now: float) -> bool:
        """See to the groups with which something has happened, and a few times a second to all."""
        touched = self._groups.touched
        everything = now >= self._everything_at + LOOK_S
        if everything:
            self._everything_at = now
        numbers = list(self._groups.all if everything else touched)
        touched.clear()
        turn = changed = False
        for number in numbers:
            group = self._groups.all[number]
            if number not in self.trouble and self._takes_part(group):
                led = group.queues.leads
                turn |= self._see_to(group)
                changed |= group.queues.leads != led
                if group.shared.unwritten or self._waits(group):
                    touched[number] = None
        if everything or changed:
            self._hooks.leads_until(self._leads_until())
        return turn

    @property
    def _first_leader(self) -> int:
        """The node that leads the first group that is led: it does what one node has to do for all."""
        leaders = (owner.node for _, owner in sorted(self.owners.items()))
        return next((node for node in leaders if self.beats.is_here(self.beats.name_of(node))), 0)

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
        return (
            self.definitions.busy
            or self._waits_for_leader
            or any(self._waits(self._groups.all[number]) for number in self._groups.touched)
        )

    @property
    def _waits_for_leader(self) -> bool:
        """Whether a group has no leader that says so, and some member could lead it."""
        groups = (group for group in self.used_groups if group.number not in self.trouble)
        without = (group for group in groups if not group.queues.leads and self.home(group) is None)
        return any(self._keeps(group) or self.moves.preferred(group.number) is not None for group in without)

    @property
    def used_groups(self) -> list[QuorumGroup]:
        """The groups that have members."""
        return [group for group in self._groups.in_order if self.beats.members_of(group.number)]

    @property
    def _kept_groups(self) -> list[QuorumGroup]:
        """The groups of which this node is a member."""
        return [group for group in self._groups.in_order if self._keeps(group)]

    def _keeps(self, group: QuorumGroup) -> bool:
        return self._node in self.beats.members_of(group.number)

    def _takes_part(self, group: QuorumGroup) -> bool:
        """Whether this node is a member of a group, or was one and has still to learn what became of its commands."""
        shared = group.shared
        return self._keeps(group) or shared.role is not Role.FOLLOWER or shared.in_doubt or shared.unwritten

    def tell_that_it_leads(self, *, wanted: bool) -> None:
        """Whether other nodes may forward to this one what it has begun to lead. They must not while it forwards some
        of that itself."""
        if wanted and not self._tells:
            self._beat_at = -inf
        self._tells = wanted

    def leader(self, group: QuorumGroup) -> str | None:
        """Return the node that leads a group, as far as this node knows; None if it is away."""
        name = self.beats.name_of(self.owners.get(group.number, group.shared.owner).node)
        return name if name and self.beats.is_here(name) else None

    def home(self, group: QuorumGroup) -> str | None:
        """Return the node that leads a group and says so itself; None if there is none, or this node may.

        So no two nodes take each other for the leader: the one of the lower epoch knows that it leads no more only
        because it has seen the higher one.
        """
        owner = max(self.owners.get(group.number, group.shared.owner), group.shared.owner)
        name = self.beats.name_of(owner.node)
        if not name or name == self._node or not self.beats.is_here(name) or group.shared.in_doubt:
            return None
        beat = self.beats.beat(name)
        return name if beat is not None and beat.leads.get(group.number) == owner.epoch else None

    # --- groups

    def _see_to(self, group: QuorumGroup) -> bool:
        """Apply what is committed, answer what never will be, and send what is to be sent."""
        shared, queues = group.shared, group.queues
        ends_at, led = shared.ends_at, queues.leads
        applied, copying = shared.unwritten, queues.copying
        queues.see_to()
        if copying and not queues.copying:
            self._hooks.log("group-copied", {"group": group.number, "after": shared.ends_at})
            self._drivers[group.number].end_copy()
        voids = shared.take_voids()
        for first, last in voids:
            self._hooks.never_committed(group.number, first, last)
        for first, last in shared.take_unknown():
            self._hooks.never_committed(group.number, first, last, known=False)
            voids.append((first, last))
        if queues.leads != led:
            self._beat_at = -inf  # others learn of it at once
            self._hooks.log("group-led" if queues.leads else "group-not-led", {"group": group.number,
                            "epoch": shared.epoch, "after": ends_at})  # fmt: skip
        self._drivers[group.number].drive()
        return bool(voids) or queues.leads != led or applied != shared.unwritten or shared.unwritten

    def _waits(self, group: QuorumGroup) -> bool:
        """Whether a group has to be seen to again in a moment, although nothing will happen until then."""
        role = group.shared.role
        behind = role is Role.LEADER and not group.queues.leads
        driver = self._drivers[group.number]
        return driver.waiting or driver.copies or role is Role.CLAIMED or behind

    def _engine(self, cluster: str, group: int) -> EtcdLog:
        touched = partial(self._groups.touch, group)
        stop, too_large = partial(self._stop, group), partial(self._too_large, group)
        return EtcdLog(
            self.etcd, cluster, group, stop, too_large, touched,
            request_bytes_max=self._request_bytes_max, cut_if=lambda: self.changes.unchanged,
        )  # fmt: skip

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

    def _follow_group(self, group: QuorumGroup, owner: Owner, sent_at: float) -> None:
        """Copy, read or claim a group, whatever is due."""
        if group.shared.must_copy:
            self.copies.begin_if_due(group)
        elif group.shared.role is Role.FOLLOWER and not group.queues.copying:
            if self.beats.furthest(group.number) > group.shared.ends_at:
                self._drivers[group.number].more_to_read()
            self._claim_if_due(group, owner, sent_at)

    def _drop(self, group: QuorumGroup) -> None:
        """Remove what this node keeps of a group of which it is no member, when all members have as much."""
        number, upto = group.number, group.queues.kept_upto
        if upto and self.beats.up_to_date(number, upto).issuperset(self.beats.members_of(number)):
            self.copies.of(number).end()
            group.queues.begin_copy()
            self._drivers[number].end_copy()
            self._hooks.log("group-dropped", {"group": number, "after": upto})

    def problems(self) -> dict[int, str]:
        """Why this node does not keep some groups, for the other nodes and operators."""
        return self.trouble | self.copies.problems(self._kept_groups)

    def _leads_until(self) -> float:
        leading = [group.shared for group in self._groups.in_order if group.queues.leads]
        return min((shared.heard_at for shared in leading), default=inf) + FRESH_S

    # --- planned moves of leaders

    def _claim_if_due(self, group: QuorumGroup, owner: Owner, now: float) -> None:
        number, driver = group.number, self._drivers[group.number]
        due = self.beats.should_claim(number, owner.node, now) and self.moves.may_claim(number, now)
        asked = self.moves.is_asked(number, self.beats.name_of(owner.node))
        if group.shared.has_read and (due or asked):
            driver.claim()

    def _led_here(self, group: QuorumGroup) -> None:
        """Hand a group over if that is wanted, and take away the wish that this node leads it."""
        number = group.number
        self.moves.ended(number)
        if self.moves.wishes.get(number) == self._node and not self.moves.set_aside:
            key, name = self._keys.moves + b"%d" % number, self._node.encode()
            self._ask("KV/Txn", transaction([has_value(key, name)], [deleting(key)], []), lambda _: None)
        target = self.moves.target(number)
        if target is None:
            return
        self._drivers[number].drive()  # what is gathered goes out before
        self.moves.begin(number, target, self._clock())
        group.queues.tell_moving(moving=True)
        group.shared.step_down()
        group.queues.see_to()
        self._hooks.log("group-handed-over", {"group": number, "to": target})
        self._beat_at = -inf

    def set_aside(self, *, wanted: bool, force: bool) -> None:
        """Begin or end to claim nothing. Raises PreconditionFailed if a group would lose its majority without this
        node, unless ``force`` is set."""
        if wanted and not force and not self.moves.set_aside:
            self.moves.check_majorities(group.number for group in self._kept_groups)
        self.moves.maintenance = wanted
        self._look_at = self._beat_at = -inf

    def rebalance(self) -> dict[int, str]:
        """Have each group led by the node that should lead it. Returns the groups that are to move, and where to."""
        wanted: dict[int, str] = {}
        for group in self.used_groups:
            owner = self.owners.get(group.number, group.shared.owner)
            preferred = self.moves.preferred(group.number)
            if preferred is not None and preferred != self.beats.name_of(owner.node):
                wanted[group.number] = preferred
        if wanted:
            puts = [putting(self._keys.moves + b"%d" % group, name.encode()) for group, name in wanted.items()]
            self._ask("KV/Txn", transaction([], puts, []), lambda _: None)
            self._look_at = -inf
        return wanted

    # --- beats

    def _joined(self, identity: str) -> None:
        has_data = any(group.shared.ends_at for group in self._groups.in_order)
        if identity != self.identity and has_data:
            self._refuse(f"etcd has cluster {identity}, and the data folder of this node is of cluster {self.identity}")
            return
        self.identity, self.joined = identity, True
        self._hooks.log("cluster-joined", {"identity": identity, "node": self._node})

    def _offered(self) -> Offered:
        """What a new cluster begins with: the copies of this node."""
        ends = {
            group.number: GroupEnd(group.shared.ends_at, Owner(group.shared.end.epoch, self._number))
            for group in self._kept_groups
            if group.shared.ends_at
        }
        return Offered(ends, self.changes.first.encoded())

    def _put_beat(self) -> None:
        beat = self._beat
        beat.count += 1
        kept, beat.listed = self._kept_groups, self.changes.listed.version
        beat.synced = {group.number: group.shared.synced_number for group in kept}
        beat.applied = {group.number: group.shared.ends_at for group in kept}
        copying = self.copies.problems(kept)
        beat.problems = self.trouble | copying
        beat.progress = self.copies.progress(copying, self._waits_for(copying))
        leading = [
            group
            for group in self._groups.in_order
            if group.queues.leads and (self._tells or group.number in beat.leads)
        ]
        beat.leads = {group.number: group.shared.epoch for group in leading}
        beat.hands, beat.set_aside = self.moves.handing, self.moves.set_aside
        key = self._keys.nodes + self._node.encode()
        self._ask("KV/Txn", transaction([], [putting(key, beat.encoded())], []), lambda _: None)

    def _look(self, sent_at: float) -> None:
        """Ask for the beats, the owners of all groups, and whether the definitions have changed."""
        keys, used = self._keys, self.used_groups
        owners = [self._engines[group.number].owner_key for group in used]
        moves, number = range_of(keys.moves, keys.moves_end), range_of(keys.topology_number)
        wanted = range_of(keys.wanted, keys.wanted_end)
        beats, members = range_of(keys.nodes, keys.nodes_end), range_of(keys.members)
        ranges = [beats, members, number, moves, wanted, *map(range_of, owners)]

        def answered(response: Message) -> None:
            self._looks -= 1
            if sent_at > self._looked_at:
                self._looked_at = sent_at
                beats, members, changes, moves, wanted, *owners = found(response)
                if not self._listed(members):
                    return
                wishes = {int(one.key[len(keys.moves) :]): one.value.decode(errors="replace") for one in moves}
                self.moves.wishes = wishes
                self._looked(sent_at, beats, changes, dict(zip(used, owners, strict=True)), self._wanted(wanted))

        def unanswered() -> None:
            self._looks -= 1

        request = transaction([], reading(*ranges), [])
        member = self.etcd.member_after(self._looks) if self._looks else None
        self._looks += 1
        self.etcd.ask("KV/Txn", request, answered, unanswered, timeout_s=ASK_S, member=member)

    def _listed(self, members: list[Message]) -> bool:
        """Follow the list of the members. Returns whether this node is one of them."""
        self.changes.heard(members)
        mine = self.changes.listed.find(self._node)
        self.moves.leaving = mine is not None and mine.state is MemberState.LEAVING
        if mine is None and self.changes.known:
            self._refuse(
                f"node {self._node} is none of the cluster's nodes, which are {', '.join(self.changes.listed.names)}; "
                "a node comes in with: headgate cluster join"
            )
        return mine is not None and self.changes.known

    def _refuse(self, why: str) -> None:
        """Take no part any more."""
        self.refused = self.definitions.refused = why
        self._hooks.log("cluster-refused", {"why": why})
        for group in self._groups.in_order:
            group.shared.step_down()
            group.queues.see_to()
        self._hooks.leads_until(inf)

    def _waits_for(self, copying: Collection[int]) -> list[str]:
        """What this node has to get to have what it should keep, and to be a member if it joins, in words for
        operators. ``copying``: the groups that need a copy."""
        lacks = ["copies"] if copying else []
        if self._node in self.beats.joining:
            groups = [group for group in self._kept_groups if group.number not in copying]
            lacks += ["groups that have stopped"] if self.trouble else []
            lacks += ["definitions"] if self.definitions.made < 0 else []
            read = all(group.shared.has_read for group in groups if group.number not in self.trouble)
            lacks += [] if read else ["batches"]
            lacks += ["the vote of its etcd"] if not (lacks or self._votes) else []
        return lacks

    @property
    def _votes(self) -> bool:
        """Whether the etcd that this broker starts, if it starts one, has its vote."""
        try:
            self.engine_members.check_votes(self.changes.listed, [self._node])
        except EngineError:
            return False
        return True

    def _change_itself(self) -> None:
        """Become a member when there are the definitions and copies of all groups, and leave when everything is handed
        over."""
        mine = self.changes.listed.find(self._node)
        if mine is None or mine.state is MemberState.MEMBER:
            return
        if mine.state is MemberState.JOINING:
            if not self._waits_for(self.copies.problems(self._kept_groups)):
                self.changes.became_member()
            return
        groups = [group for group in self._kept_groups if group.number not in self.trouble]
        busy = any(group.queues.leads or group.shared.in_doubt for group in groups)
        if not busy and self._number not in {owner.node for owner in self.owners.values()}:
            self.changes.has_left()

    def _wanted(self, found: list[Message]) -> dict[int, list[CopyWanted]]:
        """The requests for parts of copies, by group."""
        wanted: dict[int, list[CopyWanted]] = {}
        for one in found:
            request = decoded_wanted(one.value)
            if request is not None:
                wanted.setdefault(self._keys.wanted_in(one.key), []).append(request)
        return wanted

    def _looked(
        self,
        sent_at: float,
        beats: list[Message],
        changes: list[Message],
        owners: Mapping[QuorumGroup, list[Message]],
        wanted: Mapping[int, list[CopyWanted]],
    ) -> None:
        names = {one.key[len(self._keys.nodes) :].decode(errors="replace"): Beat.decoded(one.value) for one in beats}
        self.beats.looked({name: beat for name, beat in names.items() if beat is not None}, sent_at)
        self.definitions.heard(NUMBER.unpack(changes[0].value)[0] if changes else 0)
        for group, kvs in owners.items():
            number = group.number
            owner = self.owners[number] = EtcdLog.owner_in(kvs)
            if number in self.trouble:
                continue
            driver = self._drivers[number]
            driver.owner_heard(owner, sent_at)
            if self._takes_part(group):
                self._groups.touched[number] = None
                driver.give(wanted.get(number, ()))
                self._follow_group(group, owner, sent_at)
            else:
                self._drop(group)
            if owner.node != self._number:
                self.moves.ended(number)
            elif group.queues.leads:
                self._led_here(group)
            led = group.queues.leads or self.home(group) is not None
            name = self.beats.name_of(owner.node)
            group.queues.tell_moving(moving=self.moves.is_moving(number, name, led=led, now=sent_at))
        self._change_itself()

    def _ask(self, method: str, request: Message, answered: Callable[[Message], None]) -> None:
        def unanswered() -> None:
            if NO_SPACE in self.etcd.trouble:
                self.space.refused()

        self.etcd.ask(method, request, answered, unanswered, timeout_s=ASK_S)
