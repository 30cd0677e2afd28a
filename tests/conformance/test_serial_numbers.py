"""Serial numbers, as RabbitMQ's own suite asks: the same functions, and what Headgate does in place of some of them.

Numbers are extended as soon as they come in, to integers that never wrap. After that sorting, ranges and folding are
ordinary arithmetic. Only the fields on the wire are compared and counted as serial numbers [RFC 1982].
"""

import pytest

from amqp10.flow.unsettled import DispositionBatch, UnsettledMap
from amqp10.wire import serial
from tests.kit.cases import case

TOP = 2**32 - 1


@case("serial_number_SUITE", "test_add")
def test_add():
    """[FC] test_add (serial_number_SUITE)"""
    assert serial.add(0, 1) == 1
    assert serial.add(TOP, 1) == 0
    assert serial.add(TOP - 2, 5) == 2
    assert serial.add(0, 2**31 - 1) == 2**31 - 1
    with pytest.raises(ValueError, match="2147483647"):
        serial.add(0, 2**31)


@case("serial_number_SUITE", "test_compare")
def test_compare():
    """[FC] test_compare (serial_number_SUITE): at a distance of 2^31, where RFC 1982 has no order, the first is
    behind."""
    assert [serial.compare(a, b) for a, b in ((0, 0), (1, 0), (0, 1), (0, TOP), (TOP, 0))] == [0, 1, -1, 1, -1]
    assert serial.compare(0, 2**31) == serial.compare(2**31, 0) == -1


@case("serial_number_SUITE", "test_usort")
def test_usort():
    """[FC] test_usort (serial_number_SUITE): extended, the numbers sort as integers."""
    arrived = [1, TOP, 0, TOP - 2, 3, TOP]
    extended = sorted({serial.extend(TOP, number) for number in arrived})
    assert [number & serial.MASK for number in extended] == [TOP - 2, TOP, 0, 1, 3]


@case("serial_number_SUITE", "test_ranges")
def test_ranges():
    """[FC] test_ranges (serial_number_SUITE): neighbours become one disposition, across the wrap too."""
    batch: DispositionBatch[None] = DispositionBatch()
    for number in (TOP - 1, TOP, 0, 1, 4):
        extended = serial.extend(TOP, number)
        batch.add(extended, extended, None, settled=True)
    ranges = [(pending.first & serial.MASK, pending.last & serial.MASK) for pending in batch.take()]
    assert ranges == [(TOP - 1, 1), (4, 4)]


@case("serial_number_SUITE", "test_in_range")
def test_in_range():
    """[FC] test_in_range (serial_number_SUITE)"""
    assert all(serial.in_range(number, TOP - 1, 1) for number in (TOP - 1, TOP, 0, 1))
    assert not any(serial.in_range(number, TOP - 1, 1) for number in (2, TOP - 2, 2**31))


@case("serial_number_SUITE", "test_diff")
def test_diff():
    """[FC] test_diff (serial_number_SUITE)"""
    assert [serial.diff(a, b) for a, b in ((5, 5), (7, 5), (5, 7), (0, TOP), (TOP, 0))] == [0, 2, -2, 1, -1]
    assert serial.diff(2**31 - 1, 0) == 2**31 - 1
    assert serial.diff(2**31, 0) == -(2**31)


@case("serial_number_SUITE", "test_foldl")
def test_foldl():
    """[FC] test_foldl (serial_number_SUITE): nothing goes over a range of numbers one by one; a range is intersected
    with what is unsettled, across the wrap too."""
    unsettled: UnsettledMap[str] = UnsettledMap()
    unsettled.add(serial.extend(TOP, TOP - 1), 5, "link", 0)
    first = serial.extend(TOP, TOP)
    settled = unsettled.settle(first, first + serial.diff(1, TOP))
    assert [(piece.number, piece.last_number) for piece in settled] == [(1, 3)]
    assert unsettled.count == 2
