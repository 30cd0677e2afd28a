"""A broker with storage on a disk in memory that a test kills, or stops in order, and starts again."""

from core.clock import Now
from core.config.settings import Settings
from core.engine.broker import Broker
from core.interface import Converter, Disposal, Snapshot
from tests.kit.engine import NOW, Peer, entries_for
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, lanes, leave_in_order, open_storage, work, write

TURNS_MAX = 1000


class KeptBroker:
    """One data folder, through all its starts; ``peer`` is a connection to the broker that runs now."""

    def __init__(self, converter: Converter | None = None, settings: Settings | None = None) -> None:
        self.disk = MemoryDisk()
        self._definitions = KeptDefinitions()
        self._converter = converter
        self._settings = settings or Settings()
        self._generation = 0
        self._start()

    def _start(self) -> None:
        self._generation += 1
        self.storage = open_storage(self.disk, self._definitions, self._generation)
        self.broker = Broker(self._settings, self._converter, storage=self.storage)
        self.peer = Peer(self.broker)

    def kill(self) -> None:
        """End the process at once. What was written is there at the next start."""
        self._start()

    def restart(self) -> None:
        """Stop in order, and start again."""
        self.broker.conclude()
        leave_in_order(self.storage, NOW.monotonic)
        self._start()

    def write(self, now: Now = NOW) -> None:
        """Run turns and write everything; sync nothing."""
        for _ in range(TURNS_MAX):
            if not self.broker.turn(now) and not any(write(lane, self.disk) for lane in lanes(self.storage)):
                return
        raise AssertionError("the broker does not come to rest")

    def run(self, now: Now = NOW) -> None:
        """Run turns, writes and syncs until nothing is left to do at this time."""
        for _ in range(TURNS_MAX):
            worked = self.broker.turn(now) | work(self.storage, now.monotonic)
            if not worked and self.broker.deadline() > now.monotonic:
                return
        raise AssertionError("the broker does not come to rest")

    def taken(self, name: str, now: Now = NOW) -> list[bytes]:
        """Take everything that is ready in a queue, and accept it; returns the bodies."""
        consumer = self.peer.consume(name, 100_000)
        self.run(now)
        entries = entries_for(self.peer.mailbox.take(), consumer)
        self.broker.settle(consumer, 0, 10**9, Disposal.ACCEPTED)
        self.broker.cancel(consumer)
        self.run(now)
        return entries

    def shown(self, name: str) -> Snapshot:
        """The snapshot row of a queue."""
        return self.broker.snapshot("queues", name)[0]
