"""A lane: positions, group commit, late writers, syncs, removals, marks and failures, over a disk in memory."""

import errno

import pytest

from core.store.errors import NoSpace, StoreFailure
from core.store.lane import REMOVALS_MAX, SYNC_FILES_MAX
from core.store.marks import read_marks
from core.store.record import RecordKind
from tests.kit.call_trace import traced_steps
from tests.kit.lane_store import BODIES, INDEX, MARKS, LaneStore


@pytest.fixture
def store() -> LaneStore:
    return LaneStore()


# --- writes


def test_positions_count_records_and_grow_with_staging_writing_and_syncing(store: LaneStore):
    lane = store.lane
    assert lane.take_write() is None
    assert [store.append(), store.append(BODIES), store.append()] == [1, 2, 3]
    assert (lane.staged, lane.written, lane.synced) == (3, 0, 0)
    store.write()
    assert (lane.staged, lane.written, lane.synced) == (3, 3, 0)
    store.append()
    store.sync()
    assert (lane.staged, lane.written, lane.synced) == (4, 3, 3)


def test_records_are_on_disk_as_they_were_staged(store: LaneStore):
    store.append(payload=b"one")
    store.append(payload=b"two")
    store.write()
    store.append(payload=b"three")
    store.write()
    assert [(found.payload, found.generation, found.batch) for found in store.records()] == [
        (b"one", 1, 1),
        (b"two", 1, 1),
        (b"three", 1, 2),
    ]


def test_adjoining_records_of_a_file_are_one_write(store: LaneStore):
    for _ in range(3):
        store.append(INDEX)
        store.append(BODIES)
    store.lane.append(INDEX, 10_000, RecordKind.SETTLE, [b"behind a gap"])
    batch = store.write()
    assert [path for path, _ in batch.ends] == [INDEX, BODIES, INDEX]
    assert store.disk.calls["write"] == 3


def test_one_batch_at_a_time_while_the_next_gathers(store: LaneStore):
    store.append()
    first = store.lane.take_write()
    assert first is not None
    store.append()
    store.append()
    assert store.lane.take_write() is None
    first.run(store.disk)
    store.lane.wrote(first)
    assert store.lane.written == 1
    second = store.write()
    assert (first.position, second.position) == (1, 3)
    assert (first.number, second.number) == (1, 2)


def test_staged_bytes_are_those_not_yet_written(store: LaneStore):
    store.append(payload=b"")
    assert store.lane.staged_bytes == 32
    batch = store.lane.take_write()
    assert batch is not None
    store.append(payload=b"123456789")
    assert store.lane.staged_bytes == 32 + 48
    batch.run(store.disk)
    store.lane.wrote(batch, 0.5)
    assert (store.lane.staged_bytes, store.lane.written_bytes) == (48, 32)
    store.write()
    assert (store.lane.staged_bytes, store.lane.written_bytes) == (0, 80)


def test_a_batch_that_is_not_out_is_a_bug(store: LaneStore):
    store.append()
    batch = store.write()
    with pytest.raises(AssertionError):
        store.lane.wrote(batch)
    synced = store.sync()
    with pytest.raises(AssertionError):
        store.lane.did_sync(synced)


def test_the_lane_says_when_there_may_be_something_to_take(store: LaneStore):
    notified = store.notified
    store.append()
    assert notified()
    store.append()
    assert not notified()
    store.lane.want_sync()
    assert notified()
    store.lane.want_sync()
    assert not notified()
    store.write()
    assert notified()
    store.sync()
    assert notified()
    store.append()
    assert notified()


# --- late writers


class Settlements:
    """A late writer that collects numbers until a batch is taken."""

    def __init__(self, store: LaneStore) -> None:
        self.waiting = 0
        self.calls = 0
        self._store = store

    def settle(self) -> None:
        self.waiting += 1
        self._store.lane.later(self)

    def write_late(self) -> None:
        self.calls += 1
        if self.waiting:
            self._store.append(payload=b"%d" % self.waiting)
        self.waiting = 0


def test_a_late_writer_is_called_once_when_the_next_batch_is_taken(store: LaneStore):
    late = Settlements(store)
    late.settle()
    assert store.notified()
    late.settle()
    late.settle()
    assert not store.notified()
    assert (late.calls, store.lane.staged) == (0, 0)
    assert store.lane.has_late_writers
    assert not store.lane.has_records
    store.write()
    store.append()
    store.write()
    assert late.calls == 1
    assert [found.payload for found in store.records()] == [b"3", b"message"]
    assert not store.lane.has_late_writers


def test_late_writers_wait_while_a_batch_is_out(store: LaneStore):
    late = Settlements(store)
    store.append()
    batch = store.lane.take_write()
    assert batch is not None
    late.settle()
    assert store.lane.take_write() is None
    assert late.calls == 0
    batch.run(store.disk)
    store.lane.wrote(batch)
    store.write()
    assert late.calls == 1


def test_a_late_writer_may_have_nothing_left_to_write(store: LaneStore):
    late = Settlements(store)
    late.settle()
    late.waiting = 0
    assert store.lane.take_write() is None
    assert late.calls == 1


# --- syncs


def test_a_wanted_sync_is_due_when_the_write_is_done(store: LaneStore):
    lane = store.lane
    store.append()
    store.write()
    store.sync(10.0)
    store.append()
    lane.want_sync()
    assert lane.sync_due(10.0) is None
    store.write()
    assert lane.sync_due(10.1) == 10.1
    store.sync(10.1)
    assert lane.synced == 2


def test_an_unwanted_sync_waits_for_the_interval_since_the_last(store: LaneStore):
    lane = store.lane
    store.append()
    store.write()
    store.sync(10.0)
    store.append()
    store.write()
    assert lane.sync_due(10.1) == pytest.approx(10.2)
    assert lane.take_sync(10.1) is None
    assert lane.sync_due(10.3) == 10.3
    store.sync(10.3)
    assert lane.synced == 2


def test_a_sync_covers_what_is_written_when_it_is_taken(store: LaneStore):
    lane = store.lane
    store.append()
    store.write()
    lane.want_sync()
    batch = lane.take_sync(0.0)
    assert batch is not None
    store.append(BODIES)
    store.write()
    lane.want_sync()
    assert lane.sync_due(0.0) is None
    assert lane.take_sync(0.0) is None
    batch.run(store.disk)
    lane.did_sync(batch)
    assert (lane.written, lane.synced) == (2, 1)
    assert store.memory.is_synced(INDEX)
    assert not store.memory.is_synced(BODIES)
    store.sync()
    assert lane.synced == 2
    assert store.memory.is_synced(BODIES)


def test_a_sync_beside_a_write_that_is_out_does_not_cover_it(store: LaneStore):
    store.append()
    store.write()
    store.append()
    assert store.lane.take_write() is not None
    batch = store.sync()
    assert (batch.number, batch.position) == (1, 1)
    assert store.lane.synced == 1


def test_the_names_of_new_files_are_synced_with_them_and_only_once(store: LaneStore):
    store.append(INDEX)
    store.append("queues/1/0/1.idx")
    store.append("top")
    store.write()
    batch = store.sync()
    assert list(batch.files) == [INDEX, "queues/1/0/1.idx", "top"]
    assert list(batch.folders) == ["queues/1/0", "queues/1", "queues", ""]
    assert store.memory.is_synced(INDEX)
    store.append(INDEX)
    store.append("queues/1/5.idx")
    store.write()
    batch = store.sync(1.0)
    assert [path for path in batch.files if path != MARKS] == [INDEX, "queues/1/5.idx"]
    assert list(batch.folders) == ["classic", "", "queues/1"]


def test_a_sync_of_many_files_takes_several_batches_and_counts_with_the_last(store: LaneStore):
    lane = store.lane
    paths = [f"queues/{number}/0/0.idx" for number in range(2 * SYNC_FILES_MAX + 1)]
    for path in paths:
        store.append(path)
    lane.remove(paths[0])
    store.write()
    first = store.sync()
    store.append(BODIES)
    store.write()
    lane.remove(paths[1])
    second = store.sync()
    assert [len(first.files), len(second.files)] == [SYNC_FILES_MAX, SYNC_FILES_MAX]
    assert (lane.written, lane.synced) == (len(paths) + 1, 0)
    assert paths[0] in store.memory.paths
    assert lane.sync_due(0.0) == 0.0, "the next batch of a sync that has begun waits for nothing"
    last = store.sync()
    assert [path for path in last.files if path != MARKS] == paths[-1:]
    assert (lane.written, lane.synced) == (len(paths) + 1, len(paths))
    assert [path for path in paths if path not in store.memory.paths] == paths[:1]
    assert all(store.memory.is_synced(path) for path in paths[1:])
    assert not store.memory.is_synced(BODIES), "it was written after the sync began"
    store.sync(1.0)
    assert store.memory.is_synced(BODIES)
    assert paths[1] not in store.memory.paths


def test_names_of_files_are_synced_in_the_batch_of_their_file(store: LaneStore):
    for number in range(SYNC_FILES_MAX + 1):
        store.append(f"queues/{number}/0/0.idx")
    store.write()
    first = store.sync()
    assert set(first.folders) == {
        "", "queues", *(f"queues/{n}" for n in range(SYNC_FILES_MAX)), *(f"queues/{n}/0" for n in range(SYNC_FILES_MAX))
    }  # fmt: skip
    assert list(store.sync().folders) == [f"queues/{SYNC_FILES_MAX}/0", f"queues/{SYNC_FILES_MAX}", "queues"]


def test_a_mark_after_a_batch_names_its_files_and_claims_no_more_than_is_synced(store: LaneStore):
    paths = [f"queues/{number}/0/0.idx" for number in range(SYNC_FILES_MAX + 1)]
    for path in paths:
        store.append(path)
    store.write()
    store.sync()
    store.append(BODIES)
    store.write()
    marks = read_marks(store.memory, "classic")
    assert list(marks.files) == paths[:-1]
    assert marks.synced == (0, 0)
    store.sync()
    store.append(BODIES)
    store.write()
    marks = read_marks(store.memory, "classic")
    assert list(marks.files) == paths
    assert marks.synced == (1, 1)


def test_a_turn_of_a_sync_takes_as_many_steps_with_twenty_thousand_new_files_as_with_a_thousand():
    def longest_turn(files: int) -> int:
        store = LaneStore()
        for number in range(files):
            store.append(f"queues/{number}/0/0.idx")
        store.write()
        turns = []
        while store.lane.synced < files:
            with traced_steps() as steps:
                batch = store.lane.take_sync(0.0)
            assert batch is not None
            batch.run(store.disk)
            turns.append(sum(steps.values()))
            with traced_steps() as steps:
                store.lane.did_sync(batch)
            turns.append(sum(steps.values()))
        return max(turns)

    assert longest_turn(20 * SYNC_FILES_MAX) <= longest_turn(SYNC_FILES_MAX) + 50


def test_counters_of_commits(store: LaneStore):
    lane = store.lane
    for seconds in (0.25, 0.5):
        store.append()
        batch = lane.take_write()
        assert batch is not None
        lane.wrote(batch, seconds)
    sync = lane.take_sync(0.0)
    assert sync is not None
    lane.did_sync(sync, 2.0)
    assert (lane.batches, lane.write_seconds, lane.last_write_seconds) == (2, 0.75, 0.5)
    assert (lane.syncs, lane.sync_seconds, lane.last_sync_seconds) == (1, 2.0, 2.0)


# --- removals


def test_a_file_goes_when_everything_staged_before_is_synced(store: LaneStore):
    lane = store.lane
    store.append(INDEX)
    store.write()
    store.append(BODIES)
    lane.remove(INDEX)
    store.sync()
    assert INDEX in store.memory.paths
    store.write()
    store.sync(1.0)
    assert INDEX not in store.memory.paths
    assert store.memory.is_synced(BODIES)


def test_a_file_that_no_mark_names_goes_at_once_when_everything_is_synced_already(store: LaneStore):
    lane = store.lane
    passing = "queues/t1/0/0.idx"
    store.append(passing)
    store.write()
    store.sync(10.0)
    store.notified()
    lane.remove(passing)
    assert store.notified()
    assert lane.sync_due(10.0) == 10.0
    batch = store.sync(10.0)
    assert (list(batch.files), [removal.path for removal in batch.removals]) == ([], [passing])
    assert store.memory.paths == []
    assert lane.sync_due(10.0) is None


def test_nothing_is_appended_to_a_file_that_is_leaving(store: LaneStore):
    store.append()
    store.lane.remove(INDEX)
    with pytest.raises(AssertionError):
        store.append()
    store.write()
    store.sync()
    store.sizes.clear()
    assert store.append() == 2


def test_the_folder_of_a_removed_file_is_synced_with_the_next_sync(store: LaneStore):
    store.append()
    store.append(BODIES)
    store.write()
    store.sync()
    store.lane.remove(INDEX)
    store.sync(1.0)
    assert store.lane.sync_due(5.0) is None
    store.append(BODIES)
    store.write()
    assert "queues/1/0" in store.sync(5.0).folders


def test_a_removed_file_of_a_removed_folder_is_no_harm(store: LaneStore):
    store.append()
    store.append(BODIES)
    store.write()
    store.sync()
    store.lane.remove_folder("queues/1")
    store.lane.remove(INDEX)
    store.sync()
    store.append(BODIES)
    store.write()
    assert "queues/1/0" in store.sync(1.0).folders
    assert store.lane.synced == 3


def test_a_folder_goes_with_what_the_lane_remembers_of_it(store: LaneStore):
    lane = store.lane
    store.append("queues/1/0/0.idx")
    store.append("queues/1/0/1.idx")
    store.append("queues/10/0/0.idx")
    store.write()
    store.sync()
    lane.remove("queues/1/0/0.idx")
    lane.remove_folder("queues/1")
    store.sync()
    assert store.memory.names("queues") == ["10"]
    store.append("queues/10/0/0.idx")
    store.write()
    assert list(store.sync(1.0).folders) == ["queues", "classic", ""]
    store.append("queues/1/0/2.idx")
    store.write()
    assert list(store.sync(2.0).folders) == ["queues/1/0", "queues/1", "queues"]


def test_a_folder_goes_in_as_many_steps_beside_many_folders_as_beside_one(store: LaneStore):
    def steps_of_removing(folder: str, now: float) -> int:
        store.append(f"{folder}/0/0.idx")
        store.write()
        store.sync(now)
        store.lane.remove_folder(folder)
        with traced_steps() as steps:
            store.sync(now)
        return sum(taken for code, taken in steps.items() if code.co_filename.endswith("/core/store/lane.py"))

    alone = steps_of_removing("queues/1", 0.0)
    for number in range(2, 500):
        store.append(f"queues/{number}/0/0.idx")
    assert steps_of_removing("queues/1000", 1.0) <= alone + 50


def test_removals_are_done_in_parts(store: LaneStore):
    paths = [f"msg_store_persistent/{number}.rdq" for number in range(REMOVALS_MAX + 1)]
    for path in paths:
        store.append(path)
        store.lane.remove(path)
    store.write()
    store.sync()
    assert store.memory.paths == paths[-1:]
    assert store.lane.sync_due(0.0) == 0.0
    store.sync()
    assert store.memory.paths == []


# --- failures


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_without_space_the_batch_stays_out_and_runs_again(store: LaneStore, number: int):
    lane = store.lane
    store.append(INDEX)
    store.append(BODIES)
    batch = lane.take_write()
    assert batch is not None
    store.disk.fail("write", nth=2, error=number)
    with pytest.raises(NoSpace, match="msg_store_persistent"):
        batch.run(store.disk)
    assert lane.take_write() is None
    assert (lane.writing, lane.written, lane.failed) == (batch, 0, None)
    batch.run(store.disk)
    lane.wrote(batch)
    assert lane.written == 2
    assert len(store.records(INDEX)) == len(store.records(BODIES)) == 1


def test_any_other_error_of_a_write_is_a_failure_that_says_what_to_do(store: LaneStore):
    store.append()
    batch = store.lane.take_write()
    assert batch is not None
    store.disk.fail("write", error=errno.EROFS)
    with pytest.raises(StoreFailure) as failure:
        batch.run(store.disk)
    assert (failure.value.operation, failure.value.path) == ("write", INDEX)
    assert str(failure.value) == (
        "the store cannot write 'queues/1/0/0.idx': Read-only file system (EROFS). Nothing is confirmed any more and "
        "the broker ends; check the disk and the data folder, then start it again"
    )


@pytest.mark.parametrize(
    ("operation", "path"),
    [("sync", INDEX), ("sync_folder", "queues/1/0"), ("check", "the data folder"), ("unlink", INDEX)],
)
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_every_error_of_a_sync_is_a_failure(store: LaneStore, operation: str, path: str, number: int):
    store.append()
    store.lane.remove(INDEX)
    store.write()
    batch = store.lane.take_sync(0.0)
    assert batch is not None
    store.disk.fail(operation, error=number)
    with pytest.raises(StoreFailure) as failure:
        batch.run(store.disk)
    assert failure.value.path == path
    assert errno.errorcode[number] in str(failure.value)


def test_row_0_15_a_folder_that_vanished_fails_the_write_and_the_sync(store: LaneStore):
    store.append()
    store.write()
    store.append()
    write, sync = store.lane.take_write(), store.lane.take_sync(0.0)
    assert write is not None
    assert sync is not None
    store.disk.fail("check", nth=1, error=errno.ENOENT)
    with pytest.raises(StoreFailure, match="cannot find 'the data folder'"):
        write.run(store.disk)
    store.disk.fail("check", nth=1, error=errno.ESTALE)
    with pytest.raises(StoreFailure, match="cannot find 'the data folder'"):
        sync.run(store.disk)
    assert store.disk.calls["write"] == 1


def test_after_a_failure_nothing_is_taken_and_nothing_moves(store: LaneStore):
    lane = store.lane
    store.append()
    store.write()
    sync = lane.take_sync(0.0)
    store.append()
    write = lane.take_write()
    assert sync is not None
    assert write is not None
    first = StoreFailure("sync", INDEX, OSError(errno.EIO, "Input/output error"))
    lane.fail(first)
    lane.fail(StoreFailure("write", INDEX, OSError(errno.EIO, "Input/output error")))
    assert lane.failed is first
    lane.wrote(write)
    lane.did_sync(sync)
    assert (lane.written, lane.synced) == (1, 0)
    store.append()
    assert lane.take_write() is None
    assert lane.take_mark() is None
    assert lane.take_sync(9.0) is None
    assert lane.sync_due(9.0) is None
