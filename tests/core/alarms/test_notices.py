"""Notices: they are shown with their figures, and no publisher waits for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.alarms.descriptors import FILES_MIN, RESERVED, DescriptorNotice, files_allowed, sockets_allowed
from core.alarms.event_loop_lag import REMEMBERED, LagNotice
from core.alarms.registry import NOTICES, AlarmRegistry
from core.errors import Invalid
from core.interface import Mailbox


def row(registry: AlarmRegistry, name: str) -> dict[str, object]:
    return next(row for row in registry.snapshot() if row["name"] == name)


def test_row_0_26_sockets_get_nine_tenths_less_two():
    assert sockets_allowed(924) == 829
    assert sockets_allowed(1024) == 919
    assert sockets_allowed(1) == 0


@given(total_limit=st.integers(16, 2**30))
def test_row_0_26_the_formula(total_limit: int):
    assert sockets_allowed(total_limit) == (total_limit * 9 - 20) // 10


@given(total_limit=st.integers(0, 2**20), sockets_used=st.integers(0, 2**20), more=st.integers(0, 1000))
def test_row_0_26_files_shrink_as_sockets_grow(total_limit: int, sockets_used: int, more: int):
    allowed = files_allowed(total_limit, sockets_used)
    assert FILES_MIN <= files_allowed(total_limit, sockets_used + more) <= allowed
    assert allowed == FILES_MIN or allowed + sockets_used + RESERVED == total_limit


def test_row_0_26_one_file_less_for_each_socket():
    assert [files_allowed(1024, sockets) for sockets in (0, 1, 500, 919, 2000)] == [960, 959, 460, 41, FILES_MIN]


def test_connections_that_run_out_are_a_notice():
    registry, mailbox = AlarmRegistry(), Mailbox(lambda: None)
    registry.subscribe(mailbox)
    notice = DescriptorNotice(registry, share=0.9)
    notice.sample(sockets_used=90, sockets_limit=100)
    assert row(registry, "descriptors")["on"] is False
    notice.sample(sockets_used=91, sockets_limit=100)
    shown = row(registry, "descriptors")
    assert (shown["on"], shown["level"], shown["used"], shown["limit"]) == (True, "notice", 91, 100)
    assert shown["cause"] == "91 of 100 possible connections are in use"
    assert registry.on == set()
    notice.sample(sockets_used=90, sockets_limit=100)
    assert row(registry, "descriptors")["on"] is False
    assert mailbox.take() == []


def test_a_late_event_loop_is_a_notice_until_it_has_been_in_time_for_a_while():
    registry, mailbox = AlarmRegistry(), Mailbox(lambda: None)
    registry.subscribe(mailbox)
    notice = LagNotice(registry, limit_s=0.25)
    notice.sample(0.25)
    assert row(registry, "event-loop-lag")["on"] is False
    notice.sample(0.3)
    shown = row(registry, "event-loop-lag")
    assert (shown["on"], shown["level"], shown["limit_s"], shown["worst_s"]) == (True, "notice", 0.25, 0.3)
    assert shown["cause"] == "the event loop was late by 0.300 s, the limit is 0.25 s"
    for _ in range(REMEMBERED - 1):
        notice.sample(0.0)
        assert row(registry, "event-loop-lag")["on"] is True
    notice.sample(0.0)
    assert (row(registry, "event-loop-lag")["on"], registry.on, mailbox.take()) == (False, set(), [])


@pytest.mark.parametrize("name", NOTICES)
def test_a_notice_is_no_alarm_and_cannot_be_raised_like_one(name: str):
    with pytest.raises(Invalid, match="there are disk and memory"):
        AlarmRegistry().set(name, "anybody")
    with pytest.raises(Invalid, match="there are disk and memory"):
        AlarmRegistry().clear(name, "anybody")
