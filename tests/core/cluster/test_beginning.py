"""How nodes come to be of a cluster, and begin one with copies: in any order, with crashes and lost answers."""

from collections.abc import Callable
from typing import Any

import pytest

from core.cluster.beginning import GROUPS_AT_ONCE, Beginning, GroupEnd, Offered
from core.cluster.keys import NUMBER, ClusterKeys, GroupKeys, decoded_owner
from core.engine.quorum.shared_log import Owner
from tests.cluster.simulated_etcd import StoredKeys

KEYS = ClusterKeys("shop")
OPERATIONS_MAX = 128
"""What etcd takes in one transaction by itself."""
GROUPS = 96
REQUESTS = 2 + -(-GROUPS // GROUPS_AT_ONCE)
"""Those of a node that begins a cluster: the first one, those with the groups, and the last one."""


class DirectEtcd:
    """An etcd that answers at once, until its node ends."""

    def __init__(self, stored: StoredKeys, *, lands: int | None = None, answers: int | None = None) -> None:
        """``lands``: how many requests land before the node ends, ``answers``: how many are answered before one is not;
        None for all."""
        self.stored = stored
        self.cluster = 0
        self._lands, self._answers = lands, answers

    def ask(
        self, method: str, request: Any, answered: Callable[[Any], None], unanswered: Callable[[], None], *,
        timeout_s: float,
    ) -> None:  # fmt: skip
        """See :meth:`core.cluster.etcd.Etcd.ask`."""
        assert len(request.compare) <= OPERATIONS_MAX
        assert len(request.success) <= OPERATIONS_MAX
        if self._lands is not None:
            self._lands -= 1
            if self._lands < 0:
                return
        response = self.stored.carry_out(request)
        if self._answers is not None:
            self._answers -= 1
            if self._answers == -1:
                unanswered()
                return
        answered(response)


class Node:
    """One life of a node."""

    def __init__(self, etcd: DirectEtcd, identity: str, *, end: int = 0, groups: int = GROUPS) -> None:
        """``end``: that of its groups, for a node that begins a cluster with them; else 0."""
        self.joined: list[str] = []
        self.refused: list[str] = []
        self.log: list[str] = []
        ends = {group: GroupEnd(end + group, Owner(7, 1)) for group in range(1, groups + 1)}
        self.beginning = Beginning(
            etcd,  # type: ignore[arg-type]
            "shop",
            identity,
            offered=(lambda: Offered(ends, b"members")) if end else None,
            joined=self.joined.append,
            refused=self.refused.append,
            log=lambda event, facts: self.log.append(event),
        )

    def steps(self, count: int = 3) -> "Node":
        for _ in range(count):
            if not (self.joined or self.refused):
                self.beginning.step()
        return self


def value(stored: StoredKeys, key: bytes) -> bytes | None:
    there = stored.keys.get(key)
    return None if there is None else there[0]


def check_begun(stored: StoredKeys, identity: str, end: int) -> None:
    assert value(stored, KEYS.identity) == identity.encode()
    assert value(stored, KEYS.members) == b"members"
    for group in range(1, GROUPS + 1):
        keys = GroupKeys("shop", group)
        assert value(stored, keys.cut) == NUMBER.pack(end + group)
        owner = value(stored, keys.owner)
        assert owner is not None
        assert decoded_owner(owner) == Owner(7, 1)


def test_the_first_node_names_the_cluster_and_others_join_it():
    stored = StoredKeys()
    assert Node(DirectEtcd(stored), "one").steps().joined == ["one"]
    assert Node(DirectEtcd(stored), "two").steps().joined == ["one"]
    assert not Node(DirectEtcd(stored), "three").beginning.recovers


def test_another_node_waits_until_the_one_that_begins_has_put_its_definitions():
    stored = StoredKeys()
    first, other = Node(DirectEtcd(stored), "new", end=100), Node(DirectEtcd(stored), "other")
    assert first.steps().joined == ["new"]
    check_begun(stored, "new", 100)
    assert first.beginning.recovers
    assert not other.steps().joined
    assert other.log == ["cluster-recovering"], "said once"
    assert "a node begins cluster new with its copies" in other.beginning.waits_for
    assert first.beginning.end() is first.beginning.end() is True
    assert not first.beginning.recovers
    assert other.steps().joined == ["new"]
    assert other.beginning.waits_for == ""


@pytest.mark.parametrize("lands", range(REQUESTS + 1))
def test_a_node_that_ends_at_any_step_begins_again_and_no_other_one_begins_between(lands: int):
    stored = StoredKeys()
    Node(DirectEtcd(stored, lands=lands), "new", end=100).steps()
    other = Node(DirectEtcd(stored), "other")
    if lands:
        assert not other.steps().joined, "it waits from the first request on"
    second = Node(DirectEtcd(stored), "second", end=50).steps()
    if lands:
        assert not second.joined
        assert "etcd has cluster new already, and this node begins cluster second" in second.refused[0]
    else:  # nothing has landed: another node's copies may begin as well
        assert second.joined == ["second"]
        return
    again = Node(DirectEtcd(stored), "new", end=100).steps()
    assert again.joined == ["new"]
    check_begun(stored, "new", 100)
    again.beginning.end()
    assert other.steps().joined == ["new"]


@pytest.mark.parametrize("answers", range(REQUESTS))
def test_a_request_that_has_landed_without_an_answer_does_no_harm(answers: int):
    stored = StoredKeys()
    node = Node(DirectEtcd(stored, answers=answers), "new", end=100).steps()
    assert node.joined == ["new"], "it begins anew"
    check_begun(stored, "new", 100)


def test_a_node_with_copies_is_refused_where_there_is_a_cluster():
    stored = StoredKeys()
    Node(DirectEtcd(stored), "old").steps()
    node = Node(DirectEtcd(stored), "new", end=100).steps()
    assert not node.joined
    assert "etcd has cluster old already, and this node begins cluster new" in node.refused[0]
    assert value(stored, GroupKeys("shop", 1).cut) is None
    assert value(stored, KEYS.recovery) is None


def test_the_end_is_asked_for_until_it_is_answered():
    stored = StoredKeys()
    node = Node(DirectEtcd(stored, answers=REQUESTS), "new", end=100).steps()
    assert not node.beginning.end(), "it has landed without an answer"
    assert node.beginning.end()
    assert value(stored, KEYS.recovery) is None
