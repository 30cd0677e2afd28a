"""A virtual environment with the broker and nothing else, as the makers of packages and lists need it."""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def make_environment(folder: Path, wheels: Path, extras: str = "") -> Path:
    """Install ``headgate``, with these extras, from a folder of wheels into a new environment without pip. What it
    requires comes from the index of pip, in the versions of ``constraints.txt``. Returns the environment's Python."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    what = f"headgate[{extras}]" if extras else "headgate"
    constraint = ["--constraint", ROOT / "constraints.txt", "--find-links", wheels]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, *constraint, what], check=True)
    return python


def site_packages(python: Path) -> Path:
    """Return the folder of an environment into which packages are installed."""
    [found] = python.parent.parent.glob("lib/python*/site-packages")
    return found
