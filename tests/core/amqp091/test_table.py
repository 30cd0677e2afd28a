"""Field tables: every type in both directions, and every bound."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.amqp091.errors import Amqp091ConnectionFault, Amqp091EncodeError, ReplyCode
from core.amqp091.table import (
    DEPTH_MAX,
    VALUES_MAX,
    Amqp091Timestamp,
    FieldValue,
    OpaqueString,
    decode_long_string,
    decode_short_string,
    decode_table,
    encode_long_string,
    encode_short_string,
    encode_table,
)
from tests.kit.wire_vectors import Vector, vectors

NAMES = {"Decimal": Decimal, "OpaqueString": OpaqueString, "Timestamp": Amqp091Timestamp}


def not_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


names = st.text(st.characters(codec="utf-8"), max_size=60)
decimals = st.builds(
    lambda unscaled, places: Decimal(unscaled).scaleb(-places), st.integers(-(2**31), 2**31 - 1), st.integers(0, 255)
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | decimals
    | st.text(st.characters(codec="utf-8"), max_size=20)
    | st.binary(max_size=20)
    | st.builds(OpaqueString, st.binary(max_size=20).filter(not_utf_8))
    | st.builds(Amqp091Timestamp, st.integers(0, 2**64 - 1)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)
tables = st.dictionaries(names, values, max_size=8)


def field(encoded: bytes) -> bytes:
    """A table with one field named v. Its value starts at offset 6."""
    return encode_long_string(b"\x01v" + encoded)


def nested(levels: int) -> bytes:
    """This many tables, each the only field of the one around it."""
    encoded = encode_long_string(b"")
    for _ in range(levels - 1):
        encoded = encode_long_string(b"\x00F" + encoded)
    return encoded


@pytest.mark.parametrize("vector", vectors("amqp091/values.txt"), ids=str)
def test_vector(vector: Vector):
    table = {"v": eval(vector.meaning, NAMES)}
    encoded = field(vector.encoded)
    assert repr(decode_table(encoded, 0)) == repr((table, len(encoded)))
    if not vector.alternative:
        assert encode_table(table) == encoded


@pytest.mark.parametrize("vector", vectors("amqp091/malformed_values.txt"), ids=str)
def test_malformed_vector(vector: Vector):
    with pytest.raises(Amqp091ConnectionFault) as caught:
        decode_table(field(vector.encoded), 0)
    assert caught.value.code is ReplyCode.SYNTAX_ERROR
    assert vector.meaning in caught.value.text


@given(tables, st.binary(max_size=4), st.binary(max_size=4))
def test_what_is_written_reads_the_same(table, before, behind):
    encoded = encode_table(table)
    decoded, position = decode_table(before + encoded + behind, len(before))
    assert repr(decoded) == repr(table)
    assert position == len(before) + len(encoded)


@given(tables, st.data())
def test_cut_anywhere(table, data):
    encoded = encode_table(table)
    with pytest.raises(Amqp091ConnectionFault):
        decode_table(encoded[: data.draw(st.integers(0, len(encoded) - 1))], 0)


@given(st.floats(allow_nan=False, width=32))
def test_a_float_becomes_a_double_of_the_same_value(value: float):
    table, _ = decode_table(encode_table({"v": value}), 0)
    assert table == {"v": value}


def test_not_a_number_stays_so():
    table, _ = decode_table(encode_table({"v": math.nan}), 0)
    assert isinstance(table["v"], float)
    assert math.isnan(table["v"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**63, "'v': "),
        (-(2**63) - 1, "'v': "),
        (Amqp091Timestamp(-1), "'v': "),
        (Amqp091Timestamp(2**64), "'v': "),
        (Decimal("NaN"), "NaN is no number"),
        (Decimal("-Infinity"), "-Infinity is no number"),
        (Decimal(2**31), "'v': "),
        (Decimal("1E+10"), "more than 10 digits"),
        (Decimal("1E+999999"), "more than 10 digits"),
        (Decimal("1E-256"), "'v': "),
        ("\ud800", "no UTF-8 encoding"),
        ({"k": "\ud800"}, "'v': 'k': "),
        (..., "a ellipsis has no type in a table"),
        ([1, {1, 2}], "a set has no type in a table"),
    ],
    ids=repr,
)
def test_a_value_without_an_encoding_names_its_field(value: FieldValue, text: str):
    with pytest.raises(Amqp091EncodeError) as caught:
        encode_table({"v": value})
    assert text in str(caught.value)


def test_decimals_with_a_positive_exponent_are_written_out():
    table, _ = decode_table(encode_table({"v": Decimal("1.2E+3")}), 0)
    assert str(table["v"]) == "1200"


def test_nesting_up_to_the_limit():
    table, end = decode_table(nested(DEPTH_MAX), 0)
    assert encode_table(table) == nested(DEPTH_MAX)
    assert end == len(nested(DEPTH_MAX))


def test_nesting_beyond_the_limit():
    text = f"nested deeper than {DEPTH_MAX} levels"
    with pytest.raises(Amqp091ConnectionFault, match=text) as caught:
        decode_table(nested(DEPTH_MAX + 1), 0)
    assert caught.value.code is ReplyCode.SYNTAX_ERROR
    table: dict[str, FieldValue] = {}
    for _ in range(DEPTH_MAX):
        table = {"": table}
    with pytest.raises(Amqp091EncodeError, match=text):
        encode_table(table)


def test_arrays_count_as_levels():
    array: list[FieldValue] = []
    for _ in range(DEPTH_MAX - 2):
        array = [array]
    encoded = encode_table({"v": array})
    assert decode_table(encoded, 0) == ({"v": array}, len(encoded))
    with pytest.raises(Amqp091EncodeError, match="nested deeper"):
        encode_table({"v": [array]})
    with pytest.raises(Amqp091ConnectionFault, match="nested deeper"):
        decode_table(field(b"A" + encode_long_string(encoded[6:])), 0)


def test_levels_side_by_side_are_not_deep():
    table: dict[str, FieldValue] = {"v": [[], {}] * 100}
    encoded = encode_table(table)
    assert decode_table(encoded, 0) == (table, len(encoded))


def test_the_number_of_values_is_bounded():
    full: dict[str, FieldValue] = {"v": [None] * (VALUES_MAX - 1)}
    encoded = encode_table(full)
    assert decode_table(encoded, 0) == (full, len(encoded))
    text = f"holds more than {VALUES_MAX} values"
    with pytest.raises(Amqp091ConnectionFault, match=text):
        decode_table(field(b"A" + encode_long_string(b"V" * VALUES_MAX)), 0)
    with pytest.raises(Amqp091EncodeError, match=text):
        encode_table({"v": [None] * VALUES_MAX})


@given(st.text(st.characters(codec="utf-8"), max_size=100))
def test_short_strings(text: str):
    if len(text.encode()) > 255:
        with pytest.raises(Amqp091EncodeError, match="255"):
            encode_short_string(text)
    else:
        encoded = encode_short_string(text)
        assert decode_short_string(b"?" + encoded + b"?", 1) == (text, 1 + len(encoded))


def test_the_longest_short_string():
    assert encode_short_string("n" * 255) == b"\xff" + b"n" * 255
    with pytest.raises(Amqp091EncodeError, match="takes 256 bytes"):
        encode_short_string("n" * 256)


@given(st.binary(max_size=300))
def test_long_strings(value: bytes):
    encoded = encode_long_string(value)
    assert decode_long_string(b"?" + encoded + b"?", 1) == (value, 1 + len(encoded))
