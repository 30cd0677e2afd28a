"""A whole broker in a process of its own, for tests with other projects' clients and of the process itself."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(
    r"is ready at amqp://(?:guest:guest@)?(?P<host>[^:]+):(?P<port>\d+)"
    r"(?: and amqps://(?:guest:guest@)?[^:]+:(?P<tls_port>\d+))? \(pid (?P<pid>\d+)\)"
)
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The address on which a broker listens, and its process id."""

    host: str
    port: int
    pid: int
    tls_port: int = 0
    """0 without a port for TLS."""

    def url(self, user: str = "guest:guest", path: str = "") -> str:
        """The URL for clients of AMQP 1.0."""
        return f"amqp://{user}@{self.host}:{self.port}{path}"


@contextmanager
def broker_process(*arguments: str, program: Sequence[str] = ("amqp10",), tree: Path = ROOT) -> Iterator[BrokerAddress]:
    """``headgate serve`` on a free port of the loopback interface, until the block ends. Its log goes to our stderr.

    ``program`` is a module that runs the same command; it may do something else before. ``tree`` is the checkout whose
    broker is started; another one than this has its own environment in ``.venv``. Without ``--data`` among the
    arguments the broker keeps its data in a temporary folder. Without ``--admin`` or ``--config`` there is no admin
    server, whose code takes a quarter of a second to load.
    """
    with TemporaryDirectory(prefix="headgate-") as folder:
        data = [] if "--data" in arguments else ["--data", folder]
        admin = [] if {"--config", "--admin"} & set(arguments) else ["--admin", "off"]
        yield from _broker_process(program, [*data, *admin, *arguments], tree)


def _broker_process(program: Sequence[str], arguments: Sequence[str], tree: Path) -> Iterator[BrokerAddress]:
    python = sys.executable if tree == ROOT else str(tree / ".venv" / "bin" / "python")
    command = [python, "-m", *program, "serve", "--listen", "127.0.0.1:0", *arguments]
    process = subprocess.Popen(command, cwd=tree, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = READY.search(line)
        assert match is not None, f"the broker said {line!r}"
        yield BrokerAddress(match["host"], int(match["port"]), int(match["pid"]), int(match["tls_port"] or 0))
    finally:
        process.terminate()
        try:
            status = process.wait(STOP_SECONDS)
        finally:
            process.kill()
            process.stdout.close()
    assert status == 0, f"the broker ended with status {status}"
