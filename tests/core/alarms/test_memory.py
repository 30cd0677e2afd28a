"""The memory alarm: on while memory in use is above a watermark. The watermark is a part of the machine's memory, or of
one gibibyte where that is unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.alarms.memory import UNKNOWN_TOTAL_BYTES, MemoryAlarm
from core.alarms.registry import BY_HAND, AlarmRegistry
from core.config.alarms import parse_watermark
from core.interface import Mailbox

GIB = 2**30


def make(
    watermark: str = "0.4", total: int | None = 8 * GIB, paging_ratio: float = 0.5
) -> tuple[MemoryAlarm, AlarmRegistry]:
    registry = AlarmRegistry()
    alarm = MemoryAlarm(
        registry,
        watermark=parse_watermark(watermark, "binary"),
        total=total,
        paging_ratio=paging_ratio,
        unit_convention="binary",
    )
    return alarm, registry


def row(registry: AlarmRegistry) -> dict[str, object]:
    return next(row for row in registry.snapshot() if row["name"] == "memory")


def test_the_alarm_is_on_above_the_limit_and_off_at_it():
    alarm, registry = make("absolute 1000", GIB)
    for used, on in [(999, False), (1001, True), (5000, True), (1000, False), (1001, True)]:
        alarm.sample(used)
        assert (registry.on == {"memory"}) is on


@pytest.mark.parametrize("total", [GIB, 8 * GIB + 1])
def test_row_0_22_a_watermark_above_half_of_all_memory_warns(total: int):
    assert make("0.5", total)[0].warning is None
    assert make(f"absolute {total // 2}", total)[0].warning is None
    for risky in ("0.51", "0.7", "1.0", f"absolute {total // 2 + 1}"):
        warning = make(risky, total)[0].warning
        assert warning is not None
        assert risky in warning
        assert "more than 0.5 of all memory" in warning


def test_row_4_18_watermark_0_is_on_whatever_is_used():
    alarm, registry = make("0")
    alarm.sample(1)
    assert registry.on == {"memory"}


@given(share=st.integers(0, 1000), total=st.integers(1, 2**44), used=st.integers(0, 2**44))
def test_row_4_18_the_limit_is_the_share_cut_to_bytes(share: int, total: int, used: int):
    alarm, registry = make(f"{share / 1000:.3f}", total)
    assert alarm.limit == share * total // 1000
    alarm.sample(used)
    assert (registry.on == {"memory"}) is (used > share * total // 1000)


def test_row_4_19_an_absolute_watermark_is_never_more_than_there_is():
    assert make("absolute 1073741824")[0].limit == GIB
    assert make("absolute 1024M")[0].limit == GIB
    assert make("absolute 100G")[0].limit == 8 * GIB


def test_row_4_21_another_watermark_holds_from_the_next_sample_on():
    alarm, registry = make("absolute 1000", GIB)
    alarm.sample(900)
    alarm.set_watermark(parse_watermark("absolute 500", "binary"), GIB)
    assert registry.on == set()
    alarm.sample(900)
    assert registry.on == {"memory"}
    alarm.set_watermark(parse_watermark("0.4", "binary"), 4 * GIB)
    assert alarm.limit == 4 * GIB * 4 // 10
    alarm.sample(900)
    assert registry.on == set()


@pytest.mark.parametrize(
    ("watermark", "ratio", "share"), [("0.4", 0.5, 0.2), ("0.4", 0.75, 0.3), ("0.4", 1.0, 0.4), ("0.4", 0.0, 0.0)]
)
def test_row_4_22_paging_begins_at_a_share_of_the_watermark(watermark: str, ratio: float, share: float):
    paging_limit = make(watermark, 1000, ratio)[0].paging_limit
    assert paging_limit == round(1000 * share)


def test_row_4_22_above_1_there_is_no_paging():
    assert make(paging_ratio=1.01)[0].paging_limit is None


def test_row_4_23_an_unknown_total_is_taken_for_a_gibibyte():
    alarm, _ = make("0.4", None)
    assert (alarm.total, alarm.total_known) == (UNKNOWN_TOTAL_BYTES, False)
    assert alarm.limit == 429_496_729
    assert alarm.limit // 2**20 == 409


def test_the_row_has_the_figures_and_the_cause():
    alarm, registry = make("absolute 1k", GIB)
    assert (row(registry)["on"], row(registry)["cause"], row(registry)["limit"]) == (False, None, 1024)
    alarm.sample(2000)
    shown = row(registry)
    assert shown["cause"] == "2000 bytes of memory are used, the limit is 1024 (watermark absolute 1k)"
    assert (shown["limit"], shown["used"], shown["total"]) == (1024, 2000, GIB)
    assert (shown["paging_limit"], shown["unit_convention"]) == (512, "binary")
    alarm.sample(3000)
    assert row(registry)["used"] == 3000


def test_what_an_operator_raised_stays():
    alarm, registry = make("absolute 1k", GIB)
    mailbox = Mailbox(lambda: None)
    registry.subscribe(mailbox)
    registry.set("memory", BY_HAND)
    alarm.sample(2000)
    alarm.sample(1)
    assert registry.on == {"memory"}
    assert [action.alarms for action in mailbox.take()] == [{"memory"}]
