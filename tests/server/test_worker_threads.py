"""Threads for the blocking calls of lanes: what they raise, in which order they run, and when they end."""

import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import trio

from core.server.worker_threads import WorkerThreads

WAIT_S = 5.0
"""A pause for other threads, which need microseconds."""


def lane_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "lane"}


@pytest.fixture
def long_turns() -> Iterator[None]:
    """Make the interpreter's switch interval so long that a thread gives way only when it waits."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(WAIT_S)
    yield
    sys.setswitchinterval(before)


def fail() -> None:
    raise OSError("no disk")


async def test_a_call_runs_in_a_thread_and_raises_in_its_caller():
    run, where = WorkerThreads(), []
    await run(lambda: where.append(threading.current_thread()))
    assert where[0] is not threading.main_thread()
    with pytest.raises(OSError, match="no disk"):
        await run(fail)


class Steps(trio.abc.Instrument):
    """Runs a callback after each step of a task."""

    def __init__(self, look: Callable[[], object]) -> None:
        self.seen: list[object] = []
        self._look = look

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.seen.append(self._look())


async def test_the_work_has_begun_when_the_loop_goes_on(long_turns: None):
    run, began = WorkerThreads(begin_s=WAIT_S), []
    await run(lambda: None)  # the thread exists
    steps = Steps(lambda: len(began))
    trio.lowlevel.add_instrument(steps)
    await run(lambda: began.append(True))
    trio.lowlevel.remove_instrument(steps)
    assert steps.seen[0] == 1


async def test_a_thread_that_begins_late_is_not_waited_for():
    run, where = WorkerThreads(begin_s=0.0), []
    for _ in range(10):
        await run(lambda: where.append(threading.current_thread()))
    assert len(where) == 10
    with pytest.raises(OSError, match="no disk"):
        await run(fail)


async def test_one_thread_serves_calls_that_follow_each_other():
    run, where = WorkerThreads(), []
    for _ in range(10):
        await run(lambda: where.append(threading.current_thread()))
    assert len(set(where)) == 1


async def test_callers_do_not_wait_for_each_other():
    run, both = WorkerThreads(), threading.Barrier(2, timeout=WAIT_S)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, both.wait)
        nursery.start_soon(run, both.wait)
    assert not both.broken


async def test_a_cancelled_call_waits_until_work_that_has_begun_is_over():
    run, begun, may_end, ended = WorkerThreads(), threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        may_end.wait(WAIT_S)
        ended.append(True)

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, work)
            await trio.to_thread.run_sync(begun.wait, WAIT_S)
            scope.cancel()
            may_end.set()
    assert ended == [True]


async def test_a_call_that_is_cancelled_before_begins_nothing():
    run, begun = WorkerThreads(), []
    with trio.CancelScope() as scope:
        scope.cancel()
        await run(lambda: begun.append(True))
    assert begun == []


async def test_a_thread_without_work_ends_and_the_next_call_has_another():
    before = lane_threads()
    run = WorkerThreads(idle_s=0.001)
    where: list[threading.Thread] = []
    await run(lambda: where.append(threading.current_thread()))
    await trio.to_thread.run_sync(where[0].join, WAIT_S)
    assert not where[0].is_alive()
    for _ in range(200):  # some of them come while the thread is about to end
        await run(lambda: where.append(threading.current_thread()))
    assert len(where) == 201
    for thread in lane_threads() - before:
        await trio.to_thread.run_sync(thread.join, WAIT_S)
    assert lane_threads() <= before
