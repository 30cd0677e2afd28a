"""The histogram of the sizes of messages."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from core.counters.message_sizes import SIZES, MessageSizes


@given(st.lists(st.integers(0, 1500), min_size=1, max_size=40), st.integers(0, 30))
def test_each_message_is_in_the_class_of_its_size(given_sizes: list[int], more: int):
    sizes = MessageSizes()
    sizes.add([bytes(size) for size in given_sizes], more)
    expected = Counter(next(i for i, bound in enumerate(SIZES) if size + more <= bound) for size in given_sizes)
    assert {place: count for place, count in enumerate(sizes.counts) if count} == expected
    assert sizes.total == sum(given_sizes) + more * len(given_sizes)


def test_what_is_above_all_bounds_is_in_the_last_class():
    sizes = MessageSizes()
    sizes.add([b"x"], SIZES[-1])
    assert sizes.counts[-1] == 1
