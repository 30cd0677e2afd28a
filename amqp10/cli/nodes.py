"""``headgate serve --nodes N``: N brokers on one port, each in a process of its own, for the cores of one machine.

This process starts them, passes signals on, and starts again what has ended. It holds the port, so that all get the
same one. Each is tied to it: none is left, however it ends. What the brokers are to each other is in their settings
(``cluster.first_node``).
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import trio

from amqp10.cli.config import read_with_origins
from amqp10.cli.exits import CommandError, Exit, leaves
from core.config import Settings
from core.config.address import UNIX, parse_address
from core.config.alarms import parse_watermark
from core.server.service_notice import ServiceNotice
from core.server.signals import Signals
from core.standard_streams import print_notice
from core.tied_process import tied

NODES_MAX = 64
NODES_FILE = "nodes.json"
"""The file in the data folder that says how many nodes there are. It is locked while they run."""
ALONE_FILE = "format.json"
"""What the data folder of a broker alone has."""
PAUSES_S = (0.1, 5.0)
"""The pause before a node is started again: the first, which doubles up to the second until the node is ready."""
READ_BYTES = 65_536
READY = " is ready at "
OWN_ENVIRONMENT = frozenset({"HEADGATE_LISTEN", "HEADGATE_ADMIN", "NOTIFY_SOCKET", "WATCHDOG_USEC"})
"""Variables that are for this process, and not for the nodes."""
SHARE_DIGITS = 9
"""As many as a share of the memory may have."""


ReadyLine = Callable[..., str]
"""Makes the line that says that the broker is ready; see :func:`amqp10.cli.serving.ready_line`."""


def run_nodes(
    count: int,
    config: Path | None,
    *,
    changes: Sequence[str],
    overrides: Mapping[str, object],
    ready_line: ReadyLine,
) -> None:
    """Serve with this many nodes until the command is interrupted or terminated. ``overrides`` come from the options.
    ``ready_line`` makes the line that is printed when all are ready.

    Raises CommandError for settings that cannot be used, and when a node cannot start.
    """
    settings, _ = read_with_origins(config, changes, overrides)
    _check(count, settings)
    with _folder(settings.data.folder, count) as folder, _held_addresses(settings) as addresses, Signals() as signals:
        common = [] if config is None else ["--config", str(config)]
        common += [word for change in changes for word in ("--set", change)]
        plans = [[*common, *node_options(settings, addresses, folder, number, count)] for number in range(1, count + 1)]
        nodes = Nodes(plans, partial(_ready_line, ready_line, settings, addresses))
        try:
            trio.run(nodes.run, signals)
        except BaseExceptionGroup as group:
            first = leaves(group)[0]
            if isinstance(first, CommandError):
                raise first from None
            raise


def _check(count: int, settings: Settings) -> None:
    """Raises CommandError."""
    if sys.platform != "linux":
        raise CommandError(Exit.USAGE, "--nodes needs Linux, which spreads connections over processes on one port")
    if not 2 <= count <= NODES_MAX:
        raise CommandError(Exit.USAGE, f"--nodes {count}: 2 to {NODES_MAX} nodes are possible")
    if settings.cluster.node:
        raise CommandError(Exit.USAGE, "--nodes and [cluster] exclude each other: leave out one of them")


@contextmanager
def _folder(folder: Path, count: int) -> Iterator[Path]:
    """The data folder, locked. Raises CommandError for one that is no folder of this many nodes."""
    folder = folder.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (folder / ALONE_FILE).exists():
            raise CommandError(
                Exit.USAGE,
                f"{folder} is the data folder of a broker without --nodes; give --nodes another folder",
            )
        descriptor = os.open(folder / NODES_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(Exit.USAGE, f"the data folder {folder} cannot be used: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(Exit.NOT_NOW, f"another headgate serve --nodes uses the data folder {folder}") from None
        _check_count(descriptor, folder, count)
        yield folder
    finally:
        os.close(descriptor)


def _check_count(descriptor: int, folder: Path, count: int) -> None:
    text = os.read(descriptor, READ_BYTES)
    if not text:
        os.write(descriptor, json.dumps({"nodes": count}).encode() + b"\n")
        os.fsync(descriptor)
        return
    try:
        found = int(json.loads(text)["nodes"])
    except (ValueError, KeyError, TypeError):
        raise CommandError(Exit.DAMAGED, f"{folder / NODES_FILE} does not say how many nodes there are") from None
    if found != count:
        raise CommandError(
            Exit.USAGE,
            f"{folder} is the data folder of {found} nodes, and with {count} the queues would live on other nodes; "
            f"start with --nodes {found}",
        )
    missing = [number for number in range(1, count + 1) if not (folder / str(number)).is_dir()]
    if missing and len(missing) < count:
        raise CommandError(
            Exit.USAGE, f"the data folder of node {missing[0]}, {folder / str(missing[0])}, is gone; bring it back"
        )


@contextmanager
def _held_addresses(settings: Settings) -> Iterator[tuple[list[str], list[str]]]:
    """The addresses without and with TLS, each with a number for its port, which other programs cannot take now.
    Raises CommandError."""
    held: list[socket.socket] = []
    try:
        yield _hold(settings.server.listen, held), _hold(settings.server.tls_listen, held)
    finally:
        for one in held:
            one.close()


def _hold(addresses: Sequence[str], held: list[socket.socket]) -> list[str]:
    """Bind each address, without listening. Raises CommandError."""
    found = []
    for text in addresses:
        host, port = parse_address(text)
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, _, _, _, address in dict.fromkeys(infos):
                with _bound(family, address, shared=False) as alone:  # also another headgate of this user has it
                    taken = alone.getsockname()
                held.append(_bound(family, taken, shared=True))
                port = taken[1]
        except OSError as error:
            raise CommandError(Exit.NOT_NOW, f"cannot listen on {text}: {error.strerror}") from None
        found.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return found


def _bound(family: int, address: tuple[object, ...], *, shared: bool) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
    except BaseException:
        one.close()
        raise
    return one


# --- the settings of a node ---------------------------------------------------------------------------------------


def node_options(
    settings: Settings, addresses: tuple[Sequence[str], Sequence[str]], folder: Path, number: int, count: int
) -> list[str]:
    """The options of a node beside those that all have."""
    plain, encrypted = addresses
    others = [
        f'{{name = "{other}", address = {_text(_socket(folder, other))}}}'
        for other in range(1, count + 1)
        if other != number
    ]
    sets = {
        "server.listen": _list(plain),
        "server.tls_listen": _list(encrypted),
        "alarms.memory_watermark": _text(_divided(settings, count)),
        "cluster.node": f'"{number}"',
        "cluster.first_node": '"1"',
        "cluster.order": _text(f"{UNIX}{folder / '1' / 'order.socket'}"),
        "cluster.listen": _list([_socket(folder, number)]),
        "cluster.nodes": f"[{', '.join(others)}]",
        **_console(settings, number),
    }
    words = ["--data", str(folder / str(number))]
    return words + [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]


def _socket(folder: Path, number: int) -> str:
    return f"{UNIX}{folder / str(number) / 'node.socket'}"


def _divided(settings: Settings, count: int) -> str:
    """The memory watermark of one node."""
    whole = parse_watermark(settings.alarms.memory_watermark, settings.alarms.unit_convention)
    if whole.share is not None:
        return f"{float(whole.share) / count:.{SHARE_DIGITS}f}"
    return f"absolute {whole.size // count}"


def _console(settings: Settings, number: int) -> dict[str, str]:
    """Where the console of a node is: on the ports behind those of the first node. A console that the
    configuration does not ask for is left out where its address is taken, as with a broker alone."""
    if not settings.admin.enabled:
        return {"admin.enabled": "false"}
    found = []
    for text in settings.admin.listen:
        host, port = parse_address(text)
        port += number - 1 if port else 0
        found.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        if not settings.admin.asked_for and not _is_free(host, port):
            return {"admin.enabled": "false"}
    return {"admin.listen": _list(found)}


def _is_free(host: str, port: int) -> bool:
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        _bound(family, address, shared=False).close()
    except OSError:
        return False
    return True


def _text(value: str) -> str:
    """A text as TOML has it: the escapes of JSON are among those of TOML."""
    return json.dumps(value, ensure_ascii=False)


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _ready_line(
    ready_line: ReadyLine,
    settings: Settings,
    addresses: tuple[Sequence[str], Sequence[str]],
    consoles: Sequence[str],
) -> str:
    plain, encrypted = ([parse_address(text) for text in texts] for texts in addresses)
    console = f"consoles at {' and '.join(consoles)}" if consoles else ""
    return ready_line(settings, [*plain, *encrypted], pid=os.getpid(), console=console, encrypted=encrypted)


# --- the processes ------------------------------------------------------------------------------------------------


class Nodes:
    """The processes of the nodes."""

    def __init__(self, plans: Sequence[Sequence[str]], ready_line: partial[str]) -> None:
        """``plans``: the options of each node. ``ready_line`` makes the line that is printed when all are ready, of
        their consoles."""
        self._plans, self._ready_line = plans, ready_line
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ready: dict[int, str] = {}
        """The consoles of the nodes that have been ready."""
        self._all_ready = trio.Event()
        self._stopping = False
        self._failed: CommandError | None = None

    async def run(self, signals: Signals) -> None:
        """Run until a signal stops the nodes. Raises CommandError when one cannot start."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pass_on, signals)
            nursery.start_soon(self._notify)
            async with trio.open_nursery() as nodes:
                for number in range(1, len(self._plans) + 1):
                    nodes.start_soon(self._keep, number)
            nursery.cancel_scope.cancel()
        if self._failed is not None:
            raise self._failed

    async def _notify(self) -> None:
        """Tell the service manager when all nodes are ready, and that this process lives."""
        await self._all_ready.wait()
        await ServiceNotice(os.environ, status=f"{len(self._plans)} nodes").run(lambda: None)

    async def _pass_on(self, signals: Signals) -> None:
        while True:
            number = await signals.next()
            if signals.stops(number):
                self._stop()
            else:
                self._send(number)

    def _stop(self) -> None:
        """End the nodes in order; those that do not end at once are killed the second time."""
        self._send(signal.SIGKILL if self._stopping else signal.SIGTERM)
        self._stopping = True

    def _is_over(self) -> bool:
        return self._stopping

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes.values():
            process.send_signal(number)

    async def _keep(self, number: int) -> None:
        """Start a node, and again when it ends, until the end."""
        pause, longest = PAUSES_S
        while True:
            was_ready = False
            process, output = self._start(number)
            async with output:
                async for line in _lines(output):
                    if READY in line:
                        was_ready = True
                        self._is_ready(number, line)
                    else:
                        print_notice(f"node {number}: {line}")
            process.kill()  # what has closed its output does nothing that could be seen any more
            status = process.wait()
            del self._processes[number]
            if self._is_over():
                return
            if number not in self._ready:
                self._fail(number, status)
                return
            print_notice(f"node {number} has ended with status {status}; it starts again")
            pause = PAUSES_S[0] if was_ready else min(2 * pause, longest)
            await trio.sleep(pause)
            if self._is_over():
                return

    def _start(self, number: int) -> "tuple[subprocess.Popen[bytes], trio.lowlevel.FdStream]":
        """Start a node. Called in the main thread, which is that of Trio."""
        command = [sys.executable, "-m", "amqp10", "serve", *self._plans[number - 1]]
        output, its_end = os.pipe()
        try:
            process = self._processes[number] = subprocess.Popen(
                tied(command),
                stdin=subprocess.DEVNULL,
                stdout=its_end,
                env={key: value for key, value in os.environ.items() if key not in OWN_ENVIRONMENT},
                start_new_session=True,  # without the terminal, whose signals are for this process
            )
        finally:
            os.close(its_end)
        return process, trio.lowlevel.FdStream(output)

    def _is_ready(self, number: int, line: str) -> None:
        began = len(self._ready) == len(self._plans)
        _, said, console = line.partition(", console at ")
        self._ready[number] = console if said else ""
        if began:
            print_notice(f"node {number} is ready again")
        elif len(self._ready) == len(self._plans):
            self._all_ready.set()
            print_notice(self._ready_line([self._ready[one] for one in sorted(self._ready) if self._ready[one]]))

    def _fail(self, number: int, status: int) -> None:
        """A node has not been ready even once: end the others."""
        code = Exit.FAULT
        with suppress(ValueError):
            code = Exit(status)
        if self._failed is None:
            self._failed = CommandError(code, f"node {number} has ended with status {status} before it was ready")
        self._send(signal.SIGTERM)
        self._stopping = True


async def _lines(output: trio.lowlevel.FdStream) -> AsyncIterator[str]:
    left = b""
    while data := await output.receive_some(READ_BYTES):
        *lines, left = (left + data).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
