"""Kill runs at the same time: each job is a process with a broker, ports, folders and Spark processes of its own.

It kills only what it has started itself.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from typing import TypeVar

from tests.kit.broker_process import ROOT

T = TypeVar("T")


def add_options(parser: argparse.ArgumentParser) -> None:
    """``--jobs``; and ``--job``, which a job is given."""
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at the same time (default: 1)")
    parser.add_argument("--job", default="0/1", help=argparse.SUPPRESS)


def share(runs: Sequence[T], job: str) -> Sequence[T]:
    """The runs of one job, ``NUMBER/OF``: those behind each other, since victims take turns and a driver takes longest
    to come back."""
    number, of = map(int, job.split("/"))
    return runs[len(runs) * number // of : len(runs) * (number + 1) // of]


def in_parallel(module: str, words: Sequence[str], jobs: int) -> int:
    """Start the module once for each job, with the words of its command line. Returns the highest exit status."""
    command = [sys.executable, "-m", module, *words, "--jobs", "1", "--job"]
    running = [subprocess.Popen([*command, f"{number}/{jobs}"], cwd=ROOT) for number in range(jobs)]
    try:
        return max(process.wait() for process in running)
    finally:
        for process in running:
            process.terminate()
            process.wait()
