"""Encodes Arrow columns as AMQP messages: a list of bytes for each section, joined row by row.

Parts that rows have in common are encoded once: sections that are the same in all of them, the leads of short strings,
and each distinct header. For each row only the lookup of leads and the join are left, so no value goes through the
generic encoder. The bytes are those of the generic encoder, except that the number of the row always takes eight bytes.

Sections of a message, in their order [3.2]: header (``durable``, ``priority``), message annotations (which row of which
batch this is), properties, application properties, and one data section with the body.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from struct import Struct
from typing import NamedTuple

import pyarrow as pa

from amqp10.wire.codec import format_codes as codes
from amqp10.wire.codec.encode import encode_list_of, encode_map_of, encode_string, encode_symbol
from amqp10.wire.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    Header,
    encode_header,
)
from pyspark_amqp10.errors import BadMessage

BATCH_ANNOTATION = "x-opt-spark-batch"
"""Message annotation, a string: names the rows that are written together and in order. A repeated task uses it
again."""
ROW_ANNOTATION = "x-opt-spark-row"
"""Message annotation, a ulong: the number of the row within those, from 0 up."""

PROPERTY_COLUMNS = {"messageId": 0, "subject": 3, "correlationId": 5, "contentType": 6, "groupId": 10}
"""Columns that are fields of the properties section, with their places in its list [3.2.4]."""
PRIORITY = 4
"""The priority of rows that name none [3.2.1]."""
PRIORITY_MAX = 255
"""A priority is a ubyte [3.2.1]; brokers distinguish fewer."""

_NULL = bytes((codes.NULL,))
_ONE_BYTE = range(256)
"""Sizes that are written in one byte; others take four [1.6.19 to 1.6.21]."""
_pack_row = Struct(">BQ").pack
_pack_wide = Struct(">BI").pack


class Leads(NamedTuple):
    """The bytes before a value of variable width: its code and size, and the constant bytes before these."""

    narrow: list[bytes]
    """By size, for sizes in one byte."""
    before: bytes
    wide_code: int

    def of(self, values: Iterable[bytes]) -> list[bytes]:
        """The lead of each value."""
        narrow, before, code = self.narrow, self.before, self.wide_code
        return [narrow[size] if size in _ONE_BYTE else before + _pack_wide(code, size) for size in map(len, values)]


def _leads(code_8: int, code_32: int, before: bytes = b"") -> Leads:
    return Leads([before + bytes((code_8, size)) for size in _ONE_BYTE], before, code_32)


def _section(number: int) -> bytes:
    return bytes((codes.DESCRIBED, codes.SMALL_ULONG, number))


_STRING = _leads(codes.STRING_8, codes.STRING_32)
_SYMBOL = _leads(codes.SYMBOL_8, codes.SYMBOL_32)
_BODY = _leads(codes.BINARY_8, codes.BINARY_32, _section(DATA))


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """Encodes the rows of one partition of one write."""

    durable: bool
    """For rows that do not say."""
    batch: str | None
    """The value of the batch annotation; None for no annotations."""

    def encode(self, rows: pa.RecordBatch, first_row: int) -> list[bytes]:
        """Encode a message for each row; ``first_row`` is the number of the first.

        Raises BadMessage, which names the row and the column, for a row that cannot be a message.
        """
        names = rows.schema.names
        sections: list[Iterable[bytes]] = [self._headers(rows, first_row)]
        if self.batch is not None:
            sections.append(_annotations(self.batch, first_row, rows.num_rows))
        if not PROPERTY_COLUMNS.keys().isdisjoint(names):
            sections.append(_properties(rows, first_row))
        if "properties" in names:
            sections.append(_application_properties(rows.column("properties")))
        column = rows.column("body")
        if column.null_count:
            raise _bad(first_row + column.is_valid().index(False).as_py(), "body", "null; a body may be empty")
        bodies = _raw(column)
        return list(map(b"".join, zip(*sections, _BODY.of(bodies), bodies, strict=False)))  # repeat() has no end

    def _headers(self, rows: pa.RecordBatch, first_row: int) -> Iterable[bytes]:
        """The header section of each row. There are few distinct headers, and each of them is encoded once."""
        names, n = rows.schema.names, rows.num_rows
        if "durable" not in names and "priority" not in names:
            return repeat(encode_header(Header(durable=self.durable)))
        durables = rows.column("durable").to_pylist() if "durable" in names else [None] * n
        priorities = rows.column("priority").to_pylist() if "priority" in names else [None] * n
        pairs = list(zip(durables, priorities, strict=True))
        headers = {}
        for durable, priority in set(pairs):
            if priority is not None and not 0 <= priority <= PRIORITY_MAX:
                row = first_row + pairs.index((durable, priority))
                raise _bad(row, "priority", f"{priority}; a priority is 0 to {PRIORITY_MAX}, and {PRIORITY} by default")
            headers[durable, priority] = encode_header(
                Header(
                    durable=self.durable if durable is None else durable,
                    priority=PRIORITY if priority is None else priority,
                )
            )
        return [headers[pair] for pair in pairs]


def _annotations(batch: str, first_row: int, n: int) -> list[bytes]:
    """The annotations of each row. They end with the number of the row, and the bytes before it are the same in all
    rows."""
    batch_item = encode_symbol(BATCH_ANNOTATION), encode_string(batch)
    whole = encode_map_of((*batch_item, encode_symbol(ROW_ANNOTATION), _pack_row(codes.ULONG, 0)))
    before = _section(MESSAGE_ANNOTATIONS) + whole.removesuffix(_pack_row(codes.ULONG, 0))
    return [before + _pack_row(codes.ULONG, row) for row in range(first_row, first_row + n)]


def _properties(rows: pa.RecordBatch, first_row: int) -> list[bytes]:
    """The properties section of each row; none for a row in which all of its columns are null."""
    present = [name for name in PROPERTY_COLUMNS if name in rows.schema.names]
    fields: list[Iterable[bytes]] = [repeat(_NULL)] * (PROPERTY_COLUMNS[present[-1]] + 1)
    for name in present:
        fields[PROPERTY_COLUMNS[name]] = _fields(rows.column(name), name, first_row)
    before = _section(PROPERTIES)
    sections = []
    for row in zip(*fields, strict=False):
        count = len(row)
        while count and row[count - 1] == _NULL:
            count -= 1
        sections.append(before + encode_list_of(row[:count]) if count else b"")
    return sections


def _fields(column: pa.Array, name: str, first_row: int) -> list[bytes]:
    """A column of text as encoded fields, null among them."""
    values = _raw(column)
    if name == "contentType":
        wrong = next((row for row, value in enumerate(values, first_row) if not value.isascii()), None)
        if wrong is not None:
            raise _bad(wrong, name, f"{values[wrong - first_row].decode()!r}; a content type has ASCII characters only")
        return _encoded(column, values, _SYMBOL)
    return _encoded(column, values, _STRING)


def _application_properties(column: pa.Array) -> list[bytes]:
    """The section of each row from a column of maps; none for a map that is null or empty."""
    keys, items = column.keys, column.items
    encoded_keys = _encoded(keys, _raw(keys), _STRING)
    encoded_items = _encoded(items, _raw(items), _STRING)
    both = [field for pair in zip(encoded_keys, encoded_items, strict=True) for field in pair]
    offsets = column.offsets.to_pylist()
    before = _section(APPLICATION_PROPERTIES)
    there = column.is_valid().to_pylist()
    return [
        before + encode_map_of(both[2 * start : 2 * end]) if end > start and valid else b""
        for start, end, valid in zip(offsets, offsets[1:], there, strict=False)
    ]


def _encoded(column: pa.Array, values: list[bytes], leads: Leads) -> list[bytes]:
    encoded = list(map(b"".join, zip(leads.of(values), values, strict=True)))
    if column.null_count:
        return [field if there else _NULL for field, there in zip(encoded, column.is_valid().to_pylist(), strict=True)]
    return encoded


def _raw(column: pa.Array) -> list[bytes]:
    """The bytes of a column of text or of binaries, b"" where it is null. Text is UTF-8 in Arrow, as in AMQP."""
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    values: list[bytes] = column.fill_null(b"").to_pylist() if column.null_count else column.to_pylist()
    return values


def _bad(row: int, column: str, value: str) -> BadMessage:
    return BadMessage(f"row {row}: column {column} is {value}")
