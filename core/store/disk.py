"""The disk: all file system operations of the store, on paths relative to the data folder.

:class:`Disk` is the interface. :class:`FolderDisk` implements it on a real folder; tests have one in memory that loses
what a power cut would lose. All calls block and may raise :class:`OSError`, so the event loop only makes short reads.

The folder is opened once and every path is resolved from that descriptor: another folder that has taken its place is
never written to, and a folder that was moved away is never made again. :meth:`Disk.check` notices that the folder is
gone, even while writes to a cached descriptor still succeed and are lost.

This module does not know records, lanes or the purpose of the files.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

CHUNKS_MAX = os.sysconf("SC_IOV_MAX")
"""The most chunks that one system call takes; 1024 on Linux."""


class Disk(Protocol):
    """Files below one data folder. Paths are relative, with ``/`` between folders; ``""`` is the data folder."""

    def write(self, path: str, offset: int, chunks: Sequence[bytes]) -> None:
        """Write the chunks one after the other from ``offset`` on. Creates the file and its parent folders."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read up to ``length`` bytes; fewer at the end of the file."""

    def size(self, path: str) -> int:
        """Return the bytes of the file. Raises FileNotFoundError if there is none."""

    def sync(self, path: str) -> None:
        """Sync the file's contents: all earlier writes to it survive a power cut, provided that its name does."""

    def sync_folder(self, folder: str) -> None:
        """Sync the names in a folder: of files created, renamed and unlinked."""

    def truncate(self, path: str, size: int) -> None:
        """Truncate the file to ``size`` bytes."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file of the new name."""

    def unlink(self, path: str) -> None:
        """Remove a file, if it exists."""

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of files and folders in it; none if the folder does not exist."""

    def make_folder(self, folder: str) -> None:
        """Create a folder and its parent folders, if they are missing."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all its contents, if it exists."""

    def will_need(self, path: str, offset: int, length: int) -> None:
        """Hint that these bytes will be read soon. Never raises or waits."""

    def check(self) -> None:
        """Raise OSError if the data folder is gone or was replaced by another."""


class _Opened:
    """A file descriptor. It is closed when it has no users and is not in the cache any more."""

    __slots__ = ("cached", "descriptor", "users")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.users = 1
        self.cached = True


class FolderDisk:
    """The files of a local folder, for any number of threads.

    Keeps at most ``open_files_max`` descriptors open, not counting those in use.
    """

    def __init__(
        self,
        root: Path,
        open_files_max: int,
        *,
        marker: str | None = None,
        read_only: bool = False,
        file_mode: int = 0o666,
    ) -> None:
        """``marker`` is a file that exists while this process owns the folder: the lock. ``file_mode`` is that of new
        files, less the process's mask. Raises OSError."""
        self._file_mode = file_mode
        self._root = root
        self._marker = marker
        self._access = os.O_RDONLY if read_only else os.O_RDWR
        self._open_files_max = open_files_max
        self._lock = threading.Lock()
        self._cache: dict[str, _Opened] = {}
        """In the order of their last use, oldest first."""
        self._folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._proof = str(root if marker is None else root / marker)
        self._proven: tuple[int, int] | None = None
        """Device and inode of the file or folder at ``_proof`` while this process owns the folder."""

    def close(self) -> None:
        """Close all descriptors. None may be in use."""
        with self._lock:
            self._shrink(0)
        os.close(self._folder)

    # --- files

    def write(self, path: str, offset: int, chunks: Sequence[bytes]) -> None:
        """See :meth:`Disk.write`. Raises OSError with ESTALE if another program has removed the file."""
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
        """See :meth:`Disk.sync`. Raises OSError with ESTALE if another program has removed the file."""
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
        with suppress(FileExistsError):
            try:
                os.mkdir(_checked(folder), 0o777, dir_fd=self._folder)
            except FileNotFoundError:  # mostly the parent is there
                parent = folder.rpartition("/")[0]
                if not parent:
                    raise
                self.make_folder(parent)
                os.mkdir(folder, 0o777, dir_fd=self._folder)

    def remove_folder(self, folder: str) -> None:
        """See :meth:`Disk.remove_folder`."""
        assert folder, "the data folder itself is not ours to remove"
        with suppress(FileNotFoundError):
            _remove_tree(_checked(folder), self._folder)
        inside = folder + "/"
        for path in [path for path in tuple(self._cache) if path.startswith(inside)]:
            self._forget(path)

    # --- the data folder as a whole

    def check(self) -> None:
        """See :meth:`Disk.check`. Raises OSError with ESTALE if another folder is there, else the system's own error.

        It is called with every write batch and twice for each sync. One ``stat`` of the marker by its full path shows
        that the path still leads to the opened folder and that the marker is in it. The lock file is kept open, so no
        other file can get its inode.
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
        """How many descriptors are in the cache."""
        return len(self._cache)

    def limit_open_files(self, open_files_max: int) -> None:
        """Change the limit and close descriptors above it, because sockets need them more."""
        with self._lock:
            self._open_files_max = open_files_max
            self._shrink(open_files_max)

    @contextmanager
    def _open(self, path: str, create: bool = False) -> Iterator[int]:
        """Yield the file's descriptor, which is not closed meanwhile."""
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
        """Add a new descriptor to the cache, unless another thread has added one for this path first."""
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
            return os.open(path, flags, self._file_mode, dir_fd=self._folder)
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
        return os.open(path, flags, self._file_mode, dir_fd=self._folder)

    def _shrink(self, count: int) -> None:
        """Close unused descriptors until ``count`` are left. The caller holds the lock."""
        if len(self._cache) <= count:
            return
        for path, opened in list(self._cache.items()):
            if not opened.users:
                del self._cache[path]
                os.close(opened.descriptor)
                if len(self._cache) <= count:
                    return

    def _forget(self, path: str) -> None:
        """Remove the path from the cache: it names another file now, or none."""
        with self._lock:
            opened = self._cache.pop(path, None)
            if opened is not None:
                opened.cached = False
                if not opened.users:
                    os.close(opened.descriptor)


def _checked(path: str) -> str:
    """Assert that the path stays within the data folder. The broker makes all paths, so any other is a bug."""
    assert path[:1] != "/", f"not relative to the data folder: {path!r}"
    assert ".." not in path.split("/"), f"a path out of the data folder: {path!r}"
    return path


def _remove_tree(folder: str, within: int) -> None:
    """Remove a folder with its contents, in the folder with the descriptor ``within``. A symbolic link in it is
    removed, and not followed. ``shutil.rmtree`` asks the system twice as often."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        with os.scandir(descriptor) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_folder in found:
            if is_folder:
                _remove_tree(name, descriptor)
            else:
                os.unlink(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(folder, dir_fd=within)


def _still_there(descriptor: int, path: str) -> None:
    """Raise OSError if the file has no name any more: writes to it succeed, but are lost when it is closed."""
    if not os.fstat(descriptor).st_nlink:
        raise OSError(errno.ESTALE, "the file was removed while it was in use", path)


def write_all(
    descriptor: int,
    offset: int,
    chunks: Sequence[bytes],
    pwritev: Callable[[int, Sequence[bytes], int], int] = os.pwritev,
) -> int:
    """Write all chunks, with further calls if the system writes only a part. Returns the offset after them."""
    while chunks:
        written = pwritev(descriptor, chunks, offset)
        offset += written
        done = 0
        while done < len(chunks) and written >= len(chunks[done]):
            written -= len(chunks[done])
            done += 1
        chunks = chunks[done:] if not written else [chunks[done][written:], *chunks[done + 1 :]]
    return offset
