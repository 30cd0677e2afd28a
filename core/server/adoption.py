"""What an operator can do with data that a start has set aside, and with definitions that no file proves.

Every function here needs a data folder that no broker uses and that the caller keeps locked. Each step leaves a folder
on which a broker starts. The order of the steps matters: data that has come back and is not defined yet would be set
aside once more.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from core.engine.quorum.commands import rekeyed
from core.errors import PreconditionFailed
from core.interface import QueueDeclaration
from core.store.definitions import COPY_FILE, DEFAULT_HOST, DEFINITIONS_FILE, open_definitions
from core.store.descriptions import Description, folder_of, queue_folders, write_description
from core.store.disk import FolderDisk
from core.store.errors import StoreRefused
from core.store.folder import definitions_witness, sync_folder
from core.store.lost import BODIES, COMMANDS, DATA, LOST_FOLDER, Lost, lost_entries
from core.store.message_store import NO_BODY, split_body
from core.store.places import CHECKPOINT, PERSISTENT, numbered
from core.store.rebuilding import rebuilt_image
from core.store.record import RecordKind, SoundRecord, encode, scan
from core.store.sealed_file import judged, write_image
from core.store.store import marked_definitions
from core.virtual_hosts import shown_name

OPEN_FILES = 8
"""Open at the same time at most: files are read one after the other."""


def chosen_entry(root: Path, name: str) -> Lost:
    """Return the entry with this folder name or queue name. Raises StoreRefused unless there is exactly one."""
    entries = list(lost_entries(root))
    found = [entry for entry in entries if entry.path.name == name] or [
        entry for entry in entries if name in (entry.name, entry.shown)
    ]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(entry.path.name for entry in found or entries) or "nothing"
    why = "several entries are of a queue" if found else "there is no entry, and no queue,"
    raise StoreRefused(f"{why} '{name}' in {root / LOST_FOLDER}; name one of its folders: {shown}")


def adopt(root: Path, entry: Lost, *, name: str | None, new_identity: Callable[[], str]) -> tuple[str, str]:
    """Define the queue of an entry again, with its data, and return its virtual host and its name. ``name`` gives it
    another name than it had. A virtual host that there is not any more is made again.

    Raises StoreRefused, StoreDamaged, OSError.
    """
    described = None if entry.description is None else entry.description.queue
    if described is None and name is None:
        raise StoreRefused(f"{entry.path} does not say what its queue was called; give it a name with --as")
    if described is None:
        arguments = {} if entry.kind == "classic" else {"x-queue-type": entry.kind}
        declaration, identity = QueueDeclaration(name=name or "", arguments=arguments), new_identity()
    else:
        declaration = replace(described.declaration, name=name or described.declaration.name)
        identity = described.identity
    host = entry.virtual_host or DEFAULT_HOST
    with closing(open_definitions(root, new_identity=new_identity, host=host)) as database:
        taken = [queue for one in database.hosts() for queue in database.for_host(one).load().queues]
        if declaration.name in {queue.declaration.name for queue in database.load().queues}:
            raise StoreRefused(f"there is a queue '{declaration.name}' already; give this one another name with --as")
        if identity in {queue.identity for queue in taken}:
            identity = new_identity()
        number = database.last_number + 1
        _bring_back(root, entry, number)
        try:
            made = database.add_queue(declaration, identity)
        except PreconditionFailed as failed:
            raise StoreRefused(str(failed)) from None
        assert made == number, "another program declares queues in a locked folder"
        kept = database.load().queues[-1]
        write_description(root, Description(kept, host, database.generation), start=0)
    shutil.rmtree(entry.path)
    return host, declaration.name


def discard(entry: Lost) -> None:
    """Delete an entry for good. Raises OSError."""
    shutil.rmtree(entry.path)


def rebuild_definitions(root: Path) -> Iterator[str]:
    """Define the queues again from the descriptions in their folders, beside those that a file of definitions proves.
    Yields lines for the operator: what was done and what was not. Raises StoreRefused, OSError."""
    both = [judged(root / name) for name in (DEFINITIONS_FILE, COPY_FILE)]
    proven = [file for file in both if file.seal is not None]
    best = max(proven, key=lambda file: file.seal.generation if file.seal else 0, default=None)
    folders = list(queue_folders(root))
    described = [folder.description for folder in folders if folder.description is not None]
    numbers = max((folder.number for folder in folders), default=0)
    witness = definitions_witness(root)
    with closing(FolderDisk(root, OPEN_FILES, read_only=True)) as disk:
        marked = marked_definitions(disk)
    image, added = rebuilt_image(
        None if best is None else best.image,
        described,
        generation=marked if witness is None else max(marked, witness.generation),
        last_number=numbers,
    )
    aside = _moved_aside(root)
    for name in (DEFINITIONS_FILE, COPY_FILE):
        write_image(root / name, image)
    base = "nothing, as no file of definitions is proven" if best is None else f"{best.path.name}, which is proven"
    yield f"made anew from {base}; the files that were there are in {aside}"
    for queue, host in added:
        yield f"queue '{shown_name(host, queue.declaration.name)}' came back from its folder"
    yield from (
        f"{folder.path.relative_to(root)} does not say what its queue was: the next start sets it aside"
        for folder in folders
        if folder.description is None
    )
    yield "exchanges, bindings, policies and users cannot be rebuilt from folders: import them from a definitions file"


# --- inside ------------------------------------------------------------------------------------------------------


def _moved_aside(root: Path) -> Path:
    (root / LOST_FOLDER).mkdir(mode=0o700, exist_ok=True)
    count = 1
    while (aside := root / LOST_FOLDER / f"definitions-{count}").exists():
        count += 1
    aside.mkdir(mode=0o700)
    for name in (DEFINITIONS_FILE, COPY_FILE):
        with suppress(FileNotFoundError):
            shutil.copy2(root / name, aside / name)
    return aside


def _bring_back(root: Path, entry: Lost, number: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(root / CHECKPOINT)  # the checkpoint does not know this queue, so the next start must read everything
    if entry.kind == "classic":
        _bring_back_bodies(root, entry.path / BODIES)
    if entry.kind == "quorum":
        _bring_back_commands(root, entry.path / COMMANDS, number)
    elif (entry.path / DATA).exists():
        target = folder_of(root, entry.kind, number)
        if target.exists():
            raise StoreRefused(f"{target} is there already; start the broker once: it sets aside what is not defined")
        os.rename(entry.path / DATA, target)
        sync_folder(target.parent)


def _bring_back_bodies(root: Path, bodies: Path) -> None:
    """Append the bodies that the message store had set aside to a new file. A start drops those that no message refers
    to."""
    live = {body_id for file in (root / PERSISTENT).glob("*.rdq") for body_id, _ in _bodies(file)}
    numbers = [number for name in os.listdir(root / PERSISTENT) if (number := numbered(name, ".rdq")) is not None]
    target = root / PERSISTENT / f"{max(numbers, default=-1) + 1}.rdq"
    new = target.with_suffix(".new")
    with new.open("wb") as file:
        for kept in sorted(bodies.glob("*.rdq")):
            for body_id, payload in _bodies(kept):
                if body_id not in live:
                    live.add(body_id)
                    file.writelines(encode(RecordKind.BODY, [payload], 0, 0))
        file.flush()
        os.fsync(file.fileno())
        empty = not file.tell()
    if empty:
        os.unlink(new)
    else:
        os.rename(new, target)
        sync_folder(target.parent)


def _bodies(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the id and the payload of each sound body in a file of the message store."""
    for record in _records(path):
        if record.kind is RecordKind.BODY:
            body_id, _ = split_body(record.payload)
            if body_id != NO_BODY:
                yield body_id, record.payload


def _bring_back_commands(root: Path, commands: Path, number: int) -> None:
    """Append the commands of the queue with this number to the command log, in a file behind the last."""
    folder = root / "quorum"
    numbers = [found for name in os.listdir(folder) if (found := numbered(name, ".log")) is not None]
    target = folder / f"{max(numbers, default=0) + 1}.log"
    new = target.with_suffix(".new")
    with new.open("wb") as file:
        for record in _records(commands):
            file.writelines(encode(RecordKind.COMMAND, [rekeyed(record.payload, number)], 0, 0))
        file.flush()
        os.fsync(file.fileno())
    os.rename(new, target)
    sync_folder(folder)


def _records(path: Path) -> Iterator[SoundRecord]:
    with path.open("rb") as file:

        def read(offset: int, length: int) -> bytes:
            return os.pread(file.fileno(), length, offset)

        for record in scan(read, path.stat().st_size):
            if isinstance(record, SoundRecord):
                yield record
