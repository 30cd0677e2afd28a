"""The turn: it goes on until nothing is left, for a limited number of rounds."""

from collections.abc import Callable
from itertools import count

import trio

from core.clock import Now
from core.server.pump import ALLOWANCE_LATE_MIN, ALLOWANCE_MIN, ALLOWANCE_OF_ALL, TURN_SECONDS_MAX, Pump
from core.work import AMPLE, Work
from tests.kit.echo import EchoBroker

NOW = Now(1.0, 2.0)


class Chatty:
    """A peer that asks this many times to be flushed again, and notes each call."""

    def __init__(self, name: str, again: int, diary: list[str]) -> None:
        self.pump: Pump | None = None
        self._name = name
        self._again = again
        self._diary = diary

    def flush(self, now: Now) -> None:
        self._diary.append(self._name)
        if self._again:
            self._again -= 1
            assert self.pump is not None
            self.pump.touch(self)


def make_pump(broker: EchoBroker, rounds_max: int = 4, clock: Callable[[], Now] = lambda: NOW) -> Pump:
    return Pump(engine=broker, clock=clock, rounds_max=rounds_max, wake_at=lambda when: None)


def chatty(pump: Pump, name: str, again: int, diary: list[str]) -> Chatty:
    peer = Chatty(name, again, diary)
    peer.pump = pump
    return peer


async def test_an_idle_turn_is_one_engine_turn():
    broker = EchoBroker()
    make_pump(broker).turn(NOW)
    assert broker.turns == 1


async def test_the_peer_that_was_touched_last_is_flushed_first():
    pump = make_pump(EchoBroker())
    diary: list[str] = []
    for name in ("a", "b", "c"):
        pump.touch(chatty(pump, name, 0, diary))
    pump.turn(NOW)
    assert diary == ["c", "b", "a"]


async def test_a_turn_for_no_peer_flushes_the_peer_first_that_was_touched_first():
    pump = make_pump(EchoBroker())
    diary: list[str] = []
    for name in ("a", "b", "c"):
        pump.touch(chatty(pump, name, 0, diary))
    pump.turn(NOW, in_order=True)
    assert diary == ["a", "b", "c"]


async def test_the_engine_gets_a_turn_behind_every_flush():
    broker = EchoBroker()
    pump = make_pump(broker)
    diary: list[str] = []
    pump.touch(chatty(pump, "a", 1, diary))
    pump.turn(NOW)
    assert diary == ["a", "a"]
    assert broker.turns == 3


async def test_rounds_are_bounded_and_the_rest_is_continued(nursery: trio.Nursery):
    broker = EchoBroker()
    pump = make_pump(broker, rounds_max=4)
    diary: list[str] = []
    pump.touch(chatty(pump, "busy", 9, diary))
    pump.turn(NOW)
    assert diary == ["busy"] * 4
    nursery.start_soon(pump.run)
    await trio.testing.wait_all_tasks_blocked()
    assert diary == ["busy"] * 10


async def test_a_turn_that_takes_long_goes_round_no_more():
    readings = iter([0.001, 0.0015, 0.002, 0.0025, 0.0061])
    pump = make_pump(EchoBroker(), rounds_max=8, clock=lambda: Now(NOW.monotonic + next(readings), NOW.wall))
    diary: list[str] = []
    pump.touch(chatty(pump, "busy", 9, diary))
    pump.turn(NOW)
    assert diary == ["busy"] * 3


async def test_engine_work_without_touched_peers_is_continued_too(nursery: trio.Nursery):
    broker = EchoBroker()
    broker.turns_with_work_left = 10
    pump = make_pump(broker, rounds_max=4)
    pump.turn(NOW)
    assert broker.turns == 4
    nursery.start_soon(pump.run)
    await trio.testing.wait_all_tasks_blocked()
    assert broker.turns_with_work_left == 0


async def test_others_run_between_the_parts_of_a_long_turn(nursery: trio.Nursery):
    broker = EchoBroker()
    pump = make_pump(broker, rounds_max=1)
    diary: list[str] = []
    pump.touch(chatty(pump, "busy", 20, diary))
    nursery.start_soon(pump.run)
    pump.turn(NOW)

    async def other() -> None:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            diary.append("other")

    nursery.start_soon(other)
    await trio.testing.wait_all_tasks_blocked()
    assert len(diary) == 24
    assert diary.index("other") < 8, "a task that was ready waited for the whole of the busy one's work"


async def test_a_peer_that_has_had_its_turn_and_wants_another_waits_behind_the_others():
    ticking = (Now(NOW.monotonic + number / 1000, NOW.wall) for number in count())
    pump = make_pump(EchoBroker(), rounds_max=4, clock=lambda: next(ticking))
    diary: list[str] = []
    for number in range(3):
        pump.touch(chatty(pump, f"busy {number}", 9, diary))
    pump.turn(NOW)
    diary.clear()
    pump.touch(chatty(pump, "bystander", 0, diary))
    pump.turn(NOW)
    assert diary.index("bystander") <= 1


async def test_a_peer_that_has_had_its_share_of_a_turn_comes_behind_the_others():
    pump = make_pump(EchoBroker())
    diary: list[str] = []
    pump.touch(chatty(pump, "bystander", 0, diary))
    pump.touch(chatty(pump, "busy", 0, diary), late=True)
    pump.turn(NOW)
    assert diary == ["bystander", "busy"]


async def test_where_reading_has_taken_long_late_peers_wait_for_the_next_turn_and_sockets_are_read_before_it(
    nursery: trio.Nursery,
):
    pump = make_pump(EchoBroker(), clock=lambda: Now(NOW.monotonic + 1.0, NOW.wall))
    diary: list[str] = []
    for name in ("busy", "busy too"):
        pump.touch(chatty(pump, name, 0, diary), late=True)
    pump.touch(chatty(pump, "bystander", 0, diary))
    pump.turn(Now(NOW.monotonic + 1.0, NOW.wall), began=NOW.monotonic)
    assert diary == ["bystander"]
    pump.read_first = lambda: pump.touch(chatty(pump, "another", 0, diary))
    nursery.start_soon(pump.run)
    await trio.testing.wait_all_tasks_blocked()
    assert diary[1:4] == ["another", "busy", "busy too"]


async def test_a_continued_turn_flushes_one_late_peer_at_least(nursery: trio.Nursery):
    ticking = (Now(NOW.monotonic + number, NOW.wall) for number in count())
    pump = make_pump(EchoBroker(), clock=lambda: next(ticking))
    diary: list[str] = []
    for number in range(3):
        pump.touch(chatty(pump, f"{number}", 0, diary), late=True)
    pump.turn(NOW, began=NOW.monotonic - 1.0)
    assert diary == []
    nursery.start_soon(pump.run)
    await trio.testing.wait_all_tasks_blocked()
    assert diary == ["0", "1", "2"]


async def test_late_peers_may_do_more_since_others_do_not_wait_for_all_of_them():
    work = Work()
    pump = Pump(engine=EchoBroker(), clock=lambda: NOW, rounds_max=1, wake_at=lambda when: None, work=work)
    for number in range(1000):
        pump.touch(chatty(pump, f"{number}", 0, []), late=True)
    pump.turn(NOW)
    assert work.allowance == ALLOWANCE_LATE_MIN


async def test_where_many_want_a_turn_each_may_do_its_share():
    work = Work()
    pump = Pump(engine=EchoBroker(), clock=lambda: NOW, rounds_max=1, wake_at=lambda when: None, work=work)
    diary: list[str] = []
    pump.touch(chatty(pump, "alone", 0, diary))
    pump.turn(NOW)
    assert work.allowance == AMPLE
    for number in range(100):
        pump.touch(chatty(pump, f"{number}", 0, diary))
    pump.turn(NOW)
    assert work.allowance == ALLOWANCE_OF_ALL // 100
    for number in range(10_000):
        pump.touch(chatty(pump, f"{number}", 0, diary))
    pump.turn(NOW)
    assert work.allowance == ALLOWANCE_MIN


async def test_tasks_that_ask_in_one_round_of_the_loop_share_a_turn_and_late_ones_may_do_little(nursery: trio.Nursery):
    broker, work = EchoBroker(), Work()
    pump = Pump(engine=broker, clock=lambda: NOW, rounds_max=1, wake_at=lambda when: None, work=work)
    nursery.start_soon(pump.run)
    await trio.testing.wait_all_tasks_blocked()
    allowances = []
    for number in range(5):
        pump.turn_soon(Now(NOW.monotonic + number * 0.4 * TURN_SECONDS_MAX, NOW.wall))
        allowances.append(work.allowance)
    assert allowances == [AMPLE] * 3 + [ALLOWANCE_MIN] * 2
    assert broker.turns == 0
    await trio.testing.wait_all_tasks_blocked()
    assert broker.turns == 1
    assert work.allowance == AMPLE
    pump.turn_soon(Now(NOW.monotonic + 1.0, NOW.wall))
    assert work.allowance == AMPLE


async def test_the_peer_that_woke_up_does_not_wait_for_one_that_has_much_to_do():
    pump = make_pump(EchoBroker(), rounds_max=1)
    diary: list[str] = []
    pump.touch(chatty(pump, "busy", 9, diary))
    pump.turn(NOW)
    diary.clear()
    pump.touch(chatty(pump, "bystander", 0, diary))
    pump.turn(NOW)
    assert diary == ["bystander", "busy"]
