"""Which groups are to be led by another node than now, because an operator wants it: planned moves of leaders.

A *wish* is a key in the engine: this group is to be led by that node. Its leader reads it, sends what it has gathered,
ceases to lead, and says so in its beat; the named node claims the group as soon as it reads that. So messages wait for
two looks at the engine, not for the two seconds after which a node counts as away.

A node that is *set aside* (maintenance mode) hands over what it leads and claims nothing.
"""

from collections.abc import Iterable, Mapping
from math import inf

from core.cluster.beats import Beats
from core.errors import PreconditionFailed

GIVE_UP_S = 3.0
"""After so long without a claim of the named node, the old leader may claim the group again."""


class Moves:
    """The wishes as one node knows them."""

    def __init__(self, node: str, beats: Beats) -> None:
        self.maintenance = False
        """Whether an operator wants that this node hands over everything and claims nothing."""
        self.leaving = False
        """Whether it does so because it leaves the cluster."""
        self.handing: dict[int, str] = {}
        """By group, the node that is to claim it now: this node leads it no more."""
        self.wishes: Mapping[int, str] = {}
        """By group, the node that is to lead it."""
        self._node, self._beats = node, beats
        self._since: dict[int, float] = {}
        self._moving_since: dict[int, float] = {}
        """By group, since when this node knows that it is handed over."""

    @property
    def set_aside(self) -> bool:
        """Whether this node hands over everything and claims nothing."""
        return self.maintenance or self.leaving

    def target(self, group: int) -> str | None:
        """Return the node to which this node, which leads a group, should hand it over; None for none."""
        wished = self.wishes.get(group)
        if wished is not None and wished != self._node and self._can_lead(wished, group):
            return wished
        return self.next_leader(group) if self.set_aside else None

    def next_leader(self, group: int) -> str | None:
        """Return the node that should lead a group if this node does not; None if no other can."""
        others = [name for name in self._beats.order(group) if name != self._node and self._can_lead(name, group)]
        return others[0] if others else None

    def preferred(self, group: int) -> str | None:
        """Return the node that should lead a group; None if none can."""
        return next((name for name in self._beats.order(group) if self._can_lead(name, group)), None)

    def begin(self, group: int, to: str, now: float) -> None:
        """This node has ceased to lead a group."""
        self.handing[group], self._since[group] = to, now

    def ended(self, group: int) -> None:
        """Another node leads the group, or this one again."""
        self.handing.pop(group, None)
        self._since.pop(group, None)

    def may_claim(self, group: int, now: float) -> bool:
        """Return whether this node may claim a group whose owner is away or has given it up."""
        if self.set_aside and self.next_leader(group) is not None:
            return False
        return group not in self.handing or now >= self._since[group] + GIVE_UP_S

    def is_asked(self, group: int, owner: str) -> bool:
        """Return whether the owner of a group has handed it over to this node."""
        beat = self._beats.beat(owner)
        return beat is not None and beat.hands.get(group) == self._node

    def is_moving(self, group: int, owner: str, *, led: bool, now: float) -> bool:
        """Return whether the owner of a group has handed it over, and no node leads it yet. ``led``: whether one does,
        as far as this node knows. A node that does not claim what it was given is not waited for longer than its old
        leader waits."""
        beat = self._beats.beat(owner)
        if led:
            self._moving_since.pop(group, None)
        elif group in self.handing or (beat is not None and group in beat.hands):
            self._moving_since.setdefault(group, now)
        return now < self._moving_since.get(group, -inf) + GIVE_UP_S

    def check_majorities(self, groups: Iterable[int]) -> None:
        """Raises PreconditionFailed if one of these groups would lose its majority without this node."""
        for group in groups:
            members = self._beats.counted_in(group)
            wanted = len(members) // 2 + 1
            healthy = [name for name in members if name != self._node and self._can_lead(name, group)]
            if len(healthy) < wanted:
                raise PreconditionFailed(
                    f"group {group} would have {len(healthy)} of {len(members)} copies without node {self._node}, and "
                    f"a majority is {wanted}; start the other nodes first, or use --force"
                )

    def _can_lead(self, name: str, group: int) -> bool:
        if name == self._node:
            return not self.set_aside and name in self._beats.counted_in(group)
        return self._beats.beat(name) is not None and self._beats.can_lead(name, group)
