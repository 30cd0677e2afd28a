"""Reads a command log from disk after a start, and judges damage in it.

Records written after the last sync may be complete, missing or torn, in any order. So after the last sync the first
damaged record ends the log: it and everything after it is cut off, because no client was told that it is safe. Records
missing at the end of a file leave no trace, so later commands may be present without them. Those are unsafe too, but
harmless, because a command does not need earlier ones to be valid. Damage before the last sync is corruption: the store
is refused and left unchanged. With ``salvage`` only that record is lost.

The marks of the lane (core/store/marks.py) say how far it was synced. The batch numbers of the records say more: in a
log everything before a record of a synced batch is synced.
"""

from collections.abc import Iterator
from typing import NamedTuple

from core.store.disk import Disk
from core.store.errors import StoreDamaged
from core.store.marks import read_marks
from core.store.places import numbered
from core.store.record import HEADER_BYTES, Damaged, SoundRecord, scan


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


class LogFiles:
    """The files of a log: ``<n>.log`` in one folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self.folder = folder
        self.numbers = sorted(number for name in disk.names(folder) if (number := numbered(name, ".log")) is not None)
        self.marks = read_marks(disk, folder)

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


def replay(files: LogFiles, start: RecordPlace | None, *, salvage: bool, problems: list[str]) -> Iterator[Logged]:
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
                yield Logged(number, record.offset + HEADER_BYTES, record.payload)
            elif _ends_log(files, RecordPlace(number, record.offset), record, salvage=salvage, problems=problems):
                return


def _ends_log(files: LogFiles, place: RecordPlace, damaged: Damaged, *, salvage: bool, problems: list[str]) -> bool:
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


def _was_synced(files: LogFiles, place: RecordPlace, damaged: Damaged) -> bool:
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
