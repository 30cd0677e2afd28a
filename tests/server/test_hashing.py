"""Passwords are hashed beside the event loop: a few at once, in order, and none for a login that has ended."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from core.access.exchange import FAILURE, LATER, WAIT, Reply
from core.access.login import Access
from core.access.mechanisms import PlainMechanism
from core.clock import Now
from core.config.access import ScramKeys
from core.server.hashing import Hashing
from core.server.run import read_clocks
from tests.kit.logins import from_here, make_access, user

ALICE = user("alice", "wonderland")
RIGHT = b"\0alice\0wonderland"
HASHED_ROUNDS = 100_000


def make_hashing(**chosen: float) -> Hashing:
    values = {"running_max": 2, "waiting_max": 100, "wait_seconds_max": 5.0} | chosen
    return Hashing(
        running_max=int(values["running_max"]),
        waiting_max=int(values["waiting_max"]),
        wait_seconds_max=values["wait_seconds_max"],
        clock=read_clocks,
    )


class Attempt:
    """A login with PLAIN that waits for its hash."""

    def __init__(self, access: Access, password: str = "wonderland") -> None:
        self._answered = trio.Event()
        self._exchange = PlainMechanism(access, from_here(wake=self._answered.set)).start()
        assert self._exchange.respond(f"\0alice\0{password}".encode()) == WAIT

    async def answer(self) -> Reply:
        with trio.fail_after(20):
            await self._answered.wait()
        return self._exchange.respond(b"")


@contextmanager
def held_up(access: Access) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Keep a worker thread busy with a password from the first event until the second."""
    begun, go_on = threading.Event(), threading.Event()

    def keep(old: ScramKeys, new: ScramKeys) -> None:
        begun.set()
        go_on.wait(10.0)

    access.iterations, access.keep = 5000, keep
    try:
        yield begun, go_on
    finally:
        go_on.set()


async def test_no_more_run_than_may_and_the_others_wait():
    hashing = make_hashing(running_max=1)
    access = make_access(ALICE, submit=hashing.submit)
    with held_up(access) as (begun, go_on):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hashing.run, lambda: None)
            attempts = [Attempt(access, password) for password in ("wonderland", "guess", "another")]
            assert await trio.to_thread.run_sync(begun.wait, 10.0)
            assert (hashing.running, hashing.waiting) == (1, 2)
            go_on.set()
            assert [await one.answer() for one in attempts] == [("success", b"alice"), FAILURE, FAILURE]
            nursery.cancel_scope.cancel()


async def test_each_answer_is_followed_by_a_turn():
    hashing, turned = make_hashing(), trio.Event()
    access = make_access(ALICE, submit=hashing.submit)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hashing.run, turned.set)
        attempt = Attempt(access)
        await attempt.answer()
        with trio.fail_after(20):
            await turned.wait()
        nursery.cancel_scope.cancel()


async def test_a_password_that_has_waited_as_long_as_a_handshake_is_not_hashed():
    now = 100.0
    hashing = Hashing(running_max=1, waiting_max=10, wait_seconds_max=5.0, clock=lambda: Now(now, now))
    attempt = Attempt(make_access(ALICE, submit=hashing.submit))
    now += 5.1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hashing.run, lambda: None)
        assert await attempt.answer() == LATER
        nursery.cancel_scope.cancel()


async def test_more_than_may_wait_are_put_off():
    access = make_access(ALICE, submit=make_hashing(waiting_max=2).submit)
    for _ in range(2):
        Attempt(access)
    assert PlainMechanism(access, from_here()).start().respond(RIGHT) == LATER


async def test_the_end_does_not_wait_for_a_hash():
    hashing = make_hashing()
    access = make_access(ALICE, submit=hashing.submit)
    with held_up(access) as (begun, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hashing.run, lambda: None)
            Attempt(access)
            assert await trio.to_thread.run_sync(begun.wait, 10.0)
            nursery.cancel_scope.cancel()
        assert hashing.running == 1, "it goes on by itself"


async def test_a_hash_costs_the_loop_next_to_nothing():
    hashing = make_hashing()
    access = make_access(user("alice", "wonderland", iterations=HASHED_ROUNDS), submit=hashing.submit)
    process, loop = time.process_time(), time.thread_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hashing.run, lambda: None)
        attempts = [Attempt(access, f"guess {number}") for number in range(4)]
        assert [await one.answer() for one in attempts] == [FAILURE] * 4
        nursery.cancel_scope.cancel()
    process, loop = time.process_time() - process, time.thread_time() - loop
    assert loop < process / 4, f"the loop took {loop:.3f} s of {process:.3f} s"
