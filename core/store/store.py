"""The store: three lanes, the indexes of classic queues and the message stores, with their start and stop.

Opening the store reads files and may take long, so it is done in a worker. Nothing is changed before everything was
read, so a refused store is left unchanged. After that only the event loop uses the store.

The order of a start: read the checkpoint, or else everything; remove the checkpoint; remove data that does not outlive
the broker; repair torn files. The order of a stop: flush the lanes, write the checkpoint.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from core.config.store import StoreSettings
from core.store.checkpoint import Checkpoint, read_checkpoint, remove_checkpoint, write_checkpoint
from core.store.compaction import Compactor
from core.store.disk import Disk
from core.store.errors import refusal
from core.store.lane import Lane
from core.store.marks import Marks, begin_marks, compared, note_everywhere, read_marks
from core.store.message_store import MessageStore, MessageStores
from core.store.places import CHECKPOINT, PERSISTENT, QUEUES, TRANSIENT, index_folder
from core.store.queue_index import IndexState, QueueIndex
from core.store.recovery import Recovery, Report, first_free
from core.store.staging import Staging

CLASSIC = "classic"
QUORUM = "quorum"
STREAMS = "streams"
MARK_SECONDS = 0.05
"""How often the quorum lane writes a mark. A start takes damage to records synced after the last mark for torn, and not
for corrupt."""
PASSING = "t"
"""The prefix of ids of queues that do not outlive the broker."""


class Store:
    """An open store. The server drives the lanes with worker threads, and sets ``lane.notify``."""

    def __init__(
        self,
        disk: Disk,
        settings: StoreSettings,
        *,
        generation: int,
        found: Checkpoint,
        report: Report,
        marks: Mapping[str, Marks],
        older: Collection[str],
        floor: int,
    ) -> None:
        """Use :func:`open_store`. ``found`` and ``report``: findings of the start. ``marks``: those of each lane.
        ``older``: queues from before the start. The numbering of such a queue without data on disk begins at
        ``floor``."""
        interval = settings.sync_interval
        self.classic = Lane(CLASSIC, generation=generation, sync_interval_s=interval, marks=marks[CLASSIC])
        self.quorum = Lane(
            QUORUM,
            generation=generation,
            sync_interval_s=interval,
            mark_interval_s=min(interval, MARK_SECONDS),
            marks=marks[QUORUM],
        )
        self.streams = Lane(STREAMS, generation=generation, sync_interval_s=interval, marks=marks[STREAMS])
        self.streams_synced = replace(marks[STREAMS], files=dict(marks[STREAMS].files))
        """The marks of the streams lane as they were when the broker ended."""
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
        self._indexes: dict[str, dict[int, QueueIndex]] = {}
        """By queue and priority level, so that deleting a queue does not search all the others."""
        for (queue_id, level), state in found.indexes.items():
            self._indexes.setdefault(queue_id, {})[level] = self._index(queue_id, level, state)

    def queue_index(self, queue_id: str, level: int = 0) -> QueueIndex:
        """Return the index of a priority level of a queue: the one that the start found, or a new one."""
        levels = self._indexes.setdefault(queue_id, {})
        index = levels.get(level)
        if index is None:
            state = IndexState(self._floor if queue_id in self._older else 0)
            index = levels[level] = self._index(queue_id, level, state)
        return index

    def _index(self, queue_id: str, level: int, state: IndexState) -> QueueIndex:
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
        """Remove all data of a deleted queue."""
        for index in self._indexes.pop(queue_id, {}).values():
            index.delete()
        self.classic.remove_folder(f"{QUEUES}/{queue_id}")

    def compact_step(self) -> bool:
        """Do about 1 MiB of compaction. Returns True if there is more to do. Raises StoreFailure."""
        self._staging.forget_written()
        more = [compactor.step() for compactor in self._compactors]
        return any(more)

    def close_checkpoint(self) -> None:
        """Write the checkpoint. The lanes must be flushed, and nothing may be staged afterwards. Raises OSError."""
        assert self.classic.synced == self.classic.staged, "the lane is not drained"
        indexes = {
            (queue_id, level): index.state()
            for queue_id, levels in self._indexes.items()
            if not queue_id.startswith(PASSING)
            for level, index in levels.items()
        }
        write_checkpoint(self.disk, Checkpoint(indexes, self.persistent.state()), self._generation)


def open_store(
    disk: Disk,
    settings: StoreSettings,
    *,
    generation: int,
    queue_ids: Collection[str],
    stream_ids: Collection[str] | None = None,
    deleted: Collection[str] = (),
    set_aside: Callable[[int], None] = lambda number: None,
    progress: Callable[[Report], None] = lambda report: None,
) -> Store:
    """Open the store of a locked data folder. Blocks, for long after an unclean stop.

    ``generation`` is the number of this start. ``queue_ids`` are the classic queues that outlive the broker. Data of
    ``deleted`` queues is removed. ``set_aside`` is called with the number of each unknown queue before any of its data
    could be removed. ``stream_ids``: the streams; the caller may remove or move data of others when this returns.
    ``progress`` is called with the report so far after each file. Raises StoreDamaged or StoreRefused; then nothing has
    been changed.
    """
    try:
        return _open(disk, settings, generation, sorted(queue_ids), stream_ids, frozenset(deleted), set_aside, progress)
    except OSError as error:
        about = f" {error.filename!r}" if error.filename else ""
        text = f"the store cannot be opened:{about} {error.strerror}; check the data folder and its disk"
        raise refusal(error, text) from error


def _open(
    disk: Disk,
    settings: StoreSettings,
    generation: int,
    queue_ids: list[str],
    stream_ids: Collection[str] | None,
    deleted: Collection[str],
    set_aside: Callable[[int], None],
    progress: Callable[[Report], None],
) -> Store:
    report = Report()
    marks = {lane: read_marks(disk, lane) for lane in (CLASSIC, QUORUM, STREAMS)}
    report.gone = compared(disk, marks, generation=generation, salvage=settings.salvage)
    synced = marks[CLASSIC].synced
    last = marks[CLASSIC]
    found = read_checkpoint(disk, oldest=last.generation, newest=last.generation if last.number else generation - 1)
    if settings.salvage:
        found = None  # salvage means that everything is to be read
    if found is not None and {queue_id for queue_id, _ in found.indexes} <= set(queue_ids):
        report.clean = True
        synced = (generation, 0)  # a stop is clean when everything is synced
    elif CHECKPOINT in disk.names("") and not settings.salvage:
        report.gone.append(f"{CHECKPOINT} is damaged or an older copy: everything else is read instead")
    recovery = Recovery(
        disk,
        generation=generation,
        marks=replace(marks[CLASSIC], synced=synced),
        salvage=settings.salvage,
        report=report,
        progress=progress,
    )
    if found is not None and report.clean:
        recovery.complete(found)
    else:
        found = recovery.everything(queue_ids)
    begun = _begin(disk, marks, generation, {*recovery.unlinked, *_strangers(disk, queue_ids, stream_ids)})
    remove_checkpoint(disk)
    disk.remove_folder(TRANSIENT)
    disk.make_folder(QUEUES)
    known = frozenset(queue_ids)
    for queue_id in disk.names(QUEUES):
        if queue_id in known:
            continue
        if queue_id.isdigit() and queue_id not in deleted:
            set_aside(int(queue_id))
        else:
            disk.remove_folder(f"{QUEUES}/{queue_id}")
    recovery.mend()
    floor = 0 if report.clean else first_free(0, generation - 1)
    store = Store(
        disk, settings, generation=generation, found=found, report=report, marks=begun, older=queue_ids, floor=floor
    )
    for path, size in recovery.kept.items():
        store.classic.prove(path, size)
    return store


def marked_definitions(disk: Disk) -> int:
    """Return the highest generation of the definitions in the marks of all lanes. Raises OSError, StoreDamaged."""
    return max(read_marks(disk, lane).definitions for lane in (CLASSIC, QUORUM, STREAMS))


def _begin(disk: Disk, marks: Mapping[str, Marks], generation: int, gone: Collection[str]) -> Mapping[str, Marks]:
    """Begin new marks of all lanes. After that the files and folders in ``gone`` may be removed, and others may
    grow."""
    begun = {lane: begin_marks(disk, lane, found, generation=generation, gone=gone) for lane, found in marks.items()}
    note_everywhere(disk, begun)
    return begun


def _strangers(disk: Disk, queue_ids: Collection[str], stream_ids: Collection[str] | None) -> Iterator[str]:
    """Yield folders of unknown queues and streams."""
    yield from (f"{QUEUES}/{name}" for name in disk.names(QUEUES) if name not in queue_ids)
    if stream_ids is not None:
        yield from (f"{STREAMS}/{name}" for name in disk.names(STREAMS) if name.isdigit() and name not in stream_ids)
