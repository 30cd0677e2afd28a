"""Runs the scripts of clients in JavaScript and Go, each in a copy of its folder, so that no file is installed here."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
INTEROP = HERE.parents[1] / "interop"
NPM_CI = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]


def run_script(folder: str, url: str, *commands: list[str], packages: Path | None = None) -> None:
    """Run commands in a copy of a folder, with the URL of the broker in ``HEADGATE_URL``.

    ``packages`` is a folder whose package.json and package-lock.json say which versions are installed.
    """
    with TemporaryDirectory(prefix="recorded-") as temporary:
        copy = shutil.copytree(HERE / folder, Path(temporary) / folder)
        if packages is not None:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(packages / name, copy)
        for command in commands:
            subprocess.run(command, cwd=copy, env=os.environ | {"HEADGATE_URL": url}, check=True)


def package_version(packages: Path, name: str) -> str:
    """The version of a package of JavaScript."""
    versions = json.loads((packages / "package.json").read_text())["dependencies"]
    return str(versions[name])


def module_version(path: str) -> str:
    """The version of a module of Go."""
    found = re.search(rf"{re.escape(path)} v(\S+)", (HERE / "go" / "go.mod").read_text())
    assert found is not None
    return found[1]
