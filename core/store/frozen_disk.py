"""A disk on which a start can be tried: it reads a folder, and changes nothing there.

What a start does to a log is remembered instead: files that it has removed or cut off are seen so from then on. So a
command reads exactly what the start of a broker would read.
"""

from collections.abc import Sequence

from core.store.disk import FolderDisk


class FrozenDisk:
    """The :class:`core.store.disk.Disk` of a folder that stays as it is. Nothing can be written."""

    def __init__(self, disk: FolderDisk) -> None:
        self._disk = disk
        self._ends: dict[str, int] = {}
        """Files that were cut off, with their sizes; -1 for those that were removed."""

    def size(self, path: str) -> int:
        """See :class:`core.store.disk.Disk`, also for the methods below."""
        end = self._ends.get(path)
        if end == -1:
            raise FileNotFoundError(path)
        return self._disk.size(path) if end is None else end

    def read(self, path: str, offset: int, length: int) -> bytes:
        end = self._ends.get(path)
        return self._disk.read(path, offset, length if end is None else max(0, min(length, end - offset)))

    def names(self, folder: str) -> list[str]:
        inside = f"{folder}/" if folder else ""
        return [name for name in self._disk.names(folder) if self._ends.get(inside + name) != -1]

    def truncate(self, path: str, size: int) -> None:
        self._ends[path] = size

    def unlink(self, path: str) -> None:
        self._ends[path] = -1

    def sync(self, path: str) -> None:
        pass

    def sync_folder(self, folder: str) -> None:
        pass

    def make_folder(self, folder: str) -> None:
        pass

    def will_need(self, path: str, offset: int, length: int) -> None:
        pass

    def check(self) -> None:
        self._disk.check()

    def write(self, path: str, offset: int, chunks: Sequence[bytes]) -> None:
        raise AssertionError(f"{path} was to be written, and the folder stays as it is")

    def rename(self, old: str, new: str) -> None:
        raise AssertionError(f"{old} was to be renamed, and the folder stays as it is")

    def remove_folder(self, folder: str) -> None:
        raise AssertionError(f"{folder} was to be removed, and the folder stays as it is")
