"""Walks: long work that may pause behind every step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.slices import RUN_ITEMS, Walk, gathered, in_order, run_at_once

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers()), max_size=3 * RUN_ITEMS)


@given(PAIRS, st.booleans())
def test_items_come_in_the_order_of_sorted(pairs: list[tuple[int, int]], reverse: bool):
    found = run_at_once(in_order(pairs, key=lambda pair: pair[0], reverse=reverse))
    assert found == sorted(pairs, key=lambda pair: pair[0], reverse=reverse)  # equal keys keep their order


def test_a_sort_pauses_behind_each_run_and_each_item():
    items = list(range(10 * RUN_ITEMS))
    keys = 0
    most = 0

    def key(item: int) -> int:
        nonlocal keys
        keys += 1
        return -item

    for _ in in_order(items, key=key):
        most, keys = max(most, keys), 0
    assert most <= RUN_ITEMS


def test_gathering_pauses_behind_each_item():
    walk = gathered(iter("abc"))
    assert [next(walk) for _ in range(3)] == [None] * 3
    with pytest.raises(StopIteration) as end:
        next(walk)
    assert end.value.value == ["a", "b", "c"]


def test_what_a_walk_raises_is_raised():
    def failing() -> Walk[int]:
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_at_once(failing())
