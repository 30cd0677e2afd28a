"""Three real brokers that form a cluster over a real etcd, each in a process of its own."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from amqp10.cli.free_ports import free_ports
from tests.kit.broker_process import BrokerAddress
from tests.kit.command_line import run_here
from tests.kit.etcd_cluster import EtcdCluster, etcd_cluster
from tests.kit.prepared_broker import PreparedBroker

NAMES = ("a", "b", "c")
WAIT_S = 30.0
READY = re.compile(r"is ready at amqp://guest:guest@127\.0\.0\.1:\d+ \(pid (\d+)\)")


class ClusterNodes:
    """The nodes, with their data in one folder."""

    def __init__(self, folder: Path, etcd: EtcdCluster, groups: int, more: str = "", *, forwards: bool = False) -> None:
        """``more``: further lines of each node's section [cluster], and sections behind it."""
        self.etcd = etcd
        self.environment: dict[str, str] = {}
        """Variables of each node; ``{}`` in a value is its number."""
        self._folder = folder
        self._ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        self.processes: dict[str, PreparedBroker] = {}
        for name in NAMES:
            members = ", ".join(f'"{one}"' for one in NAMES)
            endpoints = ", ".join(f'"{one}"' for one in etcd.endpoints)
            (folder / f"{name}.toml").write_text(
                f'[server]\nlisten = ["127.0.0.1:{self._ports[name]}"]\n[admin]\nenabled = false\n'
                f'[data]\nfolder = "{folder / name}"\n'
                f'[cluster]\nnode = "{name}"\nmembers = [{members}]\netcd = [{endpoints}]\ngroups = {groups}\n'
                f"trust_loopback = {str(forwards).lower()}\n{more}",
                encoding="utf-8",
            )

    def url(self, name: str) -> str:
        """Where clients connect to a node."""
        return f"amqp://guest:guest@127.0.0.1:{self._ports[name]}"

    def address(self, name: str) -> BrokerAddress:
        """The same, for the clients of the tests."""
        return BrokerAddress("127.0.0.1", self._ports[name], self.processes[name].pid)

    def data(self, name: str) -> Path:
        """The data folder of a node."""
        return self._folder / name

    def start(self, *names: str) -> None:
        """Start nodes at the same time, and wait until each listens."""
        for name in names:
            self._begin(name)
        for name in names:
            line = self._first_line(name)
            assert READY.search(line), f"{name} said {line!r}: {self.log(name)}"

    def try_to_start(self, name: str) -> str:
        """Start a node. Returns the first line that it prints, which is empty if it ends."""
        self._begin(name)
        return self._first_line(name)

    def _begin(self, name: str) -> None:
        log = (self._folder / f"{name}.log").open("a", encoding="utf-8")
        number = NAMES.index(name)
        environment = os.environ | {key: value.format(number) for key, value in self.environment.items()}
        with log:
            self.processes[name] = PreparedBroker(
                "serve", "--config", str(self._folder / f"{name}.toml"), stderr=log.fileno(), environment=environment
            )

    def _first_line(self, name: str) -> str:
        return self.processes[name].stdout.readline()

    def log(self, name: str) -> str:
        """The last lines of a node's log."""
        return (self._folder / f"{name}.log").read_text(encoding="utf-8")[-4000:]

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        process.stdout.close()

    def stop(self) -> None:
        """End all nodes."""
        for name in list(self.processes):
            self.kill(name)

    def status(self, name: str) -> dict:
        """What headgate cluster status says at a node."""
        return json.loads(self.command(name, "cluster", "status", "--json"))

    def command(self, name: str, *arguments: str) -> str:
        """What a command prints."""
        done = run_here(*arguments, url=self.url(name))
        assert done.code == 0, done.err
        return done.out

    def leaders(self, name: str) -> dict[int, str | None]:
        """The leader of each group, as a node sees it."""
        return {row["group"]: row["leader"] for row in self.status(name)["groups"]}

    def until(self, there: Callable[[], bool], what: str) -> float:
        """Wait for something. Returns after how many seconds it was there."""
        began = time.monotonic()
        while not there():
            assert time.monotonic() < began + WAIT_S, (what, [self.log(name) for name in self.processes])
            time.sleep(0.1)
        return time.monotonic() - began


@contextmanager
def cluster_nodes(*, groups: int = 2, forwards: bool = False) -> Iterator[ClusterNodes]:
    """Three nodes, all of whose groups have a leader, until the block ends. ``forwards``: to the leader of a queue."""
    with etcd_cluster() as etcd, TemporaryDirectory(prefix="headgate-cluster-") as folder:
        nodes = ClusterNodes(Path(folder), etcd, groups, forwards=forwards)
        try:
            nodes.start(*NAMES)
            nodes.until(lambda: all(nodes.leaders(NAMES[0]).values()), "each group has a leader")
            yield nodes
        finally:
            nodes.stop()
