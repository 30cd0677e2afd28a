"""``store.sync_delay`` and ``store.write_delay``: every sync, or every write, takes longer in the lane's worker, and
nothing else takes longer."""

from pathlib import Path

import pytest
import structlog

from core.clock import Now
from core.config.store import StoreSettings
from core.engine.quorum.annotations import PlainAnnotations
from core.engine.routing.topology import numbered_identities
from core.server.data import OpenData
from core.store.lane import Lane
from core.store.record import RecordKind
from tests.kit.faulty_disk import MemoryDisk


def test_what_slows_a_sync_is_called_once_for_each_and_in_its_worker():
    disk, lane = MemoryDisk(), Lane("classic", generation=1, sync_interval_s=1.0)
    slowed: list[int] = []
    lane.before_sync = lambda: slowed.append(lane.synced)
    for path in ("queues/t1/a", "queues/t1/b"):
        lane.append(path, 0, RecordKind.BODY, (b"x",))
    batch = lane.take_write()
    assert batch is not None
    batch.run(disk)
    lane.wrote(batch)
    syncing = lane.take_sync(0.0)
    assert syncing is not None
    assert slowed == []
    syncing.run(disk)
    assert slowed == [0]
    lane.did_sync(syncing)
    lane.remove("queues/t1/a")
    removing = lane.take_sync(0.0)
    assert removing is not None
    removing.run(disk)
    assert slowed == [0], "there was nothing to sync"


def test_what_slows_a_write_is_called_once_for_each_and_in_its_worker():
    disk, lane = MemoryDisk(), Lane("classic", generation=1, sync_interval_s=1.0)
    slowed: list[int] = []
    lane.before_write = lambda: slowed.append(lane.written)
    for number in (0, 1):
        lane.append(f"queues/t1/{number}", 0, RecordKind.BODY, (b"x",))
        batch = lane.take_write()
        assert batch is not None
        assert len(slowed) == number
        batch.run(disk)
        lane.wrote(batch)
    assert slowed == [0, 1]
    syncing = lane.take_sync(0.0)
    assert syncing is not None
    syncing.run(disk)
    assert slowed == [0, 1]


@pytest.mark.parametrize("sync_delay", [0.0, 0.001])
@pytest.mark.parametrize("write_delay", [0.0, 0.002])
def test_the_settings_slow_every_lane_and_the_event_loop_makes_no_slow_write(
    tmp_path: Path, sync_delay: float, write_delay: float
):
    data = OpenData(
        tmp_path,
        StoreSettings(sync_delay=sync_delay, write_delay=write_delay),
        clock=lambda: Now(0.0, 0.0),
        log=structlog.get_logger(),
        annotations=PlainAnnotations(),
        new_identity=numbered_identities(),
    )
    for delay, name in ((sync_delay, "before_sync"), (write_delay, "before_write")):
        shown = [getattr(getattr(lane, name), "args", ()) for lane in data.lanes]
        assert shown == ([(delay,)] * 3 if delay else [()] * 3)
    lane = data.lanes[0]
    lane.append("queues/1/a", 0, RecordKind.BODY, (b"x",))
    lane.want_written()
    assert data.write_inline() is not bool(write_delay)
    data.close()
