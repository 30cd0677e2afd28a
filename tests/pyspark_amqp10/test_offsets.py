"""The arithmetic on offsets: exact for whatever there is, and checkpoints of others are recognised."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_amqp10.errors import BadOffset
from pyspark_amqp10.offsets import (
    Numbers,
    OffsetRange,
    QueueOffset,
    admitted,
    queue_json,
    queue_offsets,
    split,
    stream_json,
    stream_offsets,
)

ADDRESSES = ("/queues/a", "/queues/b", "/queues/c")
OFFSETS = st.integers(0, 2**62)
SMALL_SETS = st.frozensets(st.integers(0, 60))


@st.composite
def backlogs(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, int]]:
    start = {address: draw(st.integers(0, 10**6)) for address in ADDRESSES}
    return start, {address: offset + draw(st.integers(0, 10**5)) for address, offset in start.items()}


@given(backlogs(), st.integers(1, 10**6))
def test_a_micro_batch_takes_what_is_there_up_to_its_limit(ends: tuple[dict[str, int], dict[str, int]], rows_max: int):
    start, latest = ends
    end = admitted(start, latest, rows_max)
    assert all(start[one] <= end[one] <= latest[one] for one in start)
    backlog = sum(latest.values()) - sum(start.values())
    assert sum(end.values()) - sum(start.values()) == min(backlog, rows_max)


@given(backlogs())
def test_without_a_limit_it_takes_everything(ends: tuple[dict[str, int], dict[str, int]]):
    assert admitted(ends[0], ends[1], None) == ends[1]


def test_a_stream_that_ends_before_the_query_is_left_where_it_is():
    assert admitted({"a": 10, "b": 5}, {"a": 3, "b": 8}, 100) == {"a": 10, "b": 8}


@given(backlogs())
def test_a_limit_is_shared_out_by_backlog(ends: tuple[dict[str, int], dict[str, int]]):
    start, latest = ends
    backlog = {one: latest[one] - start[one] for one in start}
    total = sum(backlog.values())
    limit = max(1, total // 2)
    end = admitted(start, latest, limit)
    for one in start:
        assert abs((end[one] - start[one]) * total - backlog[one] * limit) <= len(start) * max(total, 1)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=4), st.integers(1, 40))
def test_ranges_are_split_without_gap_or_overlap(bounds: list[tuple[int, int]], partitions: int):
    ranges = [OffsetRange(str(index), first, first + size) for index, (first, size) in enumerate(bounds)]
    pieces = split(ranges, partitions)
    assert all(piece.end > piece.first for piece in pieces)
    for one in ranges:
        covered = [
            offset for piece in pieces if piece.address == one.address for offset in range(piece.first, piece.end)
        ]
        assert covered == list(range(one.first, one.end))
    total = sum(one.end - one.first for one in ranges)
    assert len(pieces) >= min(partitions, total)


def test_without_a_wish_each_stream_is_one_task():
    assert split([OffsetRange("a", 0, 5), OffsetRange("b", 3, 3)], None) == [OffsetRange("a", 0, 5)]


@given(st.dictionaries(st.sampled_from(ADDRESSES), OFFSETS, min_size=3))
def test_offsets_of_streams_survive_the_checkpoint(offsets: dict[str, int]):
    text = json.dumps(stream_json(offsets))
    assert stream_offsets(json.loads(text), ADDRESSES) == offsets
    assert text == json.dumps(stream_json(dict(reversed(offsets.items())))), "equal offsets have equal texts"


@given(SMALL_SETS, SMALL_SETS)
def test_sets_of_numbers_are_sets(one: frozenset[int], other: frozenset[int]):
    def members(numbers: Numbers) -> set[int]:
        return {number for first, last in numbers.ranges for number in range(first, last + 1)}

    first, second = Numbers.of(one), Numbers.of(other)
    assert members(first) == one
    assert members(first | second) == one | other
    assert members(first - second) == one - other
    assert len(first) == len(one)
    assert {number for number in range(62) if number in first} == one
    for numbers in (first, first | second, first - second):
        assert all(low <= high for low, high in numbers.ranges)
        assert all(high + 1 < low for (_, high), (low, _) in zip(numbers.ranges, numbers.ranges[1:], strict=False))


@given(SMALL_SETS, SMALL_SETS, st.integers(1, 8))
def test_numbers_are_cut_into_equal_pieces(one: frozenset[int], other: frozenset[int], count: int):
    numbers = Numbers.of(one)
    assert numbers & Numbers.of(other) == Numbers.of(one & other)
    pieces = numbers.pieces(count)
    assert [number for piece in pieces for first, last in piece.ranges for number in range(first, last + 1)] == sorted(
        one
    )
    sizes = [len(piece) for piece in pieces]
    assert len(sizes) == min(count, len(one))
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert Numbers.of_ranges(reversed(numbers.ranges)) == numbers


@given(SMALL_SETS, st.integers(1, 5))
def test_of_too_many_ranges_the_newest_are_kept(one: frozenset[int], ranges_max: int):
    numbers = Numbers.of(one)
    kept = numbers.newest(ranges_max)
    assert len(kept.ranges) == min(ranges_max, len(numbers.ranges))
    assert not (kept - numbers).ranges
    assert all(number in kept for number in one if kept.ranges and number >= kept.ranges[0][0])


@given(SMALL_SETS, st.integers(0, 2**40))
def test_offsets_of_queues_survive_the_checkpoint(one: frozenset[int], fetched: int):
    offsets = {address: QueueOffset(Numbers.of(one), fetched) for address in ADDRESSES}
    assert queue_offsets(json.loads(json.dumps(queue_json(offsets))), ADDRESSES) == offsets


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"/queues/a": 3}, "not of an amqp10 source of this version"),
        ({"amqp10": 2, "mode": "stream", "offsets": {}}, "not of an amqp10 source of this version"),
        (queue_json({"/queues/a": QueueOffset(Numbers(), 0)}), "of a query with mode 'queue', this one has 'stream'"),
        (stream_json({"/queues/x": 3}), "of a query that reads /queues/x, this one reads /queues/a"),
        ({"amqp10": 1, "mode": "stream", "offsets": {"/queues/a": "3"}}, "must be whole numbers"),
    ],
)
def test_the_checkpoint_of_another_query_is_recognised(written: dict[str, object], said: str):
    with pytest.raises(BadOffset) as caught:
        stream_offsets(written, ("/queues/a",))
    assert said in str(caught.value)


def test_a_queue_offset_that_is_none():
    with pytest.raises(BadOffset, match="it is no offset of a queue"):
        queue_offsets({"amqp10": 1, "mode": "queue", "offsets": {"/queues/a": 7}}, ("/queues/a",))
