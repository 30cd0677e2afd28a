"""What the operating system says of a process, from files as Linux writes them, and of the test's own process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.server.measures import ResidentSet, disk_free, memory_giver, memory_total

GIB = 2**30
V1_UNLIMITED = 9223372036854771712


def machine(root: Path, *, cgroup: str = "", **limits: int | str) -> Path:
    """The files of a machine with 8 GiB. ``limits`` are by the path under the folder of control groups."""
    write(root / "proc/meminfo", f"MemTotal:       {8 * GIB // 1024} kB\nMemFree:        1024 kB\n")
    write(root / "proc/self/cgroup", cgroup)
    for path, limit in limits.items():
        write(root / "sys/fs/cgroup" / path, f"{limit}\n")
    return root


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_limits_it_is_the_machine_s_memory(tmp_path: Path):
    assert memory_total(machine(tmp_path)) == 8 * GIB


@pytest.mark.parametrize(
    ("cgroup", "limits", "total"),
    [
        ("0::/\n", {"memory.max": 2 * GIB}, 2 * GIB),
        ("0::/\n", {"memory.max": "max"}, 8 * GIB),
        ("0::/\n", {"memory.max": 100 * GIB}, 8 * GIB),
        ("0::/a/b\n", {"a/memory.max": GIB, "a/b/memory.max": 2 * GIB}, GIB),
        ("0::/a/b\n", {"a/memory.max": "max", "a/b/memory.max": 2 * GIB}, 2 * GIB),
        ("4:memory:/docker/x\n0::/\n", {"memory/docker/x/memory.limit_in_bytes": GIB}, GIB),
        ("4:memory:/docker/x\n", {"memory/memory.limit_in_bytes": GIB}, GIB),
        ("4:cpu,memory:/\n", {"memory/memory.limit_in_bytes": V1_UNLIMITED}, 8 * GIB),
        ("4:cpu:/\n", {"memory/memory.limit_in_bytes": GIB}, 8 * GIB),
    ],
)
def test_a_container_s_limit_counts_where_it_is_lower(tmp_path: Path, cgroup: str, limits: dict[str, int], total: int):
    assert memory_total(machine(tmp_path, cgroup=cgroup, **limits)) == total


def test_row_4_23_elsewhere_it_is_unknown(tmp_path: Path):
    assert memory_total(tmp_path) is None


def test_resident_memory_is_counted_in_pages_and_read_anew(tmp_path: Path):
    statm = tmp_path / "proc/self/statm"
    write(statm, "1000 50 30 1 0 200 0\n")
    resident = ResidentSet(tmp_path)
    assert resident() == 50 * os.sysconf("SC_PAGE_SIZE")
    statm.write_text("1000 70 30 1 0 200 0\n")
    assert resident() == 70 * os.sysconf("SC_PAGE_SIZE")
    resident.close()
    with pytest.raises(OSError, match="does not tell"):
        resident()


def test_where_there_is_no_such_file_resident_memory_cannot_be_measured(tmp_path: Path):
    resident = ResidentSet(tmp_path)
    with pytest.raises(OSError, match="does not tell"):
        resident()
    resident.close()


def test_this_process_can_be_measured(tmp_path: Path):
    resident = ResidentSet()
    total = memory_total()
    assert total is not None
    assert 0 < resident() < total
    resident.close()
    assert disk_free(tmp_path) > 0
    with pytest.raises(OSError):
        disk_free(tmp_path / "gone")


COUNT_PAGES = """
import resource, sys
from core.server.measures import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        messages = [b"x" * 2**20 for _ in range(8)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
def test_messages_that_come_and_go_take_no_new_pages():
    """Eight messages of 1 MiB have 2,048 pages of 4 KiB, and come and go 50 times."""
    command = [sys.executable, "-c", COUNT_PAGES]
    pages = int(subprocess.run([*command, "kept"], check=True, capture_output=True, text=True).stdout)
    assert pages < 2_048


@pytest.mark.slow
def test_freed_memory_is_given_back():
    """The pieces are too large for Python's own allocator. One at the end stays in use, so the C library keeps them
    all."""
    resident, give_back = ResidentSet(), memory_giver()
    pieces = [bytes(1000) + b"%d" % number for number in range(100_000)]
    last = pieces[-1]
    full = resident()
    pieces.clear()
    give_back()
    assert resident() < full - 80 * 10**6
    assert last.endswith(b"99999")
    resident.close()
