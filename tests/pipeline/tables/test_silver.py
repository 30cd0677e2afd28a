"""Pairing blocked with unblocked over batches, and finding open stalls, without a Spark session."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from tests.pipeline.pairing import Unwrapped

KEY = ("n", "c1")
SECOND = 1_000_000


class Connection:
    """One connection as the tester needs it. Spark gives a processor the whole key; the tester wraps it once more."""

    def __init__(self, stall_after_ms: int | None = None) -> None:
        self._tester = TwsTester(
            Unwrapped(stall_after_ms), timeMode="None" if stall_after_ms is None else "ProcessingTime"
        )

    def batch(self, *rows: Row) -> list[Row]:
        return self._tester.test(KEY, list(rows))

    def clock(self, ms: int) -> list[Row]:
        return self._tester.setProcessingTime(ms)

    @property
    def open(self) -> Sequence[object]:
        return list(self._tester.peekMapState("open", KEY))


def record(kind: str, at: float, link: str | None = "c1/0/0", since: float | None = None, **more: object) -> Row:
    fields = {
        "kind": kind, "at": round(at * SECOND), "sequence": 0, "position": 0, "link": link, "direction": "in",
        "address": "/queues/q", "reason": "disk", "culprit": "alarm disk",
        "since": None if since is None else round(since * SECOND),
    }  # fmt: skip
    return Row(**(fields | more))


def told(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    return [(row.event, row.link, row.since / SECOND, row.until / SECOND, row.ended_by) for row in rows]


def test_a_pair_is_an_interval():
    [row] = Connection().batch(record("unblocked", 3.0, since=1.0), record("blocked", 1.05, since=1.0))
    assert told([row]) == [("interval", "c1/0/0", 1.0, 3.0, "unblocked")]
    assert (row.node, row.connection, row.direction, row.seconds) == ("n", "c1", "in", 2.0)
    assert (row.address, row.reason, row.culprit) == ("/queues/q", "disk", "alarm disk")


def test_what_is_open_when_a_batch_ends_is_kept_for_the_next():
    tester = Connection()
    assert tester.batch(record("blocked", 1.05, since=1.0)) == []
    assert tester.open == [("c1/0/0", "in")]
    assert told(tester.batch(record("unblocked", 9.0, since=1.0))) == [("interval", "c1/0/0", 1.0, 9.0, "unblocked")]
    assert tester.open == []


def test_links_and_the_reader_of_a_connection_do_not_mix():
    rows = Connection().batch(
        record("blocked", 1.0, since=1.0),
        record("blocked", 2.0, link=None, since=2.0),
        record("unblocked", 3.0, link=None, since=2.0),
        record("unblocked", 4.0, since=1.0),
    )
    assert told(rows) == [
        ("interval", None, 2.0, 3.0, "unblocked"),
        ("interval", "c1/0/0", 1.0, 4.0, "unblocked"),
    ]


def test_an_end_without_a_beginning_has_all_that_there_is_to_know():
    assert told(Connection().batch(record("unblocked", 3.0, since=1.0))) == [
        ("interval", "c1/0/0", 1.0, 3.0, "unblocked")
    ]


@pytest.mark.parametrize("kind", ["link-detached", "connection-closed", "connection-opened"])
def test_what_cannot_end_any_more_ends_with_its_link_or_connection(kind: str):
    tester = Connection()
    tester.batch(record("blocked", 1.0, since=1.0))
    assert told(tester.batch(record(kind, 5.0))) == [("interval", "c1/0/0", 1.0, 5.0, kind)]
    assert tester.open == []


def test_another_link_that_is_detached_ends_nothing():
    tester = Connection()
    tester.batch(record("blocked", 1.0, since=1.0))
    assert tester.batch(record("link-detached", 5.0, link="c1/0/1")) == []
    assert tester.open == [("c1/0/0", "in")]


def test_a_lost_end_is_where_the_next_begins():
    tester = Connection()
    rows = tester.batch(record("blocked", 1.0, since=1.0), record("blocked", 4.05, since=4.0))
    assert told(rows) == [("interval", "c1/0/0", 1.0, 4.0, "blocked")]
    assert tester.open == [("c1/0/0", "in")]


def test_a_stall_is_told_by_its_timer_once_and_its_end_once():
    tester = Connection(stall_after_ms=5_000)
    tester.clock(10_000)
    assert tester.batch(record("blocked", 10.05, since=10.0)) == []
    assert tester.clock(14_999) == []
    [stall] = tester.clock(15_000)
    assert told([stall]) == [("stall", "c1/0/0", 10.0, 15.0, None)]
    assert stall.seconds == 5.0
    assert tester.clock(60_000) == []
    assert told(tester.batch(record("unblocked", 70.0, since=10.0))) == [
        ("interval", "c1/0/0", 10.0, 70.0, "unblocked"),
        ("stall-over", "c1/0/0", 10.0, 70.0, "unblocked"),
    ]


def test_a_block_that_ends_before_its_time_is_no_stall():
    tester = Connection(stall_after_ms=5_000)
    tester.clock(10_000)
    rows = tester.batch(record("blocked", 10.05, since=10.0), record("unblocked", 12.0, since=10.0))
    assert [row.event for row in rows] == ["interval"]
    assert tester.clock(20_000) == []


def test_a_stall_that_is_read_late_is_told_at_once():
    tester = Connection(stall_after_ms=5_000)
    tester.clock(100_000)
    tester.batch(record("blocked", 10.05, since=10.0))
    assert [row.event for row in tester.clock(100_001)] == ["stall"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["blocked", "unblocked", "link-detached", "connection-closed", "look"]),
        st.sampled_from(["a", "b", None]),
    ),
    max_size=30,
)


@pytest.mark.slow
@given(STEPS, st.sets(st.integers(0, 30)))
def test_intervals_do_not_depend_on_where_batches_end_and_stalls_end_as_often_as_they_are_told(steps, ends):
    def run(cuts: set[int]) -> tuple[list[Row], int]:
        tester, found, some = Connection(stall_after_ms=1_000), [], []
        tester.clock(1)
        for at, (kind, link) in enumerate(steps, start=1):
            if kind == "look":
                continue
            some.append(record(kind, at, link=link, since=at))
            if at in cuts:
                found += tester.batch(*some) + tester.clock(at * 1_000 + 1)
                some = []
        return found + tester.batch(*some), len(tester.open)

    whole, still_open = run(set())
    parts, open_after_parts = run(ends)
    assert told([row for row in parts if row.event == "interval"]) == told(whole)
    assert still_open == open_after_parts
    stalls = [row.event for row in parts if row.event != "interval"]
    assert 0 <= stalls.count("stall") - stalls.count("stall-over") <= open_after_parts
    assert all(row.seconds >= 0 for row in parts)
