"""Several real processes on one port: ``headgate serve --nodes``, with the means to reach a certain one of them."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingConnection

from tests.kit.broker_process import READY
from tests.kit.command_line import run_here
from tests.kit.prepared_broker import PreparedBroker

WAIT_S = 30.0
TRIES = 60
"""Connections that are tried until one is at the wanted node: of two nodes, a try finds it with probability 1/2."""


class OnePort:
    """The nodes, with their data in one folder."""

    def __init__(self, folder: Path, nodes: int, *arguments: str) -> None:
        """``arguments``: further options of the command."""
        self.folder, self.count, self._arguments = folder, nodes, arguments
        self._connections: list[BlockingConnection] = []
        self.log = folder.parent / f"{folder.name}.log"
        with self.log.open("a", encoding="utf-8") as log:
            self.process = PreparedBroker(*self.command(nodes), stderr=log.fileno())
        line = self.process.stdout.readline()
        match = READY.search(line)
        assert match is not None, f"it said {line!r}: {self.log.read_text(encoding='utf-8')[-4000:]}"
        self.port = int(match["port"])
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}"

    def command(self, nodes: int) -> list[str]:
        """The command that starts them."""
        options = ["--nodes", str(nodes), "--listen", "127.0.0.1:0", "--data", str(self.folder), "--admin", "off"]
        return ["serve", *options, *self._arguments]

    def pid(self, node: int) -> int:
        """The process of a node: that which has its data folder locked."""
        return int((self.folder / str(node) / "headgate.lock").read_text(encoding="ascii"))

    def connect(self, node: int) -> BlockingConnection:
        """A connection of AMQP 0.9.1 to a node; it is closed at the end."""
        parameters = pika.URLParameters(f"{self.url}/%2F?socket_timeout=10&blocked_connection_timeout=10")
        for _ in range(TRIES):
            one = pika.BlockingConnection(parameters)
            self._connections.append(one)
            if self.node_of(one) == node:
                return one
        raise AssertionError("no connection is at this node")

    def close(self) -> None:
        """Close the connections of the test."""
        for one in self._connections:
            with suppress(pika.exceptions.AMQPError):
                one.close()

    def node_of(self, connection: BlockingConnection) -> int:
        """The node at which a connection is."""
        client = connection._impl._transport._sock.getsockname()
        inode = _inode(self.port, client[1])
        return next(node for node in range(1, self.count + 1) if inode in _sockets_of(self.pid(node)))

    def run(self, *arguments: str) -> str:
        """What a command prints."""
        done = run_here(*arguments, url=self.url)
        assert done.code == 0, done.err
        return done.out

    def kill(self, node: int) -> None:
        """kill -9 of a node, which is started again. Returns when it is ready."""
        os.kill(self.pid(node), signal.SIGKILL)
        self.wait_for(node)

    def wait_for(self, node: int) -> None:
        """Wait until a node that was killed is ready again."""
        said = ""
        while f"node {node} is ready again" not in said:
            said = self.process.stdout.readline()
            assert said, self.log.read_text(encoding="utf-8")[-4000:]

    def stop(self, signal_: signal.Signals = signal.SIGTERM) -> int:
        """End all. Returns the status of the command."""
        self.process.send_signal(signal_)
        try:
            return self.process.wait(WAIT_S)
        finally:
            self.process.kill()
            self.process.stdout.close()


def _inode(local_port: int, remote_port: int) -> str:
    wanted = re.compile(rf"\s*\d+: \w+:{local_port:04X} \w+:{remote_port:04X} .*")
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()
    return next(line.split()[9] for line in lines if wanted.match(line))


def _sockets_of(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(link)
            if target.startswith("socket:["):
                found.add(target[8:-1])
    return found


def until(there: Callable[[], bool], what: str) -> None:
    """Wait for something."""
    began = time.monotonic()
    while not there():
        assert time.monotonic() < began + WAIT_S, what
        time.sleep(0.05)


@contextmanager
def one_port(folder: Path, nodes: int = 2, *arguments: str) -> Iterator[OnePort]:
    """Nodes on one port, until the block ends. ``arguments``: further options of the command."""
    running = OnePort(folder, nodes, *arguments)
    try:
        yield running
    finally:
        running.close()
        if running.process.poll() is None:
            assert running.stop() == 0
