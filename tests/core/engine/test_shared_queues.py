"""The quorum queues of a cluster at one of its nodes, whose engine is a function of the test."""

from types import SimpleNamespace

import pytest

from core.config.engine import EngineSettings
from core.engine.quorum.groups import QuorumGroups, SharedQueue, number_in_log
from core.engine.routing.shared_queues import SharedQueues
from core.engine.routing.staged import StagedQueues
from core.engine.routing.topology import Topology
from core.errors import PreconditionFailed
from core.interface import QueueDeclaration
from core.work import Work
from tests.kit.storage import KeptDefinitions

QUORUM = {"x-queue-type": "quorum"}


class Node:
    """The names of one node. What it announces waits in ``announced`` until the test answers."""

    def __init__(self):
        self.kept = KeptDefinitions()
        self.announced, self.withdrawn = [], []
        groups = QuorumGroups()
        groups.announce = lambda queue, then: self.announced.append((queue, then))
        groups.withdraw = lambda queue, then: self.withdrawn.append((queue, then))
        self.topology = Topology(EngineSettings(), recorder=self.kept)
        self.staged = StagedQueues(
            self.topology, self.kept, Work(), self._declare_now, lambda name, owner: 0, self._make, lambda name: 3
        )
        self.queues = SharedQueues("/", self.topology, self.staged, groups)

    def _declare_now(self, declaration, owner, named_by_broker):
        return self._make(self.topology.queues[declaration.name]), False

    def _make(self, definition):
        return SimpleNamespace(declaration=definition.declaration, identity=definition.identity)

    def declare(self, name, **arguments):
        return self.queues.declare(QueueDeclaration(name=name, arguments={**QUORUM, **arguments}), None)

    def turn(self):
        for _ in range(3):
            self.staged.go_on()


def shared(name, identity="ab" * 16):
    return SharedQueue("/", QueueDeclaration(name=name, arguments=QUORUM), identity)


def test_a_queue_is_made_when_the_cluster_has_it():
    node = Node()
    recording = node.declare("q")
    node.turn()
    assert not recording.done
    assert "q" not in node.topology.queues
    ((queue, then),) = node.announced
    then(queue, "")
    node.turn()
    info, made = recording.result()
    assert made
    assert info.identity == queue.identity == node.topology.queues["q"].identity


def test_a_queue_that_another_node_has_declared_meanwhile_is_the_same():
    node = Node()
    recording = node.declare("q")
    ((_, then),) = node.announced
    then(shared("q"), "")
    node.turn()
    assert recording.result()[0].identity == "ab" * 16


def test_a_queue_with_other_arguments_is_refused():
    node = Node()
    recording = node.declare("q", **{"x-max-length": 5})
    ((_, then),) = node.announced
    then(shared("q"), "")
    with pytest.raises(PreconditionFailed, match="with other arguments a moment ago"):
        recording.result()


def test_without_the_engine_the_client_is_told_why():
    node = Node()
    recording = node.declare("q")
    ((_, then),) = node.announced
    then(None, "etcd does not answer")
    with pytest.raises(PreconditionFailed, match="queue 'q': etcd does not answer"):
        recording.result()


def test_other_queues_are_declared_as_ever():
    node = Node()
    node.queues.declare(QueueDeclaration(name="c", arguments={}), None)
    node.turn()
    assert node.announced == []
    assert "c" in node.topology.queues
    node.queues.check_can_be_made_at_once(QueueDeclaration(name="other", arguments={}))
    with pytest.raises(PreconditionFailed, match="are declared by clients"):
        node.queues.check_can_be_made_at_once(QueueDeclaration(name="q", arguments=QUORUM))


def test_a_node_makes_and_deletes_what_the_cluster_does():
    node = Node()
    assert not node.queues.follow([shared("q"), shared("r", "cd" * 16)])
    node.turn()
    assert set(node.topology.queues) == {"q", "r"}
    assert node.queues.follow([shared("q"), shared("r", "cd" * 16)]), "nothing more to do"
    node.queues.follow([shared("r", "cd" * 16)])
    node.turn()
    assert set(node.topology.queues) == {"r"}


def test_a_queue_that_was_declared_anew_replaces_the_old_one():
    node = Node()
    node.queues.follow([shared("q")])
    node.turn()
    for _ in range(3):
        node.queues.follow([shared("q", "ef" * 16)])
        node.turn()
    assert node.topology.queues["q"].identity == "ef" * 16


def test_a_deletion_waits_for_the_cluster():
    node = Node()
    node.queues.follow([shared("q")])
    node.turn()
    recording = node.queues.delete("q", None)
    assert "q" in node.topology.queues
    ((queue, then),) = node.withdrawn
    assert queue.identity == "ab" * 16
    then(queue, "")
    node.turn()
    assert recording.result() == 3
    assert node.topology.queues == {}


def test_the_number_of_a_queue_is_taken_from_its_identity():
    assert number_in_log("0" * 14 + "f" * 18) == 15
    assert number_in_log("f" * 32) < 2**60
