"""Field tables and arrays [0-9-1 4.2.5.5], and short and long strings, encoded and decoded.

The types are RabbitMQ's, whose letters differ from the specification's. In Python they are:

| letter          | type of 0.9.1                                  | Python                                          |
|-----------------|------------------------------------------------|-------------------------------------------------|
| t               | boolean                                        | bool                                            |
| b B s u I i l L | integers: 8, 16, 32 and 64 bits, L is signed   | int; written as I or, when that is not enough, l |
| f d             | float, double                                  | float; written as d                             |
| D               | decimal                                        | decimal.Decimal                                 |
| S               | long string                                    | str; :class:`OpaqueString` when it is not UTF-8 |
| x               | byte array                                     | bytes                                           |
| T               | timestamp                                      | :class:`Amqp091Timestamp`                       |
| A, F            | array, table                                   | list, dict                                      |
| V               | void                                           | None                                            |

A value that is decoded and encoded again means the same, though a small integer may become wider. For any bytes,
decoding raises only Amqp091ConnectionFault with SYNTAX_ERROR. Nesting and the number of values are bounded, and so is
memory. A repeated field name is an error: the specification gives it no meaning, and one reader would take the first
field, another the last.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NoReturn

from core.amqp091.errors import SHORT_STRING_BYTES_MAX, Amqp091ConnectionFault, Amqp091EncodeError, ReplyCode, quote

DEPTH_MAX = 32
"""Levels of tables and arrays in one table; the table itself is the first level. Deaths of dead-lettered messages take
three. Decoding and encoding use two calls for a level, so both stay far from Python's limit of 1000 calls."""
VALUES_MAX = 16_384
"""Fields and elements in one table, at all its levels. A value takes up to 200 bytes of memory (a name, an entry of a
dict, an int), and the shortest only one byte on the wire: with this limit, a frame costs some 3 MiB at most."""


@dataclass(frozen=True, slots=True)
class Amqp091Timestamp:
    """Seconds since 1970, unsigned [0-9-1 4.2.5.4]."""

    seconds: int


@dataclass(frozen=True, slots=True)
class OpaqueString:
    """A long string that is not UTF-8; RabbitMQ accepts such strings, so they are kept."""

    value: bytes


FieldValue = (
    bool
    | int
    | float
    | Decimal
    | str
    | OpaqueString
    | bytes
    | Amqp091Timestamp
    | list["FieldValue"]
    | dict[str, "FieldValue"]
    | None
)
FieldTable = Mapping[str, FieldValue]


def decode_table(data: bytes, position: int) -> tuple[dict[str, FieldValue], int]:
    """Decode the table whose length is at ``position``. Returns it, and the position behind it, at most the end of
    ``data``."""
    try:
        return _decode_table(_Walk(data), position)
    except _LimitReached as fault:
        malformed(f"{fault}, at offset {position}")
    except (struct.error, IndexError):
        malformed(f"a table at offset {position} is cut at {len(data)}")


def encode_table(table: Mapping[str, FieldValue]) -> bytes:
    """Encode length and fields. Raises Amqp091EncodeError, which names a field whose value cannot be encoded."""
    try:
        return _encode_table(table, _Allowance())
    except _LimitReached as fault:
        raise Amqp091EncodeError(str(fault)) from None


def decode_short_string(data: bytes, position: int) -> tuple[str, int]:
    """Decode an octet of length, then UTF-8 [0-9-1 4.2.5.3]. Raises IndexError when ``data`` ends before it begins."""
    stop = position + 1 + data[position]
    encoded = data[position + 1 : stop]
    if stop > len(data):
        malformed(f"a short string of {data[position]} bytes at offset {position} is cut at {len(data)}")
    try:
        return encoded.decode(), stop
    except UnicodeDecodeError:
        malformed(f"the short string {quote(encoded)} is not UTF-8")


def encode_short_string(value: str) -> bytes:
    """Encode a short string. Raises Amqp091EncodeError when it is too long, or has no UTF-8 encoding."""
    encoded = _utf_8(value)
    if len(encoded) > SHORT_STRING_BYTES_MAX:
        raise Amqp091EncodeError(f"{quote(value)} takes {len(encoded)} bytes; a short string {SHORT_STRING_BYTES_MAX}")
    return bytes((len(encoded),)) + encoded


def decode_long_string(data: bytes, position: int) -> tuple[bytes, int]:
    """Decode four bytes of length, then the bytes [0-9-1 4.2.5.3]. Raises struct.error when the length is
    incomplete."""
    start = position + 4
    stop = start + _parse_length(data, position)[0]
    if stop > len(data):
        malformed(f"a long string of {stop - start} bytes at offset {position} is cut at {len(data)}")
    return data[start:stop], stop


def encode_long_string(value: bytes) -> bytes:
    """Encode length and bytes."""
    return _pack_length(len(value)) + value


def malformed(text: str) -> NoReturn:
    """Raise the fault for bytes that cannot be decoded."""
    raise Amqp091ConnectionFault(ReplyCode.SYNTAX_ERROR, text)


class _LimitReached(Exception):
    """A table is nested too deep or has too many values."""


class _Allowance:
    """What is left of one table's limits while it is decoded or encoded: levels of nesting, and values on all
    levels."""

    __slots__ = ("depth_left", "values_left")

    def __init__(self) -> None:
        self.depth_left = DEPTH_MAX
        self.values_left = VALUES_MAX

    def descend(self) -> None:
        """Enter one more level; ``self.depth_left += 1`` leaves it."""
        if not self.depth_left:
            raise _LimitReached(f"tables and arrays are nested deeper than {DEPTH_MAX} levels")
        self.depth_left -= 1

    def take_value(self) -> None:
        """Count one value."""
        if not self.values_left:
            raise _LimitReached(f"a table holds more than {VALUES_MAX} values")
        self.values_left -= 1


class _Walk:
    """Decodes the bytes of one table."""

    __slots__ = ("allowance", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.allowance = _Allowance()

    def open(self, position: int) -> tuple[int, int]:
        """Enter the table or array at ``position``; returns where its content starts and stops."""
        start = position + 4
        stop = start + _parse_length(self.data, position)[0]
        if stop > len(self.data):
            malformed(f"a table or array of {stop - start} bytes at offset {position} is cut at {len(self.data)}")
        self.allowance.descend()
        return start, stop

    def close(self, position: int, stop: int) -> None:
        """Leave it, after its content has been read up to ``position``."""
        if position != stop:
            malformed(f"the values of a table or array end at offset {position}, its length says {stop}")
        self.allowance.depth_left += 1

    def value(self, position: int) -> tuple[FieldValue, int]:
        """Decode the value whose type letter is at ``position``; returns it, and the position behind it."""
        self.allowance.take_value()
        letter = self.data[position]
        decode = _DECODERS.get(letter)
        if decode is None:
            malformed(f"{quote(chr(letter))} at offset {position} is no field type")
        return decode(self, position + 1)


def _decode_table(walk: _Walk, position: int) -> tuple[dict[str, FieldValue], int]:
    position, stop = walk.open(position)
    table: dict[str, FieldValue] = {}
    while position < stop:
        name, position = decode_short_string(walk.data, position)
        if name in table:
            malformed(f"the field {quote(name)} comes twice in a table")
        table[name], position = walk.value(position)
    walk.close(position, stop)
    return table, position


def _decode_array(walk: _Walk, position: int) -> tuple[FieldValue, int]:
    position, stop = walk.open(position)
    array: list[FieldValue] = []
    while position < stop:
        item, position = walk.value(position)
        array.append(item)
    walk.close(position, stop)
    return array, position


def _decode_boolean(walk: _Walk, position: int) -> tuple[FieldValue, int]:
    return walk.data[position] != 0, position + 1


def _decode_decimal(walk: _Walk, position: int) -> tuple[FieldValue, int]:
    places, unscaled = _parse_decimal(walk.data, position)
    return Decimal(unscaled).scaleb(-places), position + 5


def _decode_text(walk: _Walk, position: int) -> tuple[FieldValue, int]:
    value, position = decode_long_string(walk.data, position)
    try:
        return value.decode(), position
    except UnicodeDecodeError:
        return OpaqueString(value), position


def _decode_bytes(walk: _Walk, position: int) -> tuple[FieldValue, int]:
    return decode_long_string(walk.data, position)


def _decode_timestamp(walk: _Walk, position: int) -> tuple[FieldValue, int]:
    return Amqp091Timestamp(_parse_timestamp(walk.data, position)[0]), position + 8


def _decode_void(_walk: _Walk, position: int) -> tuple[FieldValue, int]:
    return None, position


def _fixed(form: str) -> "_Decoder":
    packed = struct.Struct(">" + form)
    parse, size = packed.unpack_from, packed.size

    def decode(walk: _Walk, position: int) -> tuple[FieldValue, int]:
        return parse(walk.data, position)[0], position + size

    return decode


_Decoder = Callable[[_Walk, int], tuple[FieldValue, int]]
"""Decodes the bytes behind a type letter: returns the value, and the position behind it."""

_DECODERS: Mapping[int, _Decoder] = {
    ord("t"): _decode_boolean,
    ord("b"): _fixed("b"),
    ord("B"): _fixed("B"),
    ord("s"): _fixed("h"),
    ord("u"): _fixed("H"),
    ord("I"): _fixed("i"),
    ord("i"): _fixed("I"),
    ord("l"): _fixed("q"),
    ord("L"): _fixed("q"),
    ord("f"): _fixed("f"),
    ord("d"): _fixed("d"),
    ord("D"): _decode_decimal,
    ord("S"): _decode_text,
    ord("x"): _decode_bytes,
    ord("T"): _decode_timestamp,
    ord("A"): _decode_array,
    ord("F"): _decode_table,
    ord("V"): _decode_void,
}


def _encode_table(table: Mapping[str, FieldValue], allowance: _Allowance) -> bytes:
    allowance.descend()
    encoded = []
    for name, value in table.items():
        encoded.append(encode_short_string(name))
        try:
            encoded.append(_encode_value(value, allowance))
        except (struct.error, Amqp091EncodeError) as fault:
            raise Amqp091EncodeError(f"{quote(name)}: {fault}") from None
    allowance.depth_left += 1
    return encode_long_string(b"".join(encoded))


def _encode_array(array: list[FieldValue], allowance: _Allowance) -> bytes:
    allowance.descend()
    encoded = b"".join([_encode_value(item, allowance) for item in array])
    allowance.depth_left += 1
    return encode_long_string(encoded)


def _encode_value(value: FieldValue, allowance: _Allowance) -> bytes:
    allowance.take_value()
    match value:
        case bool():
            return b"t\x01" if value else b"t\x00"
        case int():
            return _pack_int(b"I", value) if INT_MIN <= value <= INT_MAX else _pack_long(b"l", value)
        case str():
            return b"S" + encode_long_string(_utf_8(value))
        case bytes():
            return b"x" + encode_long_string(value)
        case float():
            return _pack_double(b"d", value)
        case None:
            return b"V"
        case dict():
            return b"F" + _encode_table(value, allowance)
        case list():
            return b"A" + _encode_array(value, allowance)
        case Amqp091Timestamp():
            return _pack_timestamp(b"T", value.seconds)
        case Decimal():
            return _encode_decimal(value)
        case OpaqueString():
            return b"S" + encode_long_string(value.value)
    raise Amqp091EncodeError(f"a {type(value).__name__} has no type in a table")


def _encode_decimal(value: Decimal) -> bytes:
    """Encode the number of decimal places, then the digits without the point. The number is unsigned, so 1E+3 becomes
    1000."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise Amqp091EncodeError(f"{value} is no number")
    places = max(0, -exponent)
    if value.adjusted() + places >= INT_DIGITS_MAX:
        raise Amqp091EncodeError(f"{value} has more than {INT_DIGITS_MAX} digits")
    return _pack_decimal(b"D", places, int(value.scaleb(places)))


def _utf_8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Amqp091EncodeError(f"{quote(text)} has no UTF-8 encoding") from None


INT_MIN, INT_MAX = -(2**31), 2**31 - 1
INT_DIGITS_MAX = 10
"""The digits of INT_MAX. This is checked before a number like 1E+1000000 is written out."""

_parse_length = struct.Struct(">I").unpack_from
_pack_length = struct.Struct(">I").pack
_parse_decimal = struct.Struct(">Bi").unpack_from
_parse_timestamp = struct.Struct(">Q").unpack_from
_pack_int = struct.Struct(">ci").pack
_pack_long = struct.Struct(">cq").pack
_pack_double = struct.Struct(">cd").pack
_pack_timestamp = struct.Struct(">cQ").pack
_pack_decimal = struct.Struct(">cBi").pack
