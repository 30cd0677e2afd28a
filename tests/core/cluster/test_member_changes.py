"""A change of the members is checked with the list that the engine has, and not with one that a node knew before."""

from random import Random

from core.cluster.beats import Beat, Beats
from core.cluster.etcd_messages import putting, transaction
from core.cluster.keys import ClusterKeys
from core.cluster.member_changes import ChangeOfMembers, MemberChanges
from core.cluster.member_list import MemberList, MemberState
from core.cluster.placement import placed
from core.engine.quorum.group_numbers import GroupNumbers
from core.errors import PreconditionFailed, StillGoing
from tests.cluster.network import Network
from tests.cluster.simulated_etcd import SimulatedEtcd, StoredKeys

NUMBERS = GroupNumbers(1)
NAMES = ("a", "b", "c", "d")


class Changes:
    """Node a, and an engine whose list is in its third version."""

    def __init__(self) -> None:
        self.stored, self.network = StoredKeys(), Network(Random(1))
        first = placed(MemberList.first(NAMES, [], []), NUMBERS)
        self.engine_has = first._replace(version=3)
        key = ClusterKeys("test").members
        self.stored.carry_out(transaction([], [putting(key, self.engine_has.encoded())], []))
        self.stored.carry_out(transaction([], [putting(b"/hg/test/groups/2/cut", (7).to_bytes(8, "big"))], []))
        self.beats = Beats("a", NAMES)
        self.changes = MemberChanges(
            SimulatedEtcd(1, self.stored, self.network), "test", NUMBERS, self.beats, lambda: self.network.now,
            first=first, changed=lambda listed: None, log=lambda event, facts: None,
        )  # fmt: skip

    def hear(self, version: int) -> None:
        """Each node has everything, and has said so when it knew a version of the list."""
        synced = dict.fromkeys(NUMBERS.all, 9)
        beat = Beat(version + 1, "life", synced=synced, listed=version)
        self.beats.looked(dict.fromkeys(NAMES, beat), self.network.now)

    def leave(self, name: str) -> str:
        """Have a node leave. Returns why it was not done."""
        while True:
            try:
                self.changes.change(ChangeOfMembers.LEAVE, self.engine_has.named(name))
                return ""
            except StillGoing:
                self.network.pass_time(0.05)
            except PreconditionFailed as why:
                return str(why)


def test_what_nodes_said_before_the_last_change_counts_for_no_change():
    node = Changes()
    group_of_three = NUMBERS.of_size(3)[0]
    leaver = node.engine_has.groups[group_of_three][0]
    node.hear(2)
    assert f"group {group_of_three} would have 0 of 3 copies up to date" in node.leave(leaver)
    node.hear(3)
    assert node.leave(leaver) == ""
    assert node.changes.listed.named(leaver).state is MemberState.LEAVING
