"""The tasks that drive a lane: a loop that writes and one that syncs, each with its batches in worker threads.

Both wait until the lane has a batch to take, take it, run it, and tell the lane and the caller's ``progressed``. A
batch that finds no space stays out and is run again until space comes back; meanwhile what is written goes on being
synced, and files on being removed. Any other failure stops both loops and is raised: nothing is confirmed any more, and
the process ends.

A cancelled loop lets the batch in its worker finish first. A batch that it had taken and not begun stays out, and the
lane keeps it for :func:`drain`.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from math import inf

import trio

from core.clock import Now
from core.server.pump import TURN_SECONDS_MAX
from core.store.disk import Disk
from core.store.errors import NoSpace, StoreFailure
from core.store.lane import Lane, SyncBatch, WriteBatch

LATE_WRITE_SECONDS = 0.02
"""How long late writers wait for other records, to share a batch with them. If the broker crashes meanwhile, what these
writers settled is delivered again; waiting saves a batch, and a worker's 0.1 ms, for each of them."""

INLINE_SECONDS_MAX = 0.002
"""A write into the page cache is a copy: 20 us for 64 KiB. One that takes longer has met a disk that is behind."""
INLINE_SHARE_MAX = 0.01
"""The largest share of the time that slow writes may take from the event loop: after a slow write, all writes go to the
worker until the share is met. A slow disk stays slow for a while. After a write that was slow because a sync held it
up, only writes beside syncs go to the worker. A write that was slow because another process had the processor does not
count, where the operating system tells that: beside busy processes a tenth of the batches, and for seconds all of them,
went to the worker."""
INLINE_NEW_FILES_MAX = 8
"""The most new files in a batch that is written inline: a file and its folder take 0.1 to 0.2 ms, and up to 2 ms where
the file system has no journal and thousands of files were just removed. First messages of 200 queues came in one batch
that took 27 ms."""
GATHERING_PASSES_MAX = 5
"""How often sockets are read between two syncs: messages that publishers send after the first sync is confirmed go with
the second. A publisher that may have 170 messages under way sends them in two or three parts."""
GATHERING_SECONDS, GATHERING_MORE_SECONDS = 0.00015, 0.00002
"""How long the first of these passes and each further one waits for bytes at the most; the kernel adds 0.05 ms. A
publisher needs 0.1 ms and more to take its confirms and to send again, and little between two parts. Waiting in one
system call takes 6 % less CPU time for a message than idle rounds of the event loop, which found out in as long a time
whether there were bytes. With 0.12 ms for each pass a quorum queue takes 5 % fewer messages; with no wait for the
further ones it takes as many, for 1 to 3 % more CPU time."""
GATHERED_LITTLE = 24
"""A pass that was less work than this, in units of :mod:`core.work`, has read no message, which is about 32: publishers
that send each message alone have not begun to send. The next pass then waits all of its time, so that more come
together: 7 % less CPU time for a message. With 256, so that passes with a few messages count too, bulk publishers were
delayed: 10 % fewer messages a second."""
IDLE_MARK_SECONDS = 0.5
"""How long the mark of a sync waits for records to be written with. Longer than the pauses of a busy lane."""

RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a blocking function in another thread and raises what it raises. A function that has begun runs to its end, also
when its caller is cancelled."""


class InlineWrites:
    """Writes of one lane within the server's turn, as long as they are small and quick.

    Handing a batch to a worker and back takes 60 us and more, several times as long as such a write; and what is
    written within the turn is confirmed in it. Records that an answer waits for are written whatever their size and
    however slow the last write was, unless a batch is out. Syncs never happen here.
    """

    def __init__(
        self,
        lane: Lane,
        disk: Disk,
        *,
        clock: Callable[[], Now],
        bytes_max: int,
        once_per_sync: bool = False,
        waits: Callable[[], int] | None = None,
    ) -> None:
        """``bytes_max`` is the largest batch written here; 0 turns inline writes off. ``once_per_sync``: while
        answers wait for a sync, none waits for a write of this lane, so one write takes what comes between two syncs.

        ``waits``: how often this thread has waited so far, as for a disk. A slow write within which it has not waited
        had lost the processor to another process, and says nothing of the disk. None where that is not known.
        """
        self._lane = lane
        self._disk = disk
        self._clock = clock
        self._bytes_max = bytes_max
        self._waits = waits
        self._paused_until = -inf
        self._paused_beside_syncs_until = -inf
        self.once_per_sync = once_per_sync
        self.gathering = False
        """Whether publishers that a sync has confirmed are sending what goes with the next one."""
        self.wake_writer: Callable[[], None] = lambda: None
        """Wakes the lane's own task, for what is left to it. That task sets it."""

    @property
    def possible(self) -> bool:
        """Whether the next turn will write what is staged."""
        until = self._paused_until if self._lane.syncing is None else self._paused_beside_syncs_until
        if until == -inf:
            return self._bytes_max > 0
        return self._clock().monotonic >= until

    def write(self) -> bool:
        """Write what is staged, if that is allowed now. True when something was written. Raises StoreFailure."""
        lane = self._lane
        wanted = lane.write_wanted and self._bytes_max > 0
        if not (lane.has_records or wanted) or lane.writing is not None or lane.failed is not None:
            return False
        if not wanted:
            gathers = self.gathering and lane.staged_bytes <= self._bytes_max // 2  # one more read may bring as much
            if lane.sync_wanted and (gathers or lane.syncing is not None):
                return False  # an earlier write gains nothing: what is staged is written before the next sync
            large = lane.staged_bytes > self._bytes_max or lane.new_files > INLINE_NEW_FILES_MAX
            if large or not self.possible:
                self.wake_writer()
                return False
        batch = lane.take_write(in_turn=True)
        if batch is None:
            return False
        waits_before = self._waits() if self._waits is not None else 0
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
        if took > INLINE_SECONDS_MAX and (self._waits is None or self._waits() != waits_before):
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
    read_within: Callable[[float, bool], int],
    inline: InlineWrites | None = None,
) -> None:
    """Write and sync what is staged, until cancelled. Raises StoreFailure.

    With ``inline``, batches that it takes are written in the turn; this task writes the others.

    ``read_within`` is :meth:`core.server.reader.Reader.read_within`.

    ``clock`` reads Trio's time. ``progressed`` is called whenever the lane's positions may have grown; it confirms and
    takes a turn. ``no_space`` is called with True when a write finds no space, and with False when it has succeeded
    after all; between them the write is tried again every ``retry_s`` seconds.
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
        nursery.start_soon(until_failure, partial(_sync_always, worker, sync_wake, read_within, inline))
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

    Raises StoreFailure, or NoSpace; after NoSpace, what is not written was not confirmed either.
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
    """A notification for one waiting task. A call that comes before the task waits is not lost."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self.deadline = inf
        """When the waiting task wakes up without a call; infinity while no task waits."""

    def call(self) -> None:
        self._event.set()

    async def wait_until(self, deadline: float) -> None:
        """Return when :meth:`call` was called since the last return, or at the deadline."""
        self.deadline = deadline
        with trio.move_on_at(deadline):
            await self._event.wait()
        self.deadline = inf
        self._event = trio.Event()


class _Worker:
    """Runs the batches of a lane and reports what they have done to the lane and to ``progressed``."""

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
        """The time in monotonic seconds."""
        return self._clock().monotonic

    async def write(self, batch: WriteBatch) -> None:
        """Write a batch. Raises StoreFailure, or NoSpace: then the batch is still out."""
        began = self.now()
        await self._run_blocking(partial(batch.run, self._disk))
        self.lane.wrote(batch, self.now() - began)
        self._tell()

    async def sync(self, batch: SyncBatch) -> None:
        """Sync a batch. Raises StoreFailure."""
        began = self.now()
        await self._run_blocking(partial(batch.run, self._disk))
        self.lane.did_sync(batch, self.now() - began)
        self._tell()

    def _tell(self) -> None:
        if self.lane.failed is None:
            self._progressed()

    async def write_once(self) -> bool:
        """Write the batch that is out, or what is staged. False when there is nothing."""
        batch = self.lane.writing or self.lane.take_write()
        if batch is not None:
            await self.write(batch)
        return batch is not None

    async def sync_once(self) -> bool:
        """Run the sync that is out, or sync what is written, wanted or not. False when there is nothing."""
        self.lane.want_sync()
        batch = self.lane.syncing or self.lane.take_sync(self.now())
        if batch is not None:
            await self.sync(batch)
        return batch is not None

    async def write_mark(self) -> None:
        """Write a mark that says how far the lane was synced, if one is due."""
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
    """Wait for something to write. A mark waits for records to be written with. Without any it is written after a
    while, so that a start recognises damage to the last synced records as damage."""
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


async def _sync_always(
    worker: _Worker, wake: _WakeUp, read_within: Callable[[float, bool], int], inline: InlineWrites | None
) -> None:
    lane = worker.lane
    while True:
        now = worker.now()
        batch = lane.syncing or lane.take_sync(now)
        if batch is None:
            due = lane.sync_due(now)
            await wake.wait_until(inf if due is None else due)
            continue
        if inline is None or not inline.once_per_sync:
            await worker.sync(batch)
            await _gather(worker, read_within)
            continue
        inline.gathering = True
        try:
            await worker.sync(batch)
            await _gather(worker, read_within)
        finally:
            inline.gathering = False
        inline.write()


async def _gather(worker: _Worker, read_within: Callable[[float, bool], int]) -> None:
    """Let publishers that were just confirmed send what goes with the next sync."""
    await trio.lowlevel.checkpoint_if_cancelled()
    until = worker.now() + TURN_SECONDS_MAX
    seconds, whole = GATHERING_SECONDS, False
    for _ in range(GATHERING_PASSES_MAX):
        work = read_within(seconds, whole)
        if not work or worker.now() > until:
            break
        seconds, whole = GATHERING_MORE_SECONDS, work < GATHERED_LITTLE
    await trio.lowlevel.checkpoint()
