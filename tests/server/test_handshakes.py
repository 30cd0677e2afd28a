"""The line of TLS handshakes: its share of each round of the event loop, and its order."""

import trio
import trio.testing

from core.clock import Now
from core.server.handshakes import HANDSHAKES_SECONDS_MAX, Handshakes


class Costly:
    """A connection whose handshake takes 0.75 ms of the test's clock."""

    def __init__(self, line: "Line", name: int, steps: int = 1) -> None:
        self.line, self.name, self.steps = line, name, steps

    def shake(self, now: Now) -> None:
        self.line.done.append(self.name)
        self.line.monotonic += 0.00075
        self.steps -= 1
        if self.steps:
            self.line.handshakes.enter(self)


class Line:
    def __init__(self) -> None:
        self.monotonic = 0.0
        self.done: list[int] = []
        self.turns = 0
        self.handshakes = Handshakes(clock=lambda: Now(self.monotonic, 0.0), turn=self.turn)

    def turn(self, now: Now) -> None:
        self.turns += 1

    def enter(self, names: range, steps: int = 1) -> None:
        for name in names:
            self.handshakes.enter(Costly(self, name, steps))


def test_a_round_has_its_share_and_those_that_came_first_come_first():
    line = Line()
    line.enter(range(10))
    line.handshakes.work()
    assert line.done == [0, 1, 2]
    assert line.monotonic < HANDSHAKES_SECONDS_MAX + 0.00075
    line.handshakes.work()
    assert (line.done, len(line.handshakes), line.turns) == ([0, 1, 2, 3, 4, 5], 4, 2)


async def test_other_tasks_run_between_two_rounds():
    line = Line()
    longest = 0.0

    async def bystander() -> None:
        nonlocal longest
        before = line.monotonic
        while len(line.done) < 1500:
            await trio.lowlevel.checkpoint()
            longest = max(longest, line.monotonic - before)
            before = line.monotonic

    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.handshakes.run)
        line.enter(range(500), steps=3)
        await bystander()
        nursery.cancel_scope.cancel()
    assert len(line.done) == 1500
    assert longest < 2 * (HANDSHAKES_SECONDS_MAX + 0.00075)


async def test_the_task_sleeps_while_no_handshake_waits():
    line = Line()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.handshakes.run)
        for number in range(3):
            await trio.testing.wait_all_tasks_blocked()
            assert line.turns == number
            line.enter(range(1))
        nursery.cancel_scope.cancel()
