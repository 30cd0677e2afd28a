"""Errors that the fault runs have found, each in its smallest form."""

import pytest

from core.store.command_log import LocalCommandLog
from core.store.errors import StoreDamaged
from core.store.lane import Lane
from core.store.record import HEADER_BYTES
from core.store.stream_chunk import ChunkCache
from core.store.stream_log import LEAP, StreamLog
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.quorum_log import QuorumNode

SEGMENTS = (0, 20)


def test_a_stream_of_which_a_power_cut_left_nothing_but_file_names_goes_on() -> None:
    disk = MemoryDisk()
    for first in SEGMENTS:
        disk.write(f"streams/1/{first:020}.seg", 0, [bytes(200)])
    lane = Lane("streams", generation=2, sync_interval_s=0.2)
    log = StreamLog(disk, lane, "streams/1", segment_bytes=1000, cache=ChunkCache(1000))
    log.recover(intact=False)
    assert log.next >= LEAP
    assert log.messages == 0
    assert log.segments == 1


@pytest.mark.parametrize("salvage", [False, True])
def test_a_log_that_a_snapshot_has_saved_from_being_read_is_checked_before_bodies_are_taken(salvage: bool) -> None:
    node = QuorumNode()
    body = b"the body of a message"
    appended = node.log.append((body,), len(body), node.log.acquire_lease(), prompt=True)
    node.commit()
    node.log.put_snapshot([])
    node.disk.flip_bit(f"quorum/{appended.file}.log", 8 * (HEADER_BYTES + 3))
    lane = Lane("quorum", generation=2, sync_interval_s=0.2)
    log = LocalCommandLog(node.disk, lane, file_bytes_max=65_536, salvage=salvage)
    snapshot = log.take_snapshot()
    assert (snapshot is None) == salvage
    if snapshot is not None:
        assert not list(log.read(snapshot[0]))
        with pytest.raises(StoreDamaged, match=f"quorum/{appended.file}.log at 0"):
            log.read_bytes(appended.file, appended.offset, len(body))


def test_a_snapshot_whose_first_record_is_damaged_is_not_used() -> None:
    node = QuorumNode()
    node.commit()
    node.log.put_snapshot([b"part"])
    node.disk.flip_bit("quorum/snapshot", 8 * HEADER_BYTES)
    log = LocalCommandLog(node.disk, Lane("quorum", generation=2, sync_interval_s=0.2), file_bytes_max=65_536)
    assert log.take_snapshot() is None
    assert log.problems == ["quorum/snapshot is damaged: all commands are replayed"]
