"""What the operating system says about this process: memory in use and available; and what becomes of freed memory.

On Linux the figures come from files. On other systems the total may be unknown, and where the memory in use is unknown,
memory is not measured.
"""

import ctypes
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
STATM_BYTES_MAX = 256
KIB = 1024
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""The C library's numbers of two of its parameters (malloc.h)."""
MAPPED_BYTES_MIN = 4 * 2**20
"""The C library maps an object of this size on its own, and unmaps it when it is freed. The kernel hands such memory
out page by page, and zeroed, which takes as long as two copies. So messages and reads of 1 MiB stay below."""
KEPT_BYTES_MAX = 16 * 2**20
"""So much freed memory at the end of the heap is kept for the next messages: a dozen of 1 MiB come and go without a new
page. It is what a burst may leave behind for good; what the memory alarm needs is given back all the same."""
V1_LIMIT, V2_LIMIT = "memory.limit_in_bytes", "memory.max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The functions with which the sampler measures. Tests replace them."""

    memory_used: Callable[[], int]
    """Bytes in use. Raises OSError where it cannot be measured."""
    memory_total: Callable[[], int | None]
    """Bytes that the process may use; None when that is not known."""
    disk_free: Callable[[], int]
    """Bytes that are free on the disk of the data folder. May take long, so it is called in a thread. Raises
    OSError."""
    sockets: Callable[[], tuple[int, int]]
    """How many connections there are, and how many are possible."""
    give_back: Callable[[], None]
    """Gives freed memory back to the operating system. May take long; is called in a thread."""


class ResidentSet:
    """The memory that the process has in RAM. The file stays open, since it must be readable when descriptors run
    out."""

    def __init__(self, root: Path = ROOT) -> None:
        """Raises nothing; where there is no such file, the later call raises."""
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(root / "proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def __call__(self) -> int:
        """Return the bytes in use. Raises OSError."""
        if self._file is None:
            raise OSError("this operating system does not tell how much memory a process uses")
        _, resident, *_ = os.pread(self._file, STATM_BYTES_MAX, 0).split()
        return int(resident) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def memory_total(root: Path = ROOT) -> int | None:
    """The machine's memory, or less where the process is in a container with a limit; None when unknown."""
    machine = _machine_memory(root)
    return None if machine is None else min([machine, *_container_limits(root)])


def disk_free(folder: Path) -> int:
    """How many bytes this process may still write to the disk of a folder. Raises OSError."""
    numbers = os.statvfs(folder)
    return numbers.f_bavail * numbers.f_frsize


def memory_giver() -> Callable[[], None]:
    """A function that gives freed memory back to the operating system; it does nothing where glibc is not used."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return lambda: None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int

    def give_back() -> None:
        trim(0)

    return give_back


def keep_freed_memory() -> None:
    """Have the C library keep freed memory, within :data:`MAPPED_BYTES_MIN` and :data:`KEPT_BYTES_MAX`. Does nothing
    where glibc is not used.

    Left alone, it maps and unmaps memory for nearly every message of 1 MiB, for a third of the CPU time
    (docs/design/large-messages.md).
    """
    try:
        set_parameter = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    set_parameter.argtypes, set_parameter.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    set_parameter(M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
    set_parameter(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)


def _machine_memory(root: Path) -> int | None:
    for line in (_text(root / "proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) * KIB
    return None


def _container_limits(root: Path) -> Iterator[int]:
    """Yield the limits of the control groups around the process: an inner one may be wider than the one around it."""
    groups = root / "sys/fs/cgroup"
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            folder, name = groups, V2_LIMIT
        elif "memory" in controllers.split(","):
            folder, name = groups / "memory", V1_LIMIT
        else:
            continue
        inner = folder / path.lstrip("/")
        for around in [inner, *inner.parents]:
            limit = _text(around / name)
            if limit is not None and limit.strip().isdigit():
                yield int(limit)
            if around == folder:
                break


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return None


def waits_of_thread() -> Callable[[], int] | None:
    """Return a function that tells how often its calling thread has waited so far, for a disk or anything else. A
    thread that loses the processor to another one does not count as waiting. Return None where the operating system
    counts only for a whole process."""
    if not hasattr(resource, "RUSAGE_THREAD"):
        return None
    return lambda: resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
