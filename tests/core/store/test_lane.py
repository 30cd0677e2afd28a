"""A lane: positions, group commit, late writers, syncs, removals, marks and failures, over a disk in memory."""

import errno

import pytest

from core.store.errors import NoSpace, StoreFailure
from core.store.lane import MARKS_BYTES_MAX, NO_SPACE_RETRY_S, REMOVALS_MAX, Lane, SyncBatch, WriteBatch
from core.store.marks import Marks, lost_files, read_marks
from core.store.record import Found, Kind, record_bytes, scan
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk

INDEX = "queues/1/0/0.idx"
BODIES = "msg_store_persistent/1.rdq"
MARKS = "classic/1.marks"


class Store:
    """A lane with the disk behind it, and files that grow."""

    def __init__(self, generation: int = 1, disk: MemoryDisk | None = None, marks: Marks | None = None) -> None:
        self.memory = MemoryDisk() if disk is None else disk
        self.disk = FaultyDisk(self.memory)
        self.sizes: dict[str, int] = {}
        self.notifications: list[None] = []
        self.lane = Lane(
            "classic",
            generation=generation,
            sync_interval_s=0.2,
            notify=lambda: self.notifications.append(None),
            marks=marks,
        )

    def notified(self) -> bool:
        """True when the lane said something since this was last asked."""
        notifications, self.notifications = self.notifications, []
        return bool(notifications)

    def append(self, path: str = INDEX, payload: bytes = b"message") -> int:
        offset = self.sizes.get(path, 0)
        self.sizes[path] = offset + record_bytes(len(payload))
        return self.lane.append(path, offset, Kind.PUBLISH, [payload])

    def write(self) -> WriteBatch:
        batch = self.lane.take_write()
        assert batch is not None
        batch.run(self.disk)
        self.lane.wrote(batch)
        return batch

    def sync(self, now: float = 0.0) -> SyncBatch:
        batch = self.lane.take_sync(now)
        assert batch is not None
        batch.run(self.disk)
        self.lane.did_sync(batch)
        return batch

    def records(self, path: str = INDEX) -> list[Found]:
        found = list(scan(lambda offset, length: self.memory.read(path, offset, length), self.memory.size(path)))
        assert all(isinstance(item, Found) for item in found)
        return [item for item in found if isinstance(item, Found)]


@pytest.fixture
def store() -> Store:
    return Store()


# --- writes


def test_positions_count_records_and_grow_with_staging_writing_and_syncing(store: Store):
    lane = store.lane
    assert lane.take_write() is None
    assert [store.append(), store.append(BODIES), store.append()] == [1, 2, 3]
    assert (lane.staged, lane.written, lane.synced) == (3, 0, 0)
    store.write()
    assert (lane.staged, lane.written, lane.synced) == (3, 3, 0)
    store.append()
    store.sync()
    assert (lane.staged, lane.written, lane.synced) == (4, 3, 3)


def test_records_are_on_disk_as_they_were_staged(store: Store):
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


def test_adjoining_records_of_a_file_are_one_write(store: Store):
    for _ in range(3):
        store.append(INDEX)
        store.append(BODIES)
    store.lane.append(INDEX, 10_000, Kind.SETTLE, [b"behind a gap"])
    batch = store.write()
    assert [path for path, _ in batch.ends] == [INDEX, BODIES, INDEX]
    assert store.disk.calls["write"] == 3


def test_one_batch_at_a_time_while_the_next_gathers(store: Store):
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


def test_staged_bytes_are_those_not_yet_written(store: Store):
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


def test_a_batch_that_is_not_out_is_a_bug(store: Store):
    store.append()
    batch = store.write()
    with pytest.raises(AssertionError):
        store.lane.wrote(batch)
    synced = store.sync()
    with pytest.raises(AssertionError):
        store.lane.did_sync(synced)


def test_the_lane_says_when_there_may_be_something_to_take(store: Store):
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
    """Coalesces numbers until a batch is taken."""

    def __init__(self, store: Store) -> None:
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


def test_a_late_writer_is_called_once_when_the_next_batch_is_taken(store: Store):
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


def test_late_writers_wait_while_a_batch_is_out(store: Store):
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


def test_a_late_writer_may_have_nothing_left_to_write(store: Store):
    late = Settlements(store)
    late.settle()
    late.waiting = 0
    assert store.lane.take_write() is None
    assert late.calls == 1


# --- syncs


def test_a_wanted_sync_is_due_when_the_write_is_done(store: Store):
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


def test_an_unwanted_sync_waits_for_the_interval_since_the_last(store: Store):
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


def test_a_sync_covers_what_is_written_when_it_is_taken(store: Store):
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


def test_a_sync_beside_a_write_that_is_out_does_not_cover_it(store: Store):
    store.append()
    store.write()
    store.append()
    assert store.lane.take_write() is not None
    batch = store.sync()
    assert (batch.number, batch.position) == (1, 1)
    assert store.lane.synced == 1


def test_the_names_of_new_files_are_synced_with_them_and_only_once(store: Store):
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


def test_counters_of_commits(store: Store):
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


def test_a_file_goes_when_everything_staged_before_is_synced(store: Store):
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


def test_a_file_that_no_mark_names_goes_at_once_when_everything_is_synced_already(store: Store):
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


def test_nothing_is_appended_to_a_file_that_is_leaving(store: Store):
    store.append()
    store.lane.remove(INDEX)
    with pytest.raises(AssertionError):
        store.append()
    store.write()
    store.sync()
    store.sizes.clear()
    assert store.append() == 2


def test_the_folder_of_a_removed_file_is_synced_with_the_next_sync(store: Store):
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


def test_a_removed_file_of_a_removed_folder_is_no_harm(store: Store):
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


def test_a_folder_goes_with_what_the_lane_remembers_of_it(store: Store):
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


def test_removals_are_done_in_portions(store: Store):
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


# --- marks


def test_a_mark_stands_at_the_head_of_the_first_batch_after_a_sync(store: Store):
    assert read_marks(store.memory, "classic").synced == (0, 0)
    store.append()
    store.write()
    store.append()
    store.write()
    store.sync()
    assert read_marks(store.memory, "classic").synced == (0, 0)
    store.append()
    assert [path for path, _ in store.write().ends] == [MARKS, INDEX]
    assert read_marks(store.memory, "classic").synced == (1, 2)
    store.append()
    assert [path for path, _ in store.write().ends] == [INDEX]


def test_marks_are_synced_once_in_an_interval(store: Store):
    synced = []
    for now in (0.0, 0.05, 0.1, 0.15, 0.3, 0.35):
        store.append()
        store.write()
        store.lane.want_sync()
        synced.append(MARKS in store.sync(now).files)
    assert synced == [False, True, False, False, True, False]


def test_a_mark_alone_is_written_for_the_end_only(store: Store):
    lane = store.lane
    assert lane.take_mark() is None
    store.append()
    store.write()
    store.sync()
    assert lane.take_write() is None
    batch = lane.take_mark()
    assert batch is not None
    assert lane.take_mark() is None
    batch.run(store.disk)
    lane.wrote(batch)
    assert read_marks(store.memory, "classic").synced == (1, 1)
    assert lane.take_mark() is None
    assert lane.sync_due(0.0) is None


def test_the_marks_of_a_later_start_count_more(store: Store):
    for _ in range(3):
        store.append()
        store.write()
        store.lane.want_sync()
        store.sync()
    store.append()
    store.write()
    assert read_marks(store.memory, "classic").synced == (1, 3)
    again = Store(generation=2, disk=store.memory, marks=read_marks(store.memory, "classic"))
    again.append("queues/2/0/0.idx")
    again.write()
    again.sync()
    again.append("queues/2/0/0.idx")
    again.write()
    assert read_marks(again.memory, "classic").synced == (2, 1)


def commit(store: Store, path: str = INDEX) -> None:
    store.append(path)
    store.write()
    store.lane.want_sync()
    store.sync()


def test_marks_go_on_in_another_file_when_one_is_full(store: Store):
    rounds = 0
    while store.memory.names("classic") != ["2.marks"]:
        rounds += 1
        commit(store)
        assert rounds < MARKS_BYTES_MAX // 32
    marks = read_marks(store.memory, "classic")
    assert marks.number == 2
    assert marks.files == {INDEX: (rounds - 1) * record_bytes(7)}, "the full file goes when the other one is synced"
    assert marks.synced == (1, rounds - 1)


def test_a_damaged_mark_only_makes_the_others_count(store: Store):
    for _ in range(4):
        commit(store)
    records = scan(lambda offset, length: store.memory.read(MARKS, offset, length), store.memory.size(MARKS))
    second = [record.offset for record in records if isinstance(record, Found)][1]
    store.memory.flip_bit(MARKS, 8 * (second + 33))
    marks = read_marks(store.memory, "classic")
    assert marks.synced == (1, 3)
    assert len(marks.problems) == 1
    store.memory.flip_bit(MARKS, 8 * 33)
    assert not read_marks(store.memory, "classic").there


def test_marks_name_every_file_with_what_was_synced_of_it(store: Store):
    commit(store)
    commit(store, BODIES)
    commit(store)
    store.append(INDEX, bytes(100))
    store.write()
    marks = read_marks(store.memory, "classic")
    assert marks.files == {INDEX: 2 * record_bytes(7), BODIES: record_bytes(7)}
    assert lost_files(store.memory, marks) == []
    store.memory.truncate(BODIES, 8)
    store.memory.unlink(INDEX)
    told = sorted(map(str, lost_files(store.memory, marks)))
    assert told == [
        f"{BODIES} ends at 8, and 40 bytes of it were synced",
        f"{INDEX} is missing, 80 bytes of it were synced",
    ]


def test_a_file_leaves_the_marks_before_it_goes(store: Store):
    commit(store)
    commit(store)
    assert INDEX in read_marks(store.memory, "classic").files
    store.lane.remove(INDEX)
    calls: list[tuple[str, str]] = []
    store.disk.delay = lambda operation, path: calls.append((operation, path))
    batch = store.sync(1.0)
    assert list(batch.files) == [MARKS]
    assert [call for call in calls if call[0] in ("write", "sync", "unlink")] == [
        ("write", MARKS),
        ("sync", MARKS),
        ("unlink", INDEX),
    ]
    assert INDEX not in read_marks(store.memory, "classic").files


def test_a_removal_that_cannot_be_announced_for_want_of_space_is_tried_again(store: Store):
    commit(store)
    commit(store)
    store.lane.remove(INDEX)
    store.disk.fail("write", error=errno.ENOSPC)
    assert not store.sync(1.0).announced
    assert INDEX in store.memory.paths
    assert store.lane.sync_due(1.0) == 1.0 + NO_SPACE_RETRY_S
    store.sync(2.0)
    assert INDEX not in store.memory.paths
    assert INDEX not in read_marks(store.memory, "classic").files


def test_the_mark_of_a_removal_has_room_on_a_full_disk(store: Store):
    commit(store)
    commit(store)
    store.lane.remove(INDEX)
    store.append(BODIES)
    store.disk.set_space(0)
    batch = store.lane.take_write()
    assert batch is not None
    with pytest.raises(NoSpace):
        batch.run(store.disk)
    assert store.sync(1.0).announced
    assert INDEX not in store.memory.paths


def test_a_file_that_is_synced_while_it_is_given_up_does_not_come_back_to_the_marks(store: Store):
    store.append(INDEX)
    store.write()
    syncing = store.lane.take_sync(0.0)
    assert syncing is not None
    store.lane.remove_folder("queues/1")
    syncing.run(store.disk)
    store.lane.did_sync(syncing)
    store.sync()
    commit(store, BODIES)
    commit(store, BODIES)
    assert read_marks(store.memory, "classic").files == {BODIES: record_bytes(7)}


def test_what_does_not_outlive_the_broker_is_not_in_the_marks(store: Store):
    for path in ("queues/t1/0/0.idx", "queues/1/0/3-1.idx", "msg_store_transient/0.rdq"):
        commit(store, path)
    commit(store, BODIES)
    commit(store, BODIES)
    assert read_marks(store.memory, "classic").files == {BODIES: record_bytes(7)}


# --- failures


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_without_space_the_batch_stays_out_and_runs_again(store: Store, number: int):
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


def test_any_other_error_of_a_write_is_a_failure_that_says_what_to_do(store: Store):
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
def test_every_error_of_a_sync_is_a_failure(store: Store, operation: str, path: str, number: int):
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


def test_row_0_15_a_folder_that_vanished_fails_the_write_and_the_sync(store: Store):
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


def test_after_a_failure_nothing_is_taken_and_nothing_moves(store: Store):
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
