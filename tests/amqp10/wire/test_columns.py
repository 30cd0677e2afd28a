"""Columns of integers that count up are those of the integers one by one."""

from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.wire.columns import counted


@given(st.integers(0, 2**32 - 2000), st.integers(0, 1500), st.sampled_from([4, 8]))
@example(0, 0, 4)
@example(255, 1, 4)
@example(255, 2, 4)
@example(2**24 - 1, 600, 4)
@example(2**32 - 1, 1, 4)
@example(2**32 - 1, 300, 8)
@example(2**64 - 300, 300, 8)
def test_columns_of_integers_that_count_up(first, n, width):
    one_by_one = [number.to_bytes(width) for number in range(first, first + n)]
    assert counted(first, n, width) == [bytes(each[byte] for each in one_by_one) for byte in range(width)]
