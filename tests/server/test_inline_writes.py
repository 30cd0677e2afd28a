"""Writes within the turn: small batches are written at once; large ones, and those after a slow write, are left to the
lane's task."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from core.clock import Now
from core.server.storage_task import INLINE_NEW_FILES_MAX, INLINE_SECONDS_MAX, INLINE_SHARE_MAX, InlineWrites, run_lane
from core.store.errors import StoreFailure
from core.store.lane import Lane
from core.store.record import RecordKind, record_bytes
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk

PATH = "queues/1/0/0.idx"
BYTES_MAX = 1000


@dataclass
class Turn:
    """A lane, a disk and a clock that the disk moves."""

    bytes_max: int = BYTES_MAX
    waits: Callable[[], int] | None = None
    now: float = 100.0
    write_seconds: float = 0.0
    woken: int = 0
    end: int = 0
    disk: FaultyDisk = field(default_factory=lambda: FaultyDisk(MemoryDisk()))

    def __post_init__(self) -> None:
        self.lane = Lane("classic", generation=1, sync_interval_s=0.2)
        self.inline = InlineWrites(
            self.lane, self.disk, clock=self.read_clock, bytes_max=self.bytes_max, waits=self.waits
        )
        self.inline.wake_writer = self.wake
        self.disk.delay = self.delay

    def read_clock(self) -> Now:
        return Now(self.now, 0.0)

    def delay(self, operation: str, path: str) -> None:
        if operation == "write":
            self.now += self.write_seconds

    def wake(self) -> None:
        self.woken += 1

    def stage(self, body: bytes = b"x" * 100) -> int:
        position = self.lane.append(PATH, self.end, RecordKind.PUBLISH, [body])
        self.end += record_bytes(len(body))
        return position


def test_a_batch_that_begins_many_files_is_left_to_the_worker() -> None:
    turn = Turn(bytes_max=10**6)
    for number in range(INLINE_NEW_FILES_MAX + 1):
        turn.lane.append(f"queues/{number}/0/0.idx", 0, RecordKind.PUBLISH, [b"x"])
    assert not turn.inline.write()
    assert turn.woken == 1
    batch = turn.lane.take_write()
    assert batch is not None
    batch.run(turn.disk)
    turn.lane.wrote(batch)
    for number in range(INLINE_NEW_FILES_MAX + 1):
        turn.lane.append(f"queues/{number}/0/0.idx", record_bytes(1), RecordKind.PUBLISH, [b"x"])
    assert turn.inline.write(), "files that are there take less time"


def test_a_small_batch_is_written_in_the_turn() -> None:
    turn = Turn()
    position = turn.stage()
    assert turn.inline.write()
    assert turn.lane.written == position
    assert turn.disk.size(PATH) == turn.end
    assert (turn.woken, turn.inline.write()) == (0, False)


def test_nothing_is_written_when_it_is_turned_off() -> None:
    turn = Turn(bytes_max=0)
    turn.stage()
    assert not turn.inline.possible
    assert not turn.inline.write()
    assert (turn.lane.written, turn.woken) == (0, 1)


def test_a_large_batch_is_left_to_the_task() -> None:
    turn = Turn()
    turn.stage(b"x" * BYTES_MAX)
    assert not turn.inline.write()
    assert (turn.lane.written, turn.woken) == (0, 1)


@pytest.mark.parametrize("write_seconds", [2 * INLINE_SECONDS_MAX, 500 * INLINE_SECONDS_MAX])
def test_after_a_slow_write_all_are_left_to_the_task_until_it_was_a_small_share_of_the_time(
    write_seconds: float,
) -> None:
    turn = Turn(write_seconds=write_seconds)
    began = turn.now
    turn.stage()
    assert turn.inline.write()
    turn.stage()
    turn.now = began + 0.99 * write_seconds / INLINE_SHARE_MAX
    assert not turn.inline.possible
    assert not turn.inline.write()
    assert turn.woken == 1
    turn.now = began + 1.01 * write_seconds / INLINE_SHARE_MAX
    assert turn.inline.write()


@pytest.mark.parametrize(("waits_in_write", "possible"), [(0, True), (1, False)])
def test_a_write_that_was_slow_for_want_of_a_processor_says_nothing_of_the_disk(
    waits_in_write: int, possible: bool
) -> None:
    waits = count(7, waits_in_write)
    turn = Turn(waits=lambda: next(waits), write_seconds=2 * INLINE_SECONDS_MAX)
    turn.stage()
    assert turn.inline.write()
    assert turn.inline.possible is possible


def test_after_a_slow_write_beside_a_sync_those_beside_syncs_are_left_to_the_task() -> None:
    turn = Turn()
    turn.stage()
    assert turn.inline.write()
    sync = turn.lane.take_sync(turn.now + 1.0)
    assert sync is not None
    turn.stage()
    began, turn.write_seconds = turn.now, 2 * INLINE_SECONDS_MAX
    assert turn.inline.write()
    turn.write_seconds = 0.0
    turn.stage()
    assert not turn.inline.possible
    assert not turn.inline.write()
    assert turn.woken == 1
    sync.run(turn.disk)
    turn.lane.did_sync(sync)
    assert turn.inline.possible
    assert turn.inline.write()
    sync = turn.lane.take_sync(turn.now + 2.0)
    assert sync is not None
    turn.stage()
    assert not turn.inline.write()
    turn.now = began + 1.01 * 2 * INLINE_SECONDS_MAX / INLINE_SHARE_MAX
    assert turn.inline.write()


def test_a_batch_that_is_out_is_not_disturbed() -> None:
    turn = Turn()
    turn.stage()
    batch = turn.lane.take_write()
    turn.stage()
    assert not turn.inline.write()
    assert turn.lane.writing is batch


def test_a_batch_without_space_stays_out_for_the_task_to_try_again() -> None:
    turn = Turn()
    turn.disk.set_space(0)
    turn.stage()
    assert not turn.inline.write()
    assert turn.lane.writing is not None
    assert (turn.lane.written, turn.woken) == (0, 1)


def test_a_write_that_fails_ends_the_lane() -> None:
    turn = Turn()
    turn.disk.fail("write", error=errno.EIO)
    turn.stage()
    with pytest.raises(StoreFailure):
        turn.inline.write()
    assert turn.lane.failed is not None
    assert turn.lane.written == 0
    assert not turn.inline.write()


def test_a_write_waits_for_the_sync_that_is_out_when_it_needs_one_itself() -> None:
    turn = Turn()
    turn.stage()
    turn.lane.want_sync()
    assert turn.inline.write()
    sync = turn.lane.take_sync(turn.now)
    assert sync is not None
    position = turn.stage()
    turn.lane.want_sync()
    assert not turn.inline.write()
    sync.run(turn.disk)
    turn.lane.did_sync(sync)
    assert turn.inline.write()
    assert turn.lane.written == position


def test_a_write_waits_while_more_comes_for_the_next_sync_until_it_would_become_large() -> None:
    turn = Turn()
    turn.inline.gathering = True
    turn.stage()
    assert turn.inline.write(), "nothing waits for a sync"
    turn.stage()
    turn.lane.want_sync()
    assert not turn.inline.write()
    position = turn.stage(b"x" * (BYTES_MAX // 2))
    assert turn.inline.write()
    assert (turn.lane.written, turn.woken) == (position, 0)
    turn.stage()
    turn.lane.want_sync()
    turn.lane.want_written()
    assert turn.inline.write()


async def at_once(work: Callable[[], None]) -> None:
    await trio.lowlevel.checkpoint()
    work()


@pytest.mark.parametrize(("once_per_sync", "batches"), [(False, 4), (True, 2)])
async def test_one_write_takes_what_comes_between_two_syncs_where_only_these_are_answered(
    nursery: trio.Nursery, mock_clock: MockClock, *, once_per_sync: bool, batches: int
) -> None:
    turn, reads = Turn(), iter([1, 1, 1])
    lane, turn.inline.once_per_sync = turn.lane, once_per_sync

    def publish() -> None:
        turn.stage()
        lane.want_sync()
        turn.inline.write()

    def read_within(seconds: float, whole: bool) -> int:
        work = next(reads, 0)
        if work:
            publish()
        return work

    run = partial(run_lane, run_blocking=at_once, progressed=lambda: None, no_space=lambda waiting: None, retry_s=1.0)
    nursery.start_soon(
        partial(run, lane, turn.disk, clock=turn.read_clock, read_within=read_within, inline=turn.inline)
    )
    await wait_all_tasks_blocked()
    publish()
    await wait_all_tasks_blocked()
    assert (lane.batches, lane.syncs, lane.synced) == (batches, 2, 4)


def test_what_an_answer_is_to_say_is_written_however_large_or_slow_and_beside_any_sync() -> None:
    turn = Turn(write_seconds=500 * INLINE_SECONDS_MAX)
    turn.stage()
    turn.lane.want_sync()
    assert turn.inline.write()
    sync = turn.lane.take_sync(turn.now)
    assert sync is not None
    turn.lane.want_sync()
    position = turn.stage(b"x" * BYTES_MAX)
    turn.lane.want_sync()
    assert not turn.inline.write()
    turn.lane.want_written()
    assert turn.inline.write()
    assert turn.lane.written == position
    assert not turn.lane.write_wanted


@dataclass(eq=False)
class Late:
    """A late writer with records to write when a batch is taken."""

    turn: Turn

    def write_late(self) -> None:
        """See :class:`core.store.lane.LateWriter`."""
        self.turn.stage()


def test_what_late_writers_have_does_not_wait_for_records_then() -> None:
    turn = Turn()
    turn.lane.later(Late(turn))
    assert not turn.inline.write()
    turn.lane.want_written()
    assert turn.inline.write()
    assert turn.lane.written == 1
