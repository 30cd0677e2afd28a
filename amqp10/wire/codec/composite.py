"""Composite types: encodes dataclasses as described lists whose fields a table defines [1.4], and decodes them.

A :class:`Composite` binds a dataclass to its descriptor and to one :class:`FieldKind` per field. Names and defaults are
read from the dataclass once, when the table is built; a field without a default is mandatory. Decoding a value then
takes one dictionary copy, a call for each field whose value is neither small nor absent, and one call of the class.

A typed field holds a plain Python value: the table knows that ``handle`` is a uint. The rules, in both directions:

- a field that is null or behind the end of the list has its default; a missing mandatory field is an error;
- a value of another type than the table's is an error, and so is a surplus field;
- a default is not sent: it is encoded as null, or left out at the end of the list.

Errors in the encoding are amqp:decode-error; errors in the value of a field are amqp:invalid-field. Both name the
field.
"""

import dataclasses
import struct
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from amqp10.errors import DecodeError, EncodeError, ErrorCondition, quote
from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.decode import decode_symbol, decode_text, decode_value
from amqp10.wire.codec.encode import (
    UNENCODABLE,
    encode_binary,
    encode_boolean,
    encode_list_of,
    encode_map_of,
    encode_string,
    encode_symbol,
    encode_symbols,
    encode_ubyte,
    encode_uint,
    encode_ulong,
    encode_ushort,
    encode_value,
)
from amqp10.wire.types import Array, Described, Symbol, Timestamp, ULong

Reader = Callable[[bytes, int, int, int], tuple[object, int]]
"""(buffer, position, end, depth_left) to (value, position behind it). A reader is never called for null."""
Writer = Callable[..., bytes]
"""A value of the field's type to its encoding."""

T_co = TypeVar("T_co", covariant=True)


class FieldKind(NamedTuple):
    """How the values of a field are read and written."""

    read: Reader
    write: Writer
    expected: type[object] = object
    """A value of another type raises EncodeError, so that a bug of ours never becomes wrong bytes."""
    constants: Mapping[int, object] = MappingProxyType({})
    """The values that a format code says alone."""
    byte_code: int | None = None
    """The format code behind which a byte is the value, if there is one. With it and ``constants`` most fields are read
    without a call."""


class Composite(Generic[T_co]):
    """One composite type: a dataclass, its descriptor, its fields in the order of the specification."""

    __slots__ = (
        "_defaults",
        "_fields",
        "_mandatory",
        "_prefix",
        "_readers",
        "code",
        "name",
        "symbol",
        "type",
    )

    def __init__(self, type_: type[T_co], code_: int, symbol: str, kinds: Iterable[FieldKind]) -> None:
        fields = dataclasses.fields(type_)  # type: ignore[arg-type]
        kinds = tuple(kinds)
        assert len(kinds) == len(fields), f"{type_.__name__} has {len(fields)} fields, its table {len(kinds)}"
        self.type = type_
        self.code = code_
        self.symbol = symbol
        self.name = symbol.split(":")[1]
        self._readers = tuple(
            (field.name, kind.constants, kind.byte_code, kind.read) for field, kind in zip(fields, kinds, strict=True)
        )
        self._defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
        self._mandatory = tuple(field.name for field in fields if field.name not in self._defaults)
        self._fields = tuple(
            (field.name, field.default, kind.expected, kind.write) for field, kind in zip(fields, kinds, strict=True)
        )
        self._prefix = b"\x00" + encode_ulong(code_)

    def decode_list(self, buffer: bytes, position: int, end: int, depth_left: int) -> tuple[T_co, int]:
        """The value whose list starts at ``position``, which is behind the descriptor, and the position behind the
        list."""
        name = "list"
        try:
            if buffer[position] == code.LIST_8 and buffer[position + 2] < buffer[position + 1] <= end - position - 2:
                stop, count, position = position + 2 + buffer[position + 1], buffer[position + 2], position + 3
            elif buffer[position] == code.LIST_0 and position < end:
                stop, count, position = position + 1, 0, position + 1
            else:
                count, position, stop = _open_list(buffer, position, end)
            if count > len(self._readers):
                raise DecodeError(f"{count} fields, the type has {len(self._readers)}")
            values = self._defaults.copy()
            for name, constants, byte_code, read in self._readers[:count]:
                format_code = buffer[position]
                if format_code == code.NULL:
                    position += 1
                elif format_code in constants:
                    values[name] = constants[format_code]
                    position += 1
                elif format_code == byte_code:
                    values[name] = buffer[position + 1]
                    position += 2
                else:
                    values[name], position = read(buffer, position, stop, depth_left)
        except (IndexError, struct.error):
            raise DecodeError(f"{self.name}.{name}: cut at offset {end}") from None
        except DecodeError as fault:
            raise DecodeError(f"{self.name}.{name}: {fault.description}", fault.condition) from None
        if position != stop:
            raise DecodeError(f"{self.name}: its fields end at offset {position}, its size says {stop}")
        if len(values) < len(self._readers):
            self._refuse_missing(values)
        return self.type(**values), position

    def _refuse_missing(self, values: Mapping[str, object]) -> None:
        missing = ", ".join(name for name in self._mandatory if name not in values)
        raise DecodeError(f"{self.name}: mandatory and missing: {missing}", ErrorCondition.INVALID_FIELD)

    def encode(self, value: object) -> bytes:
        """The described list. Raises EncodeError, which names the field, for a field without an encoding."""
        return self._prefix + encode_list_of(self.encode_fields(value))

    def encode_fields(self, value: object) -> list[bytes]:
        """The encoded fields up to the last that is sent; null fields before it are encoded as null. Raises
        EncodeError."""
        encoded = []
        name = "list"
        try:
            for name, default, expected, write in self._fields:
                item = getattr(value, name)
                if item is None and default is dataclasses.MISSING:
                    raise EncodeError("mandatory")
                if item is None or item == default:
                    encoded.append(b"\x40")
                elif isinstance(item, expected):
                    encoded.append(write(item))
                else:
                    raise EncodeError(f"{quote(item)} is no {expected.__name__}")
        except (*UNENCODABLE, EncodeError) as fault:
            raise EncodeError(f"{self.name}.{name}: {fault}") from None
        while encoded and encoded[-1] == b"\x40":
            encoded.pop()
        return encoded


def _open_list(buffer: bytes, position: int, end: int) -> tuple[int, int, int]:
    """The count of the list at ``position``, where its first element starts, and where it stops."""
    format_code = buffer[position]
    if format_code == code.LIST_8:
        stop = position + 2 + buffer[position + 1]
        count = buffer[position + 2]
        start = position + 3
    elif format_code == code.LIST_32:
        size, count = _read_size_and_count(buffer, position + 1)
        stop = position + 5 + size
        start = position + 9
    elif format_code == code.LIST_0:
        count = 0
        start = stop = position + 1
    else:
        raise wrong_type("list", buffer, position)
    if stop > end:
        raise DecodeError(f"the list at offset {position} would end at {stop}, behind the end at {end}")
    if count > stop - start:
        raise DecodeError(f"the list at offset {position} has {count} fields in {stop - start} bytes")
    return count, start, stop


_read_size_and_count = struct.Struct(">II").unpack_from
_read_uint16 = struct.Struct(">H").unpack_from
_read_uint32 = struct.Struct(">I").unpack_from
_read_uint64 = struct.Struct(">Q").unpack_from
_read_int64 = struct.Struct(">q").unpack_from


def wrong_type(expected: str, buffer: bytes, position: int) -> DecodeError:
    """The error for a field whose type is not that of its table."""
    return DecodeError(
        f"format code 0x{buffer[position]:02x} at offset {position} where a {expected} is expected",
        ErrorCondition.INVALID_FIELD,
    )


def invalid_field(description: str) -> DecodeError:
    """The error for a field whose value the specification forbids."""
    return DecodeError(description, ErrorCondition.INVALID_FIELD)


def read_descriptor(buffer: bytes, position: int, end: int, depth_left: int) -> tuple[int | str, int]:
    """The descriptor of the described value at ``position``, and where the value itself starts.

    A ulong is returned as ``int``, a symbol as ``str``. Raises DecodeError for any other descriptor, and for values
    without one.
    """
    if buffer[position] != code.DESCRIBED:
        raise wrong_type("described value", buffer, position)
    if depth_left <= 0:
        raise DecodeError(f"values are nested deeper than allowed at offset {position}")
    if buffer[position + 1] == code.SMALL_ULONG:
        return buffer[position + 2], position + 3
    descriptor, behind = decode_value(buffer, position + 1, end, depth_left - 1)
    if isinstance(descriptor, (ULong, Symbol)):
        return descriptor.value, behind
    raise invalid_field(f"{quote(descriptor)} at offset {position + 1} is no descriptor: a ulong or a symbol is")


def by_descriptor(composites: Iterable[Composite[T_co]]) -> dict[int | str, Composite[T_co]]:
    """The composites under both of their descriptors, the number and the symbol [1.5]."""
    table: dict[int | str, Composite[T_co]] = {}
    for composite in composites:
        table[composite.code] = table[composite.symbol] = composite
    return table


def one_of(expected: str, composites: Iterable[Composite[object]], *, others: bool = False) -> FieldKind:
    """A field that holds one of these composites; with ``others`` it may also hold any other described value."""
    composites = tuple(composites)
    table = by_descriptor(composites)
    by_type = {composite.type: composite for composite in composites}

    def read(buffer: bytes, position: int, end: int, depth_left: int) -> tuple[object, int]:
        descriptor, start = read_descriptor(buffer, position, end, depth_left)
        composite = table.get(descriptor)
        if composite is not None:
            return composite.decode_list(buffer, start, end, depth_left - 1)
        if others:
            return decode_value(buffer, position, end, depth_left)
        raise invalid_field(f"descriptor {quote(descriptor)} at offset {position} where a {expected} is expected")

    def write(value: object) -> bytes:
        if others and isinstance(value, Described):
            return encode_value(value)
        composite = by_type.get(type(value))
        if composite is None:
            raise EncodeError(f"{quote(value)} is no {expected}")
        return composite.encode(value)

    return FieldKind(read, write)


def _read_uint(buffer: bytes, position: int, _end: int, _depth_left: int) -> tuple[int, int]:
    format_code = buffer[position]
    if format_code == code.SMALL_UINT:
        return buffer[position + 1], position + 2
    if format_code == code.UINT:
        return _read_uint32(buffer, position + 1)[0], position + 5
    if format_code == code.UINT_0:
        return 0, position + 1
    raise wrong_type("uint", buffer, position)


def _read_ulong(buffer: bytes, position: int, _end: int, _depth_left: int) -> tuple[int, int]:
    format_code = buffer[position]
    if format_code == code.SMALL_ULONG:
        return buffer[position + 1], position + 2
    if format_code == code.ULONG:
        return _read_uint64(buffer, position + 1)[0], position + 9
    if format_code == code.ULONG_0:
        return 0, position + 1
    raise wrong_type("ulong", buffer, position)


def _read_timestamp(buffer: bytes, position: int, _end: int, _depth_left: int) -> tuple[int, int]:
    if buffer[position] == code.TIMESTAMP:
        return _read_int64(buffer, position + 1)[0], position + 9
    raise wrong_type("timestamp", buffer, position)


def _read_ushort(buffer: bytes, position: int, _end: int, _depth_left: int) -> tuple[int, int]:
    if buffer[position] == code.USHORT:
        return _read_uint16(buffer, position + 1)[0], position + 3
    raise wrong_type("ushort", buffer, position)


def _read_ubyte(buffer: bytes, position: int, _end: int, _depth_left: int) -> tuple[int, int]:
    if buffer[position] == code.UBYTE:
        return buffer[position + 1], position + 2
    raise wrong_type("ubyte", buffer, position)


def _read_boolean(buffer: bytes, position: int, _end: int, _depth_left: int) -> tuple[bool, int]:
    format_code = buffer[position]
    if format_code == code.BOOLEAN_TRUE:
        return True, position + 1
    if format_code == code.BOOLEAN_FALSE:
        return False, position + 1
    if format_code == code.BOOLEAN and buffer[position + 1] <= 1:
        return buffer[position + 1] == 1, position + 2
    raise wrong_type("boolean", buffer, position)


def _open_sized(buffer: bytes, position: int, end: int, code_8: int, expected: str) -> tuple[int, int]:
    """Where the content of a binary, string or symbol starts and stops."""
    format_code = buffer[position]
    if format_code == code_8:
        start = position + 2
        stop = start + buffer[position + 1]
    elif format_code == code_8 | 0x10:
        start = position + 5
        stop = int(start + _read_uint32(buffer, position + 1)[0])
    else:
        raise wrong_type(expected, buffer, position)
    if stop > end:
        raise DecodeError(f"the {expected} at offset {position} would end at {stop}, behind the end at {end}")
    return start, stop


def read_binary(buffer: bytes, position: int, end: int, _depth_left: int) -> tuple[bytes, int]:
    """The reader of :data:`BINARY`, with its return type."""
    start, stop = _open_sized(buffer, position, end, code.BINARY_8, "binary")
    return buffer[start:stop], stop


def _read_string(buffer: bytes, position: int, end: int, _depth_left: int) -> tuple[str, int]:
    start, stop = _open_sized(buffer, position, end, code.STRING_8, "string")
    return decode_text(buffer, start, stop), stop


def _read_symbol(buffer: bytes, position: int, end: int, _depth_left: int) -> tuple[str, int]:
    start, stop = _open_sized(buffer, position, end, code.SYMBOL_8, "symbol")
    return decode_symbol(buffer, start, stop), stop


def _read_symbols(buffer: bytes, position: int, end: int, depth_left: int) -> tuple[tuple[str, ...], int]:
    if buffer[position] not in (code.ARRAY_8, code.ARRAY_32):
        symbol, stop = _read_symbol(buffer, position, end, depth_left)
        return (symbol,), stop
    array, stop = decode_value(buffer, position, end, depth_left)
    assert isinstance(array, Array)
    if array.constructor_code not in (code.SYMBOL_8, code.SYMBOL_32) or array.descriptors:
        raise invalid_field(f"the array at offset {position} is none of symbols")
    return tuple(symbol.value for symbol in array.items if isinstance(symbol, Symbol)), stop


def _read_fields(buffer: bytes, position: int, end: int, depth_left: int) -> tuple[dict[str, object], int]:
    if buffer[position] not in (code.MAP_8, code.MAP_32):
        raise wrong_type("map", buffer, position)
    items, stop = decode_value(buffer, position, end, depth_left)
    assert isinstance(items, dict)
    fields: dict[str, object] = {}
    for key, value in items.items():
        if not isinstance(key, Symbol):
            raise invalid_field(f"the key {quote(key)} of the map at offset {position} is no symbol")
        fields[key.value] = value
    return fields, stop


def _write_fields(value: dict[str, object]) -> bytes:
    encoded = []
    for key, item in value.items():
        encoded.append(encode_symbol(key))
        encoded.append(encode_value(item))
    return encode_map_of(encoded)


def restricted(kind: FieldKind, allowed: Iterable[object]) -> FieldKind:
    """The kind of a restricted type with a closed set of choices [1.1.4]: other values are amqp:invalid-field."""
    choices = tuple(allowed)

    def read(buffer: bytes, position: int, end: int, depth_left: int) -> tuple[object, int]:
        value, behind = kind.read(buffer, position, end, depth_left)
        if value not in choices:
            raise invalid_field(f"{quote(value)} at offset {position} is none of {choices}")
        return value, behind

    def write(value: object) -> bytes:
        if value not in choices:
            raise EncodeError(f"{quote(value)} is none of {choices}")
        return kind.write(value)

    return FieldKind(read, write, kind.expected)


UINT = FieldKind(_read_uint, encode_uint, int, {code.UINT_0: 0}, code.SMALL_UINT)
ULONG = FieldKind(_read_ulong, encode_ulong, int, {code.ULONG_0: 0}, code.SMALL_ULONG)
USHORT = FieldKind(_read_ushort, encode_ushort, int)
UBYTE = FieldKind(_read_ubyte, encode_ubyte, int, byte_code=code.UBYTE)
TIMESTAMP = FieldKind(_read_timestamp, lambda value: encode_value(Timestamp(value)), int)
"""Milliseconds since the Unix epoch, an ``int`` in Python."""
BOOLEAN = FieldKind(_read_boolean, encode_boolean, bool, {code.BOOLEAN_TRUE: True, code.BOOLEAN_FALSE: False})
BINARY = FieldKind(read_binary, encode_binary, bytes)
STRING = FieldKind(_read_string, encode_string, str)
SYMBOL = FieldKind(_read_symbol, encode_symbol, str)
SYMBOLS = FieldKind(_read_symbols, encode_symbols, tuple)
"""Symbols in a field marked ``multiple`` [1.4]: null, one symbol or an array; a tuple in Python, empty for null. They
are written as an array even when there is one, because some peers do not know the form with one symbol."""
FIELDS = FieldKind(_read_fields, _write_fields, dict)
"""A map from symbols to values of any type [2.8.13]; ``str`` keys in Python."""
ANY = FieldKind(decode_value, encode_value)
