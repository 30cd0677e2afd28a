"""What the fast paths share: parsing one frame by hand, and comparing columns of many frames at C speed.

A fast path understands few encodings of few types. The tables here name them, and the generic codec reads each in the
same way. Parsing checks sizes and counts as strictly as the generic codec. For an encoding that is not in the tables it
returns None, or raises IndexError or KeyError, and the caller declines the frame.
"""

from collections.abc import Iterable
from itertools import compress, count
from operator import ne
from typing import TypeVar

from amqp10.wire.codec import format_codes as codes

Value = TypeVar("Value", int, bytes)

AMQP_FRAME = b"\x02\x00"
"""doff 2, so no extended header, and type 0 [2.3.1]."""
FRAME_HEADER_BYTES = 8
TRANSFER = b"\x00\x53\x14"
"""The descriptor of a transfer [2.7.5]."""

FIELDS_AT = {codes.LIST_8: 8 + 3 + 3, codes.LIST_32: 8 + 3 + 9}
"""Where fields begin: after frame header, descriptor, and the list's format code, size and count."""
UINT_BYTES = {codes.UINT_0: 1, codes.SMALL_UINT: 2, codes.UINT: 5}
BOOLEAN_BYTES = {codes.BOOLEAN_TRUE: 1, codes.BOOLEAN_FALSE: 1, codes.BOOLEAN: 2}
VALUE_BYTES = {codes.NULL: 1, codes.UBYTE: 2} | BOOLEAN_BYTES | UINT_BYTES
"""Encoded bytes, format code included, of the values that are understood."""
ID_FORMAT = {codes.SMALL_UINT: "B", codes.UINT: "I"}
"""The struct format of a delivery-id behind its format code. A uint0 has no bytes to vary, so it gets no shape."""

# The encodings that are understood in a field: whole values, or format codes alone where any value is accepted.
NULL = frozenset({b"\x40"})
ZERO = NULL | {b"\x43", b"\x52\x00", b"\x70\x00\x00\x00\x00"}
FALSE = NULL | {b"\x42", b"\x56\x00"}
TRUE = frozenset({b"\x41", b"\x56\x01"})
BOOLEAN = FALSE | TRUE
UBYTE = NULL | {b"\x50"}
UINT = NULL | {b"\x43", b"\x52", b"\x70"}


def list_bounds(frame: bytes, at: int) -> tuple[int, int, int]:
    """Where the fields of the list at ``at`` begin and end, and how many there are [1.6.22]."""
    code = frame[at]
    if code == codes.LIST_0:
        return at + 1, at + 1, 0
    width = {codes.LIST_8: 1, codes.LIST_32: 4}[code]
    count_at = at + 1 + width
    fields_at = count_at + width
    fields_end = count_at + int.from_bytes(frame[at + 1 : count_at])
    if not fields_at <= fields_end <= len(frame):
        raise IndexError
    return fields_at, fields_end, int.from_bytes(frame[count_at:fields_at])


def walk_fields(frame: bytes, at: int, understood: Iterable[frozenset[bytes]]) -> tuple[list[bytes], int] | None:
    """The encoded values of one field for each of ``understood``, and where they end; None if one is not understood."""
    values: list[bytes] = []
    for encodings in understood:
        value = frame[at : at + VALUE_BYTES[frame[at]]]
        if value not in encodings and value[:1] not in encodings:
            return None
        values.append(value)
        at += len(value)
    return values, at


def leading_equal(column: tuple[Value, ...], value: Value) -> int:
    """How many values at the column's head equal ``value``. ``count`` is quick in the usual case: all of them."""
    if column.count(value) == len(column):
        return len(column)
    return leading_pairs(column, (value,) * len(column))


def leading_pairs(column: tuple[Value, ...], other: tuple[Value, ...]) -> int:
    """How many values at the column's head equal their partner in the other column."""
    if column == other:
        return len(column)
    return next(compress(count(), map(ne, column, other)))
