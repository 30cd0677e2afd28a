"""The wrappers keep apart values that are equal in Python, and ``plain`` unwraps them."""

import uuid

import pytest
from hypothesis import given

from amqp10.wire.codec import format_codes as code
from amqp10.wire.types import Array, Decimal32, Described, Int, Symbol, UInt, ULong, plain
from tests.kit.amqp10_values import values


def test_equal_numbers_of_different_types_are_different_values():
    assert len({UInt(1), ULong(1), Int(1), 1}) == 4
    assert UInt(1) == UInt(1)
    assert hash(Symbol("a")) == hash(Symbol("a"))


def test_wrappers_cannot_be_changed():
    with pytest.raises(AttributeError):
        UInt(1).value = 2  # type: ignore[misc]


def test_plain_takes_off_every_level():
    nested = Described(ULong(0x77), [UInt(1), {Symbol("key"): Array(code.UINT, (UInt(2), UInt(3)))}])
    assert plain(nested) == [1, {"key": [2, 3]}]


def test_plain_leaves_plain_values_alone():
    same = [None, True, 1, 2.5, b"x", "y", uuid.UUID(int=1), {"a": [1]}]
    assert plain(same) == same


def test_plain_of_a_decimal_is_its_bytes():
    assert plain(Decimal32(b"\x22\x50\x00\x01")) == b"\x22\x50\x00\x01"


def test_a_key_that_would_not_be_hashable_keeps_its_wrapper():
    key = Array(code.UINT, (UInt(1),))
    assert plain({key: UInt(2)}) == {key: 2}


def test_keys_that_differ_only_in_type_fall_together():
    assert plain({UInt(1): "first", ULong(1): "last"}) == {1: "last"}


@given(values)
def test_plain_leaves_no_wrapper_and_is_idempotent(value):
    stripped = plain(value)
    assert plain(stripped) == stripped
    assert not isinstance(stripped, Described | Array | UInt | Symbol)
