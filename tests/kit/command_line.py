"""Run commands of ``headgate`` in tests: in this process where that is enough, otherwise as processes of their own."""

import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from tempfile import TemporaryFile
from threading import Timer

from amqp10.cli.main import run
from tests.kit.broker_process import ROOT
from tests.kit.prepared_broker import PreparedBroker

HEADGATE = (sys.executable, "-m", "amqp10")


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str


def start(*command: str, url: str) -> subprocess.Popen[str]:
    """Start a command in the background, with the broker's URL in its environment."""
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"HEADGATE_URL": url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_process(*command: str, url: str, given: str = "", time_out_s: float = 60.0) -> Ran:
    """Run a command to its end, with this text on its standard input."""
    process = start(*command, url=url)
    try:
        out, err = process.communicate(given, timeout=time_out_s)
    finally:
        process.kill()
    return Ran(process.returncode, out, err)


def run_forked(*words: str, url: str, time_out_s: float = 60.0) -> Ran:
    """Run a command of ``headgate`` that reads no input, in a process of its own that is a fork (see
    :mod:`tests.kit.prepared_broker`): it does not import everything again."""
    with TemporaryFile("w+", encoding="utf-8") as errors:
        process = PreparedBroker(*words, stderr=errors.fileno(), environment=os.environ | {"HEADGATE_URL": url})
        late = Timer(time_out_s, process.kill)
        late.start()
        try:
            with process.stdout:
                out = process.stdout.read()
            code = process.wait(time_out_s)
        finally:
            late.cancel()
            process.kill()
        errors.seek(0)
        return Ran(code, out, errors.read())


def run_here(*words: str, url: str) -> Ran:
    """Run a command of ``headgate`` in this process, where all of it is loaded already. A process takes a second."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run([*words, "--url", url])
    return Ran(code, out.getvalue(), err.getvalue())
