"""The checkpoint: a start finds it complete and true, or none."""

import pytest

from core.store.checkpoint import Checkpoint, read_checkpoint, remove_checkpoint, write_checkpoint
from core.store.message_store import FileSummary, StoreState
from core.store.places import CHECKPOINT, SegmentSummary
from core.store.queue_index import IndexState
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk


def example() -> Checkpoint:
    segments = {3: SegmentSummary(100, 7, 70, 4096, 0, True, False), 5: SegmentSummary(1, 1, 9000, 64, 2, False, True)}
    return Checkpoint(
        {("1", 0): IndexState(90_000, 80_000, segments), ("12", 9): IndexState(0, 0, {})},
        StoreState(8, {7: FileSummary(10_000, 9_032)}, {(5 << 40) + 2: 2**90 + 17}, {(5 << 40) + 2: 3}),
    )


def plain(checkpoint: Checkpoint) -> object:
    """Everything in the checkpoint, in a form that can be compared."""
    return (
        {
            key: (
                state.next_sequence_floor,
                state.delivered_below,
                {
                    number: (
                        segment.published,
                        segment.live,
                        segment.live_bytes,
                        segment.file_bytes,
                        segment.incarnation,
                        segment.mixed,
                        segment.stored,
                        segment.ids,
                    )
                    for number, segment in state.segments.items()
                },
            )
            for key, state in checkpoint.indexes.items()
        },
        checkpoint.bodies,
    )


def test_what_is_written_is_read():
    disk = MemoryDisk()
    write_checkpoint(disk, example(), 5)
    found = read_checkpoint(disk, oldest=5, newest=5)
    assert found is not None
    assert plain(found) == plain(example())
    assert disk.is_synced(CHECKPOINT)
    assert disk.paths == [CHECKPOINT]


def test_many_bodies_take_many_frames():
    disk = MemoryDisk()
    places = {number: number << 40 for number in range(150_000)}
    write_checkpoint(disk, Checkpoint(bodies=StoreState(places=places)), 1)
    found = read_checkpoint(disk, oldest=1, newest=1)
    assert found is not None
    assert found.bodies.places == places


@pytest.mark.parametrize(("oldest", "newest"), [(6, 9), (1, 4)])
def test_a_checkpoint_of_another_start_is_not_trusted(oldest: int, newest: int):
    disk = MemoryDisk()
    write_checkpoint(disk, example(), 5)
    assert read_checkpoint(disk, oldest=oldest, newest=newest) is None


def test_nothing_that_is_cut_off_or_changed_is_trusted():
    disk = MemoryDisk()
    write_checkpoint(disk, example(), 5)
    data = disk.read(CHECKPOINT, 0, 10_000)
    for size in range(len(data)):
        damaged = MemoryDisk()
        damaged.write(CHECKPOINT, 0, [data[:size]])
        assert read_checkpoint(damaged, oldest=1, newest=9) is None
    for bit in range(8 * len(data)):
        damaged = MemoryDisk()
        damaged.write(CHECKPOINT, 0, [data])
        damaged.flip_bit(CHECKPOINT, bit)
        assert read_checkpoint(damaged, oldest=1, newest=9) is None


def test_a_checkpoint_without_its_last_frame_is_not_complete():
    disk = MemoryDisk()
    write_checkpoint(disk, Checkpoint(), 5)
    size = disk.size(CHECKPOINT)
    disk.truncate(CHECKPOINT, size - 8 - 6)  # a frame's header and ["end", 1]
    assert read_checkpoint(disk, oldest=5, newest=5) is None


def test_there_is_no_checkpoint_until_it_is_whole():
    for nth in range(1, 10):
        disk = FaultyDisk()
        operations = ("unlink", "write", "sync", "rename", "sync_folder")
        if nth > len(operations):
            break
        disk.fail(operations[nth - 1])
        with pytest.raises(OSError, match="5"):
            write_checkpoint(disk, example(), 5)
        if operations[nth - 1] != "sync_folder":
            assert read_checkpoint(disk, oldest=5, newest=5) is None


def test_removing_the_checkpoint_is_durable():
    disk = MemoryDisk()
    write_checkpoint(disk, example(), 5)
    remove_checkpoint(disk)
    assert disk.names("") == []
    disk.sync_everything()
    assert read_checkpoint(disk, oldest=5, newest=5) is None
