"""The command logs of several groups on one lane, beside the one in the lane's own folder."""

from random import Random

import pytest

from core.store.command_log import LocalCommandLog
from core.store.errors import StoreDamaged
from core.store.inspect import EntryVerdict, entries_of_file
from core.store.lane import Lane
from core.store.marks import begin_marks, read_marks
from tests.kit.faulty_disk import MemoryDisk

GROUPS = (None, 1, 22)


class Logs:
    """One start with a log for each group, and what it has found."""

    def __init__(self, disk, generation):
        self.disk = disk
        marks = begin_marks(disk, "quorum", read_marks(disk, "quorum"), generation=generation, gone=())
        self.lane = Lane("quorum", generation=generation, sync_interval_s=0.2, marks=marks)
        self.logs = {group: LocalCommandLog(disk, self.lane, file_bytes_max=512, group=group) for group in GROUPS}
        self.found = {group: [logged.payload for logged in log.read()] for group, log in self.logs.items()}
        self.tokens = {group: log.acquire_lease() for group, log in self.logs.items()}

    def append(self, group, payload):
        return self.logs[group].append((payload,), len(payload), self.tokens[group], prompt=True)

    def write(self):
        while (batch := self.lane.take_write()) is not None:
            batch.run(self.disk)
            self.lane.wrote(batch)

    def commit(self):
        while self.lane.synced < self.lane.staged:
            self.write()
            if (batch := self.lane.take_sync(1e9)) is not None:
                batch.run(self.disk)
                self.lane.did_sync(batch)
        if (mark := self.lane.take_mark()) is not None:
            mark.run(self.disk)
            self.lane.wrote(mark)


def payloads(group, count):
    return [b"%d of %d" % (number, group or 0) * 10 for number in range(count)]


@pytest.fixture
def logs():
    logs = Logs(MemoryDisk(), 1)
    for number in range(12):
        for group in GROUPS:
            logs.append(group, payloads(group, 12)[number])
    logs.commit()
    return logs


def test_each_group_has_its_commands_after_a_power_cut(logs):
    for seed in range(20):
        again = Logs(logs.disk.power_cut(Random(seed)), 2)
        assert again.found == {group: payloads(group, 12) for group in GROUPS}


def test_the_log_without_a_group_is_where_it_was(logs):
    names = [path for path in logs.disk.paths if path.endswith(".log")]
    assert "quorum/1.log" in names
    assert "quorum/groups/1/1.log" in names
    assert "quorum/groups/22/1.log" in names


def test_a_folder_from_before_groups_opens_with_everything_in_it():
    disk = MemoryDisk()
    lane = Lane("quorum", generation=1, sync_interval_s=0.2)
    log = LocalCommandLog(disk, lane, file_bytes_max=512)
    assert list(log.read()) == []
    token = log.acquire_lease()
    for payload in payloads(None, 9):
        log.append((payload,), len(payload), token, prompt=True)
    batch = lane.take_write()
    batch.run(disk)
    disk.sync_everything()
    assert Logs(disk, 2).found == {None: payloads(None, 9), 1: [], 22: []}


def test_positions_are_those_of_the_lane(logs):
    places = [logs.append(group, b"x") for group in GROUPS]
    assert [place.position for place in places] == [37, 38, 39]
    assert len({place.file for place in places}) == 1
    assert all(log.committed == 36 for log in logs.logs.values())


def test_damage_is_named_with_the_folder_of_its_group(logs):
    logs.disk.flip_bit("quorum/groups/22/1.log", 8 * 40)
    found = entries_of_file(logs.disk, "quorum/groups/22/1.log", read_marks(logs.disk, "quorum"))
    assert [entry.offset for entry in found if entry.verdict is EntryVerdict.CORRUPT] == [0]
    with pytest.raises(StoreDamaged, match=r"quorum/groups/22/1\.log"):
        Logs(logs.disk, 2)


def test_a_payload_that_does_not_follow_ends_the_log_where_nothing_was_synced():
    logs = Logs(MemoryDisk(), 1)
    for payload in (b"1", b"2", b"4", b"5"):
        logs.append(1, payload)
    logs.write()
    lane = Lane("quorum", generation=2, sync_interval_s=0.2)
    log = LocalCommandLog(logs.disk, lane, file_bytes_max=512, group=1)
    read = []

    def follows(payload):
        return not read or payload == b"%d" % (int(read[-1]) + 1)

    for _, _, payload in log.read(follows=follows):
        read.append(payload)
    assert read == [b"1", b"2"]
    assert "records before it are missing" in log.problems[0]
    again = LocalCommandLog(logs.disk, Lane("quorum", generation=3, sync_interval_s=0.2), file_bytes_max=512, group=1)
    assert [logged.payload for logged in again.read()] == [b"1", b"2"]


def test_a_payload_that_does_not_follow_a_synced_one_is_damage(logs):
    log = LocalCommandLog(logs.disk, Lane("quorum", generation=2, sync_interval_s=0.2), file_bytes_max=512, group=1)
    with pytest.raises(StoreDamaged, match="records before it are missing"):
        list(log.read(follows=lambda payload: payload != payloads(1, 12)[5]))


def test_a_log_in_use_is_read_again(logs):
    assert [logged.payload for logged in logs.logs[22].read_again()] == payloads(22, 12)
    place = logs.append(22, b"more")
    logs.commit()
    last = list(logs.logs[22].read_again())[-1]
    assert (last.file, last.offset, last.payload) == (place.file, place.offset, b"more")


def test_a_removed_file_proves_that_what_was_copied_out_of_it_is_synced(logs):
    """The simulation of clusters found this: damage to a copied message counted as torn, and was cut off."""
    logs.append(1, b"begins a batch, with the mark of the sync before")
    logs.write()
    place = logs.append(1, b"copied")
    logs.lane.want_sync()
    logs.logs[1].truncate(place.file)
    logs.write()
    batch = logs.lane.take_sync(1e9)
    assert "quorum/groups/1/1.log" in [removal.path for removal in batch.removals]
    batch.run(logs.disk)
    disk = logs.disk
    assert "quorum/groups/1/1.log" not in disk.paths
    disk.flip_bit(f"quorum/groups/1/{place.file}.log", 8 * place.offset)
    with pytest.raises(StoreDamaged):
        Logs(disk, 2)
