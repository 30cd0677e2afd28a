"""The quorum queues of one data folder on a disk in memory, with a lane that the test moves by hand."""

from random import Random

from core.engine.quorum.queues import QuorumQueues
from core.store.command_log import LocalCommandLog
from core.store.lane import Lane, SyncBatch, WriteBatch
from tests.kit.faulty_disk import MemoryDisk

FILE_BYTES = 65_536


class QuorumNode:
    """One start of the broker, with its quorum queues only."""

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        *,
        generation: int = 1,
        file_bytes: int = FILE_BYTES,
        look_bytes: int | None = None,
        salvage: bool = False,
    ) -> None:
        self.disk = disk or MemoryDisk()
        self.generation = generation
        self._now = 0.0
        self.file_bytes = file_bytes
        self.look_bytes = file_bytes // 4 if look_bytes is None else look_bytes
        self.lane = Lane("quorum", generation=generation, sync_interval_s=0.2)
        self.log = LocalCommandLog(self.disk, self.lane, file_bytes_max=file_bytes, salvage=salvage)
        self.queues = QuorumQueues(self.log, look_bytes=self.look_bytes)
        self.queues.recover()

    def take_write(self) -> WriteBatch | None:
        """Take the batch of staged records, with what late writers add."""
        return self.lane.take_write()

    def write(self) -> None:
        """Write what is staged, once."""
        batch = self.lane.take_write()
        if batch is not None:
            batch.run(self.disk)
            self.lane.wrote(batch)

    def take_sync(self) -> SyncBatch | None:
        """Take the batch of written records, at a time when its sync is due."""
        self._now += 1
        return self.lane.take_sync(self._now)

    def sync(self) -> None:
        """Sync what is written, and remove the files that may go."""
        batch = self.take_sync()
        if batch is not None:
            batch.run(self.disk)
            self.lane.did_sync(batch)

    def commit(self) -> None:
        """Write and sync until nothing is left to do."""
        while self.lane.synced < self.lane.staged or self.lane.has_late_writers or self.lane.has_records:
            self.write()
            self.sync()
        self.sync()

    def restart(self, *, clean: bool = False) -> "QuorumNode":
        """The next start on the same disk, which has everything that was written."""
        if clean:
            self.commit()
            self.queues.put_snapshot()
        return self._again(self.disk)

    def after_power_cut(self, rng: Random) -> "QuorumNode":
        """The next start on what a power cut would leave. This node may go on."""
        return self._again(self.disk.power_cut(rng))

    def _again(self, disk: MemoryDisk) -> "QuorumNode":
        return QuorumNode(disk, generation=self.generation + 1, file_bytes=self.file_bytes, look_bytes=self.look_bytes)
