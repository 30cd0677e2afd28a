"""Clients of AMQP 0.9.1 in other languages.

They need Node.js and a package registry, or librabbitmq's command line tools (Debian: amqp-tools), which not every
machine has. So ``make test`` leaves them out. ``make test-ci``, which continuous integration runs, and ``make interop``
name this file. It can be named by hand, too:

    python -m pytest tests/interop/amqp091/other_languages.py
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
NO_MESSAGE = 2
"""The exit code of amqp-get for an empty queue."""


def needs(program):
    if shutil.which(program) is None:
        pytest.skip(f"not installed: {program}")


def test_amqplib(broker, tmp_path):
    """JavaScript: amqplib 2.3.1, in a copy of its folder, so that nothing is installed into the source tree."""
    copy = shutil.copytree(HERE / "amqplib", tmp_path / "amqplib")
    for command in (["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["node", "--test"]):
        needs(command[0])
        done = subprocess.run(
            command,
            cwd=copy,
            env=os.environ | {"HEADGATE_URL": broker.url()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(done.stdout)
        assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}"


@pytest.fixture
def tool(broker):
    """A function that runs one of librabbitmq's tools, and returns its exit code and output."""

    def run(name, *arguments, given=b""):
        needs(f"amqp-{name}")
        command = [f"amqp-{name}", "--url", broker.url(), *arguments]
        done = subprocess.run(command, input=given, stdout=subprocess.PIPE, timeout=20)
        return done.returncode, done.stdout

    return run


def test_librabbitmqs_tools(tool, queue_name):
    """C: declare, publish, get, consume, delete."""
    big = bytes(1_000_000)
    assert tool("declare-queue", "--queue", queue_name, "--durable") == (0, queue_name.encode() + b"\n")
    publish = ("publish", "--routing-key", queue_name)
    assert tool(*publish, "--persistent", "--content-type", "text/plain", "--header", "a: b", "--body", "one")[0] == 0
    assert tool(*publish, "--line-buffered", given=b"two\nthree\n")[0] == 0
    assert tool(*publish, given=big)[0] == 0
    assert tool("get", "--queue", queue_name) == (0, b"one")
    assert tool("consume", "--queue", queue_name, "--count", "2", "--prefetch-count", "1", "cat") == (
        0,
        b"two\nthree\n",
    )
    assert tool("get", "--queue", queue_name) == (0, big)
    assert tool("get", "--queue", queue_name) == (NO_MESSAGE, b"")
    assert tool("delete-queue", "--queue", queue_name) == (0, b"0\n")
    assert tool("get", "--queue", queue_name)[0] == 1
