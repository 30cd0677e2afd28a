"""The ordered log of commands from which quorum queues are rebuilt: kept on a local disk.

The writer holds a lease. Its number, the *fencing token*, is passed with every append, so that a writer that has lost
its lease without knowing it cannot append. A command is *committed* when the log will never lose it: when the lane has
synced it.

The local log of a group is one sequence of ``COMMAND`` records (core/store/record.py) for all its queues, in files
``<n>.log`` whose numbers have no gap. They are in the lane's folder, or in a folder of the group's own below it. The
groups of a lane share its positions. Only a prefix of the log is ever removed. A command refers only to earlier
commands, so the rest replays to the same state, provided that the caller has first appended again everything that is
still needed. The log does not know what commands mean.

Every start begins a new file. A snapshot is written only at a clean stop and used once: it is removed before the next
command is appended. A file that a start did not read, because of a snapshot, is checked when a part of it is read: up
to the end of that part and slightly further.

Damage is judged when the log is read after a start. Records written after the last sync may be complete, missing or
torn, in any order. So after the last sync the first damaged record ends the log: it and everything after it is cut off,
because no client was told that it is safe. Records missing at the end of a file leave no trace, so later commands may
be present without them. Those are unsafe too, but harmless, because a command does not need earlier ones to be valid.
Damage before the last sync is corruption: the store is refused and left unchanged. With ``salvage`` only that record is
lost. The marks of the lane (core/store/marks.py) say how far it was synced. The batch numbers of the records say more:
in a log everything before a record of a synced batch is synced.
"""

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import NamedTuple

from core.store.damage import refusal
from core.store.disk import Disk
from core.store.errors import StoreDamaged, StoreFailure
from core.store.lane import Lane, LateWriter
from core.store.marks import read_marks
from core.store.places import numbered
from core.store.record import HEADER_BYTES, READ_BYTES, Damaged, RecordKind, SoundRecord, encode, record_bytes, scan

GROUPS = "groups"
"""The folder, in the lane's folder, with a folder for each group's log."""

_SNAPSHOT_HEAD = Struct("<QQQ")
"""File and offset of the first record after the snapshot, and the number of its parts."""


class LeaseLost(Exception):
    """Another writer holds the lease now. Nothing was appended."""


class CommandPlace(NamedTuple):
    """The place of an appended command."""

    position: int
    """The command is committed when the log's ``committed`` has reached this."""
    file: int
    """The number of the file, 1 or higher; 0 for a command that gets its place when it is committed."""
    offset: int
    """Offset of the payload's first byte in the file."""


NOWHERE = CommandPlace(2**62, 0, 0)
"""The place of a command that was refused: ``committed`` never reaches it."""


class RecordPlace(NamedTuple):
    """The place in the log where a record begins."""

    file: int
    offset: int


class Logged(NamedTuple):
    """A command that was read from the log."""

    file: int
    offset: int
    """Offset of the payload's first byte in the file."""
    payload: bytes


class LocalCommandLog:
    """An ordered log that never loses a committed command, in one folder of a local disk, on its own lane. Payloads are
    opaque.

    Call ``read`` to its end before the first append. ``read``, ``put_snapshot`` and ``take_snapshot`` block; they are
    for start and stop.
    """

    def __init__(
        self, disk: Disk, lane: Lane, *, file_bytes_max: int, salvage: bool = False, group: int | None = None
    ) -> None:
        """``salvage``: skip synced records that are damaged, instead of refusing the store. ``group``: the group whose
        log it is; None for the only log of the lane, in the lane's own folder."""
        self.problems: list[str] = []
        """Descriptions of damage found while reading."""
        self.oldest = 1
        """The number of the oldest file that the start has found."""
        self._disk = disk
        self._lane = lane
        self._file_bytes_max = file_bytes_max
        self._salvage = salvage
        self._folder = lane.name if group is None else f"{lane.name}/{GROUPS}/{group}"
        self._fencing_token = 0
        self._sizes: dict[int, int] = {}
        self._filled_at: dict[int, int] = {}
        """The position of the last record of each file that is full."""
        self._unchecked: dict[int, int] = {}
        """Files that the start has not read, each with the offset up to which it was checked since."""
        self._file = 0
        self._path = ""
        self._end = 0
        """The offset of the next record. The size of the current file in ``_sizes`` is updated by ``files``."""

    @property
    def committed(self) -> int:
        """All commands up to this position are safe."""
        return self._lane.synced

    @property
    def written(self) -> int:
        """All commands up to this position can be read back."""
        return self._lane.written

    @property
    def staged(self) -> int:
        """The position of the last command that was appended to the lane."""
        return self._lane.staged

    @property
    def end(self) -> RecordPlace:
        """Where the next record begins, unless its file is full."""
        return RecordPlace(self._file, self._end)

    # --- the lease: there is no other writer, because the folder is locked

    def acquire_lease(self) -> int:
        """Acquire the right to append; the previous owner loses it. Returns the fencing token. Raises LeaseLost if it
        is refused."""
        self._fencing_token += 1
        return self._fencing_token

    def renew_lease(self, fencing_token: int) -> None:
        """Renew the lease. Raises LeaseLost."""
        if fencing_token != self._fencing_token:
            raise LeaseLost(f"the lease {fencing_token} was replaced by {self._fencing_token}")

    # --- writing

    def append(self, payload: Sequence[bytes], payload_bytes: int, fencing_token: int, *, prompt: bool) -> CommandPlace:
        """Append a command. ``prompt``: a client waits for its commit, so sync soon. Raises LeaseLost."""
        if fencing_token != self._fencing_token:
            self.renew_lease(fencing_token)
        size = record_bytes(payload_bytes)
        offset = self._end
        if offset and offset + size > self._file_bytes_max:
            self._begin_file()
            offset = 0
        lane = self._lane
        position = lane.append(self._path, offset, RecordKind.COMMAND, payload)
        self._end = offset + size
        if prompt:
            lane.want_sync()
        return CommandPlace(position, self._file, offset + HEADER_BYTES)

    def later(self, writer: LateWriter) -> None:
        """Have ``writer.write_late()`` called once, just before the next batch is written; it may append."""
        self._lane.later(writer)

    def write_now(self) -> None:
        """Have all commands appended in this turn, also by late writers, written before the answers of the turn are
        sent."""
        self._lane.want_written()

    def begin_file(self) -> int:
        """Have the next command begin a file. Returns its number."""
        if self._end:
            self._begin_file()
        return self._file

    def _begin_file(self) -> None:
        self._sizes[self._file] = self._end
        self._filled_at[self._file] = self._lane.staged
        self._file += 1
        self._sizes[self._file] = self._end = 0
        self._path = self._path_of(self._file)

    def files(self) -> Mapping[int, int]:
        """The files of the log by number, ascending, with their bytes. The last one is being written."""
        self._sizes[self._file] = self._end
        return self._sizes

    def is_written(self, file: int) -> bool:
        """Return whether a file is complete and all of it can be read back."""
        return file != self._file and self._filled_at.get(file, 0) <= self._lane.written

    def truncate(self, upto: int) -> None:
        """Remove the files before this one as soon as everything appended so far is committed."""
        assert upto <= self._file, "the file that is being written stays"
        for number in [number for number in self._sizes if number < upto]:
            self._lane.remove(self._path_of(number))
            del self._sizes[number]
            self._filled_at.pop(number, None)
            self._unchecked.pop(number, None)

    # --- reading

    def read(
        self, start: RecordPlace | None = None, *, follows: Callable[[bytes], bool] = lambda payload: True
    ) -> Iterator[Logged]:
        """Iterate over all commands from ``start`` on, in order. Raises StoreDamaged, and OSError.

        ``follows`` is asked for each payload. If it returns False, records before this one are missing, which is damage
        that leaves no trace: after the last sync the log ends there.
        """
        assert not self._file, "the log is read before it is written"
        files = _LogFiles(self._disk, self._lane.name, self._folder)
        self.oldest = files.numbers[0] if files.numbers else 1
        yield from _replay(files, start, follows, salvage=self._salvage, problems=self.problems)
        if start is not None:
            self._unchecked = {number: 0 for number in files.numbers if number <= start.file}
        self._begin_after(files)

    def skip(self) -> None:
        """Begin after the files that are there, instead of reading them: they are damaged, and everything in them comes
        from another node. They stay until they are truncated. Raises OSError."""
        assert not self._file, "the log is skipped before it is written"
        self._begin_after(_LogFiles(self._disk, self._lane.name, self._folder))

    def _begin_after(self, files: "_LogFiles") -> None:
        files.sync()
        self._sizes = {number: files.size(number) for number in files.numbers}
        for number, size in self._sizes.items():
            self._lane.prove(files.path(number), size)
        self._file = files.numbers[-1] if files.numbers else 0
        self._end = self._sizes.get(self._file, 0)
        self._begin_file()
        self._sizes.pop(0, None)

    def read_again(self) -> Iterator[Logged]:
        """Iterate over all commands once more, while the log is in use. All of them must be committed. Raises
        StoreDamaged, and OSError."""
        assert self._lane.synced == self._lane.staged, "commands that may be lost"
        for file, size in list(self.files().items()):
            if size:
                path = self._path_of(file)
                for record in scan(partial(self._disk.read, path), size):
                    if isinstance(record, Damaged):
                        raise refusal(path, record)
                    yield Logged(file, record.offset + HEADER_BYTES, record.payload)

    def read_bytes(self, file: int, offset: int, length: int) -> bytes:
        """Read part of a payload that was written. Raises StoreFailure, StoreDamaged."""
        path = self._path_of(file)
        try:
            if file in self._unchecked:
                self._check(file, path, offset + length)
            data = self._disk.read(path, offset, length)
            if len(data) != length:
                raise OSError(errno.EIO, f"{length} bytes at {offset} end after {len(data)}")
        except OSError as error:
            raise StoreFailure("read", path, error) from error
        return data

    def _check(self, file: int, path: str, upto: int) -> None:
        checked = self._unchecked[file]
        if checked >= upto:
            return
        for record in scan(partial(self._disk.read, path), self._sizes[file], checked):
            if isinstance(record, Damaged):
                raise refusal(path, record)
            checked = record.end
            if checked >= upto + READ_BYTES:  # this much is read at once anyway, and mostly needed next
                break
        self._unchecked[file] = checked

    def _path_of(self, number: int) -> str:
        return f"{self._folder}/{number}.log"

    # --- snapshots

    def put_snapshot(self, parts: Iterable[bytes]) -> None:
        """Save the state that results from all commands so far. All of them must be committed."""
        assert self._lane.synced == self._lane.staged, "a snapshot of what may be lost"
        generation = self._lane.generation
        new = self._snapshot_path + ".new"
        self._disk.unlink(new)
        offset = record_bytes(_SNAPSHOT_HEAD.size)
        count = 0
        for part in parts:
            chunks = encode(RecordKind.SNAPSHOT, [part], generation, 0)
            self._disk.write(new, offset, chunks)
            offset += record_bytes(len(part))
            count += 1
        head = _SNAPSHOT_HEAD.pack(self._file, self._end, count)
        self._disk.write(new, 0, encode(RecordKind.SNAPSHOT, [head], generation, 0))
        self._disk.sync(new)
        self._disk.rename(new, self._snapshot_path)
        self._disk.sync_folder(self._folder)

    def take_snapshot(self) -> tuple[RecordPlace, list[bytes]] | None:
        """Return the last saved state, and the place of the first command after it. It is returned only once."""
        found = self._snapshot_parts()
        if found is None:
            return None
        generation, parts = found
        self._disk.unlink(self._snapshot_path)
        self._disk.sync_folder(self._folder)
        if self._salvage:
            return None  # salvage means that everything is to be read
        file, offset, count = _SNAPSHOT_HEAD.unpack(parts[0]) if parts else (0, 0, 0)
        if len(parts) != count + 1:
            self.problems.append(f"{self._snapshot_path} is damaged: all commands are replayed")
            return None
        if self._lane.last_start not in (None, generation):
            self.problems.append(
                f"{self._snapshot_path} is of start {generation} and not of the last one, {self._lane.last_start}: all "
                "commands are replayed"
            )
            return None
        return RecordPlace(file, offset), parts[1:]

    def _snapshot_parts(self) -> tuple[int, list[bytes]] | None:
        """Return the generation that wrote the snapshot, and the payloads of the file up to the first damaged
        record."""
        try:
            size = self._disk.size(self._snapshot_path)
        except FileNotFoundError:
            return None
        generation = 0
        parts = []
        for record in scan(lambda offset, length: self._disk.read(self._snapshot_path, offset, length), size):
            if not isinstance(record, SoundRecord):
                break
            generation = record.generation
            parts.append(record.payload)
        return generation, parts

    @property
    def _snapshot_path(self) -> str:
        return f"{self._folder}/snapshot"


class _LogFiles:
    """The files of a log that a start has found: ``<n>.log`` in one folder."""

    def __init__(self, disk: Disk, lane: str, folder: str) -> None:
        """``lane``: the folder of the lane, which has the marks."""
        self._disk = disk
        self.folder = folder
        self.numbers = sorted(number for name in disk.names(folder) if (number := numbered(name, ".log")) is not None)
        self.marks = read_marks(disk, lane)

    def path(self, number: int) -> str:
        """The path of a file, relative to the data folder."""
        return f"{self.folder}/{number}.log"

    def size(self, number: int) -> int:
        """The size of a file in bytes."""
        return self._disk.size(self.path(number))

    def scan(self, number: int, start: int = 0) -> Iterator[SoundRecord | Damaged]:
        """Iterate over the records of one file."""
        path = self.path(number)
        return scan(lambda offset, length: self._disk.read(path, offset, length), self.size(number), start)

    def cut(self, place: RecordPlace) -> None:
        """Remove everything from this place on."""
        for number in [number for number in self.numbers if number > place.file]:
            self._disk.unlink(self.path(number))
            self.numbers.remove(number)
        if place.file in self.numbers:
            self._disk.truncate(self.path(place.file), place.offset)

    def sync(self) -> None:
        """Sync all files and the folder, so that a later start finds the same records. The marks then say that they are
        synced."""
        for number in self.numbers:
            self._disk.sync(self.path(number))
        self._disk.make_folder(self.folder)
        self._disk.sync_folder(self.folder)


def _replay(
    files: _LogFiles,
    start: RecordPlace | None,
    follows: Callable[[bytes], bool],
    *,
    salvage: bool,
    problems: list[str],
) -> Iterator[Logged]:
    """Yield the undamaged commands from ``start`` on. Adds descriptions of damage to ``problems``, and cuts off the
    torn end.

    Raises StoreDamaged before it has changed anything.
    """
    before: int | None = None
    for number in list(files.numbers):
        if start is not None and number < start.file:
            continue
        if before is not None and number != before + 1:
            missing = Damaged(0, 0, None, "the file is missing")
            if _ends_log(files, RecordPlace(before + 1, 0), missing, salvage=salvage, problems=problems):
                return
        before = number
        for record in files.scan(number, start.offset if start is not None and number == start.file else 0):
            if isinstance(record, SoundRecord):
                if follows(record.payload):
                    yield Logged(number, record.offset + HEADER_BYTES, record.payload)
                    continue
                record = Damaged(record.offset, record.end, None, "records before it are missing")
            if _ends_log(files, RecordPlace(number, record.offset), record, salvage=salvage, problems=problems):
                return


def _ends_log(files: _LogFiles, place: RecordPlace, damaged: Damaged, *, salvage: bool, problems: list[str]) -> bool:
    """Judge damage. Returns True if it is after the last sync: the log was cut off there."""
    what = f"{files.path(place.file)} from {place.offset} to {damaged.end}: {damaged.why}"
    if not _was_synced(files, place, damaged):
        files.cut(place)
        problems.append(f"{what}; not synced yet when the broker stopped, so it was cut off with all that follows")
        return True
    if not salvage:
        raise StoreDamaged(
            f"a synced record of the command log is damaged: {what}. With store.salvage = true the broker starts "
            "without it"
        )
    problems.append(f"{what}; a synced record, lost")
    return False


def _was_synced(files: _LogFiles, place: RecordPlace, damaged: Damaged) -> bool:
    if files.marks.proves(files.path(place.file), damaged):
        return True
    for number in files.numbers:
        if number < place.file:
            continue
        if number > place.file and files.marks.files.get(files.path(number)):
            return True
        for record in files.scan(number, place.offset if number == place.file else 0):
            if isinstance(record, SoundRecord) and (record.generation, record.batch) <= files.marks.synced:
                return True
    return False
