"""Starts without a checkpoint: what is found, dropped and refused, and what the report says."""

from collections.abc import Callable
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from core.config.store import StoreSettings
from core.message import Run, RunPart
from core.store.errors import StoreDamaged
from core.store.places import SEGMENT_MESSAGES
from core.store.queue_index import FREE_SEGMENTS
from core.store.record import HEADER_BYTES, SoundRecord, scan
from core.store.recovery import Report, first_free
from core.store.store import open_store
from tests.kit.classic_store import DURABLE, TRANSIENT, StoreHarness, messages, run_part
from tests.kit.faulty_disk import MemoryDisk

FIRST = "queues/1/0/0.idx"
BODIES = "msg_store_persistent/0.rdq"
LARGE = b"x" * 5000


@pytest.fixture
def harness() -> StoreHarness:
    return StoreHarness()


def records(disk: MemoryDisk, path: str) -> list[SoundRecord]:
    found = list(scan(lambda offset, length: disk.read(path, offset, length), disk.size(path)))
    assert all(isinstance(record, SoundRecord) for record in found)
    return found


# --- an unclean stop without damage


def test_row_4_10_a_kill_after_the_write_loses_nothing(harness: StoreHarness):
    harness.index.publish(0, run_part(b"a", LARGE, b"c"))
    harness.index.settle([0])
    harness.write()
    harness.index.publish(3, run_part(b"never written"))
    index = harness.kill().queue_index("1")
    assert messages(index) == {1: LARGE, 2: b"c"}
    report = harness.store.report
    assert (report.clean, report.queues, report.messages, report.bytes) == (False, 1, 2, 5001)
    assert (report.torn_count, report.lost_count, report.without_body) == (0, 0, 0)


def test_all_survivors_are_redelivered_after_an_unclean_stop(harness: StoreHarness):
    harness.index.publish(0, run_part(b"a"))
    harness.drain()
    (run,) = harness.kill().queue_index("1").load(0)
    assert run.redelivered
    harness.index.publish(harness.index.next_sequence_floor, run_part(b"b"))
    assert [run.redelivered for number in sorted(harness.index.segments) for run in harness.index.load(number)] == [
        True,
        False,
    ]


@pytest.mark.parametrize("seed", range(8))
def test_numbers_go_on_above_an_empty_file_also_when_a_power_cut_would_take_it(harness: StoreHarness, seed: int):
    first = harness.kill().queue_index("1").next_sequence_floor + SEGMENT_MESSAGES
    harness.index.publish(first, run_part(b"a"))
    harness.write()
    harness.disk.truncate(f"queues/1/0/{first // SEGMENT_MESSAGES}.idx", 0)
    floor = harness.kill().queue_index("1").next_sequence_floor
    assert harness.power_cut(Random(seed)).queue_index("1").next_sequence_floor >= floor


def test_after_a_clean_stop_the_queue_says_what_was_delivered(harness: StoreHarness):
    harness.index.publish(0, run_part(b"a", b"b", b"c"))
    harness.index.delivered_below = 2
    before, after = harness.restart().queue_index("1").load(0)
    assert (list(before.sequences), before.redelivered) == ([0, 1], True)
    assert (list(after.sequences), after.redelivered) == ([2], False)


def test_what_survived_a_kill_survives_a_power_cut_after_the_start(harness: StoreHarness):
    harness.index.publish(0, run_part(b"a", LARGE))
    harness.write()
    harness.kill()
    for seed in range(20):
        assert messages(harness.power_cut(Random(seed)).queue_index("1")) == {0: b"a", 1: LARGE}


def test_transient_messages_are_counted_and_dropped(harness: StoreHarness):
    harness.index.publish(0, run_part(b"a", b"b", attributes=TRANSIENT))
    harness.drain()
    assert harness.kill().report.transient_dropped == 2
    assert messages(harness.index) == {}


def test_a_message_whose_body_is_missing_is_dropped_for_good(harness: StoreHarness):
    harness.index.publish(0, run_part(b"a", LARGE, b"c"))
    harness.drain()
    harness.disk.unlink(BODIES)
    with pytest.raises(StoreDamaged, match=f"{BODIES} is missing, 5040 bytes of it were synced"):
        harness.kill()
    harness.settings = StoreSettings(salvage=True)
    report = harness.kill().report
    assert report.without_body == 1
    assert report.gone == [f"{BODIES} is missing, 5040 bytes of it were synced"]
    assert messages(harness.index) == {0: b"a", 2: b"c"}
    harness.drain()
    harness.settings = StoreSettings()
    assert harness.kill().report.without_body == 0


def test_a_body_that_no_message_needs_is_garbage(harness: StoreHarness):
    harness.index.publish(0, run_part(LARGE, LARGE))
    harness.drain()
    harness.index.settle([1])
    harness.drain()
    persistent = harness.kill().persistent
    assert len(persistent) == 1
    assert 0 < persistent.live_bytes < persistent.total_bytes
    harness.index.settle([0])
    harness.drain()
    harness.kill()
    assert harness.disk.names("msg_store_persistent") == []


def test_references_are_counted_again():
    harness = StoreHarness(queue_ids=("1", "2", "3"))
    run = Run(0, [LARGE], DURABLE)
    for queue in harness.queue_ids:
        harness.store.queue_index(queue).publish(0, RunPart(run, 0, 1))
    harness.drain()
    store = harness.kill()
    assert len(store.persistent) == 1
    for queue in ("3", "1"):
        store.queue_index(queue).settle([0])
        assert len(store.persistent) == 1
    store.queue_index("2").settle([0])
    assert len(store.persistent) == 0


def test_progress_is_told_after_each_file(harness: StoreHarness):
    harness.index.publish(0, run_part(b"a", LARGE))
    harness.index.publish(SEGMENT_MESSAGES, run_part(b"b"))
    harness.drain()
    files: list[int] = []

    def progress(report: Report) -> None:
        files.append(report.files)

    open_store(harness.disk, harness.settings, generation=2, queue_ids=("1",), progress=progress)
    assert files == [1, 2, 3]


def test_a_file_that_is_settled_as_a_whole_brings_nothing_back(harness: StoreHarness):
    """No message comes back, neither before the file is removed nor when a power cut undoes the removal."""
    harness.index.publish(0, run_part(b"a", LARGE))
    harness.index.publish(SEGMENT_MESSAGES, run_part(b"b"))
    harness.drain()
    harness.index.settle([0, 1])
    harness.write()
    assert FIRST in harness.disk.paths
    assert messages(harness.kill().queue_index("1")) == {SEGMENT_MESSAGES: b"b"}
    assert harness.store.report.without_body == 0


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=30)
def test_a_removal_that_a_power_cut_undoes_brings_nothing_back(seed: int):
    harness = StoreHarness()
    harness.index.publish(0, run_part(b"a", LARGE))
    harness.index.publish(SEGMENT_MESSAGES, run_part(b"b"))
    harness.drain()
    harness.index.settle([0, 1])
    harness.drain()
    assert FIRST not in harness.disk.paths
    assert messages(harness.power_cut(Random(seed)).queue_index("1")) == {SEGMENT_MESSAGES: b"b"}
    assert harness.store.report.without_body == 0


# --- numbers are never used again


def test_numbering_goes_on_above_everything_that_may_have_been_given_out(harness: StoreHarness):
    harness.index.publish(5 * SEGMENT_MESSAGES, run_part(b"a"))
    harness.drain()
    harness.kill()
    assert harness.index.next_sequence_floor == (5 + FREE_SEGMENTS) * SEGMENT_MESSAGES
    harness.kill()  # numbers were given out, and nothing was written
    assert harness.index.next_sequence_floor == (5 + 2 * FREE_SEGMENTS) * SEGMENT_MESSAGES
    harness.index.publish(harness.index.next_sequence_floor, run_part(b"b"))
    harness.drain()
    harness.kill()
    assert harness.index.next_sequence_floor == (5 + 3 * FREE_SEGMENTS) * SEGMENT_MESSAGES


def test_a_queue_that_left_nothing_on_disk_goes_on_above_too(harness: StoreHarness):
    harness.index.publish(0, run_part(b"a"))
    harness.power_cut(Random(1))
    assert harness.disk.names("queues") == []
    assert harness.index.next_sequence_floor == first_free(0, 1)
    assert harness.store.queue_index("new").next_sequence_floor == 0


def test_a_purge_before_the_end_gives_no_number_back(harness: StoreHarness):
    harness.index.publish(7, run_part(b"a", b"b"))
    harness.index.purge()
    assert harness.restart().queue_index("1").next_sequence_floor == 9
    harness.kill()
    assert harness.index.next_sequence_floor >= first_free(0, 1)


def test_the_start_of_a_file_whose_first_record_is_lost_counts_as_the_oldest(harness: StoreHarness):
    harness.kill()
    harness.kill()
    index = harness.index
    first = index.next_sequence_floor
    index.publish(first, run_part(b"a"))
    index.publish(first + 1, run_part(b"b"))
    harness.write()
    (path,) = [path for path in harness.disk.paths if path.startswith("queues/1/0/")]
    harness.disk.flip_bit(path, 0)
    harness.kill()
    newest = first // SEGMENT_MESSAGES
    assert harness.index.next_sequence_floor == first_free(newest, harness.generation - 1)
    assert messages(harness.index) == {first + 1: b"b"}
    harness.kill()
    assert harness.index.next_sequence_floor == first_free(newest, harness.generation - 1)


# --- what a crash tears


def test_a_torn_tail_is_cut_off_and_reported(harness: StoreHarness):
    harness.index.publish(0, run_part(b"a"))
    harness.index.publish(1, run_part(b"b" * 100))
    harness.write()
    last = records(harness.disk, FIRST)[-1]
    harness.disk.truncate(FIRST, last.end - 50)
    harness.kill()
    (torn,) = harness.store.report.torn
    assert (torn.path, torn.offset, torn.bytes) == (FIRST, last.offset, last.end - 50 - last.offset)
    assert harness.disk.size(FIRST) == last.offset
    assert messages(harness.index) == {0: b"a"}
    assert harness.kill().report.torn_count == 0


@pytest.mark.parametrize("damage", [0, 40])
@pytest.mark.parametrize(("path", "lost"), [(FIRST, 1), (BODIES, 4)])
def test_a_hole_in_what_was_not_synced_costs_its_record_only(harness: StoreHarness, path, lost, damage: int):
    """The record has a damaged header, or a damaged payload."""
    bodies = [b"a", b"b", b"c", LARGE, LARGE + b"1", LARGE + b"2"]
    for sequence, body in enumerate(bodies):
        harness.index.publish(sequence, run_part(body))
    harness.write()
    hole = records(harness.disk, path)[1]
    harness.disk.flip_bit(path, 8 * (hole.offset + damage))
    expected = {sequence: body for sequence, body in enumerate(bodies) if sequence != lost}
    harness.kill()
    assert [(torn.path, torn.offset) for torn in harness.store.report.torn] == [(path, hole.offset)]
    assert messages(harness.index) == expected
    harness.drain()
    for _ in range(2):  # the hole is no damage to the records that are synced by now
        harness.kill()
        assert (harness.store.report.torn_count, harness.store.report.lost_count) == (0, 0)
        assert messages(harness.index) == expected


@given(seed=st.integers(0, 2**64 - 1), synced=st.integers(0, 8), data=st.data())
@settings(max_examples=150)
def test_row_2_5_a_power_cut_takes_only_what_was_not_synced(seed: int, synced: int, data: st.DataObject):
    harness = StoreHarness(msg_store_file_size_limit=65_536)
    sizes = data.draw(
        st.lists(st.lists(st.sampled_from([0, 12, 700, 5000, 40_000]), min_size=1, max_size=5), max_size=8)
    )
    sequence = 0
    expected: dict[int, bytes] = {}
    sure = 0
    for number, run in enumerate(sizes):
        bodies = [bytes([65 + number]) * size for size in run]
        harness.index.publish(sequence, run_part(*bodies))
        expected.update(enumerate(bodies, sequence))
        sequence += len(bodies)
        harness.write()
        if number < synced:
            harness.sync()
            sure = sequence
    harness.power_cut(Random(seed))
    found = messages(harness.index)
    assert found.items() <= expected.items()
    assert set(range(sure)) <= set(found)
    assert harness.store.report.lost_count == 0


# --- damage to what was synced


@pytest.fixture
def synced() -> StoreHarness:
    """Records of all kinds, and the lane's mark that they are synced."""
    harness = StoreHarness()
    for sequence in range(0, 20, 2):
        harness.index.publish(sequence, run_part(b"%d" % sequence, LARGE + b"%d" % sequence))
    harness.drain()
    harness.index.settle([2, 3, 18])
    harness.drain()
    harness.index.publish(20, run_part(b"last", LARGE))
    harness.drain()
    return harness


def find(disk: MemoryDisk, path: str, choose: Callable[[list[SoundRecord]], SoundRecord]) -> SoundRecord:
    return choose(records(disk, path))


@pytest.mark.parametrize(
    ("path", "number", "kind"),
    [(FIRST, 0, "PUBLISH"), (FIRST, 1, "PUBLISH_STORED"), (FIRST, 20, "SETTLE"), (BODIES, 4, "BODY")],
)
def test_damage_to_a_synced_record_is_named_and_changes_nothing(synced: StoreHarness, path, number, kind):
    record = records(synced.disk, path)[number]
    synced.disk.flip_bit(path, 8 * (record.offset + HEADER_BYTES))
    before = {name: synced.disk.read(name, 0, 2**30) for name in synced.disk.paths}
    with pytest.raises(StoreDamaged) as refusal:
        synced.kill()
    assert f"{path} at {record.offset}: {kind} of start 1, batch {record.batch}" in str(refusal.value)
    assert "store.salvage" in str(refusal.value)
    assert {name: synced.disk.read(name, 0, 2**30) for name in synced.disk.paths} == before


def test_the_last_header_of_a_file_that_was_closed_in_order_is_not_taken_for_a_torn_tail(synced: StoreHarness):
    synced.drain()
    synced.store.close_checkpoint()
    last = records(synced.disk, FIRST)[-1]
    synced.disk.flip_bit(FIRST, 8 * last.offset)
    with pytest.raises(StoreDamaged, match=f"at {last.offset}: no header"):
        synced.start()


def test_salvage_loses_that_record_says_so_and_leaves_it_there(synced: StoreHarness):
    record = records(synced.disk, FIRST)[4]
    expected = messages(synced.index)
    synced.disk.flip_bit(FIRST, 8 * (record.offset + HEADER_BYTES + 3))
    del expected[4]
    synced.settings = synced.settings.model_copy(update={"salvage": True})
    for _ in range(2):
        synced.kill()
        (lost,) = synced.store.report.lost
        assert (lost.path, lost.offset, lost.kind, lost.batch) == (FIRST, record.offset, "PUBLISH", record.batch)
        assert messages(synced.index) == expected
        synced.drain()
    assert not synced.restart().report.clean  # everything is scanned while the setting is on
    assert messages(synced.index) == expected
    synced.settings = synced.settings.model_copy(update={"salvage": False})
    with pytest.raises(StoreDamaged):
        synced.kill()


def test_salvage_of_a_body_loses_its_message(synced: StoreHarness):
    record = records(synced.disk, BODIES)[3]
    expected = messages(synced.index)
    synced.disk.flip_bit(BODIES, 8 * (record.offset + 100))
    del expected[7]
    synced.settings = synced.settings.model_copy(update={"salvage": True})
    report = synced.kill().report
    assert (report.lost_count, report.lost[0].messages, report.without_body) == (1, 1, 1)
    assert messages(synced.index) == expected


def test_salvage_of_a_record_that_is_cut_off_keeps_its_place(synced: StoreHarness):
    """Records that are written later must not lie where the lost record says that it is."""
    last = records(synced.disk, FIRST)[-1]
    expected = messages(synced.index)
    del expected[21]
    synced.disk.truncate(FIRST, last.end - 8)
    synced.settings = synced.settings.model_copy(update={"salvage": True})
    synced.kill()
    assert messages(synced.index) == expected
    synced.index.publish(22, run_part(b"later"))
    synced.index.settle([0])
    del expected[0]
    synced.drain()
    assert synced.kill().report.lost_count == 1
    assert messages(synced.index) == expected | {22: b"later"}


@given(data=st.data())
@settings(max_examples=200)
def test_every_flipped_bit_is_noticed_and_costs_one_record(data: st.DataObject):
    """The start is refused, or it reports a torn tail: damage to the header of a file's last record looks like one."""
    harness = StoreHarness(msg_store_file_size_limit=65_536)
    for sequence in range(0, 12, 3):
        harness.index.publish(sequence, run_part(b"%d" % sequence, b"x" * 40, LARGE + b"%d" % sequence))
        harness.drain()
    harness.index.settle([0, 5, 7])
    harness.drain()
    harness.index.publish(12, run_part(b"last"))
    harness.drain()
    before = messages(harness.index)
    path = data.draw(st.sampled_from([FIRST, BODIES]))
    bit = data.draw(st.integers(0, 8 * harness.disk.size(path) - 1))
    (hit,) = [record for record in records(harness.disk, path) if record.offset <= bit // 8 < record.end]
    harness.disk.flip_bit(path, bit)
    in_header = bit // 8 - hit.offset < HEADER_BYTES - 4  # the payload's checksum is not part of the header
    if not in_header or hit.end < harness.disk.size(path):
        with pytest.raises(StoreDamaged, match=f"{path} at {hit.offset}"):
            harness.kill()
    harness.settings = harness.settings.model_copy(update={"salvage": True})
    report = harness.kill().report
    assert (report.lost or report.torn)[0].offset == hit.offset
    found = messages(harness.index)
    assert {sequence: found[sequence] for sequence in found if sequence in before}.items() <= before.items()
    assert len(set(before) - set(found)) <= 2
    assert set(found) - set(before) <= {0, 5, 7}
