"""The etcd that a broker starts: options, what is said of one that ends, restarts, the end. A script stands for
etcd."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
import trio
import trio.testing

from core.cluster.engine_members import EngineMember
from core.config import ConfigError, load
from core.config.cluster import ClusterSettings
from core.errors import Invalid
from core.server.etcd_process import (
    LINE_BYTES_MAX,
    LINES_MAX,
    PAUSE_MAX_S,
    PAUSE_MIN_S,
    SETTLED_S,
    EtcdProcess,
    environment,
    options,
    said_in,
    version_of,
)

pytestmark = pytest.mark.slow

BASE = {
    "cluster.node": "b",
    "cluster.name": "shop",
    "cluster.members": ["a", "b", "c"],
    "cluster.etcd": ["10.0.0.1:2379", "10.0.0.2:2379", "c.example.org:2379"],
    "cluster.etcd_peers": ["10.0.0.1:2380", "10.0.0.2:2380", "c.example.org:2380"],
}


def settings(**changes: object) -> ClusterSettings:
    return load(overrides=BASE | {f"cluster.{key}": value for key, value in changes.items()}).cluster


class Bench:
    """An etcd process around a script, and what was logged and noticed."""

    def __init__(self, folder: Path, script: str, check: Callable[[str, str], None] = lambda version, path: None):
        program = folder / "etcd.sh"
        version = 'if [ "$1" = --version ]; then echo "etcd Version: 3.5.16"; exit; fi\n'
        program.write_text(f"#!/bin/sh\n{version}{script}\n")
        program.chmod(0o700)
        self.entries: list[structlog.typing.EventDict] = []
        self.members: list[EngineMember] | None = None
        """What the other members say."""
        self.noticed: list[tuple[bool, str]] = []
        self._changed = trio.Event()
        self.process = EtcdProcess(
            settings(),
            folder,
            str(program),
            check=check,
            others=self._others,
            log=structlog.wrap_logger(None, processors=[self._log]),
            notice=self._notice,
        )

    def _others(self) -> list[EngineMember] | None:
        return self.members

    def _log(self, logger: object, method: str, entry: structlog.typing.EventDict) -> structlog.typing.EventDict:
        self.entries.append(entry)
        self._changed.set()
        raise structlog.DropEvent

    def _notice(self, on: bool, why: str) -> None:
        self.noticed.append((on, why))
        self._changed.set()

    def lines(self, event: str) -> list[structlog.typing.EventDict]:
        return [entry for entry in self.entries if entry["event"] == event]

    async def until(self, there: Callable[[], bool]) -> None:
        """Wait for something that is logged or noticed. The clock of the tests stands still meanwhile."""
        while not there():
            self._changed = trio.Event()
            await self._changed.wait()
        await trio.testing.wait_all_tasks_blocked()


def test_the_options_name_all_members_and_what_headgate_needs(tmp_path: Path):
    words = " ".join(options(settings(), tmp_path / "etcd", "3.5.16"))
    for expected in (
        "--name b",
        "--initial-cluster-token shop",
        "--listen-client-urls http://10.0.0.2:2379 --advertise-client-urls http://10.0.0.2:2379",
        "--initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=http://c.example.org:2380",
        "--max-request-bytes 33554432",
        "--heartbeat-interval 20 --election-timeout 200 --pre-vote",
        "--experimental-initial-corrupt-check",
    ):
        assert expected in words
    assert "cert" not in words


@pytest.mark.parametrize(("processors", "uses"), [(1, "1"), (2, "1"), (8, "7")])
def test_its_threads_leave_a_processor_to_the_broker(processors: int, uses: str):
    assert environment({"PATH": "/bin"}, processors) == {"PATH": "/bin", "GOMAXPROCS": uses}
    assert environment({"GOMAXPROCS": "3"}, processors) == {"GOMAXPROCS": "3"}


def test_the_times_of_an_election_are_those_of_the_settings(tmp_path: Path):
    given = settings(etcd_heartbeat_interval=0.1, etcd_election_timeout=1.5)
    assert "--heartbeat-interval 100 --election-timeout 1500" in " ".join(options(given, tmp_path / "etcd", "3.5.16"))
    with pytest.raises(ConfigError, match="an etcd_election_timeout of 5 times etcd_heartbeat_interval"):
        settings(etcd_heartbeat_interval=0.1, etcd_election_timeout=0.4)


def test_one_that_begins_alone_names_itself_only_and_has_a_token_of_its_own(tmp_path: Path):
    words = " ".join(options(settings(), tmp_path / "etcd", "3.5.16", alone="0123abcd"))
    assert "--initial-cluster b=http://10.0.0.2:2380 " in words
    assert "--initial-cluster-token shop-0123abcd " in words
    assert "--initial-cluster-state new" in words


def test_a_name_of_a_host_is_told_to_others_and_all_addresses_are_listened_on(tmp_path: Path):
    words = " ".join(options(settings(node="c"), tmp_path / "etcd", "3.7.3"))
    assert "--listen-peer-urls http://0.0.0.0:2380 --initial-advertise-peer-urls http://c.example.org:2380" in words
    assert "corrupt" not in words


def test_with_certificates_clients_and_members_need_one(tmp_path: Path):
    files = {"etcd_ca": "ca.pem", "etcd_certificate": "node.pem", "etcd_key": "node.key"}
    words = " ".join(options(settings(**files), tmp_path / "etcd", "3.5.16"))
    for expected in (
        "https://10.0.0.2:2379",
        "a=https://10.0.0.1:2380",
        "--client-cert-auth",
        "--peer-client-cert-auth",
        "--trusted-ca-file=ca.pem --cert-file=node.pem --key-file=node.key",
        "--peer-trusted-ca-file=ca.pem --peer-cert-file=node.pem --peer-key-file=node.key",
    ):
        assert expected in words


def test_without_the_program_the_remedy_is_said(tmp_path: Path):
    with pytest.raises(Invalid, match="apt install etcd-server"):
        EtcdProcess(
            settings(), tmp_path, None, check=print, others=lambda: None, log=structlog.get_logger(),
            notice=lambda on, why: None,
        )  # fmt: skip


def test_a_version_that_must_not_be_used_is_refused(tmp_path: Path):
    def check(version: str, path: str) -> None:
        raise Invalid(f"{version} at {path}")

    with pytest.raises(Invalid, match=r"3\.5\.16 at .*etcd\.sh"):
        Bench(tmp_path, "", check)


@pytest.mark.parametrize("script", ["echo something else", "exit 1"])
def test_a_program_that_says_no_version_is_refused(tmp_path: Path, script: str):
    program = tmp_path / "etcd"
    program.write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(Invalid, match="cannot be started"):
        version_of(str(program))
    program.chmod(0o700)
    with pytest.raises(Invalid, match="does not say a version"):
        version_of(str(program))


async def test_one_that_ends_is_started_again_ever_later_and_the_notice_says_why(
    tmp_path: Path, mock_clock: trio.testing.MockClock
):
    bench = Bench(tmp_path, """echo '{"level":"fatal","msg":"no start","error":"disk full"}' >&2; exit 7""")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.process.run, lambda: None)
        for times, pause in enumerate((0.5, 1.0, 2.0, 4.0), 1):
            await bench.until(lambda: len(bench.noticed) == times)  # noqa: B023 # it is called within the round
            mock_clock.jump(pause - 0.01)
            await trio.testing.wait_all_tasks_blocked()
            assert bench.process.starts == times
            mock_clock.jump(0.02)
            await bench.until(lambda: bench.process.starts == times + 1)  # noqa: B023
        await bench.until(lambda: len(bench.noticed) == 5)
        row = bench.process.row()
        nursery.cancel_scope.cancel()
    assert bench.noticed[0] == (True, "etcd of this node ended with status 7: no start: disk full")
    assert (row["running"], row["starts"], row["why"]) == (False, 5, bench.noticed[4][1])
    assert bench.lines("etcd-said")[0]["text"] == "no start: disk full"


async def test_the_wait_for_another_start_has_a_limit(tmp_path: Path, mock_clock: trio.testing.MockClock):
    bench = Bench(tmp_path, "exit 1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.process.run, lambda: None)
        for times in range(1, 10):
            await bench.until(lambda: len(bench.noticed) == times)  # noqa: B023
            mock_clock.jump(PAUSE_MAX_S)
        nursery.cancel_scope.cancel()
    assert bench.lines("etcd-ended")[-1]["again_s"] == PAUSE_MAX_S


async def test_one_that_runs_for_a_while_clears_the_notice_and_is_ended_in_order(
    tmp_path: Path, mock_clock: trio.testing.MockClock
):
    bench = Bench(tmp_path, 'sleep 99 & trap "kill $!; echo in order > $4/mark; exit 0" TERM; echo begun >&2; wait')
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.process.run, lambda: None)
        await bench.until(lambda: bool(bench.lines("etcd-said")))
        assert bench.noticed == []
        mock_clock.jump(SETTLED_S)
        await bench.until(lambda: bool(bench.noticed))
        row = bench.process.row()
        assert bench.noticed == [(False, "")]
        assert (row["running"], row["why"], row["version"]) == (True, "", "3.5.16")
        nursery.cancel_scope.cancel()
    assert (bench.process.row()["running"], len(bench.lines("etcd-stopped"))) == (False, 1)
    assert (tmp_path / "etcd" / "mark").read_text() == "in order\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(row["pid"])), 0)


async def test_one_that_is_killed_is_started_again(tmp_path: Path, mock_clock: trio.testing.MockClock):
    bench = Bench(tmp_path, "echo begun >&2; exec sleep 99")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.process.run, lambda: None)
        await bench.until(lambda: bool(bench.lines("etcd-said")))
        mock_clock.jump(SETTLED_S)
        await bench.until(lambda: len(bench.noticed) == 1)
        os.killpg(int(str(bench.process.row()["pid"])), signal.SIGKILL)
        await bench.until(lambda: len(bench.noticed) == 2)
        mock_clock.jump(PAUSE_MIN_S)
        await bench.until(lambda: bench.process.starts == 2)
        mock_clock.jump(SETTLED_S)
        await bench.until(lambda: len(bench.noticed) == 3)
        nursery.cancel_scope.cancel()
    assert [on for on, _ in bench.noticed] == [False, True, False]


async def test_what_a_broken_one_writes_is_repeated_within_limits(tmp_path: Path, mock_clock: trio.testing.MockClock):
    bench = Bench(tmp_path, f"seq {LINES_MAX + 50} >&2; head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.process.run, lambda: None)
        await bench.until(lambda: bool(bench.noticed))
        nursery.cancel_scope.cancel()
    assert len(bench.lines("etcd-said")) == LINES_MAX
    assert bench.noticed[0][1].endswith("x" * LINE_BYTES_MAX)
    assert len(bench.noticed[0][1]) < LINE_BYTES_MAX + 100


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"level":"error","ts":"t","caller":"c","msg":"bad","error":"worse"}', "bad: worse"),
        (b'{"msg":"only this"}', "only this"),
        (b"panic: at the disco", "panic: at the disco"),
        (b"[1]", "[1]"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", ""),
    ],
)
def test_a_line_of_its_log_is_read(line: bytes, said: str):
    assert said_in(line) == said


def member(name: str, number: int, *, is_learner: bool = False) -> EngineMember:
    return EngineMember(number, name, (BASE["cluster.etcd_peers"][number],), is_learner)  # type: ignore[index]


async def test_a_member_that_was_taken_in_starts_among_the_others_and_its_old_data_are_kept(
    tmp_path: Path, mock_clock: trio.testing.MockClock
):
    bench = Bench(tmp_path, 'echo "$*" >&2; mkdir -p $4/member; exit 1')
    bench.members = [member("a", 0), member("b", 1)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.process.run, lambda: None)
        await bench.until(lambda: len(bench.noticed) == 1)
        bench.members = [member("a", 0), member("", 1, is_learner=True)]
        (tmp_path / "etcd" / "member" / "old").write_text("old")
        mock_clock.jump(PAUSE_MIN_S)
        await bench.until(lambda: len(bench.noticed) == 2)
        nursery.cancel_scope.cancel()
    first, second = (line["text"] for line in bench.lines("etcd-said"))
    assert "--initial-cluster-state new --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=" in first
    assert "existing --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380 --max" in second
    assert (tmp_path / "etcd-replaced" / "member" / "old").read_text() == "old"
    assert not (tmp_path / "etcd" / "member" / "old").exists()


async def test_one_that_the_others_do_not_know_is_not_started(tmp_path: Path, mock_clock: trio.testing.MockClock):
    bench = Bench(tmp_path, "echo begun >&2; exec sleep 99")
    bench.members = [member("a", 0)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.process.run, lambda: None)
        await bench.until(lambda: bool(bench.noticed))
        assert (bench.process.starts, bench.process.row()["running"]) == (0, False)
        assert "headgate cluster join" in bench.noticed[0][1]
        bench.members = [member("a", 0), member("", 1)]
        mock_clock.jump(PAUSE_MIN_S)
        await bench.until(lambda: bench.process.starts == 1)
        nursery.cancel_scope.cancel()
