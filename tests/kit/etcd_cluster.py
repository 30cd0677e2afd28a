"""A real etcd of three members on the loopback interface, each in a process of its own."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from amqp10.cli.free_ports import free_ports
from core.cluster.etcd import Etcd, EtcdAway
from core.cluster.etcd_messages import MESSAGES, Message

START_S = 30.0
ASK_S = 1.0


class EtcdCluster:
    """The members, with their data in one folder."""

    def __init__(self, folder: Path, size: int = 3, *, options: Sequence[str] = ()) -> None:
        """``options``: more options of each member."""
        program = shutil.which("etcd")
        assert program is not None, "install etcd-server: .ci/packages"
        self._program = program
        self._folder = folder
        self._options = options
        ports = free_ports(2 * size)
        self.client_ports, self.peer_ports = ports[:size], ports[size:]
        """Where the members listen."""
        self.asked_ports, self.told_ports = self.client_ports, self.peer_ports
        """Where clients and the other members connect; others than those above if something is between them."""
        self.environment: dict[str, str] = {}
        """Variables of each member; ``{}`` in a value is its number."""
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def endpoints(self) -> list[str]:
        """Where clients connect."""
        return [f"127.0.0.1:{port}" for port in self.asked_ports]

    def folder(self, member: int) -> Path:
        """The data of a member."""
        return self._folder / f"m{member}"

    def start(self, member: int) -> None:
        """Start a member, also one that was killed."""
        url = f"http://127.0.0.1:{self.client_ports[member]}"
        peer = f"http://127.0.0.1:{self.peer_ports[member]}"
        everyone = ",".join(f"m{number}=http://127.0.0.1:{port}" for number, port in enumerate(self.told_ports))
        command = [
            self._program, "--name", f"m{member}", "--data-dir", str(self.folder(member)),
            "--listen-client-urls", url, "--advertise-client-urls", url,
            "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{self.told_ports[member]}",
            "--initial-cluster", everyone, "--log-level", "error", *self._options,
        ]  # fmt: skip
        environment = os.environ | {name: value.format(member) for name, value in self.environment.items()}
        with (self._folder / f"m{member}.log").open("ab") as log:
            self._processes[member] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def kill(self, member: int) -> None:
        """kill -9."""
        process = self._processes.pop(member)
        process.kill()
        process.wait()

    def pause(self, member: int) -> None:
        """Have a member stand still."""
        self._processes[member].send_signal(signal.SIGSTOP)

    def go_on(self, member: int) -> None:
        """Have it go on."""
        self._processes[member].send_signal(signal.SIGCONT)

    def ended(self, member: int) -> bool:
        """Whether the process of a member has ended by itself."""
        return self._processes[member].poll() is not None

    def started(self, member: int) -> bool:
        """Wait until a member that was started answers, or has ended by itself. Returns whether it answers."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.ended(member):
                return False
            if self._status(member) is not None:
                return True
            time.sleep(0.05)
        raise AssertionError(f"member {member} of etcd neither answers nor ends")

    def leader(self) -> int:
        """The member that leads. Waits until there is one."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            leading = [number for number in self._processes if self._leads(number)]
            if leading:
                return leading[0]
            time.sleep(0.05)
        raise AssertionError("etcd has no leader")

    def _leads(self, member: int) -> bool:
        status = self._status(member)
        return status is not None and bool(status.leader) and status.leader == status.header.member_id

    def _status(self, member: int) -> Message | None:
        """What a member says of itself; None if it does not answer."""
        etcd = Etcd([f"127.0.0.1:{self.client_ports[member]}"], lambda act: None)
        try:
            return etcd.ask_now("Maintenance/Status", MESSAGES["StatusRequest"](), timeout_s=ASK_S)
        except EtcdAway:
            return None
        finally:
            etcd.close()

    def stop(self) -> None:
        """End all members."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()


@contextmanager
def etcd_cluster(size: int = 3, *, options: Sequence[str] = ()) -> Iterator[EtcdCluster]:
    """Three members that have a leader, until the block ends."""
    with TemporaryDirectory(prefix="headgate-etcd-") as folder:
        cluster = EtcdCluster(Path(folder), size, options=options)
        try:
            for member in range(size):
                cluster.start(member)
            cluster.leader()
            yield cluster
        finally:
            cluster.stop()
