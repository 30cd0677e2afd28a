"""The store as the broker sees it: three lanes, the indexes of classic queues, the message stores; their start and end.

Opening it reads, and may take long: it belongs into a worker. Nothing is changed before everything was looked at, so a
damaged store is refused as it is. After that the store is touched by the loop only.

The order of a start: look at the checkpoint or at everything; remove the checkpoint; wipe what does not outlive the
broker; mend what was torn. The order of a stop: drain the lanes, write the checkpoint.
"""

from collections.abc import Callable, Collection

from core.config.store import StoreSettings
from core.store.checkpoint import Checkpoint, IndexKey, read_checkpoint, remove_checkpoint, write_checkpoint
from core.store.compaction import Compactor
from core.store.disk import Disk
from core.store.errors import refusal
from core.store.lane import Lane, last_synced
from core.store.message_store import MessageStore, MessageStores
from core.store.places import PERSISTENT, QUEUES, TRANSIENT, index_folder
from core.store.queue_index import IndexState, QueueIndex
from core.store.recovery import Recovery, Report, first_free
from core.store.staging import Staging

CLASSIC = "classic"
QUORUM = "quorum"
STREAMS = "streams"
MARK_SECONDS = 0.05
"""How often the quorum lane says how far it was synced. What was synced since then looks torn to a start, if it is
damaged, and not corrupt."""
PASSING = "t"
"""Ids of queues that do not outlive the broker begin with it."""


class Store:
    """An open store. The lanes are driven by whoever has worker threads; ``lane.notify`` is theirs to set."""

    def __init__(
        self,
        disk: Disk,
        settings: StoreSettings,
        *,
        generation: int,
        found: Checkpoint,
        report: Report,
        older: Collection[str],
        floor: int,
    ) -> None:
        """Use :func:`open_store`. ``found`` and ``report``: what the start found. ``older``: queues that were there
        before it; where they have left nothing on disk, their numbering begins at ``floor``."""
        interval = settings.sync_interval
        self.classic = Lane(CLASSIC, generation=generation, sync_interval_s=interval)
        self.quorum = Lane(
            QUORUM, generation=generation, sync_interval_s=interval, mark_interval_s=min(interval, MARK_SECONDS)
        )
        self.streams = Lane(STREAMS, generation=generation, sync_interval_s=interval)
        self.disk = disk
        self.report = report
        self._settings = settings
        self._generation = generation
        self._staging = Staging(self.classic, disk)
        limit = settings.msg_store_file_size_limit
        self.persistent = MessageStore(PERSISTENT, staging=self._staging, file_bytes_max=limit, state=found.bodies)
        self.transient = MessageStore(TRANSIENT, staging=self._staging, file_bytes_max=limit)
        self._bodies = MessageStores(self.persistent, self.transient)
        self._compactors = [
            Compactor(store, self._staging, garbage_fraction=settings.garbage_fraction)
            for store in (self.persistent, self.transient)
        ]
        self._older = frozenset(older)
        self._floor = floor
        self._indexes = {key: self._index(key, state) for key, state in found.indexes.items()}

    def queue_index(self, queue_id: str, level: int = 0) -> QueueIndex:
        """The index of a priority level of a queue: what the start found of it, or a new one."""
        key = (queue_id, level)
        index = self._indexes.get(key)
        if index is None:
            state = IndexState(self._floor if queue_id in self._older else 0)
            index = self._indexes[key] = self._index(key, state)
        return index

    def _index(self, key: IndexKey, state: IndexState) -> QueueIndex:
        queue_id, level = key
        return QueueIndex(
            index_folder(queue_id, level),
            staging=self._staging,
            bodies=self._bodies,
            embed_below=self._settings.queue_index_embed_msgs_below,
            durable=not queue_id.startswith(PASSING),
            salvage=self._settings.salvage,
            state=state,
        )

    def forget_queue(self, queue_id: str) -> None:
        """The queue is deleted: nothing of it stays, whichever of its indexes were asked for."""
        for key in [key for key in self._indexes if key[0] == queue_id]:
            self._indexes.pop(key).delete()
        self.classic.remove_folder(f"{QUEUES}/{queue_id}")

    def compact_step(self) -> bool:
        """Some housekeeping, about 1 MiB of work. True when there is more. Raises StoreFailure."""
        self._staging.forget_written()
        more = [compactor.step() for compactor in self._compactors]
        return any(more)

    def close_checkpoint(self) -> None:
        """Write the checkpoint. The lanes are drained and nothing comes any more. Raises OSError."""
        assert self.classic.synced == self.classic.staged, "the lane is not drained"
        indexes = {key: index.state() for key, index in self._indexes.items() if not key[0].startswith(PASSING)}
        write_checkpoint(self.disk, Checkpoint(indexes, self.persistent.state()), self._generation)


def open_store(
    disk: Disk,
    settings: StoreSettings,
    *,
    generation: int,
    queue_ids: Collection[str],
    progress: Callable[[Report], None] = lambda report: None,
) -> Store:
    """Open the store of a data folder that is ours. Blocks, for long after an unclean stop.

    ``generation`` counts the starts of the folder. ``queue_ids`` are the classic queues that outlive the broker; what
    is there of others is wiped. ``progress`` is called with what was found so far, after each file. Raises
    StoreDamaged or StoreRefused; then nothing has been changed.
    """
    try:
        return _open(disk, settings, generation, sorted(queue_ids), progress)
    except OSError as error:
        about = f" {error.filename!r}" if error.filename else ""
        text = f"the store cannot be opened:{about} {error.strerror}; check the data folder and its disk"
        raise refusal(error, text) from error


def _open(
    disk: Disk,
    settings: StoreSettings,
    generation: int,
    queue_ids: list[str],
    progress: Callable[[Report], None],
) -> Store:
    report = Report()
    synced = last_synced(disk, CLASSIC)
    found = read_checkpoint(disk, oldest=synced[0], newest=generation - 1)
    if settings.salvage:
        found = None  # who sets it wants everything to be looked at
    if found is not None and {queue_id for queue_id, _ in found.indexes} <= set(queue_ids):
        report.clean = True
        synced = (generation, 0)  # a stop is clean when everything is synced
    recovery = Recovery(
        disk, generation=generation, synced=synced, salvage=settings.salvage, report=report, progress=progress
    )
    if found is not None and report.clean:
        recovery.complete(found)
    else:
        found = recovery.everything(queue_ids)
    remove_checkpoint(disk)
    disk.remove_folder(TRANSIENT)
    disk.make_folder(QUEUES)
    for queue_id in disk.names(QUEUES):
        if queue_id not in queue_ids:
            disk.remove_folder(f"{QUEUES}/{queue_id}")
            report.wiped_queues += 1
    recovery.mend()
    floor = 0 if report.clean else first_free(0, generation - 1)
    return Store(disk, settings, generation=generation, found=found, report=report, older=queue_ids, floor=floor)
