"""The environment of a measurement: two results are comparable only when their environments are alike."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

SYNC_PROBES = 101
SYNC_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine and the software of a measurement."""

    date: str
    commit: str
    interpreter: str
    compiled: bool
    machine: str
    cpus: tuple[int, ...]
    memory_gib: int
    kernel: str
    fdatasync_p50_ms: float

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"commit {self.commit}, {self.interpreter}, {self.machine}, {len(self.cpus)} CPUs, "
            f"fdatasync p50 {self.fdatasync_p50_ms} ms"
        )


def observe(folder: Path) -> Environment:
    """The environment now; the disk that is probed is that of `folder`."""
    folder.mkdir(exist_ok=True)
    return Environment(
        date=time.strftime("%Y-%m-%d"),
        commit=_commit(),
        interpreter=f"{platform.python_implementation()} {platform.python_version()}",
        compiled=_compiled(),
        machine=_processor(),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        kernel=platform.release(),
        fdatasync_p50_ms=round(sync_p50_ms(folder), 3),
    )


def _commit() -> str:
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return described.stdout.strip()


def _compiled() -> bool:
    """Whether compiled modules of the broker are used: extension files in its package."""
    return any((Path(__file__).parent.parent / "amqp10").rglob("*.so"))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine() or sys.platform


def sync_p50_ms(folder: Path) -> float:
    """The median time of a 4 KiB append with fdatasync."""
    times = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(SYNC_PROBES):
            file.write(bytes(SYNC_BYTES))
            before = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - before)
    return statistics.median(times) * 1000
