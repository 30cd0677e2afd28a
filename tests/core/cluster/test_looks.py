"""A node asks another member of etcd as well when one does not answer its look."""

from core.cluster.beats import LOOK_S, Beat, node_number
from core.cluster.etcd_messages import MESSAGES
from core.cluster.member import LOOK_ELSEWHERE_S, LOOKS_MAX, Hooks, Member
from core.cluster.member_list import MemberList
from core.engine.quorum.groups import QuorumGroup, QuorumGroups
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import SharedLog
from core.store.command_log import LocalCommandLog
from core.store.lane import Lane
from tests.kit.faulty_disk import MemoryDisk

MEMBERS = ("a", "b", "c")


class SilentEtcd:
    """Three members of which none answers until a test does."""

    trouble = ""
    endpoints = ("1", "2", "3")

    def __init__(self):
        self.asked = []

    def ask(self, method, request, answered, unanswered, *, timeout_s, member=None):
        if method == "KV/Txn":
            self.asked.append((request, answered, unanswered, member))

    def member_after(self, count):
        return count

    @property
    def looks(self):
        """The requests that read the beats."""
        return [one for one in self.asked if any(b"nodes0" in op.request_range.range_end for op in one[0].success)]


class MakesNothing:
    """A :class:`core.cluster.definitions_log.Follower` of a cluster without definitions."""

    kept = True

    def make(self, changes):
        return []

    def differences(self, state, *, removes):
        return iter(())

    def offers(self, state, *, everything):
        return iter(())

    def may_offer(self, change):
        return True


def test_a_look_without_an_answer_is_followed_by_looks_elsewhere():
    etcd, now = SilentEtcd(), [100.0]
    copy = LocalCommandLog(MemoryDisk(), Lane("quorum", generation=1, sync_interval_s=0.2), file_bytes_max=999, group=1)
    shared = SharedLog(copy, node=node_number("a"), group=1)
    queues, groups = QuorumQueues(copy, shared=shared), QuorumGroups()
    queues.recover()
    groups.all = {1: QuorumGroup(1, shared, queues)}
    nothing = Hooks(lambda *_, **__: None, MakesNothing(), False, lambda _: None, lambda *_: None)
    member = Member(
        etcd, groups, cluster="c", node="a", members=MemberList.first(MEMBERS, [], []), beat=Beat(0, "life"),
        identity="one", clock=lambda: now[0], hooks=nothing,
    )  # fmt: skip
    member.step()
    etcd.asked[0][1](MESSAGES["TxnResponse"](succeeded=True))
    member.step()
    assert [look[3] for look in etcd.looks] == [None]
    now[0] += LOOK_ELSEWHERE_S / 2
    member.step()
    assert len(etcd.looks) == 1
    for _ in range(LOOKS_MAX + 2):
        now[0] += LOOK_ELSEWHERE_S
        member.step()
    assert [look[3] for look in etcd.looks] == [None, 1, 2]
    for look in etcd.looks:
        look[2]()
    now[0] += LOOK_S
    member.step()
    assert [look[3] for look in etcd.looks] == [None, 1, 2, None]
