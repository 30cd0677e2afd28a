"""Nodes of a cluster over a real etcd, in one thread: who leads, what is shared, and which cluster it is."""

import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

import pytest

from core.cluster.beats import Beat, node_number
from core.cluster.engine_leader import EngineLeader
from core.cluster.etcd import STATUS, Etcd
from core.cluster.etcd_messages import MESSAGES, putting, range_of, transaction
from core.cluster.keys import ClusterKeys, GroupKeys
from core.cluster.member import Hooks, Member
from core.cluster.member_changes import ChangeOfMembers
from core.cluster.member_list import ListedMember, MemberList, MemberState
from core.cluster.member_rows import group_rows, node_rows
from core.engine.quorum.batches import OrderEnd, encoded
from core.engine.quorum.commands import CountersRecord, QueueKey, encode
from core.engine.quorum.groups import QuorumGroup, QuorumGroups
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import SharedLog
from core.engine.routing.agreement import AgreedChange, ChangeKind, ChangeVerdict
from core.errors import NotFound, PreconditionFailed, StillGoing
from core.interface import ExchangeDeclaration, ExchangeType
from core.store.command_log import LocalCommandLog
from core.store.lane import Lane
from tests.kit.etcd_cluster import EtcdCluster, etcd_cluster
from tests.kit.faulty_disk import MemoryDisk

WAIT_S = 20.0
AWAY_MAX_S = 2.0
EPOCH_BEFORE = 7
"""That of the batches which a copy of an earlier cluster has."""
NAMES = count(1)


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdCluster]:
    with etcd_cluster() as started:
        yield started


class Node:
    """A member with one group, or a few, whose broker is a list of what it was told."""

    def __init__(
        self,
        etcd: EtcdCluster,
        cluster: str,
        name: str,
        *,
        identity: str,
        members: Sequence[str] = ("a", "b"),
        groups: Sequence[int] = (1,),
        batches: int = 0,
    ) -> None:
        """``batches``: how many its copy of group 1 has of an earlier cluster, with which it begins this one."""
        self._answers: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lane = Lane("quorum", generation=1, sync_interval_s=0.2)
        self._disk = MemoryDisk()
        if batches:
            self._fill(batches)
        self.groups = QuorumGroups()
        self.groups.all = {number: self._opened(number, node_number(name)) for number in groups}
        self.queues = self.groups.all[1].queues
        self.made: list[AgreedChange] = []
        self.log: list[str] = []
        self.etcd = Etcd(etcd.endpoints, self._answers.put)
        self.member = Member(
            self.etcd,
            self.groups,
            cluster=cluster,
            node=name,
            members=MemberList.first(members, [], []),
            beat=Beat(0, f"life of {name}", (f"{name}:1",), "1"),
            identity=identity,
            clock=time.monotonic,
            hooks=Hooks(
                lambda group, first, last: None,
                self,
                False,
                lambda until: None,
                lambda event, facts: self.log.append(event),
            ),
            away_time_max=AWAY_MAX_S,
            recovers=bool(batches),
        )
        self.cluster = cluster

    def _fill(self, count: int) -> None:
        lane = Lane("quorum", generation=1, sync_interval_s=0.2)
        log = LocalCommandLog(self._disk, lane, file_bytes_max=1 << 20, group=1)
        assert not list(log.read())
        lease, end = log.acquire_lease(), OrderEnd()
        for number in range(count):
            batch = encoded(1, EPOCH_BEFORE, end, [encode(QueueKey(5, 0), CountersRecord(number))])
            log.append((batch.data,), len(batch.data), lease, prompt=True)
            end = batch.end
        written = lane.take_write()
        assert written is not None
        written.run(self._disk)
        lane.wrote(written)

    def _opened(self, number: int, node: int) -> QuorumGroup:
        copy = LocalCommandLog(self._disk, self._lane, file_bytes_max=1 << 20, group=number)
        shared = SharedLog(copy, node=node, group=number)
        queues = QuorumQueues(copy, shared=shared)
        queues.recover()
        return QuorumGroup(number, shared, queues)

    kept = True

    def make(self, changes) -> list[int]:
        """See :class:`core.cluster.definitions_log.Follower`, also for the methods below."""
        numbers = [one.number for one in changes]
        self.made += [one.change for one in changes]
        changes.clear()
        return numbers

    def differences(self, state, *, removes) -> Iterator[AgreedChange]:
        return iter(state)

    def offers(self, state) -> Iterator[AgreedChange]:
        return iter(())

    def move(self) -> None:
        while not self._answers.empty():
            self._answers.get()()
        self.member.step()
        if (batch := self._lane.take_write()) is not None:
            batch.run(self._disk)
            self._lane.wrote(batch)
        self._lane.want_sync()
        if (synced := self._lane.take_sync(time.monotonic())) is not None:
            synced.run(self._disk)
            self._lane.did_sync(synced)

    def append(self, count: int, group: int = 1) -> None:
        """Append commands of a queue."""
        shared = self.groups.all[group].shared
        for number in range(count):
            payload = encode(QueueKey(5, 0), CountersRecord(number))
            shared.append((payload,), len(payload), shared.epoch, prompt=True)
            self.move()

    def cut(self, group: int = 1) -> bool:
        """Whether the log of a group was cut."""
        key = GroupKeys(self.cluster, group).cut
        return bool(self.etcd.ask_now("KV/Range", range_of(key), timeout_s=WAIT_S).kvs)


@pytest.fixture
def make(etcd) -> Iterator[Callable[..., Node]]:
    cluster, made = f"c{next(NAMES)}", []

    def node(
        name: str,
        identity: str = "one",
        members: Sequence[str] = ("a", "b"),
        groups: Sequence[int] = (1,),
        batches: int = 0,
    ) -> Node:
        made.append(Node(etcd, cluster, name, identity=identity, members=members, groups=groups, batches=batches))
        return made[-1]

    yield node
    for one in made:
        one.etcd.close()


def until(there: Callable[[], bool], *nodes: Node) -> None:
    deadline = time.monotonic() + WAIT_S
    while not there():
        assert time.monotonic() < deadline, [node.log for node in nodes]
        for node in nodes:
            node.move()
        time.sleep(0.005)


def exchange(kind: ExchangeType) -> AgreedChange:
    return AgreedChange(ChangeKind.EXCHANGE, "/", "x", ExchangeDeclaration(name="x", type=kind, arguments={}))


def test_one_of_two_nodes_leads_and_both_see_the_same(make):
    a, b = make("a"), make("b", "another")
    until(lambda: a.queues.leads or b.queues.leads, a, b)
    until(lambda: all(one["here"] for node in (a, b) for one in node_rows(node.member)), a, b)
    until(lambda: group_rows(a.member)[0]["leader"] == group_rows(b.member)[0]["leader"] is not None, a, b)
    assert a.queues.leads != b.queues.leads
    assert {a.member.identity, b.member.identity} in ({"one"}, {"another"}), "the first one has named the cluster"
    assert [one["addresses"] for one in node_rows(a.member)] == [["a:1"], ["b:1"]]


def test_another_node_leads_when_the_leader_is_silent(make):
    a = make("a")
    until(lambda: a.queues.leads, a)
    b = make("b")
    until(lambda: b.queues.leads, b)
    until(lambda: not a.queues.leads, a)
    assert "group-not-led" in a.log


def test_a_leader_that_has_heard_nothing_for_a_second_leads_no_more(make):
    a = make("a")
    until(lambda: a.queues.leads, a)
    a.member.leading_ends(time.monotonic())
    assert a.queues.leads
    a.member.leading_ends(time.monotonic() + 1.1)
    assert not a.queues.leads
    until(lambda: a.queues.leads, a)


def test_a_definition_reaches_all_nodes_and_the_second_of_two_is_to_be_checked_again(make):
    a, b = make("a"), make("b")
    until(lambda: a.member.definitions.made == b.member.definitions.made == 0, a, b)
    answers: list[ChangeVerdict] = []
    first, second = exchange(ExchangeType.DIRECT), exchange(ExchangeType.TOPIC)
    a.member.definitions.submit(first, lambda verdict, why: answers.append(verdict))
    b.member.definitions.submit(second, lambda verdict, why: answers.append(verdict))
    until(lambda: len(answers) == 2, a, b)
    assert sorted(answers, key=str) == [ChangeVerdict.MADE, ChangeVerdict.STALE]
    until(lambda: a.made == b.made != [], a, b)
    assert a.made in ([first], [second])


def test_a_node_that_has_not_joined_says_so_to_who_declares(make):
    answers: list[tuple[ChangeVerdict, str]] = []
    make("a").member.definitions.submit(exchange(ExchangeType.DIRECT), lambda *answer: answers.append(answer))
    ((verdict, why),) = answers
    assert verdict is ChangeVerdict.REFUSED
    assert "has not read the definitions of the cluster yet" in why


def test_a_node_with_the_data_of_another_cluster_takes_no_part(make):
    a = make("a")
    until(lambda: a.member.joined, a)
    b = make("b", "another")
    b.groups.all[1].shared.begin_after(OrderEnd(number=1), synced=True)  # as with data
    until(lambda: bool(b.member.refused), a, b)
    assert "etcd has cluster one, and the data folder of this node is of cluster another" in b.member.refused
    assert not b.member.step()


def progress(node: Node) -> dict[str, object]:
    """What a node knows of how far each node is."""
    return {str(one["node"]): one["progress"] for one in node_rows(node.member)}


@pytest.mark.slow
def test_a_node_that_was_away_for_too_long_copies_another_one(make):
    three = ("a", "b", "c")
    a, c = make("a", members=three), make("c", members=three)
    until(lambda: a.queues.leads or c.queues.leads, a, c)
    (a if a.queues.leads else c).append(40)
    until(a.cut, a, c)
    b = make("b", members=three)
    # The copy is asked for a step after the node has seen that it needs one.
    until(lambda: "copied from node" in str(group_rows(b.member)[0]["trouble"]), a, b, c)
    until(lambda: progress(b)["b"] is not None, b)  # the others do not move, so that the copy does not end before
    assert progress(b) == {"a": None, "b": progress(b)["b"], "c": None}
    said = progress(b)["b"]
    assert isinstance(said, dict)
    assert (said["copied"], said["groups"], said["waits_for"]) == (0, 1, ["copies"])
    until(lambda: "group-copied" in b.log, a, b, c)
    until(lambda: not any(row["problems"] for row in node_rows(a.member)), a, b, c)
    assert set(progress(a).values()) == {None}
    assert b.groups.all[1].shared.ends_at == a.groups.all[1].shared.ends_at
    assert b.queues.next_sequence(5) == 39
    assert not b.queues.leads
    leader = a if a.queues.leads else c
    leader.append(3)
    until(lambda: b.groups.all[1].shared.ends_at == leader.groups.all[1].shared.ends_at, a, b, c)


def test_a_step_looks_only_at_groups_with_something_to_do(make):
    a = make("a")
    until(lambda: a.queues.leads, a)
    until(lambda: not a.groups.touched, a)
    a.groups.touch(1)
    assert list(a.groups.touched) == [1]
    a.member.step()
    assert not a.groups.touched


def test_requests_go_to_the_member_of_etcd_that_leads(make):
    a = make("a")
    until(lambda: a.queues.leads, a)
    leader = EngineLeader(a.etcd, time.monotonic)

    def asked_leads() -> bool:
        status = a.etcd.ask_now(STATUS, MESSAGES["StatusRequest"](), timeout_s=WAIT_S)
        return status.leader == status.header.member_id

    while asked_leads():
        a.etcd.ask_another()

    def found() -> bool:
        leader.step()
        return asked_leads()

    until(found, a)
    assert a.etcd.term > 0


# --- members that change


def change(at: Node, what: ChangeOfMembers, name: str, *nodes: Node, force: bool = False) -> str:
    """Change the members at a node. Returns why it was refused."""
    why: list[str] = []

    def made() -> bool:
        try:
            at.member.changes.change(what, ListedMember(name), force=force)
        except StillGoing:
            return False
        except (PreconditionFailed, NotFound) as error:
            why.append(str(error))
        return True

    until(made, *nodes)
    return "".join(why)


def states(node: Node) -> dict[str, str]:
    return {str(one["node"]): str(one["state"]) for one in node_rows(node.member)}


def three(make: Callable[..., Node]) -> list[Node]:
    nodes = [make(name, members=("a", "b", "c")) for name in "abc"]
    until(lambda: any(node.queues.leads for node in nodes), *nodes)
    until(lambda: all(one["here"] for node in nodes for one in node_rows(node.member)), *nodes)
    return nodes


def test_a_node_joins_gets_a_copy_and_counts_then_and_another_one_leaves(make):
    nodes = three(make)
    leader = next(node for node in nodes if node.queues.leads)
    leader.append(40)
    until(leader.cut, *nodes)
    assert change(leader, ChangeOfMembers.JOIN, "d", *nodes) == ""
    assert states(leader) == {"a": "member", "b": "member", "c": "member", "d": "joining"}
    assert "still joins" in change(leader, ChangeOfMembers.JOIN, "e", *nodes)
    d = make("d", "another", members=("a", "b", "c", "d"))
    nodes.append(d)
    until(lambda: "group-copied" in d.log, *nodes)
    until(lambda: all(states(node)["d"] == "member" for node in nodes), *nodes)
    assert d.queues.next_sequence(5) == 39
    assert "has a node 'd' already" in change(leader, ChangeOfMembers.JOIN, "d", *nodes)

    assert change(d, ChangeOfMembers.LEAVE, leader.member.beats.node, *nodes) == ""
    until(lambda: bool(leader.member.refused), *nodes)
    rest = [node for node in nodes if node is not leader]
    until(lambda: any(node.queues.leads for node in rest), *rest)
    assert not leader.queues.leads
    assert "group-handed-over" in leader.log
    until(lambda: leader.member.beats.node not in states(d), *rest)
    answers: list[ChangeVerdict] = []
    leader.member.definitions.submit(exchange(ExchangeType.DIRECT), lambda verdict, why: answers.append(verdict))
    assert answers == [ChangeVerdict.REFUSED]
    next(node for node in rest if node.queues.leads).append(3)
    until(lambda: len({node.groups.all[1].shared.ends_at for node in rest}) == 1, *rest)


def test_no_node_leaves_whose_copy_is_needed(make):
    a, b, c = nodes = three(make)
    assert "there is no node 'x' in the cluster; its nodes are a, b, c" in change(a, ChangeOfMembers.LEAVE, "x", *nodes)
    assert "node c is here" in change(a, ChangeOfMembers.FORGET, "c", *nodes)
    until(lambda: not a.member.beats.is_here("c"), a, b)  # it is stopped
    assert "node c is away" in change(a, ChangeOfMembers.LEAVE, "c", a, b)
    why = change(a, ChangeOfMembers.LEAVE, "b", a, b)
    assert why == (
        "group 1 would have 1 of 2 copies up to date without node b, and a majority is 2; wait for c, or use --force"
    )
    assert change(a, ChangeOfMembers.FORGET, "c", a, b) == ""
    until(lambda: list(states(b)) == ["a", "b"], a, b)
    until(lambda: bool(c.member.refused), a, b, c)
    assert "node c is none of the cluster's nodes" in c.member.refused
    assert change(b, ChangeOfMembers.LEAVE, "a", a, b) == ""
    until(lambda: bool(a.member.refused) and b.queues.leads, a, b)
    assert "node b is the last one of the cluster" in change(b, ChangeOfMembers.LEAVE, "b", b)


def test_a_node_that_nobody_has_taken_in_takes_no_part(make):
    nodes = three(make)
    stranger = make("x", members=("a", "b", "x"))
    until(lambda: bool(stranger.member.refused), stranger, *nodes)
    assert "its nodes" not in stranger.member.refused
    assert "headgate cluster join" in stranger.member.refused
    assert "x" not in states(nodes[0])
    assert nodes[0].member.changes.listed.named("a").state is MemberState.MEMBER


# --- groups that not every node keeps

SIZED = 2
"""Behind the one group of all nodes, the one that should have three members."""


def five(make: Callable[..., Node]) -> dict[str, Node]:
    nodes = {name: make(name, members=tuple("abcde"), groups=(1, SIZED)) for name in "abcde"}
    until(lambda: any(node.groups.all[SIZED].queues.leads for node in nodes.values()), *nodes.values())
    until(lambda: all(one["here"] for node in nodes.values() for one in node_rows(node.member)), *nodes.values())
    return nodes


def members_of(node: Node) -> list[str]:
    (row,) = (row for row in group_rows(node.member) if row["group"] == SIZED)
    members = row["members"]
    assert isinstance(members, list)
    return members


def home_of(node: Node) -> str | None:
    """Where a node forwards what is for the queues of the group."""
    return node.member.home(node.groups.all[SIZED])


def leader_of(nodes: Mapping[str, Node]) -> str:
    return next(name for name, node in nodes.items() if node.groups.all[SIZED].queues.leads)


@pytest.mark.slow
def test_a_group_has_three_of_five_nodes_and_gets_another_one_when_a_member_is_forgotten(make):
    nodes = five(make)
    members = members_of(nodes["a"])
    others = [name for name in nodes if name not in members]
    assert len(members) == 3
    leader = nodes[leader_of(nodes)]
    assert leader.member.beats.node in members
    leader.append(40, SIZED)
    until(lambda: leader.cut(SIZED), *nodes.values())
    ends = {name: node.groups.all[SIZED].shared.ends_at for name, node in nodes.items()}
    assert [ends[name] for name in others] == [0, 0], "who is no member reads nothing, and is not waited for"
    until(lambda: all(home_of(nodes[name]) == leader.member.beats.node for name in others), *nodes.values())

    gone = next(name for name in members if nodes[name] is not leader)
    rest = [node for name, node in nodes.items() if name != gone]
    until(lambda: not leader.member.beats.is_here(gone), *rest)
    assert change(leader, ChangeOfMembers.FORGET, gone, *rest) == ""
    until(lambda: all(gone not in members_of(node) for node in rest), *rest)
    (new,) = set(members_of(leader)) - set(members)
    assert new in others
    until(lambda: "group-copied" in nodes[new].log, *rest)
    until(lambda: nodes[new].groups.all[SIZED].shared.ends_at == leader.groups.all[SIZED].shared.ends_at, *rest)
    assert nodes[new].groups.all[SIZED].queues.next_sequence(5) == 39


@pytest.mark.slow
def test_a_node_that_is_no_member_of_a_group_any_more_hands_it_over_and_drops_it(make):
    nodes = five(make)
    left = leader_of(nodes)
    nodes[left].append(20, SIZED)
    listed = nodes["a"].member.changes.listed
    came = next(name for name in nodes if name not in listed.groups[SIZED])
    groups = {**listed.groups, SIZED: tuple(came if name == left else name for name in listed.groups[SIZED])}
    changed = listed._replace(version=listed.version + 1, groups=groups).encoded()
    key = ClusterKeys(nodes["a"].cluster).members
    nodes["a"].etcd.ask_now("KV/Txn", transaction([], [putting(key, changed)], []), timeout_s=WAIT_S)
    until(lambda: leader_of_others(nodes, left), *nodes.values())
    until(lambda: "group-dropped" in nodes[left].log, *nodes.values())
    assert nodes[left].groups.all[SIZED].queues.kept_upto == 0
    assert nodes[came].groups.all[SIZED].queues.next_sequence(5) == 19
    assert not any("group-dropped" in node.log for name, node in nodes.items() if name != left)


def leader_of_others(nodes: Mapping[str, Node], left: str) -> bool:
    return any(node.groups.all[SIZED].queues.leads for name, node in nodes.items() if name != left)


def test_a_node_without_copies_leads_nothing_where_another_one_has_begun_with_its_own(make):
    empty, a = make("b", "other"), make("a", "new", batches=5)
    until(lambda: a.member.joined, a)
    until(lambda: empty.member.beginning.waits_for, empty)
    assert not empty.member.joined, "the definitions come first"
    until(lambda: a.member.beginning.end(), a)
    until(lambda: empty.member.joined and empty.groups.all[1].shared.must_copy, empty)
    assert empty.member.identity == "new"
    owner = node_number("a")
    until(lambda: empty.member.beats.should_claim(1, owner, time.monotonic()), empty)  # a has said nothing for long
    for _ in range(20):
        empty.move()
    assert not empty.queues.leads
    until(lambda: a.queues.leads, a, empty)
    assert a.groups.all[1].shared.epoch > EPOCH_BEFORE
    a.append(3)
    until(lambda: empty.groups.all[1].shared.synced_number == 8, a, empty)
    until(lambda: empty.queues.leads, empty)
    assert empty.queues.next_sequence(5) == 4


def test_answers_of_another_etcd_count_for_nothing(make):
    a = make("a")
    until(lambda: a.queues.leads, a)
    a.etcd.cluster += 1
    until(lambda: "it is of another etcd cluster" in a.etcd.trouble, a)
    a.member.leading_ends(time.monotonic() + 1.1)
    assert not a.queues.leads
