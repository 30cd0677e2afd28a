"""What waits for bytes on the sockets of all connections, and has each of them read.

On Linux one task waits for all sockets, on an epoll of its own in which a socket stays registered. Trio's way is a task
for each socket, which it registers anew for each wait; a message with a wake-up of its own takes 21 us with the former
and 34 us with the latter, in a server that only echoes. Where there is no epoll, Trio's way is used.

docs/design/reading-sockets.md is the design.
"""

import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Protocol

import trio

from core.clock import Now
from core.server.other_tasks import QUIET_MIN, OtherTasks, trios_epoll
from core.server.pump import ALLOWANCE_MIN, TURN_SECONDS_MAX, Pump, share_of_each
from core.work import Work

WAIT_SECONDS_MAX = 60.0
"""The longest wait at once; for nothing in particular, as no event is missed."""
READS_MAX = 256
"""The most sockets that a pass reads. So many may do :data:`core.server.pump.ALLOWANCE_MIN` units of work each. Most do
not: a peer that has sent much is only read then, in 25 us (:data:`core.server.pump.LITTLE_BYTES`), 6 ms in all."""

BESIDE_THREADS_SECONDS = 0.02
"""How long the reader does not wait by itself after it has seen a thread at work. A lane that is busy with syncs hands
one to a thread every 1 to 10 ms, and each change between the two ways of waiting costs a round of the event loop: 4 %
of a quorum queue's CPU time."""
PAUSE_SECONDS = 0.00005
"""How long a pass waits that follows at once on one with little to do; twice as long with what the kernel adds. A
message of go-amqp, which sends and settles each alone, then costs a tenth less CPU, and as many come through."""
AT_ONCE_SECONDS = 0.00005
"""A wait that is over so soon found sockets that were ready already."""
FEW_BYTES = 256
"""A pass that read less found fewer than ten dispositions or five messages: they came alone, and the next one may wait
for nothing. It gets no pause."""
LITTLE_WORK = 200
"""A pass with more work, in units of :mod:`core.work`, had about 100 messages or more, and needs no pause."""
SELECTABLE = 1024
"""``select`` takes descriptors below this number."""

Read = Callable[[Now], bool]
"""Reads once from a socket that may have bytes, without blocking. Returns whether the socket is watched any longer; it
returns False when the socket is closed. Raises nothing."""


class Reader(Protocol):
    """Watches sockets. A socket is watched at most once."""

    def watch(self, descriptor: int, read: Read) -> None:
        """Call ``read`` whenever the socket has bytes, is closed by its peer, or has failed, until ``read`` returns
        False."""

    def forget(self, descriptor: int) -> None:
        """Watch this socket no longer, if it is watched. Called before a socket is closed."""

    async def run(self) -> None:
        """Watch until cancelled."""

    def read_within(self, seconds: float, whole: bool) -> int:
        """Block the event loop until a socket has bytes, for so many seconds at the most, and read; with ``whole`` for
        all of that time, so that more bytes come together. For far less than a millisecond.

        Returns the work that the read and the turn behind it were, in units of :mod:`core.work`, at least 1; 0 if no
        socket had bytes, and after :meth:`close`."""

    def close(self) -> None:
        """Release what the operating system has lent."""


class EpollReader:
    """One task for all sockets, and one turn for all that a pass has read."""

    def __init__(
        self,
        *,
        clock: Callable[[], Now],
        pump: Pump,
        work: Work,
        waits_itself: bool = False,
        thread_at_work: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``waits_itself``: the task waits for sockets by itself, and not by Trio, while no other task can run and
        ``thread_at_work`` has not said for a while that a thread is about to wake one. This needs a clock of real
        time. ``sleep`` blocks for so many seconds."""
        self._waits_itself = waits_itself
        self._thread_at_work = thread_at_work
        self._sleep = sleep
        self._clock = clock
        self._pump = pump
        self._work = work
        self._epoll = select.epoll()
        self._epolls = [self._epoll]
        """Those in which each socket is registered: this one, and while the task waits by itself the one in which it
        does."""
        pump.read_first = lambda: self._read(clock())
        self._reads: dict[int, Read] = {}

    def watch(self, descriptor: int, read: Read) -> None:
        """See :class:`Reader`."""
        for epoll in self._epolls:
            epoll.register(descriptor, select.EPOLLIN)
        self._reads[descriptor] = read

    def forget(self, descriptor: int) -> None:
        """See :class:`Reader`."""
        if self._reads.pop(descriptor, None) is not None:
            for epoll in self._epolls:
                epoll.unregister(descriptor)

    def close(self) -> None:
        """See :class:`Reader`."""
        self._pump.read_first = lambda: None
        self._epoll.close()

    async def run(self) -> None:
        """See :class:`Reader`."""
        descriptor = await trios_epoll() if self._waits_itself else None
        if descriptor is None:
            while not self._epoll.closed:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                self.read_ready()
            return
        others = OtherTasks(trio.lowlevel.current_task())
        others.heed()
        try:
            with select.epoll() as both:
                for watched in (descriptor, *self._reads):
                    both.register(watched, select.EPOLLIN)
                self._epolls.append(both)
                await self._run_beside(others, both, descriptor)
        finally:
            del self._epolls[1:]
            others.ignore()

    async def _run_beside(self, others: OtherTasks, both: select.epoll, trios: int) -> None:
        """Make passes; wait in ``both``, for all sockets and for Trio's epoll, where no other task can run.

        While a thread is at work for a task, the next wake-up is likely to be that task's, by Trio's epoll. Then a wait
        in ``both`` would be one more system call.
        """
        trio_alone_until = -inf
        while not self._epoll.closed:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            quiet = others.look() if trio_alone_until == -inf else 0
            now = self.read_ready().monotonic
            if now < trio_alone_until:
                continue
            if self._thread_at_work():
                trio_alone_until = now + BESIDE_THREADS_SECONDS
                others.ignore()
            elif trio_alone_until != -inf:
                trio_alone_until = -inf
                others.heed()
            elif quiet and not others.became_ready:
                await trio.lowlevel.checkpoint()
                if others.look() >= QUIET_MIN:
                    self._wait_in(both, others, (trios, select.EPOLLIN))

    def _wait_in(self, both: select.epoll, others: OtherTasks, trio_has_something: tuple[int, int]) -> None:
        """Make passes until Trio's epoll is readable, a deadline has come, or a pass has woken a task.

        The wait tells which sockets are ready, so a message that comes alone costs one system call on an epoll. Where
        it tells as many as a pass reads, Trio's epoll may be behind them. Where a pass has found a few frames at
        once, and they were little work, the next one begins after a pause, so that it finds more.
        """
        at = ended = self._clock().monotonic
        deadline = at + trio.lowlevel.current_statistics().seconds_to_next_deadline
        work, pause = self._work, False
        while at < deadline and not others.became_ready:
            if pause:
                self._sleep(PAUSE_SECONDS)
            ready = both.poll(min(deadline - at, WAIT_SECONDS_MAX), READS_MAX)
            if not ready or trio_has_something in ready:
                return
            began, spent, read = self._clock(), work.spent, work.bytes_read
            at = self.read_ready(ready, began).monotonic
            if len(ready) == READS_MAX:
                return
            # behind a pause sockets are always ready, which says nothing
            at_once = not pause and began.monotonic - ended < AT_ONCE_SECONDS
            pause = at_once and work.bytes_read - read >= FEW_BYTES and work.spent - spent < LITTLE_WORK
            ended = self._clock().monotonic

    def read_within(self, seconds: float, whole: bool) -> int:
        """See :class:`Reader`."""
        if self._epoll.closed:  # a lane finishes its sync while the broker stops
            return 0
        descriptor = self._epoll.fileno()
        if whole or descriptor >= SELECTABLE:
            self._sleep(seconds)
        elif not select.select((descriptor,), (), (), seconds)[0]:  # an epoll waits for whole milliseconds
            return 0
        ready = self._epoll.poll(0, READS_MAX)
        if not ready:
            return 0
        before = self._work.spent
        self.read_ready(ready)
        return max(1, self._work.spent - before)

    def read_ready(self, ready: Sequence[tuple[int, int]] | None = None, began: Now | None = None) -> Now:
        """Make one pass: read once from each socket that is ready, and take a turn for all. Returns the time before the
        turn. ``ready`` are descriptors with their events; None to ask which there are. ``began`` is the time, if it is
        known.

        Sockets that are left over come first in the next pass: the kernel moves each one that it has reported behind
        the others.
        """
        began = began or self._clock()
        now = self._read(began, ready)
        self._pump.turn(now, began=began.monotonic)
        return now

    def _read(self, now: Now, ready: Sequence[tuple[int, int]] | None = None) -> Now:
        """Read once from each socket that is ready. Peers may do little only when this has taken long. Returns the time
        of the last read."""
        ample_until = now.monotonic + TURN_SECONDS_MAX
        if ready is None:  # closed: the broker stops in the round of the event loop in which a socket became ready
            ready = () if self._epoll.closed else self._epoll.poll(0, READS_MAX)
        self._work.allowance = share_of_each(len(ready))
        for number, (descriptor, _) in enumerate(ready):
            read = self._reads.get(descriptor)
            if read is None:
                continue  # closed in this pass, by the read of another connection
            if number:
                now = self._clock()
                if now.monotonic > ample_until:
                    self._work.allowance = ALLOWANCE_MIN
            if not read(now):
                self.forget(descriptor)
        return now


class TaskReader:
    """A task for each watched socket, and one turn for all that wake up in one round of the event loop."""

    def __init__(self, *, clock: Callable[[], Now], pump: Pump, nursery: trio.Nursery) -> None:
        self._clock = clock
        self._pump = pump
        self._nursery = nursery

    def watch(self, descriptor: int, read: Read) -> None:
        """See :class:`Reader`."""
        self._nursery.start_soon(self._watch, descriptor, read)

    async def _watch(self, descriptor: int, read: Read) -> None:
        with suppress(trio.ClosedResourceError):
            going_on = True
            while going_on:
                await trio.lowlevel.wait_readable(descriptor)
                now = self._clock()
                going_on = read(now)
                self._pump.turn_soon(now)

    def forget(self, descriptor: int) -> None:
        """See :class:`Reader`."""
        trio.lowlevel.notify_closing(descriptor)

    async def run(self) -> None:
        """See :class:`Reader`. The sockets have tasks of their own."""
        await trio.sleep_forever()

    def read_within(self, seconds: float, whole: bool) -> int:
        """See :class:`Reader`. The tasks read, after this."""
        time.sleep(seconds)
        return 0

    def close(self) -> None:
        """See :class:`Reader`."""


MakeReader = Callable[[Callable[[], Now], Pump, Work, trio.Nursery], Reader]
"""Makes a reader. The clock's time is Trio's; ``work`` is what front ends ask for their allowance; tasks of the reader
run in the nursery."""


def open_reader(clock: Callable[[], Now], pump: Pump, work: Work, nursery: trio.Nursery) -> Reader:
    """Return the reader for this platform."""
    if hasattr(select, "epoll"):
        return EpollReader(clock=clock, pump=pump, work=work)
    return task_reader(clock, pump, work, nursery)


def own_waiting_reader(
    thread_at_work: Callable[[], bool] = lambda: False, *, sleep: Callable[[float], None] = time.sleep
) -> MakeReader:
    """Return what makes the reader for this platform that waits by itself, if there is one, except while a thread is at
    work. The clock must tell real time."""

    def make(clock: Callable[[], Now], pump: Pump, work: Work, nursery: trio.Nursery) -> Reader:
        return EpollReader(
            clock=clock, pump=pump, work=work, waits_itself=True, thread_at_work=thread_at_work, sleep=sleep
        )

    return make if hasattr(select, "epoll") else task_reader


def task_reader(clock: Callable[[], Now], pump: Pump, work: Work, nursery: trio.Nursery) -> Reader:
    """Return the reader that every platform has."""
    return TaskReader(clock=clock, pump=pump, nursery=nursery)
