"""The last minute of the ledger of stalls: shares by reason of stalls that last and of stalls too short to be seen, and
its bounds."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.clock import Now
from core.flow_facts import StallSubject
from core.interface import FlowReason, Snapshot
from core.observe.last_minute import PART_S, PARTS, SLICE_SUBJECTS, LastMinute
from core.observe.stalls import SLICE, Stalls

LINK = StallSubject(
    identity="c1/0/1",
    connection="c1",
    peer="127.0.0.1:40000",
    container_id="shop",
    user="guest",
    direction="in",
    address="/queues/q",
)
OTHER_LINK = replace(LINK, identity="c1/0/2")
FULL, MEMORY = FlowReason.QUEUE_FULL, FlowReason.MEMORY


def at(seconds: float) -> Now:
    return Now(seconds, 1000.0 + seconds)


class Minute:
    """A ledger with a clock that the test moves."""

    def __init__(self) -> None:
        self.now = at(0.0)
        self.stalls = Stalls(clock=lambda: self.now)

    def run(self, begin: float, end: float) -> None:
        """Let time pass, with the task that drives the ledger."""
        rounds = int((end - begin) / 0.2)
        for number in range(1, rounds + 1):
            self.remember(begin + number * (end - begin) / rounds)

    def remember(self, seconds: float) -> None:
        self.now = at(seconds)
        for _ in self.stalls.remember():
            pass

    def row(self, identity: str = LINK.identity) -> Snapshot:
        (row,) = self.stalls.last_minute(identity)
        return row


@pytest.fixture
def minute() -> Minute:
    return Minute()


def reasons(row: Snapshot) -> dict[object, object]:
    by_reason = row["by_reason"]
    assert isinstance(by_reason, list)
    return {one["reason"]: one["seconds"] for one in by_reason}


def test_what_has_not_waited_has_no_row(minute: Minute):
    minute.run(0.0, 10.0)
    assert list(minute.stalls.last_minute()) == list(minute.stalls.last_minute("c1/0/1")) == []


def test_stalls_of_milliseconds_add_up_to_the_share_that_they_take(minute: Minute):
    for number in range(30_000):  # 2 ms in each 2 ms, of which 64 % are blocked: no look at an instant sees that
        begin = number * 0.002
        minute.stalls.blocked(LINK, FULL, "queue q", at(begin))
        minute.stalls.unblocked(LINK, at(begin + 0.00128))
        if number % 100 == 99:
            minute.remember(begin + 0.002)
    row = minute.row()
    assert row["share"] == pytest.approx(0.64, abs=0.01)
    assert row["by_reason"] == [
        {"reason": "queue-full", "culprit": "queue q", "seconds": row["seconds"], "share": row["share"]}
    ]
    assert (row["identity"], row["container_id"], row["direction"]) == ("c1/0/1", "shop", "in")


def test_a_stall_that_lasts_counts_before_it_ends(minute: Minute):
    minute.stalls.blocked(LINK, FULL, "queue q", at(0.0))
    minute.run(0.0, 31.0)
    assert (minute.row()["seconds"], minute.row()["share"]) == (31.0, 1.0)
    minute.stalls.blocked(LINK, MEMORY, "alarm memory", at(31.0))
    minute.run(31.0, 40.0)
    assert reasons(minute.row()) == {"queue-full": 31.0, "memory": 9.0}


def test_what_is_older_than_a_minute_is_forgotten(minute: Minute):
    minute.stalls.blocked(LINK, FULL, "queue q", at(0.0))
    minute.stalls.unblocked(LINK, at(20.0))
    minute.run(20.0, 60.0)
    assert reasons(minute.row()) == {"queue-full": 20.0}
    minute.run(60.0, 90.0)
    assert list(minute.stalls.last_minute()) == []


def test_the_last_minute_is_never_longer_than_a_part_more(minute: Minute):
    minute.stalls.blocked(LINK, FULL, "queue q", at(0.0))
    minute.run(0.0, 300.0)
    row = minute.row()
    assert 60.0 <= float(str(row["over_seconds"])) <= 60.0 + PART_S + 0.3
    assert row["share"] == 1.0


def test_each_link_has_its_own_row(minute: Minute):
    minute.stalls.blocked(LINK, FULL, "queue q", at(0.0))
    minute.stalls.blocked(OTHER_LINK, MEMORY, "alarm memory", at(5.0))
    minute.run(0.0, 10.0)
    assert [reasons(row) for row in minute.stalls.last_minute()] == [{"queue-full": 10.0}, {"memory": 5.0}]


def test_the_culprit_is_the_one_that_was_named_last(minute: Minute):
    minute.stalls.blocked(LINK, FULL, "queue q", at(0.0))
    minute.stalls.blocked(LINK, FULL, "queue r", at(1.0))
    minute.remember(2.0)
    assert minute.row()["by_reason"] == [{"reason": "queue-full", "culprit": "queue r", "seconds": 2.0, "share": 1.0}]


def test_a_stall_that_ends_in_a_pause_is_counted_once():
    ledger = Minute()
    many = [replace(LINK, identity=f"c1/0/{number}") for number in range(3 * SLICE)]
    for who in many:
        ledger.stalls.blocked(who, FULL, "queue q", at(0.0))
    ledger.now = at(PART_S)
    work = ledger.stalls.remember()
    next(work)
    ledger.stalls.unblocked(many[-1], at(PART_S + 1.0))
    ledger.stalls.unblocked(many[0], at(PART_S + 1.0))
    for _ in work:
        pass
    ledger.remember(PART_S + 1.0)
    for who in (many[0], many[-1]):
        assert ledger.row(who.identity)["seconds"] == PART_S + 1.0


def test_subjects_beyond_the_bound_are_not_counted_until_others_are_forgotten():
    minute = LastMinute(0.0, subjects_max=1)
    minute.add(LINK, FULL, "queue q", 1.0)
    minute.add(OTHER_LINK, FULL, "queue q", 1.0)
    assert set(minute.identities) == {LINK.identity}
    for number in range(1, PARTS + 3):
        run(minute.begin_part(number * PART_S))
    minute.add(OTHER_LINK, FULL, "queue q", 1.0)
    assert set(minute.identities) == {OTHER_LINK.identity}


def test_a_part_begins_in_slices():
    minute = LastMinute(0.0)
    for number in range(3 * SLICE_SUBJECTS):
        minute.add(replace(LINK, identity=str(number)), FULL, "queue q", 1.0)
    assert run(minute.begin_part(PART_S)) == 3


def run(work: Iterator[None]) -> int:
    return sum(1 for _ in work)


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 3.0)), max_size=40))
def test_seconds_are_those_of_all_stalls_of_the_last_minute(waits: list[tuple[float, float]]):
    """The sum over stalls, each cut to what lies in the part of the time that is shown."""
    ledger, now, spans = Minute(), 0.0, []
    for pause, length in waits:
        begin, now = now + pause, now + pause + length
        ledger.stalls.blocked(LINK, FULL, "queue q", at(begin))
        ledger.stalls.unblocked(LINK, at(now))
        spans.append((begin, now))
        ledger.remember(now)
    rows = list(ledger.stalls.last_minute())
    shown = sum(float(str(row["seconds"])) for row in rows)
    most = sum(end - begin for begin, end in spans if end > now - 60.0 - 2 * PART_S - 6.0)
    least = sum(end - max(begin, now - 60.0) for begin, end in spans if end > now - 60.0)
    assert least - 0.01 <= shown <= most + 0.01
