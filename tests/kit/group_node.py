"""One of three nodes of a cluster that has one group, over an engine that answers at once."""

from random import Random

from core.cluster.group_driver import GroupDriver
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import SharedLog
from core.store.command_log import LocalCommandLog
from core.store.lane import Lane
from tests.cluster.claims import Seen
from tests.cluster.engine import SimulatedEngine
from tests.cluster.network import Network
from tests.cluster.simulated_log import SimulatedLog
from tests.kit.faulty_disk import MemoryDisk

GROUP = 3


class SeveralNodes:
    """The log of one of three nodes, over an engine that answers at once."""

    def __init__(self, disk=None, generation=1, engine=None):
        self.disk = disk or MemoryDisk()
        self.generation = generation
        self.engine = engine or SimulatedEngine((1, 2, 3))
        self.lane = Lane("quorum", generation=generation, sync_interval_s=0.2)
        self.copy = LocalCommandLog(self.disk, self.lane, file_bytes_max=1024, group=GROUP)
        self.log = SharedLog(self.copy, node=1, group=GROUP)
        self.queues = QuorumQueues(self.copy, shared=self.log, look_bytes=300)
        self.queues.recover()
        self.network = Network(Random(1))
        self.network.delay_s = 0.001
        seen: list[Seen] = []
        self.requests = SimulatedLog(1, self.engine, self.network, seen)
        self.driver = GroupDriver(self.log, self.requests, lambda: self.network.now)
        self.settle_down()
        self.driver.claim()
        self.settle_down()
        assert self.queues.leads

    def committed(self):
        return self.log.committed

    def fence(self):
        self.engine.claim(self.log.claim()._replace(node=2))

    def lead_again(self):
        self.driver.claim()
        self.settle_down()

    def move(self):
        """Let the node and the engine do something."""
        self.queues.see_to()
        self.driver.drive()
        if (batch := self.lane.take_write()) is not None:
            batch.run(self.disk)
            self.lane.wrote(batch)
        if (batch := self.lane.take_sync(self.network.now)) is not None:
            batch.run(self.disk)
            self.lane.did_sync(batch)
        self.network.pass_time(0.1)

    def settle_down(self):
        for _ in range(30):
            self.move()

    def restart(self):
        self.requests.over = True
        return SeveralNodes(self.disk.power_cut(Random(1)), self.generation + 1, self.engine)
