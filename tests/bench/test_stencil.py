"""Columns of numbers over many equal frames: written and read back exactly, whatever bytes are around them."""

from hypothesis import given
from hypothesis import strategies as st

from amqp10.load.stencil import FEW, Stencil, equal_prefix, packed, read_column


@given(
    numbers=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3 * FEW),
    before=st.binary(max_size=9),
    after=st.binary(max_size=9),
)
def test_what_is_written_is_read_back_and_the_rest_stays(numbers, before, after):
    stencil = Stencil(before + bytes(8) + after, len(numbers) + 2)
    stencil.write((len(before) + 4,), numbers, width=4)
    data = bytes(stencil.take(len(numbers)))
    assert data == b"".join(before + bytes(4) + packed([n], width=4) + after for n in numbers)
    column = read_column(data, len(before), stride=stencil.stride, count=len(numbers), width=8)
    assert list(column) == numbers


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_equal_prefix_counts_frames_that_agree_with_the_first(column):
    data = b"".join(bytes((7, byte, 9)) for byte in column)
    expected = next((k for k, byte in enumerate(column) if byte != column[0]), len(column))
    assert equal_prefix(data, 1, stride=3, count=len(column)) == expected
