"""Makes the Python environment in .venv: ``python3 .ci/environment.py serve``, ``serve fastest`` or ``test``.

``serve`` installs what the broker needs to run, and needs no compiler. ``test`` adds the tests' and checks' tools.
python-qpid-proton has to be built; where that is not possible, this says what is missing, and the tests that need it
are skipped (tests/conftest.py counts them). The pipeline's extra, of which Spark is half a gigabyte, is added where
there is Java for Spark; elsewhere this says so, and the tests of the pipeline are skipped.

With ``fastest``, a new .venv gets the fastest Python that the PATH has, and this says which. Four fifths of the
broker's CPU time are the interpreter's, and interpreters differ by a third: by their version, and by whether they were
built with profile-guided optimisation, which their own description often does not tell. So each one is
measured. An .venv that is there keeps its Python.

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
NAMES = ("python3.14", "python3.13", "python3.12", "python3.11")
"""The versions that the tests run on, and that are looked for."""
MEASURE = """
import time, venv, ensurepip
class Link:
    def __init__(self): self.credit = 0
    def grant(self, count): self.credit += count
def work():
    start, link, seen = time.perf_counter(), Link(), {}
    for number in range(20000):
        link.grant(number & 7)
        seen[number & 255] = (number, bytes(8)[2:4])
    return time.perf_counter() - start
print(min(work() for _ in range(9)))
"""
"""Calls of methods, attributes, dictionaries and slices, as a broker makes them: the least of nine times, about 3 ms
each. A Python that cannot make an environment fails at the imports."""
BUILT_GROUP = "interop"
EXTRA = "pipeline"
EXTRA_GROUP = "lake"


def main(level: str, *, fastest: bool = False) -> int:
    """Make the environment, or say why not. Returns an exit code."""
    if fastest and not PYTHON.exists():
        python = fastest_python()
        if python != sys.executable:
            os.execv(python, [python, __file__, level])
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
        return install_extra(groups[EXTRA_GROUP])
    return 0


def fastest_python() -> str:
    """The path of the fastest Python among this one and those on the PATH; says which it is if there was a choice."""
    paths = {os.path.realpath(sys.executable): sys.executable}
    for folder in os.get_exec_path():
        for path in (shutil.which(name, path=folder) for name in NAMES):
            if path is not None:
                paths.setdefault(os.path.realpath(path), path)
    seconds = {}
    for path in paths.values():
        done = subprocess.run([path, "-I", "-c", MEASURE], capture_output=True, text=True)
        if done.returncode == 0:  # a version manager's shims are there for versions that are switched off, too
            seconds[path] = float(done.stdout)
    if sys.version_info < (3, 11) and len(seconds) > 1:
        del seconds[sys.executable]
    best = min(seconds, key=lambda path: seconds[path])
    if len(seconds) > 1:
        compared = ", ".join(f"{path} {time * 1000:.1f} ms" for path, time in sorted(seconds.items()))
        say(f"Headgate gets {best}, the fastest Python here for a short piece of work: {compared}.")
    return best


def install_extra(lake: list[str]) -> int:
    """What the tests of the pipeline and of the connector need, where there is Java for Spark. Returns an exit code."""
    problem = runpy.run_path(str(ROOT / "amqp10" / "cli" / "java.py"))["java_problem"](os.environ)
    if problem is not None:
        say(f"The tests of the pipeline on Spark are skipped: {problem}.")
        return 0
    if install(EXTRA, ["--editable", f".[{EXTRA}]", *lake]) != 0:
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
    if sys.argv[1:] not in (["serve"], ["serve", "fastest"], ["test"]):
        sys.exit(say(__doc__ or ""))
    sys.exit(main(sys.argv[1], fastest="fastest" in sys.argv))
