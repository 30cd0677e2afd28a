"""Encodes Arrow columns as AMQP messages: a list of bytes for each section, joined row by row.

Parts that rows have in common are encoded once: sections that are the same in all of them, the leads of short strings,
and each distinct header. For each row only the lookup of leads and the join are left, so no value goes through the
generic encoder. The bytes are those of the generic encoder, except that the number of the row always takes eight bytes.

Sections of a message, in their order [3.2]: header, message annotations (which row of which batch this is, and the
row's own), properties, application properties, the body, footer.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import repeat
from struct import Struct
from typing import NamedTuple

import pyarrow as pa

from amqp10.client_core.message import decode_body
from amqp10.errors import DecodeError, EncodeError
from amqp10.wire.codec import format_codes as codes
from amqp10.wire.codec.encode import (
    encode_list_of,
    encode_map_of,
    encode_string,
    encode_symbol,
    encode_uint,
    encode_value,
)
from amqp10.wire.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    Header,
    encode_header,
    scan,
)
from amqp10.wire.types import ULong
from pyspark_amqp10.columns import GROUP_SEQUENCE, MICROSECONDS, TEXT_FIELDS, TIMES, USER_ID
from pyspark_amqp10.errors import BadMessage
from pyspark_amqp10.values import check_encoded, encode_text

BATCH_ANNOTATION = "x-opt-spark-batch"
"""Message annotation, a string: names the rows that are written together and in order. A repeated task uses it
again."""
ROW_ANNOTATION = "x-opt-spark-row"
"""Message annotation, a ulong: the number of the row within those, from 0 up."""

PROPERTY_COLUMNS = {**TEXT_FIELDS, **TIMES, "userId": USER_ID, "groupSequence": GROUP_SEQUENCE}
"""Columns that are fields of the properties section, with their places in its list [3.2.4]."""
SYMBOLS = frozenset({"contentType", "contentEncoding"})
"""Those of them that are symbols, so have ASCII characters only."""
PRIORITY = 4
"""The priority of rows that name none [3.2.1]."""
PRIORITY_MAX = 255
"""A priority is a ubyte [3.2.1]; brokers distinguish fewer."""
UINT_MAX = 2**32 - 1
KNOWN_VALUES_MAX = 4096
"""Distinct typed values of a batch whose encoding is remembered."""
ID_KINDS = ("string", "ulong", "uuid", "binary")
"""The types that an id may have [3.2.11 to 3.2.14]."""
_BATCH_KEYS = (BATCH_ANNOTATION, ROW_ANNOTATION)

_NULL = bytes((codes.NULL,))
_ONE_BYTE = range(256)
"""Sizes that are written in one byte; others take four [1.6.19 to 1.6.21]."""
_pack_row = Struct(">BQ").pack
_pack_time = Struct(">Bq").pack
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
_BINARY = _leads(codes.BINARY_8, codes.BINARY_32)
_BODIES = {
    "data": _leads(codes.BINARY_8, codes.BINARY_32, _section(DATA)),
    "string": _leads(codes.STRING_8, codes.STRING_32, _section(AMQP_VALUE)),
    "binary": _leads(codes.BINARY_8, codes.BINARY_32, _section(AMQP_VALUE)),
}
"""The lead of a body by its type. Other bodies are in the column ``bodyEncoded``."""


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
        if "annotations" in names:
            sections.append(self._own_annotations(rows.column("annotations"), first_row))
        elif self.batch is not None:
            sections.append(_annotations(self.batch, first_row, rows.num_rows))
        if not PROPERTY_COLUMNS.keys().isdisjoint(names):
            sections.append(_properties(rows, first_row))
        if "properties" in names:
            pairs = map_pairs(rows.column("properties"), "properties", first_row)
            sections.append([_map_section(APPLICATION_PROPERTIES, each) for each in pairs])
        sections += _bodies(rows, first_row)
        if "footer" in names:
            sections.append(
                [_map_section(FOOTER, each) for each in map_pairs(rows.column("footer"), "footer", first_row)]
            )
        return list(map(b"".join, zip(*sections, strict=False)))  # repeat() has no end

    def _own_annotations(self, column: pa.Array, first_row: int) -> list[bytes]:
        """The annotations of each row from a column of maps, with those that say which row of which batch it is; none
        for a map that is null or empty, as brokers deliver it."""
        pairs = map_pairs(column, "annotations", first_row, without=_BATCH_KEYS if self.batch is not None else ())
        if self.batch is None:
            return [_map_section(MESSAGE_ANNOTATIONS, each or None) for each in pairs]
        batch = [encode_symbol(BATCH_ANNOTATION), encode_string(self.batch), encode_symbol(ROW_ANNOTATION)]
        return [
            _map_section(MESSAGE_ANNOTATIONS, [*batch, _pack_row(codes.ULONG, row), *(each or ())])
            for row, each in enumerate(pairs, first_row)
        ]

    def _headers(self, rows: pa.RecordBatch, first_row: int) -> Iterable[bytes]:
        """The header section of each row. There are few distinct headers, and each of them is encoded once."""
        names, n = rows.schema.names, rows.num_rows
        if not {"durable", "priority", "ttl"} & set(names):
            return repeat(encode_header(Header(durable=self.durable)))
        durables, priorities, ttls = (
            rows.column(name).to_pylist() if name in names else [None] * n for name in ("durable", "priority", "ttl")
        )
        given = list(zip(durables, priorities, ttls, strict=True))
        headers = {}
        for each in set(given):
            durable, priority, ttl = each
            if priority is not None and not 0 <= priority <= PRIORITY_MAX:
                row = first_row + given.index(each)
                raise _bad(row, "priority", f"{priority}; a priority is 0 to {PRIORITY_MAX}, and {PRIORITY} by default")
            if ttl is not None and not 0 <= ttl <= UINT_MAX:
                raise _bad(first_row + given.index(each), "ttl", f"{ttl}; it is 0 to {UINT_MAX} milliseconds")
            headers[each] = encode_header(
                Header(
                    durable=self.durable if durable is None else durable,
                    priority=PRIORITY if priority is None else priority,
                    ttl=ttl,
                )
            )
        return [headers[each] for each in given]


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
    fields: list[Iterable[bytes]] = [repeat(_NULL)] * (max(PROPERTY_COLUMNS[name] for name in present) + 1)
    for name in present:
        fields[PROPERTY_COLUMNS[name]] = _fields(rows, name, first_row)
    before = _section(PROPERTIES)
    sections = []
    for row in zip(*fields, strict=False):
        count = len(row)
        while count and row[count - 1] == _NULL:
            count -= 1
        sections.append(before + encode_list_of(row[:count]) if count else b"")
    return sections


def _fields(rows: pa.RecordBatch, name: str, first_row: int) -> list[bytes]:
    """A column as encoded fields, null among them."""
    column = rows.column(name)
    if name in TIMES:
        times_us = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
        return [_NULL if one is None else _pack_time(codes.TIMESTAMP, one // MICROSECONDS) for one in times_us]
    if name == "groupSequence":
        numbers = column.to_pylist()
        wrong = next((row for row, one in enumerate(numbers, first_row) if one and not 0 < one <= UINT_MAX), None)
        if wrong is not None:
            raise _bad(wrong, name, f"{numbers[wrong - first_row]}; it is 0 to {UINT_MAX}")
        return [_NULL if one is None else encode_uint(one) for one in numbers]
    values = _raw(column)
    if name == "userId":
        return _encoded(column, values, _BINARY)
    if name in SYMBOLS:
        wrong = next((row for row, value in enumerate(values, first_row) if not value.isascii()), None)
        if wrong is not None:
            shown = values[wrong - first_row].decode()
            raise _bad(wrong, name, f"{shown!r}; a content type or encoding has ASCII characters only")
        return _encoded(column, values, _SYMBOL)
    encoded = _encoded(column, values, _STRING)
    if name + "Type" not in rows.schema.names:
        return encoded
    types = rows.column(name + "Type").to_pylist()
    for place, kind in enumerate(types):
        if kind is None or kind == "string" or encoded[place] == _NULL:
            continue
        if kind not in ID_KINDS:
            raise _bad(
                first_row + place, name + "Type", f"{kind!r}; it is {', '.join(ID_KINDS[:-1])} or {ID_KINDS[-1]}"
            )
        try:
            encoded[place] = encode_text(kind, values[place].decode())
        except ValueError as error:
            raise _bad(first_row + place, name, f"wrong: {error}") from None
    return encoded


def _bodies(rows: pa.RecordBatch, first_row: int) -> list[Iterable[bytes]]:
    """The sections of the bodies, as lists of pieces."""
    column = rows.column("body")
    bodies = _raw(column)
    if "bodyType" not in rows.schema.names:
        if column.null_count:
            raise _bad(first_row + column.is_valid().index(False).as_py(), "body", "null; a body may be empty")
        return [_BODIES["data"].of(bodies), bodies]
    types = rows.column("bodyType").to_pylist()
    others = rows.column("bodyEncoded").to_pylist() if "bodyEncoded" in rows.schema.names else [None] * len(bodies)
    there = column.is_valid().to_pylist()
    sections: list[bytes] = []
    for row, (kind, body, other, given) in enumerate(zip(types, bodies, others, there, strict=True), first_row):
        if other is not None and kind in ("value", "sequence"):
            sections.append(_checked_body(row, other))
        elif kind is None and not given:
            sections.append(b"")
        elif (kind or "data") not in _BODIES:
            raise _bad(row, "bodyType", f"{kind!r}; it is data, string or binary, or column bodyEncoded has the body")
        elif not given:
            raise _bad(row, "body", "null; a body may be empty")
        else:
            sections.append(_BODIES[kind or "data"].of((body,))[0] + body)
    return [sections]


def _checked_body(row: int, section: bytes) -> bytes:
    """The sections of a body, as the source gives them."""
    try:
        bounds = scan(section)
        if bounds.body != (0, len(section)):
            raise DecodeError("they are not the sections of one body")
        decode_body(section, bounds.body, bounds.body_code)
    except DecodeError as error:
        raise _bad(row, "bodyEncoded", f"wrong: {error.description}") from None
    return section


def map_pairs(
    column: pa.Array, name: str, first_row: int, *, without: Collection[str] = ()
) -> list[list[bytes] | None]:
    """The encoded keys and values of each row of a column of maps, in turn; None where the map is null."""
    keys, items = column.keys, column.items
    offsets = column.offsets.to_pylist()

    def row_of(place: int) -> int:
        return first_row + bisect_right(offsets, place) - 1

    begin, end = offsets[0], offsets[-1]
    keys, items = keys.slice(begin, end - begin), items.slice(begin, end - begin)
    encoded_keys: list[bytes]
    if name == "properties":
        encoded_keys = _encoded(keys, _raw(keys), _STRING)
    else:
        encoded_keys = [_annotation_key(key, name, row_of(begin + at)) for at, key in enumerate(keys.to_pylist())]
    values = _typed(items, name, lambda at: row_of(begin + at)) if pa.types.is_struct(items.type) else _encoded(
        items, _raw(items), _STRING
    )  # fmt: skip
    dropped = {encode_symbol(key) for key in without}
    rows: list[list[bytes] | None] = []
    for start, stop, valid in zip(offsets, offsets[1:], column.is_valid().to_pylist(), strict=False):
        if not valid:
            rows.append(None)
            continue
        both = zip(encoded_keys[start - begin : stop - begin], values[start - begin : stop - begin], strict=True)
        rows.append([piece for pair in both if pair[0] not in dropped for piece in pair])
    return rows


def _typed(items: pa.StructArray, name: str, row_of: Callable[[int], int]) -> list[bytes]:
    """Typed values: their encoding where it is given, otherwise that of their text."""
    n = len(items)
    names = [field.name for field in items.type]
    types, texts, encodings = (
        items.field(one).to_pylist() if one in names else [None] * n for one in ("type", "text", "encoded")
    )
    known: dict[object, bytes] = {}
    values: list[bytes] = []
    for at, given in enumerate(zip(types, texts, encodings, strict=True)):
        value = known.get(given)
        if value is None:
            try:
                value = _typed_value(*given)
            except ValueError as error:
                raise _bad(row_of(at), name, f"wrong: {error}") from None
            if len(known) < KNOWN_VALUES_MAX:
                known[given] = value
        values.append(value)
    return values


def _typed_value(kind: str | None, text: str | None, encoded: bytes | None) -> bytes:
    if encoded is None:
        return encode_text(kind or "string", text)
    check_encoded(encoded)
    return encoded


def _annotation_key(key: str, name: str, row: int) -> bytes:
    """A symbol that begins with x-, or a ulong in digits [3.2.10]."""
    if key.isascii() and key.isdigit():
        try:
            return encode_value(ULong(int(key)))
        except EncodeError:
            raise _bad(row, name, f"wrong: the key {key} is no ulong") from None
    if not (key.isascii() and key.startswith("x-")):
        raise _bad(row, name, f"wrong: the key {key!r} must begin with x- and have ASCII characters only")
    return encode_symbol(key)


def _map_section(section: int, pairs: list[bytes] | None) -> bytes:
    return b"" if pairs is None else _section(section) + encode_map_of(pairs)


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
