"""Deadlines: one entry each, called in order, never late and never twice."""

from math import inf

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from core.clock import Now
from core.server.timers import Timers


class Sleeper:
    def __init__(self, diary: list[str], name: str = "") -> None:
        self.timer_at = inf
        self.name = name
        self._diary = diary

    def expired(self, now: Now) -> None:
        self._diary.append(self.name)


def make_timers() -> Timers:
    return Timers(lambda: Now(trio.current_time(), 0.0), after=lambda now: None)


def test_entries_fire_in_the_order_of_time():
    diary: list[str] = []

    async def main() -> None:
        timers = make_timers()
        for name, when in (("b", 2.0), ("a", 1.0), ("d", 4.0), ("c", 3.0)):
            timers.schedule(Sleeper(diary, name), when)
        timers.fire(Now(3.0, 0.0))
        assert diary == ["a", "b", "c"]
        assert len(timers) == 1

    trio.run(main)


async def test_a_later_time_leaves_the_entry_as_it_is():
    timers = make_timers()
    sleeper = Sleeper([])
    timers.schedule(sleeper, 1.0)
    timers.schedule(sleeper, 2.0)
    assert sleeper.timer_at == 1.0
    assert len(timers) == 1


async def test_an_earlier_time_replaces_the_entry():
    diary: list[str] = []
    timers = make_timers()
    sleeper = Sleeper(diary)
    timers.schedule(sleeper, 2.0)
    timers.schedule(sleeper, 1.0)
    timers.fire(Now(5.0, 0.0))
    assert diary == [""]
    assert sleeper.timer_at == inf


async def test_a_cancelled_entry_never_fires():
    diary: list[str] = []
    timers = make_timers()
    sleeper = Sleeper(diary)
    timers.schedule(sleeper, 1.0)
    timers.cancel(sleeper)
    timers.cancel(sleeper)
    timers.fire(Now(5.0, 0.0))
    assert diary == []


async def test_the_task_wakes_for_an_entry_made_while_it_sleeps(mock_clock: MockClock, nursery: trio.Nursery):
    diary: list[str] = []
    turns: list[Now] = []
    timers = Timers(lambda: Now(trio.current_time(), 0.0), after=turns.append)
    start = trio.current_time()
    nursery.start_soon(timers.run)
    timers.schedule(Sleeper(diary, "late"), start + 100.0)
    await trio.testing.wait_all_tasks_blocked()
    timers.schedule(Sleeper(diary, "early"), start + 1.0)
    await trio.testing.wait_all_tasks_blocked()
    turns.clear()
    mock_clock.jump(1.0)
    await trio.testing.wait_all_tasks_blocked()
    assert diary == ["early"]
    assert len(turns) == 1
    mock_clock.jump(99.0)
    await trio.testing.wait_all_tasks_blocked()
    assert diary == ["early", "late"]


STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["schedule", "cancel"]), st.integers(0, 20)))


@given(steps=STEPS)
def test_whatever_happens_each_fires_once_at_its_earliest_time(steps: list[tuple[int, str, int]]):
    diary: list[str] = []
    sleepers = [Sleeper(diary, str(i)) for i in range(4)]
    expected: dict[str, float] = {}

    async def main() -> None:
        timers = make_timers()
        for index, action, when in steps:
            name = str(index)
            if action == "schedule":
                timers.schedule(sleepers[index], float(when))
                expected[name] = min(expected.get(name, inf), float(when))
            else:
                timers.cancel(sleepers[index])
                expected.pop(name, None)
        assert len(timers) == len(expected)
        for second in range(21):
            diary.clear()
            timers.fire(Now(float(second), 0.0))
            assert sorted(diary) == sorted(name for name, when in expected.items() if when == second)

    trio.run(main)
