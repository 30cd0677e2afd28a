"""The disk alarm: on while free space is below a limit, and checked more often the nearer the limit is."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.alarms.disk_space import ALARMED_INTERVAL_S, RETRIES_MAX, RETRY_S, DiskAlarm, interval_ms
from core.alarms.registry import AlarmRegistry
from core.config.alarms import AlarmSettings, parse_free_limit

MB = 10**6
GIB = 2**30
NO_SPACE = "no space in the store"


def make(limit: str = "50MB") -> tuple[DiskAlarm, AlarmRegistry]:
    registry = AlarmRegistry()
    free_limit = parse_free_limit(limit, "binary")
    return DiskAlarm(registry, free_limit=free_limit, total_memory=GIB, unit_convention="binary"), registry


def row(registry: AlarmRegistry) -> dict[str, object]:
    return next(row for row in registry.snapshot() if row["name"] == "disk")


def test_row_4_24_fifty_megabytes_and_below_them_the_alarm():
    assert AlarmSettings().free_limit.limit(GIB) == 50_000_000
    alarm, registry = make()
    for free, on in [(60 * MB, False), (50 * MB, False), (50 * MB - 1, True), (0, True), (50 * MB, False)]:
        alarm.sample(free)
        assert (registry.on == {"disk"}) is on
        assert registry.paging_stopped is on


def test_row_4_24_paging_stops_whatever_has_set_the_disk_alarm():
    _, registry = make()
    registry.set("memory", "measured")
    assert not registry.paging_stopped
    registry.set("disk", NO_SPACE)
    assert registry.paging_stopped


@pytest.mark.parametrize(
    ("above", "milliseconds"),
    [
        (0, 100),
        (12_500_000, 100),
        (12_500_125, 100.001),
        (125_000_000, 1_000),
        (1_249_999_875, 9_999.999),
        (1_250_000_000, 10_000),
        (10**12, 10_000),
    ],
)
def test_row_4_26_ten_seconds_far_away_and_ten_times_a_second_near(above: int, milliseconds: float):
    assert interval_ms(50 * MB + above, 50 * MB) == pytest.approx(milliseconds)


@given(free=st.integers(0, 2**60), limit=st.integers(0, 2**60))
def test_row_4_26_the_formula_of_the_interval(free: int, limit: int):
    assert interval_ms(free, limit) == max(100, min(10_000, 2 * (free - limit) / 250_000))


@given(limit=st.integers(0, 10**13), free=st.integers(0, 10**13), more=st.integers(0, 10**13))
def test_row_4_26_more_space_is_never_checked_more_often(limit: int, free: int, more: int):
    assert 100 <= interval_ms(free, limit) <= interval_ms(free + more, limit) <= 10_000


@given(free=st.integers(50 * MB, 2**50))
def test_row_4_26_a_disk_that_fills_at_half_the_assumed_rate_is_caught_above_a_tenth_of_a_second(free: int):
    interval = interval_ms(free, 50 * MB)
    assert interval == 100 or free - interval * 125_000 >= 50 * MB - 1


def test_row_4_26_while_it_is_on_space_is_noticed_within_a_second():
    alarm, _ = make()
    alarm.sample(0)
    assert alarm.next_check_s() == ALARMED_INTERVAL_S <= 0.5
    alarm.sample(2_000 * MB)
    assert alarm.next_check_s() == 10.0


@pytest.mark.parametrize(
    ("limit", "size"), [("1000000000", 10**9), ("1GB", 10**9), ("mem_relative 1.0", GIB), ("mem_relative 2.0", 2 * GIB)]
)
def test_row_4_27_a_limit_is_a_number_a_size_or_a_share_of_memory(limit: str, size: int):
    assert make(limit)[0].limit == size


def test_row_4_27_another_limit_holds_from_the_next_sample_on():
    alarm, registry = make()
    alarm.sample(60 * MB)
    alarm.set_limit(parse_free_limit("mem_relative 1.0", "binary"), GIB)
    assert registry.on == set()
    assert row(registry)["limit"] == GIB
    alarm.sample(60 * MB)
    assert registry.on == {"disk"}


def test_row_4_25_ten_retries_two_minutes_apart_and_then_never_again():
    alarm, _ = make()
    for _ in range(RETRIES_MAX):
        alarm.failed()
        assert (alarm.disabled, alarm.next_check_s()) == (False, RETRY_S)
    assert (RETRIES_MAX, RETRY_S) == (10, 120.0)
    alarm.failed()
    assert (alarm.disabled, alarm.next_check_s()) == (True, inf)


def test_one_measurement_forgives_the_failures_before():
    alarm, registry = make()
    for _ in range(RETRIES_MAX):
        alarm.failed()
    alarm.sample(0)
    assert (alarm.failures, registry.on) == (0, {"disk"})


def test_an_alarm_stays_while_nothing_can_be_measured_and_ends_when_it_is_given_up():
    alarm, registry = make()
    alarm.sample(0)
    registry.set("disk", NO_SPACE)
    for _ in range(RETRIES_MAX):
        alarm.failed()
        assert row(registry)["sources"] == ["measured", NO_SPACE]
    alarm.failed()
    assert row(registry)["sources"] == [NO_SPACE]
    assert (row(registry)["measured"], row(registry)["free"]) == (False, None)


def test_the_row_has_the_figures_and_the_cause():
    alarm, registry = make()
    alarm.sample(49_999_999)
    shown = row(registry)
    assert shown["cause"] == "49999999 bytes of disk space are free, the limit is 50000000 (50MB)"
    assert (shown["limit"], shown["free"], shown["free_limit"]) == (50 * MB, 49_999_999, "50MB")
    assert shown["unit_convention"] == "binary"
