"""A broker in this process with storage on a disk in memory, and clients that speak to it frame by frame.

Time and the lanes stand still until the test moves them; :meth:`StoredBroker.settle_down` does all that is to be done.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from amqp10.serve import management_node
from core.config.settings import Settings
from core.config.store import StoreSettings
from core.control_plane import BrokerControl
from core.engine.broker import Broker
from core.engine.options.policies import PolicyDeclaration
from core.engine.quorum.queues import QuorumQueues
from core.engine.storage import Storage
from core.interface import Binding, Converter, ExchangeDeclaration, QueueDeclaration
from core.store.command_log import LocalCommandLog
from core.store.definitions import Definitions
from core.store.lane import Lane
from core.store.store import open_store
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.wire import InProcessBroker


class CountedQueues:
    """A recorder that gives numbers and keeps nothing, because these brokers start once."""

    def __init__(self) -> None:
        self.queues = 0
        self.takes_all = False

    def together(self) -> AbstractContextManager[None]:
        """See :class:`core.engine.storage.Recorder`, also for the methods that follow."""
        return nullcontext()

    def add_queue(self, declaration: QueueDeclaration, identity: str) -> int:
        self.queues += 1
        return self.queues

    def add_exchange(self, declaration: ExchangeDeclaration) -> None:
        pass

    def add_binding(self, binding: Binding) -> None:
        pass

    def remove(self, *, queues: Sequence[str], exchanges: Sequence[str], bindings: Sequence[Binding]) -> None:
        pass

    def set_policy(self, policy: PolicyDeclaration) -> None:
        pass

    def remove_policy(self, name: str) -> None:
        pass


class StoredBroker:
    """A broker over a store; ``wire`` is the broker as clients of :mod:`tests.kit.wire` know it."""

    def __init__(self, converter: Converter) -> None:
        self.disk = MemoryDisk()
        settings = StoreSettings()
        open_store(self.disk, settings, generation=1, queue_ids=()).close_checkpoint()
        store = open_store(self.disk, settings, generation=2, queue_ids=())
        self.lanes: tuple[Lane, ...] = (store.classic, store.quorum, store.streams)
        quorum = QuorumQueues(LocalCommandLog(self.disk, store.quorum, file_bytes_max=2**20))
        quorum.recover()
        storage = Storage(found=Definitions(), recorder=CountedQueues(), store=store, quorum=quorum)
        self.wire = InProcessBroker()
        self.wire.engine = Broker(Settings(), converter, storage=storage)
        self.wire.control = BrokerControl(self.wire.engine, version="test", pid=0, stalls=self.wire.stalls)
        self.wire.node = management_node(self.wire.engine, self.wire.control)

    def settle_down(self) -> None:
        """Run turns, writes, syncs and flushes until nothing is left."""
        for _ in range(1000):
            self.wire.run()
            moved = [self._move(lane) for lane in self.lanes]
            if not any(moved) and self.wire.engine.deadline() > self.wire.now.monotonic:
                return
        raise AssertionError("the broker does not come to rest")

    def _move(self, lane: Lane) -> bool:
        writing = lane.take_write()
        if writing is not None:
            writing.run(self.disk)
            lane.wrote(writing)
        syncing = lane.take_sync(self.wire.now.monotonic)
        if syncing is not None:
            syncing.run(self.disk)
            lane.did_sync(syncing)
        return writing is not None or syncing is not None
