"""Makes the Python environment in .venv: ``python3 .ci/environment.py serve`` or ``test``.

``serve`` installs what the broker needs to run, and needs no compiler. ``test`` adds the tests' and checks' tools.
python-qpid-proton has to be built; where that is not possible, this says what is missing, and the tests that need it
are skipped (tests/conftest.py counts them). The pipeline's extra, of which Spark is half a gigabyte, is added where
there is Java for Spark; elsewhere this says so, and the tests of the pipeline are skipped.

What is installed already is not looked at again until pyproject.toml or constraints.txt changes.
"""

from __future__ import annotations  # an older Python must get as far as being told that it is too old

import hashlib
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
TEST_GROUPS = ("test", "check", "fuzz")
BUILT_GROUP = "interop"
EXTRA = "pipeline"


def main(level: str) -> int:
    """Make the environment, or say why not. Returns an exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this file runs before anything is installed
        return say(
            f"Headgate needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.12"
        )
    if not PYTHON.exists() and run(sys.executable, "-m", "venv", VENV) != 0:
        shutil.rmtree(VENV, ignore_errors=True)  # half an environment would pass for a whole one
        return say("Cannot make .venv; on Debian and Ubuntu: apt-get install python3-venv")
    groups = read_groups()
    wanted = ["--editable", "."]
    if level == "test":
        wanted += [requirement for group in TEST_GROUPS for requirement in groups[group]]
    if install(level, wanted) != 0:
        return say("Some packages could not be installed; see above.")
    if level == "test" and install(BUILT_GROUP, groups[BUILT_GROUP]) != 0:
        say("python-qpid-proton could not be built: the tests that need it are skipped.")
        missing = missing_packages()
        if missing:
            say("Missing: apt-get install " + " ".join(missing))
    if level == "test":
        return install_extra()
    return 0


def install_extra() -> int:
    """What the pipeline's tests need, where there is Java for Spark. Returns an exit code."""
    problem = runpy.run_path(str(ROOT / "amqp10" / "cli" / "java.py"))["java_problem"](os.environ)
    if problem is not None:
        say(f"The tests of the pipeline on Spark are skipped: {problem}.")
        return 0
    if install(EXTRA, ["--editable", f".[{EXTRA}]"]) != 0:
        return say("The pipeline's packages could not be installed; see above.")
    return 0


def read_groups() -> dict[str, list[str]]:
    """The dependency groups of pyproject.toml: pip reads them itself only since version 25.1."""
    import tomllib  # not before the version check

    with (ROOT / "pyproject.toml").open("rb") as file:
        groups: dict[str, list[str]] = tomllib.load(file)["dependency-groups"]
    return groups


def install(name: str, wanted: list[str]) -> int:
    """Install, unless it was done for the same files before. Returns pip's exit code."""
    stamp = VENV / f"installed-{name}"
    state = hashlib.sha256()
    for file in ("pyproject.toml", "constraints.txt"):
        state.update((ROOT / file).read_bytes())
    if stamp.exists() and stamp.read_text() == state.hexdigest():
        return 0
    say("Installing into .venv: " + name)
    code = run(
        PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "constraints.txt", *wanted
    )
    if code == 0:
        stamp.write_text(state.hexdigest())
    return code


def missing_packages() -> list[str]:
    """Those of .ci/packages that are not installed, where the system can tell."""
    if shutil.which("dpkg-query") is None:
        return []
    lines = (ROOT / ".ci" / "packages").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    names = [name for name, *program in rows if not any(map(shutil.which, program))]
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names], capture_output=True, text=True
    ).stdout
    return [name for name in names if name + " installed" not in shown.splitlines()]


def run(*command: object) -> int:
    """Run a command in the project's folder; its exit code."""
    return subprocess.run([str(part) for part in command], cwd=ROOT).returncode


def say(text: str) -> int:
    """Print for people; 1, to be returned as the exit code where it is a failure."""
    sys.stderr.write(text + "\n")
    return 1


if __name__ == "__main__":
    if sys.argv[1:] not in (["serve"], ["test"]):
        sys.exit(say(__doc__ or ""))
    sys.exit(main(sys.argv[1]))
