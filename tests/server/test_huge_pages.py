"""Pages of 2 MiB for the memory of the start."""

import mmap
import sys
from pathlib import Path

import pytest

from core.server.huge_pages import HUGE_PAGE_BYTES, JOINED_BYTES_MAX, MADV_COLLAPSE, SETTING, join_pages

MIB = 2**20


def mapping(start: int, size: int, resident: int, *, rights: str = "rw-p", name: str = "") -> str:
    """A mapping as /proc/self/smaps shows it; sizes in bytes."""
    head = f"{start:x}-{start + size:x} {rights} 00000000 00:00 0 {name:>40}".rstrip()
    return f"{head}\nSize: {size // 1024:>10} kB\nRss: {resident // 1024:>10} kB\nVmFlags: rd wr mr mw me ac sd\n"


def advice(tmp_path: Path, smaps: str, *, setting: str = "always [madvise] never") -> list[tuple[int, int, int]]:
    """What the kernel is asked for where the process has these mappings."""
    for name, text in (("proc/self/smaps", smaps), (SETTING, setting)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    asked: list[tuple[int, int, int]] = []
    join_pages(tmp_path, lambda *advised: asked.append(advised))
    return asked


def test_the_whole_huge_pages_of_a_mapping_in_use_are_joined(tmp_path: Path):
    anonymous = mapping(8 * MIB + 4096, 7 * MIB, 7 * MIB)
    heap = mapping(32 * MIB, 4 * MIB, 3 * MIB, name="[heap]")
    asked = advice(tmp_path, anonymous + heap)
    assert asked == [(10 * MIB, 4 * MIB, MADV_COLLAPSE), (32 * MIB, 4 * MIB, MADV_COLLAPSE)]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            mapping(8 * MIB, 8 * MIB, 132 * 1024), id="the stack of a thread, which is empty for the most part"
        ),
        pytest.param(mapping(8 * MIB, 8 * MIB, 8 * MIB, name="/usr/lib/libpython3.so"), id="a file"),
        pytest.param(mapping(8 * MIB, 8 * MIB, 8 * MIB, name="[stack]"), id="the stack"),
        pytest.param(mapping(8 * MIB, 8 * MIB, 8 * MIB, rights="rw-s"), id="shared memory"),
        pytest.param(mapping(8 * MIB, 8 * MIB, 8 * MIB, rights="---p"), id="memory that cannot be used"),
        pytest.param(mapping(8 * MIB + 4096, 3 * MIB, 3 * MIB), id="less than a huge page between its borders"),
    ],
)
def test_other_mappings_stay_as_they_are(tmp_path: Path, other: str):
    assert advice(tmp_path, other) == []


def test_messages_behind_the_memory_of_the_start_are_not_joined(tmp_path: Path):
    many = "".join(mapping(64 * MIB * number, 40 * MIB, 40 * MIB) for number in range(1, 4))
    asked = advice(tmp_path, many)
    assert sum(size for _, size, _ in asked) == JOINED_BYTES_MAX
    assert [address for address, _, _ in asked] == [64 * MIB, 128 * MIB]


def test_nothing_is_joined_where_the_administrator_wants_no_huge_pages(tmp_path: Path):
    assert advice(tmp_path, mapping(8 * MIB, 8 * MIB, 8 * MIB), setting="always madvise [never]") == []


def test_nothing_is_joined_where_the_system_has_no_huge_pages(tmp_path: Path):
    asked: list[tuple[int, int, int]] = []
    join_pages(tmp_path, lambda *advised: asked.append(advised))
    assert asked == []


@pytest.mark.skipif(sys.platform != "linux", reason="pages are joined on Linux")
def test_what_is_in_the_memory_stays_there():
    with mmap.mmap(-1, 3 * HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        content = bytes(range(256)) * (len(memory) // 256)
        memory[:] = content
        join_pages()
        assert memory[:] == content
