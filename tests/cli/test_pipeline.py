"""``headgate pipeline`` becomes ``python -m pipeline``, or prints one line that says what is missing."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.java import java_problem, java_version
from amqp10.cli.main import run
from tests.kit.broker_process import ROOT
from tests.kit.command_line import HEADGATE

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None  # Python then finds no such module
from amqp10.cli.main import run
sys.exit(run(["pipeline", "run"]))
"""
INSTALL_JAVA = "install Java 17 or newer (on Debian and Ubuntu: apt-get install openjdk-17-jre-headless)"


def fake_java(folder: Path, says: str) -> Path:
    """A program ``bin/java`` in this folder that prints a text on standard error, as ``java -version`` does."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'end'\n{says}\nend\n", encoding="ascii")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx="1"\nopenjdk version "25-ea" 2025-09-16', 25),
        ('java version "1.8.0_401"', 8),
        ("nothing", None),
    ],
)
def test_versions_of_java(tmp_path: Path, says: str, version: int | None):
    assert java_version(str(fake_java(tmp_path, says))) == version


def test_a_java_that_will_do(tmp_path: Path):
    fake_java(tmp_path, 'openjdk version "17.0.15"')
    assert java_problem({"JAVA_HOME": str(tmp_path)}) is None
    assert java_problem({"PATH": f"{tmp_path / 'bin'}:/bin"}) is None


def test_java_home_goes_before_path_as_in_spark(tmp_path: Path):
    fake_java(tmp_path / "old", 'java version "1.8.0_401"')
    fake_java(tmp_path / "new", 'openjdk version "17.0.15"')
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")}
    assert java_problem(environ) == (
        f"{tmp_path / 'old' / 'bin' / 'java'} is Java 8, and Spark needs 17; {INSTALL_JAVA}"
    )


def test_no_java(tmp_path: Path):
    remedy = f"{INSTALL_JAVA}, or set JAVA_HOME to the folder of one"
    assert java_problem({"PATH": str(tmp_path)}) == f"there is no Java in PATH; {remedy}"
    assert java_problem({"JAVA_HOME": str(tmp_path)}) == f"there is no Java in JAVA_HOME={tmp_path}; {remedy}"
    java = fake_java(tmp_path, "nothing")
    assert java_problem({"JAVA_HOME": str(tmp_path)}) == f"{java} does not tell its version; {INSTALL_JAVA}"


@pytest.mark.parametrize("command", ["run", "watch", "report", "generate", "archive", "replay"])
def test_help_has_an_example_and_the_exit_codes(command: str, capsys: pytest.CaptureFixture[str]):
    assert run(["pipeline", command, "--help"]) is Exit.DONE
    words = " ".join(capsys.readouterr().out.split())
    assert f"headgate pipeline {command}" in words.partition("For example:")[2]
    assert "Exit codes: 0 done," in words


@pytest.mark.slow
def test_pyspark_need_not_be_installed():
    ran = subprocess.run([sys.executable, "-c", WITHOUT_SPARK], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == Exit.USAGE
    assert re.fullmatch(
        r"headgate: the pipeline needs packages that are not installed: pyspark\b[a-z, ]*; "
        r"install them in a checkout of Headgate with: pip install -e '\.\[pipeline\]'\n",
        ran.stderr,
    )


@pytest.mark.slow
def test_java_is_asked_for_before_spark_is_started(tmp_path: Path):
    environ = os.environ | {"JAVA_HOME": str(tmp_path)}
    words = [*HEADGATE, "pipeline", "run", "--events", "none", "--warehouse", "none"]
    ran = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60)
    assert ran.returncode == Exit.USAGE
    said = "the pipeline needs" if find_spec("pyspark") is None else "headgate pipeline run runs on Spark, and there is"
    assert ran.stderr.startswith(f"headgate: {said}")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyspark") is None, reason="not installed: pyspark")
def test_options_and_the_exit_code_are_those_of_the_pipeline(tmp_path: Path):
    """This also holds in a folder that has a package named pipeline."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__main__.py").write_text("print('another')")
    words = [sys.executable, "-P", "-m", "amqp10", "pipeline", "generate"]

    def headgate(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*words, *options], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    made = headgate("--workload", "queue", "--events", "1000", "--out", "events")
    assert (made.returncode, "records" in made.stdout) == (0, True), made.stderr
    assert any((tmp_path / "events").iterdir())
    assert headgate("--workload", "no-such-workload", "--out", "others").returncode == Exit.USAGE
