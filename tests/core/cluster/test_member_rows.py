"""What a node says of how far it is while it joins or copies groups, and what others know of that."""

from core.cluster.beats import BEAT_S, Beat, Progress, node_number
from core.cluster.etcd_messages import MESSAGES
from core.cluster.member import Hooks, Member
from core.cluster.member_list import ListedMember, MemberList
from core.cluster.member_rows import node_rows
from core.engine.quorum.group_numbers import GroupNumbers
from core.engine.quorum.groups import QuorumGroup, QuorumGroups
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import LogRead, Owner, SharedLog
from core.store.command_log import LocalCommandLog
from core.store.lane import Lane
from tests.core.cluster.test_looks import MEMBERS, MakesNothing, SilentEtcd
from tests.kit.faulty_disk import MemoryDisk

NOTHING = Hooks(lambda *_, **__: None, MakesNothing(), False, lambda _: None, lambda *_: None)
LISTED = MemberList.first(MEMBERS, [], [])


class Place:
    """A node with two groups, whose etcd answers nothing but that there is no other cluster."""

    def __init__(self, node: str, listed: MemberList) -> None:
        self.now = 100.0
        lane, disk = Lane("quorum", generation=1, sync_interval_s=0.2), MemoryDisk()
        self.groups = QuorumGroups()
        self.groups.numbers, opened = GroupNumbers(2), dict[int, QuorumGroup]()
        for number in (1, 2):
            copy = LocalCommandLog(disk, lane, file_bytes_max=999, group=number)
            shared = SharedLog(copy, node=node_number(node), group=number)
            queues = QuorumQueues(copy, shared=shared)
            queues.recover()
            opened[number] = QuorumGroup(number, shared, queues)
        self.groups.all = opened
        self.etcd = SilentEtcd()
        self.member = Member(
            self.etcd, self.groups, cluster="c", node=node, members=listed, beat=Beat(0, "life"),
            identity="one", clock=lambda: self.now, hooks=NOTHING,
        )  # fmt: skip
        self.member.step()
        self.etcd.asked[0][1](MESSAGES["TxnResponse"](succeeded=True))

    def read(self, group: int, first: int) -> None:
        """The engine has no batches of a group, of which the first one would be this one."""
        self.groups.all[group].shared.read_answered(LogRead(0, Owner(1, 9), first, 0, [], True), self.now)

    def said(self, seconds: float = BEAT_S) -> Progress | None:
        """The progress in the next beat."""
        self.now += seconds
        self.etcd.asked.clear()
        self.member.step()
        values = [one.request_put.value for request, *_ in self.etcd.asked for one in request.success]
        (beat,) = (beat for value in values if value and (beat := Beat.decoded(value)) is not None)
        return beat.progress


def test_a_member_that_has_everything_says_nothing():
    place = Place("a", LISTED)
    assert place.said() is None


def test_a_member_says_how_many_groups_it_has_copied_and_nothing_when_it_has_all():
    place = Place("a", LISTED)
    for group in (1, 2):
        place.read(group, first=9)
    assert place.said() == Progress(0, 2, 0, 0.0, ("copies",))
    place.member.copies.of(1).bytes = 700
    assert place.said(2.5) == Progress(0, 2, 700, 2.5, ("copies",))
    place.groups.all[1].shared.must_copy = False
    assert place.said() == Progress(1, 2, 700, 3.0, ("copies",))
    place.groups.all[2].shared.must_copy = False
    assert place.said() is None
    place.groups.all[2].shared.must_copy = True
    assert place.said() == Progress(0, 1, 0, 0.0, ("copies",)), "another time"


def test_a_node_that_joins_says_what_it_waits_for():
    place = Place("d", LISTED.joined_by(ListedMember("d")))
    assert place.said() == Progress(0, 0, 0, 0.0, ("definitions", "batches"))
    place.read(1, first=9)
    assert place.said() == Progress(0, 1, 0, 0.0, ("copies", "definitions", "batches"))
    place.read(2, first=1)
    place.member.definitions.made = 0
    assert place.said() == Progress(0, 1, 0, 0.5, ("copies",))
    place.member.trouble[2] = "it is damaged"
    assert place.said() == Progress(0, 1, 0, 1.0, ("copies", "groups that have stopped"))
    place.member.trouble.clear()
    place.groups.all[1].shared.must_copy = False
    place.read(1, first=1)
    assert place.said() is None, "there is no etcd that needs a vote"


def test_a_node_whose_etcd_has_no_vote_waits_for_it_and_its_time_stands_still():
    own = ListedMember("d", etcd="10.0.0.4:2379", peer="10.0.0.4:2380")
    ports = [f"10.0.0.{number}:2379" for number in (1, 2, 3)], [f"10.0.0.{number}:2380" for number in (1, 2, 3)]
    place = Place("d", MemberList.first(MEMBERS, *ports).joined_by(own))
    place.member.definitions.made = 0
    place.read(2, first=1)
    place.read(1, first=9)
    assert place.said() == Progress(0, 1, 0, 0.0, ("copies",))
    assert place.said(4.0) == Progress(0, 1, 0, 4.0, ("copies",))
    place.groups.all[1].shared.must_copy = False
    place.read(1, first=1)
    for _ in range(3):
        assert place.said() == Progress(1, 1, 0, 4.0, ("the vote of its etcd",))


def test_others_know_it_until_the_node_is_away():
    place = Place("a", LISTED.joined_by(ListedMember("d")))
    said = Progress(3, 16, 700, 8.2, ("copies",))
    place.member.beats.looked({"d": Beat(1, "life", progress=said), "b": Beat(1, "life")}, place.now)
    rows = {row["node"]: row for row in node_rows(place.member)}
    assert rows["d"]["state"] == "joining"
    assert rows["d"]["progress"] == {
        "copied": 3, "groups": 16, "bytes": 700, "seconds": 8.2, "waits_for": ["copies"]
    }  # fmt: skip
    assert [rows[name]["progress"] for name in "abc"] == [None] * 3
    assert place.member.beats.refused("d", place.now)
    assert {row["node"]: row["progress"] for row in node_rows(place.member)}["d"] is None
