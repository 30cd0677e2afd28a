"""A lane with a disk in memory behind it, which a test moves by hand."""

from core.store.lane import Lane, SyncBatch, WriteBatch
from core.store.marks import Marks
from core.store.record import RecordKind, SoundRecord, record_bytes, scan
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk

INDEX = "queues/1/0/0.idx"
BODIES = "msg_store_persistent/1.rdq"
MARKS = "classic/1.marks"
"""The offset in a lane's file at which its marks begin."""


class LaneStore:
    """A lane with a disk behind it, and files to which it appends."""

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
        """True when the lane has called its listener since the last call of this method."""
        notifications, self.notifications = self.notifications, []
        return bool(notifications)

    def append(self, path: str = INDEX, payload: bytes = b"message") -> int:
        """Stage one record at the end of a file."""
        offset = self.sizes.get(path, 0)
        self.sizes[path] = offset + record_bytes(len(payload))
        return self.lane.append(path, offset, RecordKind.PUBLISH, [payload])

    def write(self) -> WriteBatch:
        """Write what is staged."""
        batch = self.lane.take_write()
        assert batch is not None
        batch.run(self.disk)
        self.lane.wrote(batch)
        return batch

    def sync(self, now: float = 0.0) -> SyncBatch:
        """Sync what is written."""
        batch = self.lane.take_sync(now)
        assert batch is not None
        batch.run(self.disk)
        self.lane.did_sync(batch)
        return batch

    def records(self, path: str = INDEX) -> list[SoundRecord]:
        """The records of a file. Checks that all of it is sound."""
        found = list(scan(lambda offset, length: self.memory.read(path, offset, length), self.memory.size(path)))
        assert all(isinstance(item, SoundRecord) for item in found)
        return [item for item in found if isinstance(item, SoundRecord)]
