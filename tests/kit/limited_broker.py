"""A whole broker that may have few descriptors, in a process of its own: ``python -m tests.kit.limited_broker``.

Its arguments are the data folder, how many descriptors the process may have, and how many it uses up by itself. It
prints the port, and after the stop its counters as JSON. Its log goes to standard error.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from amqp10.cli.config import read_with_origins
from amqp10.serve import AllProtocols
from core import process
from core.server.signals import Signals

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 10.0


@dataclass(slots=True)
class LimitedBroker:
    """A broker process with few descriptors. ``counted`` and ``log`` are filled in when it has stopped."""

    port: int
    counted: dict[str, object] = field(default_factory=dict)
    log: list[dict[str, object]] = field(default_factory=list)

    def logged(self, event: str) -> list[dict[str, object]]:
        """The log's lines of one event."""
        return [line for line in self.log if line["event"] == event]


@contextmanager
def limited_broker(folder: Path, *, limit: int, used_up: int = 0) -> Iterator[LimitedBroker]:
    """Run the process for the block. It must end with status 0."""
    command = [sys.executable, "-m", "tests.kit.limited_broker", str(folder / "data"), str(limit), str(used_up)]
    log_file = folder / "broker.log"
    with log_file.open("w") as log:
        running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
    assert running.stdout is not None
    try:
        broker = LimitedBroker(int(running.stdout.readline()))
        yield broker
        running.send_signal(signal.SIGTERM)
        assert running.wait(STOP_SECONDS) == 0, log_file.read_text()[-2000:]
        broker.counted = json.loads(running.stdout.readline())
        broker.log = [json.loads(line) for line in log_file.read_text().splitlines()]
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def main() -> None:
    """Serve until a signal comes."""
    limit, used_up = (int(argument) for argument in sys.argv[2:])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(used_up)]
    settings, _ = read_with_origins(
        None,
        (),
        {"server.listen": ["127.0.0.1:0"], "data.folder": sys.argv[1], "log.form": "json", "admin.enabled": False},
    )
    protocols = AllProtocols()
    with Signals() as signals:
        trio.run(partial(process.serve, settings, protocols, ready=say_port, signals=signals, read=lambda: settings))
    assert protocols._control is not None
    assert protocols._control.server is not None
    print(json.dumps(protocols._control.server.snapshot("server")[0]), flush=True)
    for descriptor in held:
        os.close(descriptor)


def say_port(addresses: Sequence[tuple[str, int]], _: str, __: object) -> None:
    """Print the port as the first line of output."""
    print(addresses[0][1], flush=True)


if __name__ == "__main__":
    main()
