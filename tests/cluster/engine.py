"""An engine in memory that orders the batches of one group, and the mistakes that can be put into it.

Each method is one step, as a transaction of etcd is. What was answered is never lost, except with a mistake.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from core.cluster.member_list import ListedMember, MemberList, MemberState, check_copies
from core.cluster.placement import placed
from core.engine.quorum.batches import CommandBatch
from core.engine.quorum.copying import CopyPart, CopyWanted
from core.engine.quorum.group_numbers import GroupNumbers
from core.engine.quorum.shared_log import Claim, ClaimAnswer, LogRead, Owner, PutAnswer, cut_at
from core.errors import PreconditionFailed

GROUP = 7
"""The number of the group. It is the first one behind those of all nodes, and should have three members; in other
clusters here it is one of all nodes."""
NUMBERS = GroupNumbers(GROUP - 1)
READ_MAX = 8
"""The most batches in one answer."""


class Mistake(Enum):
    """What can be wrong with an engine and its driver, one at a time. The simulation must find each of them."""

    EARLY_ANSWER = "acknowledge before majority"
    NO_FENCE = "fence not checked"
    HOLE_KEPT = "hole kept"
    STALE_LEADER = "stale leader delivers"
    CUT_TOO_FAR = "truncate too far"
    COPY_ENDS_EARLY = "copy ends early"
    LEAVES_UNASKED = "leaves although its copy is needed"


class Report(NamedTuple):
    """What a node has said last of its copy of the group."""

    listed: int = -1
    """The version of the list of the members that it knew."""
    synced: int = 0
    copying: bool = False
    """Whether it needs no batches, because it copies another one's log."""


class MembersSeen(NamedTuple):
    """The list of the members, and how far the log was cut when it was read."""

    listed: MemberList
    cut: int


class View(NamedTuple):
    """What the engine had at one moment, as a node gets to know it later."""

    listed: MemberList
    of_group: Sequence[int]
    """The members of the group."""
    reports: Mapping[int, Report]
    away: Collection[int]
    """Members that need no batches because they are away for too long."""
    unheard: Collection[int]
    """Members that have said nothing in their present life."""
    of_three: bool
    losses: int
    """How many disks were lost: no cluster survives the loss of one between the view and a change that rests on it."""

    @property
    def synced(self) -> dict[int, int]:
        """Up to where each member of the group has synced its copy; see :meth:`core.cluster.beats.Beats.synced`."""
        return {node: self._synced(node) for node in self.of_group}

    def _synced(self, node: int) -> int:
        report = self.reports[node]
        return 0 if self.of_three and report.listed < self.listed.version else report.synced

    @property
    def copying(self) -> set[int]:
        """Members of the group that need no batches."""
        return {node for node in self.of_group if node in self.away or self.reports[node].copying}

    def up_to_date(self, upto: int, here: Collection[int]) -> set[int]:
        """The members of the group that are among the nodes that are here, and have everything up to a number."""
        return {
            node
            for node, synced in self.synced.items()
            if node in here and node not in self.unheard and node not in self.copying and synced >= upto
        }

    def all_have(self, upto: int, here: Collection[int]) -> bool:
        """Whether all members of the group are here, and have everything up to a number."""
        return set(self.of_group) <= self.up_to_date(upto, here)


class SimulatedEngine:
    """Owner and batches of one group."""

    def __init__(self, members: Sequence[int], mistake: Mistake | None = None, *, of_three: bool = False) -> None:
        """``of_three``: whether the group should have three members, and not be one of all nodes."""
        self.mistake = mistake
        self.of_three = of_three
        self.owner = Owner()
        self.batches: dict[int, bytes] = {}
        self.cut = 0
        """The highest number that was cut away."""
        self.listed = self._placed(MemberList.first(list(map(str, members)), [], []))
        """The members, whose names are their numbers."""
        self.losses = 0
        self.reports = dict.fromkeys(members, Report())
        """What each member has said last."""
        self.lives = dict.fromkeys(members, 0)
        """The present life of each member, negative until it has reported in that life, and 0 before the first one."""
        self.away: set[int] = set()
        """Members that need no batches, because they are away for too long."""
        self.wanted: dict[int, CopyWanted] = {}
        self.copies: dict[int, CopyPart] = {}
        """Requests for parts of a copy, and the parts, by the node that wants them."""
        self.check_cut: Callable[[int, View], None] = lambda upto, seen: None
        """Called with what is to be cut away, and what the leader has seen."""
        self.damage: Callable[[bytes], bytes] = lambda data: data
        """What a member with a damaged file makes of a batch that is read from it."""
        self._unsafe: list[int] = []
        """With a mistake: batches that were answered and that a majority has not."""

    @property
    def end(self) -> int:
        """The highest number that there is, or was before it was cut away."""
        return max([self.cut, *self.batches])

    def put(self, batch: CommandBatch, node: int) -> PutAnswer:
        """Put a batch, if its node is still the owner and nothing has its number."""
        number, epoch = batch.end.number, batch.end.epoch
        existing = self.batches.get(number)
        mine = self.owner == Owner(epoch, node)
        if self.mistake is Mistake.NO_FENCE and number > self.cut:
            mine = True
        if mine and existing is None:
            self.batches[number] = batch.data
            if self.mistake is Mistake.EARLY_ANSWER:
                self._unsafe.append(number)
        return PutAnswer(Owner(epoch, node) if mine else self.owner, existing)

    def claim(self, claim: Claim) -> ClaimAnswer:
        """Change the owner, if the group is in the epoch before."""
        won = self.owner.epoch == claim.epoch - 1
        if won:
            self.owner = Owner(claim.epoch, claim.node)
        return ClaimAnswer(self.owner, won)

    def read(self, after: int) -> LogRead:
        """Read some batches after a number, and what belongs to the answer."""
        numbers = sorted(number for number in self.batches if number > after)
        some = [(number, self.damage(self.batches[number])) for number in numbers[:READ_MAX]]
        return LogRead(after, self.owner, self.cut + 1, self.end, some, len(numbers) <= READ_MAX)

    def delete(self, numbers: Sequence[int], owner: Owner) -> Owner:
        """Delete batches, if this is still the owner."""
        if self.owner == owner and self.mistake is not Mistake.HOLE_KEPT:
            for number in numbers:
                self.batches.pop(number, None)
        return self.owner

    def cut_by(self, upto: int, owner: Owner) -> Owner:
        """Cut away up to this number, if this is still the owner."""
        if self.owner == owner:
            self._cut(upto)
        return self.owner

    def report(self, node: int, life: int, report: Report) -> None:
        """A member says in this life how its copy is."""
        if node in self.lives and self.lives[node] and life >= abs(self.lives[node]):
            self.lives[node], self.reports[node] = life, report
            self.away.discard(node)

    def give_copy(self, wanted: CopyWanted, part: CopyPart) -> None:
        """Put a part of a copy."""
        early = self.mistake is Mistake.COPY_ENDS_EARLY
        self.copies[wanted.receiver] = part._replace(complete=part.there) if early else part

    def end_copy(self, receiver: int) -> None:
        """Forget a copy."""
        self.wanted.pop(receiver, None)
        self.copies.pop(receiver, None)

    def trim(self, applied: int, seen: View, owner: Owner) -> Owner:
        """Cut away what no member needs, if this is still the owner and the list the one that it has seen. ``applied``:
        up to where the leader has applied the log."""
        joining = [int(one.name) for one in seen.listed.members if one.state is MemberState.JOINING]
        upto = applied if self.mistake is Mistake.CUT_TOO_FAR else cut_at(seen.synced, seen.copying, joining)
        if seen.listed != self.listed or owner != self.owner:
            return self.owner
        if upto > self.cut:
            self.check_cut(upto, seen)
        return self.cut_by(upto, owner)

    def _cut(self, upto: int) -> None:
        for number in [number for number in self.batches if number <= upto]:
            del self.batches[number]
        self.cut = max(self.cut, upto)

    def replicate(self) -> None:
        """A majority has caught up."""
        self._unsafe.clear()

    def lose_leader(self) -> None:
        """Another member of the engine leads it now."""
        for number in self._unsafe:
            self.batches.pop(number, None)
        self._unsafe.clear()

    # --- members that change

    @property
    def members(self) -> MembersSeen:
        """What a node is told that wants to change the members."""
        return MembersSeen(self.listed, self.cut)

    def view(self) -> View:
        """What a node is told that looks at the others."""
        unheard = {node for node, life in self.lives.items() if life <= 0}
        return View(self.listed, self.of_group, dict(self.reports), set(self.away), unheard, self.of_three, self.losses)

    def change_members(self, before: MembersSeen, losses: int, listed: MemberList) -> bool:
        """Change the list, if nothing has changed since what a node was told. Returns whether it was changed."""
        if before != self.members or losses != self.losses:
            return False
        self.listed = self._placed(listed)
        now = set(map(int, listed.names))
        for gone in set(self.lives) - now:
            del self.lives[gone], self.reports[gone]
            self.away.discard(gone)
        for new in now - set(self.lives):
            self.lives[new], self.reports[new] = 0, Report()
        return True

    @property
    def of_group(self) -> list[int]:
        """The members of the group."""
        return self._of_group(self.listed)

    def _of_group(self, listed: MemberList) -> list[int]:
        return list(map(int, listed.groups.get(GROUP, ()) if self.of_three else listed.names))

    def _placed(self, listed: MemberList) -> MemberList:
        return placed(listed, NUMBERS) if self.of_three else listed

    def leaving(self, seen: MembersSeen, name: str, view: View, here: Collection[int]) -> MemberList | None:
        """The list without a member; None if too few copies would be left. ``here``: the nodes that are not away."""
        rest = self._placed(seen.listed.without(name))
        return rest if int(name) not in self.of_group or self._may_be(seen, name, rest, view, here) else None

    def moving(self, seen: MembersSeen, name: str, to: str, view: View, here: Collection[int]) -> MemberList | None:
        """The list with another member of the group in the place of one; None if too few copies would be left."""
        members = seen.listed.groups[GROUP]
        if name not in members or to in members:
            return None
        now = tuple(to if one == name else one for one in members)
        moved = seen.listed._replace(version=seen.listed.version + 1, groups={**seen.listed.groups, GROUP: now})
        return moved if self._may_be(seen, name, moved, view, here) else None

    def _may_be(self, seen: MembersSeen, leaver: str, rest: MemberList, view: View, here: Collection[int]) -> bool:
        if self.mistake is Mistake.LEAVES_UNASKED:
            return True
        members = [name for name in rest.counted if int(name) in self._of_group(rest)]
        try:
            check_copies(leaver, members, {GROUP: set(map(str, view.up_to_date(seen.cut, here)))})
        except PreconditionFailed:
            return False
        return view.listed == seen.listed


def joining(seen: MembersSeen, name: str) -> MemberList | None:
    """The list with one member more; None if it cannot join now."""
    try:
        return seen.listed.joined_by(ListedMember(name))
    except PreconditionFailed:
        return None
