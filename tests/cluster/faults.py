"""A cluster of real processes, and the faults that it has to survive."""

import json
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from amqp10.cli.exits import CommandError
from amqp10.cli.free_ports import free_ports
from amqp10.cli.remote import ask_once, row_of
from core.cluster.etcd import Etcd, EtcdAway
from core.cluster.etcd_messages import putting, transaction
from tests.cluster.wires import MACHINE
from tests.kit.broker_process import ROOT
from tests.kit.cluster_nodes import NAMES, READY, ClusterNodes
from tests.kit.etcd_cluster import EtcdCluster

QUOTA = 64 << 20
"""Of etcd: so small that it can be used up in a moment."""
SETTINGS = f"""engine_quota = {QUOTA}
[alarms]
disk_free_limit = "2MB"
[store]
command_log_file_size_limit = "1MiB"
[log]
level = "info"
"""
"""Files of one mebibyte, so that they are begun and removed in a run of minutes."""
ETCD = ("--snapshot-count", "1000", "--quota-backend-bytes", str(QUOTA))
FILLER = bytes(1 << 20)
FILL_S = 2.0
"""For the answer of etcd to one of these."""
FULL_BYTES = 96 << 20
"""The size of the disk that becomes full."""
WRONG_CLOCK = Path(__file__).with_name("wrong_clock.c")
OFFSET = struct.Struct("@q")
"""By how many seconds a clock is wrong, as the C program reads it."""
Mend = Callable[[], None]


class Machines:
    """Three machines, each with a broker and a member of etcd, and wires between them."""

    def __init__(self, folder: Path, etcd: EtcdCluster, nodes: ClusterNodes, wires: "subprocess.Popen[str]") -> None:
        self.folder = folder
        self.etcd = etcd
        self.nodes = nodes
        self.did: list[str] = []
        """What the machines have done by themselves."""
        self.small_disk: str | None = None
        """The node whose disk is small; None if there is none."""
        self._wires = wires

    def tell_wires(self, line: str) -> None:
        """Cut or mend the wires."""
        assert self._wires.stdin is not None
        self._wires.stdin.write(line + "\n")
        self._wires.stdin.flush()

    def status(self, name: str) -> Mapping[str, object] | None:
        """The cluster as a node sees it; None if it does not answer."""
        try:
            return row_of(ask_once(self.nodes.url(name), "cluster.status"))
        except CommandError:
            return None

    def leader(self, group: int) -> str | None:
        """The node that says that it leads a group."""
        for name in list(self.nodes.processes):
            for row in self.groups(name):
                if row["group"] == group and row["leads_here"]:
                    return name
        return None

    def groups(self, name: str) -> Sequence[Mapping[str, object]]:
        """The groups as a node sees them; none if it does not answer."""
        status = self.status(name)
        found = None if status is None else status["groups"]
        return found if isinstance(found, list) else []

    def leader_or_any(self, rng: Random) -> str:
        """The node that leads the first group, or another one."""
        return self.leader(1) or rng.choice(NAMES)

    def at_rest(self) -> bool:
        """Whether every node runs, and has a copy of everything."""
        for name in NAMES:
            rows = self.groups(name)
            if not rows or any(row["trouble"] for row in rows):
                return False
            if any(lag > LAG_MAX for row in rows for lag in row["lag"].values()):  # type: ignore[attr-defined]
                return False
        return True

    def set_clock(self, name: str, seconds: int) -> None:
        """Let the clock of a node be wrong by so many seconds, which may be negative."""
        with self.clock_file(NAMES.index(name)).open("r+b") as file:  # not anew: the node has mapped it
            file.write(OFFSET.pack(seconds))

    def clock_file(self, number: object) -> Path:
        """The file that says by how much the clock of a node is wrong."""
        return self.folder / f"clock{number}"

    def start(self, name: str) -> None:
        """Start a node. One that refuses its data folder gets an empty one, as its operator would do."""
        if READY.search(self.nodes.try_to_start(name)):
            return
        process = self.nodes.processes.pop(name)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        self.did.append(f"{name} refused its data folder, so it got an empty one")
        self.wipe(name)
        self.nodes.start(name)

    def wipe(self, name: str) -> None:
        """Remove all data of a node that does not run."""
        for path in self.nodes.data(name).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


LAG_MAX = 0
"""Batches; nothing is published while the machines come to rest."""


# --- the faults: each returns what it did and how it is mended


def kill_leader(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """kill -9 of the node that leads the first group."""
    name = machines.leader_or_any(rng)
    machines.nodes.kill(name)
    return f"killed node {name}", lambda: machines.start(name)


def kill_etcd(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """kill -9 of the member that leads etcd."""
    del rng
    member = machines.etcd.leader()
    machines.etcd.kill(member)
    return f"killed etcd {member}", lambda: machines.etcd.start(member)


def kill_both(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """kill -9 of both leaders together."""
    name, member = machines.leader_or_any(rng), machines.etcd.leader()
    machines.nodes.kill(name)
    machines.etcd.kill(member)

    def mend() -> None:
        machines.etcd.start(member)
        machines.start(name)

    return f"killed node {name} and etcd {member}", mend


def stop_leader(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """SIGSTOP of the node that leads the first group."""
    name = machines.leader_or_any(rng)
    machines.nodes.processes[name].send_signal(signal.SIGSTOP)
    return f"stopped node {name}", lambda: machines.nodes.processes[name].send_signal(signal.SIGCONT)


def stop_etcd(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """SIGSTOP of the member that leads etcd."""
    del rng
    member = machines.etcd.leader()
    machines.etcd.pause(member)
    return f"stopped etcd {member}", lambda: machines.etcd.go_on(member)


def wipe(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """A node ends, and its data folder is empty when it starts again."""
    name = rng.choice(NAMES)
    machines.nodes.kill(name)
    machines.wipe(name)
    return f"wiped node {name}", lambda: machines.start(name)


def flip(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """A bit flips in a file of a node's copies while it is down."""
    name = rng.choice(NAMES)
    machines.nodes.kill(name)
    files = [path for path in machines.nodes.data(name).glob("quorum/groups/*/*.log") if path.stat().st_size]
    if not files:
        return f"killed node {name}, which has no files", lambda: machines.start(name)
    path = rng.choice(sorted(files))
    flip_bit(path, rng.randrange(8 * path.stat().st_size))
    return f"killed node {name}, a bit of {path.parent.name}/{path.name} flips", lambda: machines.start(name)


def flip_etcd(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """A bit flips in the write-ahead log of a member of etcd while it is down; when it refuses to start, the bit flips
    back, as if its operator had its backup."""
    member = machines.etcd.leader()
    machines.etcd.kill(member)
    path = max(machines.etcd.folder(member).glob("member/wal/*.wal"))
    written = path.read_bytes().rstrip(b"\0")
    bit = rng.randrange(8 * len(written))
    flip_bit(path, bit)

    def mend() -> None:
        machines.etcd.start(member)
        if not machines.etcd.started(member):
            machines.did.append(f"etcd {member} refused its log")
            machines.etcd.kill(member)
            flip_bit(path, bit)
            machines.etcd.start(member)

    return f"killed etcd {member}, a bit of its log flips", mend


def partition(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """The machine of a leader is cut off from the others: of the first group's, or of etcd's."""
    name = machines.leader(1)
    machine = NAMES.index(name) if name is not None and rng.random() < HALF else machines.etcd.leader()
    return _cut(machines, [machine])


def halves(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """The first machine is cut off from the other two: the same two halves each time."""
    del rng
    return _cut(machines, [0])


def random_halves(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """The machines are in two halves, which are drawn: one machine, and two."""
    return _cut(machines, [rng.randrange(len(NAMES))])


def ring(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """Each machine hears a majority, no two the same one: what each sends reaches one of the other two."""
    step = rng.choice((1, 2))
    pairs = [f"{one}>{(one + step) % len(NAMES)}" for one in range(len(NAMES))]
    machines.tell_wires(f"drop {' '.join(pairs)}")
    return f"nothing passes from {', '.join(pair.replace('>', ' to ') for pair in pairs)}", _mend(machines)


def bridge(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """Two machines do not reach each other, and the third one reaches both."""
    one, other, _ = rng.sample(range(len(NAMES)), len(NAMES))
    machines.tell_wires(f"drop {one}>{other} {other}>{one}")
    return f"machines {one} and {other} do not reach each other", _mend(machines)


def _cut(machines: Machines, apart: Sequence[int]) -> tuple[str, Mend]:
    numbers = " ".join(map(str, apart))
    machines.tell_wires(f"cut {numbers}")
    return f"cut off machine {numbers}", _mend(machines)


def _mend(machines: Machines) -> Mend:
    return lambda: machines.tell_wires("mend")


def clock(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """The clock of a leader's or another broker jumps by a minute, and back; that of etcd does not."""
    name = machines.leader_or_any(rng) if rng.random() < HALF else rng.choice(NAMES)
    seconds = rng.choice((CLOCK_S, -CLOCK_S))
    machines.set_clock(name, seconds)
    return f"the clock of node {name} jumps by {seconds:+d} s", lambda: machines.set_clock(name, 0)


def full_disk(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """The disk of a node is full."""
    del rng
    name = machines.small_disk
    assert name is not None
    ballast = machines.nodes.data(name) / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
    except OSError:
        pass

    def mend() -> None:
        ballast.unlink()
        if machines.nodes.processes[name].poll() is not None:
            machines.did.append(f"{name} had ended")
            machines.nodes.kill(name)
            machines.start(name)

    return f"filled the disk of node {name}", mend


def fill_etcd(machines: Machines, rng: Random) -> tuple[str, Mend]:
    """The quota of etcd is used up by earlier states of a key, which can be forgotten."""
    del rng
    etcd = Etcd(machines.etcd.endpoints, lambda act: None)
    puts = 0
    try:
        while puts < 2 * QUOTA // len(FILLER):  # it is refused before, when etcd has noticed
            request = transaction([], [putting(b"filler", FILLER)], [])
            etcd.ask_now("KV/Txn", request, timeout_s=FILL_S)
            puts += 1
    except EtcdAway as refused:
        return f"put {puts} MiB, then: {refused}", lambda: None
    finally:
        etcd.close()
    return f"put {puts} MiB", lambda: None


HALF = 0.5
CLOCK_S = 60
Fault = Callable[[Machines, Random], tuple[str, Mend]]
FAULTS: Mapping[str, Fault] = {
    "kill-leader": kill_leader,
    "kill-etcd": kill_etcd,
    "kill-both": kill_both,
    "stop-leader": stop_leader,
    "stop-etcd": stop_etcd,
    "partition": partition,
    "halves": halves,
    "random-halves": random_halves,
    "ring": ring,
    "bridge": bridge,
    "clock": clock,
    "wipe": wipe,
    "flip": flip,
    "flip-etcd": flip_etcd,
    "fill-etcd": fill_etcd,
    "full-disk": full_disk,
}
MEASURED = ("kill-leader", "kill-etcd", "kill-both", "stop-leader", "stop-etcd")
"""The faults whose time without an accepted message has a limit."""
ROOT_ONLY = ("full-disk",)
"""Faults that need the rights to mount a disk."""


def flip_bit(path: Path, bit: int) -> None:
    """Flip one bit of a file."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))


# --- the machines


@contextmanager
def machines(
    *,
    groups: int = 2,
    small_disk: bool = False,
    clocks: bool = False,
    forwards: bool = False,
    more: str = "",
    options: Sequence[str] = (),
) -> Iterator[Machines]:
    """Three machines whose groups have leaders, until the block ends. ``small_disk``: the third one has a disk of its
    own. ``clocks``: those of the brokers can be set. ``forwards``: the brokers forward to leaders. ``options``: more
    options of etcd."""
    with TemporaryDirectory(prefix="headgate-rounds-") as name:
        folder = Path(name)
        (folder / "etcd").mkdir()
        etcd = EtcdCluster(folder / "etcd", options=(*ETCD, *options))
        etcd.environment = {MACHINE: "{}"}
        ports = free_ports(2 * len(NAMES))
        etcd.asked_ports, etcd.told_ports = ports[: len(NAMES)], ports[len(NAMES) :]
        behind = (*etcd.client_ports, *etcd.peer_ports)
        plan = [[port, to, place % len(NAMES)] for place, (port, to) in enumerate(zip(ports, behind, strict=True))]
        wires = _wires(plan)
        nodes = ClusterNodes(folder, etcd, groups, more + SETTINGS, forwards=forwards)
        nodes.environment = {MACHINE: "{}"}
        made = Machines(folder, etcd, nodes, wires)
        if clocks:
            for number in range(len(NAMES)):
                made.clock_file(number).write_bytes(OFFSET.pack(0))
            library = folder / "wrong_clock.so"
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(WRONG_CLOCK)], check=True)
            nodes.environment |= {"LD_PRELOAD": str(library), "WRONG_CLOCK": str(made.clock_file("{}"))}
        if small_disk:
            made.small_disk = NAMES[-1]
            nodes.data(NAMES[-1]).mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "tmpfs", str(nodes.data(NAMES[-1]))]
            subprocess.run(mount, check=True)
        try:
            for member in range(len(NAMES)):
                etcd.start(member)
            etcd.leader()
            nodes.start(*NAMES)
            nodes.until(lambda: all(made.leader(group + 1) for group in range(groups)), "each group has a leader")
            yield made
        finally:
            nodes.stop()
            etcd.stop()
            wires.kill()
            wires.wait()
            for stream in (wires.stdin, wires.stdout):
                assert stream is not None
                stream.close()
            if small_disk:
                subprocess.run(["umount", str(nodes.data(NAMES[-1]))], check=True)


def _wires(plan: Sequence[Sequence[int]]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.cluster.wires"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(plan) + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "ready\n"
    return process
