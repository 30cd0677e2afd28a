"""Decodes bytes to values: the whole type system [1.2, 1.6], with every bound checked.

All bytes of a peer are decoded here first, so this module promises four things for any bytes:

- only :class:`DecodeError` is raised;
- no byte behind ``end`` becomes part of a value (``end`` may be inside a longer buffer);
- nesting is bounded by ``depth_left``, the number of levels that lists, maps, arrays and descriptors may still open;
- memory stays within a small multiple of the bytes read. A count is accepted only when the bytes behind it can hold as
  many elements. Elements of zero width take no bytes, so each value has an allowance for them.

Fixed-width reads do not check ``end`` one by one. They may read beyond it inside the buffer, but then they return a
position behind ``end``, and the caller that set ``end`` compares the two. Reading beyond the buffer itself raises
``struct.error`` or IndexError, which :func:`decode_value` turns into a DecodeError.

No value of a peer is interned or cached. A map may have only few keys of types whose hash a peer can predict, because
thousands of them could be made to collide.
"""

import struct
import uuid
from collections.abc import Callable

from amqp10.errors import DecodeError, quote
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

DEPTH_BEFORE_OPEN = 32
"""Levels for a peer that has not authenticated: a frame of 512 bytes could otherwise nest 250 levels deep."""
DEPTH_MAX = 64
"""Levels for all other peers: deeper than any known client goes, and far from Python's limit of 1000 frames."""
ZERO_WIDTH_ELEMENTS_MAX = 8_192
"""Elements without bytes (true, uint 0, empty list, …) that the arrays of one value may hold together. An empty list
takes 64 bytes and a pointer: 600 KiB, a memory that even a peer without authentication may use."""
PREDICTABLE_KEYS_MAX = 64
"""Keys of one map whose hash the interpreter does not seed and has fewer bits than the key: uuid and compounds."""


class Allowance:
    """The levels of nesting and the elements of zero width that one value may still use while it is decoded."""

    __slots__ = ("depth_left", "zero_width_left")

    def __init__(self, depth_left: int) -> None:
        self.depth_left = depth_left
        self.zero_width_left = ZERO_WIDTH_ELEMENTS_MAX

    def descend(self, position: int) -> None:
        """Open one more level; ``self.depth_left += 1`` closes it."""
        if self.depth_left <= 0:
            raise DecodeError(f"values are nested deeper than allowed at offset {position}")
        self.depth_left -= 1

    def take_zero_width(self, count: int, position: int) -> None:
        """Count ``count`` elements that take no bytes."""
        if count > self.zero_width_left:
            raise DecodeError(
                f"{count} array elements of zero width at offset {position}:"
                f" a value may hold {ZERO_WIDTH_ELEMENTS_MAX} altogether"
            )
        self.zero_width_left -= count


Decoder = Callable[[bytes, int, int, Allowance], tuple[object, int]]
"""Decodes the bytes behind a format code: (buffer, position after the code, end, allowance) to (value, position)."""


def decode_value(buffer: bytes, position: int, end: int, depth_left: int) -> tuple[object, int]:
    """The value that starts at ``position`` and the position behind it, at most ``end``. Raises DecodeError only."""
    try:
        value, position = _decode(buffer, position, end, Allowance(depth_left))
    except (struct.error, IndexError):
        raise DecodeError(f"a value is cut at offset {end}") from None
    if position > end:
        raise DecodeError(f"a value is cut at offset {end}: it would end at {position}")
    return value, position


def skip_value(buffer: bytes, position: int, end: int, depth_left: int) -> int:
    """The position behind the value that starts at ``position``, at most ``end``. Raises DecodeError only.

    Lists, maps and arrays are skipped by their size, without decoding them; their counts are compared with the size.
    A value that passes here may therefore still fail to decode.
    """
    try:
        while buffer[position] == code.DESCRIBED:
            if depth_left <= 0:
                raise DecodeError(f"values are nested deeper than allowed at offset {position}")
            depth_left -= 1
            position = skip_value(buffer, position + 1, end, depth_left)
        stop = _skip_primitive(buffer, position)
    except (struct.error, IndexError):
        raise DecodeError(f"a value is cut at offset {end}") from None
    if stop > end:
        raise DecodeError(f"a value is cut at offset {end}: it would end at {stop}")
    return stop


def _skip_primitive(buffer: bytes, position: int) -> int:
    format_code = buffer[position]
    if DECODERS[format_code] is None:
        raise _unknown_code(format_code, position)
    width = _FIXED_WIDTHS[format_code >> 4]
    if width is not None:
        return position + 1 + width
    if format_code & 0x10:
        size = _read_uint32(buffer, position + 1)[0]
        start = position + 5
    else:
        size = buffer[position + 1]
        start = position + 2
    if format_code >= code.LIST_8:
        _check_compound(buffer, format_code, start, size)
    return int(start + size)


def _check_compound(buffer: bytes, format_code: int, start: int, size: int) -> None:
    """Check that the count of a list or map fits into its size, and that an array has room for its constructor."""
    wide = format_code & 0x10
    overhead = 4 if wide else 1
    if format_code in (code.ARRAY_8, code.ARRAY_32):
        if size <= overhead:
            raise DecodeError(f"the array at offset {start} has no constructor: its size is {size}")
        return
    count = _read_uint32(buffer, start)[0] if wide else buffer[start]
    if count > size - overhead:
        raise DecodeError(f"count {count} at offset {start} does not fit into the size of {size} bytes")


_FIXED_WIDTHS: tuple[int | None, ...] = (None, None, None, None, 0, 1, 2, 4, 8, 16, *[None] * 6)
"""Bytes behind a format code, by its high half [1.2.1]; None where a size follows or the code is undefined."""

_read_uint16 = struct.Struct(">H").unpack_from
_read_uint32 = struct.Struct(">I").unpack_from
_read_uint64 = struct.Struct(">Q").unpack_from
_read_int8 = struct.Struct(">b").unpack_from
_read_int16 = struct.Struct(">h").unpack_from
_read_int32 = struct.Struct(">i").unpack_from
_read_int64 = struct.Struct(">q").unpack_from
_read_float = struct.Struct(">f").unpack_from
_read_double = struct.Struct(">d").unpack_from


def _decode(buffer: bytes, position: int, end: int, allowance: Allowance) -> tuple[object, int]:
    format_code = buffer[position]
    decoder = DECODERS[format_code]
    if decoder is None:
        raise _unknown_code(format_code, position)
    return decoder(buffer, position + 1, end, allowance)


def _unknown_code(format_code: int, position: int) -> DecodeError:
    return DecodeError(f"0x{format_code:02x} at offset {position} is no format code")


def _null(_buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[None, int]:
    return None, position


def _true(_buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[bool, int]:
    return True, position


def _false(_buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[bool, int]:
    return False, position


def _boolean(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[bool, int]:
    octet = buffer[position]
    if octet > 1:
        raise DecodeError(f"0x{octet:02x} at offset {position} is no boolean: only 0x00 and 0x01 are")
    return octet == 1, position + 1


def _ubyte(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[UByte, int]:
    return UByte(buffer[position]), position + 1


def _ushort(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[UShort, int]:
    return UShort(_read_uint16(buffer, position)[0]), position + 2


def _uint(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[UInt, int]:
    return UInt(_read_uint32(buffer, position)[0]), position + 4


def _small_uint(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[UInt, int]:
    return UInt(buffer[position]), position + 1


def _uint_0(_buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[UInt, int]:
    return _ZERO_UINT, position


def _ulong(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[ULong, int]:
    return ULong(_read_uint64(buffer, position)[0]), position + 8


def _small_ulong(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[ULong, int]:
    return ULong(buffer[position]), position + 1


def _ulong_0(_buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[ULong, int]:
    return _ZERO_ULONG, position


def _byte(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[Byte, int]:
    return Byte(_read_int8(buffer, position)[0]), position + 1


def _short(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[Short, int]:
    return Short(_read_int16(buffer, position)[0]), position + 2


def _int(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[Int, int]:
    return Int(_read_int32(buffer, position)[0]), position + 4


def _small_int(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[Int, int]:
    return Int(_read_int8(buffer, position)[0]), position + 1


def _long(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[int, int]:
    return _read_int64(buffer, position)[0], position + 8


def _small_long(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[int, int]:
    return _read_int8(buffer, position)[0], position + 1


def _float(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[Float, int]:
    return Float(_read_float(buffer, position)[0]), position + 4


def _double(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[float, int]:
    return _read_double(buffer, position)[0], position + 8


def _char(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[Char, int]:
    point = _read_uint32(buffer, position)[0]
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise DecodeError(f"0x{point:x} at offset {position} is no Unicode scalar value")
    return Char(chr(point)), position + 4


def _timestamp(buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[Timestamp, int]:
    return Timestamp(_read_int64(buffer, position)[0]), position + 8


def _decimal32(buffer: bytes, position: int, end: int, _allowance: Allowance) -> tuple[Decimal32, int]:
    stop = _stop(position, 4, end)
    return Decimal32(buffer[position:stop]), stop


def _decimal64(buffer: bytes, position: int, end: int, _allowance: Allowance) -> tuple[Decimal64, int]:
    stop = _stop(position, 8, end)
    return Decimal64(buffer[position:stop]), stop


def _decimal128(buffer: bytes, position: int, end: int, _allowance: Allowance) -> tuple[Decimal128, int]:
    stop = _stop(position, 16, end)
    return Decimal128(buffer[position:stop]), stop


def _uuid(buffer: bytes, position: int, end: int, _allowance: Allowance) -> tuple[uuid.UUID, int]:
    stop = _stop(position, 16, end)
    return uuid.UUID(bytes=buffer[position:stop]), stop


def _stop(position: int, size: int, end: int) -> int:
    stop = position + size
    if stop > end:
        raise DecodeError(f"{size} bytes at offset {position} would end at {stop}, behind the end at {end}")
    return stop


def _binary_8(buffer: bytes, position: int, end: int, _allowance: Allowance) -> tuple[bytes, int]:
    stop = _stop(position + 1, buffer[position], end)
    return buffer[position + 1 : stop], stop


def _binary_32(buffer: bytes, position: int, end: int, _allowance: Allowance) -> tuple[bytes, int]:
    stop = _stop(position + 4, _read_uint32(buffer, position)[0], end)
    return buffer[position + 4 : stop], stop


def _string_8(buffer: bytes, position: int, end: int, _allowance: Allowance) -> tuple[str, int]:
    stop = _stop(position + 1, buffer[position], end)
    return decode_text(buffer, position + 1, stop), stop


def _string_32(buffer: bytes, position: int, end: int, _allowance: Allowance) -> tuple[str, int]:
    stop = _stop(position + 4, _read_uint32(buffer, position)[0], end)
    return decode_text(buffer, position + 4, stop), stop


def _symbol_8(buffer: bytes, position: int, end: int, _allowance: Allowance) -> tuple[Symbol, int]:
    stop = _stop(position + 1, buffer[position], end)
    return Symbol(decode_symbol(buffer, position + 1, stop)), stop


def _symbol_32(buffer: bytes, position: int, end: int, _allowance: Allowance) -> tuple[Symbol, int]:
    stop = _stop(position + 4, _read_uint32(buffer, position)[0], end)
    return Symbol(decode_symbol(buffer, position + 4, stop)), stop


def decode_text(buffer: bytes, start: int, stop: int) -> str:
    """The string in these bytes, which must be UTF-8 [1.6.20]."""
    try:
        return str(buffer[start:stop], "utf-8")
    except UnicodeDecodeError:
        raise DecodeError(f"the string at offset {start} is not UTF-8: {quote(buffer[start:stop])}") from None


def decode_symbol(buffer: bytes, start: int, stop: int) -> str:
    """The name in these bytes, which must be ASCII [1.6.21]."""
    try:
        return str(buffer[start:stop], "ascii")
    except UnicodeDecodeError:
        raise DecodeError(f"the symbol at offset {start} is not ASCII: {quote(buffer[start:stop])}") from None


def _described(buffer: bytes, position: int, end: int, allowance: Allowance) -> tuple[Described, int]:
    allowance.descend(position)
    descriptor, position = _decode(buffer, position, end, allowance)
    value, position = _decode(buffer, position, end, allowance)
    allowance.depth_left += 1
    return Described(descriptor, value), position


def _list_0(_buffer: bytes, position: int, _end: int, _allowance: Allowance) -> tuple[list[object], int]:
    return [], position


def _list_8(buffer: bytes, position: int, end: int, allowance: Allowance) -> tuple[list[object], int]:
    stop = _stop(position + 1, buffer[position], end)
    return _list(buffer, position + 2, stop, buffer[position + 1], allowance), stop


def _list_32(buffer: bytes, position: int, end: int, allowance: Allowance) -> tuple[list[object], int]:
    stop = _stop(position + 4, _read_uint32(buffer, position)[0], end)
    return _list(buffer, position + 8, stop, _read_uint32(buffer, position + 4)[0], allowance), stop


def _map_8(buffer: bytes, position: int, end: int, allowance: Allowance) -> tuple[dict[object, object], int]:
    stop = _stop(position + 1, buffer[position], end)
    return _map(buffer, position + 2, stop, buffer[position + 1], allowance), stop


def _map_32(buffer: bytes, position: int, end: int, allowance: Allowance) -> tuple[dict[object, object], int]:
    stop = _stop(position + 4, _read_uint32(buffer, position)[0], end)
    return _map(buffer, position + 8, stop, _read_uint32(buffer, position + 4)[0], allowance), stop


def _array_8(buffer: bytes, position: int, end: int, allowance: Allowance) -> tuple[Array, int]:
    stop = _stop(position + 1, buffer[position], end)
    return _array(buffer, position + 2, stop, buffer[position + 1], allowance), stop


def _array_32(buffer: bytes, position: int, end: int, allowance: Allowance) -> tuple[Array, int]:
    stop = _stop(position + 4, _read_uint32(buffer, position)[0], end)
    return _array(buffer, position + 8, stop, _read_uint32(buffer, position + 4)[0], allowance), stop


def _list(buffer: bytes, position: int, stop: int, count: int, allowance: Allowance) -> list[object]:
    _check_count(count, 1, position, stop)
    allowance.descend(position)
    items = []
    for _ in range(count):
        item, position = _decode(buffer, position, stop, allowance)
        items.append(item)
    _check_end(position, stop)
    allowance.depth_left += 1
    return items


def _map(buffer: bytes, position: int, stop: int, count: int, allowance: Allowance) -> dict[object, object]:
    _check_count(count, 1, position, stop)
    if count % 2:
        raise DecodeError(f"a map with {count} keys and values at offset {position}: the count must be even")
    allowance.descend(position)
    items: dict[object, object] = {}
    predictable = 0
    for _ in range(count // 2):
        start = position
        key, position = _decode(buffer, position, stop, allowance)
        if type(key) in _PREDICTABLE:
            predictable += 1
            if predictable > PREDICTABLE_KEYS_MAX:
                raise DecodeError(f"more than {PREDICTABLE_KEYS_MAX} keys are uuids or compounds at offset {start}")
        value, position = _decode(buffer, position, stop, allowance)
        try:
            known = key in items
        except TypeError:
            raise DecodeError(f"a map key at offset {start} is or holds a list or map") from None
        if known:
            raise DecodeError(f"a map key occurs twice at offset {start}: {quote(key)}")
        items[key] = value
    _check_end(position, stop)
    allowance.depth_left += 1
    return items


def _array(buffer: bytes, position: int, stop: int, count: int, allowance: Allowance) -> Array:
    allowance.descend(position)
    descriptors = []
    while buffer[position] == code.DESCRIBED:
        allowance.descend(position)
        descriptor, position = _decode(buffer, position + 1, stop, allowance)
        descriptors.append(descriptor)
    format_code = buffer[position]
    decoder = DECODERS[format_code]
    if decoder is None:
        raise _unknown_code(format_code, position)
    position += 1
    width = _MINIMUM_WIDTHS[format_code >> 4]
    if width:
        _check_count(count, width, position, stop)
    else:
        allowance.take_zero_width(count, position)
    items = []
    for _ in range(count):
        item, position = decoder(buffer, position, stop, allowance)
        items.append(item)
    _check_end(position, stop)
    allowance.depth_left += 1 + len(descriptors)
    return Array(format_code, tuple(items), tuple(descriptors))


def _check_count(count: int, width: int, position: int, stop: int) -> None:
    room = max(0, stop - position)
    if count * width > room:
        raise DecodeError(f"{count} elements of {width} bytes or more at offset {position}: there are {room} bytes")


def _check_end(position: int, stop: int) -> None:
    if position != stop:
        raise DecodeError(f"the elements end at offset {position}, their size says {stop}")


_MINIMUM_WIDTHS = (0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 1, 4, 2, 8, 3, 9)
"""The least number of bytes of an array element, by the high half of its format code [1.2].

A and B have a size, C and D a size and a count, E and F also a one-byte constructor.
"""

_ZERO_UINT = UInt(0)
_ZERO_ULONG = ULong(0)

_PREDICTABLE = frozenset({uuid.UUID, Array, Described})


def _table() -> tuple[Decoder | None, ...]:
    decoders: dict[int, Decoder] = {
        code.DESCRIBED: _described,
        code.NULL: _null,
        code.BOOLEAN_TRUE: _true,
        code.BOOLEAN_FALSE: _false,
        code.UINT_0: _uint_0,
        code.ULONG_0: _ulong_0,
        code.LIST_0: _list_0,
        code.UBYTE: _ubyte,
        code.BYTE: _byte,
        code.SMALL_UINT: _small_uint,
        code.SMALL_ULONG: _small_ulong,
        code.SMALL_INT: _small_int,
        code.SMALL_LONG: _small_long,
        code.BOOLEAN: _boolean,
        code.USHORT: _ushort,
        code.SHORT: _short,
        code.UINT: _uint,
        code.INT: _int,
        code.FLOAT: _float,
        code.CHAR: _char,
        code.DECIMAL32: _decimal32,
        code.ULONG: _ulong,
        code.LONG: _long,
        code.DOUBLE: _double,
        code.TIMESTAMP: _timestamp,
        code.DECIMAL64: _decimal64,
        code.DECIMAL128: _decimal128,
        code.UUID: _uuid,
        code.BINARY_8: _binary_8,
        code.BINARY_32: _binary_32,
        code.STRING_8: _string_8,
        code.STRING_32: _string_32,
        code.SYMBOL_8: _symbol_8,
        code.SYMBOL_32: _symbol_32,
        code.LIST_8: _list_8,
        code.LIST_32: _list_32,
        code.MAP_8: _map_8,
        code.MAP_32: _map_32,
        code.ARRAY_8: _array_8,
        code.ARRAY_32: _array_32,
    }
    return tuple(decoders.get(format_code) for format_code in range(256))


DECODERS = _table()
"""The decoders by format code; None where the specification defines none."""
