"""The generator's wire code, compared with byte vectors written by hand from the specification, and with itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.load import wire
from amqp10.load.wire import DescribedValue, WireError

VECTORS = [
    (wire.NULL, "40", None),
    (wire.boolean(True), "41", True),
    (wire.ubyte(7), "50 07", 7),
    (wire.ushort(258), "60 0102", 258),
    (wire.uint(0), "43", 0),
    (wire.uint(255), "52 ff", 255),
    (wire.uint(256), "70 00000100", 256),
    (wire.ulong(0), "44", 0),
    (wire.ulong(2**40), "80 0000010000000000", 2**40),
    (wire.binary(b"ab"), "a0 02 6162", b"ab"),
    (wire.string("ä"), "a1 02 c3a4", "ä"),
    (wire.symbol("ok"), "a3 02 6f6b", "ok"),
    (wire.list_of(wire.uint(1), wire.NULL), "c0 04 02 5201 40", [1, None]),
    (wire.map_of(wire.symbol("k"), wire.boolean(False)), "c1 05 02 a3016b 42", {"k": False}),
    (wire.composite(0x24), "00 53 24 c0 01 00", DescribedValue(0x24, [])),
]


@pytest.mark.parametrize(("encoded", "expected", "value"), VECTORS)
def test_values_are_encoded_and_decoded_as_specified(encoded, expected, value):
    assert encoded == bytes.fromhex(expected)
    assert wire.decode(encoded, 0) == (value, len(encoded))
    assert wire.skip(encoded, 0) == len(encoded)


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("45", []),
        ("56 01", True),
        ("54 ff", -1),
        ("81 fffffffffffffffe", -2),
        ("82 3ff0000000000000", 1.0),
        ("98 000102030405060708090a0b0c0d0e0f", bytes(range(16))),
        ("e0 07 02 a3 01 61 02 6263", ["a", "bc"]),
        ("f0 0000000b 00000002 70 00000001 00000002", None),
        ("d0 00000006 00000001 52 2a", [42]),
    ],
)
def test_what_only_brokers_send_is_understood(encoded, value):
    data = bytes.fromhex(encoded)
    if value is None:
        data, value = bytes.fromhex("f0 0000000d 00000002 70 00000001 00000002"), [1, 2]
    assert wire.decode(data, 0) == (value, len(data))
    assert wire.skip(data, 0) == len(data)


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_lists_of_any_size_come_back(items):
    encoded = wire.list_of(*map(wire.binary, items))
    assert wire.decode(encoded, 0) == (items, len(encoded))
    spans = wire.list_spans(encoded, 0)
    assert [wire.decode(encoded, start) for start, _ in spans] == [
        (item, end) for item, (_, end) in zip(items, spans, strict=True)
    ]


def test_trailing_nulls_are_left_out():
    assert wire.composite(0x18, wire.NULL, wire.uint(1), wire.NULL) == bytes.fromhex("005318 c0 04 02 40 5201")


def test_a_frame_is_decoded_with_its_payload():
    data = wire.frame(wire.composite(wire.TRANSFER, wire.uint(0)) + b"payload")
    frame = wire.decode_frame(b"..." + data, 3, len(data))
    assert frame is not None
    assert (frame.code, frame.fields, frame.payload) == (wire.TRANSFER, [0], b"payload")
    assert frame.field(5) is None


def test_an_empty_frame_is_nothing():
    assert wire.decode_frame(wire.EMPTY_FRAME, 0, 8) is None


@pytest.mark.parametrize("broken", ["3f", "a0 05 61", "e0 05 01 00 53 01 00"])
def test_what_cannot_be_understood_is_an_error(broken):
    with pytest.raises(WireError):
        wire.decode(bytes.fromhex(broken), 0)


@given(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1))
def test_serial_difference_undoes_addition(start, distance):
    assert wire.serial_difference((start + distance) & wire.SERIAL_MASK, start) == distance
