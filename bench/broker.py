"""The measured brokers: where they listen, and the CPU time and memory of their processes.

A broker is a process *tree*: CPU time and memory are summed over the process that listens and all its
descendants.
"""

from __future__ import annotations

import contextlib
import platform
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import psutil

from amqp10.cli.free_ports import free_ports
from amqp10.cli.trial_certificates import new_authority, new_server
from amqp10.load.handshake import Amqp10Conversation, Place
from amqp10.load.management import ManagementPair
from bench.peers.artemis_queues import PRODUCT, ArtemisManagement

AnyManagement: TypeAlias = "ManagementPair | ArtemisManagement"

START_SECONDS = 20.0
STOP_SECONDS = 10.0
CPUCLOCK_SCHED = 2
"""The kernel's name for a clock of CPU time in nanoseconds (include/linux/posix-timers.h)."""
ROOT = Path(__file__).parent.parent
SCRATCH = ROOT / ".headgate"
"""Where a broker that we start keeps its data; a temporary folder may be in memory rather than on a disk."""


class BrokerError(Exception):
    """A broker that cannot be started or found."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker. `name` is its product and version from its open frame; `others` are further processes that
    count, those of the other nodes of its cluster."""

    name: str
    url: str
    pid: int
    others: tuple[int, ...] = ()

    def cpu_seconds(self) -> float:
        """CPU time of the tree so far, in seconds, user and system."""
        return self._over_tree(_cpu_seconds)

    def resident_bytes(self) -> int:
        """Resident memory of the tree."""
        return int(self._over_tree(lambda process: process.memory_info().rss))

    def management(self) -> AnyManagement:
        """A connection that declares and deletes queues in the way that this broker has."""
        is_artemis = self.name.removeprefix("TLS, ").startswith(PRODUCT)
        return ArtemisManagement(self.url) if is_artemis else ManagementPair(self.url)

    def _over_tree(self, figure: Callable[[psutil.Process], float]) -> float:
        """Add up a figure of the broker's process and its children. A child that ends meanwhile is left out."""
        try:
            roots = [psutil.Process(pid) for pid in (self.pid, *self.others)]
            total = sum(map(figure, roots))
            children = [child for root in roots for child in root.children(recursive=True)]
        except psutil.Error as problem:
            raise BrokerError(f"the process of {self.name} is gone: {problem}") from problem
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                total += figure(child)
        return total


def _cpu_seconds(process: psutil.Process) -> float:
    """CPU time of one process so far.

    Linux has a clock for each process, whose number clock_getcpuclockid(3) makes in this way; it counts nanoseconds,
    which a run with few messages needs. Elsewhere the kernel's ticks of 10 ms must do. Raises psutil.NoSuchProcess.
    """
    if platform.system() == "Linux":
        try:
            return time.clock_gettime(~process.pid << 3 | CPUCLOCK_SCHED)
        except OSError as problem:  # it has ended
            raise psutil.NoSuchProcess(process.pid) from problem
    times = process.cpu_times()
    return float(times.user + times.system)


def connect(url: str, pid: int | None, *, others: Sequence[int] = ()) -> Broker:
    """Return the broker that listens at `url`; its process is found by the port when `pid` is not given. The name of a
    broker that is reached over TLS says so. `others`: see :class:`Broker`."""
    conversation = Amqp10Conversation(url, max_frame_size=131072, container_id="bench-name")
    name = ("TLS, " if Place.of(url).encrypted else "") + _name(conversation.properties)
    conversation.close()
    return Broker(name, url, pid if pid is not None else listening_pid(Place.of(url).port), tuple(others))


def _name(properties: Mapping[str, object]) -> str:
    """Product and version. Headgate's are in `information`, since it names RabbitMQ in the fields that clients
    check."""
    information = str(properties.get("information", ""))
    if information.startswith("Headgate"):
        return information
    return " ".join(str(properties[key]) for key in ("product", "version") if key in properties) or "unknown"


def listening_pid(port: int) -> int:
    """The process on this machine that listens on `port`."""
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            return int(connection.pid)
    raise BrokerError(f"no process that we may look at listens on port {port}: give its process id")


@contextlib.contextmanager
def started(command: str, *, configuration: str = "") -> Iterator[Broker]:
    """Start a broker on a free loopback port with a fresh data folder; it is stopped at the end.

    `command` may hold {python}, {port} and {data}. A `configuration` is written to a file that the broker is told with
    --config.
    """
    [port] = free_ports(1)
    SCRATCH.mkdir(exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="bench-", dir=SCRATCH))
    words = [word.format(python=sys.executable, port=port, data=data) for word in shlex.split(command)]
    if configuration:
        file = data.with_suffix(".toml")
        file.write_text(configuration)
        words += ["--config", str(file)]
    log = data.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=ROOT)
    try:
        await_listening(process, port, log)
        yield connect(f"amqp://guest:guest@127.0.0.1:{port}", process.pid)
    finally:
        _stop(process)
        shutil.rmtree(data, ignore_errors=True)
        log.unlink(missing_ok=True)
        data.with_suffix(".toml").unlink(missing_ok=True)


@contextlib.contextmanager
def started_with_tls(command: str) -> Iterator[tuple[Broker, Broker]]:
    """As :func:`started`; the second broker is the same process at its port with TLS, with a P-256 certificate."""
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tls-", dir=SCRATCH) as name:
        folder, [port] = Path(name), free_ports(1)
        server = new_server(new_authority(days=1), ["localhost"], days=1)
        (folder / "server.pem").write_bytes(server.certificate_pem)
        (folder / "server.key").write_bytes(server.key_pem)
        (folder / "broker.toml").write_text(
            f'[server]\ntls_listen = ["127.0.0.1:{port}"]\n'
            f'[tls]\ncertificate = "{folder / "server.pem"}"\nkey = "{folder / "server.key"}"\n'
        )
        with started(f"{command} --config {shlex.quote(str(folder / 'broker.toml'))}") as plain:
            url = f"amqps://guest:guest@127.0.0.1:{port}"
            yield plain, replace(plain, name=f"TLS, {plain.name}", url=url)


def await_listening(process: subprocess.Popen[bytes], port: int, log: Path, patience: float = START_SECONDS) -> None:
    """Wait until the process listens. Raises BrokerError when it dies, or takes longer than this many seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    last_words = log.read_text(errors="replace")[-2000:]
    raise BrokerError(f"the broker did not start to listen (exit status {process.poll()}):\n{last_words}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
