"""What drives a lane: a loop that writes and one that syncs, each with its batches in worker threads.

Both wait for the lane to say that something may be taken, take it, run it, and tell the lane and whoever confirms. A
batch that finds no space stays out and is run again until space comes back; meanwhile what is written goes on being
synced, and files on being removed. Any other failure stops both loops and is raised: nothing is confirmed any more,
and the process ends.

A cancelled loop lets the batch in its worker finish first. A batch that it had taken and not begun stays out, and the
lane keeps it for :func:`drain`.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from math import inf

import trio

from core.clock import Now
from core.store.disk import Disk
from core.store.errors import NoSpace, StoreFailure
from core.store.lane import Lane, SyncBatch, WriteBatch

LATE_WRITE_SECONDS = 0.02
"""How long late writers wait for records to go with. A crash makes these answers repeated deliveries; waiting saves a
batch, and a worker's 0.1 ms, for each of them."""

INLINE_SECONDS_MAX = 0.002
"""A write into the page cache is a copy: 20 us for 64 KiB. One that takes longer has met a disk that is behind."""
INLINE_SHARE_MAX = 0.01
"""Of the time that slow writes may take from everybody: after one, all go to the worker for as long as that needs. A
disk that is behind stays so for a while, and a loop that lost its turn to another process for 2 ms writes by itself
again after 0.2 s. After one that was slow beside a sync, which held it up, those beside syncs go to the worker."""
GATHERING_TURNS = 8
"""Turns of the event loop between two syncs: what publishers send when they hear of the first goes with the second. It
is no timer: a loop with nothing to do takes 0.1 ms for them. A quorum queue took 143,000 messages a second with 4,
152,000 to 158,000 with 6, 160,000 with 8, and no more with 12."""
IDLE_TURN_SECONDS = 0.00004
"""A turn of the event loop with nothing to do takes 6 to 15 us; one that reads what a publisher has sent, 50 us or
more."""
GATHERING_PAUSE_SECONDS = 0.00005
"""The kernel adds as much. Where some publishers have sent and the others are about to, the loop sleeps once between
two syncs, if nobody else has anything to do: what comes one by one is then read several at a time. The messages of a
quorum queue that come so cost a seventh less CPU time; in bulk it is no gain."""
IDLE_MARK_SECONDS = 0.5
"""How long the mark of a sync waits for records. Longer than the pauses of a lane that works."""

RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a blocking function elsewhere and raises what it raises. Once begun it ends, also when its caller is
cancelled."""


class InlineWrites:
    """Writes of one lane within the server's turn, as long as they are small and quick.

    The way to a worker and back is 60 us and more, several times what such a write takes; and what is written within
    the turn is confirmed with it. What an answer is to say is written whatever its size and however slow the last write
    was, unless a batch is out. Syncs never happen here.
    """

    def __init__(self, lane: Lane, disk: Disk, *, clock: Callable[[], Now], bytes_max: int) -> None:
        """``bytes_max``: of a batch; 0 turns it off."""
        self._lane = lane
        self._disk = disk
        self._clock = clock
        self._bytes_max = bytes_max
        self._paused_until = -inf
        self._paused_beside_syncs_until = -inf
        self.wake_writer: Callable[[], None] = lambda: None
        """Called for what is left to the lane's own task, which sets it."""

    @property
    def possible(self) -> bool:
        """Whether the next turn will look after what is staged."""
        until = self._paused_until if self._lane.syncing is None else self._paused_beside_syncs_until
        if until == -inf:
            return self._bytes_max > 0
        return self._clock().monotonic >= until

    def write(self) -> bool:
        """In the turn. True when something was written. Raises StoreFailure."""
        lane = self._lane
        wanted = lane.write_wanted and self._bytes_max > 0
        if not (lane.has_records or wanted) or lane.writing is not None or lane.failed is not None:
            return False
        if not wanted:
            if lane.sync_wanted and lane.syncing is not None:
                return False  # nothing is gained before that sync has returned; the turn behind it writes what is there
            if lane.staged_bytes > self._bytes_max or not self.possible:
                self.wake_writer()
                return False
        batch = lane.take_write()
        if batch is None:
            return False
        began = self._clock().monotonic
        try:
            batch.run(self._disk)
        except NoSpace:
            self.wake_writer()  # the batch stays out, and the task tries it again
            return False
        except StoreFailure as failure:
            lane.fail(failure)
            raise
        took = self._clock().monotonic - began
        if took > INLINE_SECONDS_MAX:
            self._paused_beside_syncs_until = began + took / INLINE_SHARE_MAX
            if lane.syncing is None:
                self._paused_until = self._paused_beside_syncs_until
        lane.wrote(batch, took)
        return True


async def run_lane(
    lane: Lane,
    disk: Disk,
    *,
    run_blocking: RunBlocking,
    clock: Callable[[], Now],
    progressed: Callable[[], None],
    no_space: Callable[[bool], None],
    retry_s: float,
    pause: Callable[[float], None],
    inline: InlineWrites | None = None,
) -> None:
    """Write and sync what is staged, until cancelled. Raises StoreFailure.

    With ``inline``, what is staged is left to the turn as far as it takes it.

    ``pause`` sleeps for so many seconds, far less than a millisecond, and the loop with it.

    ``clock`` reads Trio's time. ``progressed`` is called whenever the lane's positions may have grown: confirm, and
    take a turn. ``no_space`` is called with True when a write finds no space, and with False when it did after all;
    between them the write is tried again every ``retry_s`` seconds.
    """
    worker = _Worker(lane, disk, run_blocking=run_blocking, clock=clock, progressed=progressed)
    async with trio.open_nursery() as nursery:

        async def until_failure(loop: Callable[[], Awaitable[None]]) -> None:
            try:
                await loop()
            except StoreFailure as failure:
                lane.fail(failure)
                nursery.cancel_scope.cancel()

        write_wake, sync_wake = _WakeUp(), _WakeUp()

        def notify() -> None:
            if lane.writing is None:
                records = lane.has_records and not (inline is not None and inline.possible)
                waiting = lane.has_late_writers or lane.mark_due
                if records or (waiting and write_wake.deadline == inf):
                    write_wake.call()
            if (lane.syncing is None and lane.written > lane.synced) or lane.has_removals:
                due = lane.sync_due(worker.now())
                if due is not None and due < sync_wake.deadline:
                    sync_wake.call()

        lane.notify = notify
        if inline is not None:
            inline.wake_writer = write_wake.call
        nursery.start_soon(until_failure, partial(_write_always, worker, write_wake, no_space, retry_s))
        nursery.start_soon(until_failure, partial(_sync_always, worker, sync_wake, pause))
    if lane.failed is not None:
        raise lane.failed


async def drain(
    lane: Lane,
    disk: Disk,
    *,
    run_blocking: RunBlocking,
    clock: Callable[[], Now],
    progressed: Callable[[], None],
) -> None:
    """Write and sync everything, late writers included: for an orderly stop, when :func:`run_lane` has ended.

    Raises StoreFailure, or NoSpace: then what is not written was not confirmed either.
    """
    if lane.failed is not None:
        raise lane.failed
    worker = _Worker(lane, disk, run_blocking=run_blocking, clock=clock, progressed=progressed)
    try:
        while await worker.write_once() or await worker.sync_once():
            pass
        await worker.write_mark()
    except StoreFailure as failure:
        lane.fail(failure)
        raise


class _WakeUp:
    """A notification to wait for. One that comes while nobody waits is not lost."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self.deadline = inf
        """When who waits here, or comes to wait, looks by itself."""

    def call(self) -> None:
        self._event.set()

    async def wait_until(self, deadline: float) -> None:
        """Return when there was a call since this last returned, or at the deadline."""
        self.deadline = deadline
        with trio.move_on_at(deadline):
            await self._event.wait()
        self.deadline = inf
        self._event = trio.Event()


class _Worker:
    """Runs the batches of a lane and tells everybody."""

    def __init__(
        self,
        lane: Lane,
        disk: Disk,
        *,
        run_blocking: RunBlocking,
        clock: Callable[[], Now],
        progressed: Callable[[], None],
    ) -> None:
        self.lane = lane
        self._disk = disk
        self._run_blocking = run_blocking
        self._clock = clock
        self._progressed = progressed

    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock().monotonic

    async def write(self, batch: WriteBatch) -> None:
        """Raises NoSpace, then the batch is still out, or StoreFailure."""
        began = self.now()
        await self._run_blocking(partial(batch.run, self._disk))
        self.lane.wrote(batch, self.now() - began)
        self._tell()

    async def sync(self, batch: SyncBatch) -> None:
        """Raises StoreFailure."""
        began = self.now()
        await self._run_blocking(partial(batch.run, self._disk))
        self.lane.did_sync(batch, self.now() - began)
        self._tell()

    def _tell(self) -> None:
        if self.lane.failed is None:
            self._progressed()

    async def write_once(self) -> bool:
        """Write what is out or staged. False when there is nothing."""
        batch = self.lane.writing or self.lane.take_write()
        if batch is not None:
            await self.write(batch)
        return batch is not None

    async def sync_once(self) -> bool:
        """Sync what is out or written, wanted or not. False when there is nothing."""
        self.lane.want_sync()
        batch = self.lane.syncing or self.lane.take_sync(self.now())
        if batch is not None:
            await self.sync(batch)
        return batch is not None

    async def write_mark(self) -> None:
        """Note how far the lane was synced, if a mark is due."""
        batch = self.lane.take_mark()
        if batch is not None:
            await self.write(batch)


async def _write_always(worker: _Worker, wake: _WakeUp, no_space: Callable[[bool], None], retry_s: float) -> None:
    lane = worker.lane
    while True:
        batch = lane.writing
        if batch is None:
            await _let_late_writers_wait(worker, wake)
            batch = lane.take_write()
        if batch is None:
            batch = await _mark_when_idle(worker, wake)
        if batch is not None:
            await _write_when_there_is_space(worker, batch, no_space, retry_s)


async def _let_late_writers_wait(worker: _Worker, wake: _WakeUp) -> None:
    lane = worker.lane
    deadline = worker.now() + LATE_WRITE_SECONDS
    while lane.has_late_writers and not (lane.has_records or lane.write_wanted) and worker.now() < deadline:
        await wake.wait_until(deadline)


async def _mark_when_idle(worker: _Worker, wake: _WakeUp) -> WriteBatch | None:
    """Wait for something to write. A mark waits for records to go with; without any it is written after a while, so
    that damage to what was synced last is known as such."""
    lane = worker.lane
    deadline = worker.now() + IDLE_MARK_SECONDS if lane.mark_due else inf
    await wake.wait_until(deadline)
    return lane.take_mark() if worker.now() >= deadline else None


async def _write_when_there_is_space(
    worker: _Worker, batch: WriteBatch, no_space: Callable[[bool], None], retry_s: float
) -> None:
    waiting = False
    while True:
        try:
            await worker.write(batch)
            break
        except NoSpace:
            if not waiting:
                waiting = True
                no_space(True)
            await trio.sleep(retry_s)
    if waiting:
        no_space(False)


async def _sync_always(worker: _Worker, wake: _WakeUp, pause: Callable[[float], None]) -> None:
    lane = worker.lane
    while True:
        now = worker.now()
        batch = lane.syncing or lane.take_sync(now)
        if batch is None:
            due = lane.sync_due(now)
            await wake.wait_until(inf if due is None else due)
            continue
        await worker.sync(batch)
        await _gather(worker, pause)


async def _gather(worker: _Worker, pause: Callable[[float], None]) -> None:
    """Let publishers that were just told of a sync send what goes with the next one."""
    lane = worker.lane
    paused = False
    for _ in range(GATHERING_TURNS):
        began = worker.now()
        await trio.lowlevel.checkpoint()
        idle = worker.now() - began < IDLE_TURN_SECONDS
        if idle and not paused and lane.staged > lane.synced:
            pause(GATHERING_PAUSE_SECONDS)
            paused = True
