"""Serial numbers compared with unbounded integers, everywhere on the circle."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.wire import serial

HALF = 2**31
serials = st.integers(0, serial.MASK)
near_edges = st.sampled_from([0, 1, HALF - 1, HALF, HALF + 1, serial.MASK - 1, serial.MASK])
any_serial = serials | near_edges
distances = st.integers(-HALF, HALF - 1) | st.sampled_from([-HALF, -HALF + 1, -1, 0, 1, HALF - 1])


@given(any_serial, st.integers(0, HALF - 1))
def test_add_keeps_the_order(a, n):
    total = serial.add(a, n)
    assert total == (a + n) % 2**32
    assert serial.diff(total, a) == n
    assert serial.compare(total, a) == (1 if n else 0)


@pytest.mark.parametrize("n", [-1, HALF, 2**32])
def test_add_refuses_what_has_no_order(n):
    with pytest.raises(ValueError, match="2147483647"):
        serial.add(0, n)


@given(any_serial, any_serial)
def test_advance_takes_any_uint_and_can_be_undone(a, n):
    limit = serial.advance(a, n)
    assert limit == (a + n) % 2**32
    assert (limit - a) & serial.MASK == n


@given(any_serial, distances)
def test_diff_is_the_distance(a, distance):
    assert serial.diff((a + distance) & serial.MASK, a) == distance


@given(any_serial, any_serial)
def test_compare_is_the_sign_of_diff(a, b):
    distance = serial.diff(a, b)
    assert serial.compare(a, b) == (distance > 0) - (distance < 0)


@given(any_serial)
def test_half_the_circle_away_counts_as_behind(a):
    opposite = (a + HALF) & serial.MASK
    assert serial.diff(opposite, a) == serial.diff(a, opposite) == -HALF
    assert serial.compare(opposite, a) == serial.compare(a, opposite) == -1


@given(any_serial, st.integers(0, 1000), st.integers(-2000, 2000))
@example(serial.MASK, 2, 1)
@example(serial.MASK, 2, 3)
def test_in_range_around_the_wrap(first, length, offset):
    last = (first + length) & serial.MASK
    assert serial.in_range((first + offset) & serial.MASK, first, last) == (0 <= offset <= length)


@given(st.integers(-(2**40), 2**40), distances)
def test_extend_finds_the_nearest(reference, distance):
    extended = reference + distance
    assert serial.extend(reference, extended & serial.MASK) == extended


def test_extend_across_the_wrap():
    assert serial.extend(2**32 - 1, 0) == 2**32
    assert serial.extend(2**32, 2**32 - 1) == 2**32 - 1
    assert serial.extend(0, 2**32 - 1) == -1
