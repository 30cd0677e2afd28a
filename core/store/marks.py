"""The marks of a lane: how far it was synced, and which files must exist, each with how many bytes.

A start compares the files with the marks (:func:`lost_files`). A file that is missing, empty, cut short or an older
copy has fewer bytes than were synced. A damaged record below the synced length was synced. So no conclusions from
neighbouring records are needed.

Marks are records in ``<lane>/<n>.marks``. The first record of a file names every file of the lane that outlives the
broker. Each further record names changes: files that were synced, with their length, and files and folders that are
about to be removed. Crash windows:

- A file is added to the marks only after it and its folder were synced. So no power cut can remove a file in the marks.
- Before a file is removed, a mark that announces the removal is synced. So a file that was removed on purpose is not
  reported as missing. That mark is written after the sync of everything before it, which it proves, and not with a
  batch, because a batch may be waiting for the space that the file takes.
- Of the files of marks with a sound first record, the one with the highest number is used. The older file is removed
  when the newer one is synced.

The marks do not cover a sync that was made after the last mark. The next mark is written with the next write batch, or
after half a second without one.

``everywhere`` says that each lane has marks; then a lane without marks has lost its folder.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, NamedTuple

import cbor2

from core.store.disk import Disk
from core.store.errors import StoreDamaged
from core.store.places import QUEUES, TRANSIENT, numbered
from core.store.record import Damaged, RecordKind, SoundRecord, encode, scan

SUFFIX = ".marks"
FIRST_MARKS = "marks.log"
"""The file of marks in format 1, which only says how far the lane was synced."""
PASSING = f"{QUEUES}/t"
"""The prefix of the index paths of queues that do not outlive the broker."""
_ARRAY, _MAP = 4, 5
"""Major types of CBOR [RFC 8949, 3.1]."""
ROOM_BYTES = 65_536
"""Zeros after the first mark of a file, so that on a full disk there is room for marks that announce removals."""
SHOWN_MAX = 5
"""The most files in an error message."""


@dataclass(slots=True)
class Marks:
    """The contents of one lane's marks."""

    number: int = 0
    """The number of the file from which they were read; 0 for none."""
    end: int = 0
    """The offset of the next mark in a file that this start has begun."""
    generation: int = 0
    """The last start that has written marks."""
    synced: tuple[int, int] = (0, 0)
    """Generation and write batch up to which everything is synced; zeros if unknown. A record was certainly synced if
    its ``(generation, batch)`` is not greater, because a start syncs everything that it keeps."""
    files: dict[str, int] = field(default_factory=dict)
    """Every file that must exist, with the minimum of its synced bytes."""
    definitions: int = 0
    """The generation of the definitions at that time."""
    everywhere: bool = False
    before: int | None = None
    """The generation of the start before the one that has begun these marks; None if unknown."""
    there: bool = False
    """Whether the lane has marks that can be read."""
    problems: list[str] = field(default_factory=list)
    """Descriptions of damaged marks."""
    torn: list[str] = field(default_factory=list)
    """Descriptions of torn marks at the end, as a crash leaves them."""

    def proves(self, path: str, damaged: Damaged) -> bool:
        """Return whether the damaged bytes were synced."""
        header = damaged.header
        if header is not None and (header.generation, header.batch) <= self.synced:
            return True
        return damaged.offset < self.files.get(path, 0)


class LostFile(NamedTuple):
    """A file that is missing or has fewer bytes than were synced."""

    path: str
    there: int | None
    """Its bytes; None if the file is missing."""
    synced: int

    def __str__(self) -> str:
        if self.there is None:
            return f"{self.path} is missing, {self.synced} bytes of it were synced"
        return f"{self.path} ends at {self.there}, and {self.synced} bytes of it were synced"


def marks_file(lane: str, number: int) -> str:
    """Return the path of a file of marks."""
    return f"{lane}/{number}{SUFFIX}"


def outlives(path: str) -> bool:
    """Return whether the next start keeps a file. It removes files of queues that do not outlive the broker, and files
    with only transient messages."""
    if path.startswith(QUEUES):
        return not path.startswith(PASSING) and "-" not in path
    return not path.startswith(TRANSIENT) and not path.endswith(SUFFIX)


def mark(
    *,
    synced: tuple[int, int],
    files: Mapping[str, int],
    left: Iterable[str] = (),
    whole: bool = False,
    everywhere: bool = False,
    definitions: int = 0,
) -> bytes:
    """Encode the payload of one mark. ``whole``: it names all files. ``left``: files and folders that may be gone."""
    return cbor2.dumps([*synced, whole, everywhere, definitions, dict(files), list(left)])


def whole_mark(
    *, synced: tuple[int, int], files: Mapping[str, int], everywhere: bool = False, definitions: int = 0
) -> bytes:
    """Encode the same bytes as :func:`mark` for a mark that names all files, name by name: another thread can take the
    interpreter meanwhile."""
    buffer = BytesIO()
    encoder = cbor2.CBOREncoder(buffer)
    encoder.encode_length(_ARRAY, 7)
    for value in (*synced, True, everywhere, definitions):
        encoder.encode(value)
    encoder.encode_length(_MAP, len(files))
    for path, end in files.items():
        encoder.encode(path)
        encoder.encode(end)
    encoder.encode([])
    return buffer.getvalue()


def read_marks(disk: Disk, lane: str) -> Marks:
    """Read the marks of a lane. Raises OSError."""
    names = disk.names(lane)
    numbers = sorted((number for name in names if (number := numbered(name, SUFFIX)) is not None), reverse=True)
    problems: list[str] = []
    for number in numbers:
        marks = _read(disk, lane, number)
        if marks.there:
            marks.problems += problems
            return marks
        problems.append(f"{marks_file(lane, number)} at 0: no sound record, so it is of no use")
    marks = Marks(number=max(numbers, default=0), problems=problems)
    if not numbers and FIRST_MARKS in names:
        marks.synced = _first_marks(disk, f"{lane}/{FIRST_MARKS}")
        marks.generation = marks.synced[0]
        marks.there = True
    return marks


def _records(disk: Disk, path: str) -> Iterator[SoundRecord | Damaged]:
    return scan(lambda offset, length: disk.read(path, offset, length), disk.size(path))


def _read(disk: Disk, lane: str, number: int) -> Marks:
    marks = Marks(number=number)
    path = marks_file(lane, number)
    damaged: list[Damaged] = []
    folders: set[str] = set()
    for found in _records(disk, path):
        if isinstance(found, Damaged) or found.kind is not RecordKind.MARK:
            if not marks.there:
                return marks
            if isinstance(found, Damaged) and not is_room(disk, path, found):
                damaged.append(found)
            continue
        marks.problems += [f"{path} at {one.offset}: {one.why}; what it said is not known" for one in damaged]
        damaged.clear()
        _apply(marks, found.payload, folders)
        marks.generation = found.generation
        marks.there = True
    marks.torn = [f"{path} at {one.offset}: {one.why}" for one in damaged]
    if folders:
        marks.files = {path: size for path, size in marks.files.items() if not within(path, folders)}
    return marks


def is_room(disk: Disk, path: str, damaged: Damaged) -> bool:
    """Return whether this part of a file of marks was never written (all zeros)."""
    if not path.endswith(SUFFIX):
        return False
    data = disk.read(path, damaged.offset, damaged.end - damaged.offset)
    return data == bytes(len(data))  # a hundred times as fast as any(): a start looks at 64 KiB for each lane


def _apply(marks: Marks, payload: bytes, folders: set[str]) -> None:
    values: list[Any] = cbor2.loads(payload)
    generation, batch, whole, everywhere, definitions, files, left = values
    if whole:
        marks.files.clear()
    marks.synced = max(marks.synced, (generation, batch))
    marks.everywhere |= everywhere
    marks.definitions = max(marks.definitions, definitions)
    marks.files.update(files)
    for path in left:
        if marks.files.pop(path, None) is None:
            folders.add(path)


def within(path: str, folders: Container[str]) -> bool:
    """Return whether the path is one of the folders or is below one, at any depth."""
    while path:
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return False


def _first_marks(disk: Disk, path: str) -> tuple[int, int]:
    return max(
        (
            (found.generation, int.from_bytes(found.payload, "little"))
            for found in _records(disk, path)
            if isinstance(found, SoundRecord) and found.kind is RecordKind.SYNCED
        ),
        default=(0, 0),
    )


# --- a start -----------------------------------------------------------------------------------------------------


def lost_files(disk: Disk, marks: Marks) -> list[LostFile]:
    """Return the files that are missing or have fewer bytes than were synced. Raises OSError."""
    lost = []
    for path, synced in marks.files.items():
        if not outlives(path):
            continue
        try:
            there: int | None = disk.size(path)
        except (FileNotFoundError, NotADirectoryError):
            there = None
        if there is None or there < synced:
            lost.append(LostFile(path, there, synced))
    return lost


def compared(disk: Disk, lanes: Mapping[str, Marks], *, generation: int, salvage: bool) -> list[str]:
    """Compare the marks of all lanes with each other and with the files, before anything is changed.

    Returns descriptions of damage and of what is gone. Raises StoreDamaged if something is gone, unless ``salvage``.
    Raises OSError.
    """
    newest = max(marks.generation for marks in lanes.values())
    if newest >= generation:
        raise StoreDamaged(
            f"format.json counts {generation - 1} starts, and start {newest} has written here: it is an older copy. "
            f'Put back the newer one, or write "starts": {newest} into it'
        )
    told = [problem for marks in lanes.values() for problem in marks.problems]
    gone = [str(lost) for marks in lanes.values() for lost in lost_files(disk, marks)]
    if any(marks.everywhere for marks in lanes.values()):
        gone = [
            *(
                f"{lane}/ has no marks that can be read, which say what files there must be"
                for lane, marks in lanes.items()
                if not marks.there
            ),
            *gone,
        ]
    if gone and not salvage:
        told += [torn for marks in lanes.values() for torn in marks.torn]
        shown = "; ".join([*gone, *told][:SHOWN_MAX])
        more = len(told) + len(gone) - SHOWN_MAX
        raise StoreDamaged(
            f"{shown}{f'; and {more} more' if more > 0 else ''}. Put back a copy of the data folder, or set "
            "store.salvage to go on with what is there"
        )
    return told + gone


def begin_marks(disk: Disk, lane: str, marks: Marks, *, generation: int, gone: Container[str]) -> Marks:
    """Begin the marks of a start, synced, in place of those that it found. ``gone``: files and folders that may be
    removed from now on.

    Raises OSError.
    """
    files = {}
    for path, synced in marks.files.items():
        if not within(path, gone) and outlives(path):
            try:
                files[path] = min(synced, disk.size(path))
            except (FileNotFoundError, NotADirectoryError):
                continue
    payload = mark(
        synced=marks.synced,
        files=files,
        whole=True,
        everywhere=marks.everywhere,
        definitions=marks.definitions,
    )
    first = b"".join(encode(RecordKind.MARK, (payload,), generation, 0))
    begun = Marks(
        number=marks.number + 1,
        end=len(first),
        generation=generation,
        synced=marks.synced,
        files=files,
        definitions=marks.definitions,
        everywhere=marks.everywhere,
        before=marks.generation if marks.number else None,
        there=True,
    )
    path = marks_file(lane, begun.number)
    disk.unlink(path)
    disk.write(path, 0, (first, bytes(ROOM_BYTES)))
    disk.sync(path)
    disk.sync_folder(lane)
    for name in disk.names(lane):
        if name == FIRST_MARKS or (name.endswith(SUFFIX) and name != path.rpartition("/")[2]):
            disk.unlink(f"{lane}/{name}")
    return begun


def note_everywhere(disk: Disk, lanes: Mapping[str, Marks]) -> None:
    """Write and sync in the marks of each lane that all lanes have marks. Raises OSError."""
    for lane, marks in lanes.items():
        if not marks.everywhere:
            path = marks_file(lane, marks.number)
            payload = mark(synced=marks.synced, files={}, everywhere=True, definitions=marks.definitions)
            record = b"".join(encode(RecordKind.MARK, (payload,), marks.generation, 0))
            disk.write(path, marks.end, (record,))
            disk.sync(path)
            marks.end += len(record)
            marks.everywhere = True
