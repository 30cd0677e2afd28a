"""The admin server's share of the event loop: after a slice of one answer, other tasks have their turn."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import trio
import trio.testing

from core.admin.slices import SLICE_S, conclusion
from core.slices import Walk


class Clock:
    """A clock that goes on by one step, a part of a slice, each time it is read."""

    def __init__(self, step_s: float) -> None:
        self.now = 0.0
        self._step_s = step_s

    def __call__(self) -> float:
        self.now += self._step_s
        return self.now


def counting(name: str, steps: int, log: list[str]) -> Walk[str]:
    for _ in range(steps):
        log.append(name)
        yield
    return name


async def test_a_walk_without_a_pause_has_its_conclusion():
    log: list[str] = []
    assert await conclusion(counting("a", 0, log)) == "a"


async def test_walks_of_many_clients_take_turns_slice_by_slice():
    log: list[str] = []
    clock = Clock(SLICE_S / 4)

    async def run(name: str) -> None:
        assert await conclusion(counting(name, 40, log), clock) == name

    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(run, name)
    assert len(log) == 120
    batches = [1]
    for one, other in pairwise(log):
        if one == other:
            batches[-1] += 1
        else:
            batches.append(1)
    assert max(batches[:-1]) <= 5  # a slice is four steps; after the last walk no other waits


async def test_a_walk_that_waits_gets_no_slice_until_it_is_called():
    calls: list[Callable[[], None]] = []
    log: list[str] = []

    def waiting() -> Walk[str]:
        for _ in range(2):
            log.append("looks")
            yield calls.append
        return "done"

    async def run() -> None:
        log.append(await conclusion(waiting()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        for looks in (1, 2):
            await trio.testing.wait_all_tasks_blocked()
            assert log == ["looks"] * looks
            assert await conclusion(counting("another", 3, [])) == "another"
            calls.pop()()
    assert log == ["looks", "looks", "done"]
    assert calls == []


async def test_a_walk_for_which_there_is_nothing_to_wait_any_more_goes_on():
    def waiting() -> Walk[str]:
        yield lambda call: call()
        return "done"

    assert await conclusion(waiting()) == "done"


async def test_no_two_slices_come_in_one_round_of_the_loop():
    log: list[str] = []
    clock = Clock(SLICE_S)

    async def rounds() -> None:
        while True:
            log.append("round")
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rounds)
        async with trio.open_nursery() as walks:
            for name in "abcdefgh":
                walks.start_soon(conclusion, counting(name, 10, log), clock)
        nursery.cancel_scope.cancel()
    between = " ".join(log).split("round")
    assert max(len(one.split()) for one in between) <= 2


async def test_a_walk_that_fails_or_is_given_up_lets_the_next_one_go_on():
    log: list[str] = []

    def failing() -> Walk[None]:
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await conclusion(failing())
    with trio.move_on_after(0):
        await conclusion(counting("given up", 10, log), Clock(SLICE_S))
    assert await conclusion(counting("next", 3, log)) == "next"
