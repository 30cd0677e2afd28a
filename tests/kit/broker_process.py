"""A whole broker in a process of its own, for tests with other projects' clients and of the process itself."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kit.prepared_broker import PreparedBroker

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(
    r"is ready at amqp://(?:guest:guest@)?(?P<host>[^:]+):(?P<port>\d+)"
    r"(?: and amqps://(?:guest:guest@)?[^:]+:(?P<tls_port>\d+))? \(pid (?P<pid>\d+)\)"
)
STOP_SECONDS = 10.0
UNPREPARED = ("amqp10",)


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
def broker_process(*arguments: str, program: Sequence[str] = (), tree: Path = ROOT) -> Iterator[BrokerAddress]:
    """``headgate serve`` on a free port of the loopback interface, until the block ends. Its log goes to our stderr.

    The broker is prepared (see :mod:`tests.kit.prepared_broker`), except with a ``program``: a module that runs the
    same command and may do something else before, and :data:`UNPREPARED` where the cost of a broker is measured.
    ``tree`` is the checkout whose broker is started; another one than this has its own environment in ``.venv``.
    Without ``--data`` among the arguments the broker keeps its data in a temporary folder. Without ``--admin`` or
    ``--config`` there is no admin server, whose code takes a quarter of a second to load.
    """
    with TemporaryDirectory(prefix="headgate-") as folder:
        data = [] if "--data" in arguments else ["--data", folder]
        admin = [] if {"--config", "--admin"} & set(arguments) else ["--admin", "off"]
        options = ["serve", "--listen", "127.0.0.1:0", *data, *admin, *arguments]
        if program or tree != ROOT:
            python = sys.executable if tree == ROOT else str(tree / ".venv" / "bin" / "python")
            command = [python, "-m", *(program or UNPREPARED), *options]
            process = subprocess.Popen(command, cwd=tree, stdout=subprocess.PIPE, text=True)
            yield from _until_the_end(process)
        else:
            yield from _until_the_end(PreparedBroker(*options))


def _until_the_end(process: subprocess.Popen[str] | PreparedBroker) -> Iterator[BrokerAddress]:
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
