"""The task that writes the audit log: files and their numbers, disks that are full or fail, and the end."""

import errno
import json
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import structlog
import trio
from structlog.testing import LogCapture
from trio.testing import MockClock

from core.access.audit import AuditRecord
from core.config.audit import AuditSettings
from core.errors import Invalid
from core.server.audit_writer import RETRY_SECONDS, AuditFiles, AuditWriter, open_audit
from tests.kit.audited import Audited
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk

NAME = "audit.log"


async def at_once(append: Callable[[list[AuditRecord]], None], records: list[AuditRecord]) -> None:
    await trio.lowlevel.checkpoint()
    append(records)


class Place:
    """An audit log on a disk that fails when a test says so."""

    def __init__(self, *, size_max: int = 2**20, files_max: int = 3, **settings: object) -> None:
        self.audited = Audited(AuditSettings.model_validate(settings))
        self.memory = MemoryDisk()
        self.disk = FaultyDisk(self.memory)
        self.notices: list[tuple[bool, str]] = []
        self.log = LogCapture()
        self.writer = AuditWriter(
            self.audited.log,
            AuditFiles(self.disk, NAME, size_max=size_max, files_max=files_max),
            log=structlog.wrap_logger(None, processors=[self.log]),
            in_thread=at_once,
        )
        self.writer.notice = lambda on, cause: self.notices.append((on, cause))

    def act(self, name: str) -> None:
        self.audited.peer().record("definitions", name, "done", "alice", {})

    def written(self, name: str = NAME) -> list[str]:
        """The actions in a file."""
        data = self.memory.read(name, 0, 2**30)
        assert data.endswith(b"\n")
        return [json.loads(line)["action"] for line in data.splitlines() if line]


def test_records_are_written_and_synced():
    place = Place()
    place.act("one")
    place.act("two")
    place.writer.close()
    assert place.written() == ["one", "two"]
    assert place.disk.calls["sync"] == 1


def test_a_full_file_is_kept_under_a_number_and_the_oldest_is_deleted():
    place = Place(size_max=700, files_max=3)
    for number in range(20):
        place.act(f"act-{number:02}")
        place.writer.close()
    files = [f"{NAME}.2", f"{NAME}.1", NAME]
    assert place.memory.paths == sorted(files)
    assert all(place.memory.size(name) <= 700 for name in files)
    kept = [action for name in files for action in place.written(name)]
    assert kept == [f"act-{number:02}" for number in range(20)][-len(kept) :]


def test_many_records_at_once_fill_several_files():
    place = Place(size_max=700, files_max=100)
    for number in range(30):
        place.act(f"act-{number:02}")
    place.writer.close()
    files = sorted(place.memory.paths, key=lambda name: -int(name.rpartition(".")[2]) if name != NAME else 1)
    assert [action for name in files for action in place.written(name)] == [f"act-{number:02}" for number in range(30)]


def test_with_one_file_a_full_one_is_begun_anew():
    place = Place(size_max=500, files_max=1)
    for number in range(9):
        place.act(f"act-{number}")
        place.writer.close()
    assert place.memory.paths == [NAME]
    assert place.written()[-1] == "act-8"


def test_a_line_that_an_earlier_process_has_torn_ends_before_the_next():
    place = Place()
    place.memory.write(NAME, 0, [b'{"time": "2026'])
    place.act("one")
    place.writer.close()
    lines = place.memory.read(NAME, 0, 10_000).splitlines()
    assert lines[0] == b'{"time": "2026'
    assert json.loads(lines[1])["action"] == "one"


async def test_the_task_gathers_records_and_writes_them(autojump_clock: MockClock):
    place = Place()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(place.writer.run, lambda: None)
        for number in range(5):
            place.act(f"act-{number}")
            await trio.sleep(0.01)
        await trio.sleep(0.2)
        assert len(place.written()) == 5
        assert place.disk.calls["sync"] == 1
        nursery.cancel_scope.cancel()


async def test_a_full_disk_gives_one_error_and_a_notice_and_nothing_is_lost(autojump_clock: MockClock):
    place = Place()
    place.disk.set_space(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(place.writer.run, lambda: None)
        for number in range(3):
            place.act(f"act-{number}")
            await trio.sleep(2 * RETRY_SECONDS)
        assert [entry["event"] for entry in place.log.entries] == ["audit-not-written"]
        assert "No space left" in place.log.entries[0]["reason"]
        assert [on for on, _ in place.notices] == [True]
        place.disk.set_space(None)
        await trio.sleep(2 * RETRY_SECONDS)
        nursery.cancel_scope.cancel()
    assert place.written() == ["act-0", "act-1", "act-2"]
    assert [on for on, _ in place.notices] == [True, False]


async def test_while_the_disk_fails_memory_is_bounded_and_what_was_lost_is_told(autojump_clock: MockClock):
    place = Place(waiting_max=10)
    place.disk.set_space(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(place.writer.run, lambda: None)
        place.act("first")
        await trio.sleep(1.0)
        for number in range(100):
            place.act(f"act-{number}")
        assert place.audited.log.waiting == 10
        assert place.audited.log.lost == 90
        place.disk.set_space(None)
        await trio.sleep(3 * RETRY_SECONDS)
        nursery.cancel_scope.cancel()
    assert place.written() == ["first", *(f"act-{number}" for number in range(10)), "lost"]


@pytest.mark.parametrize("operation", ["write", "sync", "rename", "unlink", "size", "names"])
async def test_a_call_that_fails_once_doubles_no_record_and_tears_no_line(operation: str, autojump_clock: MockClock):
    place = Place(size_max=700, files_max=50)
    place.disk.fail(operation, nth=1, error=errno.EIO)
    for number in range(12):
        place.act(f"act-{number:02}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(place.writer.run, lambda: None)
        await trio.sleep(3 * RETRY_SECONDS)
        nursery.cancel_scope.cancel()
    files = sorted(place.memory.paths, key=lambda name: -int(name.rpartition(".")[2]) if name != NAME else 1)
    assert [action for name in files for action in place.written(name)] == [f"act-{number:02}" for number in range(12)]
    assert [on for on, _ in place.notices] == [True, False]


async def test_acts_that_were_left_out_are_told_when_nothing_else_comes(autojump_clock: MockClock):
    place = Place(refused_per_second_max=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(place.writer.run, lambda: None)
        for _ in range(5):
            place.audited.peer().record("refusals", "read", "refused", "bob", {})
        await trio.sleep(0.5)
        assert place.written() == ["read"]
        place.audited.pass_time(2.0)
        await trio.sleep(2.0)
        nursery.cancel_scope.cancel()
    assert place.written() == ["read", "left-out"]


def test_the_end_does_not_wait_for_a_disk_that_fails():
    place = Place()
    place.disk.set_space(0)
    place.act("one")
    place.writer.close()
    assert [entry["event"] for entry in place.log.entries] == ["audit-not-written"]


def opened(path: Path | None) -> AbstractContextManager[AuditWriter | None]:
    settings = AuditSettings() if path is None else AuditSettings.model_validate({"file": str(path)})
    return open_audit(settings, clock=lambda: Audited().now, log=structlog.get_logger())


def test_the_file_is_for_the_brokers_own_user_and_may_be_renamed(tmp_path: Path):
    with opened(tmp_path / NAME) as writer:
        assert writer is not None
        writer.close()
        (tmp_path / NAME).rename(tmp_path / "moved")
    for name, action in ((NAME, "stopped"), ("moved", "started")):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        (record,) = map(json.loads, (tmp_path / name).read_text().splitlines())
        assert (record["event"], record["action"]) == ("audit", action)


def test_a_folder_that_is_not_there_is_told_at_the_start(tmp_path: Path):
    with (
        pytest.raises(Invalid, match=r"audit\.file: the folder .*none cannot be used: No such file"),
        opened(tmp_path / "none" / NAME),
    ):
        pass


def test_without_a_file_there_is_no_audit_log():
    with opened(None) as writer:
        assert writer is None
