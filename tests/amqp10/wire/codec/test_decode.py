"""The decoder: the specification's encodings, every bound, and no error but DecodeError for any bytes."""

import struct
import tracemalloc
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.errors import DecodeError, ErrorCondition
from amqp10.wire import types
from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.decode import (
    DEPTH_BEFORE_OPEN,
    DEPTH_MAX,
    PREDICTABLE_KEYS_MAX,
    ZERO_WIDTH_ELEMENTS_MAX,
    decode_value,
    skip_value,
)
from amqp10.wire.codec.encode import encode_value
from tests.kit.amqp10_values import values
from tests.kit.wire_vectors import Vector, vectors

NAMES = {name: getattr(types, name) for name in dir(types)} | {"UUID": uuid.UUID}


def decode_whole(encoded: bytes, depth_left: int = DEPTH_MAX) -> object:
    value, position = decode_value(encoded, 0, len(encoded), depth_left)
    if position != len(encoded):
        raise DecodeError(f"value ends at {position}, size is {len(encoded)}")
    return value


@pytest.mark.parametrize("vector", vectors("values.txt"), ids=str)
def test_vector(vector: Vector):
    expected = eval(vector.meaning, NAMES)
    decoded = decode_whole(vector.encoded)
    assert decoded == expected
    assert repr(decoded) == repr(expected)
    assert skip_value(vector.encoded, 0, len(vector.encoded), DEPTH_MAX) == len(vector.encoded)


@pytest.mark.parametrize("vector", vectors("malformed_values.txt"), ids=str)
def test_malformed_vector(vector: Vector):
    with pytest.raises(DecodeError, match=vector.meaning) as caught:
        decode_whole(vector.encoded)
    assert caught.value.condition == ErrorCondition.DECODE_ERROR


@given(values)
def test_round_trip(value):
    encoded = encode_value(value)
    decoded = decode_whole(encoded)
    assert decoded == value
    # Equality is not enough, because True == 1 == 1.0.
    assert repr(decoded) == repr(value)


@given(values, st.binary(max_size=9), st.binary(max_size=9))
def test_a_value_is_found_inside_a_longer_buffer(value, before, after):
    encoded = encode_value(value)
    buffer = before + encoded + after
    end = len(before) + len(encoded)
    assert decode_value(buffer, len(before), len(buffer), DEPTH_MAX) == (value, end)
    assert decode_value(buffer, len(before), end, DEPTH_MAX) == (value, end)
    assert skip_value(buffer, len(before), len(buffer), DEPTH_MAX) == end


@given(values, st.data())
def test_cut_anywhere(value, data):
    encoded = encode_value(value)
    end = data.draw(st.integers(0, len(encoded) - 1))
    # The value is cut by the end of the buffer, and by an end inside it.
    for buffer in (encoded[:end], encoded):
        with pytest.raises(DecodeError):
            decode_value(buffer, 0, end, DEPTH_MAX)
        with pytest.raises(DecodeError):
            skip_value(buffer, 0, end, DEPTH_MAX)


def check_refusal(fault: DecodeError) -> None:
    assert fault.condition == ErrorCondition.DECODE_ERROR
    assert 0 < len(fault.description) < 300


codes = st.sampled_from([c for c in range(256) if c >> 4 not in (1, 2, 3)])
garbage = st.binary(max_size=60) | st.lists(codes, max_size=40).map(bytes)


@given(garbage, st.integers(0, 8))
@settings(max_examples=400)
def test_garbage_raises_nothing_but_decode_error(buffer, depth):
    try:
        value, position = decode_value(buffer, 0, len(buffer), depth)
    except DecodeError as fault:
        check_refusal(fault)
    else:
        assert 0 < position <= len(buffer)
        assert skip_value(buffer, 0, len(buffer), depth) == position
        again = decode_whole(encode_value(value))
        assert repr(again) == repr(value)


@given(garbage, st.integers(0, 8))
def test_skipping_garbage_raises_nothing_but_decode_error(buffer, depth):
    try:
        position = skip_value(buffer, 0, len(buffer), depth)
    except DecodeError as fault:
        check_refusal(fault)
    else:
        assert 0 < position <= len(buffer)


def nested_lists(levels: int) -> bytes:
    encoded = b"\x45"
    for _ in range(levels - 1):
        encoded = b"\xd0" + struct.pack(">II", len(encoded) + 4, 1) + encoded
    return encoded


def nested_maps(levels: int) -> bytes:
    encoded = b"\x40"
    for _ in range(levels):
        encoded = b"\xd1" + struct.pack(">II", len(encoded) + 5, 2) + b"\x41" + encoded
    return encoded


def nested_arrays(levels: int) -> bytes:
    """An array of arrays of arrays. Only the outermost array has a constructor in front."""
    contents = struct.pack(">II", 5, 1) + b"\x40"
    for _ in range(levels - 1):
        contents = struct.pack(">IIB", len(contents) + 5, 1, code.ARRAY_32) + contents
    return bytes((code.ARRAY_32,)) + contents


NESTS = {
    "lists": lambda levels: nested_lists(levels + 1),
    "maps": nested_maps,
    "arrays": nested_arrays,
    "described values": lambda levels: b"\x00\x53\x01" * levels + b"\x40",
    "descriptors": lambda levels: b"\x00" * levels + b"\x53\x01" + b"\x40" * levels,
    "array descriptors": lambda levels: (
        b"\xf0" + struct.pack(">II", 4 + 3 * (levels - 1) + 1, 0) + b"\x00\x53\x01" * (levels - 1) + b"\x40"
    ),
}


@pytest.mark.parametrize("depth", [1, DEPTH_BEFORE_OPEN, DEPTH_MAX])
@pytest.mark.parametrize("kind", NESTS)
def test_depth_is_exact(kind, depth):
    decode_whole(NESTS[kind](depth), depth)
    with pytest.raises(DecodeError, match="nested deeper"):
        decode_whole(NESTS[kind](depth + 1), depth)


@pytest.mark.parametrize("kind", NESTS)
def test_six_thousand_levels_fail_fast(kind):
    encoded = NESTS[kind](6000)
    with pytest.raises(DecodeError, match="nested deeper"):
        decode_whole(encoded)


@pytest.mark.parametrize("prefix", [b"\x00\x53\x01", b"\x00"])
def test_skipping_honours_depth(prefix):
    levels = DEPTH_MAX + 1
    encoded = prefix * levels + b"\x40" * (levels + 1)
    with pytest.raises(DecodeError, match="nested deeper"):
        skip_value(encoded, 0, len(encoded), DEPTH_MAX)
    with pytest.raises(DecodeError, match="nested deeper"):
        skip_value(b"\x00" * 6000, 0, 6000, DEPTH_MAX)


def test_siblings_do_not_use_up_depth():
    flat = [[[]]] * 200
    assert decode_whole(encode_value(flat), 3) == flat


def peak_bytes(encoded: bytes) -> int:
    """The most memory that was in use while these bytes were decoded and refused."""
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode_whole(encoded)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("element", [code.UINT, code.BINARY_32, code.LIST_32, code.ARRAY_32, code.NULL, code.LIST_0])
def test_an_array_of_a_hundred_million_allocates_nothing(element):
    encoded = b"\xf0" + struct.pack(">II", 5, 100_000_000) + bytes((element,))
    assert peak_bytes(encoded) < 100_000


def test_many_arrays_of_zero_width_share_one_allowance():
    one = b"\xf0" + struct.pack(">II", 5, ZERO_WIDTH_ELEMENTS_MAX) + b"\x43"
    assert len(decode_whole(one).items) == ZERO_WIDTH_ELEMENTS_MAX
    many = b"\xd0" + struct.pack(">II", 4 + 1000 * len(one), 1000) + 1000 * one
    assert peak_bytes(many) < 3 * 8 * ZERO_WIDTH_ELEMENTS_MAX


def test_predictable_keys_are_few():
    few = {uuid.UUID(int=n): None for n in range(PREDICTABLE_KEYS_MAX)}
    assert decode_whole(encode_value(few)) == few
    with pytest.raises(DecodeError, match="64 keys"):
        decode_whole(encode_value(few | {uuid.UUID(int=99): None}))
    many = {f"key {n}": None for n in range(1000)}
    assert decode_whole(encode_value(many)) == many


def test_error_texts_are_bounded():
    with pytest.raises(DecodeError, match=r"UTF-8.*1000 long") as caught:
        decode_whole(b"\xb1\x00\x00\x03\xe8" + b"\xff" * 1000)
    assert len(str(caught.value)) < 300
    with pytest.raises(DecodeError, match="twice") as caught:
        decode_whole(
            b"\xd1" + struct.pack(">II", 4 + 2 * 506, 4) + (b"\xb1\x00\x00\x01\xf4" + b"k" * 500 + b"\x40") * 2
        )
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("item", [b"\xc0\x02\x03\x40", b"\xd0\x00\x00\x00\x04\x00\x00\x00\x01", b"\xe0\x01\x00"])
def test_skipping_compares_counts_with_sizes(item):
    with pytest.raises(DecodeError):
        skip_value(item, 0, len(item), DEPTH_MAX)
