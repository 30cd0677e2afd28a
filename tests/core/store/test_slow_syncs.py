"""``store.sync_delay``: every sync takes longer, in the lane's worker, and nothing else takes longer."""

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


def test_the_setting_slows_every_lane(tmp_path):
    for delay in (0.0, 0.001):
        data = OpenData(
            tmp_path,
            StoreSettings(sync_delay=delay),
            clock=lambda: Now(0.0, 0.0),
            log=structlog.get_logger(),
            annotations=PlainAnnotations(),
            new_identity=numbered_identities(),
        )
        shown = [getattr(lane.before_sync, "args", ()) for lane in data.lanes]
        assert shown == ([(delay,)] * 3 if delay else [()] * 3)
        data.close()
