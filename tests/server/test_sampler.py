"""The sampler: what it measures and when, what it frees, which listeners it tells, and what it logs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from core.alarms.disk_space import RETRIES_MAX, RETRY_S
from core.alarms.registry import BY_HAND, AlarmRegistry
from core.clock import Now
from core.config.alarms import AlarmSettings
from core.errors import Invalid, PreconditionFailed
from core.interface import Mailbox
from core.server.measures import Measures
from core.server.sampler import Sampler

MB = 10**6
GIB = 2**30
STEP_S = 1 / 16
"""An interval that is shorter than all others, and exact in binary."""


@dataclass
class Machine:
    """The figures of a machine, and how often they were measured."""

    used: int = 100 * MB
    freed: int = 0
    """How much of the memory in use is given back when the sampler asks for it."""
    total: int | None = 8 * GIB
    free: int = 100_000 * MB
    sockets: tuple[int, int] = (1, 1000)
    memory_known: bool = True
    disk_known: bool = True
    clock: MockClock = field(default_factory=MockClock)
    giving_back_takes_s: float = 0.0
    measured_memory: list[float] = field(default_factory=list)
    measured_disk: list[float] = field(default_factory=list)
    gave_back: list[float] = field(default_factory=list)

    def memory_used(self) -> int:
        if not self.memory_known:
            raise OSError("no idea")
        self.measured_memory.append(self.clock.current_time())
        return self.used

    def disk_free(self) -> int:
        self.measured_disk.append(self.clock.current_time())
        if not self.disk_known:
            raise OSError("no such folder")
        return self.free

    def give_back(self) -> None:
        self.gave_back.append(self.clock.current_time())
        self.used -= self.freed
        self.freed = 0
        self.clock.jump(self.giving_back_takes_s)

    def measures(self) -> Measures:
        return Measures(
            memory_used=self.memory_used,
            memory_total=lambda: self.total,
            disk_free=self.disk_free,
            sockets=lambda: self.sockets,
            give_back=self.give_back,
        )


async def at_once(function: Callable[[], object], /) -> object:
    """Run a call at once, in place of a thread."""
    return function()


class Bench:
    """A sampler, with everything that it is handed."""

    def __init__(self, machine: Machine, **settings: object) -> None:
        self.machine = machine
        self.registry = AlarmRegistry()
        self.lines: list[dict[str, object]] = []
        self.turns: list[frozenset[str]] = []
        """The alarms that were on in each turn."""
        self.told: list[tuple[int, int]] = []
        self.sampler = Sampler(
            settings=AlarmSettings.model_validate(settings),
            registry=self.registry,
            measures=machine.measures(),
            clock=lambda: Now(machine.clock.current_time(), 0.0),
            memory_sampled=lambda used, limit, now: self.told.append((used, limit)),
            log=structlog.wrap_logger(None, processors=[self._note], wrapper_class=structlog.BoundLogger),
            in_thread=at_once,
        )

    def _note(self, logger: object, method: str, event: dict[str, object]) -> dict[str, object]:
        self.lines.append({"method": method, **event})
        raise structlog.DropEvent

    async def run(self, seconds: float = 0.0) -> None:
        """Let time pass in steps."""
        await wait_all_tasks_blocked()
        for _ in range(round(seconds / STEP_S)):
            self.machine.clock.jump(STEP_S)
            await wait_all_tasks_blocked()

    def turn(self) -> None:
        self.turns.append(self.registry.on)

    def events(self, event: str) -> list[dict[str, object]]:
        return [line for line in self.lines if line["event"] == event]

    def row(self, name: str) -> dict[str, object]:
        return next(row for row in self.registry.snapshot() if row["name"] == name)


@pytest.fixture
def start(nursery: trio.Nursery, mock_clock: MockClock) -> Callable[..., Bench]:
    def make(settings: dict[str, object] | None = None, **machine: object) -> Bench:
        bench = Bench(Machine(clock=mock_clock, **machine), **(settings or {}))
        nursery.start_soon(bench.sampler.run, bench.turn)
        return bench

    return make


# --- memory ----------------------------------------------------------------------------------------------------------


async def test_memory_is_measured_each_second_and_told_with_the_limit(mock_clock, start):
    bench = start({"memory_watermark": "absolute 1000M"})
    await bench.run(3)
    assert bench.machine.measured_memory == pytest.approx([0, 1, 2, 3], abs=0.06)
    assert bench.told == [(100 * MB, 1000 * 2**20)] * 4


async def test_the_alarm_is_told_in_the_turn_that_follows(mock_clock, start):
    bench = start()
    mailbox = Mailbox(lambda: None)
    bench.registry.subscribe(mailbox)
    bench.machine.used = 4 * GIB
    await bench.run()
    assert bench.turns == [{"memory"}, {"memory"}]
    assert [action.alarms for action in mailbox.take()] == [{"memory"}]
    bench.machine.used = GIB
    await bench.run(1)
    assert bench.turns[-1] == set()


async def test_memory_is_given_back_before_the_alarm_is_raised(mock_clock, start):
    bench = start(used=4 * GIB, freed=3 * GIB)
    await bench.run()
    assert bench.machine.gave_back == [0.0]
    assert (bench.registry.on, bench.told[0][0]) == (set(), GIB)
    assert bench.events("alarm-on") == []


async def test_the_alarm_ends_within_five_seconds_after_its_backlog_is_consumed(mock_clock, start):
    """Memory that is freed counts as used until it is given back to the system."""
    bench = start(used=4 * GIB, giving_back_takes_s=0.04)
    await bench.run(10)
    assert bench.registry.on == {"memory"}
    consumed = bench.machine.clock.current_time()
    bench.machine.freed = 3 * GIB
    while bench.registry.on:
        await bench.run(STEP_S)
    assert bench.machine.clock.current_time() - consumed < 1.2


@pytest.mark.parametrize(("takes_s", "apart_s"), [(0.0, 1.0), (0.04, 1.0), (0.2, 4.2)])
async def test_giving_back_takes_a_twentieth_of_the_time_at_most(mock_clock, start, takes_s: float, apart_s: float):
    bench = start(used=4 * GIB, giving_back_takes_s=takes_s)
    await bench.run(20)
    gave_back = bench.machine.gave_back
    gaps = [later - earlier for earlier, later in pairwise(gave_back)]
    assert min(gaps) >= apart_s
    assert max(gaps) <= apart_s + 1.1


async def test_above_the_paging_limit_memory_is_given_back_now_and_then(mock_clock, start):
    bench = start(used=2 * GIB)
    await bench.run(21)
    assert bench.machine.gave_back == pytest.approx([0, 10, 20], abs=0.6)
    unpaged = start({"paging_ratio": 2.0}, used=2 * GIB)
    await unpaged.run(12)
    assert unpaged.machine.gave_back == []


async def test_row_4_18_watermark_0_blocks_all_publishers_and_another_lets_them_go(mock_clock, start):
    bench = start()
    await bench.run(0.3)
    bench.sampler.set_memory_watermark("0")
    assert bench.registry.on == {"memory"}
    await bench.run()
    assert bench.turns[-1] == {"memory"}
    bench.sampler.set_memory_watermark("0.4")
    assert bench.registry.on == set()


async def test_row_4_18_the_command_measures_the_total_anew(mock_clock, start):
    bench = start({"memory_watermark": 0.5})
    await bench.run()
    bench.machine.total = 2 * GIB
    assert bench.sampler.memory()["limit"] == 4 * GIB
    bench.sampler.set_memory_watermark("0.5")
    assert bench.sampler.memory()["limit"] == GIB


async def test_row_4_19_an_absolute_watermark_by_command(mock_clock, start):
    bench = start()
    await bench.run()
    bench.sampler.set_memory_watermark("absolute 1GB")
    assert bench.sampler.memory()["limit"] == 10**9
    bench.sampler.set_memory_watermark("absolute 1073741824")
    assert bench.sampler.memory()["limit"] == GIB


async def test_row_4_20_a_wrong_unit_is_refused_with_the_convention_and_changes_nothing(mock_clock, start):
    bench = start()
    with pytest.raises(Invalid, match="unit convention binary: 1M is 1048576 bytes"):
        bench.sampler.set_memory_watermark("absolute 1Gi")
    with pytest.raises(Invalid, match="unit convention binary"):
        bench.sampler.set_disk_free_limit("1Gi")
    decimal = start({"unit_convention": "decimal"})
    decimal.sampler.set_disk_free_limit("1Gi")
    assert (bench.sampler.disk()["limit"], decimal.sampler.disk()["limit"]) == (50 * MB, GIB)


async def test_row_4_20_log_lines_name_the_convention(mock_clock, start):
    bench = start({"unit_convention": "decimal", "disk_free_limit": "100G"}, free=1)
    await bench.run()
    for event in ("memory-watermark-set", "disk-free-limit-set"):
        assert bench.events(event)[0]["units"] == "unit convention decimal: 1M is 1000000 bytes"
    assert bench.events("alarm-on")[0]["unit_convention"] == "decimal"


async def test_row_4_21_a_command_holds_until_the_next_start(mock_clock, start):
    bench = start()
    bench.sampler.set_memory_watermark("0.1")
    await bench.run(5)
    assert bench.sampler.memory()["watermark"] == "0.1"
    assert start().sampler.memory()["watermark"] == "0.4"


async def test_row_4_22_the_paging_limit_is_half_of_the_watermark(mock_clock, start):
    bench = start({"memory_watermark": "absolute 1000M"})
    assert bench.sampler.memory()["paging_limit"] == 500 * 2**20
    assert start({"paging_ratio": 1.5}).sampler.memory()["paging_limit"] is None


async def test_row_4_23_an_unknown_total_is_logged_and_taken_for_a_gibibyte(mock_clock, start):
    bench = start(total=None)
    await bench.run()
    (line,) = bench.events("memory-total-unknown")
    assert str(line["text"]).startswith("Unknown total memory size for your OS")
    assert (bench.sampler.memory()["total"], bench.sampler.memory()["limit"]) == (GIB, 429_496_729)


async def test_row_0_22_a_watermark_above_a_half_warns_in_the_log_and_in_the_answer(mock_clock, start):
    bench = start({"memory_watermark": 0.6})
    await bench.run()
    (line,) = bench.events("memory-watermark-high")
    assert line["method"] == "warning"
    assert line["text"] == bench.sampler.memory()["warning"]
    bench.sampler.set_memory_watermark("0.5")
    assert bench.sampler.memory()["warning"] is None
    assert len(bench.events("memory-watermark-high")) == 1


async def test_where_memory_cannot_be_measured_there_is_no_alarm_and_no_watermark(mock_clock, start):
    bench = start({"memory_watermark": 0}, memory_known=False)
    await bench.run(3)
    assert len(bench.events("memory-monitoring-disabled")) == 1
    assert (bench.registry.on, bench.told) == (set(), [])
    assert bench.sampler.memory()["measured"] is False
    with pytest.raises(PreconditionFailed, match="cannot be measured"):
        bench.sampler.set_memory_watermark("0.4")


# --- disk space ------------------------------------------------------------------------------------------------------


async def test_row_4_24_below_the_limit_publishers_wait_and_paging_stops(mock_clock, start):
    bench = start(free=49_999_999)
    await bench.run()
    assert (bench.turns[-1], bench.registry.paging_stopped) == ({"disk"}, True)


async def test_row_4_25_the_log_says_the_limit(mock_clock, start):
    bench = start()
    await bench.run()
    (line,) = bench.events("disk-free-limit-set")
    assert (line["text"], line["limit"]) == ("Disk free limit set to 50MB", 50 * MB)


async def test_row_4_25_a_disk_that_cannot_be_measured_is_given_up_after_ten_retries(mock_clock, start):
    bench = start(disk_known=False)
    await bench.run()
    for _ in range(RETRIES_MAX):
        assert bench.events("disk-monitoring-disabled") == []
        bench.machine.clock.jump(RETRY_S)
        await wait_all_tasks_blocked()
    assert len(bench.machine.measured_disk) == 1 + RETRIES_MAX
    (line,) = bench.events("disk-monitoring-disabled")
    assert line["text"] == "Disabling disk free space monitoring"
    assert [line["retries_left"] for line in bench.events("disk-not-measured")] == list(range(RETRIES_MAX, 0, -1))
    with pytest.raises(PreconditionFailed, match="monitoring is disabled"):
        bench.sampler.set_disk_free_limit("1GB")
    assert len(bench.events("disk-free-limit-ignored")) == 1
    bench.sampler.set_memory_watermark("0.4")
    await bench.run(130)
    assert len(bench.machine.measured_disk) == 1 + RETRIES_MAX


async def test_row_4_25_a_disk_that_can_be_measured_again_is(mock_clock, start):
    bench = start(disk_known=False, free=0)
    await bench.run()
    bench.machine.disk_known = True
    bench.machine.clock.jump(RETRY_S)
    await wait_all_tasks_blocked()
    assert bench.registry.on == {"disk"}


@pytest.mark.parametrize(("above", "apart_s"), [(2_000 * MB, 10.0), (250 * MB, 2.0), (10 * MB, 0.1)])
async def test_row_4_26_the_nearer_the_limit_the_sooner_is_the_next_check(
    mock_clock, start, above: int, apart_s: float
):
    bench = start(free=50 * MB + above)
    await bench.run(2.5 * apart_s)
    assert bench.machine.measured_disk == pytest.approx([0, apart_s, 2 * apart_s], abs=0.11)


async def test_row_4_26_publishers_go_on_within_a_second_after_there_is_space(mock_clock, start):
    bench = start(free=0)
    await bench.run(7)
    bench.machine.free = 100_000 * MB
    space_at = bench.machine.clock.current_time()
    while bench.registry.on:
        await bench.run(STEP_S)
    assert bench.machine.clock.current_time() - space_at <= 0.6
    assert bench.turns[-1] == set()


async def test_row_4_27_another_disk_limit_holds_at_once(mock_clock, start):
    bench = start(free=2 * GIB)
    await bench.run(0.5)
    bench.sampler.set_disk_free_limit("mem_relative 1.0")
    assert bench.registry.on == {"disk"}
    await bench.run()
    assert len(bench.machine.measured_disk) == 2
    assert bench.turns[-1] == {"disk"}
    for text, limit in [("1000000000", 10**9), ("1GB", 10**9), ("mem_relative 0.25", 2 * GIB)]:
        bench.sampler.set_disk_free_limit(text)
        assert (bench.sampler.disk()["limit"], bench.registry.on) == (limit, set())
    with pytest.raises(Invalid, match="mem_relative"):
        bench.sampler.set_disk_free_limit("mem_relative much")


async def test_a_disk_that_hangs_has_failed(nursery, mock_clock):
    async def in_thread(function: Callable[[], object], /) -> object:
        await trio.sleep_forever()
        raise AssertionError

    bench = Bench(Machine(clock=mock_clock))
    sampler = Sampler(
        settings=AlarmSettings(),
        registry=bench.registry,
        measures=bench.machine.measures(),
        clock=lambda: Now(trio.current_time(), 0.0),
        memory_sampled=lambda used, limit, now: None,
        log=structlog.wrap_logger(None, processors=[bench._note], wrapper_class=structlog.BoundLogger),
        in_thread=in_thread,
    )
    nursery.start_soon(sampler.run, bench.turn)
    await bench.run(5.1)
    (line,) = bench.events("disk-not-measured")
    assert line["reason"] == "the disk has not told its free space within 5 s"


# --- reports ---------------------------------------------------------------------------------------------------------


async def test_one_line_when_an_alarm_begins_and_one_when_it_ends(mock_clock, start):
    bench = start(free=60 * MB)
    await bench.run(1)
    bench.machine.free = 40 * MB
    await bench.run(3)
    bench.machine.free = 2_000 * MB
    await bench.run(3)
    (begin,) = bench.events("alarm-on")
    assert (begin["method"], begin["alarm"], begin["publishers_wait"]) == ("warning", "disk", True)
    assert (begin["free"], begin["limit"], begin["at_start"]) == (40 * MB, 50 * MB, False)
    assert begin["cause"] == "40000000 bytes of disk space are free, the limit is 50000000 (50MB)"
    (end,) = bench.events("alarm-off")
    assert (end["alarm"], end["free"], end["cause"]) == ("disk", 2_000 * MB, begin["cause"])


async def test_a_limit_that_is_breached_at_the_start_is_told_with_the_numbers(mock_clock, start):
    bench = start({"memory_watermark": "absolute 1k"}, free=7)
    await bench.run()
    memory, disk = bench.events("alarm-on")
    assert (memory["at_start"], memory["used"], memory["limit"]) == (True, 100 * MB, 1024)
    assert (disk["at_start"], disk["free"], disk["limit"]) == (True, 7, 50 * MB)


async def test_alarms_raised_by_others_are_in_the_log_too(mock_clock, start):
    bench = start()
    await bench.run()
    bench.registry.set("memory", BY_HAND)
    bench.registry.clear("memory", BY_HAND)
    bench.registry.set("disk", "no space in the store")
    lines = [(line["event"], line["alarm"], line["cause"]) for line in bench.lines if line["event"][:5] == "alarm"]
    assert lines == [
        ("alarm-on", "memory", "by hand"),
        ("alarm-off", "memory", "by hand"),
        ("alarm-on", "disk", "no space in the store"),
    ]


async def test_a_late_event_loop_is_shown_and_no_publisher_waits(mock_clock, start):
    bench = start()
    await bench.run(1)
    bench.machine.clock.jump(1.5)
    await bench.run(1)
    row = bench.row("event-loop-lag")
    assert (row["on"], row["level"]) == (True, "notice")
    assert row["worst_s"] == pytest.approx(0.5, abs=0.06)
    (line,) = bench.events("alarm-on")
    assert (line["alarm"], line["publishers_wait"]) == ("event-loop-lag", False)
    assert not any(bench.turns)
    await bench.run(25)
    assert bench.row("event-loop-lag")["on"] is False


async def test_a_slow_measurement_is_not_taken_for_a_late_event_loop(mock_clock, start):
    bench = start(used=4 * GIB, giving_back_takes_s=1.5)
    await bench.run(5)
    assert bench.row("event-loop-lag")["on"] is False


async def test_row_0_26_connections_that_run_out_are_shown_and_no_publisher_waits(mock_clock, start):
    bench = start(sockets=(901, 1000))
    await bench.run()
    row = bench.row("descriptors")
    assert (row["on"], row["used"], row["limit"]) == (True, 901, 1000)
    bench.machine.sockets = (900, 1000)
    await bench.run(1)
    assert bench.row("descriptors")["on"] is False
    assert not any(bench.turns)


async def test_the_time_that_alarms_and_notices_are_on(mock_clock, start):
    bench = start()
    await bench.run(1)
    bench.registry.set("memory", BY_HAND)
    bench.registry.set("disk", BY_HAND)
    await bench.run(4)
    bench.registry.clear("disk", BY_HAND)
    await bench.run(2)
    assert bench.sampler.alarm_seconds() == {
        "memory": 6.0,
        "disk": 4.0,
        "audit": 0.0,
        "certificate": 0.0,
        "descriptors": 0.0,
        "etcd": 0.0,
        "event-loop-lag": 0.0,
    }
