"""The command log: what was appended is read again, in order, whatever a power cut leaves of the rest."""

from random import Random

import pytest

from core.store.command_log import LeaseLost, LocalCommandLog, RecordPlace
from core.store.errors import StoreDamaged, StoreFailure
from core.store.lane import Lane
from core.store.record import HEADER_BYTES, record_bytes
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk

FILE_BYTES = 1024


class Opened:
    """A log and its lane."""

    def __init__(self, disk, *, generation=1, salvage=False):
        self.disk = disk
        self.lane = Lane("quorum", generation=generation, sync_interval_s=0.2)
        self.log = LocalCommandLog(disk, self.lane, file_bytes_max=FILE_BYTES, salvage=salvage)
        self.snapshot = self.log.take_snapshot()
        self.found = [logged.payload for logged in self.log.read(self.snapshot and self.snapshot[0])]
        self.fencing_token = self.log.acquire_lease()

    def append(self, payload, *, prompt=True):
        return self.log.append([payload], len(payload), self.fencing_token, prompt=prompt)

    def write(self):
        batch = self.lane.take_write()
        if batch is not None:
            batch.run(self.disk)
            self.lane.wrote(batch)

    def sync(self):
        batch = self.lane.take_sync(1e9)
        if batch is not None:
            batch.run(self.disk)
            self.lane.did_sync(batch)

    def commit(self):
        while self.lane.synced < self.lane.staged:
            self.write()
            self.sync()
        self.sync()


def payloads(start, stop, size=150):
    return [b"%d." % number * size for number in range(start, stop)]


@pytest.fixture
def opened():
    return Opened(MemoryDisk())


def test_commands_are_read_again_in_order(opened):
    for payload in payloads(0, 9):
        opened.append(payload)
    opened.commit()
    assert Opened(opened.disk, generation=2).found == payloads(0, 9)


def test_a_command_is_committed_when_it_is_synced(opened):
    position = opened.append(b"x").position
    opened.write()
    assert opened.log.committed < position
    opened.sync()
    assert opened.log.committed == position


def test_a_prompt_command_is_synced_at_once_and_others_wait(opened):
    opened.append(b"x", prompt=False)
    opened.commit()
    opened.append(b"y", prompt=False)
    opened.write()
    assert opened.lane.sync_due(0.0) != 0.0
    opened.append(b"z")
    assert opened.lane.sync_due(0.0) == 0.0


def test_files_are_rolled_before_they_pass_the_limit(opened):
    for payload in payloads(0, 10):
        opened.append(payload)
    opened.append(b"L" * 3000)
    opened.append(b"s")
    opened.commit()
    files = opened.log.files()
    assert list(files) == [1, 2, 3, 4, 5, 6]
    assert list(files.values()) == [opened.disk.size(f"quorum/{number}.log") for number in files]
    assert max(list(files.values())[:3]) <= FILE_BYTES
    assert Opened(opened.disk, generation=2).found == [*payloads(0, 10), b"L" * 3000, b"s"]


def test_a_file_is_written_when_it_is_full_and_on_the_disk(opened):
    for payload in payloads(0, 4):
        opened.append(payload)
    assert [opened.log.is_written(number) for number in (1, 2)] == [False, False]
    opened.write()
    assert [opened.log.is_written(number) for number in (1, 2)] == [True, False]
    assert Opened(opened.disk, generation=2).log.is_written(2)


def test_bodies_are_read_by_place(opened):
    opened.append(b"first")
    _, file, offset = opened.log.append([b"head", b"body"], 8, opened.fencing_token, prompt=True)
    opened.commit()
    assert opened.log.read_bytes(file, offset + 4, 4) == b"body"
    with pytest.raises(StoreFailure, match="end after"):
        opened.log.read_bytes(file, offset, 1000)


def test_a_disk_that_cannot_read_fails_the_store():
    disk = FaultyDisk()
    opened = Opened(disk)
    _, file, offset = opened.append(b"x")
    opened.commit()
    disk.fail("read")
    with pytest.raises(StoreFailure, match=r"cannot read .quorum/1\.log."):
        opened.log.read_bytes(file, offset, 1)


def test_a_holder_that_was_replaced_appends_nothing(opened):
    fencing_token = opened.fencing_token
    opened.log.renew_lease(fencing_token)
    newer = opened.log.acquire_lease()
    with pytest.raises(LeaseLost):
        opened.append(b"stale")
    with pytest.raises(LeaseLost):
        opened.log.renew_lease(fencing_token)
    opened.log.append([b"x"], 1, newer, prompt=True)
    opened.commit()
    assert Opened(opened.disk, generation=2).found == [b"x"]


def test_a_prefix_of_files_is_removed_when_all_before_is_synced(opened):
    for payload in payloads(0, 10):
        opened.append(payload)
    opened.log.truncate(3)
    assert list(opened.log.files()) == [3, 4]
    opened.write()
    assert opened.disk.paths == [f"quorum/{number}.log" for number in (1, 2, 3, 4)]
    opened.sync()
    assert [path for path in opened.disk.paths if path.endswith(".log")] == ["quorum/3.log", "quorum/4.log"]
    assert Opened(opened.disk, generation=2).found == payloads(6, 10)


def test_the_file_that_is_written_is_never_removed(opened):
    with pytest.raises(AssertionError):
        opened.log.truncate(2)


def test_each_start_begins_a_new_file_and_numbers_have_no_gap(opened):
    opened.append(b"a")
    opened.commit()
    second = Opened(opened.disk, generation=2)
    third = Opened(second.disk, generation=3)
    third.append(b"c")
    third.commit()
    assert list(third.log.files()) == [1, 2]
    assert Opened(third.disk, generation=4).found == [b"a", b"c"]


@pytest.mark.parametrize("seed", range(200))
def test_a_power_cut_loses_nothing_that_was_committed_and_changes_no_order(seed):
    rng = Random(seed)
    opened = Opened(MemoryDisk())
    appended = []
    committed = 0
    for generation in range(2, 5):
        for _ in range(rng.randrange(12)):
            payload = b"%d " % len(appended) + rng.randbytes(rng.choice((1, 30, 700, 2000)))
            opened.append(payload)
            appended.append(payload)
            for step in (opened.write, opened.sync):
                if rng.random() < 0.4:
                    step()
            if opened.log.committed == opened.lane.staged:
                committed = len(appended)
        opened = Opened(opened.disk.power_cut(rng), generation=generation)
        assert opened.found[:committed] == appended[:committed]
        assert opened.found == [payload for payload in appended if payload in opened.found]
        appended = opened.found
        committed = len(appended)


def torn(opened):
    """A log with a synced record, and behind it a damaged one that was not synced."""
    opened.append(b"synced")
    opened.commit()
    opened.append(b"mark goes with this")
    opened.commit()
    opened.append(b"torn")
    opened.append(b"behind")
    opened.write()
    offset = record_bytes(6) + record_bytes(19) + HEADER_BYTES
    opened.disk.flip_bit("quorum/1.log", 8 * offset)
    return offset - HEADER_BYTES


def test_damage_behind_the_last_sync_ends_the_log_and_is_told(opened):
    at = torn(opened)
    again = Opened(opened.disk, generation=2)
    assert again.found == [b"synced", b"mark goes with this"]
    assert opened.disk.size("quorum/1.log") == at
    assert len(again.log.problems) == 1
    assert f"quorum/1.log from {at}" in again.log.problems[0]
    third = Opened(opened.disk, generation=3)
    assert (third.found, third.log.problems) == (again.found, [])


def test_damage_to_what_was_synced_refuses_the_store_and_changes_nothing(opened):
    torn(opened)
    opened.disk.flip_bit("quorum/1.log", 8 * HEADER_BYTES)
    before = {path: opened.disk.read(path, 0, 10**6) for path in opened.disk.paths}
    with pytest.raises(StoreDamaged, match=r"quorum/1\.log from 0"):
        Opened(opened.disk, generation=2)
    assert {path: opened.disk.read(path, 0, 10**6) for path in opened.disk.paths} == before


def test_salvage_loses_the_damaged_record_only(opened):
    torn(opened)
    opened.disk.flip_bit("quorum/1.log", 8 * HEADER_BYTES)
    again = Opened(opened.disk, generation=2, salvage=True)
    assert again.found == [b"mark goes with this"]
    assert len(again.log.problems) == 2


@pytest.mark.parametrize("bit", range(0, 8 * HEADER_BYTES, 5))
def test_a_flipped_bit_in_any_header_before_synced_ones_is_corruption(opened, bit):
    torn(opened)
    opened.disk.flip_bit("quorum/1.log", bit)
    with pytest.raises(StoreDamaged):
        Opened(opened.disk, generation=2)


def test_a_file_that_is_missing_among_synced_ones_is_corruption(opened):
    for payload in payloads(0, 10):
        opened.append(payload)
        opened.commit()
    opened.disk.unlink("quorum/2.log")
    with pytest.raises(StoreDamaged, match=r"quorum/2\.log.*missing"):
        Opened(opened.disk, generation=2)
    assert Opened(opened.disk, generation=3, salvage=True).found == payloads(0, 3) + payloads(6, 10)


def test_a_snapshot_is_given_once_with_what_came_after_it(opened):
    for payload in payloads(0, 5):
        opened.append(payload)
    opened.commit()
    opened.log.put_snapshot([b"state", b"more" * 500])
    opened.append(b"later")
    opened.commit()
    again = Opened(opened.disk, generation=2)
    assert again.snapshot == (RecordPlace(2, 2 * record_bytes(300)), [b"state", b"more" * 500])
    assert again.found == [b"later"]
    assert Opened(opened.disk, generation=3).snapshot is None


def test_a_damaged_snapshot_is_not_believed(opened):
    opened.append(b"a")
    opened.commit()
    opened.log.put_snapshot([b"state"])
    opened.disk.flip_bit("quorum/snapshot", 8 * (record_bytes(24) + HEADER_BYTES))
    again = Opened(opened.disk, generation=2)
    assert (again.snapshot, again.found) == (None, [b"a"])
    assert again.log.problems


def test_a_snapshot_of_what_may_be_lost_is_a_bug(opened):
    opened.append(b"a")
    opened.write()
    with pytest.raises(AssertionError):
        opened.log.put_snapshot([])
