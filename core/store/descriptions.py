"""The description in each queue's folder, from which definitions can be rebuilt.

One record of kind ``DESCRIPTION`` in a file of its own below ``queues/<n>``, ``quorum/queues/<n>`` or ``streams/<n>``.
It is written some time after the queue was declared (:mod:`core.server.describing`), after the definitions, and not
synced; a start writes missing ones. So an existing description is a witness: the definitions had reached at least its
generation.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import cbor2

from core.interface import QueueDeclaration
from core.store.definitions import StoredQueue
from core.store.errors import StoreDamaged
from core.store.places import QUEUES
from core.store.record import RecordKind, SoundRecord, encode, scan

DESCRIPTION_FILE = "description"
FOLDERS_OF_KINDS = {"classic": QUEUES, "quorum": "quorum/queues", "stream": "streams"}
"""The parent folder of the queues of each type."""
_BYTES_MAX = 1 << 20


class Description(NamedTuple):
    """The contents of a description."""

    queue: StoredQueue
    host: str
    generation: int
    """The generation of the definitions when the queue was declared."""


class QueueFolder(NamedTuple):
    """The folder of a queue that may or may not be in the definitions."""

    kind: str
    number: int
    path: Path
    description: Description | None
    """None if it is missing or damaged."""


def queue_kind(declaration: QueueDeclaration) -> str:
    """Return the type of a queue, which determines its folder."""
    return str(declaration.arguments.get("x-queue-type", "classic"))


def folder_of(root: Path, kind: str, number: int) -> Path:
    """Return the folder of a queue."""
    return root / FOLDERS_OF_KINDS[kind] / str(number)


def queue_folders(root: Path) -> Iterator[QueueFolder]:
    """Iterate over all folders of queues that outlive the broker. Raises OSError."""
    for kind, where in FOLDERS_OF_KINDS.items():
        try:
            names = sorted(os.listdir(root / where))
        except FileNotFoundError:
            continue
        for name in names:
            if name.isascii() and name.isdigit():
                path = root / where / name
                yield QueueFolder(kind, int(name), path, read_description(path))


def check_identities(folders: Sequence[QueueFolder], queues: Sequence[StoredQueue]) -> None:
    """Raises StoreDamaged if the identity in a folder's description is not the queue's identity in the definitions."""
    known = {(queue_kind(queue.declaration), queue.id): queue for queue in queues}
    for folder in folders:
        queue = known.get((folder.kind, folder.number))
        said = None if folder.description is None else folder.description.queue
        if queue is not None and said is not None and said.identity != queue.identity:
            raise StoreDamaged(
                f"{folder.path} has the data of queue '{said.declaration.name}' with the identity {said.identity}, and "
                f"the definitions say that it is of '{queue.declaration.name}' with {queue.identity}: they are of "
                "another data folder; put back the ones that belong here"
            )


def read_description(folder: Path) -> Description | None:
    """Read the description in a folder; None if it is missing or damaged. Raises OSError."""
    try:
        with (folder / DESCRIPTION_FILE).open("rb") as file:
            data = file.read(_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return None
    for record in scan(lambda offset, length: data[offset : offset + length], len(data)):
        if isinstance(record, SoundRecord) and record.kind is RecordKind.DESCRIPTION:
            said = cbor2.loads(record.payload)
            declaration = QueueDeclaration(
                name=said["name"], auto_delete=said["auto_delete"], arguments=said["arguments"]
            )
            queue = StoredQueue(said["number"], declaration, said["identity"])
            return Description(queue, said["host"], said["generation"])
    return None


def write_description(root: Path, description: Description, *, start: int) -> None:
    """Write the description into the folder of its queue. ``start``: the number of this start. If the disk refuses it,
    the next start writes it."""
    queue = description.queue
    said = {
        "number": queue.id,
        "name": queue.declaration.name,
        "host": description.host,
        "identity": queue.identity,
        "auto_delete": queue.declaration.auto_delete,
        "arguments": dict(queue.declaration.arguments),
        "generation": description.generation,
    }
    record = b"".join(encode(RecordKind.DESCRIPTION, [cbor2.dumps(said)], start, 0))
    # Plain system calls on one text: with pathlib and file objects a declaration takes as long again.
    parent = f"{root}/{FOLDERS_OF_KINDS[queue_kind(queue.declaration)]}"
    folder = f"{parent}/{queue.id}"
    with suppress(OSError):
        with suppress(FileExistsError):
            _make_folder(folder, parent)
        file = os.open(f"{folder}/{DESCRIPTION_FILE}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            os.write(file, record)
        finally:
            os.close(file)


def remove_description(root: Path, queue: StoredQueue) -> None:
    """Remove the description of a deleted queue, and its folder if nothing else is in it."""
    folder = folder_of(root, queue_kind(queue.declaration), queue.id)
    with suppress(OSError):
        os.unlink(folder / DESCRIPTION_FILE)
    with suppress(OSError):
        os.rmdir(folder)


def _make_folder(folder: str, parent: str) -> None:
    """Make the folder of a queue; the folder of its type is mostly there. Raises OSError."""
    try:
        os.mkdir(folder)
    except FileNotFoundError:
        os.mkdir(parent)
        os.mkdir(folder)
