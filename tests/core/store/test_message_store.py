"""The message store: one copy for all queues, references that are counted, and the garbage of each file."""

import sys
import tracemalloc

import pytest

from core.message import Run, RunPart
from core.store.errors import StoreDamaged, StoreFailure
from core.store.message_store import body_record_bytes, pack_place, unpack_place
from core.store.places import PERSISTENT, TRANSIENT
from tests.kit.classic_store import DURABLE, StoreHarness, messages, run_part
from tests.kit.classic_store import TRANSIENT as PASSING

LARGE = b"x" * 5000


@pytest.fixture
def harness() -> StoreHarness:
    return StoreHarness(queue_ids=("1", "2"), msg_store_file_size_limit=65_536)


def test_row_4_5_a_body_is_stored_once_for_all_queues(harness: StoreHarness):
    run = Run(0, [LARGE, b"small", LARGE], DURABLE)
    first, second = harness.store.queue_index("1"), harness.store.queue_index("2")
    first.publish(0, RunPart(run, 0, 3))
    second.publish(7, RunPart(run, 0, 3))
    harness.drain()
    assert len(harness.store.persistent) == 2
    assert harness.disk.size("msg_store_persistent/0.rdq") == 2 * body_record_bytes(len(LARGE))
    first.settle(range(3))
    assert messages(second) == {7: LARGE, 8: b"small", 9: LARGE}
    second.settle(range(7, 10))
    assert len(harness.store.persistent) == 0


def test_row_4_5_files_are_numbered_and_full_at_their_limit(harness: StoreHarness):
    harness.index.publish(0, run_part(*[LARGE] * 30))
    harness.drain()
    assert harness.disk.names(PERSISTENT) == ["0.rdq", "1.rdq", "2.rdq"]
    assert 65_536 <= harness.disk.size("msg_store_persistent/0.rdq") < 65_536 + body_record_bytes(len(LARGE))


def test_row_4_6_settling_touches_no_file(harness: StoreHarness):
    harness.index.publish(0, run_part(*[LARGE] * 30))
    harness.drain()
    before = harness.disk.read("msg_store_persistent/0.rdq", 0, 100_000)
    harness.index.settle([1, 2, 3])
    harness.drain()
    assert harness.disk.read("msg_store_persistent/0.rdq", 0, 100_000) == before
    file = harness.store.persistent.files[0]
    assert file.total - file.live == 3 * body_record_bytes(len(LARGE))


def test_row_4_7_a_file_without_live_bodies_is_removed(harness: StoreHarness):
    harness.index.publish(0, run_part(*[LARGE] * 30))
    harness.drain()
    harness.index.settle(range(13))
    harness.drain()
    assert harness.disk.names(PERSISTENT) == ["0.rdq", "1.rdq", "2.rdq"]
    harness.index.settle([13])
    harness.write()
    assert harness.disk.names(PERSISTENT) == ["0.rdq", "1.rdq", "2.rdq"]  # not before the settlement is synced
    harness.sync()
    assert harness.disk.names(PERSISTENT) == ["1.rdq", "2.rdq"]


def test_a_body_without_references_when_its_batch_is_taken_is_never_written(harness: StoreHarness):
    harness.index.publish(0, run_part(LARGE, LARGE))
    harness.index.settle([0])
    harness.drain()
    assert harness.store.persistent.cancelled == 1
    assert harness.disk.size("msg_store_persistent/0.rdq") == body_record_bytes(len(LARGE))
    assert messages(harness.kill().queue_index("1")) == {1: LARGE}


def test_transient_bodies_go_to_their_own_store(harness: StoreHarness):
    run = Run(0, [LARGE], DURABLE)
    harness.index.publish(0, RunPart(run, 0, 1))
    harness.store.queue_index("t1").publish(0, RunPart(run, 0, 1))
    harness.index.publish(1, run_part(LARGE, attributes=PASSING))
    harness.drain()
    assert (len(harness.store.persistent), len(harness.store.transient)) == (1, 2)
    assert harness.disk.names(TRANSIENT) == ["0.rdq"]
    assert messages(harness.store.queue_index("t1")) == {0: LARGE}


def test_a_run_published_again_later_does_not_use_a_body_that_is_gone(harness: StoreHarness):
    run = Run(0, [LARGE], DURABLE)
    harness.index.publish(0, RunPart(run, 0, 1))
    harness.index.settle([0])
    harness.index.publish(1, RunPart(run, 0, 1))
    harness.drain()
    assert messages(harness.index) == {1: LARGE}


def test_a_body_that_changed_on_disk_is_not_handed_out(harness: StoreHarness):
    harness.index.publish(0, run_part(LARGE))
    harness.drain()
    harness.store.compact_step()
    harness.disk.flip_bit("msg_store_persistent/0.rdq", 8 * 1000)
    (run,) = harness.index.load(0)
    with pytest.raises(StoreDamaged, match=r"msg_store_persistent/0\.rdq at 0"):
        harness.index.read(run)


def test_a_file_that_went_away_is_a_failure_of_the_store(harness: StoreHarness):
    harness.index.publish(0, run_part(LARGE))
    harness.drain()
    harness.store.compact_step()
    (run,) = harness.index.load(0)
    harness.disk.unlink("msg_store_persistent/0.rdq")
    with pytest.raises(StoreFailure, match=r"cannot read 'msg_store_persistent/0\.rdq'"):
        harness.index.read(run)


def test_ids_of_two_starts_differ(harness: StoreHarness):
    first = harness.store.persistent.put(LARGE)
    assert harness.kill().persistent.put(LARGE) != first


@pytest.mark.parametrize("place", [(0, 0, 0), (1, 2**40 - 8, 2**32 - 1), (2**20, 8, 5000)])
def test_a_place_is_one_integer(place: tuple[int, int, int]):
    assert unpack_place(pack_place(*place)) == place


def test_a_body_costs_about_150_bytes_of_memory():
    places = {}
    tracemalloc.start()
    for number in range(100_000):
        places[(3 << 40) + 2 * number] = pack_place(number >> 12, (number & 4095) * 5000, 5000)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert sys.getsizeof(places) < size < 160 * 100_000
