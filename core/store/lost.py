"""``lost+found`` in the data folder: data of queues that are not in the definitions, moved there by a start.

Each entry is a folder ``<type>-<number>``. ``data`` is the queue's folder, unchanged. ``bodies`` has the files of the
message store at that time, as hard links if the file system supports them. ``commands.log`` has the commands of a
quorum queue from the command log, as records. Only a command of the operator removes anything here.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from core.store.descriptions import Description, read_description
from core.store.errors import StoreRefused
from core.store.folder import sync_folder
from core.store.places import PERSISTENT
from core.store.record import RecordKind, encode
from core.virtual_hosts import shown_name

LOST_FOLDER = "lost+found"
DATA, BODIES, COMMANDS = "data", "bodies", "commands.log"


class Lost(NamedTuple):
    """One entry of ``lost+found``."""

    path: Path
    kind: str
    number: int
    description: Description | None
    bytes: int

    @property
    def name(self) -> str:
        """The queue's name, from the description in its folder; empty if unknown."""
        return "" if self.description is None else self.description.queue.declaration.name

    @property
    def virtual_host(self) -> str | None:
        """The virtual host of the queue, from the same description; None if unknown."""
        return None if self.description is None else self.description.host

    @property
    def shown(self) -> str:
        """The queue's name, with that of its virtual host unless that is the default one; empty if unknown."""
        return "" if self.virtual_host is None else shown_name(self.virtual_host, self.name)


def lost_entries(root: Path) -> Iterator[Lost]:
    """Iterate over the entries. Raises OSError."""
    try:
        names = sorted(os.listdir(root / LOST_FOLDER))
    except FileNotFoundError:
        return
    for name in names:
        kind, _, number = name.partition("-")
        path = root / LOST_FOLDER / name
        if kind in ("classic", "quorum", "stream") and number.split("-")[0].isdigit():
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            yield Lost(path, kind, int(number.split("-")[0]), read_description(path / DATA), size)


def set_aside(root: Path, kind: str, number: int, folder: Path, commands: Iterable[bytes] = ()) -> Path:
    """Move a queue's folder, if it exists, to a new entry, with the other data of the queue.

    Raises StoreRefused if that is not possible; no data is lost then.
    """
    try:
        entry = _new_entry(root, f"{kind}-{number}")
        if kind == "classic":
            _link_bodies(root, entry)
        if kind == "quorum":
            with (entry / COMMANDS).open("wb") as file:
                for payload in commands:
                    file.writelines(encode(RecordKind.COMMAND, [payload], 0, 0))
                file.flush()
                os.fsync(file.fileno())
        if folder.exists():
            os.rename(folder, entry / DATA)
        for changed in (entry, entry.parent, folder.parent, root):
            if changed.exists():
                sync_folder(changed)
    except OSError as error:
        raise StoreRefused(
            f"there is data of a queue of type {kind} with the number {number} that no definition knows, and it cannot "
            f"be set aside in {root / LOST_FOLDER}: {error.strerror}; let the user of the broker write there (chown), "
            "or move the data away"
        ) from None
    return entry


def _new_entry(root: Path, name: str) -> Path:
    """Create a new folder for an entry. Raises OSError."""
    (root / LOST_FOLDER).mkdir(mode=0o700, exist_ok=True)
    entry, count = root / LOST_FOLDER / name, 1
    while entry.exists():
        count += 1
        entry = root / LOST_FOLDER / f"{name}-{count}"
    entry.mkdir(mode=0o700)
    return entry


def _link_bodies(root: Path, entry: Path) -> None:
    """Link all files of the message store: any of them may have bodies of the queue, and the store drops bodies without
    a reference from a known queue."""
    (entry / BODIES).mkdir()
    for file in sorted((root / PERSISTENT).glob("*.rdq")):
        try:
            os.link(file, entry / BODIES / file.name)
        except OSError:  # a file system without links
            shutil.copyfile(file, entry / BODIES / file.name)
    sync_folder(entry / BODIES)
