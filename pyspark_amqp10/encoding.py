"""Encodes Arrow columns as AMQP messages: column by column, without a Python object for each value.

Each section becomes a few *pieces*, in the order in which they are in a message. A piece is an array with the bytes of
each row, or bytes that all rows have in common. Bytes that depend on sizes and counts only, such as the descriptor of a
section with its size, are made once for each distinct size. In the end Arrow joins the pieces of each row. The bytes
are those of the generic encoder, except that the number of the row always takes eight bytes.

Sections of a message, in their order [3.2]: header, message annotations (which row of which batch this is, and the
row's own), properties, application properties, the body, footer.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from amqp10.client_core.message import decode_body
from amqp10.errors import DecodeError, EncodeError
from amqp10.wire.codec import format_codes as codes
from amqp10.wire.codec.encode import encode_string, encode_symbol, encode_uint, encode_value
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
from pyspark_amqp10.values import NULL, TYPES, check_encoded, encode_text

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

ANY_SIZE: Final = pa.large_binary()
"""The type of all arrays of bytes here: the messages of a run may have more than 2 GiB together."""
_BATCH_KEYS = (BATCH_ANNOTATION, ROW_ANNOTATION)
_ONE_BYTE_MAX = 255
"""Sizes and counts up to it are written in one byte, others in four [1.6.19 to 1.6.23]."""
_COUNTS = 2**32
"""Counts are below it; for keys that join a size and a count."""
_pack_wide = Struct(">BI").pack
_pack_counts_wide = Struct(">BII").pack

_SIZES = np.zeros(256, np.int64)
"""The size of values of a fixed width, by format code [1.6]: the code and 0, 1, 2, 4, 8 or 16 bytes, as the first digit
of the code says; 0 for codes with other sizes, and where not all bytes are valid."""
for _code in TYPES.keys() - {codes.BOOLEAN, codes.CHAR}:
    if codes.NULL <= _code < codes.BINARY_8:
        _SIZES[_code] = 1 + (0, 1, 2, 4, 8, 16)[(_code >> 4) - 4]

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Truths = np.ndarray[Any, np.dtype[np.bool_]]
Piece: TypeAlias = pa.Array | bytes
"""The bytes of each row, or bytes that all rows have."""


class RowPieces(NamedTuple):
    """RowPieces that stand one behind the other, and how many bytes they have in each row."""

    pieces: list[Piece]
    sizes: Numbers


class VariableWidth(NamedTuple):
    """A type of values whose size stands before them, and the constant bytes before that."""

    code_8: int
    code_32: int
    before: bytes = b""

    def lead(self, size: int) -> bytes:
        """The bytes before a value of this size."""
        if size <= _ONE_BYTE_MAX:
            return self.before + bytes((self.code_8, size))
        return self.before + _pack_wide(self.code_32, size)


def _section(number: int) -> bytes:
    return bytes((codes.DESCRIBED, codes.SMALL_ULONG, number))


_STRING = VariableWidth(codes.STRING_8, codes.STRING_32)
_SYMBOL = VariableWidth(codes.SYMBOL_8, codes.SYMBOL_32)
_BINARY = VariableWidth(codes.BINARY_8, codes.BINARY_32)
_BODIES = {
    "data": VariableWidth(codes.BINARY_8, codes.BINARY_32, _section(DATA)),
    "string": VariableWidth(codes.STRING_8, codes.STRING_32, _section(AMQP_VALUE)),
    "binary": VariableWidth(codes.BINARY_8, codes.BINARY_32, _section(AMQP_VALUE)),
}
"""The lead of a body by its type. Other bodies are in the column ``bodyEncoded``."""
_BODY_KINDS = tuple(_BODIES)
_OTHER_KINDS = ("value", "sequence")
_LEFT_OUT, _NO_VALUE = -2, -1
_ABSENT = {_LEFT_OUT: b"", _NO_VALUE: NULL}
"""What is written for a value that is not there, by what stands for it among numbers and sizes."""


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
        if not rows.num_rows:
            return []
        names = rows.schema.names
        pieces = [self._headers(rows, first_row), *self._annotations(rows, first_row)]
        if not PROPERTY_COLUMNS.keys().isdisjoint(names):
            pieces += _properties(rows, first_row)
        if "properties" in names:
            pieces += _map_section(APPLICATION_PROPERTIES, MapColumn.of(rows, "properties", first_row))
        pieces += _bodies(rows, first_row)
        if "footer" in names:
            pieces += _map_section(FOOTER, MapColumn.of(rows, "footer", first_row))
        entries: list[bytes] = _joined(pieces, rows.num_rows).to_pylist()
        return entries

    def _annotations(self, rows: pa.RecordBatch, first_row: int) -> list[Piece]:
        """The annotations of each row: which row of which batch it is, and those of the column, if there is one. There
        are none for a map that is null or empty, as brokers deliver it."""
        own = None
        if "annotations" in rows.schema.names:
            without = _BATCH_KEYS if self.batch is not None else ()
            own = MapColumn.of(rows, "annotations", first_row, without=without)
        if self.batch is None:
            return [] if own is None else _map_section(MESSAGE_ANNOTATIONS, own._replace(there=own.counts > 0))
        n = rows.num_rows
        before = b"".join(
            (
                *(encode_symbol(BATCH_ANNOTATION), encode_string(self.batch), encode_symbol(ROW_ANNOTATION)),
                bytes((codes.ULONG,)),
            )
        )
        counts, sizes = np.full(n, 4), np.full(n, len(before) + 8)
        numbers = _fixed(np.arange(first_row, first_row + n, dtype=">u8")[:, None].view(np.uint8))
        pieces: list[Piece] = [before, numbers]
        if own is not None:
            counts, sizes, pieces = counts + own.counts, sizes + own.sizes, [*pieces, own.content]
        lead = _compound_leads(MESSAGE_ANNOTATIONS, codes.MAP_8, codes.MAP_32, sizes, counts, np.ones(n, np.bool_))
        return [lead, *pieces]

    def _headers(self, rows: pa.RecordBatch, first_row: int) -> Piece:
        """The header section of each row. There are few distinct headers."""
        names, n = rows.schema.names, rows.num_rows
        none = np.full(n, _NO_VALUE)
        priorities = ttls = durables = none
        if "priority" in names:
            given = f"a priority is 0 to {PRIORITY_MAX}, and {PRIORITY} by default"
            priorities = _numbers(rows, "priority", PRIORITY_MAX, first_row, given)
        if "ttl" in names:
            ttls = _numbers(rows, "ttl", UINT_MAX, first_row, f"it is 0 to {UINT_MAX} milliseconds")
        if "durable" in names:
            durables = _numbers(rows, "durable", 1, first_row, "")
        keys = ((ttls + 1) * (PRIORITY_MAX + 2) + priorities + 1) * 3 + durables + 1

        def header(key: int) -> bytes:
            others, durable = divmod(key, 3)
            ttl, priority = divmod(others, PRIORITY_MAX + 2)
            return encode_header(
                Header(
                    durable=bool(durable - 1) if durable else self.durable,
                    priority=priority - 1 if priority else PRIORITY,
                    ttl=ttl - 1 if ttl else None,
                )
            )

        return _by_key(keys, header).pieces[0]


# --- sections ------------------------------------------------------------------------------------------------------


def _properties(rows: pa.RecordBatch, first_row: int) -> list[Piece]:
    """The properties section of each row: none for a row in which all of its columns are null, and no null fields at
    its end. So it is made from the last field to the first."""
    n = rows.num_rows
    by_place = {PROPERTY_COLUMNS[name]: name for name in PROPERTY_COLUMNS if name in rows.schema.names}
    counts, sizes = np.zeros(n, np.int64), np.zeros(n, np.int64)
    pieces: list[Piece] = []
    for place in range(max(by_place), -1, -1):
        absent = np.where(counts > 0, _NO_VALUE, _LEFT_OUT)
        if place in by_place:
            column = rows.column(by_place[place])
            field = _field(rows, by_place[place], absent, first_row)
            counts = np.where((counts == 0) & _there(column), place + 1, counts)
        else:
            field = _by_key(absent, encode_uint)  # there is no number among these keys
        pieces = field.pieces + pieces
        sizes += field.sizes
    return [_compound_leads(PROPERTIES, codes.LIST_8, codes.LIST_32, sizes, counts, counts > 0), *pieces]


def _field(rows: pa.RecordBatch, name: str, absent: Numbers, first_row: int) -> RowPieces:
    """A column as encoded fields; ``absent`` says what is written for a null."""
    column = rows.column(name)
    if name in TIMES:
        times_us = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).fill_null(0).to_numpy()
        times = np.full((len(times_us), 9), codes.TIMESTAMP, np.uint8)
        times[:, 1:] = (times_us // MICROSECONDS).astype(">i8")[:, None].view(np.uint8)
        return _encoded_fields(_fixed(times), column, absent)
    if name == "groupSequence":
        numbers = _numbers(rows, name, UINT_MAX, first_row, f"it is 0 to {UINT_MAX}")
        return _by_key(np.where(numbers < 0, absent, numbers), encode_uint)
    if name == "userId":
        return _variable(column, _BINARY, absent)
    if name in SYMBOLS:
        if (row := _first(compute.invert(compute.string_is_ascii(column)))) is not None:
            shown = column[row].as_py()
            raise _bad(first_row + row, name, f"{shown!r}; a content type or encoding has ASCII characters only")
        return _variable(column, _SYMBOL, absent)
    if name + "Type" not in rows.schema.names:
        return _variable(column, _STRING, absent)
    return _ids(rows, name, absent, first_row)


def _ids(rows: pa.RecordBatch, name: str, absent: Numbers, first_row: int) -> RowPieces:
    """A column of ids, whose types are in another column; null stands for string."""
    column, types = rows.column(name), rows.column(name + "Type")
    others = compute.and_(compute.not_equal(types, "string"), column.is_valid()).fill_null(False)
    if _first(others) is None:
        return _variable(column, _STRING, absent)
    encoded: list[bytes | None] = []
    for row, (value, kind) in enumerate(zip(column.to_pylist(), types.to_pylist(), strict=True), first_row):
        if value is not None and kind is not None and kind not in ID_KINDS:
            raise _bad(row, name + "Type", f"{kind!r}; it is {', '.join(ID_KINDS[:-1])} or {ID_KINDS[-1]}")
        try:
            encoded.append(None if value is None else encode_text(kind or "string", value))
        except ValueError as error:
            raise _bad(row, name, f"wrong: {error}") from None
    return _encoded_fields(pa.array(encoded, ANY_SIZE), column, absent)


class MapColumn(NamedTuple):
    """A column of maps: the encoded keys and values of each row, in turn."""

    content: pa.Array
    sizes: Numbers
    counts: Numbers
    """Keys and values."""
    there: Truths
    """Whether the map is not null."""

    @classmethod
    def of(cls, rows: pa.RecordBatch, name: str, first_row: int, *, without: Collection[str] = ()) -> "MapColumn":
        """Encode a column, without some keys."""
        column = rows.column(name)
        offsets = column.offsets.to_numpy().astype(np.int64)
        begin, end = int(offsets[0]), int(offsets[-1])
        keys, items = column.keys.slice(begin, end - begin), column.items.slice(begin, end - begin)
        offsets -= begin
        there = _there(column)
        kept = np.repeat(there, np.diff(offsets))  # a null may have hidden items
        if without:
            kept &= ~_truths(compute.is_in(keys, pa.array(without, keys.type)))
        if not kept.all():
            keys, items = keys.filter(pa.array(kept)), items.filter(pa.array(kept))
            offsets = np.concatenate(([0], np.cumsum(kept)))[offsets]

        def row_of(place: int) -> int:
            return first_row + int(np.searchsorted(offsets, place, side="right")) - 1

        flat = _joined(_items(_Keys.of(keys, name, row_of), items, name, row_of), len(keys))
        ends = np.frombuffer(flat.buffers()[1], np.int64)[flat.offset : flat.offset + len(keys) + 1]
        bounds = ends[offsets]
        content = pa.Array.from_buffers(ANY_SIZE, len(column), [None, pa.py_buffer(bounds), flat.buffers()[2]])
        return cls(content, np.diff(bounds), np.diff(offsets) * 2, there)


class _Keys(NamedTuple):
    """The keys of maps. There are few distinct ones."""

    encoded: list[bytes]
    """The distinct ones: strings, or what annotations and footers have."""
    places: Numbers
    """For each item, the place of its key among them."""

    @classmethod
    def of(cls, keys: pa.Array, name: str, row_of: Callable[[int], int]) -> "_Keys":
        """Encode the keys of a column. Raises BadMessage for the first that an annotation cannot have."""
        found = keys.dictionary_encode()
        encode = encode_string if name == "properties" else _annotation_key
        encoded = []
        for place, key in enumerate(found.dictionary.to_pylist()):
            try:
                encoded.append(encode(key))
            except ValueError as error:
                row = row_of(found.indices.index(place).as_py())
                raise _bad(row, name, f"wrong: {error}") from None
        return cls(encoded, found.indices.to_numpy().astype(np.int64))


def _items(keys: _Keys, items: pa.Array, name: str, row_of: Callable[[int], int]) -> list[Piece]:
    """The items of maps. Values are texts, or typed values, which are their encoding where it is given, otherwise that
    of their text."""
    if not pa.types.is_struct(items.type):
        return _text_items(keys, items)
    n = len(items)
    names = [field.name for field in items.type]
    kinds, texts, encodings = (
        items.field(one) if one in names else pa.nulls(n, pa.string()) for one in ("type", "text", "encoded")
    )
    strings = _joined(_variable(texts, _STRING).pieces, n)
    given = encodings.cast(ANY_SIZE)
    are_strings = compute.and_(
        compute.and_(compute.equal(kinds, "string").fill_null(True), texts.is_valid()),  # null stands for string
        compute.equal(given, strings).fill_null(True),
    )
    known = _truths(are_strings)
    values = strings
    if not known.all():
        fixed = _have_fixed_width(given)
        values, known = compute.if_else(pa.array(fixed), given, strings), known | fixed
    if len(others := np.flatnonzero(~known)):
        encoded: list[bytes] = []
        for at, value in zip(
            others.tolist(), _typed_values(*(one.take(others) for one in (kinds, texts, given))), strict=False
        ):
            if isinstance(value, ValueError):
                raise _bad(row_of(at), name, f"wrong: {value}") from None
            encoded.append(value)
        values = compute.replace_with_mask(values, pa.array(~known), pa.array(encoded, ANY_SIZE))
    return [*_by_key(keys.places, keys.encoded.__getitem__).pieces, values]


def _text_items(keys: _Keys, items: pa.Array) -> list[Piece]:
    """Items whose values are texts: what is before a text depends on the key and on the size of the text."""
    texts = _raw(items)
    sizes = compute.binary_length(texts).to_numpy()
    if items.null_count:
        sizes = np.where(_there(items), sizes, _NO_VALUE)

    def lead(key: int) -> bytes:
        place, size = divmod(key, _COUNTS)
        return keys.encoded[place] + (_STRING.lead(size - 1) if size else NULL)

    return [*_by_key(keys.places * _COUNTS + sizes + 1, lead).pieces, texts]


def _have_fixed_width(encoded: pa.Array) -> Truths:
    """Which of these encoded values are certainly valid, because any bytes of their size are a value of their type."""
    begins = np.frombuffer(encoded.buffers()[1], np.int64)[encoded.offset : encoded.offset + len(encoded) + 1]
    sizes = np.diff(begins)
    there = np.flatnonzero(sizes)
    found = np.zeros(len(encoded), np.bool_)
    if len(there):
        content = np.frombuffer(encoded.buffers()[2], np.uint8)
        found[there] = _SIZES[content[begins[there]]] == sizes[there]
    return found


def _typed_values(kinds: pa.Array, texts: pa.Array, encodings: pa.Array) -> Iterator[bytes | ValueError]:
    """Encode typed values one by one. A value that is wrong is the last: the error says what is wrong."""
    known: dict[object, bytes] = {}
    for given in zip(kinds.to_pylist(), texts.to_pylist(), encodings.to_pylist(), strict=True):
        value = known.get(given)
        if value is None:
            try:
                value = _typed_value(*given)
            except ValueError as error:
                yield error
                return
            if len(known) < KNOWN_VALUES_MAX:
                known[given] = value
        yield value


def _typed_value(kind: str | None, text: str | None, encoded: bytes | None) -> bytes:
    if encoded is None:
        return encode_text(kind or "string", text)
    check_encoded(encoded)
    return encoded


def _annotation_key(key: str) -> bytes:
    """A symbol that begins with x-, or a ulong in digits [3.2.10]. Raises ValueError, whose text says what is wrong."""
    if key.isascii() and key.isdigit():
        try:
            return encode_value(ULong(int(key)))
        except EncodeError:
            raise ValueError(f"the key {key} is no ulong") from None
    if not (key.isascii() and key.startswith("x-")):
        raise ValueError(f"the key {key!r} must begin with x- and have ASCII characters only")
    return encode_symbol(key)


def _map_section(section: int, column: MapColumn) -> list[Piece]:
    lead = _compound_leads(section, codes.MAP_8, codes.MAP_32, column.sizes, column.counts, column.there)
    return [lead, column.content]


def _bodies(rows: pa.RecordBatch, first_row: int) -> list[Piece]:
    """The sections of the bodies."""
    column = rows.column("body")
    if "bodyType" not in rows.schema.names:
        if column.null_count:
            raise _bad(first_row + (_first(column.is_null()) or 0), "body", "null; a body may be empty")
        return _variable(column, _BODIES["data"]).pieces
    types = rows.column("bodyType")
    kinds = compute.index_in(types.fill_null("data"), pa.array(_BODY_KINDS, types.type)).fill_null(_NO_VALUE)
    kinds = kinds.to_numpy().astype(np.int64)
    there, no_kind = _there(column), ~_there(types)
    bodies = _raw(column)
    given = np.zeros(len(column), np.bool_)
    if "bodyEncoded" in rows.schema.names:
        others = rows.column("bodyEncoded")
        given = _there(others) & _truths(compute.is_in(types, pa.array(_OTHER_KINDS, types.type)))
        for row in np.flatnonzero(given).tolist():
            _check_body(first_row + row, others[row].as_py())
        bodies = compute.if_else(pa.array(given), others.cast(ANY_SIZE), bodies)
    empty = no_kind & ~there & ~given
    wrong = np.flatnonzero(~given & ~empty & ((kinds < 0) | ~there))
    if len(wrong):
        row = int(wrong[0])
        if kinds[row] >= 0:
            raise _bad(first_row + row, "body", "null; a body may be empty")
        shown = f"{types[row].as_py()!r}; it is data, string or binary, or column bodyEncoded has the body"
        raise _bad(first_row + row, "bodyType", shown)
    sizes = compute.binary_length(bodies).to_numpy()
    keys = np.where(given | empty, _LEFT_OUT, sizes * len(_BODY_KINDS) + kinds)

    def lead(key: int) -> bytes:
        size, kind = divmod(key, len(_BODY_KINDS))
        return _BODIES[_BODY_KINDS[kind]].lead(size)

    return [*_by_key(keys, lead).pieces, bodies]


def _check_body(row: int, section: bytes) -> None:
    """Check the sections of a body, as the source gives them."""
    try:
        bounds = scan(section)
        if bounds.body != (0, len(section)):
            raise DecodeError("they are not the sections of one body")
        decode_body(section, bounds.body, bounds.body_code)
    except DecodeError as error:
        raise _bad(row, "bodyEncoded", f"wrong: {error.description}") from None


# --- pieces --------------------------------------------------------------------------------------------------------


def _joined(pieces: Iterable[Piece], n: int) -> pa.Array:
    """The pieces of each row as one."""
    arguments: list[Any] = []
    for piece in pieces:
        if isinstance(piece, bytes) and arguments and isinstance(arguments[-1], bytes):
            arguments[-1] += piece
        else:
            arguments.append(piece)
    arguments = [pa.scalar(one, ANY_SIZE) if isinstance(one, bytes) else one for one in arguments]
    if not any(isinstance(one, pa.Array) for one in arguments):
        arguments.append(pa.repeat(pa.scalar(b"", ANY_SIZE), n))
    return compute.binary_join_element_wise(*arguments, pa.scalar(b"", ANY_SIZE))


def _by_key(keys: Numbers, made: Callable[[int], bytes]) -> RowPieces:
    """What each row has by its key, made once for each distinct key; ``_ABSENT`` has it for negative ones."""
    first = int(keys[0]) if len(keys) else _LEFT_OUT
    if (keys == first).all():
        value = made(first) if first >= 0 else _ABSENT[first]
        return RowPieces([value], np.full(len(keys), len(value)))
    found = pa.array(keys).dictionary_encode()
    values = [made(key) if key >= 0 else _ABSENT[key] for key in found.dictionary.to_pylist()]
    sizes = np.array([len(value) for value in values], np.int64)
    return RowPieces([pa.array(values, ANY_SIZE).take(found.indices)], sizes[found.indices.to_numpy()])


def _variable(column: pa.Array, kind: VariableWidth, absent: "Numbers | int" = _NO_VALUE) -> RowPieces:
    """A column of text or of binaries as encoded values; ``absent`` says what is written for a null."""
    values = _raw(column)
    sizes = compute.binary_length(values).to_numpy()
    keys = np.where(_there(column), sizes, absent) if column.null_count else sizes
    leads = _by_key(keys, kind.lead)
    return RowPieces([*leads.pieces, values], leads.sizes + sizes)


def _encoded_fields(encoded: pa.Array, column: pa.Array, absent: Numbers) -> RowPieces:
    """Encoded fields; ``absent`` says what is written where the column is null."""
    if column.null_count:
        nulls = compute.if_else(pa.array(absent == _NO_VALUE), pa.scalar(NULL, ANY_SIZE), pa.scalar(b"", ANY_SIZE))
        encoded = compute.if_else(column.is_valid(), encoded, nulls)
    return RowPieces([encoded], compute.binary_length(encoded).to_numpy())


def _compound_leads(section: int, code_8: int, code_32: int, sizes: Numbers, counts: Numbers, there: Truths) -> Piece:
    """The bytes before the content of a section that is a list or a map, for the rows that have it."""
    before = _section(section)

    def lead(key: int) -> bytes:
        size, count = divmod(key, _COUNTS)
        if size < _ONE_BYTE_MAX and count <= _ONE_BYTE_MAX:  # the size covers the count too: one byte or four
            return before + bytes((code_8, size + 1, count))
        return before + _pack_counts_wide(code_32, size + 4, count)

    return _by_key(np.where(there, sizes * _COUNTS + counts, _LEFT_OUT), lead).pieces[0]


def _fixed(values: "np.ndarray[Any, np.dtype[np.uint8]]") -> pa.Array:
    """An array whose values all have the same size: one for each row of the matrix."""
    n, size = values.shape
    return pa.Array.from_buffers(pa.binary(size), n, [None, pa.py_buffer(values.tobytes())]).cast(ANY_SIZE)


# --- columns -------------------------------------------------------------------------------------------------------


def _raw(column: pa.Array) -> pa.Array:
    """The bytes of a column of text or of binaries, b"" where it is null. Text is UTF-8 in Arrow, as in AMQP."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_string())
    column = column.cast(ANY_SIZE)
    return column.fill_null(b"") if column.null_count else column


def _there(column: pa.Array) -> Truths:
    """Whether the value of each row is not null."""
    return _truths(column.is_valid())


def _truths(column: pa.Array) -> Truths:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def _numbers(rows: pa.RecordBatch, name: str, most: int, first_row: int, limits: str) -> Numbers:
    """A column of numbers from 0 to ``most``; -1 for null."""
    numbers = rows.column(name).cast(pa.int64())
    wrong = _first(compute.or_(compute.less(numbers, 0), compute.greater(numbers, most)))
    if wrong is not None:
        raise _bad(first_row + wrong, name, f"{numbers[wrong].as_py()}; {limits}")
    return np.asarray(numbers.fill_null(_NO_VALUE).to_numpy(), np.int64)


def _first(truths: pa.Array) -> int | None:
    """The place of the first true value."""
    place: int = compute.index(truths, True).as_py()
    return None if place < 0 else place


def _bad(row: int, column: str, value: str) -> BadMessage:
    return BadMessage(f"row {row}: column {column} is {value}")
