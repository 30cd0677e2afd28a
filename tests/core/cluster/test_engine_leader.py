"""A node finds out which member of etcd leads, and has it asked."""

from core.cluster.engine_leader import LOOK_S, SOON_S, EngineLeader
from core.cluster.etcd import STATUS
from core.cluster.etcd_messages import MESSAGES

ENDPOINTS = ("one:1", "two:2", "three:3")


class AskedEtcd:
    """Three members, whose answers a test gives."""

    endpoints = ENDPOINTS

    def __init__(self):
        self.term = 1
        self.asked = []
        self.first = []
        self.now = 100.0
        self.leader = EngineLeader(self, lambda: self.now)

    def ask(self, method, request, answered, unanswered, *, timeout_s, member):
        assert method == STATUS
        self.asked.append((member, answered, unanswered))

    def ask_first(self, endpoint):
        self.first.append(endpoint)

    def answer(self, *, leaders, terms=(1, 1, 1), silent=()):
        """Have all members answer. ``leaders``: the member that leads, as each one says."""
        asked, self.asked = self.asked, []
        for member, answered, unanswered in asked:
            header = MESSAGES["ResponseHeader"](member_id=10 + member, raft_term=terms[member])
            if member in silent:
                unanswered()
            else:
                answered(MESSAGES["StatusResponse"](leader=10 + leaders[member], header=header))


def test_the_member_that_leads_is_asked_first():
    etcd = AskedEtcd()
    etcd.leader.step()
    assert [member for member, _, _ in etcd.asked] == [0, 1, 2]
    etcd.leader.step()
    assert len(etcd.asked) == 3, "one round at a time"
    etcd.answer(leaders=(2, 2, 2))
    assert etcd.first == ["three:3"]


def test_of_two_members_that_say_that_they_lead_the_one_of_the_later_term_does():
    etcd = AskedEtcd()
    etcd.leader.step()
    etcd.answer(leaders=(0, 1, 0), terms=(4, 5, 4))
    assert etcd.first == ["two:2"]


def test_without_an_answer_of_the_leader_nothing_changes():
    etcd = AskedEtcd()
    etcd.leader.step()
    etcd.answer(leaders=(1, 1, 1), silent=(1,))
    etcd.now += LOOK_S
    etcd.leader.step()
    etcd.answer(leaders=(-10, -10, -10))  # there is none: its number is 0
    assert etcd.first == []


def test_a_round_is_due_after_a_while_and_soon_after_an_election():
    etcd = AskedEtcd()
    etcd.leader.step()
    etcd.answer(leaders=(0, 0, 0))
    etcd.now += LOOK_S / 2
    etcd.leader.step()
    assert not etcd.asked
    etcd.term = 2
    etcd.leader.step()
    etcd.answer(leaders=(1, 1, 1), terms=(2, 2, 2))
    etcd.term = 3
    etcd.now += SOON_S / 2
    etcd.leader.step()
    assert not etcd.asked, "no more than one round in a second"
    etcd.now += SOON_S / 2
    etcd.leader.step()
    assert etcd.asked
    etcd.answer(leaders=(1, 1, 1), terms=(3, 3, 3))
    etcd.now += LOOK_S
    etcd.leader.step()
    assert etcd.asked
    assert etcd.first == ["one:1", "two:2", "two:2"]
