"""``headgate demo cluster``: three brokers, each with its etcd, in one terminal; it tells what happens to them.

The demo knows what happens from the logs of its nodes, which come through a pipe for each. Each node is tied to the
process of the demo, and each etcd to its broker. So none is left, however the demo ends.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import trio

from amqp10.cli.cluster_files import PlannedNode, configuration
from amqp10.cli.demo_story import DemoNode, Story
from amqp10.cli.exits import CommandError, Exit, leaves
from amqp10.cli.free_ports import HOST, free_ports
from amqp10.cli.remote import path_of
from amqp10.client import connect
from amqp10.client_core.errors import ClientError
from core.engine.quorum.group_numbers import number_in_log
from core.standard_streams import print_notice
from core.tied_process import tied

NAMES = ("a", "b", "c")
GROUPS = 3
QUEUE = "orders"
PREFIX = "headgate-demo-"
ROWS, ROW = 4, 10
"""Ports are in rows, so far from each other: AMQP, etcd for brokers, etcd for each other, consoles."""
START_SECONDS_MAX = 60.0
"""A cluster that is not ready by then will not be: it takes 5 s on a laptop."""
STOP_SECONDS_MAX = 15.0
AGAIN_SECONDS = 0.1
READ_BYTES = 65536
COLOURS = {"a": "36", "b": "33", "c": "35"}
"""Cyan, yellow, magenta [ECMA-48 8.3.117]."""
READY = " is ready at "
NO_ETCD = (
    "the demo needs the program etcd, which is not on PATH. Install it: on Debian and Ubuntu apt install etcd-server, "
    "on macOS brew install etcd, elsewhere from https://github.com/etcd-io/etcd/releases"
)
NO_PACKAGES = (
    "the demo needs packages that are not installed; install them with: pip install 'grpcio>=1.62' 'protobuf>=5.26'"
)


def cluster(*, data: Path | None, port: int) -> None:
    """Run three nodes until the command is interrupted. Raises CommandError."""
    if shutil.which("etcd") is None:
        raise CommandError(Exit.USAGE, NO_ETCD)
    try:
        import grpc  # noqa: F401 # each node imports it, and would end without it
    except ImportError:
        raise CommandError(Exit.USAGE, NO_PACKAGES) from None
    with _folder(data) as folder:
        demo = Demo(folder, port, in_order=data is not None)
        try:
            trio.run(demo.run)
        except BaseExceptionGroup as group:
            first = leaves(group)[0]
            if isinstance(first, CommandError):
                raise first from None
            raise


@contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    """The folder of the demo. One that is thrown away is locked, so that a later demo removes it if this one could
    not."""
    if data is not None:
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(Exit.USAGE, f"--data {data}: {error.strerror}") from None
        yield data.absolute()
        return
    remove_left(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Path(folder)
        finally:
            os.close(lock)


def remove_left(where: Path) -> None:
    """Remove the folders of demos that were killed."""
    for folder in where.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


class DemoPlan(NamedTuple):
    """A node of the demo, and where its console is."""

    node: PlannedNode
    console_port: int


def planned_nodes(port: int) -> list[DemoPlan]:
    """The nodes with their ports: those behind ``port``, or any free ones if it is 0."""
    free = [] if port else free_ports(ROWS * len(NAMES))
    plans = []
    for number, name in enumerate(NAMES):
        ports = [port + 1 + number + ROW * row for row in range(ROWS)] if port else free[number :: len(NAMES)]
        amqp, etcd, peers, console = ports
        plans.append(DemoPlan(PlannedNode(name, HOST, amqp, etcd, peers), console))
    return plans


class Demo:
    """The three nodes and what is said of them."""

    def __init__(self, folder: Path, port: int, *, in_order: bool) -> None:
        """``in_order``: whether the nodes get time to end, because their data are kept."""
        self._folder, self._in_order = folder, in_order
        self._coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        plans = planned_nodes(port)
        nodes = [node for node, _ in plans]
        for one, console in plans:
            text = configuration(one, nodes, cluster="demo", data=folder / one.name, certificates=None)
            more = f'groups = {GROUPS}\n\n[log]\nform = "json"\n\n[admin]\nlisten = ["{HOST}:{console}"]\n'
            (folder / f"{one.name}.toml").write_text(text + more, encoding="utf-8")
        urls = {one.name: f"amqp://guest:guest@{one.at(one.port)}" for one in nodes}
        self.story = Story({name: DemoNode(name, url) for name, url in urls.items()}, GROUPS, QUEUE)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd_pids: dict[str, int] = {}
        self._last_words: dict[str, str] = {}
        self._changed = trio.Event()
        self._starting = True

    async def run(self) -> None:
        """Run until a signal ends the demo. Raises CommandError in a group if the cluster does not start."""
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._end_at_a_signal, signals, nursery.cancel_scope)
                    for name in NAMES:
                        self._start(name, nursery)
                    await self._begin()
                    await self._take_keys(nursery)
            finally:
                with trio.CancelScope(shield=True):
                    await self._end()

    async def _end_at_a_signal(self, signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for _ in signals:
            scope.cancel()

    # --- the start

    def _start(self, name: str, nursery: trio.Nursery) -> None:
        """Start a node. Called in the main thread, which is that of Trio."""
        command = [sys.executable, "-m", "amqp10", "serve", "--config", str(self._folder / f"{name}.toml")]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADGATE")}
        output, its_end = os.pipe()
        try:
            process = self._processes[name] = subprocess.Popen(
                tied(command),
                stdin=subprocess.DEVNULL,
                stdout=its_end,
                stderr=its_end,
                env=environment,
                start_new_session=True,  # without the terminal, whose signals are for the demo
            )
        finally:
            os.close(its_end)
        node = self.story.nodes[name]
        node.pid, node.here = process.pid, True
        nursery.start_soon(self._follow, name, process, trio.lowlevel.FdStream(output))

    async def _begin(self) -> None:
        began = trio.current_time()
        self._say("", f"starting {len(NAMES)} nodes, each with an etcd, in {self._folder}")
        with trio.move_on_after(START_SECONDS_MAX) as limit:
            while not (self.story.led and all(node.ready for node in self.story.nodes.values())):
                await self._changed.wait()
                self._changed = trio.Event()
            await self._declare()
        if limit.cancelled_caught:
            raise CommandError(Exit.TIMED_OUT, f"the cluster is not ready after {START_SECONDS_MAX:g} s{self._words()}")
        self._starting = False
        for line in self.story.instructions(trio.current_time() - began):
            print_notice(line)

    async def _declare(self) -> None:
        """Declare the queue, wait until each node has made it, and learn its group."""
        await self._answer(
            NAMES[0], "PUT", f"/queues/{QUEUE}", {"durable": True, "arguments": {"x-queue-type": "quorum"}}
        )
        for name in NAMES:
            row = await self._answer(name, "GET", path_of("rows.show", {"kind": "queues", "identity": QUEUE}))
            assert isinstance(row, dict)
            self.story.group = number_in_log(str(row["queue_identity"])) % GROUPS + 1

    async def _answer(self, name: str, method: str, path: str, body: object = None) -> object:
        """Ask a node until it does as it is asked. Returns the body of its answer."""
        while True:
            try:
                async with connect(self.story.nodes[name].url) as connection:
                    return (await connection.request(method, path, body)).body
            except ClientError as error:
                self._last_words[name] = str(error)
                await trio.sleep(AGAIN_SECONDS)

    def _words(self) -> str:
        return "".join(f"; {name}: {words}" for name, words in self._last_words.items())

    # --- what nodes say

    async def _follow(self, name: str, process: "subprocess.Popen[bytes]", output: trio.lowlevel.FdStream) -> None:
        """Read what a node says until it has ended."""
        left = b""
        async with output:
            while data := await output.receive_some(READ_BYTES):
                *lines, left = (left + data).split(b"\n")
                for line in lines:
                    self._take(name, line.decode(errors="replace"))
        process.kill()  # what has closed its output does nothing that could be seen any more
        status = process.wait()
        del self._processes[name]
        if self._starting:
            raise CommandError(Exit.NOT_NOW, f"node {name} has ended with status {status}{self._words()}")
        for said in self.story.ended(name, status, trio.current_time()):
            self._say(name, said)

    def _take(self, name: str, line: str) -> None:
        try:
            facts = json.loads(line)
        except ValueError:
            self._take_plain(name, line)
            return
        if not isinstance(facts, dict):
            return
        event = str(facts.get("event", ""))
        if event == "etcd-started":
            self._etcd_pids[name] = int(facts["etcd_pid"])
        if facts.get("level") == "error":
            self._last_words[name] = line
        for said in self.story.logged(name, event, facts, trio.current_time()):
            self._say(name, said)
        self._changed.set()

    def _take_plain(self, name: str, line: str) -> None:
        if READY in line:
            node = self.story.nodes[name]
            node.ready = True
            self._say(name, f"is ready at {node.url}, process {node.pid}{console_in(line)}")
            self._changed.set()
        elif line:
            self._last_words[name] = line

    def _say(self, name: str, text: str) -> None:
        if not name:
            print_notice(text)
        elif self._coloured:
            print_notice(f"\x1b[{COLOURS[name]};1m{name} |\x1b[0m {text}")
        else:
            print_notice(f"{name} | {text}")

    # --- keys, and the end

    async def _take_keys(self, nursery: trio.Nursery) -> None:
        """Start again, at each Enter, what has ended. Without a terminal there are no keys."""
        if not sys.stdin.isatty():
            await trio.sleep_forever()
        keyboard = sys.stdin.fileno()
        while True:
            await trio.lowlevel.wait_readable(keyboard)
            if not os.read(keyboard, READ_BYTES):
                await trio.sleep_forever()
            for name in NAMES:
                if name not in self._processes:
                    self._say(name, "starts again")
                    self._start(name, nursery)

    async def _end(self) -> None:
        processes = list(self._processes.values())
        if self._in_order and processes:
            print_notice("ending the nodes in order")
            for process in processes:
                process.terminate()
            with trio.move_on_after(STOP_SECONDS_MAX):
                for process in processes:
                    await _gone(process.pid)
        for process in processes:
            process.kill()
            process.wait()
        with trio.move_on_after(STOP_SECONDS_MAX):
            for pid in self._etcd_pids.values():  # they end with their brokers, and the folder may be removed then
                await _gone(pid)


def console_in(line: str) -> str:
    """What the line of a broker that is ready says of its console."""
    _, said, console = line.partition(", console at ")
    return f", console {console}" if said else ""


async def _gone(pid: int) -> None:
    """Wait until a process has ended. Systems without pidfd_open(2) do not say it of other processes than children."""
    if not hasattr(os, "pidfd_open"):
        return
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)
