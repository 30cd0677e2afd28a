"""The encoder: the smallest encoding of each value, and EncodeError for values that have none."""

import uuid
from enum import StrEnum

import pytest
from hypothesis import given

from amqp10.errors import EncodeError
from amqp10.wire import types
from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.decode import decode_value
from amqp10.wire.codec.encode import DEPTH_MAX, encode_symbols, encode_value
from amqp10.wire.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from tests.kit.amqp10_values import arrays
from tests.kit.wire_vectors import Vector, vectors

NAMES = {name: getattr(types, name) for name in dir(types)} | {"UUID": uuid.UUID}


@pytest.mark.parametrize("vector", [v for v in vectors("values.txt") if not v.alternative], ids=str)
def test_vector(vector: Vector):
    assert encode_value(eval(vector.meaning, NAMES)) == vector.encoded


@given(arrays)
def test_an_array_keeps_its_constructor(array):
    encoded = encode_value(array)
    decoded, _ = decode_value(encoded, 0, len(encoded), DEPTH_MAX)
    assert decoded == array
    assert encode_value(decoded) == encoded


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [
        UByte(256),
        UByte(-1),
        UShort(65536),
        UInt(2**32),
        UInt(-1),
        ULong(2**64),
        ULong(-1),
        Byte(128),
        Short(2**15),
        Int(2**31),
        2**63,
        -(2**63) - 1,
        Float(1e300),
        Float("x"),
        Char(""),
        Char("ab"),
        Char("\ud800"),
        Timestamp(2**63),
        Decimal32(b"123"),
        Decimal64(b""),
        Decimal128(b"x" * 15),
        Symbol("ä"),
        Symbol(1),
        UInt("1"),
        "\ud800",
        ...,
        {1, 2},
        (1, 2),
        bytearray(b"x"),
        Colour.RED,
        [...],
        {...: 1},
        Described(..., 1),
        Array(code.DESCRIBED, ()),
        Array(0x57, ()),
        Array(code.UINT, (ULong(1),)),
        Array(code.SMALL_UINT, (UInt(256),)),
        Array(code.UINT_0, (UInt(1),)),
        Array(code.BOOLEAN_TRUE, (False,)),
        Array(code.BOOLEAN, (1,)),
        Array(code.LIST_0, ([1],)),
        Array(code.SYMBOL_8, (Symbol("x" * 256),)),
        Array(code.LIST_8, (["x" * 256],)),
        Array(code.CHAR, (Char("ab"),)),
        Array(code.STRING_8, ("\ud800",)),
        Array(code.UINT, (), (...,)),
    ],
    ids=repr,
)
def test_no_encoding(value):
    with pytest.raises(EncodeError):
        encode_value(value)


def test_depth_is_bounded_also_for_a_value_inside_itself():
    endless: list[object] = []
    endless.append(endless)
    for value in (endless, {"x": endless}, Described(ULong(1), endless)):
        with pytest.raises(EncodeError, match="nested"):
            encode_value(value)
    with pytest.raises(EncodeError, match="nested"):
        encode_value(Array(code.UINT, (), (ULong(1),) * DEPTH_MAX))


@pytest.mark.parametrize(
    ("value", "constructor"),
    [
        ([None] * 254, code.LIST_8),
        ([None] * 255, code.LIST_32),
        ({b"x" * 249: None}, code.MAP_8),
        ({b"x" * 252: None}, code.MAP_32),
        (b"x" * 255, code.BINARY_8),
        (b"x" * 256, code.BINARY_32),
        ("ä" * 127, code.STRING_8),
        ("ä" * 128, code.STRING_32),
        (Symbol("x" * 255), code.SYMBOL_8),
        (Symbol("x" * 256), code.SYMBOL_32),
        (Array(code.UBYTE, (UByte(1),) * 253), code.ARRAY_8),
        (Array(code.UBYTE, (UByte(1),) * 254), code.ARRAY_32),
        (Array(code.NULL, (None,) * 255), code.ARRAY_8),
        (Array(code.NULL, (None,) * 256), code.ARRAY_32),
    ],
)
def test_the_edge_between_narrow_and_wide(value, constructor):
    encoded = encode_value(value)
    assert encoded[0] == constructor
    assert decode_value(encoded, 0, len(encoded), DEPTH_MAX) == (value, len(encoded))


def test_symbols_become_an_array_as_wide_as_the_longest():
    assert encode_symbols(("a", "b")) == bytes.fromhex("e006 02 a3 0161 0162")
    wide = encode_symbols(("a", "b" * 256))
    array, _ = decode_value(wide, 0, len(wide), DEPTH_MAX)
    assert array == Array(code.SYMBOL_32, (Symbol("a"), Symbol("b" * 256)))
