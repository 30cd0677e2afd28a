"""Virtual environments with nothing in them but what the wheels under test require.

A real empty environment would take its packages from an index. The tests need no network, so a folder stands for the
index: it has links to those packages of the tests' own environment which the requirements name, and no others. What a
wheel imports and does not require is therefore missing, as it would be for a user.
"""

import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement


class EmptyEnvironment:
    """A virtual environment in a folder, into which wheels of ``wheels`` can be installed."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self._wheels = wheels
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        self.index = folder / "index"
        """Links to the packages that are offered."""
        self.index.mkdir(parents=True)
        venv.create(folder, symlinks=True)
        [self.packages] = folder.glob("lib/python*/site-packages")
        (self.packages / "index.pth").write_text(str(self.index), encoding="utf-8")

    def offer(self, requirements: Iterable[str]) -> None:
        """Have the packages of the tests' environment that these requirements name, and what those require."""
        for found in _closure(requirements):
            for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
                target = self.index / top
                if not target.exists() and not top.endswith(".pth"):
                    target.symlink_to(Path(str(found.locate_file(top))))

    def install(self, *what: str) -> None:
        """``pip install``, from the wheels and from nowhere else."""
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            self.python,
            "--disable-pip-version-check",
            "install",
            "--quiet",
        ]
        offline = ["--no-index", "--no-build-isolation", "--no-cache-dir", "--no-compile", "--find-links", self._wheels]
        subprocess.run([*pip, *offline, *what], check=True, cwd=self.bin.parent)


def _closure(requirements: Iterable[str]) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    asked: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in asked:
            continue
        asked.add(str(requirement))
        one = found.setdefault(requirement.name, distribution(requirement.name))
        inner = [Requirement(text) for text in one.requires or ()]
        waiting += [each for each in inner if _applies(each, requirement.extras)]
    return list(found.values())


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))
