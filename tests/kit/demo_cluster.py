"""``headgate demo cluster`` in a process of its own, and what it prints."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kit.broker_process import ROOT

SECONDS_MAX = 90.0
READY = re.compile(r"(?P<name>[abc]) \| is ready at (?P<url>\S+), process (?P<pid>\d+)(, console (?P<console>\S+))?")
LEADER = re.compile(r"(?P<name>[abc]) leads group \d+, which has the queue orders")
NEXT_LEADER = re.compile(r"(?P<name>[abc]) \| leads group \d+ with queue orders now, (?P<seconds>[\d.]+) s after")


class RunningDemo:
    """The process, and its lines so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._came = threading.Condition()
        self._over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Read what is left of a process that has ended."""
        assert self.process.stdout is not None
        self._reader.join(SECONDS_MAX)
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._came:
                self.lines.append(line)
                self._came.notify_all()
        with self._came:
            self._over = True
            self._came.notify_all()

    def until(self, pattern: str | re.Pattern[str], *, after: int = 0) -> re.Match[str]:
        """Wait for a line, and pass so many lines by."""
        wanted = re.compile(pattern)

        def found() -> re.Match[str] | None:
            return next((match for line in self.lines[after:] if (match := wanted.search(line))), None)

        with self._came:
            self._came.wait_for(lambda: found() is not None or self._over, SECONDS_MAX)
            match = found()
        assert match is not None, "".join(self.lines)
        return match

    def nodes(self) -> dict[str, tuple[str, int]]:
        """The URL and the process of each node."""
        self.until("Press Enter")
        return {match["name"]: (match["url"], int(match["pid"])) for match in map(READY.search, self.lines) if match}

    def console(self, name: str) -> str:
        """The URL of a node's console."""
        found = next(match for match in map(READY.search, self.lines) if match and match["name"] == name)
        return found["console"]

    def leader(self) -> str:
        """The node that leads the group of the queue, from the start on."""
        return self.until(LEADER)["name"]


@contextmanager
def demo_cluster(*arguments: str, stdin: int = subprocess.DEVNULL) -> Iterator[RunningDemo]:
    """A demo on free ports, until the block ends."""
    command = [sys.executable, "-m", "amqp10", "demo", "cluster", "--port", "0", *arguments]
    environment = os.environ | {"HEADGATE_LISTEN": "127.0.0.1:1"}  # is for other commands than those of the demo
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    demo = RunningDemo(process)
    try:
        yield demo
    finally:
        process.terminate()
        try:
            process.wait(SECONDS_MAX)
        finally:
            process.kill()
            demo.close()
