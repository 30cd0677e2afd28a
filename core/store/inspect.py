"""Inspects a store that no broker uses: every record of every file, and the meaning of damage.

The meaning of damage depends on how far its lane was synced (:mod:`core.store.marks`):

- A record of a synced batch was promised to survive a power cut. If it is damaged, it is *corrupt*: a broker refuses to
  start unless ``store.salvage`` is set, and then loses only that record.
- Damage before a sound record of a synced batch is also corrupt, even if no header is readable.
- Other damage is *torn*, by a power cut or a crash. It was not confirmed to any client, and the next start drops it.
- A damaged description of a queue counts as torn, because the next start rewrites it from the definitions.

Nothing is changed. Memory: the needs of a scan, independent of the size of the store, and the definitions.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from core.store.definition_rows import Definitions, loaded
from core.store.definitions import host_names, settings_of_hosts
from core.store.definitions_found import choose_definitions
from core.store.descriptions import DESCRIPTION_FILE
from core.store.disk import Disk
from core.store.errors import StoreDamaged
from core.store.marks import Marks, is_room, lost_files, read_marks
from core.store.record import Damaged, RecordKind, SoundRecord, scan
from core.store.sealed_file import opened_image

LANE_FOLDERS: Mapping[str, Sequence[str]] = {
    "classic": ("classic", "queues", "msg_store_persistent", "msg_store_transient"),
    "quorum": ("quorum",),
    "streams": ("streams",),
}
"""The folders that each lane writes to."""


class EntryVerdict(Enum):
    """The judgement of an entry."""

    SOUND = "sound"
    TORN = "torn"
    CORRUPT = "corrupt"


class Entry(NamedTuple):
    """A record, or damage in its place."""

    path: str
    """Relative to the data folder."""
    offset: int
    end: int
    kind: str | None
    """None if the header is damaged too, as for the next two fields."""
    generation: int | None
    batch: int | None
    verdict: EntryVerdict
    meaning: str
    """Empty for a sound record."""

    def __str__(self) -> str:
        what = self.kind or "no header"
        origin = "" if self.batch is None else f" start {self.generation} batch {self.batch}"
        meaning = f" {self.verdict.value}: {self.meaning}" if self.meaning else ""
        return f"{self.path} at {self.offset}: {what},{origin} {self.end - self.offset} bytes{meaning}"


def entries(disk: Disk) -> Iterator[Entry]:
    """Iterate over all records of the store, file by file. Raises OSError."""
    for lane, folders in LANE_FOLDERS.items():
        marks = read_marks(disk, lane)
        for folder in folders:
            for path in _files(disk, folder):
                yield from entries_of_file(disk, path, marks)
        for lost in lost_files(disk, marks):
            end = lost.there or 0
            meaning = "it is missing" if lost.there is None else f"it ends at {end}"
            yield Entry(
                lost.path, end, lost.synced, None, None, None, EntryVerdict.CORRUPT,
                f"{meaning}, and it was synced; a broker starts only with store.salvage, and without it",
            )  # fmt: skip


def entries_of_file(disk: Disk, path: str, marks: Marks) -> Iterator[Entry]:
    """Iterate over all records of a file, in order. A file with damage is read twice. Raises OSError."""
    size = disk.size(path)
    synced_end: int | None = None
    for found in scan(lambda offset, length: disk.read(path, offset, length), size):
        if isinstance(found, SoundRecord):
            yield Entry(
                path, found.offset, found.end, found.kind.name, found.generation, found.batch, EntryVerdict.SOUND, ""
            )
            continue
        if is_room(disk, path, found):
            continue
        if synced_end is None:
            synced_end = _synced_end(disk, path, found.end, size, marks)
        yield _judged(path, found, synced_end, marks)


def _synced_end(disk: Disk, path: str, start: int, size: int, marks: Marks) -> int:
    """Return the end of the last sound record of a synced batch; 0 if there is none from ``start`` on."""
    if start >= size:
        return 0
    synced = marks.synced
    ends = (
        found.end
        for found in scan(lambda offset, length: disk.read(path, offset, length), size, start)
        if isinstance(found, SoundRecord) and (found.generation, found.batch) <= synced
    )
    return max(ends, default=0)


def _judged(path: str, damaged: Damaged, synced_end: int, marks: Marks) -> Entry:
    header = damaged.header
    was_synced = damaged.offset < synced_end or marks.proves(path, damaged)
    if path.endswith(f"/{DESCRIPTION_FILE}"):
        verdict = EntryVerdict.TORN
        meaning = f"{damaged.why}; the next start writes it anew from the definitions"
    elif was_synced:
        verdict = EntryVerdict.CORRUPT
        meaning = f"{damaged.why}, and it was synced; a broker starts only with store.salvage, and without it"
    else:
        verdict = EntryVerdict.TORN
        meaning = f"{damaged.why}, and it was not synced; the next start drops it"
    kind, generation, batch = (None, None, None) if header is None else (header.kind, header.generation, header.batch)
    name = None if kind is None else _kind_name(kind)
    return Entry(path, damaged.offset, damaged.end, name, generation, batch, verdict, meaning)


def _files(disk: Disk, folder: str) -> Iterator[str]:
    """Iterate over the files below a folder, at any depth."""
    for name in disk.names(folder):
        path = f"{folder}/{name}"
        try:
            disk.names(path)
        except NotADirectoryError:
            yield path
        else:
            yield from _files(disk, path)


def _kind_name(kind: int) -> str:
    return RecordKind(kind).name if kind in set(RecordKind) else f"kind {kind}"


# --- definitions -------------------------------------------------------------------------------------------------


class ReadDefinitions(NamedTuple):
    """The definitions of a data folder."""

    hosts: Mapping[str, Definitions]
    """Those of each virtual host, by its name."""
    settings: Mapping[str, Mapping[str, object]]
    """The settings of the virtual hosts that have any."""
    problems: Sequence[str]
    """What is wrong with the files."""


def read_definitions(folder: Path) -> ReadDefinitions:
    """Read the definitions of a data folder. Raises StoreRefused."""
    try:
        chosen = choose_definitions(folder, witness=None)
    except StoreDamaged as damaged:
        return ReadDefinitions({}, {}, [str(damaged)])
    problems = [] if chosen.is_new or chosen.upgraded_from else [f"{path.name}: {why}" for path, why in chosen.anew]
    if not chosen.image:
        return ReadDefinitions({}, {}, problems)
    with closing(opened_image(chosen.image)) as connection:
        hosts = {name: loaded(connection, name) for name in host_names(connection)}
        return ReadDefinitions(hosts, settings_of_hosts(connection), problems)
