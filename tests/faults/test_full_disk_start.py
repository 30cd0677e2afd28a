"""Some starts on a disk without a free byte; ``python -m tests.faults.full_disk_start`` does a hundred."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_broker_starts_on_a_full_disk_and_lets_consumers_drain():
    """The test is a process of its own, because the disk is mounted where no other process sees it."""
    command = [sys.executable, "-m", "tests.faults.full_disk_start", "--runs", "3", "--space-every", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "starts on a full disk 3" in done.stdout
