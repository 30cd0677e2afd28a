"""Pages of 2 MiB for what the start has put into memory: code, types, and the objects that every message needs.

Between two messages that come alone, other processes run, and the processor loses the addresses of this one's pages.
Then it has to look up each page of 4 KiB anew, on a virtual machine in two tables. The objects that a message needs are
spread over 40 MiB, which are 10,000 such pages, so a message costs less CPU where half of them are in pages of 2 MiB
(docs/design/short-way.md has the figures).

Linux can join the pages of a range at once since version 6.1. Elsewhere nothing is done.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")
SETTING = "sys/kernel/mm/transparent_hugepage/enabled"
NEVER = "[never]"
"""How the setting reads where the administrator of the machine wants no huge pages."""
HUGE_PAGE_BYTES = 2 * 2**20
"""The size on x86-64 and, with pages of 4 KiB, on ARM64. Where it is another one, Linux joins what it can."""
MADV_COLLAPSE = 25
"""The kernel's number for joining pages (include/uapi/asm-generic/mman-common.h)."""
FULL = 3 / 4
"""The share of a mapping that is in memory if its pages are joined. A joined page is in memory as a whole, so the stack
of a thread, which is empty for the most part, would take 2 MiB more; the mappings of the start take 1 MiB more in
all."""
JOINED_BYTES_MAX = 64 * 2**20
"""So much is joined at the most. The start of a broker without messages fills 40 MiB, and to join them takes 50 ms;
behind them are messages, of which each is needed once or twice."""
KIB = 1024

Advise = Callable[[int, int, int], object]
"""``madvise(2)``: address, bytes, and the number of the advice."""


class _Mapping(NamedTuple):
    """Memory without a file that this process alone can read and write."""

    start: int
    end: int
    resident_bytes: int


def join_pages(root: Path = ROOT, advise: Advise | None = None) -> None:
    """Have the kernel join the pages of this process's memory that is in use, within :data:`JOINED_BYTES_MAX`. It joins
    what it can; this raises nothing."""
    advise = advise or _madvise()
    left = JOINED_BYTES_MAX
    with suppress(OSError):
        if advise is None or NEVER in (root / SETTING).read_text():
            return
        for mapping in list(_mappings((root / "proc/self/smaps").read_text())):
            start = -(-mapping.start // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
            size = min((mapping.end - start) // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, left)
            if size > 0 and mapping.resident_bytes >= FULL * (mapping.end - mapping.start):
                advise(start, size, MADV_COLLAPSE)
                left -= size


def _madvise() -> Advise | None:
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    madvise.argtypes, madvise.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    advise: Advise = madvise
    return advise


def _mappings(text: str) -> Iterator[_Mapping]:
    """The mappings of a file ``smaps`` that may be joined: a line with addresses, rights and name begins each one."""
    span: tuple[int, int] | None = None
    for line in text.splitlines():
        words = line.split()
        if "-" in words[0]:
            low, high = (int(word, 16) for word in words[0].split("-"))
            own = words[1] == "rw-p" and (len(words) == 5 or words[5] == "[heap]")
            span = (low, high) if own else None
        elif words[0] == "Rss:" and span is not None:
            yield _Mapping(*span, int(words[1]) * KIB)
