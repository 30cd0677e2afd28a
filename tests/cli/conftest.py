"""One broker process for all tests of the command line, and a way to run commands in this process."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run

HEADGATE = (sys.executable, "-m", "amqp10")
READY = re.compile(r"Headgate \S+ is ready at (amqp://guest:guest@127\.0\.0\.1:\d+) \(pid (\d+)\)\n")


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: Exit
    out: str
    err: str


@pytest.fixture(scope="session")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running broker; that it starts with a ready line and stops orderly is part of every test."""
    data = tmp_path_factory.mktemp("data")
    command = (*HEADGATE, "serve", "--listen", "127.0.0.1:0", "--data", str(data))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        ready = READY.fullmatch(process.stdout.readline())
        assert ready is not None
        assert int(ready[2]) == process.pid
        yield ready[1]
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert (process.wait(10), rest) == (0, "")


@pytest.fixture
def headgate(broker_url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command against the broker, unless it brings a --url of its own."""

    def call(*words: str) -> Ran:
        where = () if "--url" in words else ("--url", broker_url)
        code = run([*words, *where])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ran(code, captured.out, captured.err)

    return call
