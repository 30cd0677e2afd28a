"""The marks of a lane: how far it was synced, every file with its length, and removals, which are noted before they
happen."""

import errno
from random import Random

import pytest

from core.store.errors import NoSpace
from core.store.lane import NO_SPACE_RETRY_S
from core.store.marks import lost_files, mark, read_marks, whole_mark
from core.store.marks_writer import MARKS_BYTES_MAX, NAMES_IN_TURN_MAX
from core.store.record import SoundRecord, record_bytes, scan
from tests.kit.call_trace import traced_steps
from tests.kit.lane_store import BODIES, INDEX, MARKS, LaneStore


@pytest.fixture
def store() -> LaneStore:
    return LaneStore()


def test_a_mark_stands_at_the_head_of_the_first_batch_after_a_sync(store: LaneStore):
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


def test_marks_are_synced_once_in_an_interval(store: LaneStore):
    synced = []
    for now in (0.0, 0.05, 0.1, 0.15, 0.3, 0.35):
        store.append()
        store.write()
        store.lane.want_sync()
        synced.append(MARKS in store.sync(now).files)
    assert synced == [False, True, False, False, True, False]


def test_a_mark_alone_is_written_for_the_end_only(store: LaneStore):
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


def test_the_marks_of_a_later_start_count_more(store: LaneStore):
    for _ in range(3):
        store.append()
        store.write()
        store.lane.want_sync()
        store.sync()
    store.append()
    store.write()
    assert read_marks(store.memory, "classic").synced == (1, 3)
    again = LaneStore(generation=2, disk=store.memory, marks=read_marks(store.memory, "classic"))
    again.append("queues/2/0/0.idx")
    again.write()
    again.sync()
    again.append("queues/2/0/0.idx")
    again.write()
    assert read_marks(again.memory, "classic").synced == (2, 1)


def commit(store: LaneStore, path: str = INDEX) -> None:
    store.append(path)
    store.write()
    store.lane.want_sync()
    store.sync()


def test_marks_go_on_in_another_file_when_one_is_full(store: LaneStore):
    rounds = 0
    while store.memory.names("classic") != ["2.marks"]:
        rounds += 1
        commit(store)
        assert rounds < MARKS_BYTES_MAX // 32
    marks = read_marks(store.memory, "classic")
    assert marks.number == 2
    assert marks.files == {INDEX: (rounds - 1) * record_bytes(7)}, "the full file goes when the other one is synced"
    assert marks.synced == (1, rounds - 1)


def test_a_full_file_of_marks_goes_only_when_the_one_that_replaces_it_is_synced(store: LaneStore):
    while store.memory.names("classic") != ["2.marks"]:
        commit(store)
    for seed in range(20):
        found = store.memory.power_cut(Random(seed))
        assert read_marks(found, "classic").there
        assert lost_files(found, read_marks(found, "classic")) == []


def test_a_whole_mark_is_encoded_as_others_are():
    files = {f"queues/{number}/0/0.idx": number * 1000 for number in range(300)}
    for some in ({}, dict(list(files.items())[:20]), files):
        assert whole_mark(synced=(3, 70_000), files=some, everywhere=True, definitions=9) == mark(
            synced=(3, 70_000), files=some, whole=True, everywhere=True, definitions=9
        )


def test_a_mark_that_names_very_many_files_is_encoded_by_the_worker_and_never_in_the_turn(store: LaneStore):
    """A file that is synced while it is out is in the next one."""
    lane = store.lane
    names = [f"queues/{number}/0/0.idx" for number in range(NAMES_IN_TURN_MAX + 1)]
    for name in names:
        store.append(name)
    store.write()
    while lane.synced < len(names):
        store.sync()
    store.append(BODIES)
    batch = lane.take_write(in_turn=True)
    assert batch is not None
    assert [path for path, _ in batch.ends] == [BODIES]
    batch.run(store.disk)
    lane.wrote(batch)
    store.append(BODIES)
    batch = lane.take_write()
    assert batch is not None
    store.sync(2.0)
    assert lane.marks.proven(BODIES) == record_bytes(7)
    store.disk.fail("write", error=errno.ENOSPC)
    with pytest.raises(NoSpace):
        batch.run(store.disk)
    batch.run(store.disk)
    lane.wrote(batch)
    assert list(read_marks(store.memory, "classic").files) == names
    store.append()
    store.write()
    assert read_marks(store.memory, "classic").files == dict.fromkeys([*names, BODIES], record_bytes(7))


def test_taking_a_mark_that_names_very_many_files_takes_as_many_steps_as_one_that_names_few():
    def steps(files: int) -> int:
        store = LaneStore()
        for number in range(files):
            store.append(f"queues/{number}/0/0.idx")
        store.write()
        while store.lane.synced < files:
            store.sync()
        store.append()
        with traced_steps() as taken:
            batch = store.lane.take_write()
        assert batch is not None
        batch.run(store.disk)
        with traced_steps() as told:
            store.lane.wrote(batch)
        return sum(taken.values()) + sum(told.values())

    assert steps(20 * NAMES_IN_TURN_MAX) <= steps(NAMES_IN_TURN_MAX) + 50


def test_a_damaged_mark_only_makes_the_others_count(store: LaneStore):
    for _ in range(4):
        commit(store)
    records = scan(lambda offset, length: store.memory.read(MARKS, offset, length), store.memory.size(MARKS))
    second = [record.offset for record in records if isinstance(record, SoundRecord)][1]
    store.memory.flip_bit(MARKS, 8 * (second + 33))
    marks = read_marks(store.memory, "classic")
    assert marks.synced == (1, 3)
    assert len(marks.problems) == 1
    store.memory.flip_bit(MARKS, 8 * 33)
    assert not read_marks(store.memory, "classic").there


def test_marks_name_every_file_with_what_was_synced_of_it(store: LaneStore):
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


def test_a_file_leaves_the_marks_before_it_goes(store: LaneStore):
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


def test_a_removal_that_cannot_be_announced_for_want_of_space_is_tried_again(store: LaneStore):
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


def test_the_mark_of_a_removal_has_room_on_a_full_disk(store: LaneStore):
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


def test_a_file_that_is_synced_while_it_is_given_up_does_not_come_back_to_the_marks(store: LaneStore):
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


def test_what_does_not_outlive_the_broker_is_not_in_the_marks(store: LaneStore):
    for path in ("queues/t1/0/0.idx", "queues/1/0/3-1.idx", "msg_store_transient/0.rdq"):
        commit(store, path)
    commit(store, BODIES)
    commit(store, BODIES)
    assert read_marks(store.memory, "classic").files == {BODIES: record_bytes(7)}
