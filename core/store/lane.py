"""A lane: group commit for one kind of messages, without I/O.

Records that the event loop stages gather until the previous batch is written; then all of them are the next batch. No
timer is needed, because batches grow with the load. Syncs run beside the writes and not after them; each covers
everything that was written when it began. At most one write batch and one sync batch are *out*, in a worker that knows
only the disk. A sync of very many files takes several batches; positions grow, and files are removed, with the last.

A *position* is a count of staged records. ``synced <= written <= staged``, and none of them ever decreases. A position
is written when the operating system has the bytes (they survive the end of the process), and synced when the disk has
them and the names of new files (they survive a power cut). After a failure none of them increases any more:
:attr:`Lane.failed`.

The records of a batch become durable in any order, between files and within one. A caller that needs an order waits for
a position. The lane itself only orders removals: nothing is removed before everything staged before the removal is
synced.

Marks tell recovery how far a lane was synced, and which files must exist (:mod:`core.store.marks`). A mark is written
at the head of the first batch after a sync, to a separate file; when that is full, another file is begun. A mark that
is written and synced just before a removal announces it, and says that everything before the removal is synced: so
damage to what was copied out of a removed file is never taken for torn.
"""

import errno
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from math import inf
from typing import NamedTuple, Protocol

from core.store.disk import Disk
from core.store.errors import NoSpace, StoreFailure
from core.store.marks import SUFFIX, Marks
from core.store.marks_writer import Mark, MarksWriter
from core.store.record import RecordKind, encode

SYNC_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds, in seconds, of the classes in which syncs are counted: from a disk with a battery to one about to
fail."""
BATCH_RECORDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
"""Upper bounds, in records, of the classes in which write batches are counted."""

REMOVALS_MAX = 64
"""The most removals in one sync batch: unlinking a file of 16 MiB can take a millisecond, and delays the next sync."""

SYNC_FILES_MAX = 1_000
"""The most files in one sync batch. What the event loop does for each of them takes 2 us: it looks for their folders,
and notes them for the marks. Their sync takes 0.3 s, so the turns between batches cost nothing."""

NO_SPACE_RETRY_S = 0.25
"""The wait before removals are tried again that could not be announced because the disk was full."""


def nothing() -> None:
    """What is called before a write or a sync that nothing slows."""


class LateWriter(Protocol):
    """A writer whose records may be delayed until the next batch, so that several can be merged into one."""

    def write_late(self) -> None:
        """Append the records now: a batch is about to be taken."""


class _Extent:
    """Adjoining bytes of one file."""

    __slots__ = ("chunks", "end", "offset", "path")

    def __init__(self, path: str, offset: int) -> None:
        self.path = path
        self.offset = offset
        self.end = offset
        self.chunks: list[bytes] = []


class WriteBatch:
    """All records staged for one write. It may run any number of times: it writes the same bytes to the same places."""

    __slots__ = ("_before", "_extents", "_prepare", "bytes", "number", "position")

    def __init__(
        self,
        *,
        number: int,
        position: int,
        extents: Sequence[_Extent],
        size: int,
        prepare: Callable[[], None] | None = None,
        before: Callable[[], None] = nothing,
    ) -> None:
        """``prepare``: encodes what was not encoded when the batch was taken; idempotent."""
        self._before, self._prepare = before, prepare
        self.number = number
        self.position = position
        self.bytes = size
        self._extents = extents

    @property
    def ends(self) -> Iterator[tuple[str, int]]:
        """The files that it writes to, some of them more than once, each with the end of the write."""
        return ((extent.path, extent.end) for extent in self._extents)

    def run(self, disk: Disk) -> None:
        """Write the batch, in a worker. Raises NoSpace, StoreFailure."""
        self._before()
        if self._prepare is not None:
            self._prepare()
        _check_folder(disk)
        for extent in self._extents:
            try:
                disk.write(extent.path, extent.offset, extent.chunks)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise NoSpace(extent.path) from error
                raise StoreFailure("write", extent.path, error) from error


class Removal(NamedTuple):
    """A file or folder to be removed when everything up to ``position`` is synced."""

    position: int
    path: str
    is_folder: bool


class SyncBatch:
    """Files to be synced, folders whose names are to be synced, and files and folders to be removed after that."""

    __slots__ = ("announced", "announcement", "before", "files", "folders", "number", "position", "removals")

    def __init__(
        self,
        *,
        number: int,
        position: int,
        files: Mapping[str, int],
        folders: Sequence[str],
        removals: Sequence[Removal],
        announcement: Mark | None = None,
        before: Callable[[], None] = nothing,
    ) -> None:
        self.number = number
        """The number of the last write batch that it covers."""
        self.position = position
        self.files = files
        """The files, each with the end up to which it was written when the batch was taken."""
        self.folders = folders
        self.removals = removals
        self.announcement = announcement
        """The mark that announces the removals."""
        self.announced = True
        """False if there was no space for the announcement; then nothing was removed."""
        self.before = before

    def run(self, disk: Disk) -> None:
        """Run the batch, in a worker. Raises StoreFailure; the contents of the disk are unknown then."""
        if self.files:
            self.before()
        marks = None if self.announcement is None else self.announcement.path
        for path in self.files:
            if path != marks:
                _attempt("sync", path, disk.sync)
        for folder in self.folders:
            _attempt("sync", folder, partial(_sync_names, disk))
        if self.announcement is not None:  # it says that the files are synced, so it comes last
            self._announce(disk, self.announcement)
            _attempt("sync", self.announcement.path, disk.sync)
        _check_folder(disk)  # if the folder has gone meanwhile, what was synced is lost
        for removal in self.removals if self.announced else ():
            _attempt("remove", removal.path, disk.remove_folder if removal.is_folder else disk.unlink)

    def _announce(self, disk: Disk, mark: Mark) -> None:
        _check_folder(disk)
        try:
            disk.write(mark.path, mark.offset, mark.chunks)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFailure("write", mark.path, error) from error
            self.announced = False


class _Rest(NamedTuple):
    """What a sync has not covered yet."""

    files: Iterator[tuple[str, int]]
    left: int
    """How many files there are."""
    number: int
    position: int
    """The number of the last write batch, and the position, when the sync began."""


class Lane:
    """The state of one lane: staged, out and finished batches. Used by the event loop only."""

    def __init__(
        self,
        name: str,
        *,
        generation: int,
        sync_interval_s: float,
        mark_interval_s: float = 0.0,
        notify: Callable[[], None] = nothing,
        marks: Marks | None = None,
        sync_files_max: int = SYNC_FILES_MAX,
    ) -> None:
        """``generation``: the number of this start. ``marks``: those that the start has begun. ``sync_interval_s``: how
        long written records may wait for a sync that no caller has asked for; also how often marks are synced.
        ``mark_interval_s``: how often batches include a mark; if each batch is synced, a mark in each would be half of
        the writes. ``sync_files_max``: the most files in one sync batch."""
        self._mark_interval_s = mark_interval_s
        self.name = name
        self.generation = generation
        self.notify = notify
        """Called when a batch may have become available."""
        self.before_sync = self.before_write = nothing
        """Called in the worker before each sync or write. The driver of the lane may set them to make these slow."""
        self.failed: StoreFailure | None = None
        self.staged = self.written = self.synced = 0
        self.writing: WriteBatch | None = None
        """The write batch that is out."""
        self.syncing: SyncBatch | None = None
        self.staged_bytes = 0
        """Bytes of records that are not written yet, headers and padding included."""
        self.written_bytes = 0
        self.batches = 0
        self.write_seconds = self.last_write_seconds = 0.0
        self.syncs = 0
        self.sync_seconds = self.last_sync_seconds = 0.0
        self.sync_counts = [0] * (len(SYNC_SECONDS) + 1)
        """Counts of syncs by duration: one class up to each bound of ``SYNC_SECONDS``, and one for longer ones."""
        self.batch_counts = [0] * (len(BATCH_RECORDS) + 1)
        """Counts of write batches by number of records, in the same way."""
        self._sync_interval_s, self._sync_files_max = sync_interval_s, sync_files_max
        self._batch_number = 1
        """The number of the batch that is gathering."""
        self.extents: list[_Extent] = []
        """The records of the batch that gathers. Callers may read it, to save a call when it is empty."""
        self._growing: dict[str, _Extent] = {}
        """The last extent of each file."""
        self.new_files = 0
        """How many files begin with the batch that gathers."""
        self._late: dict[LateWriter, None] = {}
        marks = marks or Marks()
        self.marks = MarksWriter(name, generation, marks)
        self.last_start = marks.before
        """The generation of the start before this one; None if unknown."""
        self._removals_from = -inf
        """When removals are tried again that could not be announced because the disk was full."""
        self._marks_due = -inf
        self._mark_due = False
        self._mark_from = -inf
        """When a batch may include the next mark."""
        self._now = 0.0
        """When the last sync began."""
        self.write_wanted = False
        self._sync_wanted, self._sync_due = 0, -inf
        self._dirty: dict[str, int] = {}
        """Files with written bytes that are in no sync yet, each with the end of these bytes."""
        self._rest: _Rest | None = None
        """What the sync that has begun has not covered yet, and is in no batch."""
        self._durable_names: dict[str, set[str]] = {}
        """Files, and their parent folders, whose names survive a power cut, by the folder that they are in. Names from
        before the start are not included: syncing their folders once more costs little."""
        self._changed_folders: dict[str, None] = {}
        """Folders from which a file was removed. A file that comes back does no harm, so this alone causes no sync."""
        self._removals: deque[Removal] = deque()
        self._leaving: set[str] = set()
        """Files and folders that are to be removed."""

    # --- staging

    def append(self, path: str, offset: int, kind: RecordKind, payload: Sequence[bytes]) -> int:
        """Stage one record, to be written at ``offset``. Returns its position."""
        chunks = encode(kind, payload, self.generation, self._batch_number)
        assert path not in self._leaving, f"{path} is about to be removed"
        begins = not self.extents
        self.staged_bytes += self._put(path, offset, chunks)
        self.staged += 1
        if begins:
            self.notify()
        return self.staged

    def _put(self, path: str, offset: int, chunks: list[bytes]) -> int:
        """Add the chunks to the gathering batch. Returns their size in bytes."""
        extent = self._growing.get(path)
        if extent is None or extent.end != offset:
            extent = self._growing[path] = _Extent(path, offset)
            self.extents.append(extent)
            if not offset:
                self.new_files += 1
        size = sum(map(len, chunks))
        extent.chunks += chunks
        extent.end += size
        return size

    def later(self, writer: LateWriter) -> None:
        """Have ``writer.write_late()`` called once, when the next batch is taken."""
        first = not self._late
        self._late[writer] = None
        if first:
            self.notify()

    def want_written(self) -> None:
        """Have everything so far, with the records of late writers, written before the answers of this turn are sent.
        ``write_wanted`` is True until a batch is taken."""
        self.write_wanted = True
        self.notify()

    def want_sync(self) -> None:
        """Have all records staged so far synced as soon as possible."""
        if self._sync_wanted < self.staged:
            self._sync_wanted = self.staged
            self.notify()

    @property
    def sync_wanted(self) -> bool:
        """Whether a caller waits for a sync."""
        return self._sync_wanted > self.synced

    def remove(self, path: str) -> None:
        """Unlink a file when everything staged so far is synced. Nothing may be appended to it any more."""
        self._remove(path, is_folder=False)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with its contents when everything staged so far is synced. Nothing may be appended to its
        files any more."""
        self._remove(folder, is_folder=True)

    def _remove(self, path: str, *, is_folder: bool) -> None:
        self._leaving.add(path)
        self._removals.append(Removal(self.staged, path, is_folder))
        self.notify()

    def prove(self, path: str, size: int) -> None:
        """Let the next mark say that a start has found and synced ``size`` bytes of a file."""
        if self.marks.proven(path) < size:
            self.marks.synced({path: size}, ())
            self._mark_due = True

    # --- writes

    @property
    def has_records(self) -> bool:
        """Whether a batch has begun to gather. Late writers alone do not begin one."""
        return bool(self.extents)

    @property
    def has_late_writers(self) -> bool:
        """Whether a late writer waits for the next batch."""
        return bool(self._late)

    @property
    def has_removals(self) -> bool:
        """Whether files or folders are to be removed."""
        return bool(self._removals)

    def take_write(self, *, in_turn: bool = False) -> WriteBatch | None:
        """Take all staged records, with those that late writers add, as a batch. None if there are none, or while a
        batch is out. ``in_turn``: it is not written by a worker, so a mark that names very many files waits."""
        if self.failed is not None or self.writing is not None:
            return None
        self.write_wanted = False
        late, self._late = self._late, {}
        for writer in late:
            writer.write_late()
        return self._gathered(in_turn=in_turn) if self.extents else None

    @property
    def mark_due(self) -> bool:
        """Whether a sync has to be recorded by a mark."""
        return self._mark_due

    def take_mark(self) -> WriteBatch | None:
        """Take a batch with the mark alone, for when no further records come."""
        due = self._mark_due and self.failed is None and self.writing is None and not self.extents
        return self._gathered() if due else None

    def _gathered(self, *, in_turn: bool = False) -> WriteBatch:
        extents, self.extents, self._growing, self.new_files = self.extents, [], {}, 0
        prepare = None
        due = self._mark_due and (self._now >= self._mark_from or not extents)
        if due and not (in_turn and self.marks.next_is_large):
            prepare = self._add_mark(extents)
        batch = WriteBatch(
            number=self._batch_number,
            position=self.staged,
            size=self.staged_bytes,
            extents=extents,
            prepare=prepare,
            before=self.before_write,
        )
        self._batch_number += 1
        self.writing = batch
        return batch

    def _add_mark(self, extents: list[_Extent]) -> Callable[[], None] | None:
        """Put the next mark at the head. Returns what encodes it, if that is left to the worker."""
        mark = self.marks.next(self._batch_number)
        if mark.full is not None:
            self._removals.append(Removal(self.staged, mark.full, is_folder=False))
        extent = _Extent(mark.path, mark.offset)
        extent.chunks = mark.chunks
        extent.end = mark.end
        self._mark_due = False
        self._mark_from = self._now + self._mark_interval_s
        extents.insert(0, extent)
        return mark.encode

    def wrote(self, batch: WriteBatch, seconds: float = 0.0) -> None:
        """The write batch has run and took ``seconds``. Has no effect after a failure."""
        assert batch is self.writing, "a batch that is not out"
        self.writing = None
        if self.failed is not None:
            return
        self.batch_counts[bisect_left(BATCH_RECORDS, batch.position - self.written)] += 1
        self.written = batch.position
        self.staged_bytes -= batch.bytes
        self.written_bytes += batch.bytes
        self.batches += 1
        self.write_seconds += seconds
        self.last_write_seconds = seconds
        self._dirty.update(batch.ends)
        if self.marks.beginning:
            self.marks.has_begun()
        self.notify()

    # --- syncs

    def sync_due(self, now: float) -> float | None:
        """When :meth:`take_sync` will return a batch, in monotonic seconds. None: not before something is written, or a
        batch is out."""
        if self.failed is not None or self.syncing is not None:
            return None
        if self._rest is not None:
            return now
        if self._removals and self._removals[0].position <= self.synced and not self.marks.beginning:
            return max(now, self._removals_from)
        if self.written == self.synced:
            return None
        return now if self._sync_wanted > self.synced else max(now, self._sync_due)

    def take_sync(self, now: float) -> SyncBatch | None:
        """Take a batch of the written files that are not synced, if a sync is wanted or due, with the removals that may
        follow it. While files of the sync are left for further batches, the batch has the position that is synced
        already, and no removals."""
        due = self.sync_due(now)
        if due is None or due > now:
            return None
        files, number, position = self._take_files()
        removals: list[Removal] = []
        announcement = None
        if self._rest is None:
            removals = self._take_removals(now, position)
            announcement = self.marks.announcement(
                [(removal.path, removal.is_folder) for removal in removals], self._batch_number, synced=number
            )
            self._choose_marks(files, now, wanted=announcement is not None or _replaces_marks(removals))
        batch = SyncBatch(
            number=number,
            position=position if self._rest is None else self.synced,
            files=files,
            folders=self._take_folders(files),
            removals=removals,
            announcement=announcement,
            before=self.before_sync,
        )
        self._now = now
        self._sync_due = now + self._sync_interval_s
        self.syncing = batch
        return batch

    def _take_files(self) -> tuple[dict[str, int], int, int]:
        """Take the files of the next sync batch, as many as it may have. Returns them with the number of the last write
        batch, and the position, when the sync began."""
        rest, self._rest = self._rest, None
        if rest is None:
            files, self._dirty = self._dirty, {}
            number = self._batch_number - (1 if self.writing is None else 2)
            if len(files) <= self._sync_files_max:
                return files, number, self.written
            rest = _Rest(iter(files.items()), len(files), number, self.written)
        some = dict(islice(rest.files, self._sync_files_max))
        if rest.left > len(some):
            self._rest = rest._replace(left=rest.left - len(some))
        return some, rest.number, rest.position

    def _choose_marks(self, files: dict[str, int], now: float, *, wanted: bool) -> None:
        """Add the file of the marks to the files to sync, or put it off. Marks only help to judge damage, so they are
        synced once in an interval, unless they announce a removal, or a full file of marks is to be removed."""
        path = self.marks.path
        if wanted or (path in files and now >= self._marks_due):
            self._marks_due = now + self._sync_interval_s
            files[path] = self.marks.end
        elif path in files:
            self._dirty[path] = files.pop(path)

    def _take_folders(self, files: Iterable[str]) -> list[str]:
        """Return folders with a name that is not known to be durable: of the file, or of a folder in its path."""
        folders, self._changed_folders = self._changed_folders, {}
        for path in files:
            name = path
            while name:
                folder = name.rpartition("/")[0]
                durable = self._durable_names.get(folder)
                if durable is None:
                    durable = self._durable_names[folder] = set()
                elif name in durable:
                    break
                durable.add(name)  # entered before the sync, because a failed sync ends everything
                folders[folder] = None
                name = folder
        return list(folders)

    def _take_removals(self, now: float, position: int) -> list[Removal]:
        removals: list[Removal] = []
        if self.marks.beginning or now < self._removals_from:
            return removals
        while self._removals and self._removals[0].position <= position and len(removals) < REMOVALS_MAX:
            removals.append(self._removals.popleft())
        return removals

    def did_sync(self, batch: SyncBatch, seconds: float = 0.0) -> None:
        """The sync batch has run and took ``seconds``. Has no effect after a failure."""
        assert batch is self.syncing, "a batch that is not out"
        self.syncing = None
        if self.failed is not None:
            return
        self.syncs += 1
        self.sync_seconds += seconds
        self.last_sync_seconds = seconds
        self.sync_counts[bisect_left(SYNC_SECONDS, seconds)] += 1
        if batch.position > self.synced:
            self.synced = batch.position
            self.marks.synced_batch = batch.number
            self._mark_due = True
        self.marks.synced(batch.files, self._leaving)
        if self._rest is not None:
            self._mark_due = True  # or the mark after the last batch would name the files of all
        if batch.announced:
            self.marks.announced()
            for removal in batch.removals:
                self._removed(removal)
        else:
            self._removals.extendleft(reversed(batch.removals))
            self._removals_from = self._now + NO_SPACE_RETRY_S
        self.notify()

    def _removed(self, removal: Removal) -> None:
        self._leaving.discard(removal.path)
        parent = removal.path.rpartition("/")[0]
        if (durable := self._durable_names.get(parent)) is not None:
            durable.discard(removal.path)
        if removal.is_folder:
            self._forget_inside(removal.path)
            inside = removal.path + "/"
            for folder in [name for name in self._changed_folders if (name + "/").startswith(inside)]:
                del self._changed_folders[folder]  # at most REMOVALS_MAX have changed since the last sync
        self._changed_folders[parent] = None

    def _forget_inside(self, folder: str) -> None:
        """Forget the names in a removed folder, and in the folders in it."""
        for name in self._durable_names.pop(folder, ()):
            self._forget_inside(name)

    # --- the end

    def fail(self, failure: StoreFailure) -> None:
        """Stop the lane: no batch is taken and no position increases any more. The first failure is kept."""
        if self.failed is None:
            self.failed = failure


def _attempt(operation: str, path: str, call: Callable[[str], None]) -> None:
    try:
        call(path)
    except OSError as error:
        raise StoreFailure(operation, path, error) from error


def _replaces_marks(removals: Iterable[Removal]) -> bool:
    """Whether a full file of marks is among the removals: the one that replaces it must be synced before."""
    return any(removal.path.endswith(SUFFIX) for removal in removals)


def _sync_names(disk: Disk, folder: str) -> None:
    """Sync the names in a folder. A removed folder is ignored; if it had a new file, the sync of that file would have
    failed."""
    with suppress(FileNotFoundError):
        disk.sync_folder(folder)


def _check_folder(disk: Disk) -> None:
    _attempt("find", "the data folder", lambda _: disk.check())
