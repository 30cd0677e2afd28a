"""Encoded AMQP values as columns show them, and texts as encoded values.

A value of a map (application properties, annotations, footer) is shown in one of two forms. As a *text*: text as it
is, numbers in decimal digits, binary in hexadecimal, lists and maps as JSON. Or as a *typed value*: the name of its
AMQP type [1.6], the text, and the encoding itself, which a sink writes again byte by byte.
"""

import json
import uuid
from collections.abc import Callable
from struct import Struct
from typing import Final

from amqp10.errors import DecodeError, EncodeError
from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.decode import DEPTH_MAX, decode_value
from amqp10.wire.codec.encode import encode_value
from amqp10.wire.types import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    plain,
)

NULL: Final = bytes((code.NULL,))
TYPES: Final = {
    code.DESCRIBED: "described",
    code.NULL: "null",
    code.BOOLEAN_TRUE: "boolean",
    code.BOOLEAN_FALSE: "boolean",
    code.BOOLEAN: "boolean",
    code.UBYTE: "ubyte",
    code.USHORT: "ushort",
    code.UINT_0: "uint",
    code.SMALL_UINT: "uint",
    code.UINT: "uint",
    code.ULONG_0: "ulong",
    code.SMALL_ULONG: "ulong",
    code.ULONG: "ulong",
    code.BYTE: "byte",
    code.SHORT: "short",
    code.SMALL_INT: "int",
    code.INT: "int",
    code.SMALL_LONG: "long",
    code.LONG: "long",
    code.FLOAT: "float",
    code.DOUBLE: "double",
    code.DECIMAL32: "decimal32",
    code.DECIMAL64: "decimal64",
    code.DECIMAL128: "decimal128",
    code.CHAR: "char",
    code.TIMESTAMP: "timestamp",
    code.UUID: "uuid",
    code.BINARY_8: "binary",
    code.BINARY_32: "binary",
    code.STRING_8: "string",
    code.STRING_32: "string",
    code.SYMBOL_8: "symbol",
    code.SYMBOL_32: "symbol",
    code.LIST_0: "list",
    code.LIST_8: "list",
    code.LIST_32: "list",
    code.MAP_8: "map",
    code.MAP_32: "map",
    code.ARRAY_8: "array",
    code.ARRAY_32: "array",
}
"""The name of the AMQP type behind each format code [1.6]."""

_CONSTANTS: Final = {
    code.NULL: None,
    code.BOOLEAN_TRUE: "true",
    code.BOOLEAN_FALSE: "false",
    code.UINT_0: "0",
    code.ULONG_0: "0",
}
UNSIGNED: Final = frozenset({code.UBYTE, code.USHORT, code.SMALL_UINT, code.UINT, code.SMALL_ULONG, code.ULONG})
SIGNED: Final = frozenset({code.BYTE, code.SHORT, code.SMALL_INT, code.INT, code.SMALL_LONG, code.LONG, code.TIMESTAMP})
_unpack_double = Struct(">d").unpack_from


def text_of(encoded: bytes) -> str | None:
    """A valid encoded value as a text; None for null."""
    format_code = encoded[0]
    if format_code in (code.STRING_8, code.SYMBOL_8):
        return str(encoded[2:], "utf-8")
    if format_code in _CONSTANTS:
        return _CONSTANTS[format_code]
    if format_code in SIGNED:
        return str(int.from_bytes(encoded[1:], "big", signed=True))
    if format_code in UNSIGNED:
        return str(int.from_bytes(encoded[1:], "big"))
    if format_code == code.DOUBLE:
        return str(_unpack_double(encoded, 1)[0])
    return shown(decode_value(encoded, 0, len(encoded), DEPTH_MAX)[0])


def shown(value: object) -> str | None:
    """A decoded value as a text; None for null."""
    bare = plain(value)
    if bare is None or isinstance(bare, str):
        return bare
    if isinstance(bare, bool):
        return "true" if bare else "false"
    if isinstance(bare, bytes):
        return bare.hex()
    if isinstance(bare, int | float | uuid.UUID):
        return str(bare)
    return json_of(bare)


def json_of(value: object) -> str:
    """A plain value as JSON, with texts for what JSON does not have."""
    return json.dumps(_jsonable(value), ensure_ascii=False, separators=(",", ":"))


def _jsonable(value: object) -> object:
    if isinstance(value, dict):
        return {shown(key) or "": _jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return value if isinstance(value, bool | int | float) or value is None else shown(value)


# --- texts to encoded values ---------------------------------------------------------------------------------------


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


_READ: Final[dict[str, Callable[[str], object]]] = {
    "boolean": _truth,
    "ubyte": lambda text: UByte(int(text)),
    "ushort": lambda text: UShort(int(text)),
    "uint": lambda text: UInt(int(text)),
    "ulong": lambda text: ULong(int(text)),
    "byte": lambda text: Byte(int(text)),
    "short": lambda text: Short(int(text)),
    "int": lambda text: Int(int(text)),
    "long": int,
    "float": lambda text: Float(float(text)),
    "double": float,
    "decimal32": lambda text: Decimal32(bytes.fromhex(text)),
    "decimal64": lambda text: Decimal64(bytes.fromhex(text)),
    "decimal128": lambda text: Decimal128(bytes.fromhex(text)),
    "char": Char,
    "timestamp": lambda text: Timestamp(int(text)),
    "uuid": uuid.UUID,
    "binary": bytes.fromhex,
    "string": str,
    "symbol": Symbol,
}


def encode_text(type_name: str, text: str | None) -> bytes:
    """Encode the text of a typed value. Raises ValueError, whose text says what is wrong."""
    if text is None or type_name == "null":
        return NULL
    read = _READ.get(type_name)
    if read is None:
        if type_name in TYPES.values():
            raise ValueError(f"a value of type {type_name} needs its encoding in the field encoded")
        raise ValueError(f"{type_name!r} is no type of AMQP; there are {', '.join(dict.fromkeys(TYPES.values()))}")
    try:
        return encode_value(read(text))
    except (ValueError, EncodeError):
        raise ValueError(f"{text!r} is no {type_name}") from None


def check_encoded(encoded: bytes) -> None:
    """Raise ValueError unless these bytes are exactly one valid value."""
    try:
        _, end = decode_value(encoded, 0, len(encoded), DEPTH_MAX)
    except DecodeError as error:
        raise ValueError(f"the bytes in the field encoded are no value: {error.description}") from None
    if end != len(encoded):
        raise ValueError(f"the field encoded has {len(encoded) - end} bytes behind its value")
