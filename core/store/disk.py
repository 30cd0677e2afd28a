"""The disk: everything that the store asks of the file system, over paths relative to the data folder.

:class:`Disk` is the seam. :class:`FolderDisk` is the real one; tests have one in memory that loses what a power cut
would lose. All calls block and all may raise :class:`OSError`, so the loop calls none but short reads.

The folder is opened once and every path is resolved from that descriptor: a folder that is moved away or replaced is
never written to by mistake, nor made anew. :meth:`Disk.check` notices that it is gone, also where a cached descriptor
would go on taking bytes that nobody will ever find again.

This module knows nothing of records, lanes and what the files are for.
"""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

CHUNKS_MAX = os.sysconf("SC_IOV_MAX")
"""Chunks that one system call takes; 1024 on Linux."""


class Disk(Protocol):
    """Files below one data folder. Paths are relative, with ``/`` between folders; ``""`` is the data folder."""

    def write(self, path: str, offset: int, chunks: Sequence[bytes]) -> None:
        """Write the chunks one behind the other from ``offset`` on. Makes the file, and folders on the way to it."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes; fewer at the end of the file."""

    def size(self, path: str) -> int:
        """Bytes of the file. Raises FileNotFoundError when there is none."""

    def sync(self, path: str) -> None:
        """Return when what was written to the file before would outlive a power cut, if its name does."""

    def sync_folder(self, folder: str) -> None:
        """The same for the names in a folder: of files made, renamed and unlinked."""

    def truncate(self, path: str, size: int) -> None:
        """Cut the file off behind ``size`` bytes."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what had it."""

    def unlink(self, path: str) -> None:
        """Remove a file. Nothing happens when there is none."""

    def names(self, folder: str) -> list[str]:
        """Files and folders in it, in order of their names; none where there is no such folder."""

    def make_folder(self, folder: str) -> None:
        """Make a folder and those on the way to it, where they are missing."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with everything in it. Nothing happens when there is none."""

    def free_bytes(self) -> int:
        """What may still be written."""

    def will_need(self, path: str, offset: int, length: int) -> None:
        """A hint: these bytes will be read soon. Raises nothing and waits for nothing."""

    def check(self) -> None:
        """Raise OSError when the data folder is not there any more, or another one is."""


class _Opened:
    """A cached descriptor. It is closed when nobody uses it and the cache has no place for it."""

    __slots__ = ("cached", "descriptor", "users")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.users = 1
        self.cached = True


class FolderDisk:
    """The files of a folder of this machine, for any number of threads.

    Keeps at most ``open_files_max`` descriptors open, besides those in use at the moment.
    """

    def __init__(self, root: Path, open_files_max: int, *, marker: str | None = None, read_only: bool = False) -> None:
        """``marker`` is a file that is there as long as the folder is ours: the lock. Raises OSError."""
        self._root = root
        self._marker = marker
        self._access = os.O_RDONLY if read_only else os.O_RDWR
        self._open_files_max = open_files_max
        self._lock = threading.Lock()
        self._cache: dict[str, _Opened] = {}
        """In the order of their last use, the oldest first."""
        self._folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._proof = str(root if marker is None else root / marker)
        self._proven: tuple[int, int] | None = None
        """Device and inode of what is at ``_proof`` as long as the folder is ours."""

    def close(self) -> None:
        """Close every descriptor. Nothing may be in use."""
        with self._lock:
            self._shrink(0)
        os.close(self._folder)

    # --- files

    def write(self, path: str, offset: int, chunks: Sequence[bytes]) -> None:
        """See :meth:`Disk.write`. Raises OSError with ESTALE when the file was removed behind our back."""
        with self._open(path, create=True) as descriptor:
            _still_there(descriptor, path)
            for start in range(0, len(chunks), CHUNKS_MAX):
                offset = write_all(descriptor, offset, chunks[start : start + CHUNKS_MAX])

    def read(self, path: str, offset: int, length: int) -> bytes:
        """See :meth:`Disk.read`."""
        with self._open(path) as descriptor:
            data = os.pread(descriptor, length, offset)
            if len(data) == length or not data:
                return data
            parts = [data]
            done = len(data)
            while done < length and (data := os.pread(descriptor, length - done, offset + done)):
                parts.append(data)
                done += len(data)
            return b"".join(parts)

    def size(self, path: str) -> int:
        """See :meth:`Disk.size`."""
        return os.stat(_checked(path), dir_fd=self._folder).st_size

    def sync(self, path: str) -> None:
        """See :meth:`Disk.sync`. Raises OSError with ESTALE when the file was removed behind our back."""
        with self._open(path) as descriptor:
            os.fdatasync(descriptor)
            _still_there(descriptor, path)

    def truncate(self, path: str, size: int) -> None:
        """See :meth:`Disk.truncate`."""
        with self._open(path) as descriptor:
            os.ftruncate(descriptor, size)

    def rename(self, old: str, new: str) -> None:
        """See :meth:`Disk.rename`."""
        os.rename(_checked(old), _checked(new), src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._forget(old)
        self._forget(new)

    def unlink(self, path: str) -> None:
        """See :meth:`Disk.unlink`."""
        with suppress(FileNotFoundError):
            os.unlink(_checked(path), dir_fd=self._folder)
        self._forget(path)

    def will_need(self, path: str, offset: int, length: int) -> None:
        """See :meth:`Disk.will_need`."""
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError), self._open(path) as descriptor:
                os.posix_fadvise(descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    # --- folders

    def sync_folder(self, folder: str) -> None:
        """See :meth:`Disk.sync_folder`."""
        descriptor = os.open(_checked(folder) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def names(self, folder: str) -> list[str]:
        """See :meth:`Disk.names`."""
        try:
            descriptor = os.open(
                _checked(folder) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder
            )
        except FileNotFoundError:
            return []
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def make_folder(self, folder: str) -> None:
        """See :meth:`Disk.make_folder`."""
        parts = _checked(folder).split("/")
        for count in range(1, len(parts) + 1):
            with suppress(FileExistsError):
                os.mkdir("/".join(parts[:count]), 0o777, dir_fd=self._folder)

    def remove_folder(self, folder: str) -> None:
        """See :meth:`Disk.remove_folder`."""
        assert folder, "the data folder itself is not ours to remove"
        with suppress(FileNotFoundError):
            shutil.rmtree(_checked(folder), dir_fd=self._folder)
        inside = folder + "/"
        for path in [path for path in tuple(self._cache) if path.startswith(inside)]:
            self._forget(path)

    # --- the data folder as a whole

    def free_bytes(self) -> int:
        """See :meth:`Disk.free_bytes`: what is left for users who are not root."""
        state = os.fstatvfs(self._folder)
        return state.f_bavail * state.f_frsize

    def check(self) -> None:
        """See :meth:`Disk.check`. Raises ESTALE when another folder stands there, else what the system says.

        Every batch asks, twice a sync: one look at the marker by its whole path tells that the path still leads to the
        folder that was opened, and that the marker is in it. The lock is kept open, so no other file gets its inode.
        """
        if self._proven is None:
            opened = os.fstat(self._folder) if self._marker is None else os.stat(self._marker, dir_fd=self._folder)
            self._proven = opened.st_dev, opened.st_ino
        there = os.stat(self._proof)
        if (there.st_dev, there.st_ino) != self._proven:
            raise OSError(errno.ESTALE, "another folder has taken its place", str(self._root))

    # --- descriptors

    @property
    def open_files(self) -> int:
        """Descriptors that are kept at the moment."""
        return len(self._cache)

    def limit_open_files(self, open_files_max: int) -> None:
        """Change the limit, closing what is too much: sockets need the descriptors more."""
        with self._lock:
            self._open_files_max = open_files_max
            self._shrink(open_files_max)

    @contextmanager
    def _open(self, path: str, create: bool = False) -> Iterator[int]:
        """The file's descriptor, kept from being closed meanwhile."""
        with self._lock:
            opened = self._cache.pop(path, None)
            if opened is not None:
                opened.users += 1
                self._cache[path] = opened
        if opened is None:
            opened = self._enter(path, self._open_anew(_checked(path), create))
        try:
            yield opened.descriptor
        finally:
            with self._lock:
                opened.users -= 1
                if not opened.cached and not opened.users:
                    os.close(opened.descriptor)
                self._shrink(self._open_files_max)

    def _enter(self, path: str, descriptor: int) -> _Opened:
        """Keep a new descriptor, unless another thread was quicker."""
        with self._lock:
            opened = self._cache.get(path)
            if opened is None:
                opened = self._cache[path] = _Opened(descriptor)
            else:
                opened.users += 1
                os.close(descriptor)
            return opened

    def _open_anew(self, path: str, create: bool) -> int:
        flags = self._access | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return os.open(path, flags, 0o666, dir_fd=self._folder)
        except FileNotFoundError:
            folder = path.rpartition("/")[0]
            if not create or not folder:
                raise
            self.make_folder(folder)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            with self._lock:
                self._shrink(0)
        return os.open(path, flags, 0o666, dir_fd=self._folder)

    def _shrink(self, count: int) -> None:
        """Close descriptors that nobody uses until ``count`` are left. The lock is held."""
        if len(self._cache) <= count:
            return
        for path, opened in list(self._cache.items()):
            if not opened.users:
                del self._cache[path]
                os.close(opened.descriptor)
                if len(self._cache) <= count:
                    return

    def _forget(self, path: str) -> None:
        """The name means another file from now on, or none."""
        with self._lock:
            opened = self._cache.pop(path, None)
            if opened is not None:
                opened.cached = False
                if not opened.users:
                    os.close(opened.descriptor)


def _checked(path: str) -> str:
    """The path, which leads nowhere but into the data folder. Paths are made by us, so another one is a bug."""
    assert path[:1] != "/", f"not relative to the data folder: {path!r}"
    assert ".." not in path.split("/"), f"a path out of the data folder: {path!r}"
    return path


def _still_there(descriptor: int, path: str) -> None:
    """A file without a name takes bytes like any other; they are gone when it is closed."""
    if not os.fstat(descriptor).st_nlink:
        raise OSError(errno.ESTALE, "the file was removed while it was in use", path)


def write_all(
    descriptor: int,
    offset: int,
    chunks: Sequence[bytes],
    pwritev: Callable[[int, Sequence[bytes], int], int] = os.pwritev,
) -> int:
    """Write all of the chunks, however often the system takes a part only. Returns the offset behind them."""
    while chunks:
        written = pwritev(descriptor, chunks, offset)
        offset += written
        done = 0
        while done < len(chunks) and written >= len(chunks[done]):
            written -= len(chunks[done])
            done += 1
        chunks = chunks[done:] if not written else [chunks[done][written:], *chunks[done + 1 :]]
    return offset
