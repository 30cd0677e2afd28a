"""A store on a disk in memory, driven by hand: written and synced when the test says so, stopped in every way."""

from random import Random

from core.config.store import StoreSettings
from core.message import Attributes, Portion, Route, Run
from core.store.disk import Disk
from core.store.queue_index import QueueIndex
from core.store.store import Store, open_store
from tests.kit.faulty_disk import MemoryDisk

DURABLE = Attributes(durable=True)
TRANSIENT = Attributes()
FAR = 1e9
"""A time at which everything is due."""


class StoreHarness:
    """One data folder over all its starts."""

    def __init__(self, *, queue_ids: tuple[str, ...] = ("1",), **settings: object) -> None:
        self.disk = MemoryDisk()
        self.settings = StoreSettings.model_validate(settings)
        self.queue_ids = queue_ids
        self.generation = 0
        self.store: Store
        self.start()

    @property
    def index(self) -> QueueIndex:
        return self.store.queue_index("1")

    # --- the lane

    def write(self) -> None:
        """Write all that is staged."""
        write(self.store, self.disk)

    def sync(self) -> None:
        """Sync all that is written, and remove what is to go."""
        sync(self.store, self.disk)

    def drain(self) -> None:
        """Write and sync everything, and note that."""
        drain(self.store)

    # --- starts and stops

    def start(self) -> Store:
        """Start on whatever is there."""
        self.generation += 1
        self.store = open_store(self.disk, self.settings, generation=self.generation, queue_ids=self.queue_ids)
        return self.store

    def restart(self) -> Store:
        """An orderly stop, and a start."""
        self.drain()
        self.store.close_checkpoint()
        return self.start()

    def kill(self) -> Store:
        """The process ends at once; the system keeps what was written."""
        return self.start()

    def power_cut(self, rng: Random) -> Store:
        """Everything ends at once; the disk keeps what was synced, and of the rest what it likes."""
        self.disk = self.disk.power_cut(rng)
        return self.start()


def write(store: Store, disk: Disk) -> None:
    """Write all that is staged on the lane of classic queues."""
    lane = store.classic
    if (batch := lane.take_write()) is not None:
        batch.run(disk)
        lane.wrote(batch)


def sync(store: Store, disk: Disk) -> None:
    """Sync all that is written on it, and remove what is to go."""
    lane = store.classic
    lane.want_sync()
    while (batch := lane.take_sync(FAR)) is not None:
        batch.run(disk)
        lane.did_sync(batch)


def drain(store: Store) -> None:
    """Write and sync everything, and note that."""
    write(store, store.disk)
    sync(store, store.disk)
    if (mark := store.classic.take_mark()) is not None:
        mark.run(store.disk)
        store.classic.wrote(mark)
    sync(store, store.disk)


def portion(
    *bodies: bytes,
    attributes: Attributes = DURABLE,
    expires_at: float | None = None,
    route: Route | None = None,
) -> Portion:
    """These messages as a whole run."""
    return Portion(Run(0, list(bodies), attributes), 0, len(bodies), expires_at, route)


def messages(index: QueueIndex) -> dict[int, bytes]:
    """Every live message by its sequence number, read from wherever it is."""
    found: dict[int, bytes] = {}
    for number in sorted(index.segments):
        for run in index.load(number):
            assert not found or max(found) < run.first, "runs out of order"
            found.update(zip(run.sequences, index.read(run), strict=True))
    return found
