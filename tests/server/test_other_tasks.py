"""A reader that waits by itself: everything that Trio waits for wakes the tasks that wait for it."""

import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from core.clock import Now
from core.server.other_tasks import QUIET_MIN, OtherTasks, trios_epoll
from core.server.reader import (
    AT_ONCE_SECONDS,
    BESIDE_THREADS_SECONDS,
    FEW_BYTES,
    LITTLE_WORK,
    PAUSE_SECONDS,
    READS_MAX,
    MakeReader,
    open_reader,
    own_waiting_reader,
)
from tests.server.test_reader import Field

PATIENCE = 10.0
"""Seconds after which a test fails. Nothing here takes long."""


@pytest.fixture(params=[False, True], ids=["no thread at work", "a thread at work"])
async def field(request: pytest.FixtureRequest, nursery: trio.Nursery) -> AsyncIterator[Field]:
    """A reader whose task has begun to wait, by itself or by Trio."""
    with ExitStack() as stack:
        field = Field(own_waiting_reader(lambda: request.param), nursery, stack)
        nursery.start_soon(field.reader.run)
        watched = field.watch("first")
        await ping(field, watched.other)
        with trio.fail_after(PATIENCE):
            yield field
        nursery.cancel_scope.cancel()
        field.reader.close()


async def ping(field: Field, other: socket.socket) -> None:
    """Send a byte, and wait until the reader has read it."""
    before, read = len(field.diary), trio.Event()
    watched = next(one for one in field.pairs if one.other is other)
    watched.on_read = read.set
    other.send(b"x")
    await read.wait()
    assert len(field.diary) == before + 1


async def test_trios_epoll_is_found_where_the_system_tells_what_an_epoll_watches():
    descriptor = await trios_epoll()
    assert descriptor is not None
    assert descriptor == await trios_epoll()


async def test_sockets_are_read_one_after_the_other(field: Field):
    for name in "ab":
        await ping(field, field.watch(name).other)
    assert field.diary == ["first:x", "a:x", "b:x"]


async def test_a_socket_of_another_task_wakes_it(field: Field):
    ours, theirs = trio.socket.socketpair()
    with ours, theirs:
        assert theirs.fileno() >= 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(theirs.send, b"x")
            assert await ours.recv(1) == b"x"


async def test_a_thread_wakes_the_task_that_waits_for_it(field: Field):
    assert await trio.to_thread.run_sync(lambda: "done") == "done"


async def test_a_deadline_wakes_the_task_that_waits_for_it(field: Field):
    with trio.move_on_after(0.001) as scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_task_that_a_read_wakes_runs_before_the_next_wait(field: Field):
    watched, woken = field.watch("a"), trio.Event()
    watched.on_read = woken.set
    watched.other.send(b"x")
    await woken.wait()
    assert field.diary[-1] == "a:x"


async def test_sockets_that_always_have_bytes_keep_no_task_waiting(field: Field):
    watched = field.watch("busy")
    watched.on_read = lambda: watched.other.send(b"x") and None
    watched.other.send(b"x")
    assert await trio.to_thread.run_sync(lambda: "done") == "done"
    with trio.move_on_after(0.001) as scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught
    for _ in range(100):
        await trio.lowlevel.checkpoint()
    watched.on_read = lambda: None
    assert len(field.diary) > 3


async def test_more_busy_sockets_than_a_pass_reads_keep_no_task_waiting(field: Field):
    crowd = [field.watch(f"busy {number}") for number in range(READS_MAX + 1)]
    for watched in crowd:
        watched.on_read = lambda watched=watched: watched.other.send(b"x") and None
        watched.other.send(b"x")
    assert await trio.to_thread.run_sync(lambda: "done") == "done"
    with trio.move_on_after(0.001) as scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught
    for _ in range(10):
        await trio.lowlevel.checkpoint()
    for watched in crowd:
        watched.on_read = lambda: None
    assert {f"{watched.name}:x" for watched in crowd} <= set(field.diary)
    for watched in crowd:
        field.reader.forget(watched.own.fileno())
    await ping(field, field.pairs[0].other)  # so that the reader waits again when the test ends


async def test_a_socket_that_was_forgotten_and_watched_again_is_read(field: Field):
    watched = field.watch("a")
    await ping(field, watched.other)
    field.reader.forget(watched.own.fileno())
    field.reader.watch(watched.own.fileno(), watched.read)
    await ping(field, watched.other)
    assert field.diary == ["first:x", "a:x", "a:x"]


@pytest.mark.parametrize("make_reader", [open_reader, own_waiting_reader()], ids=["Trio waits", "waits itself"])
async def test_a_reader_that_is_closed_as_a_socket_becomes_ready_ends_in_order(make_reader: MakeReader):
    for _ in range(20):  # chance decides which of two tasks runs first in a round of the event loop
        with ExitStack() as stack:
            async with trio.open_nursery() as nursery:
                field = Field(make_reader, nursery, stack)
                nursery.start_soon(field.reader.run)
                watched = field.watch("a")
                await wait_all_tasks_blocked()
                watched.other.send(b"x")
                await trio.lowlevel.checkpoint()
                field.reader.close()
                nursery.cancel_scope.cancel()


class Rounds(trio.abc.Instrument):
    """Counts how often Trio looks for what is ready."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


@pytest.mark.parametrize("at_work", [False, True], ids=["no thread at work", "a thread at work"])
async def test_the_reader_leaves_the_waiting_to_trio_while_a_thread_is_at_work(nursery: trio.Nursery, at_work: bool):
    reads, rounds, done = 40, Rounds(), trio.Event()
    with ExitStack() as stack:
        field = Field(own_waiting_reader(lambda: at_work), nursery, stack)
        nursery.start_soon(field.reader.run)
        watched = field.watch("a")
        await ping(field, watched.other)

        def send_the_next() -> None:
            watched.other.send(b"x") if len(field.diary) < reads else done.set()

        watched.on_read = send_the_next
        trio.lowlevel.add_instrument(rounds)
        watched.other.send(b"x")
        with trio.fail_after(PATIENCE):
            await done.wait()
        trio.lowlevel.remove_instrument(rounds)
        nursery.cancel_scope.cancel()
        field.reader.close()
    assert (rounds.count > reads / 2) == at_work


async def test_the_reader_leaves_nothing_behind_in_trio():
    async with trio.open_nursery() as nursery:
        with ExitStack() as stack:
            field = Field(own_waiting_reader(), nursery, stack)
            nursery.start_soon(field.reader.run)
            await ping(field, field.watch("a").other)
            nursery.cancel_scope.cancel()
    others = OtherTasks(trio.lowlevel.current_task())
    others.heed()
    for _ in range(QUIET_MIN):
        others.look()
        await trio.lowlevel.checkpoint()
    assert others.look() >= QUIET_MIN
    others.ignore()


async def test_a_task_that_another_one_woke_just_before_can_still_run():
    others, woken, ran = OtherTasks(trio.lowlevel.current_task()), trio.Event(), []

    async def sleeper() -> None:
        await woken.wait()
        ran.append("sleeper")

    others.heed()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleeper)
        while others.look() < QUIET_MIN:
            await trio.lowlevel.checkpoint()
        for _ in range(20):  # Trio runs the tasks of a batch in random order
            ran.clear()
            woken = trio.Event()
            nursery.start_soon(sleeper)
            nursery.start_soon(_set, woken)
            while others.look() < QUIET_MIN:
                await trio.lowlevel.checkpoint()
            assert ran == ["sleeper"]
        nursery.cancel_scope.cancel()
    others.ignore()


async def _set(event: trio.Event) -> None:
    event.set()


async def test_the_reader_waits_by_itself_again_some_time_after_a_thread_was_at_work(nursery: trio.Nursery):
    now, at_work, done = [1.0], [True], [trio.Event()]
    reads = 40
    with ExitStack() as stack:
        field = Field(own_waiting_reader(lambda: at_work[0]), nursery, stack, clock=lambda: Now(now[0], 0.0))
        nursery.start_soon(field.reader.run)
        watched = field.watch("a")
        await ping(field, watched.other)
        at_work[0] = False

        def send_the_next() -> None:
            watched.other.send(b"x") if len(field.diary) % reads else done[0].set()

        async def rounds_of_reads() -> int:
            rounds, done[0], watched.on_read = Rounds(), trio.Event(), send_the_next
            trio.lowlevel.add_instrument(rounds)
            watched.other.send(b"x")
            with trio.fail_after(PATIENCE):
                await done[0].wait()
            trio.lowlevel.remove_instrument(rounds)
            return rounds.count

        now[0] += 0.9 * BESIDE_THREADS_SECONDS
        assert await rounds_of_reads() > reads / 2
        now[0] += 0.2 * BESIDE_THREADS_SECONDS
        assert await rounds_of_reads() < reads / 2
        nursery.cancel_scope.cancel()
        field.reader.close()


@pytest.mark.parametrize(
    ("bytes_read", "work", "late", "paused"),
    [
        pytest.param(FEW_BYTES, LITTLE_WORK - 1, 0.0, True, id="a few frames at once"),
        pytest.param(FEW_BYTES - 1, LITTLE_WORK - 1, 0.0, False, id="one that came alone"),
        pytest.param(FEW_BYTES, LITTLE_WORK, 0.0, False, id="many messages"),
        pytest.param(FEW_BYTES, 0, 2 * AT_ONCE_SECONDS, False, id="after a wait"),
    ],
)
async def test_the_reader_pauses_between_passes_that_follow_at_once_and_have_little_to_do(
    nursery: trio.Nursery, bytes_read: int, work: int, late: float, paused: bool
):
    pauses: list[float] = []
    reads, now, done = 40, [1.0], trio.Event()

    def clock() -> Now:
        now[0] += late
        return Now(now[0], 0.0)

    with ExitStack() as stack:
        field = Field(own_waiting_reader(sleep=pauses.append), nursery, stack, clock=clock)
        nursery.start_soon(field.reader.run)
        watched = field.watch("a")
        await ping(field, watched.other)

        def send_the_next() -> None:
            field.work.bytes_read += bytes_read
            field.work.spent += work
            watched.other.send(b"x") if len(field.diary) < reads else done.set()

        watched.on_read = send_the_next
        watched.other.send(b"x")
        with trio.fail_after(PATIENCE):
            await done.wait()
        nursery.cancel_scope.cancel()
        field.reader.close()
    assert set(pauses) == ({PAUSE_SECONDS} if paused else set())
    assert len(pauses) <= reads / 2
