"""Wires between the processes of machines, which can be cut: a process of its own, ``python -m tests.cluster.wires``.

A wire listens on one port and carries every connection to another. The first line of the input is a JSON list of wires:
the port that listens, the port behind it, and the number of the machine that has the latter. A line ``cut 0 2``
separates these machines from all others, ``drop 0>2 1>0`` stops the bytes from 0 to 2 and from 1 to 0 only, and
``mend`` ends that. Between separated machines no bytes pass, and nothing is reset: what was sent waits, as in a network
that loses packets. A process says in its environment on which machine it is, so a wire knows where a connection comes
from.
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import trio

MACHINE = "HEADGATE_TEST_MACHINE"
"""The variable with the number of a process's machine."""
CHUNK = 1 << 16
ANYWHERE = -1
"""The machine of a process that has none: it is separated from no other."""


class Wire(NamedTuple):
    """One wire."""

    port: int
    behind: int
    machine: int


class Wires:
    """All wires, and which machines are separated from the others."""

    def __init__(self) -> None:
        self._cut: frozenset[int] = frozenset()
        self._dropped: frozenset[tuple[int, int]] = frozenset()
        self._mended = trio.Event()

    def cut(self, machines: Iterable[int] = (), *, dropped: Iterable[tuple[int, int]] = ()) -> None:
        """Separate these machines from all others, and stop what goes one way between two; without both, mend
        everything."""
        self._cut, self._dropped = frozenset(machines), frozenset(dropped)
        self._mended.set()
        self._mended = trio.Event()

    async def carry(self, wire: Wire, stream: trio.SocketStream) -> None:
        """Carry one connection."""
        host, port = stream.socket.getpeername()[:2]
        machine = await trio.to_thread.run_sync(machine_of, port)
        try:
            async with stream:
                await self._passable(machine, wire.machine)
                await self._passable(wire.machine, machine)
                async with await trio.open_tcp_stream(host, wire.behind) as other, trio.open_nursery() as nursery:
                    nursery.start_soon(self._one_way, stream, other, machine, wire.machine)
                    nursery.start_soon(self._one_way, other, stream, wire.machine, machine)
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _one_way(self, here: trio.SocketStream, there: trio.SocketStream, source: int, target: int) -> None:
        async for data in _chunks(here):
            await self._passable(source, target)
            await there.send_all(data)
        await there.send_eof()

    async def _passable(self, source: int, target: int) -> None:
        """Wait until bytes pass from one machine to the other."""
        while ANYWHERE not in (source, target) and (
            (source in self._cut) != (target in self._cut) or (source, target) in self._dropped
        ):
            await self._mended.wait()


async def _chunks(stream: trio.SocketStream):
    while data := await stream.receive_some(CHUNK):
        yield data


def machine_of(port: int) -> int:
    """The machine of the process whose connection begins at this port of the loopback interface."""
    rows = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    inodes = {f"socket:[{row.split()[9]}]" for row in rows if row.split()[1].endswith(f":{port:04X}")}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found = re.search(rf"(?:^|\0){MACHINE}=(\d+)".encode(), (process / "environ").read_bytes())
            if found and any(str(fd.readlink()) in inodes for fd in (process / "fd").iterdir()):
                return int(found[1])
        except OSError:
            continue
    return ANYWHERE


async def main() -> None:
    """Serve until the input ends."""
    wires = Wires()
    lines = _lines()
    async with trio.open_nursery() as nursery:
        first = await anext(lines)
        for wire in [Wire(*one) for one in json.loads(first)]:
            await nursery.start(_serve, wires, wire)
        print("ready", flush=True)
        async for line in lines:
            word, *words = line.split()
            pairs = [word.split(">") for word in words if ">" in word]
            wires.cut(map(int, words) if word == "cut" else (), dropped=[(int(one), int(to)) for one, to in pairs])
        nursery.cancel_scope.cancel()


async def _serve(wires: Wires, wire: Wire, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    async def carry(stream: trio.SocketStream) -> None:
        await wires.carry(wire, stream)

    await trio.serve_tcp(carry, wire.port, host="127.0.0.1", task_status=task_status)  # type: ignore[arg-type]


async def _lines():
    with_buffer = trio.lowlevel.FdStream(0)
    rest = b""
    while data := await with_buffer.receive_some(CHUNK):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line.decode()


if __name__ == "__main__":
    sys.exit(trio.run(main))
