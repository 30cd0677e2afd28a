"""The data folder: its owner, its lock, the count of its starts, and its layout.

==========================  ===========================================================================================
name                        what
==========================  ===========================================================================================
``headgate.lock``           locked (flock) by the process that uses the folder; holds the process id of the broker
``format.json``             format of the folder, product, ``starts``, the generation that records carry,
                            ``encodings``, the protocols in whose encodings messages may be stored, and
                            ``definitions``, the last known generation of the definitions
``definitions.db``,         see :mod:`core.store.definitions`
``definitions.copy.db``
``queues/``                 the indexes of classic queues, a folder for each; those of queues that do not outlive the
                            broker, ``t1``, ``t2`` and so on, are removed at each start
``msg_store_persistent/``   bodies that several queues share
``msg_store_transient/``    bodies of messages that do not outlive the broker; emptied at each start
``quorum/``, ``streams/``   the logs of quorum queues and streams
``reserve``                 see :mod:`core.store.reserve`
``classic/``                the marks of the lane of classic messages
==========================  ===========================================================================================

A folder is accepted if it does not exist, is empty, or belongs to Headgate in a known format. Any other folder is
refused and not changed at all. Everything is checked before the first change, and again after the lock is taken.

``starts`` increases with every start and is synced before anything else is changed, so no two starts write records of
the same generation.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from core.message import Origin
from core.store.definitions_found import Chosen, Witness, choose_definitions
from core.store.descriptions import queue_folders
from core.store.errors import StoreRefused, StoreUnavailable, refusal
from core.store.places import PERSISTENT, QUEUES, TRANSIENT
from core.store.reserve import give_up_reserve

FORMAT = 2
"""2: each lane has marks that name its files. A folder of format 1 is accepted, and becomes format 2."""
PRODUCT = "headgate"

LOCK_FILE = "headgate.lock"
FORMAT_FILE = "format.json"
FOLDERS = ("classic", QUEUES, PERSISTENT, TRANSIENT, "quorum", "streams")

_NEW_FORMAT_FILE = "format.json.new"
_BEFORE_FORMAT = frozenset({LOCK_FILE, _NEW_FORMAT_FILE, "lost+found"})
"""Names that a folder may contain and still counts as empty: a first start was interrupted, or it is the root of a
volume."""
_FORMAT_BYTES_MAX = 4096
_SHOWN_MAX = 3
"""The most file names in an error message."""
_ONLY_OURS = 0o700
"""Other users must not read messages and the keys of passwords."""


class _Format(NamedTuple):
    """The contents of ``format.json``."""

    starts: int
    encodings: frozenset[str]
    definitions: int = 0
    """The generation of the definitions at the last start, or at the clean stop after it."""


_NEVER_STARTED = _Format(0, frozenset())


class DataFolder:
    """A data folder that this process has locked. ``generation`` is the number of this start, from 1."""

    def __init__(self, path: Path, *, said: _Format, chosen: Chosen, lock: int) -> None:
        self.path = path
        self.generation = said.starts
        self.chosen = chosen
        """The definitions to start with."""
        self._said = said
        self._lock = lock

    def remember_definitions(self, generation: int) -> None:
        """Record this generation of the definitions in ``format.json``. Raises OSError."""
        if generation > self._said.definitions:
            self._said = self._said._replace(definitions=generation)
            _write_format(self.path, self._said)

    def close(self) -> None:
        """Release the lock."""
        os.ftruncate(self._lock, 0)
        os.close(self._lock)


def open_folder(path: Path, encodings: Iterable[Origin] = tuple(Origin)) -> DataFolder:
    """Lock the folder, count this start, and create or clean its contents. Raises StoreRefused.

    ``encodings`` are those that this broker can decode. They must include all encodings of stored messages.
    """
    known = frozenset(origin.value for origin in encodings)
    with _explained(path):
        if not path.exists():
            path.mkdir(mode=_ONLY_OURS, parents=True)
        _check_encodings(path, _format_so_far(path), known)
        lock = _lock(path, os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            found = _format_so_far(path)
            _check_encodings(path, found, known)
            chosen = choose_definitions(path, witness=_witness(path, found))
            said = _Format(found.starts + 1, found.encodings | known, found.definitions)
            give_up_reserve(path)
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            _write_format(path, said)
            _lay_out(path)
        except BaseException:
            os.close(lock)
            raise
    return DataFolder(path, said=said, chosen=chosen, lock=lock)


@contextmanager
def offline(path: Path) -> Iterator[Path]:
    """Lock a folder against brokers while it is inspected. Changes nothing. Raises StoreRefused."""
    with _explained(path):
        if not path.exists():
            raise StoreRefused(f"data folder {path} does not exist; name the folder of a broker")
        if not _format_so_far(path).starts:
            raise StoreRefused(f"data folder {path} is empty: no broker has used it; name the folder of a broker")
        try:
            lock = _lock(path, os.open(path / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a copy without its lock file has no broker either
    try:
        yield path
    finally:
        os.close(lock)


# --- whose it is -------------------------------------------------------------------------------------------------


def _format_so_far(path: Path) -> _Format:
    """Read the format of a folder; zero starts for an empty one. Raises StoreRefused if the folder must not be used,
    OSError."""
    if not path.is_dir():
        raise StoreRefused(f"data folder {path} is not a folder; name another with data.folder or --data")
    names = sorted(os.listdir(path))
    if FORMAT_FILE not in names:
        others = [name for name in names if name not in _BEFORE_FORMAT]
        if others:
            shown = ", ".join(others[:_SHOWN_MAX]) + (" and more" if len(others) > _SHOWN_MAX else "")
            raise StoreRefused(
                f"data folder {path} is not a folder of Headgate: there is no {FORMAT_FILE}, but {shown}; "
                "name another with data.folder or --data"
            )
        return _NEVER_STARTED
    with (path / FORMAT_FILE).open("rb") as file:
        return _format(path, file.read(_FORMAT_BYTES_MAX))


def _format(path: Path, text: bytes) -> _Format:
    """Parse ``format.json``. Raises StoreRefused unless it is Headgate's and of a known format."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("product") != PRODUCT:
        raise StoreRefused(
            f"data folder {path} is not a folder of Headgate: its {FORMAT_FILE} says {text[:60]!r}; "
            "name another with data.folder or --data"
        )
    number, starts = found.get("format"), found.get("starts")
    if type(number) is not int or type(starts) is not int or starts < 1:
        raise StoreRefused(f"data folder {path}: {FORMAT_FILE} is damaged, it says {text[:60]!r}; put back a copy")
    if number > FORMAT:
        raise StoreRefused(
            f"data folder {path} has format {number}, and this version of Headgate knows formats up to {FORMAT}; "
            "start the version that wrote it, or name another folder with data.folder or --data"
        )
    encodings = found.get("encodings", [Origin.AMQP10.value])  # without the key: the only encoding at that time
    definitions = found.get("definitions", 0)
    return _Format(starts, frozenset(map(str, encodings)), definitions if type(definitions) is int else 0)


def _witness(path: Path, found: _Format) -> Witness | None:
    """Return the witness with the highest generation of the definitions; None if there is no evidence of any."""
    witnesses = [
        Witness(folder.description.generation, str(folder.path))
        for folder in queue_folders(path)
        if folder.description is not None
    ]
    if found.definitions:
        witnesses.append(Witness(found.definitions, str(path / FORMAT_FILE)))
    if witnesses:
        return max(witnesses)
    for folder in (QUEUES, "quorum", "streams"):
        for name in _names(path / folder):
            if name.isdigit() or (name.endswith(".log") and name != "marks.log"):
                return Witness(0, f"{path / folder / name}")
    return None


def definitions_witness(path: Path) -> Witness | None:
    """Return the witness with the highest generation for a data folder of Headgate. Raises StoreRefused, OSError."""
    return _witness(path, _format_so_far(path))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _check_encodings(path: Path, found: _Format, known: frozenset[str]) -> None:
    """Raises StoreRefused if there may be messages in an encoding that this broker does not know."""
    if not found.encodings <= known:
        raise StoreRefused(
            f"data folder {path} may hold messages in the encoding of {' and '.join(sorted(found.encodings - known))},"
            f" and this broker knows {' and '.join(sorted(known))} only; start it with `headgate serve`, or name"
            " another folder with data.folder or --data"
        )


def _lock(path: Path, lock: int) -> int:
    """Lock the folder through this descriptor. Raises StoreRefused if another process holds the lock."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(lock, 32, 0).decode(errors="replace").strip()
        os.close(lock)
        raise StoreUnavailable(
            f"data folder {path} is in use by {f'process {owner}' if owner else 'another process'}; "
            "end that one first, or name another folder with data.folder or --data"
        ) from None
    except BaseException:
        os.close(lock)
        raise
    return lock


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn an error of the system into a refusal that names the folder."""
    try:
        yield
    except OSError as error:
        about = f"data folder {path}"
        if error.filename is not None and Path(os.fsdecode(error.filename)) != path:
            about += f": {os.path.relpath(os.fsdecode(error.filename), path)}"
        remedy = (
            "make room on its disk"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "check who may read and write it, or name another folder with data.folder or --data"
        )
        raise refusal(error, f"{about} cannot be used: {error.strerror}; {remedy}") from None


# --- what is in it -----------------------------------------------------------------------------------------------


def _write_format(path: Path, now: _Format) -> None:
    """Write ``format.json`` atomically, also if the power fails."""
    said = {"format": FORMAT, "product": PRODUCT, "starts": now.starts, "encodings": sorted(now.encodings)}
    text = json.dumps({**said, "definitions": now.definitions}) + "\n"
    with (path / _NEW_FORMAT_FILE).open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path / _NEW_FORMAT_FILE, path / FORMAT_FILE)
    sync_folder(path)


def _lay_out(path: Path) -> None:
    if (path / TRANSIENT).exists():
        shutil.rmtree(path / TRANSIENT)
    for name in FOLDERS:
        (path / name).mkdir(mode=_ONLY_OURS, exist_ok=True)
    for queue in os.listdir(path / QUEUES):
        if queue.startswith("t"):
            shutil.rmtree(path / QUEUES / queue)
    sync_folder(path)


def sync_folder(path: Path) -> None:
    """Have the names in a folder on disk. Raises OSError."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
