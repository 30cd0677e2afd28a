"""Threads that run the blocking calls of one lane.

Trio's own threads would work, and are used for everything else. A lane makes a thousand calls a second and more, with a
publisher waiting for each sync, so the way between the loop and the disk counts. Here it is a queue on the way there
and one call into the loop on the way back, without limiter, context and name. A quorum queue takes 6 % more messages
with it.

The loop blocks until the thread has begun. Otherwise the two compete for the interpreter, and the thread loses: it
began 0.15 ms late under load, and 0.4 ms with many small turns, while the disk was idle. A quorum queue takes 3 to 8 %
more messages with this, and needs a tenth less CPU time for those that come one by one.

A thread that had no work for a while ends; the next call starts another.
"""

import queue
import threading
from collections.abc import Callable

import outcome
import trio

IDLE_SECONDS = 10.0
"""As long as Trio keeps threads: longer than the pauses of a busy lane."""

BEGIN_SECONDS_MAX = 0.001
"""How long the loop waits for a thread to begin: it takes 0.05 ms when a processor is free."""

Job = tuple[Callable[[], None], trio.lowlevel.Task, threading.Lock]
"""The work, the task that waits for it, and a lock that is released when the work begins."""


class WorkerThreads:
    """Runs blocking functions, as many at once as there are callers. Called within Trio's loop."""

    def __init__(self, idle_s: float = IDLE_SECONDS, begin_s: float = BEGIN_SECONDS_MAX) -> None:
        """A thread ends after ``idle_s`` seconds without work. The loop waits up to ``begin_s`` for one to begin."""
        self._idle_s = idle_s
        self._begin_s = begin_s
        self._idle: list[_WorkerThread] = []

    async def __call__(self, work: Callable[[], None]) -> None:
        """Run ``work`` in a thread, and raise what it raises. Once begun it runs to its end, also when the caller is
        cancelled."""
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            thread = self._idle.pop()  # atomic for other threads too: a thread that is not in the list does not end
        except IndexError:
            thread = _WorkerThread(self._idle, self._idle_s, trio.lowlevel.current_trio_token())
        begun = threading.Lock()
        begun.acquire()
        thread.jobs.put((work, trio.lowlevel.current_task(), begun))
        begun.acquire(timeout=self._begin_s)
        try:
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        finally:
            self._idle.append(thread)


class _WorkerThread:
    """One thread. While it has nothing to do it is in ``idle``; before it ends it must take itself out of that list."""

    def __init__(self, idle: "list[_WorkerThread]", idle_s: float, token: trio.lowlevel.TrioToken) -> None:
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._idle = idle
        self._idle_s = idle_s
        self._token = token
        threading.Thread(target=self._serve, name="lane", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                work, task, begun = self.jobs.get(timeout=self._idle_s)
            except queue.Empty:
                try:
                    self._idle.remove(self)
                except ValueError:
                    continue  # taken for a job that is coming
                return
            begun.release()
            result = outcome.capture(work)
            self._token.run_sync_soon(trio.lowlevel.reschedule, task, result)
            del work, task, begun, result  # so that no reference to them lives while the thread waits
