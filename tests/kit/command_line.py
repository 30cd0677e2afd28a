"""Run commands of ``headgate`` in tests: in this process where that is enough, otherwise as processes of their own."""

import os
import subprocess
import sys
from dataclasses import dataclass

from tests.kit.broker_process import ROOT

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
