"""A lane against its promises, over a disk whose power fails at any moment.

The model is the list of everything that was staged. After every step, positions only grow and keep their order, and
what is written is on the disk. After every power cut, four things hold: what was synced is there; no record is there
that was not staged; no file is gone before the records staged ahead of its removal are safe; and no mark says more than
was synced, or names a file that is not there.
"""

from random import Random

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.store.errors import NoSpace
from core.store.lane import Lane, SyncBatch, WriteBatch
from core.store.marks import SUFFIX, lost_files, read_marks
from core.store.record import HEADER_BYTES, RecordKind, SoundRecord, record_bytes, scan
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk

GENERATION = 3


class LaneMachine(RuleBasedStateMachine):
    """Files in several folders, with writes and syncs that are taken, run and reported in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryDisk()
        self.disk = FaultyDisk(self.memory)
        self.lane = Lane("lane", generation=GENERATION, sync_interval_s=1.0, sync_files_max=2)
        self.begun: int | None = None
        """The position of a sync that has begun and whose last batch is not taken."""
        self.now = 0.0
        self.staged: list[tuple[str, int, bytes]] = []
        """The path, offset and payload of each record, by position - 1."""
        self.sizes: dict[str, int] = {}
        self.removed: dict[str, int] = {}
        """The position at which a path was given up."""
        self.existed: set[str] = set()
        self.batch_positions = {0: 0}
        self.late = 0
        self.write: WriteBatch | None = None
        self.write_has_run = False
        self.sync: SyncBatch | None = None
        self.sync_has_run = False
        self.positions = (0, 0, 0)

    # --- staging

    @rule(folder=st.integers(0, 2), file=st.integers(0, 2), size=st.sampled_from([0, 1, 8, 100, 700]))
    def append(self, folder: int, file: int, size: int) -> None:
        path = f"q/{folder}/{file}"
        if path not in self.removed:
            self.stage(path, size)

    def stage(self, path: str, size: int) -> None:
        offset = self.sizes.get(path, 0)
        payload = bytes([len(self.staged) % 255 + 1]) * size
        self.sizes[path] = offset + record_bytes(size)
        self.staged.append((path, offset, payload))
        assert self.lane.append(path, offset, RecordKind.PUBLISH, [payload]) == len(self.staged)

    @rule()
    def append_late(self) -> None:
        self.late += 1
        self.lane.later(self)

    def write_late(self) -> None:
        self.stage("late", self.late)
        self.late = 0

    @rule()
    def want_sync(self) -> None:
        self.lane.want_sync()

    @rule(folder=st.integers(0, 2), file=st.integers(0, 2))
    def remove(self, folder: int, file: int) -> None:
        path = f"q/{folder}/{file}"
        if path in self.sizes and path not in self.removed:
            self.lane.remove(path)
            self.removed[path] = len(self.staged)

    # --- batches

    @precondition(lambda self: self.write is None)
    @rule()
    def take_write(self) -> None:
        expected = self.lane.has_records or self.lane.has_late_writers
        self.write = self.lane.take_write()
        self.write_has_run = False
        assert (self.write is not None) == expected
        if self.write is not None:
            assert self.write.position == len(self.staged)
            self.batch_positions[self.write.number] = self.write.position

    @precondition(lambda self: self.write is not None and not self.write_has_run)
    @rule(space=st.one_of(st.none(), st.integers(0, 400)))
    def run_write(self, space: int | None) -> None:
        assert self.write is not None
        assert self.lane.take_write() is None
        self.disk.set_space(space)
        try:
            self.write.run(self.disk)
            self.write_has_run = True
        except NoSpace:
            assert self.lane.written < self.write.position
        self.disk.set_space(None)
        self.existed.update(self.memory.paths)

    @precondition(lambda self: self.write is not None and self.write_has_run)
    @rule()
    def wrote(self) -> None:
        assert self.write is not None
        self.lane.wrote(self.write)
        assert self.lane.written == self.write.position
        self.write = None

    @precondition(lambda self: self.sync is None)
    @rule(passed=st.sampled_from([0.0, 0.4, 1.0]))
    def take_sync(self, passed: float) -> None:
        self.now += passed
        due = self.lane.sync_due(self.now)
        self.sync = self.lane.take_sync(self.now)
        self.sync_has_run = False
        assert (self.sync is not None) == (due is not None and due <= self.now)
        if self.sync is not None:
            begun = self.lane.written if self.begun is None else self.begun
            if self.sync.position == begun:
                self.begun = None
            else:
                self.begun = begun
                assert self.sync.position == self.lane.synced
                assert (len(self.sync.files), list(self.sync.removals)) == (2, [])

    @precondition(lambda self: self.sync is not None and not self.sync_has_run)
    @rule()
    def run_sync(self) -> None:
        assert self.sync is not None
        assert self.lane.take_sync(self.now) is None
        self.sync.run(self.disk)
        self.sync_has_run = True
        assert all(self.removed[path] <= self.sync.position for path in self.gone())

    @precondition(lambda self: self.sync is not None and self.sync_has_run)
    @rule()
    def did_sync(self) -> None:
        assert self.sync is not None
        self.lane.did_sync(self.sync)
        assert self.lane.synced == self.sync.position
        self.sync = None

    @precondition(lambda self: self.write is None and self.sync is None)
    @rule()
    def commit(self) -> None:
        """Do all steps at once, so that long histories are tested, too."""
        self.lane.want_sync()
        self.take_write()
        if self.write is not None:
            self.run_write(None)
            self.wrote()
        self.take_sync(0.0)
        if self.sync is not None:
            self.run_sync()
            self.did_sync()

    # --- promises

    @invariant()
    def positions_grow_in_order(self) -> None:
        positions = (self.lane.staged, self.lane.written, self.lane.synced)
        assert all(new >= old for new, old in zip(positions, self.positions, strict=True))
        assert len(self.staged) == positions[0] >= positions[1] >= positions[2]
        self.positions = positions

    @invariant()
    def what_is_written_is_on_the_disk(self) -> None:
        self.check_present(self.memory, self.lane.written)

    @invariant()
    def staged_bytes_are_those_not_written(self) -> None:
        waiting = self.staged[self.lane.written :]
        assert self.lane.staged_bytes == sum(record_bytes(len(payload)) for _, _, payload in waiting)

    @rule(seed=st.integers(0, 2**32))
    def cut_the_power(self, seed: int) -> None:
        """Cut the power on a copy, and check what it leaves."""
        found = self.memory.power_cut(Random(seed))
        self.check_present(found, max([self.lane.synced, *(self.removed[path] for path in self.gone())]))
        known = {(path, offset): payload for path, offset, payload in self.staged}
        for path in [path for path in found.paths if not path.endswith(SUFFIX)]:
            data = found.read(path, 0, found.size(path))
            for item in scan(lambda offset, length, data=data: data[offset : offset + length], len(data)):
                assert not isinstance(item, SoundRecord) or known[path, item.offset] == item.payload
        marks = read_marks(found, "lane")
        assert lost_files(found, marks) == []
        generation, batch = marks.synced
        assert generation in (0, GENERATION)
        # a sync that has run may have announced removals, before the lane hears that it is done
        synced = self.sync.position if self.sync is not None and self.sync_has_run else self.lane.synced
        assert self.batch_positions[batch] <= synced

    def gone(self) -> set[str]:
        """The files that are removed."""
        return self.existed - set(self.memory.paths)

    def check_present(self, disk: MemoryDisk, position: int) -> None:
        for path, offset, payload in self.staged[:position]:
            if path not in self.removed:
                assert disk.read(path, offset + HEADER_BYTES, len(payload)) == payload


TestLane = LaneMachine.TestCase
TestLane.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
