"""The store as a whole: what a start removes, keeps and refuses, and what a stop leaves."""

import errno
from pathlib import Path

import pytest

from core.config.store import StoreSettings
from core.store.disk import FolderDisk
from core.store.errors import StoreDamaged, StoreRefused
from core.store.places import CHECKPOINT, SEGMENT_MESSAGES
from core.store.store import open_store
from tests.kit.classic_store import TRANSIENT, StoreHarness, drain, messages, run_part
from tests.kit.faulty_disk import FaultyDisk

LARGE = b"x" * 5000


@pytest.fixture
def harness() -> StoreHarness:
    return StoreHarness(queue_ids=("1", "2"))


def test_row_4_2_three_folders(harness: StoreHarness):
    harness.index.publish(0, run_part(b"small", LARGE))
    harness.index.publish(2, run_part(LARGE, attributes=TRANSIENT))
    harness.drain()
    assert set(harness.disk.names("")) == {
        "classic", "msg_store_persistent", "msg_store_transient", "queues", "quorum", "streams",
    }  # fmt: skip


def test_row_4_2_the_transient_store_is_wiped_at_the_start(harness: StoreHarness):
    harness.store.queue_index("t1").publish(0, run_part(LARGE))
    harness.drain()
    assert harness.disk.names("msg_store_transient") == ["0.rdq"]
    harness.kill()
    assert harness.disk.names("msg_store_transient") == []
    assert harness.disk.names("queues") == []


def test_queues_that_no_definition_names_are_left_where_they_are(harness: StoreHarness):
    for queue in ("1", "2", "t1", "t2"):
        harness.store.queue_index(queue).publish(0, run_part(b"x", LARGE))
    harness.drain()
    harness.queue_ids = ("2",)
    report = harness.kill().report
    assert (report.queues, report.messages) == (1, 2)
    assert harness.disk.names("queues") == ["1", "2"]
    assert len(harness.store.persistent) == 1


def test_a_checkpoint_saves_the_next_start_from_reading(harness: StoreHarness):
    harness.index.publish(0, run_part(b"x", LARGE))
    harness.store.queue_index("2", 4).publish(9, run_part(b"y"))
    report = harness.restart().report
    assert (report.clean, report.files, report.queues, report.messages, report.bytes) == (True, 0, 2, 3, 5002)
    assert messages(harness.index) == {0: b"x", 1: LARGE}
    assert messages(harness.store.queue_index("2", 4)) == {9: b"y"}
    assert harness.index.next_sequence_floor == 2


def test_segments_with_holes_are_read_for_exact_figures(harness: StoreHarness):
    harness.index.publish(0, run_part(b"a", b"bb", b"cccc"))
    harness.index.publish(SEGMENT_MESSAGES, run_part(b"whole"))
    harness.index.settle([1])
    report = harness.restart().report
    assert (report.files, report.messages, report.bytes) == (1, 3, 10)


def test_a_passed_file_with_nothing_but_transient_messages_goes_at_the_start(harness: StoreHarness):
    harness.index.publish(0, run_part(b"t", attributes=TRANSIENT))
    harness.index.publish(SEGMENT_MESSAGES, run_part(b"d"))
    assert harness.restart().report.clean
    harness.drain()
    assert harness.disk.names("queues/1/0") == ["1.idx"]
    assert messages(harness.index) == {SEGMENT_MESSAGES: b"d"}


def test_the_checkpoint_is_gone_while_the_store_is_open(harness: StoreHarness):
    harness.index.publish(0, run_part(b"x"))
    harness.drain()
    harness.store.close_checkpoint()
    assert CHECKPOINT in harness.disk.names("")
    harness.start()
    assert CHECKPOINT not in harness.disk.names("")
    assert not harness.kill().report.clean


def test_indexes_that_were_not_asked_for_are_kept(harness: StoreHarness):
    harness.store.queue_index("1", 3).publish(0, run_part(b"x", LARGE))
    harness.restart()
    harness.restart()
    assert messages(harness.store.queue_index("1", 3)) == {0: b"x", 1: LARGE}


def test_a_checkpoint_with_a_queue_that_is_gone_is_not_trusted(harness: StoreHarness):
    """Its references to bodies would never be removed."""
    harness.index.publish(0, run_part(LARGE))
    harness.queue_ids = ("2",)
    assert not harness.restart().report.clean
    assert len(harness.store.persistent) == 0
    assert harness.disk.names("msg_store_persistent") == []


def test_a_start_that_changed_nothing_leaves_the_checkpoint_valid(harness: StoreHarness):
    harness.index.publish(0, run_part(b"x"))
    harness.drain()
    harness.store.close_checkpoint()
    harness.generation += 3
    assert harness.start().report.clean


def test_forgetting_a_queue_leaves_nothing_of_any_level(harness: StoreHarness):
    for level in (0, 2):
        harness.store.queue_index("1", level).publish(level, run_part(b"x", LARGE))
    harness.store.queue_index("2").publish(0, run_part(b"y"))
    harness.restart()
    assert messages(harness.index) == {0: b"x", 1: LARGE}
    harness.store.forget_queue("1")
    harness.store.forget_queue("never used")
    harness.drain()
    assert harness.disk.names("queues") == ["2"]
    assert len(harness.store.persistent) == 0


class Compared(str):
    """A queue's number that counts the comparisons with others."""

    count = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return super().__eq__(other)


def test_forgetting_a_queue_is_no_look_at_all_the_others(harness: StoreHarness):
    for number in range(500):
        harness.store.queue_index(Compared(number))
    Compared.count = 0
    for number in range(500):
        harness.store.forget_queue(Compared(number))
    assert Compared.count < 5 * 500


def test_deleting_and_then_forgetting_is_no_harm(harness: StoreHarness):
    harness.index.publish(0, run_part(b"x", LARGE))
    harness.drain()
    harness.index.delete()
    harness.store.forget_queue("1")
    harness.drain()
    assert harness.disk.names("queues") == []


def test_a_damaged_segment_after_a_clean_stop_is_refused_when_it_is_read(harness: StoreHarness):
    harness.index.publish(0, run_part(b"x"))
    harness.drain()
    harness.store.close_checkpoint()
    harness.disk.flip_bit("queues/1/0/0.idx", 300)
    index = harness.start().queue_index("1")
    with pytest.raises(StoreDamaged, match=r"queues/1/0/0\.idx at 0: PUBLISH"):
        index.load(0)


def test_a_store_in_a_real_folder(tmp_path: Path):
    disk = FolderDisk(tmp_path, 8)
    try:
        store = open_store(disk, StoreSettings(), generation=1, queue_ids=())
        store.queue_index("1").publish(0, run_part(b"small", LARGE))
        drain(store)
        store.close_checkpoint()
        again = open_store(disk, StoreSettings(), generation=2, queue_ids=("1",))
        assert again.report.clean
        assert messages(again.queue_index("1")) == {0: b"small", 1: LARGE}
        again.forget_queue("1")
        drain(again)
        assert disk.names("queues") == []
        once_more = open_store(disk, StoreSettings(), generation=3, queue_ids=())
        assert (once_more.report.clean, once_more.report.messages) == (False, 0)
    finally:
        disk.close()


@pytest.mark.parametrize("operation", ["read", "size", "names", "unlink", "sync_folder"])
def test_a_store_that_cannot_be_read_is_refused(harness: StoreHarness, operation: str):
    harness.index.publish(0, run_part(b"x"))
    harness.drain()
    disk = FaultyDisk(harness.disk)
    disk.fail(operation, error=errno.EACCES)
    with pytest.raises(StoreRefused, match="Permission denied; check the data folder"):
        open_store(disk, StoreSettings(), generation=2, queue_ids=("1",))


def test_each_lane_has_its_own_folder_and_interval(harness: StoreHarness):
    names = [lane.name for lane in (harness.store.classic, harness.store.quorum, harness.store.streams)]
    assert names == ["classic", "quorum", "streams"]


def test_there_is_no_checkpoint_of_a_lane_that_is_not_drained(harness: StoreHarness):
    harness.index.publish(0, run_part(b"x"))
    with pytest.raises(AssertionError, match="not drained"):
        harness.store.close_checkpoint()
