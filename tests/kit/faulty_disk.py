"""Disks for tests: one in memory that knows what a power cut would leave, and one that fails when a test says so.

:class:`MemoryDisk` keeps two states. Readers see the content of the operating system's cache. Behind it is the content
of the platters: the bytes that were synced, and names as of the last sync of their folder. Between the two lies a list
of changes in their order; :meth:`MemoryDisk.power_cut` chooses at random what became of each.

:class:`FaultyDisk` stands before another disk and counts its calls.
"""

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from core.store.disk import Disk

SECTOR_BYTES = 512
"""The size of a sector, which a drive writes whole or not at all."""


@dataclass(slots=True, eq=False)
class _File:
    """One file, whatever names it has."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Changes that are not synced: offset and the bytes written there, or None where the file was cut off at the
    offset."""

    def change(self, offset: int, data: bytes | None) -> None:
        _apply(self.content, offset, data)
        self.changes.append((offset, data))

    def sync(self) -> None:
        for offset, data in self.changes:
            _apply(self.durable, offset, data)
        self.changes.clear()

    def after_power_cut(self, rng: Random) -> "_File":
        """The content after a power cut: each change that was not synced is there, is missing, or is there in part."""
        content = bytearray(self.durable)
        for offset, data in self.changes:
            fate = rng.choice(("kept", "lost", "lost", "torn", "sectors", "length only"))
            if fate == "kept" or (data is None and fate != "lost"):
                _apply(content, offset, data)
            elif data is None or fate == "lost":
                continue
            elif fate == "torn":
                _apply(content, offset, data[: rng.randrange(len(data) + 1)])
            elif fate == "sectors":
                _apply_sectors(content, offset, data, rng)
            elif offset + len(data) > len(content):
                _apply(content, offset + len(data) - 1, b"\0")
        return _File(bytearray(content), content)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        if offset < len(content):
            del content[offset:]
        else:
            content.extend(bytes(offset - len(content)))
    elif data:
        if offset > len(content):
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data


def _apply_sectors(content: bytearray, offset: int, data: bytes, rng: Random) -> None:
    """Apply a random part of a write's sectors. The file becomes as long as the last applied sector makes it."""
    start = 0
    while start < len(data):
        stop = min(len(data), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
        if rng.random() < 0.5:
            _apply(content, offset + start, data[start:stop])
        start = stop


@dataclass(slots=True)
class _Renaming:
    """A change of names, durable when its folder is synced. A ``file`` of None means that the name is removed."""

    number: int
    """Its place in the order of all."""
    names: dict[str, _File | None]


class MemoryDisk:
    """A disk in memory, for any number of threads.

    A power cut never removes a folder; it may remove the files in it.
    """

    def __init__(self, free_bytes: int = 2**40) -> None:
        self._lock = threading.RLock()
        self._files: dict[str, _File] = {}
        self._folders: set[str] = {""}
        self._durable_files: dict[str, _File] = {}
        self._namings: dict[str, list[_Renaming]] = {}
        """By folder, so that the sync of one folder does not walk over what waits for the syncs of others."""
        self._last_naming = 0
        self._free = free_bytes

    # --- the protocol Disk

    def write(self, path: str, offset: int, chunks: Sequence[bytes]) -> None:
        """See Disk. One write, which a power cut may tear at any byte."""
        data = b"".join(chunks)
        with self._lock:
            file = self._files.get(path)
            if file is None:
                self.make_folder(path.rpartition("/")[0])
                file = self._files[path] = _File()
                self._name({path: file})
            self._free -= max(0, offset + len(data) - len(file.content))
            file.change(offset, data)

    def read(self, path: str, offset: int, length: int) -> bytes:
        """See Disk."""
        with self._lock:
            return bytes(self._file(path).content[offset : offset + length])

    def size(self, path: str) -> int:
        """See Disk."""
        with self._lock:
            return len(self._file(path).content)

    def sync(self, path: str) -> None:
        """See Disk. The file's name is not synced by this."""
        with self._lock:
            self._file(path).sync()

    def sync_folder(self, folder: str) -> None:
        """See Disk."""
        with self._lock:
            if folder not in self._folders:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
            for naming in self._namings.pop(folder, ()):
                _rename(self._durable_files, naming.names)

    def truncate(self, path: str, size: int) -> None:
        """See Disk."""
        with self._lock:
            file = self._file(path)
            self._free += len(file.content) - size
            file.change(size, None)

    def rename(self, old: str, new: str) -> None:
        """See Disk. The change is durable when the folder of the new name is synced."""
        with self._lock:
            file = self._file(old)
            self._free += len(self._files[new].content) if new in self._files else 0
            _rename(self._files, {old: None, new: file})
            self._name({new: file, old: None})

    def unlink(self, path: str) -> None:
        """See Disk."""
        with self._lock:
            file = self._files.pop(path, None)
            if file is not None:
                self._free += len(file.content)
                self._name({path: None})

    def names(self, folder: str) -> list[str]:
        """See Disk."""
        inside = folder + "/" if folder else ""
        with self._lock:
            paths = [*self._files, *self._folders]
        return sorted({path[len(inside) :].split("/")[0] for path in paths if path.startswith(inside)} - {""})

    def make_folder(self, folder: str) -> None:
        """See Disk."""
        with self._lock:
            while folder:
                self._folders.add(folder)
                folder = folder.rpartition("/")[0]

    def remove_folder(self, folder: str) -> None:
        """See Disk."""
        inside = folder + "/"
        with self._lock:
            for path in [path for path in self._files if path.startswith(inside)]:
                self.unlink(path)
            self._folders = {name for name in self._folders if not (name + "/").startswith(inside)}

    def free_bytes(self) -> int:
        """See Disk."""
        return self._free

    def will_need(self, path: str, offset: int, length: int) -> None:
        """See Disk."""

    def check(self) -> None:
        """See Disk. The data folder of this disk never goes away."""

    # --- for tests

    @property
    def paths(self) -> list[str]:
        """The paths of all files."""
        return sorted(self._files)

    def is_synced(self, path: str) -> bool:
        """True when a power cut would leave the file as it is, under this name."""
        with self._lock:
            file = self._file(path)
            return not file.changes and self._durable_files.get(path) is file

    def sync_everything(self) -> None:
        """Sync every file and name, as an orderly shutdown of the machine does."""
        with self._lock:
            for file in self._files.values():
                file.sync()
            self._durable_files = dict(self._files)
            self._namings.clear()

    def flip_bit(self, path: str, bit: int) -> None:
        """Flip one bit of the file, on the platters too. Bits are counted from the file's beginning, the lowest bit of
        a byte first."""
        with self._lock:
            file = self._file(path)
            file.sync()
            file.content[bit // 8] ^= 1 << bit % 8
            file.durable[bit // 8] ^= 1 << bit % 8

    def power_cut(self, rng: Random) -> "MemoryDisk":
        """Return a disk as a start could find it after a power cut; this one stays as it is.

        In each folder the changes of names are kept up to some point, as a journal keeps them. The order between
        folders, between files, and between the writes to one file is not kept.
        """
        with self._lock:
            files = dict(self._durable_files)
            kept: list[_Renaming] = []
            for _, namings in sorted(self._namings.items()):
                kept += namings[: rng.randint(0, len(namings))]
            for naming in sorted(kept, key=lambda one: one.number):
                _rename(files, naming.names)
            found = MemoryDisk(self._free)
            for path in sorted(files):
                found.make_folder(path.rpartition("/")[0])
                found._files[path] = found._durable_files[path] = files[path].after_power_cut(rng)
            return found

    def _file(self, path: str) -> _File:
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def _name(self, names: dict[str, _File | None]) -> None:
        folder = next(iter(names)).rpartition("/")[0]
        self._last_naming += 1
        self._namings.setdefault(folder, []).append(_Renaming(self._last_naming, names))


def _rename(files: dict[str, _File], names: dict[str, _File | None]) -> None:
    for path, file in names.items():
        if file is None:
            files.pop(path, None)
        else:
            files[path] = file


class FaultyDisk:
    """A disk with faults in front of another one. Operations are named after Disk's methods."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk: Disk = MemoryDisk() if disk is None else disk
        self.calls: Counter[str] = Counter()
        self.delay: Callable[[str, str], None] = lambda operation, path: None
        """Called before each operation, in the thread that asks for it. It may block."""
        self._faults: dict[tuple[str, int], int] = {}
        self._space: int | None = None
        self._vanished = False
        self._lock = threading.Lock()

    # --- faults

    def fail(self, operation: str, *, nth: int = 1, error: int = errno.EIO) -> None:
        """Let the ``nth`` call from now on raise OSError with this error number, once."""
        with self._lock:
            self._faults[operation, self.calls[operation] + nth] = error

    def set_space(self, space: int | None) -> None:
        """Let files grow by this many more bytes; None is no limit. Removing files and cutting them off gives space
        back."""
        with self._lock:
            self._space = space

    def vanish(self) -> None:
        """Make the data folder unreachable."""
        self._vanished = True

    def appear(self) -> None:
        """Make the data folder reachable again."""
        self._vanished = False

    # --- the protocol Disk

    def write(self, path: str, offset: int, chunks: Sequence[bytes]) -> None:
        """See Disk. Without enough space, the bytes that fit are written."""
        self._call("write", path)
        data = b"".join(chunks)
        room = self._take_space(offset + len(data) - self._size(path))
        if room is None:
            self.disk.write(path, offset, chunks)
            return
        fits = max(0, len(data) - room)
        if fits:
            self.disk.write(path, offset, [data[:fits]])
        raise _error(errno.ENOSPC, path)

    def _take_space(self, growth: int) -> int | None:
        """Reserve space for a write. Returns by how many bytes it is too long, or None when it fits; what fits is
        reserved."""
        with self._lock:
            if self._space is None or growth <= 0:
                return None
            missing = growth - self._space
            self._space = max(0, -missing)
            return missing if missing > 0 else None

    def _give_space(self, size: int) -> None:
        with self._lock:
            if self._space is not None:
                self._space += size

    def _size(self, path: str) -> int:
        try:
            return self.disk.size(path)
        except FileNotFoundError:
            return 0

    def read(self, path: str, offset: int, length: int) -> bytes:
        """See Disk."""
        self._call("read", path)
        return self.disk.read(path, offset, length)

    def size(self, path: str) -> int:
        """See Disk."""
        self._call("size", path)
        return self.disk.size(path)

    def sync(self, path: str) -> None:
        """See Disk."""
        self._call("sync", path)
        self.disk.sync(path)

    def sync_folder(self, folder: str) -> None:
        """See Disk."""
        self._call("sync_folder", folder)
        self.disk.sync_folder(folder)

    def truncate(self, path: str, size: int) -> None:
        """See Disk."""
        self._call("truncate", path)
        self._give_space(self._size(path) - size)
        self.disk.truncate(path, size)

    def rename(self, old: str, new: str) -> None:
        """See Disk."""
        self._call("rename", old)
        self.disk.rename(old, new)

    def unlink(self, path: str) -> None:
        """See Disk."""
        self._call("unlink", path)
        self._give_space(self._size(path))
        self.disk.unlink(path)

    def names(self, folder: str) -> list[str]:
        """See Disk."""
        self._call("names", folder)
        return self.disk.names(folder)

    def make_folder(self, folder: str) -> None:
        """See Disk."""
        self._call("make_folder", folder)
        self.disk.make_folder(folder)

    def remove_folder(self, folder: str) -> None:
        """See Disk."""
        self._call("remove_folder", folder)
        before = self.disk.free_bytes()
        self.disk.remove_folder(folder)
        self._give_space(self.disk.free_bytes() - before)

    def free_bytes(self) -> int:
        """See Disk."""
        self._call("free_bytes", "")
        return self.disk.free_bytes() if self._space is None else self._space

    def will_need(self, path: str, offset: int, length: int) -> None:
        """See Disk. Never fails."""
        self.disk.will_need(path, offset, length)

    def check(self) -> None:
        """See Disk."""
        self._call("check", "")
        self.disk.check()

    def _call(self, operation: str, path: str) -> None:
        self.delay(operation, path)
        with self._lock:
            self.calls[operation] += 1
            fault = self._faults.pop((operation, self.calls[operation]), None)
        if fault is not None:
            raise _error(fault, path)
        if self._vanished:
            raise _error(errno.ENOENT, path)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
