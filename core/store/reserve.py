"""The reserve: a file of the data folder that means nothing and holds space back, for when the disk is full.

A start writes before it can serve: that it has started, how far the lanes were synced, what it mends. A consumer that
settles writes too, and that is what frees space in the end. On a disk without a free byte neither could be, and the
only way out would be to delete something else. So the broker keeps some space to itself while there is enough:

- All of it, while the disk has as much again free.
- One half, when it has not: the other half is for what a broker writes that serves, settlements before all, while the
  disk alarm lets publishers wait.
- Nothing, during a start or an orderly stop that finds less free than the reserve: the half that was left is for these
  alone. What is not used of it is held back again afterwards, so that the next start can begin, however the broker
  ends.

The file is allocated and not written, so that it costs no time. It may be deleted, cut or damaged, and is left out of
copies.
"""

import os
from contextlib import suppress
from pathlib import Path

RESERVE_FILE = "reserve"
STEP_BYTES = 4096
"""What is taken back at once of the last of a disk: no more than this is given up, at each start of a hundred."""

STAT_BLOCK_BYTES = 512
"""What a file's ``st_blocks`` counts, whatever the file system's blocks are."""


class SpaceReserve:
    """The reserve of one data folder, whose lock this process has."""

    def __init__(self, folder: Path, size: int) -> None:
        """``size`` in bytes, when there is enough space; 0 for none. Raises OSError."""
        self._size = size
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # another may take its place

    def adjust(self) -> int:
        """Hold back what the space on the disk allows. Returns how many bytes that are. Blocks for as long as the disk
        takes to allocate them; raises nothing: a disk that cannot be asked is not one to be held back from."""
        held = 0
        with suppress(OSError):
            held = _held(self._folder)
            enough = _free(self._folder) + held >= 2 * self._size
            wanted = self._size if enough else self._size // 2
            if held != wanted:
                held = self._hold(held, wanted)
        return held

    def give_up(self) -> None:
        """Before what must be written: give the space to the disk, if it has less than that. Raises nothing."""
        with suppress(OSError):
            _give_up(self._folder)

    def close(self) -> None:
        """Nothing may be asked of it afterwards. What is held back stays so."""
        os.close(self._folder)

    def _hold(self, held: int, wanted: int) -> int:
        if not wanted:
            os.unlink(RESERVE_FILE, dir_fd=self._folder)
            return 0
        descriptor = os.open(RESERVE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=self._folder)
        try:
            os.ftruncate(descriptor, min(held, wanted))
            step = wanted - held
            while held < wanted and step >= STEP_BYTES:
                step = min(step, wanted - held)
                try:
                    os.posix_fallocate(descriptor, held, step)
                    held += step
                except OSError:  # so much is not there
                    step //= 2
            os.ftruncate(descriptor, min(held, wanted))  # what an allocation that failed has left
            return min(held, wanted)
        finally:
            os.close(descriptor)


def give_up_reserve(folder: Path) -> None:
    """Before the first write of a start: give the space to the disk, if it has less than that. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _give_up(descriptor)
    finally:
        os.close(descriptor)


def _give_up(folder: int) -> None:
    held = _held(folder)
    if held and _free(folder) < held:
        descriptor = os.open(RESERVE_FILE, os.O_RDWR | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)


def _held(folder: int) -> int:
    try:
        state = os.stat(RESERVE_FILE, dir_fd=folder)
    except FileNotFoundError:
        return 0
    return min(state.st_size, state.st_blocks * STAT_BLOCK_BYTES)  # a copy may have holes


def _free(folder: int) -> int:
    state = os.fstatvfs(folder)
    return state.f_bavail * state.f_frsize
