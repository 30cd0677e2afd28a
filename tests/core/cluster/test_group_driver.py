"""A new leader deletes what stands behind a hole. A deletion without an answer may land later, and is fenced. A node
that needs a copy itself refuses to give one."""

from random import Random

from core.cluster.group_driver import RETRY_S, GroupDriver
from core.engine.quorum.batches import OrderEnd, encoded
from core.engine.quorum.copying import GIVE_UP_S
from core.engine.quorum.shared_log import Owner, Role, SharedLog
from core.store.command_log import LocalCommandLog
from core.store.lane import Lane
from tests.cluster.engine import SimulatedEngine
from tests.cluster.network import Network
from tests.cluster.node import Node
from tests.kit.faulty_disk import MemoryDisk


class PromptLog:
    """A :class:`core.cluster.log_engine.LogEngine` that answers at once, but for deletions."""

    def __init__(self, engine):
        self.engine = engine
        self.deletions = []

    def claim(self, claim, answered, unanswered):
        answered(self.engine.claim(claim))

    def ask_owner(self, answered, unanswered):
        answered(self.engine.owner)

    def read(self, after, answered, unanswered):
        answered(self.engine.read(after))

    def put(self, batch, owner, answered, unanswered):
        answered(self.engine.put(batch, owner.node))

    def delete(self, numbers, owner, answered, unanswered):
        self.deletions.append((lambda: self.engine.delete(numbers, owner), answered, unanswered))


def test_a_deletion_that_lands_late_takes_no_batch_of_the_leader_that_has_repeated_it():
    engine, now = SimulatedEngine((1, 2, 3)), [100.0]
    engine.owner = Owner(1, 2)
    second = encoded(1, 1, OrderEnd(number=1), [b"never committed"])
    engine.batches[second.end.number] = second.data
    requests = PromptLog(engine)
    copy = LocalCommandLog(MemoryDisk(), Lane("quorum", generation=1, sync_interval_s=0.2), file_bytes_max=999, group=1)
    log = SharedLog(copy, node=1, group=1)
    driver = GroupDriver(log, requests, lambda: now[0])

    def claim() -> None:
        log.owner_seen(engine.owner, now[0])
        driver.claim()
        driver.drive()
        driver.drive()
        assert log.role is Role.CLAIMED

    claim()
    late, _, unanswered = requests.deletions.pop()
    unanswered()
    now[0] += 2 * RETRY_S
    driver.drive()
    assert (log.role, requests.deletions) == (Role.FOLLOWER, [])
    claim()
    delete, answered, _ = requests.deletions.pop()
    answered(delete())
    assert (log.role, log.epoch) == (Role.LEADER, 3)
    for command in (b"one", b"two"):
        log.append((command,), len(command), log.epoch, prompt=True)
        driver.drive()
    assert sorted(engine.batches) == [1, 2]
    late()
    assert sorted(engine.batches) == [1, 2]


def test_two_nodes_that_need_copies_and_ask_each_other_look_elsewhere_at_once():
    engine, network = SimulatedEngine((1, 2, 3)), Network(Random(0))
    engine.cut = 5
    nodes = [
        Node(number, MemoryDisk(), 1, engine=engine, network=network, clients=None, seen=[], speed=1.0)
        for number in (2, 3)
    ]

    def pass_time(seconds: float) -> None:
        until = network.now + seconds
        while network.now < until:
            for node in nodes:
                node.turn()
                node.write()
                node.driver.look_for_wanted()
            network.pass_time(0.05)

    pass_time(0.5)
    assert [node.copy.wanted for node in nodes] == [True, True]
    for node, source in zip(nodes, (3, 2), strict=True):
        node.copy.begin(source)
    assert [node.copy.wanted for node in nodes] == [False, False]
    pass_time(GIVE_UP_S / 10)
    assert [node.copy.wanted for node in nodes] == [True, True]
