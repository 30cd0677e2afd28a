"""Clients in other languages, each with a suite of its own in a folder here.

They need Node.js or Go and a package registry, which not every machine has. So ``make test`` leaves them out.
``make test-ci``, which continuous integration runs, and ``make interop`` name this file. It can be named by hand, too:

    python -m pytest tests/interop/other_languages.py
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.broker_process import BrokerAddress

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
QUEUES = 20
"""How many empty queues a suite gets: more than it has tests."""


@pytest.fixture
def suite(broker: BrokerAddress, peer: Any, tmp_path: Path) -> Callable[..., None]:
    """Run a suite by its commands in a copy of its folder, so that no file is installed into the source tree."""

    def run(folder: str, *commands: list[str], queue_prefix: str) -> None:
        missing = [command[0] for command in commands if shutil.which(command[0]) is None]
        if missing:
            pytest.skip(f"not installed: {missing[0]}")
        for number in range(QUEUES):
            assert peer.request("PUT", f"/queues/{queue_prefix}-{number}", {}).subject == "201"
        copy = shutil.copytree(HERE / folder, tmp_path / folder)
        for command in commands:
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

    return run


def test_rhea(suite):
    """JavaScript: rhea 3.0.5."""
    suite("rhea", ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["node", "--test"], queue_prefix="rhea")


def test_go_amqp(suite):
    """Go: github.com/Azure/go-amqp 1.7.0."""
    suite("go_amqp", ["go", "test", "-count=1", "-v", "./..."], queue_prefix="go")
