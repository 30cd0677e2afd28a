"""Commands are decoded as they were encoded, and their encoding is short."""

from array import array

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.engine.quorum.commands import (
    CountersRecord,
    Delete,
    Discard,
    History,
    Messages,
    QueueKey,
    ReturnedRecord,
    Settle,
    as_ranges,
    carried_head,
    decode,
    encode,
    encode_facts,
    enqueue_head,
)
from core.message import Attributes, Origin, Route

KEYS = st.builds(QueueKey, st.integers(0, 2**63), st.integers(0, 255))
ATTRIBUTES = st.builds(
    Attributes,
    origin=st.sampled_from(Origin),
    durable=st.booleans(),
    priority=st.integers(0, 255),
    ttl_ms=st.none() | st.integers(0, 2**40),
    redelivered=st.booleans(),
)
TIMES = st.integers(0, 2**62)
ROUTES = st.none() | st.builds(
    Route, st.text(), st.lists(st.text(), min_size=1, max_size=3).map(tuple), st.none() | TIMES
)
SIZES = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9)
POSITIONS = st.lists(st.integers(0, 60), min_size=1, unique=True).map(sorted)
HISTORIES = st.builds(History, st.integers(0, 50), st.binary())


@given(KEYS, st.integers(0, 2**60), SIZES, ATTRIBUTES, st.none() | st.floats(0, 1e12), ROUTES)
def test_new_messages_are_read_as_they_were_written(key, first, sizes, attributes, expires_at, route):
    head = enqueue_head(key, first, array("I", sizes), attributes, expires_at, encode_facts(route))
    decoded_key, messages = decode(head + b"bodies")
    assert decoded_key == key
    assert isinstance(messages, Messages)
    assert (messages.attributes, messages.route, messages.carried) == (attributes, route, False)
    assert (list(messages.firsts), list(messages.counts)) == ([first], [len(sizes)])
    assert list(messages.expiries) == [float("inf") if expires_at is None else expires_at]
    assert list(messages.sizes) == sizes
    assert messages.bodies_at == len(head)
    assert (messages.histories, messages.discards) == ({}, {})


@given(
    KEYS,
    ATTRIBUTES,
    ROUTES,
    st.lists(st.tuples(st.integers(0, 2**60), st.integers(1, 9), st.floats(0, 1e12)), min_size=1, max_size=4),
    st.dictionaries(st.integers(0, 2**60), HISTORIES, max_size=3),
    st.dictionaries(st.integers(0, 2**60), st.text(), max_size=3),
    TIMES,
)
def test_carried_messages_keep_their_spans_and_what_happened_to_them(
    key, attributes, route, spans, histories, discards, time
):
    firsts, counts, expiries = zip(*spans, strict=True)
    messages = Messages(
        attributes,
        route,
        array("Q", firsts),
        array("I", counts),
        array("d", expiries),
        array("I", range(sum(counts))),
        carried=True,
        histories=histories,
        discards=discards,
        times=None if route is None or route.enqueued_ms is None else array("q", [time] * len(spans)),
    )
    head = carried_head(key, messages)
    messages.bodies_at = len(head)
    assert decode(head + b"bodies") == (key, messages)


@pytest.mark.parametrize(
    "command",
    [
        Settle([range(3, 9), range(20, 30, 3)]),
        ReturnedRecord([range(7, 8)], History(3, b"added")),
        Discard([range(7, 8), range(9, 11)], "rejected"),
        Delete(),
        CountersRecord(2**50),
    ],
)
def test_other_commands_are_read_as_they_were_written(command):
    key = QueueKey(2**40, 1)
    assert decode(encode(key, command)) == (key, command)


@given(POSITIONS)
def test_ranges_hold_the_same_positions(positions):
    ranges = as_ranges(positions)
    assert sorted(position for each in ranges for position in each) == positions


@pytest.mark.parametrize(
    ("positions", "ranges"),
    [
        (range(5, 50, 3), [range(5, 50, 3)]),
        ([4], [range(4, 5)]),
        ([4, 5, 6], [range(4, 7)]),
        ([0, 2, 4, 6], [range(0, 7, 2)]),
        ([0, 1, 2, 9, 10], [range(3), range(9, 11)]),
    ],
)
def test_regular_positions_are_few_ranges(positions, ranges):
    assert as_ranges(positions) == ranges
