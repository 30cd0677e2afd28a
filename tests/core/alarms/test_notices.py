"""Notices: they are shown with their figures, and no publisher waits for them."""

import pytest

from core.alarms.notices import REMEMBERED, DescriptorNotice, LagNotice
from core.alarms.registry import NOTICES, AlarmRegistry
from core.errors import Invalid
from core.interface import Mailbox


def row(registry: AlarmRegistry, name: str) -> dict[str, object]:
    return next(row for row in registry.snapshot() if row["name"] == name)


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
