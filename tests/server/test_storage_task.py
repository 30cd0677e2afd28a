"""The two loops of a lane: they wake, group, retry without space, and end after a failure. Cancelling them loses
nothing."""

import errno
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from core.clock import Now
from core.server.pump import TURN_SECONDS_MAX
from core.server.storage_task import (
    GATHERED_LITTLE,
    GATHERING_MORE_SECONDS,
    GATHERING_PASSES_MAX,
    GATHERING_SECONDS,
    LATE_WRITE_SECONDS,
    drain,
    run_lane,
)
from core.server.worker_threads import WorkerThreads
from core.store.disk import FolderDisk
from core.store.errors import NoSpace, StoreFailure
from core.store.lane import Lane
from core.store.marks import read_marks
from core.store.record import RecordKind, record_bytes
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk

INTERVAL = 0.2
RETRY = 0.25


def read_clock() -> Now:
    return Now(trio.current_time(), 0.0)


class Gates:
    """A runner of blocking work that lets each call through when the test says so, or at once while ``open``."""

    def __init__(self) -> None:
        self.open = True
        self.waiting: list[trio.Event] = []

    async def __call__(self, work: Callable[[], None]) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if not self.open:
            gate = trio.Event()
            self.waiting.append(gate)
            with trio.CancelScope(shield=True):
                await gate.wait()
        work()

    async def let_through(self, index: int = 0) -> None:
        self.waiting.pop(index).set()
        await wait_all_tasks_blocked()


class Storage:
    """A lane, a disk that fails when a test says so, and a list of what happened."""

    def __init__(self) -> None:
        self.memory = MemoryDisk()
        self.disk = FaultyDisk(self.memory)
        self.lane = Lane("classic", generation=1, sync_interval_s=INTERVAL)
        self.run_blocking = Gates()
        self.diary: list[object] = []
        self.sizes: dict[str, int] = {}
        self.asked: list[tuple[float, bool]] = []
        """How long the lane would have waited for bytes, and whether for all of that time."""
        self.reads: list[float] = []
        """How long each further read takes that finds bytes."""
        self.work = 1  # of each of these reads
        self.on_read: Callable[[], None] = lambda: None
        self.ahead = 0.0
        """How far the clock is ahead of Trio's."""
        self.then: Callable[[], None] = lambda: None
        """Called at each progress."""

    def append(self, path: str = "log") -> None:
        offset = self.sizes.get(path, 0)
        self.sizes[path] = offset + record_bytes(7)
        self.lane.append(path, offset, RecordKind.PUBLISH, [b"message"])

    def progressed(self) -> None:
        self.diary.append((self.lane.written, self.lane.synced))
        self.then()

    def clock(self) -> Now:
        return Now(trio.current_time() + self.ahead, 0.0)

    def read_within(self, seconds: float, whole: bool) -> int:
        self.asked.append((seconds, whole))
        if not self.reads:
            return 0
        self.ahead += self.reads.pop(0)
        self.on_read()
        return self.work

    async def run(self) -> None:
        await run_lane(
            self.lane,
            self.disk,
            run_blocking=self.run_blocking,
            clock=self.clock,
            progressed=self.progressed,
            no_space=lambda waiting: self.diary.append("no space" if waiting else "space"),
            retry_s=RETRY,
            read_within=self.read_within,
        )

    async def drain(self) -> None:
        await drain(
            self.lane,
            self.disk,
            run_blocking=self.run_blocking,
            clock=read_clock,
            progressed=self.progressed,
        )

    def taken_diary(self) -> list[object]:
        diary, self.diary = self.diary, []
        return diary


@pytest.fixture
def storage() -> Storage:
    return Storage()


async def pass_time(clock: MockClock, seconds: float) -> None:
    clock.jump(seconds)
    await wait_all_tasks_blocked()


async def started(storage: Storage, nursery: trio.Nursery) -> None:
    nursery.start_soon(storage.run)
    await wait_all_tasks_blocked()


# --- writing and syncing


async def test_what_is_staged_is_written_and_synced_in_the_background(
    storage: Storage, nursery: trio.Nursery, mock_clock: MockClock
):
    await started(storage, nursery)
    storage.append()
    storage.append()
    await wait_all_tasks_blocked()
    assert storage.taken_diary() == [(2, 0), (2, 2)]
    storage.append()
    await wait_all_tasks_blocked()
    assert storage.taken_diary() == [(3, 2)]
    await pass_time(mock_clock, INTERVAL)
    assert storage.taken_diary() == [(3, 3)]
    assert storage.memory.is_synced("log")


async def test_what_was_staged_before_the_start_is_taken_too(
    storage: Storage, nursery: trio.Nursery, mock_clock: MockClock
):
    storage.append()
    await started(storage, nursery)
    assert storage.lane.synced == 1


async def test_a_wanted_sync_does_not_wait(storage: Storage, nursery: trio.Nursery, mock_clock: MockClock):
    await started(storage, nursery)
    for number in range(1, 4):
        storage.append()
        storage.lane.want_sync()
        await wait_all_tasks_blocked()
        assert storage.lane.synced == number


async def test_what_gathers_during_a_write_is_one_batch(storage: Storage, nursery: trio.Nursery, mock_clock: MockClock):
    gates = storage.run_blocking
    gates.open = False
    await started(storage, nursery)
    storage.append()
    await wait_all_tasks_blocked()
    for _ in range(5):
        storage.append()
    gates.open = True
    await gates.let_through()
    assert storage.lane.batches == 2
    assert storage.lane.written == 6


async def test_a_slow_sync_holds_up_no_write(storage: Storage, nursery: trio.Nursery, mock_clock: MockClock):
    gates = storage.run_blocking
    await started(storage, nursery)
    storage.append()
    gates.open = False
    await wait_all_tasks_blocked()
    await gates.let_through()
    storage.append()
    await wait_all_tasks_blocked()
    assert len(gates.waiting) == 2
    await gates.let_through(1)
    assert (storage.lane.written, storage.lane.synced) == (2, 0)
    gates.open = True
    await gates.let_through()
    await pass_time(mock_clock, INTERVAL)
    assert storage.lane.synced == 2


async def test_commits_are_timed(storage: Storage, nursery: trio.Nursery, mock_clock: MockClock):
    gates = storage.run_blocking
    gates.open = False
    await started(storage, nursery)
    storage.append()
    await wait_all_tasks_blocked()
    mock_clock.jump(0.5)
    await gates.let_through()
    mock_clock.jump(2.0)
    await gates.let_through()
    assert storage.lane.last_write_seconds == pytest.approx(0.5)
    assert storage.lane.last_sync_seconds == pytest.approx(2.0)


async def test_removals_are_done_while_nothing_is_written(
    storage: Storage, nursery: trio.Nursery, mock_clock: MockClock
):
    await started(storage, nursery)
    storage.append()
    await wait_all_tasks_blocked()
    storage.lane.remove("log")
    await wait_all_tasks_blocked()
    assert storage.memory.paths == []


async def test_a_lane_works_with_real_threads(storage: Storage, autojump_clock: MockClock):
    threads: set[int] = set()
    storage.disk.delay = lambda operation, path: threads.add(threading.get_ident())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(
                run_lane,
                storage.lane,
                storage.disk,
                run_blocking=WorkerThreads(),
                clock=read_clock,
                progressed=lambda: nursery.cancel_scope.cancel() if storage.lane.synced else None,
                no_space=storage.diary.append,
                retry_s=RETRY,
                read_within=lambda seconds, whole: 0,
            )
        )
        storage.append()
    assert storage.lane.synced == 1
    assert threads
    assert threading.get_ident() not in threads


# --- between two syncs


@pytest.mark.parametrize(
    ("reads", "more"),
    [([], 0), ([0] * 3, 3), ([0] * 20, GATHERING_PASSES_MAX - 1), ([0.6 * TURN_SECONDS_MAX] * 20, 1)],
    ids=["nothing-comes", "as-long-as-publishers-send-more", "but-so-many-times-only", "and-no-longer-than-a-turn"],
)
@pytest.mark.parametrize("work", [GATHERED_LITTLE - 1, GATHERED_LITTLE])
async def test_sockets_are_read_between_two_syncs(
    storage: Storage, nursery: trio.Nursery, mock_clock: MockClock, *, reads: list[float], more: int, work: int
):
    """``reads``: how long each read takes that finds bytes. Behind little ``work``, the next waits all of its time."""
    storage.reads, storage.work = list(reads), work
    await started(storage, nursery)
    storage.append()
    storage.lane.want_sync()
    await wait_all_tasks_blocked()
    assert storage.asked == [(GATHERING_SECONDS, False), *[(GATHERING_MORE_SECONDS, work != GATHERED_LITTLE)] * more]


async def test_what_comes_between_two_syncs_goes_with_the_second(
    storage: Storage, nursery: trio.Nursery, mock_clock: MockClock
):
    def publish() -> None:
        if storage.lane.staged < 4:
            storage.append()
            storage.lane.want_sync()

    storage.reads, storage.on_read = [0, 0, 0], publish
    await started(storage, nursery)
    storage.append()
    storage.lane.want_sync()
    await wait_all_tasks_blocked()
    assert [synced for written, synced in storage.diary if written == synced] == [1, 4]


# --- late writers


class Settlements:
    """A late writer with one record, or none."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.calls = 0
        self.records = 1

    def write_late(self) -> None:
        self.calls += 1
        for _ in range(self.records):
            self.storage.append("settled")


async def test_late_writers_wait_a_little_for_records(storage: Storage, nursery: trio.Nursery, mock_clock: MockClock):
    late = Settlements(storage)
    await started(storage, nursery)
    storage.lane.later(late)
    await wait_all_tasks_blocked()
    storage.lane.want_sync()
    storage.lane.notify()
    await wait_all_tasks_blocked()
    assert late.calls == 0
    await pass_time(mock_clock, LATE_WRITE_SECONDS)
    assert late.calls == 1
    assert storage.lane.written == 1


async def test_late_writers_go_with_records_that_come(storage: Storage, nursery: trio.Nursery, mock_clock: MockClock):
    late = Settlements(storage)
    await started(storage, nursery)
    storage.lane.later(late)
    await wait_all_tasks_blocked()
    storage.append()
    await wait_all_tasks_blocked()
    assert late.calls == 1
    assert (storage.lane.written, storage.lane.batches) == (2, 1)


async def test_late_writers_with_nothing_left_make_no_batch(
    storage: Storage, nursery: trio.Nursery, mock_clock: MockClock
):
    late = Settlements(storage)
    late.records = 0
    await started(storage, nursery)
    storage.lane.later(late)
    await wait_all_tasks_blocked()
    await pass_time(mock_clock, LATE_WRITE_SECONDS)
    assert late.calls == 1
    storage.append()
    await wait_all_tasks_blocked()
    assert storage.lane.batches == 1


# --- no space


async def test_without_space_the_write_is_tried_again_until_there_is_some(
    storage: Storage, nursery: trio.Nursery, mock_clock: MockClock
):
    await started(storage, nursery)
    storage.append()
    await wait_all_tasks_blocked()
    storage.taken_diary()
    storage.disk.set_space(10)
    storage.append()
    await wait_all_tasks_blocked()
    assert storage.taken_diary() == ["no space"]
    for _ in range(3):
        await pass_time(mock_clock, RETRY)
    assert storage.taken_diary() == []
    assert storage.disk.calls["write"] == 5
    storage.disk.set_space(None)
    await pass_time(mock_clock, RETRY)
    assert storage.taken_diary() == [(2, 1), "space", (2, 2)]


async def test_without_space_what_is_written_is_synced_and_files_are_removed(
    storage: Storage, nursery: trio.Nursery, mock_clock: MockClock
):
    await started(storage, nursery)
    storage.append("old")
    await wait_all_tasks_blocked()
    storage.append()
    await wait_all_tasks_blocked()
    storage.lane.remove("old")
    storage.disk.set_space(0)
    storage.append()
    await wait_all_tasks_blocked()
    assert storage.taken_diary()[-1] == "no space"
    await pass_time(mock_clock, RETRY)
    await pass_time(mock_clock, RETRY)
    assert storage.lane.synced == 3
    assert "old" not in storage.memory.paths
    assert "space" in storage.diary


# --- failures


@pytest.mark.parametrize(
    ("operation", "positions"), [("write", (0, 0)), ("sync", (1, 0)), ("sync_folder", (1, 0)), ("check", (0, 0))]
)
async def test_after_a_failure_nothing_is_confirmed_and_the_lane_ends(
    storage: Storage, mock_clock: MockClock, operation: str, positions: tuple[int, int]
):
    storage.disk.fail(operation)
    storage.append()
    with pytest.raises(StoreFailure) as failure:
        await storage.run()
    assert storage.lane.failed is failure.value
    assert (storage.lane.written, storage.lane.synced) == positions
    assert storage.diary == [(1, 0)] * positions[0]
    storage.append()
    assert storage.lane.take_write() is None
    with pytest.raises(StoreFailure):
        await storage.drain()


async def test_row_0_15_a_data_folder_that_goes_away_while_serving_ends_the_lane(
    storage: Storage, mock_clock: MockClock, tmp_path: Path
):
    root = tmp_path / "data"
    root.mkdir()
    disk = FolderDisk(root, 8)
    storage.disk = FaultyDisk(disk)
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            with pytest.raises(StoreFailure, match="cannot find 'the data folder': No such file or directory"):
                await storage.run()

        nursery.start_soon(run)
        storage.append()
        await wait_all_tasks_blocked()
        assert storage.taken_diary() == [(1, 0), (1, 1)]
        root.rename(tmp_path / "detached")
        storage.append()
    assert (storage.lane.written, storage.lane.synced) == (1, 1)
    assert storage.diary == []
    disk.close()


async def test_what_succeeds_beside_a_failure_is_not_confirmed(storage: Storage, mock_clock: MockClock):
    gates = storage.run_blocking
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            with pytest.raises(StoreFailure):
                await storage.run()

        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        storage.append()
        gates.open = False
        await wait_all_tasks_blocked()
        await gates.let_through()
        storage.append()
        storage.append()
        await wait_all_tasks_blocked()
        storage.taken_diary()
        storage.disk.fail("sync")
        await gates.let_through(0)
        await gates.let_through(0)
    assert storage.diary == []
    assert (storage.lane.written, storage.lane.synced) == (1, 0)


async def test_a_second_failure_hides_nothing(storage: Storage, mock_clock: MockClock):
    gates = storage.run_blocking
    failures: list[StoreFailure] = []
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            with pytest.raises(StoreFailure) as failure:
                await storage.run()
            failures.append(failure.value)

        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        storage.append()
        gates.open = False
        await wait_all_tasks_blocked()
        await gates.let_through()
        storage.append()
        await wait_all_tasks_blocked()
        storage.disk.fail("sync")
        storage.disk.fail("write")
        await gates.let_through(0)
        await gates.let_through(0)
    assert [failure.operation for failure in failures] == ["sync"]


@pytest.mark.parametrize("nth", [1, 2, 7, 50])
async def test_the_nth_sync_that_fails_is_the_end(storage: Storage, mock_clock: MockClock, nth: int):
    storage.disk.fail("sync", nth=nth)
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            with pytest.raises(StoreFailure):
                await storage.run()
            nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        while True:
            storage.append()
            storage.lane.want_sync()
            await wait_all_tasks_blocked()
    assert storage.disk.calls["sync"] == nth
    assert storage.lane.synced == storage.diary[-1][1] < storage.lane.staged


# --- cancellation and the orderly stop


async def test_a_cancelled_write_is_finished_and_told(storage: Storage, mock_clock: MockClock):
    gates = storage.run_blocking
    gates.open = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(storage.run)
        await wait_all_tasks_blocked()
        storage.append()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        gates.waiting.pop().set()
    assert storage.diary == [(1, 0)]
    gates.open = True
    await storage.drain()
    assert storage.diary == [(1, 0), (1, 1), (1, 1)]


async def test_batches_that_were_taken_and_not_begun_are_drained(storage: Storage, mock_clock: MockClock):
    storage.append()
    with trio.CancelScope() as scope:
        scope.cancel()
        await storage.run()
    assert storage.lane.writing is not None
    assert storage.lane.written == 0
    storage.append()
    await storage.drain()
    assert (storage.lane.written, storage.lane.synced) == (2, 2)

    storage.append()
    batch = storage.lane.take_write()
    assert batch is not None
    batch.run(storage.disk)
    storage.lane.wrote(batch)
    storage.lane.want_sync()
    with trio.CancelScope() as scope:
        scope.cancel()
        await storage.run()
    assert storage.lane.syncing is not None
    await storage.drain()
    assert storage.lane.synced == 3


async def test_what_was_left_out_is_taken_up_by_the_next_run(
    storage: Storage, nursery: trio.Nursery, mock_clock: MockClock
):
    storage.append()
    assert storage.lane.take_write() is not None
    await started(storage, nursery)
    assert storage.lane.synced == 1


async def test_a_drain_leaves_nothing_behind(storage: Storage, mock_clock: MockClock):
    late = Settlements(storage)
    storage.append()
    storage.append("dead")
    storage.lane.remove("dead")
    storage.lane.later(late)
    await storage.drain()
    lane = storage.lane
    assert lane.staged == lane.written == lane.synced == 3
    assert lane.staged_bytes == 0
    assert storage.memory.is_synced("log")
    assert storage.memory.is_synced("settled")
    assert "dead" not in storage.memory.paths
    assert read_marks(storage.memory, "classic").synced == (1, 1)


async def test_a_drain_of_nothing_does_nothing(storage: Storage):
    await storage.drain()
    assert storage.memory.paths == []


async def test_a_drain_without_space_says_so(storage: Storage):
    storage.disk.set_space(0)
    storage.append()
    with pytest.raises(NoSpace):
        await storage.drain()
    assert storage.lane.written == 0


async def test_a_drain_that_fails_fails_the_lane(storage: Storage):
    storage.disk.fail("sync", error=errno.EIO)
    storage.append()
    with pytest.raises(StoreFailure):
        await storage.drain()
    assert storage.lane.failed is not None
    assert storage.lane.synced == 0
