"""A real etcd of three members on the loopback interface, each in a process of its own."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from core.cluster.etcd import Etcd, EtcdAway
from core.cluster.etcd_messages import MESSAGES

START_S = 30.0
ASK_S = 1.0


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class EtcdCluster:
    """The members, with their data in one folder."""

    def __init__(self, folder: Path, size: int = 3) -> None:
        program = shutil.which("etcd")
        assert program is not None, "install etcd-server: .ci/packages"
        self._program = program
        self._folder = folder
        ports = free_ports(2 * size)
        self._clients, self._peers = ports[:size], ports[size:]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def endpoints(self) -> list[str]:
        """Where clients connect."""
        return [f"127.0.0.1:{port}" for port in self._clients]

    def start(self, member: int) -> None:
        """Start a member, also one that was killed."""
        url = f"http://127.0.0.1:{self._clients[member]}"
        peer = f"http://127.0.0.1:{self._peers[member]}"
        everyone = ",".join(f"m{number}=http://127.0.0.1:{port}" for number, port in enumerate(self._peers))
        command = [
            self._program, "--name", f"m{member}", "--data-dir", str(self._folder / f"m{member}"),
            "--listen-client-urls", url, "--advertise-client-urls", url,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", everyone, "--log-level", "error",
        ]  # fmt: skip
        with (self._folder / f"m{member}.log").open("ab") as log:
            self._processes[member] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, member: int) -> None:
        """kill -9."""
        process = self._processes.pop(member)
        process.kill()
        process.wait()

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
        etcd = Etcd(self.endpoints[member : member + 1], lambda act: None)
        try:
            status = etcd.ask_now("Maintenance/Status", MESSAGES["StatusRequest"](), timeout_s=ASK_S)
        except EtcdAway:
            return False
        finally:
            etcd.close()
        return bool(status.leader) and status.leader == status.header.member_id

    def stop(self) -> None:
        """End all members."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()


@contextmanager
def etcd_cluster(size: int = 3) -> Iterator[EtcdCluster]:
    """Three members that have a leader, until the block ends."""
    with TemporaryDirectory(prefix="headgate-etcd-") as folder:
        cluster = EtcdCluster(Path(folder), size)
        try:
            for member in range(size):
                cluster.start(member)
            cluster.leader()
            yield cluster
        finally:
            cluster.stop()
