"""The memory policy: its formulas at their limits, and which queues are told a new target, and when."""

from dataclasses import dataclass, field
from math import inf

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.engine.classic.residency import (
    HALF_LIFE_S,
    REPORT_INTERVAL_S,
    REPORTS_MAX,
    Rates,
    Residency,
    acks_first,
    averaged,
    chunk_size,
    duration_target,
    permitted_betas,
    queue_duration,
    target_ram_count,
)

COUNTS = st.integers(0, 10**8)
RATE = st.floats(0, 1e6)
RATES = st.builds(Rates, RATE, RATE, RATE, RATE)


def test_rates_come_halfway_in_a_half_life():
    assert averaged(Rates(), (50, 100, 0, 5), HALF_LIFE_S) == Rates(5.0, 10.0, 0.0, 0.5)
    assert averaged(Rates(8.0, 8.0, 8.0, 8.0), (0, 0, 0, 0), 2 * HALF_LIFE_S) == Rates(2.0, 2.0, 2.0, 2.0)


def test_no_time_changes_no_rate():
    assert averaged(Rates(1.0), (5, 5, 5, 5), 0.0) == Rates(1.0)


@given(RATES, st.lists(COUNTS, min_size=4, max_size=4), st.floats(0.001, 1000))
def test_an_average_lies_between_before_and_now(rates: Rates, moved: list[int], elapsed_s: float):
    for before, count, after in zip(rates, moved, averaged(rates, moved, elapsed_s), strict=True):
        now = count / elapsed_s
        assert min(before, now) * 0.999 <= after <= max(before, now) * 1.001


def test_a_duration_is_the_mean_of_two_reports_by_the_mean_rate():
    assert queue_duration(300, 100, Rates(10.0, 20.0, 20.0, 50.0)) == 1.0


@pytest.mark.parametrize(("rate", "duration"), [(0.0, inf), (0.0099, inf), (0.01, 100 / 0.04)])
def test_an_idle_queue_lasts_for_ever(rate: float, duration: float):
    assert queue_duration(50, 50, Rates(rate)) == pytest.approx(duration)


@pytest.mark.parametrize(
    ("ratio", "total", "count", "target"),
    [
        (0.49, 6.0, 3, inf),
        (0.5, 6.0, 3, 7 / 3 / 0.5),
        (0.94, 6.0, 3, 7 / 3 / 0.94),
        (0.95, 6.0, 3, 2 / 0.95),
        (2.0, 6.0, 3, 1.0),
        (0.9, 0.0, 0, inf),
        (inf, 6.0, 3, 0.0),
        (inf, 0.0, 0, 0.0),
    ],
)
def test_row_4_22_the_duration_target(ratio: float, total: float, count: int, target: float):
    assert duration_target(ratio=ratio, paging_ratio=0.5, total=total, count=count) == pytest.approx(target)


@pytest.mark.parametrize(("paging_ratio", "pages"), [(0.5, True), (0.75, True), (0.76, False), (1.1, False)])
def test_row_4_22_paging_begins_at_the_paging_ratio(paging_ratio: float, pages: bool):
    assert (duration_target(ratio=0.75, paging_ratio=paging_ratio, total=1.0, count=1) < inf) is pages


def test_row_4_22_above_one_it_never_begins_below_the_watermark():
    assert duration_target(ratio=1.0, paging_ratio=1.01, total=1.0, count=1) == inf


def test_a_disk_alarm_stops_paging():
    assert duration_target(ratio=inf, paging_ratio=0.5, total=1.0, count=1, disk_alarm=True) == inf


def test_row_2_07_target_ram_count_is_cut_to_a_whole_number():
    assert target_ram_count(1.5, Rates(1.0, 1.0, 1.0, 0.9)) == 5
    assert target_ram_count(inf, Rates(1.0)) == inf
    assert target_ram_count(0.0, Rates(1e6)) == 0


@pytest.mark.parametrize(
    ("depth", "alphas", "q3", "target", "permitted"),
    [
        (0, 0, 0, 0, inf),
        (10, 0, 5, inf, inf),
        (100_000, 0, 20_000, 0, 16_384),
        (100_000, 0, 500, 0, 500),
        (1_000_000, 0, 0, 1_000_000, 500_000),
        (1_000_000, 200_000, 0, 200_000, 800_000 - 640_000),
        (1_000_000, 0, 0, 1, 16_384),
    ],
)
def test_permitted_betas(depth: int, alphas: int, q3: int, target: float, permitted: float):
    assert permitted_betas(depth=depth, alphas=alphas, q3=q3, target=target, betas_min=16_384) == permitted


@pytest.mark.parametrize(
    ("current", "permitted", "chunk"), [(10, inf, 0), (10, 10, 0), (9, 10, 0), (11, 10, 1), (74, 10, 64), (75, 10, 64)]
)
def test_row_2_17_chunk_size(current: int, permitted: float, chunk: int):
    assert chunk_size(current, permitted, 64) == chunk


@pytest.mark.parametrize(
    ("rates", "first"),
    [
        (Rates(10.0, 5.0, 5.0, 0.1), False),
        (Rates(10.0, 5.0, 5.1, 0.0), True),
        (Rates(5.0, 10.0, 10.0, 14.9), True),
        (Rates(), False),
    ],
)
def test_row_2_15_acks_first_where_they_grow_faster(rates: Rates, first: bool):
    assert acks_first(rates) is first


@dataclass(eq=False)
class Stub:
    """A queue that reports the figures that a test gives it."""

    duration: float
    pressed: bool = True
    targets: list[float] = field(default_factory=list)

    def report(self, now: float) -> float:
        assert now >= REPORT_INTERVAL_S
        return self.duration

    def set_duration_target(self, target_s: float) -> bool:
        self.targets.append(target_s)
        return self.pressed and target_s < inf


def residency(*stubs: Stub) -> Residency:
    """A policy to which all of these queues have reported."""
    made = Residency(0.5)
    for stub in stubs:
        made.add(stub, 0.0)
    made.gather(REPORT_INTERVAL_S)
    for stub in stubs:
        stub.targets.clear()
    return made


def test_queues_report_each_interval():
    stub = Stub(4.0)
    made = Residency(0.5)
    assert made.deadline == inf
    made.add(stub, 1.0)
    assert made.deadline == 1.0 + REPORT_INTERVAL_S
    assert made.gather(REPORT_INTERVAL_S) == []
    assert stub.targets == []
    made.gather(1.0 + REPORT_INTERVAL_S)
    assert stub.targets == [inf]
    assert made.deadline == 1.0 + 2 * REPORT_INTERVAL_S


def test_a_falling_target_is_told_at_once():
    one, two, idle = Stub(4.0), Stub(2.0, pressed=False), Stub(inf)
    made = residency(one, two, idle)
    assert made.sample(0.8, disk_alarm=False) == [one, idle]
    assert one.targets == two.targets == idle.targets == [7 / 2 / 0.8]


def test_a_rising_target_is_told_with_the_next_report():
    stub = Stub(4.0)
    made = residency(stub)
    made.sample(0.8, disk_alarm=False)
    assert made.sample(0.1, disk_alarm=False) == []
    assert len(stub.targets) == 1
    assert made.gather(2 * REPORT_INTERVAL_S) == []
    assert stub.targets[1:] == [inf]


def test_the_disk_alarm_is_told_at_once():
    stub = Stub(4.0)
    made = residency(stub)
    made.sample(0.8, disk_alarm=False)
    assert made.sample(0.8, disk_alarm=True) == []
    assert stub.targets == [5 / 0.8, inf]
    made.sample(0.9, disk_alarm=True)
    assert len(stub.targets) == 2


def test_a_queue_that_has_left_neither_counts_nor_is_told():
    stays, leaves = Stub(4.0), Stub(100.0)
    made = residency(stays, leaves)
    made.remove(leaves)
    made.sample(1.0, disk_alarm=False)
    assert made.duration_target == 4.0
    made.gather(2 * REPORT_INTERVAL_S)
    assert leaves.targets == []
    assert stays.targets == [4.0, 4.0]


def test_a_great_many_queues_report_in_turns():
    stubs = [Stub(1.0) for _ in range(REPORTS_MAX + 1)]
    made = Residency(0.5)
    for stub in stubs:
        made.add(stub, 0.0)
    made.gather(REPORT_INTERVAL_S)
    assert sum(len(stub.targets) for stub in stubs) == REPORTS_MAX
    assert made.deadline == REPORT_INTERVAL_S
    made.gather(REPORT_INTERVAL_S)
    assert all(len(stub.targets) == 1 for stub in stubs)
