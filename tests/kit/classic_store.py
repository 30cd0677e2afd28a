"""A store on a disk in memory that a test moves by hand.

The test says when the store writes and syncs, and how it stops: in order, by a kill or by a power cut.
"""

from random import Random

from core.config.store import StoreSettings
from core.message import Attributes, Route, Run, RunPart
from core.store.disk import Disk
from core.store.queue_index import QueueIndex
from core.store.store import Store, open_store
from tests.kit.faulty_disk import MemoryDisk

DURABLE = Attributes(durable=True)
TRANSIENT = Attributes()
FAR = 1e9
"""A time at which every sync is due."""


class StoreHarness:
    """One data folder, through all its starts."""

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
        """Sync all that is written, and remove the files that are to go."""
        sync(self.store, self.disk)

    def drain(self) -> None:
        """Write and sync everything, and note on the disk that it is synced."""
        drain(self.store)

    # --- starts and stops

    def start(self) -> Store:
        """Open the store on what the disk has."""
        self.generation += 1
        self.store = open_store(self.disk, self.settings, generation=self.generation, queue_ids=self.queue_ids)
        return self.store

    def restart(self) -> Store:
        """Stop in order, and start again."""
        self.drain()
        self.store.close_checkpoint()
        return self.start()

    def kill(self) -> Store:
        """End the process at once, and start again. The operating system keeps what was written."""
        return self.start()

    def power_cut(self, rng: Random) -> Store:
        """Cut the power, and start again. The disk keeps what was synced, and any part of the rest."""
        self.disk = self.disk.power_cut(rng)
        return self.start()


def write(store: Store, disk: Disk) -> None:
    """Write all that is staged on the lane of classic queues."""
    lane = store.classic
    if (batch := lane.take_write()) is not None:
        batch.run(disk)
        lane.wrote(batch)


def sync(store: Store, disk: Disk) -> None:
    """Sync all that is written on the lane of classic queues, and remove the files that are to go."""
    lane = store.classic
    lane.want_sync()
    while (batch := lane.take_sync(FAR)) is not None:
        batch.run(disk)
        lane.did_sync(batch)


def drain(store: Store) -> None:
    """Write and sync everything, and note on the disk that it is synced."""
    write(store, store.disk)
    sync(store, store.disk)
    if (mark := store.classic.take_mark()) is not None:
        mark.run(store.disk)
        store.classic.wrote(mark)
    sync(store, store.disk)


def run_part(
    *bodies: bytes,
    attributes: Attributes = DURABLE,
    expires_at: float | None = None,
    route: Route | None = None,
) -> RunPart:
    """A part of these messages: a whole run."""
    return RunPart(Run(0, list(bodies), attributes, routes=route), 0, len(bodies), expires_at)


def messages(index: QueueIndex) -> dict[int, bytes]:
    """The body of every live message by its sequence number, read from memory or disk."""
    found: dict[int, bytes] = {}
    for number in sorted(index.segments):
        for run in index.load(number):
            assert not found or max(found) < run.first, "runs out of order"
            found.update(zip(run.sequences, index.read(run), strict=True))
    return found
