"""Reading a command log from the disk after a start, and judging what is damaged in it.

What was written after the last sync may be there, be missing or be in pieces, in any order. So behind the last sync the
first damaged record ends the log: it and whatever stands behind it is cut off, as nobody was told that it is safe. What
is missing at the end of a file leaves no trace; then later commands may be there without it, which are as unsafe, and
harmless: no command needs an earlier one to make sense.
Damage before the last sync is corruption: the store is refused, and left as it is, unless it is to be salvaged; then
that record alone is lost.

How far the lane was synced its marks say (core/store/marks.py). The batches of the records themselves say more: in a
log everything before a record of a synced batch is synced.
"""

from collections.abc import Iterator
from typing import NamedTuple

from core.store.disk import Disk
from core.store.errors import StoreDamaged
from core.store.marks import read_marks
from core.store.places import numbered
from core.store.record import HEADER_BYTES, Damaged, Found, scan


class Place(NamedTuple):
    """Where in the log a record begins."""

    file: int
    offset: int


class Logged(NamedTuple):
    """A command as it was found."""

    file: int
    offset: int
    """Of the payload's first byte."""
    payload: bytes


class LogFiles:
    """The files of a log: ``<n>.log`` in one folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self.folder = folder
        self.numbers = sorted(number for name in disk.names(folder) if (number := numbered(name, ".log")) is not None)
        self.marks = read_marks(disk, folder)

    def path(self, number: int) -> str:
        """Relative to the data folder."""
        return f"{self.folder}/{number}.log"

    def size(self, number: int) -> int:
        """Bytes."""
        return self._disk.size(self.path(number))

    def scan(self, number: int, start: int = 0) -> Iterator[Found | Damaged]:
        """The records of one file."""
        path = self.path(number)
        return scan(lambda offset, length: self._disk.read(path, offset, length), self.size(number), start)

    def cut(self, place: Place) -> None:
        """Remove everything from there on."""
        for number in [number for number in self.numbers if number > place.file]:
            self._disk.unlink(self.path(number))
            self.numbers.remove(number)
        if place.file in self.numbers:
            self._disk.truncate(self.path(place.file), place.offset)

    def sync(self) -> None:
        """What was found here is found again. So a later start may take it for synced, as the marks will then say."""
        for number in self.numbers:
            self._disk.sync(self.path(number))
        self._disk.make_folder(self.folder)
        self._disk.sync_folder(self.folder)


def replay(files: LogFiles, start: Place | None, *, salvage: bool, problems: list[str]) -> Iterator[Logged]:
    """The sound commands from ``start`` on. Adds what is wrong to ``problems``; cuts off what is torn.

    Raises StoreDamaged, before it has changed anything.
    """
    before: int | None = None
    for number in list(files.numbers):
        if start is not None and number < start.file:
            continue
        if before is not None and number != before + 1:
            missing = Damaged(0, 0, None, "the file is missing")
            if _ends_log(files, Place(before + 1, 0), missing, salvage=salvage, problems=problems):
                return
        before = number
        for record in files.scan(number, start.offset if start is not None and number == start.file else 0):
            if isinstance(record, Found):
                yield Logged(number, record.offset + HEADER_BYTES, record.payload)
            elif _ends_log(files, Place(number, record.offset), record, salvage=salvage, problems=problems):
                return


def _ends_log(files: LogFiles, place: Place, damaged: Damaged, *, salvage: bool, problems: list[str]) -> bool:
    """Judge damage. True: it is behind the last sync, and the log was cut off there."""
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


def _was_synced(files: LogFiles, place: Place, damaged: Damaged) -> bool:
    if files.marks.proves(files.path(place.file), damaged):
        return True
    for number in files.numbers:
        if number < place.file:
            continue
        if number > place.file and files.marks.files.get(files.path(number)):
            return True
        for record in files.scan(number, place.offset if number == place.file else 0):
            if isinstance(record, Found) and (record.generation, record.batch) <= files.marks.synced:
                return True
    return False
