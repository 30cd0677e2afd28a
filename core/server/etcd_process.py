"""The etcd that a broker starts beside itself: options, watch, restarts, end.

It ends with the broker: in order when the broker stops, and at once when the broker is killed, because a second etcd in
the same folder would not start. It has a process group of its own, so a signal of the terminal reaches the broker only.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import trio

from core.config.address import parse_address
from core.config.cluster import ClusterSettings
from core.errors import Invalid
from core.interface import Snapshot
from core.tied_process import tied

if TYPE_CHECKING:  # it needs grpc, and a broker without a cluster must start without it
    from core.cluster.engine_members import EngineMember

FOLDER = "etcd"
"""The folder of etcd's data in the data folder."""
REPLACED = "etcd-replaced"
"""Where the data of a member are moved that was replaced."""
MEMBER = "member"
"""The folder that etcd makes in its own when it has data."""
REMEDY = "install it (on Debian: apt install etcd-server), or leave cluster.etcd_peers out and run etcd yourself"
REQUEST_BYTES_MAX = 33_554_432
"""The largest request of etcd: a batch has up to one message of any size that a quorum queue takes. etcd's own limit is
1.5 MiB."""
QUOTA_BYTES = 8_589_934_592
"""The most that etcd keeps: 8 GiB, the highest value that etcd's manual recommends."""
SNAPSHOT_ENTRIES = 1000
"""After so many entries etcd writes its state and forgets them. They stay in its memory until then."""
CHECKS_BEFORE = (3, 6)
"""Versions before this one check their data against the others' at the start if a flag says so. Newer ones have other
names for that flag."""
VERSION_S = 10.0
"""The most time that the program may take to say its version."""
PAUSE_MIN_S, PAUSE_MAX_S = 0.5, 30.0
"""The wait before another start: twice as long after each start that failed soon."""
UNKNOWN_PAUSE_S = 2.0
"""The longest wait before the others are asked again that do not know this member: it is taken in within seconds."""
SETTLED_S = 5.0
"""A process that has lived so long runs: an etcd that cannot use its data or its addresses ends within a second."""
STOP_S = 5.0
"""How long etcd may take to end in order: a leader hands over in 1 s."""
READ_BYTES = 8192
LINE_BYTES_MAX = 2000
"""The most of a line of etcd's log that is repeated in the broker's."""
LINES_MAX = 100
"""The most lines that are repeated of one process; a broken etcd could write many."""


class EtcdProcess:
    """The etcd of this node."""

    def __init__(
        self,
        settings: ClusterSettings,
        data: Path,
        program: str | None,
        *,
        check: Callable[[str, str], None],
        others: Callable[[], "Sequence[EngineMember] | None"],
        log: structlog.typing.FilteringBoundLogger,
        notice: Callable[[bool, str], None],
        alone: str = "",
    ) -> None:
        """``data``: the broker's data folder. ``program``: the path of etcd; None if there is none. ``notice`` turns
        the notice of operators on and off. Raises Invalid without a program, and what ``check`` raises for its
        version and path. ``others`` asks the other members who the members are, and blocks; it returns None if none
        answers. ``alone``: it begins a new cluster of etcd by itself, in whose token this is, and the
        others are taken in later; "" where all members begin together."""
        if program is None:
            raise Invalid(f"cluster.etcd_peers asks for an etcd, and there is no program etcd on PATH: {REMEDY}")
        self.version = version_of(program)
        check(self.version, program)
        self.starts = 0
        """How often it was started."""
        self.why = ""
        """Why it does not run; empty while it runs, and before the first start."""
        self._folder = data / FOLDER
        self._program, self._settings, self._others, self._alone = program, settings, others, alone
        self._log, self._notice = log, notice
        self._process: subprocess.Popen[bytes] | None = None
        self._said = ""
        self._lines, self._unfinished = 0, b""
        self._pause = PAUSE_MIN_S

    def row(self) -> Snapshot:
        """What is shown of it."""
        process = self._process
        return {
            "running": process is not None,
            "pid": None if process is None else process.pid,
            "version": self.version,
            "starts": self.starts,
            "why": self.why,
        }

    async def run(self, turn: Callable[[], None]) -> None:
        """Have it run until cancelled, and end it then."""
        try:
            while True:
                members = await self._members()
                if self._may_start(members):
                    output = self._start(members)
                    async with output:
                        await self._watch(output, turn)
                    self._ended()
                turn()  # the notice is stamped
                await trio.sleep(self._pause)
                self._pause = min(2 * self._pause, PAUSE_MAX_S)
        finally:
            with trio.CancelScope(shield=True):
                await self._end()

    async def _members(self) -> "Sequence[EngineMember] | None":
        """The members as the others say, if this one has no data, or could not be started with what it has."""
        if self._alone or ((self._folder / MEMBER).exists() and not self.why):
            return None
        return await trio.to_thread.run_sync(self._others)

    def _may_start(self, members: "Sequence[EngineMember] | None") -> bool:
        """Whether the others know this member, or do not answer."""
        if members is None or self._mine(members) is not None:
            return True
        self._said = ""
        self._pause = min(self._pause, UNKNOWN_PAUSE_S)
        self.why = (
            f"etcd of the cluster has no member of node {self._settings.node}: it comes in with headgate cluster join"
        )
        self._log.error("etcd-not-a-member", members=[one.name for one in members])
        self._notice(True, self.why)
        return False

    def _mine(self, members: "Sequence[EngineMember]") -> "EngineMember | None":
        own = own_addresses(self._settings)[1]
        return next((one for one in members if own in one.peers), None)

    def _start(self, members: "Sequence[EngineMember] | None") -> trio.lowlevel.FdStream:
        mine = None if members is None else self._mine(members)
        joins: list[tuple[str, str]] = []
        if members is not None and mine is not None and not mine.name:  # it was taken in, and never started
            joins = [(one.name or self._settings.node, one.peers[0]) for one in members]
            self._move_old_data()
        self.starts += 1
        self.why = self._said = ""
        self._lines, self._unfinished = 0, b""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        output, its_end = os.pipe()
        try:
            process = self._process = subprocess.Popen(
                tied([self._program, *options(self._settings, self._folder, self.version, joins, self._alone)]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=its_end,
                process_group=0,
                env=environment(os.environ, os.cpu_count() or 1),
            )
        finally:
            os.close(its_end)
        self._log.info("etcd-started", etcd_pid=process.pid, version=self.version, starts=self.starts)
        return trio.lowlevel.FdStream(output)

    def _move_old_data(self) -> None:
        """Move data of an earlier member of this node out of the way. The last ones are kept, for people."""
        if (self._folder / MEMBER).exists():
            kept = self._folder.with_name(REPLACED)
            shutil.rmtree(kept, ignore_errors=True)
            self._folder.rename(kept)
            self._log.warning("etcd-replaced", moved_to=str(kept))

    async def _watch(self, output: trio.lowlevel.FdStream, turn: Callable[[], None]) -> None:
        """Read until the process has ended: nothing else has the other end of the pipe."""
        with trio.move_on_after(SETTLED_S) as settling:
            await self._read(output)
        if settling.cancelled_caught:
            self._pause = PAUSE_MIN_S
            self._notice(False, "")
            turn()
            await self._read(output)

    async def _read(self, output: trio.lowlevel.FdStream) -> None:
        while data := await output.receive_some(READ_BYTES):
            *lines, self._unfinished = (self._unfinished + data).split(b"\n")
            for line in lines:
                self._repeat(line)
            self._unfinished = self._unfinished[-LINE_BYTES_MAX:]
        self._repeat(self._unfinished)

    def _repeat(self, line: bytes) -> None:
        """Repeat a line of etcd's log in the broker's."""
        text = said_in(line)
        if text:
            self._said = text
            self._lines += 1
            if self._lines <= LINES_MAX:
                self._log.warning("etcd-said", text=text)

    def _ended(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        process.kill()  # it has closed its output, and would be of no use if it lived
        status = process.wait()
        self.why = f"etcd of this node ended with status {status}" + (f": {self._said}" if self._said else "")
        self._log.error("etcd-ended", status=status, said=self._said, again_s=self._pause)
        self._notice(True, self.why)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        with trio.move_on_after(STOP_S):
            await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        process.kill()
        process.wait()
        self._log.info("etcd-stopped")


def version_of(program: str) -> str:
    """The version of the program. Raises Invalid if it does not say it."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=VERSION_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Invalid(f"{program} cannot be started: {error}") from None
    found = re.search(r"etcd Version: (\S+)", done.stdout)
    if found is None:
        raise Invalid(f"{program} does not say a version of etcd, but {(done.stdout + done.stderr)[:200]!r}")
    return found[1]


def environment(inherited: Mapping[str, str], processors: int) -> dict[str, str]:
    """The variables of etcd. Its threads use the processors that this broker leaves, whose process uses one; one at
    least. A GOMAXPROCS that the broker has inherited comes before."""
    return {"GOMAXPROCS": str(max(1, processors - 1)), **inherited}


def own_addresses(settings: ClusterSettings) -> tuple[str, str]:
    """Where this node's etcd is reached: by clients, and by the other members."""
    number = settings.members.index(settings.node)
    return settings.etcd[number], settings.etcd_peers[number]


def options(
    settings: ClusterSettings, folder: Path, version: str, joins: Sequence[tuple[str, str]] = (), alone: str = ""
) -> list[str]:
    """The options of this node's etcd. ``joins``: names and addresses of the members among which it was taken in; none
    of them for a new cluster. ``alone``: see :class:`EtcdProcess`. They are ignored where there are data."""
    scheme = "http" if settings.etcd_ca is None else "https"
    client, peer = own_addresses(settings)
    own = [(settings.node, peer)] if alone else []
    everyone = joins or own or zip(settings.members, settings.etcd_peers, strict=True)
    words = [
        "--name", settings.node, "--data-dir", str(folder),
        "--initial-cluster-token", f"{settings.name}-{alone}" if alone else settings.name,
        "--listen-client-urls", f"{scheme}://{_bound(client)}", "--advertise-client-urls", f"{scheme}://{client}",
        "--listen-peer-urls", f"{scheme}://{_bound(peer)}", "--initial-advertise-peer-urls", f"{scheme}://{peer}",
        "--initial-cluster-state", "existing" if joins else "new",
        "--initial-cluster", ",".join(f"{name}={scheme}://{address}" for name, address in everyone),
        "--max-request-bytes", str(REQUEST_BYTES_MAX), "--quota-backend-bytes", str(QUOTA_BYTES),
        "--snapshot-count", str(SNAPSHOT_ENTRIES),
        "--heartbeat-interval", str(round(settings.etcd_heartbeat_interval * 1000)),
        "--election-timeout", str(round(settings.etcd_election_timeout * 1000)),
        "--pre-vote",  # a member that stood still, or was cut off, takes no leader away when it is back
        "--logger", "zap", "--log-level", "error",
    ]  # fmt: skip
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < CHECKS_BEFORE:
        words.append("--experimental-initial-corrupt-check")
    return words + _tls_options(settings)


def _tls_options(settings: ClusterSettings) -> list[str]:
    if settings.etcd_ca is None:
        return []
    files = {"trusted-ca": settings.etcd_ca, "cert": settings.etcd_certificate, "key": settings.etcd_key}
    words = ["--client-cert-auth", "--peer-client-cert-auth"]
    for prefix in ("", "peer-"):
        words += [f"--{prefix}{name}-file={path}" for name, path in files.items()]
    return words


def _bound(address: str) -> str:
    """Where to listen for an address that others use: etcd takes no names of hosts there."""
    host, port = parse_address(address)
    try:
        ip_address(host)
    except ValueError:
        return address if host == "localhost" else f"0.0.0.0:{port}"
    return address


def said_in(line: bytes) -> str:
    """What a line of etcd's log says, without its time and place."""
    text = line[:LINE_BYTES_MAX].decode(errors="replace").strip()
    try:
        facts = json.loads(text)
    except ValueError:
        return text
    if not isinstance(facts, dict):
        return text
    return ": ".join(str(facts[key]) for key in ("msg", "error") if key in facts)
