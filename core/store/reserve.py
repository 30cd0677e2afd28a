"""The reserve: a file without contents in the data folder that reserves space for when the disk is full.

A start has to write before it can serve: the count of starts, the marks of the lanes, repairs. Settlements by consumers
are written too, and they free space in the end. On a full disk neither would be possible, and the operator would have
to delete other files. So the broker reserves some space while there is enough:

- The full size, while the disk has at least as much free in addition.
- Half of it otherwise. The other half is for the writes of a running broker, mostly settlements, while the disk alarm
  blocks publishers.
- Nothing, during a start or a clean stop that finds less free space than the reserve: the last half is only for them.
  What they do not use is reserved again afterwards, so that the next start can write, however the broker ends.

The file is allocated and not written, so it costs no time. It may be deleted, truncated or damaged, and may be left out
of copies.
"""

import os
from contextlib import suppress
from pathlib import Path

RESERVE_FILE = "reserve"
STEP_BYTES = 4096
"""The smallest step in which the last space of a disk is reserved again. So each of many starts loses at most this much
of the reserve."""

STAT_BLOCK_BYTES = 512
"""The unit of a file's ``st_blocks``, on every file system."""


class SpaceReserve:
    """The reserve of one data folder. This process holds the folder's lock."""

    def __init__(self, folder: Path, size: int) -> None:
        """``size``: the full size in bytes; 0 for no reserve. Raises OSError."""
        self._size = size
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # path may change

    def adjust(self) -> int:
        """Reserve as much as the free space allows. Returns the reserved bytes. Blocks while the disk allocates them.
        Raises nothing: errors of the disk are ignored."""
        held = 0
        with suppress(OSError):
            held = _held(self._folder)
            enough = _free(self._folder) + held >= 2 * self._size
            wanted = self._size if enough else self._size // 2
            if held != wanted:
                held = self._hold(held, wanted)
        return held

    def give_up(self) -> None:
        """Release the reserve before an important write, if the disk has less free space than the reserve. Raises
        nothing."""
        with suppress(OSError):
            _give_up(self._folder)

    def close(self) -> None:
        """Close the folder; the space stays reserved. The object must not be used afterwards."""
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
                except OSError:  # not enough space
                    step //= 2
            os.ftruncate(descriptor, min(held, wanted))  # drops the rest of a failed allocation
            return min(held, wanted)
        finally:
            os.close(descriptor)


def give_up_reserve(folder: Path) -> None:
    """Release the reserve before the first write of a start, if the disk has less free space than the reserve. Raises
    OSError."""
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
    return min(state.st_size, state.st_blocks * STAT_BLOCK_BYTES)  # a copy may be sparse


def _free(folder: int) -> int:
    state = os.fstatvfs(folder)
    return state.f_bavail * state.f_frsize
