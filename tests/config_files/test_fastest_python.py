"""A new environment gets the fastest Python that is there, and one that cannot be used is not chosen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHOOSE = f"""
import runpy
print(runpy.run_path({str(ROOT / ".ci" / "environment.py")!r})["fastest_python"]())
"""


def chosen(folder: Path) -> subprocess.CompletedProcess[str]:
    """What a Python chooses whose PATH is one folder."""
    return subprocess.run(
        [sys.executable, "-c", CHOOSE], env={**os.environ, "PATH": str(folder)}, capture_output=True, text=True
    )


def python(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.slow
def test_the_fastest_is_chosen_and_each_is_said_with_its_time(tmp_path: Path):
    fast = python(tmp_path, "python3.13", "echo 0.000001")
    slow = python(tmp_path, "python3.12", "echo 100")
    done = chosen(tmp_path)
    assert done.stdout.strip() == str(fast)
    assert f"Headgate gets {fast}" in done.stderr
    assert f"{fast} 0.0 ms" in done.stderr
    assert f"{slow} 100000.0 ms" in done.stderr


@pytest.mark.slow
def test_one_that_cannot_make_an_environment_is_not_chosen(tmp_path: Path):
    python(tmp_path, "python3.13", "echo 0.000001; exit 1")
    done = chosen(tmp_path)
    assert done.stdout.strip() == sys.executable
    assert done.stderr == ""  # there was no choice, so nothing is said of it
