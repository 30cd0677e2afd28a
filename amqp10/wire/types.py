"""AMQP types that plain Python values cannot tell apart [1.6].

The codec maps nine AMQP types to Python's own: ``None`` null, ``bool`` boolean, ``int`` long, ``float`` double,
``bytes`` binary, ``str`` string, ``uuid.UUID`` uuid, ``list`` list, ``dict`` map. Every other type is a wrapper from
this module with one field ``value``, so a value decodes and encodes to the same type again. Two wrappers are equal
only when their types are: ``UInt(1) != ULong(1) != 1``.

Wrappers check nothing: the decoder cannot produce an invalid one, and the encoder refuses it. Where the specification
fixes a field's type there are no wrappers at all; see ``codec/composite.py``.
"""

from dataclasses import FrozenInstanceError, dataclass
from typing import NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


def _init(self: object, value: object) -> None:
    object.__setattr__(self, "value", value)


def _equal(self: "UByte", other: "UByte") -> bool:
    return self.value == other.value if other.__class__ is self.__class__ else NotImplemented


def _hash(self: "UByte") -> int:
    return hash((self.value,))


def _repr(self: "UByte") -> str:
    return f"{type(self).__qualname__}(value={self.value!r})"


def _reduce(self: "UByte") -> tuple[type, tuple[object]]:
    return type(self), (self.value,)


def _refuse(self: object, name: str, value: object = None) -> NoReturn:
    raise FrozenInstanceError(f"cannot change field {name!r}")


_METHODS = {
    "__init__": _init,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
    "__reduce__": _reduce,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__match_args__": ("value",),
}


@dataclass_transform(frozen_default=True)
def _wrapper(type_: type[T]) -> type[T]:
    """Make a class with the one field ``value`` what a frozen dataclass with slots is, with methods that all share.

    ``dataclass`` would compile the methods of each class: 5 ms of the CPU time of each command of ``headgate``.
    """
    for name, method in _METHODS.items():
        setattr(type_, name, method)
    return type_


@_wrapper
class UByte:
    """ubyte, 0 to 2^8-1 [1.6.3]."""

    __slots__ = ("value",)

    value: int


@_wrapper
class UShort:
    """ushort, 0 to 2^16-1 [1.6.4]."""

    __slots__ = ("value",)

    value: int


@_wrapper
class UInt:
    """uint, 0 to 2^32-1 [1.6.5]."""

    __slots__ = ("value",)

    value: int


@_wrapper
class ULong:
    """ulong, 0 to 2^64-1 [1.6.6]."""

    __slots__ = ("value",)

    value: int


@_wrapper
class Byte:
    """byte, -2^7 to 2^7-1 [1.6.7]."""

    __slots__ = ("value",)

    value: int


@_wrapper
class Short:
    """short, -2^15 to 2^15-1 [1.6.8]."""

    __slots__ = ("value",)

    value: int


@_wrapper
class Int:
    """int, -2^31 to 2^31-1 [1.6.9]. A plain ``int`` is a long."""

    __slots__ = ("value",)

    value: int


@_wrapper
class Float:
    """float, IEEE 754 binary32 [1.6.11]. A plain ``float`` is a double."""

    __slots__ = ("value",)

    value: float


@_wrapper
class Decimal32:
    """decimal32, its four bytes as they are on the wire [1.6.13]: no arithmetic is done on decimals here."""

    __slots__ = ("value",)

    value: bytes


@_wrapper
class Decimal64:
    """decimal64, its eight bytes as they are on the wire [1.6.14]."""

    __slots__ = ("value",)

    value: bytes


@_wrapper
class Decimal128:
    """decimal128, its sixteen bytes as they are on the wire [1.6.15]."""

    __slots__ = ("value",)

    value: bytes


@_wrapper
class Char:
    """char, one Unicode scalar value as a string of length one [1.6.16]."""

    __slots__ = ("value",)

    value: str


@_wrapper
class Timestamp:
    """timestamp, milliseconds since the Unix epoch, negative before it [1.6.17]."""

    __slots__ = ("value",)

    value: int


@_wrapper
class Symbol:
    """symbol, a name of ASCII characters from a constrained domain [1.6.21]. A plain ``str`` is a string."""

    __slots__ = ("value",)

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
