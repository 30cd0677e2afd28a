"""The pieces of the fast paths: walking over the fields of a frame, and comparing columns of numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.wire.run_shapes import BOOLEAN, UBYTE, UINT, ZERO, leading_equal, leading_pairs, list_bounds, walk_fields

columns = st.lists(st.integers(0, 2), max_size=20).map(tuple)


@pytest.mark.parametrize(
    ("encoded", "bounds"),
    [
        (b"\x45", (1, 1, 0)),
        (b"\xc0\x01\x00", (3, 3, 0)),
        (b"\xc0\x03\x02\x40\x40", (3, 5, 2)),
        (b"\xc0\x03\xff\x40\x40more", (3, 5, 255)),
        (b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00", (9, 9, 0)),
        (b"\xd0\x00\x00\x00\x06\x00\x00\x00\x02\x40\x40", (9, 11, 2)),
    ],
)
def test_where_a_list_has_its_fields(encoded, bounds):
    assert list_bounds(encoded, 0) == bounds
    assert list_bounds(b"xx" + encoded, 2) == (bounds[0] + 2, bounds[1] + 2, bounds[2])


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\xc0",
        b"\xc0\x00\x00",
        b"\xc0\x02\x01",
        b"\xc0\x03\x02\x40",
        b"\xd0\x00\x00\x00\x03\x00\x00\x00\x00",
        b"\xd0\x00\x00\x00\x05\x00\x00\x00\x01",
        b"\xd0\xff\xff\xff\xff\x00\x00\x00\x00",
        b"\xd0\x00\x00",
    ],
)
def test_a_list_that_is_not_whole_has_none(encoded):
    with pytest.raises(IndexError):
        list_bounds(encoded, 0)


@pytest.mark.parametrize("code", [0x40, 0xC1, 0xD1, 0xE0, 0xA0])
def test_other_types_are_no_lists(code):
    with pytest.raises(KeyError):
        list_bounds(bytes((code, 1, 0)), 0)


def test_fields_are_walked_one_for_each_table():
    encoded = b"\x56\x01\x50\x09\x70\x00\x00\x00\x01\x43\x52\x00"
    values = [b"\x56\x01", b"\x50\x09", b"\x70\x00\x00\x00\x01", b"\x43", b"\x52\x00"]
    assert walk_fields(encoded, 0, (BOOLEAN, UBYTE, UINT, UINT, ZERO)) == (values, len(encoded))
    assert walk_fields(b"x" + encoded, 1, (BOOLEAN,)) == ([b"\x56\x01"], 3)
    assert walk_fields(encoded, 0, ()) == ([], 0)


@pytest.mark.parametrize("encoded", [b"\x56\x02", b"\x56", b"\x43", b"\x50\x01"])
def test_values_that_a_table_does_not_name_are_not_understood(encoded):
    assert walk_fields(encoded, 0, (BOOLEAN,)) is None


def test_a_field_that_is_not_there_is_no_field():
    with pytest.raises(IndexError):
        walk_fields(b"\x40", 0, (BOOLEAN, BOOLEAN))
    with pytest.raises(KeyError):
        walk_fields(b"\x99", 0, (BOOLEAN,))


@given(columns, st.integers(0, 2))
def test_leading_values_that_are_equal(column, value):
    leading = leading_equal(column, value)
    assert all(one == value for one in column[:leading])
    assert leading == len(column) or column[leading] != value


@given(columns.flatmap(lambda column: st.tuples(st.just(column), st.permutations(column).map(tuple))))
def test_leading_pairs_that_are_equal(both):
    column, other = both
    leading = leading_pairs(column, other)
    assert column[:leading] == other[:leading]
    assert leading == len(column) or column[leading] != other[leading]
