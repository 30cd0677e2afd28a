"""How one node follows the list of members, and changes it because an operator, or its own state, wants that.

A change is checked with what the engine has at that moment: the list, and how far each group was cut. It is made only
if both are still the same then. So no cut that an earlier list allowed comes between the check that enough copies stay
and the change; a leader's cut depends on the list in the same way.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from math import inf
from typing import NamedTuple

from core.cluster.beats import Beats
from core.cluster.etcd import Etcd
from core.cluster.etcd_messages import Message, deleting, found, has_value, is_absent, putting, range_of, reading
from core.cluster.etcd_messages import transaction as transaction_of
from core.cluster.keys import NUMBER, ClusterKeys, GroupKeys
from core.cluster.member_list import ListedMember, MemberList, MemberState, check_copies
from core.cluster.placement import placed
from core.engine.quorum.group_numbers import GroupNumbers
from core.errors import EngineError, PreconditionFailed, StillGoing

ASK_S = 2.0
TRIES_MAX = 10
"""How often a change is checked anew because something else has changed meanwhile. A group is cut every five
seconds."""
KEPT_S = 5.0
"""How long the result of a change waits for who asked for it. A command asks again in the next turn."""
AGAIN_S = 2.0
"""The wait after a change that this node wants for itself, and that was not made."""


class ChangeOfMembers(StrEnum):
    """What an operator wants."""

    JOIN = "join"
    LEAVE = "leave"
    FORGET = "forget"
    """Take a node off the list that is away for good."""


class _Wanted(NamedTuple):
    what: ChangeOfMembers
    member: ListedMember
    force: bool


class _State(NamedTuple):
    """What the engine has."""

    value: bytes | None
    listed: MemberList
    cuts: Mapping[int, bytes | None]


class MemberChanges:
    """The list of the members, as one node knows it."""

    def __init__(
        self,
        etcd: Etcd,
        cluster: str,
        numbers: GroupNumbers,
        beats: Beats,
        clock: Callable[[], float],
        *,
        first: MemberList,
        changed: Callable[[MemberList], None],
        log: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        """``first``: the list that this node had last, or that of its configuration. ``changed`` is called with each
        list that takes its place."""
        self.listed = first
        self.known = False
        """Whether this node has read the list of the engine."""
        self._value: bytes | None = None
        self._etcd = etcd
        self._keys, self._numbers = ClusterKeys(cluster), numbers
        self._cuts = {group: GroupKeys(cluster, group).cut for group in numbers.all}
        self._beats, self._clock = beats, clock
        self._changed, self._log = changed, log
        self._wanted: _Wanted | None = None
        """What was asked for last, by an operator."""
        self._why: str | None = None
        """Why it was not made; "" if it was made, None while it is under way."""
        self._decided_at = -inf
        self._busy = False
        self._again_at = -inf
        self._follow(first)

    # --- following

    @property
    def unchanged(self) -> list[Message]:
        """A comparison: the list is the one that this node knows."""
        key = self._keys.members
        return [is_absent(key) if self._value is None else has_value(key, self._value)]

    @property
    def first(self) -> MemberList:
        """The first list of a cluster, if this node begins one."""
        return self._placed(self.listed)

    def heard(self, found_keys: Sequence[Message]) -> None:
        """The engine has this list, or none yet."""
        if not found_keys:
            self._put_first()
        elif (value := bytes(found_keys[0].value)) != self._value:
            listed = MemberList.decoded(value)
            if listed is None:
                self._log("members-not-known", {"key": repr(self._keys.members)})
            elif self._value is None or listed.version > self.listed.version:
                self._take(value, listed)

    def _take(self, value: bytes, listed: MemberList) -> None:
        before, self._value, self.known = self.listed, value, True
        self.listed = listed
        self._follow(listed)
        if listed != before:
            self._log("members-changed", {"members": listed.names, "version": listed.version})
            self._changed(listed)

    def _follow(self, listed: MemberList) -> None:
        joining = [one.name for one in listed.members if one.state is MemberState.JOINING]
        self._is_placed = self._placed(listed) == listed
        of_groups = {group: listed.groups.get(group, ()) for group in self._numbers.sized}
        self._beats.follow(listed.names, joining, of_groups, listed.version)

    def _put_first(self) -> None:
        """The engine has no list yet: that of the first node that says so is it."""
        if self._busy:
            return
        self._busy = True
        key, first = self._keys.members, self.first
        request = transaction_of([is_absent(key)], [putting(key, first.encoded())], [])
        self._etcd.ask("KV/Txn", request, lambda _: self._rest(), self._rest, timeout_s=ASK_S)

    def _rest(self) -> None:
        self._busy = False

    def _placed(self, listed: MemberList) -> MemberList:
        return placed(listed, self._numbers)

    def place(self) -> None:
        """Say who the members of the groups are that not every node keeps, if the list does not: an earlier version has
        made it."""
        if self.known and not self._is_placed:
            self._for_itself(self._placed_anew)

    def _placed_anew(self, state: _State) -> MemberList | None:
        new = self._placed(state.listed)
        return None if new == state.listed else new._replace(version=new.version + 1)

    # --- changes for operators

    def change(self, what: ChangeOfMembers, member: ListedMember, *, force: bool = False) -> None:
        """Make a change. Raises StillGoing until it is made, and then EngineError with the reason if it cannot be."""
        wanted, now = _Wanted(what, member, force), self._clock()
        if self._wanted is not None and self._why is None:
            if wanted != self._wanted:
                raise PreconditionFailed(f"node {self._wanted.member.name} is being changed; try again in a moment")
        elif wanted == self._wanted and now < self._decided_at + KEPT_S:
            self._wanted = None
            if self._why:
                raise PreconditionFailed(self._why)
            return
        else:
            self._wanted, self._why = wanted, None
            self._make(lambda state: self._checked(state, wanted), self._decide)
        raise StillGoing(f"node {member.name}: the engine has not the change yet")

    def _decide(self, why: str) -> None:
        self._why, self._decided_at = why, self._clock()

    def _checked(self, state: _State, wanted: _Wanted) -> MemberList | None:
        """The list that follows; None if it is so already. Raises EngineError."""
        listed, name = state.listed, wanted.member.name
        if wanted.what is ChangeOfMembers.JOIN:
            joining = wanted.member._replace(state=MemberState.JOINING)
            return None if joining in listed.members else listed.joined_by(wanted.member)
        there = listed.named(name)
        rest = self._placed(listed.without(name))
        here = self._beats.is_here(name)
        if there.state is MemberState.JOINING:
            return rest
        if wanted.what is ChangeOfMembers.FORGET and here and not wanted.force:
            raise PreconditionFailed(f"node {name} is here; have it leave with: headgate cluster leave {name}")
        if wanted.what is ChangeOfMembers.LEAVE and not here and not wanted.force:
            raise PreconditionFailed(
                f"node {name} is away, and cannot hand over; if it will not come back: headgate cluster forget {name}"
            )
        if wanted.force:
            return rest
        self._check_copies(state, name, rest)
        if wanted.what is ChangeOfMembers.FORGET:
            return rest
        return None if there.state is MemberState.LEAVING else listed.with_state(name, MemberState.LEAVING)

    def _check_copies(self, state: _State, name: str, rest: MemberList) -> None:
        cuts = {group: 0 if cut is None else NUMBER.unpack(cut)[0] for group, cut in state.cuts.items()}
        for group, cut in cuts.items():
            if name in self._members_of(group, state.listed):
                remaining = [one for one in rest.counted if one in self._members_of(group, rest)]
                check_copies(name, remaining, {group: self._beats.up_to_date(group, cut)})

    def _members_of(self, group: int, listed: MemberList) -> Collection[str]:
        return listed.groups.get(group, () if group in self._numbers.sized else listed.names)

    # --- changes that this node wants for itself

    def became_member(self) -> None:
        """This node, which joins, has copies of all groups."""
        self._for_itself(lambda state: state.listed.with_state(self._beats.node, MemberState.MEMBER))

    def has_left(self) -> None:
        """This node, which leaves, has handed over everything."""

        def checked(state: _State) -> MemberList:
            rest = self._placed(state.listed.without(self._beats.node))
            self._check_copies(state, self._beats.node, rest)
            return rest

        self._for_itself(checked)

    def _for_itself(self, checked: Callable[[_State], MemberList | None]) -> None:
        now = self._clock()
        if self._busy or now < self._again_at:
            return
        self._again_at = now + AGAIN_S

        def answered(why: str) -> None:
            if why:
                self._log("members-not-changed", {"why": why})

        self._make(checked, answered)

    # --- making

    def _make(
        self, checked: Callable[[_State], MemberList | None], answered: Callable[[str], None], tries: int = TRIES_MAX
    ) -> None:
        """Read, check, and put the list that follows. ``answered`` is called with why it was not put."""
        self._busy = True

        def end(why: str) -> None:
            self._busy = False
            answered(why)

        def unanswered() -> None:
            trouble = self._etcd.trouble
            end(f"etcd does not answer ({trouble}); the change may be made all the same: see headgate cluster status")

        def read(response: Message) -> None:
            members, *cuts = found(response)
            self.heard(members)  # what nodes have said counts for the list that is checked
            if not members or (listed := MemberList.decoded(members[0].value)) is None:
                end("etcd has no list of the members yet; try again in a moment")
                return
            values = [bytes(kvs[0].value) if kvs else None for kvs in cuts]
            state = _State(bytes(members[0].value), listed, dict(zip(self._cuts, values, strict=True)))
            try:
                new = checked(state)
            except EngineError as error:
                end(str(error))
                return
            if new is None:
                end("")
                return
            listed = self._placed(new)
            self._etcd.ask(
                "KV/Txn", self._put(state, listed), lambda done: put(done, listed), unanswered, timeout_s=ASK_S
            )

        def put(response: Message, new: MemberList) -> None:
            if response.succeeded:
                self._take(new.encoded(), new)
                end("")
            elif tries > 1:
                self._make(checked, answered, tries - 1)
            else:
                end("the members, or the logs of groups, change all the time; try again")

        ranges = reading(range_of(self._keys.members), *map(range_of, self._cuts.values()))
        self._etcd.ask("KV/Txn", transaction_of([], ranges, []), read, unanswered, timeout_s=ASK_S)

    def _put(self, state: _State, new: MemberList) -> Message:
        """The request that puts a list in the place of the one from which it was made."""
        assert state.value is not None, "there is a list"
        same = [has_value(self._keys.members, state.value)]
        for group, cut in state.cuts.items():
            same.append(is_absent(self._cuts[group]) if cut is None else has_value(self._cuts[group], cut))
        gone = set(state.listed.names) - set(new.names)
        beats = [deleting(self._keys.nodes + name.encode()) for name in sorted(gone)]
        return transaction_of(same, [putting(self._keys.members, new.encoded()), *beats], [])
