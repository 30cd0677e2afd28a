"""Encodes values to bytes, each in the smallest encoding that its type has [1.6].

The encoder trusts its caller's types and checks their ranges. A value without an encoding is an :class:`EncodeError`,
and so is nesting deeper than our decoder accepts. Arrays are the exception to the smallest encoding: their
``constructor_code`` is used as given, so that an array decodes and encodes to the same bytes.
"""

import struct
import uuid
from collections.abc import Callable, Sequence

from amqp10.errors import EncodeError, quote
from amqp10.wire.codec import format_codes as code
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

DEPTH_MAX = 64
"""Levels of nesting that are encoded: the same as the decoder accepts from an authenticated peer."""

UNENCODABLE = (struct.error, TypeError, ValueError, OverflowError, AttributeError)
"""The exceptions that Python's packers raise for a value of the wrong type or out of range."""

_pack_code_uint8 = struct.Struct(">BB").pack
_pack_code_uint16 = struct.Struct(">BH").pack
_pack_code_uint32 = struct.Struct(">BI").pack
_pack_code_uint64 = struct.Struct(">BQ").pack
_pack_code_int8 = struct.Struct(">Bb").pack
_pack_code_int64 = struct.Struct(">Bq").pack
_pack_code_counts_8 = struct.Struct(">BBB").pack
_pack_code_counts_32 = struct.Struct(">BII").pack


def encode_value(value: object) -> bytes:
    """The encoding of a value of any type that ``amqp10/wire/types.py`` maps to AMQP. Raises only EncodeError."""
    try:
        return _encode(value, DEPTH_MAX)
    except UNENCODABLE as fault:
        raise EncodeError(f"{quote(value)} cannot be encoded: {fault}") from None


def _encode(value: object, depth_left: int) -> bytes:
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        raise EncodeError(f"a {type(value).__name__} has no AMQP type")
    return encoder(value, depth_left)


def encode_boolean(value: bool) -> bytes:
    """One byte [1.6.2]."""
    return b"\x41" if value else b"\x42"


def encode_ubyte(value: int) -> bytes:
    """Two bytes [1.6.3]."""
    return _pack_code_uint8(code.UBYTE, value)


def encode_ushort(value: int) -> bytes:
    """Three bytes [1.6.4]."""
    return _pack_code_uint16(code.USHORT, value)


def encode_uint(value: int) -> bytes:
    """One, two or five bytes [1.6.5]."""
    if value > 0xFF:
        return _pack_code_uint32(code.UINT, value)
    return _pack_code_uint8(code.SMALL_UINT, value) if value else b"\x43"


def encode_ulong(value: int) -> bytes:
    """One, two or nine bytes [1.6.6]."""
    if value > 0xFF:
        return _pack_code_uint64(code.ULONG, value)
    return _pack_code_uint8(code.SMALL_ULONG, value) if value else b"\x44"


def encode_long(value: int) -> bytes:
    """Two or nine bytes [1.6.10]."""
    if -128 <= value <= 127:
        return _pack_code_int8(code.SMALL_LONG, value)
    return _pack_code_int64(code.LONG, value)


def encode_binary(value: bytes) -> bytes:
    """Size and bytes [1.6.19]."""
    return _sized(value, code.BINARY_8, code.BINARY_32)


def encode_string(value: str) -> bytes:
    """Size and UTF-8 [1.6.20]. Raises EncodeError for a lone surrogate."""
    try:
        return _sized(value.encode(), code.STRING_8, code.STRING_32)
    except UnicodeEncodeError:
        raise EncodeError(f"{quote(value)} has no UTF-8 encoding") from None


def encode_symbol(value: str) -> bytes:
    """Size and ASCII [1.6.21]. Raises EncodeError for other characters."""
    try:
        return _sized(value.encode("ascii"), code.SYMBOL_8, code.SYMBOL_32)
    except UnicodeEncodeError:
        raise EncodeError(f"{quote(value)} is no symbol: only ASCII characters are allowed") from None


def encode_list_of(encoded: Sequence[bytes]) -> bytes:
    """A list from its already encoded elements [1.6.22]."""
    if not encoded:
        return b"\x45"
    body, count = b"".join(encoded), len(encoded)
    if len(body) < 0xFF and count <= 0xFF:  # as in _compound, without the call
        return _pack_code_counts_8(code.LIST_8, len(body) + 1, count) + body
    return _compound(body, count, code.LIST_8, code.LIST_32)


def encode_map_of(encoded: Sequence[bytes]) -> bytes:
    """A map from its already encoded keys and values, in turn [1.6.23]."""
    return _compound(b"".join(encoded), len(encoded), code.MAP_8, code.MAP_32)


def encode_symbols(values: Sequence[str]) -> bytes:
    """An array of symbols [1.6.24], for a field that is marked ``multiple`` [1.4]."""
    wide = any(len(value) > 0xFF for value in values)
    constructor_code = code.SYMBOL_32 if wide else code.SYMBOL_8
    return encode_value(Array(constructor_code, tuple(Symbol(value) for value in values)))


def _sized(encoded: bytes, code_8: int, code_32: int) -> bytes:
    if len(encoded) <= 0xFF:
        return _pack_code_uint8(code_8, len(encoded)) + encoded
    return _pack_code_uint32(code_32, len(encoded)) + encoded


def _compound(body: bytes, count: int, code_8: int, code_32: int) -> bytes:
    # The size covers the count too: one byte or four.
    if len(body) < 0xFF and count <= 0xFF:
        return _pack_code_counts_8(code_8, len(body) + 1, count) + body
    return _pack_code_counts_32(code_32, len(body) + 4, count) + body


def _deeper(depth_left: int) -> int:
    if depth_left <= 0:
        raise EncodeError(f"values are nested deeper than {DEPTH_MAX} levels")
    return depth_left - 1


def _encode_list(value: list[object], depth_left: int) -> bytes:
    if not value:
        return encode_list_of(())  # no value is nested in it, and the decoder counts no level either
    depth_left = _deeper(depth_left)
    return encode_list_of([_encode(item, depth_left) for item in value])


def _encode_map(value: dict[object, object], depth_left: int) -> bytes:
    depth_left = _deeper(depth_left)
    encoded = []
    for key, item in value.items():
        encoded.append(_encode(key, depth_left))
        encoded.append(_encode(item, depth_left))
    return encode_map_of(encoded)


def _encode_described(value: Described, depth_left: int) -> bytes:
    depth_left = _deeper(depth_left)
    return b"\x00" + _encode(value.descriptor, depth_left) + _encode(value.value, depth_left)


def _encode_array(value: Array, depth_left: int) -> bytes:
    depth_left = _deeper(depth_left)
    constructor = b""
    for descriptor in value.descriptors:
        depth_left = _deeper(depth_left)
        constructor += b"\x00" + _encode(descriptor, depth_left)
    element_type, encode_element = _element_encoder(value.constructor_code)
    encoded = [constructor, bytes((value.constructor_code,))]
    for item in value.items:
        if type(item) is not element_type:
            raise EncodeError(f"{quote(item)} in an array of format code 0x{value.constructor_code:02x}")
        encoded.append(encode_element(item, depth_left))
    return _compound(b"".join(encoded), len(value.items), code.ARRAY_8, code.ARRAY_32)


def _element_encoder(constructor_code: int) -> tuple[type, "_Encoder"]:
    element = _ELEMENTS.get(constructor_code)
    if element is None:
        raise EncodeError(f"an array cannot have elements of format code {constructor_code!r}")
    return element


_Encoder = Callable[..., bytes]
"""(value, depth_left) to bytes. The parameter's type is the key under which a table below holds the encoder."""

_ENCODERS: dict[type, _Encoder] = {
    type(None): lambda _, __: b"\x40",
    bool: lambda value, _: encode_boolean(value),
    int: lambda value, _: encode_long(value),
    float: lambda value, _: struct.pack(">Bd", code.DOUBLE, value),
    bytes: lambda value, _: encode_binary(value),
    str: lambda value, _: encode_string(value),
    uuid.UUID: lambda value, _: bytes((code.UUID,)) + value.bytes,
    list: _encode_list,
    dict: _encode_map,
    UByte: lambda value, _: encode_ubyte(value.value),
    UShort: lambda value, _: encode_ushort(value.value),
    UInt: lambda value, _: encode_uint(value.value),
    ULong: lambda value, _: encode_ulong(value.value),
    Byte: lambda value, _: _pack_code_int8(code.BYTE, value.value),
    Short: lambda value, _: struct.pack(">Bh", code.SHORT, value.value),
    Int: lambda value, _: _encode_int(value.value),
    Float: lambda value, _: struct.pack(">Bf", code.FLOAT, value.value),
    Decimal32: lambda value, _: bytes((code.DECIMAL32,)) + _exactly(value.value, 4),
    Decimal64: lambda value, _: bytes((code.DECIMAL64,)) + _exactly(value.value, 8),
    Decimal128: lambda value, _: bytes((code.DECIMAL128,)) + _exactly(value.value, 16),
    Char: lambda value, _: bytes((code.CHAR,)) + _char(value.value),
    Timestamp: lambda value, _: _pack_code_int64(code.TIMESTAMP, value.value),
    Symbol: lambda value, _: encode_symbol(value.value),
    Array: _encode_array,
    Described: _encode_described,
}


def _encode_int(value: int) -> bytes:
    if -128 <= value <= 127:
        return _pack_code_int8(code.SMALL_INT, value)
    return struct.pack(">Bi", code.INT, value)


def _exactly(value: bytes, width: int) -> bytes:
    if len(value) != width:
        raise EncodeError(f"a decimal of {width} bytes cannot have {len(value)}")
    return value


def _char(value: str) -> bytes:
    try:
        encoded = value.encode("utf-32-be")
    except UnicodeEncodeError:
        encoded = b""
    if len(encoded) != 4:
        raise EncodeError(f"{quote(value)} is not one Unicode scalar value")
    return encoded


def _fixed(layout: str) -> _Encoder:
    """The encoder of elements that are one wrapped number each."""
    pack = struct.Struct(layout).pack
    return lambda item, _: pack(item.value)


def _plain(layout: str) -> _Encoder:
    """The encoder of elements that are plain Python numbers."""
    pack = struct.Struct(layout).pack
    return lambda item, _: pack(item)


def _nothing(only: object) -> _Encoder:
    """The encoder of elements without bytes: each must be the one value that the format code stands for."""

    def encode(item: object, _depth_left: int) -> bytes:
        if item != only:
            raise EncodeError(f"{quote(item)} cannot be encoded without bytes")
        return b""

    return encode


def _with_size(layout: str, raw: Callable[..., bytes]) -> _Encoder:
    """The encoder of elements that are a size and as many bytes."""
    pack = struct.Struct(layout).pack

    def encode(item: object, _depth_left: int) -> bytes:
        encoded = raw(item)
        return pack(len(encoded)) + encoded

    return encode


def _without_constructor(layout: str, encode: _Encoder) -> _Encoder:
    """The encoder of elements that are lists, maps or arrays: size and count of the given width, then the content."""
    pack = struct.Struct(layout).pack
    width = struct.calcsize(layout) // 2

    def encode_element(item: object, depth_left: int) -> bytes:
        encoded = encode(item, depth_left)
        if encoded[0] == code.LIST_0:
            return pack(width, 0)
        if encoded[0] & 0x10:
            size, count = struct.unpack_from(">II", encoded, 1)
            return pack(size - 4 + width, count) + encoded[9:]
        return pack(encoded[1] - 1 + width, encoded[2]) + encoded[3:]

    return encode_element


_ELEMENTS: dict[int, tuple[type, _Encoder]] = {
    code.NULL: (type(None), _nothing(None)),
    code.BOOLEAN_TRUE: (bool, _nothing(True)),
    code.BOOLEAN_FALSE: (bool, _nothing(False)),
    code.UINT_0: (UInt, _nothing(UInt(0))),
    code.ULONG_0: (ULong, _nothing(ULong(0))),
    code.LIST_0: (list, _nothing([])),
    code.UBYTE: (UByte, _fixed(">B")),
    code.BYTE: (Byte, _fixed(">b")),
    code.SMALL_UINT: (UInt, _fixed(">B")),
    code.SMALL_ULONG: (ULong, _fixed(">B")),
    code.SMALL_INT: (Int, _fixed(">b")),
    code.SMALL_LONG: (int, _plain(">b")),
    code.BOOLEAN: (bool, _plain(">?")),
    code.USHORT: (UShort, _fixed(">H")),
    code.SHORT: (Short, _fixed(">h")),
    code.UINT: (UInt, _fixed(">I")),
    code.INT: (Int, _fixed(">i")),
    code.FLOAT: (Float, _fixed(">f")),
    code.CHAR: (Char, lambda item, _: _char(item.value)),
    code.DECIMAL32: (Decimal32, lambda item, _: _exactly(item.value, 4)),
    code.ULONG: (ULong, _fixed(">Q")),
    code.LONG: (int, _plain(">q")),
    code.DOUBLE: (float, _plain(">d")),
    code.TIMESTAMP: (Timestamp, _fixed(">q")),
    code.DECIMAL64: (Decimal64, lambda item, _: _exactly(item.value, 8)),
    code.DECIMAL128: (Decimal128, lambda item, _: _exactly(item.value, 16)),
    code.UUID: (uuid.UUID, lambda item, _: item.bytes),
    code.BINARY_8: (bytes, _with_size(">B", bytes)),
    code.BINARY_32: (bytes, _with_size(">I", bytes)),
    code.STRING_8: (str, _with_size(">B", lambda item: item.encode())),
    code.STRING_32: (str, _with_size(">I", lambda item: item.encode())),
    code.SYMBOL_8: (Symbol, _with_size(">B", lambda item: item.value.encode("ascii"))),
    code.SYMBOL_32: (Symbol, _with_size(">I", lambda item: item.value.encode("ascii"))),
    code.LIST_8: (list, _without_constructor(">BB", _encode_list)),
    code.LIST_32: (list, _without_constructor(">II", _encode_list)),
    code.MAP_8: (dict, _without_constructor(">BB", _encode_map)),
    code.MAP_32: (dict, _without_constructor(">II", _encode_map)),
    code.ARRAY_8: (Array, _without_constructor(">BB", _encode_array)),
    code.ARRAY_32: (Array, _without_constructor(">II", _encode_array)),
}
"""By the format code of an array's elements: the Python type of each, and its encoding without the constructor."""
