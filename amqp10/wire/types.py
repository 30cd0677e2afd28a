"""AMQP types that plain Python values cannot tell apart [1.6].

The codec maps nine AMQP types to Python's own: ``None`` null, ``bool`` boolean, ``int`` long, ``float`` double,
``bytes`` binary, ``str`` string, ``uuid.UUID`` uuid, ``list`` list, ``dict`` map. Every other type is a wrapper from
this module with one field ``value``, so a value decodes and encodes to the same type again. Two wrappers are equal
only when their types are: ``UInt(1) != ULong(1) != 1``.

Wrappers check nothing: the decoder cannot produce an invalid one, and the encoder refuses it. Where the specification
fixes a field's type there are no wrappers at all; see ``codec/composite.py``.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UByte:
    """ubyte, 0 to 2^8-1 [1.6.3]."""

    value: int


@dataclass(frozen=True, slots=True)
class UShort:
    """ushort, 0 to 2^16-1 [1.6.4]."""

    value: int


@dataclass(frozen=True, slots=True)
class UInt:
    """uint, 0 to 2^32-1 [1.6.5]."""

    value: int


@dataclass(frozen=True, slots=True)
class ULong:
    """ulong, 0 to 2^64-1 [1.6.6]."""

    value: int


@dataclass(frozen=True, slots=True)
class Byte:
    """byte, -2^7 to 2^7-1 [1.6.7]."""

    value: int


@dataclass(frozen=True, slots=True)
class Short:
    """short, -2^15 to 2^15-1 [1.6.8]."""

    value: int


@dataclass(frozen=True, slots=True)
class Int:
    """int, -2^31 to 2^31-1 [1.6.9]. A plain ``int`` is a long."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """float, IEEE 754 binary32 [1.6.11]. A plain ``float`` is a double."""

    value: float


@dataclass(frozen=True, slots=True)
class Decimal32:
    """decimal32, its four bytes as they are on the wire [1.6.13]: no arithmetic is done on decimals here."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Decimal64:
    """decimal64, its eight bytes as they are on the wire [1.6.14]."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Decimal128:
    """decimal128, its sixteen bytes as they are on the wire [1.6.15]."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Char:
    """char, one Unicode scalar value as a string of length one [1.6.16]."""

    value: str


@dataclass(frozen=True, slots=True)
class Timestamp:
    """timestamp, milliseconds since the Unix epoch, negative before it [1.6.17]."""

    value: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """symbol, a name of ASCII characters from a constrained domain [1.6.21]. A plain ``str`` is a string."""

    value: str


@dataclass(frozen=True, slots=True)
class Array:
    """array, values that share one constructor [1.6.24].

    ``constructor_code`` is the format code of the elements; it is kept because it decides the width of each. ``items``
    are the elements as the decoder returns them for that code. The elements of an array of a described type are without
    descriptors here, and ``descriptors`` holds the descriptors of each element, the outermost first [1.2].
    """

    constructor_code: int
    items: tuple[object, ...]
    descriptors: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor, a ULong or a Symbol, that gives it a meaning [1.1.2, 1.5]."""

    descriptor: object
    value: object


_Wrapper = (
    UByte
    | UShort
    | UInt
    | ULong
    | Byte
    | Short
    | Int
    | Float
    | Decimal32
    | Decimal64
    | Decimal128
    | Char
    | Timestamp
    | Symbol
    | Described
)


def plain(value: object) -> object:
    """The value without its AMQP type: wrappers and descriptors off at every level, arrays as lists.

    For decisions and for display, not for sending on. Keys of a map that differ only in type become one, with the value
    of the last. A key that Python could not hash without its wrapper keeps it.
    """
    if isinstance(value, _Wrapper):
        return plain(value.value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, Array):
        return [plain(item) for item in value.items]
    return value


def _plain_key(key: object) -> object:
    stripped = plain(key)
    return key if isinstance(stripped, (list, dict)) else stripped
