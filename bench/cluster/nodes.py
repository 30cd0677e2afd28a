"""The clusters that are measured: three nodes of Headgate that this program starts, and three of another broker."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import psutil

from amqp10.cli.cluster_files import PlannedNode, configuration
from amqp10.cli.exits import CommandError
from amqp10.cli.free_ports import HOST, free_ports
from amqp10.cli.remote import ask_once, row_of
from bench.broker import ROOT, SCRATCH, Broker, BrokerError, connect
from core.cluster.etcd import STATUS, Etcd, EtcdAway
from core.cluster.etcd_messages import MESSAGES
from core.tied_process import tied

NAMES = ("a", "b", "c")
START_SECONDS = 60.0
RESTART_SECONDS = 120.0
"""A broker that comes back reads its data, and has to catch up."""
LOOK_SECONDS = 0.1
STATUS_SECONDS = 1.0
"""How long a member of etcd may take to say who leads: it asks no other one for that."""
Row = Mapping[str, object]


class MeasuredCluster(Protocol):
    """Three nodes."""

    @property
    def brokers(self) -> Sequence[Broker]:
        """Each node, as clients connect to it; CPU time and memory of each are those of all processes of all nodes."""

    def leads_engine(self, number: int) -> bool | None:
        """Whether the member of etcd that belongs to a node leads the others; None for a cluster without etcd. Raises
        BrokerError."""

    def kill(self, number: int) -> None:
        """kill -9 of everything that belongs to a node."""

    def restart(self, number: int) -> None:
        """Start a node again, and wait until it has what the others have. Raises BrokerError."""


class OwnCluster:
    """Three nodes of Headgate from this tree, each of which starts and watches an etcd of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ports = free_ports(3 * len(NAMES))
        self._nodes = [PlannedNode(name, HOST, *ports[at :: len(NAMES)]) for at, name in enumerate(NAMES)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._brokers: list[Broker] = []
        for one in self._nodes:
            text = configuration(one, self._nodes, cluster="bench", data=folder / one.name, certificates=None)
            (folder / f"{one.name}.toml").write_text(f"{text}\n[admin]\nenabled = false\n", encoding="utf-8")

    @property
    def brokers(self) -> Sequence[Broker]:
        """See :class:`MeasuredCluster`, also for the methods below."""
        return self._brokers

    def start(self) -> None:
        """Start all nodes, and wait until each leads what it should lead. Raises BrokerError."""
        self._processes = [self._start(number) for number in range(len(NAMES))]
        self._until(self._is_ready, START_SECONDS)
        self._look()

    def stop(self) -> None:
        """End all nodes; each etcd ends with its broker."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def etcd_seconds(self) -> float:
        """The CPU time of all members of etcd so far."""
        members = [child for one in self._processes for child in psutil.Process(one.pid).children()]
        return float(sum(sum(member.cpu_times()[:2]) for member in members))

    def leads_engine(self, number: int) -> bool | None:
        etcd = Etcd([self._nodes[number].at(self._nodes[number].etcd_port)], lambda act: None)
        try:
            status = etcd.ask_now(STATUS, MESSAGES["StatusRequest"](), timeout_s=STATUS_SECONDS)
        except EtcdAway as error:
            raise BrokerError(str(error)) from None
        finally:
            etcd.close()
        return bool(status.leader == status.header.member_id)

    def kill(self, number: int) -> None:
        process = self._processes[number]
        etcd = psutil.Process(process.pid).children()
        process.kill()
        process.wait()
        psutil.wait_procs(etcd, timeout=START_SECONDS)  # another one would not start in the same folder

    def restart(self, number: int) -> None:
        self._processes[number] = self._start(number)
        self._until(self._is_ready, RESTART_SECONDS)
        self._look()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        name = NAMES[number]
        command = [sys.executable, "-m", "amqp10", "serve", "--config", str(self._folder / f"{name}.toml")]
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(tied(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT)

    def _look(self) -> None:
        pids = [process.pid for process in self._processes]
        self._brokers = [
            connect(f"amqp://guest:guest@{one.at(one.port)}", pid, others=[other for other in pids if other != pid])
            for one, pid in zip(self._nodes, pids, strict=True)
        ]

    def _is_ready(self) -> bool:
        """Whether all nodes are there and lead what they should lead, and each has a copy of everything."""
        groups: list[Row] = []
        for one in self._nodes:
            status = row_of(ask_once(f"amqp://guest:guest@{one.at(one.port)}", "cluster.status"))
            nodes, groups = _rows(status, "nodes"), _rows(status, "groups")
            if not all(node["here"] for node in nodes) or not groups:
                return False
            if any(group["trouble"] or not group["leader"] or any(_lags(group)) for group in groups):
                return False
        if {group["leader"] for group in groups} == set(NAMES):
            return True
        ask_once(f"amqp://guest:guest@{self._nodes[0].at(self._nodes[0].port)}", "cluster.rebalance")
        return False

    def _until(self, there: Callable[[], bool], seconds: float) -> None:
        deadline, why = time.monotonic() + seconds, "a node lags behind"
        while time.monotonic() < deadline:
            if ended := [name for name, one in zip(NAMES, self._processes, strict=True) if one.poll() is not None]:
                log = (self._folder / f"{ended[0]}.log").read_text(errors="replace")[-2000:]
                raise BrokerError(f"node {ended[0]} has ended:\n{log}")
            try:
                if there():
                    return
            except CommandError as error:
                why = str(error)
            time.sleep(LOOK_SECONDS)
        raise BrokerError(f"the cluster is not ready after {seconds:g} s: {why}")


def _rows(status: Row, name: str) -> list[Row]:
    found = status[name]
    assert isinstance(found, list)
    return found


def _lags(group: Row) -> list[int]:
    lag = group["lag"]
    assert isinstance(lag, Mapping)
    return list(lag.values())


@contextlib.contextmanager
def own_cluster() -> Iterator[OwnCluster]:
    """Three nodes of Headgate until the block ends. Raises BrokerError."""
    if shutil.which("etcd") is None:
        raise BrokerError("no program etcd on PATH: install it (on Debian: apt install etcd-server)")
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cluster-", dir=SCRATCH, ignore_cleanup_errors=True) as folder:
        cluster = OwnCluster(Path(folder))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


class PeerCluster:
    """Three nodes of another broker, which run already."""

    def __init__(self, urls: Sequence[str], pids: Sequence[int], restart: str) -> None:
        """``restart``: the command that starts a node again, whose number from 1 stands for {number}, and prints its
        process id; empty if there is none. Raises BrokerError, WireError and OSError."""
        self._urls, self._restart = urls, restart
        self._pids = list(pids)
        self._brokers: list[Broker] = []
        self._look()

    @property
    def brokers(self) -> Sequence[Broker]:
        """See :class:`MeasuredCluster`, also for the methods below."""
        return self._brokers

    @property
    def restarts(self) -> bool:
        """Whether a node that was killed can be started again."""
        return bool(self._restart)

    def leads_engine(self, number: int) -> bool | None:
        return None

    def kill(self, number: int) -> None:
        process = psutil.Process(self._pids[number])
        os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs([process], timeout=START_SECONDS)

    def restart(self, number: int) -> None:
        words = [word.format(number=number + 1) for word in shlex.split(self._restart)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=RESTART_SECONDS, check=False)
        if done.returncode or not (printed := done.stdout.split()) or not printed[-1].isdigit():
            raise BrokerError(f"{words[0]} printed no process id: {done.stdout}{done.stderr}")
        self._pids[number] = int(printed[-1])
        self._look()

    def _look(self) -> None:
        self._brokers = [
            connect(url, pid, others=[other for other in self._pids if other != pid])
            for url, pid in zip(self._urls, self._pids, strict=True)
        ]
