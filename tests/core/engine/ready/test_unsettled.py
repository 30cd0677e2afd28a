"""Unsettled deliveries: any range of numbers is intersected with the deliveries that exist."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.engine.ready.batch import Batch
from core.engine.ready.unsettled import BATCH_ENTRIES_MAX, Unsettled
from core.message import Attributes
from tests.kit.engine import PLAIN, bodies


def holding(*counts: int) -> Unsettled:
    """Unsettled deliveries in batches of these sizes. They are not alike, so they are not joined."""
    unsettled = Unsettled()
    first = 0
    for place, count in enumerate(counts):
        batch = Batch(range(first, first + count), bodies(count, first), Attributes(priority=place))
        unsettled.append(first, batch)
        first += count
    return unsettled


def taken(unsettled: Unsettled, first: int, last: int) -> list[bytes]:
    return [entry for batch in unsettled.remove(first, last) for entry in batch.entries]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 2, [0, 1, 2]),
        (0, 0, [0]),
        (1, 1, [1]),
        (2, 3, [2, 3]),
        (1, 7, [1, 2, 3, 4, 5, 6, 7]),
        (0, 2**64, list(range(9))),
        (-(2**64), -1, []),
        (9, 99, []),
        (5, 4, []),
    ],
)
def test_a_range_takes_what_it_covers(first, last, expected):
    unsettled = holding(3, 3, 3)
    assert taken(unsettled, first, last) == [b"%d" % number for number in expected]
    assert unsettled.count == 9 - len(expected)
    assert taken(unsettled, 0, 99) == [b"%d" % n for n in range(9) if n not in expected]
    assert unsettled.count == 0


def test_nothing_is_outstanding_at_first():
    assert Unsettled().remove(0, 10) == []


def test_single_deliveries_share_a_batch_up_to_its_bound():
    unsettled = Unsettled()
    for number in range(BATCH_ENTRIES_MAX + 2):
        unsettled.append(number, Batch(range(number, number + 1), bodies(1, number), PLAIN))
    batches = unsettled.remove_all()
    assert [len(batch) for batch in batches] == [BATCH_ENTRIES_MAX, 2]
    assert batches[0].sequences == range(BATCH_ENTRIES_MAX)
    assert unsettled.count == 0


def test_deliveries_do_not_share_a_batch_over_a_gap():
    unsettled = holding(3)
    unsettled.remove(2, 2)
    unsettled.append(3, Batch(range(3, 4), bodies(1, 3), Attributes(priority=0)))
    assert [taken(unsettled, n, n) for n in range(4)] == [[b"0"], [b"1"], [], [b"3"]]


@given(
    counts=st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=12),
    ranges=st.lists(st.tuples(st.integers(-2, 40), st.integers(-2, 40)), max_size=12),
)
def test_ranges_against_a_plain_set(counts, ranges):
    unsettled = Unsettled()
    outstanding: dict[int, bytes] = {}
    first = 0
    for count, durable in counts:
        entries = bodies(count, first)
        unsettled.append(first, Batch(range(first, first + count), entries, Attributes(durable=durable)))
        outstanding |= dict(enumerate(entries, first))
        first += count
    for low, high in ranges:
        expected = [outstanding.pop(number) for number in sorted(outstanding) if low <= number <= high]
        assert taken(unsettled, low, high) == expected
        assert unsettled.count == len(outstanding)
    rest = [entry for batch in unsettled.remove_all() for entry in batch.entries]
    assert rest == list(outstanding.values())
