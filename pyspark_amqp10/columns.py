"""The columns of messages: their names, their Arrow types, and how each is made of the parts of many messages.

A column is made for all rows of a batch at once, and only if a query asks for it.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from amqp10.wire.codec import format_codes as code
from pyspark_amqp10.parts import HeaderFields, Items, Wanted
from pyspark_amqp10.values import NULL, TYPES, text_of

TYPED_VALUE: Final = pa.struct([("type", pa.string()), ("text", pa.string()), ("encoded", pa.binary())])
"""A value with the name of its AMQP type, its text and its encoding."""
TYPED_MAP: Final = pa.map_(pa.string(), TYPED_VALUE)
TEXT_MAP: Final = pa.map_(pa.string(), pa.string())
TIME: Final = pa.timestamp("us", tz="UTC")

SCHEMA: Final = pa.schema(
    [
        ("body", pa.binary()),
        ("bodyType", pa.string()),
        ("bodyEncoded", pa.binary()),
        ("address", pa.string()),
        ("offset", pa.int64()),
        ("enqueued", TIME),
        ("messageId", pa.string()),
        ("messageIdType", pa.string()),
        ("correlationId", pa.string()),
        ("correlationIdType", pa.string()),
        ("userId", pa.binary()),
        ("to", pa.string()),
        ("replyTo", pa.string()),
        ("subject", pa.string()),
        ("contentType", pa.string()),
        ("contentEncoding", pa.string()),
        ("expiryTime", TIME),
        ("creationTime", TIME),
        ("groupId", pa.string()),
        ("groupSequence", pa.int64()),
        ("replyToGroupId", pa.string()),
        ("durable", pa.bool_()),
        ("priority", pa.int16()),
        ("ttl", pa.int64()),
        ("firstAcquirer", pa.bool_()),
        ("deliveryCount", pa.int64()),
        ("properties", TYPED_MAP),
        ("annotations", TYPED_MAP),
        ("footer", TYPED_MAP),
    ]
)
"""The columns of a source, as an Arrow schema. With ``mapValues`` text, the last three are :data:`TEXT_MAP`."""
MAP_COLUMNS: Final = ("properties", "annotations", "footer")
"""The columns that are left out with ``includeHeaders`` false."""

HEADER_PLACES: Final = {"durable": 0, "priority": 1, "ttl": 2, "firstAcquirer": 3, "deliveryCount": 4}
"""Columns that are fields of the header section, with their places in its list [3.2.1]."""
TEXT_FIELDS: Final = {
    "messageId": 0,
    "to": 2,
    "subject": 3,
    "replyTo": 4,
    "correlationId": 5,
    "contentType": 6,
    "contentEncoding": 7,
    "groupId": 10,
    "replyToGroupId": 12,
}
"""Columns of text that are fields of the properties section, with their places in its list [3.2.4]."""
ID_TYPES: Final = {"messageIdType": 0, "correlationIdType": 5}
"""Columns with the types of ids, which may be a string, a ulong, a uuid or a binary."""
TIMES: Final = {"expiryTime": 8, "creationTime": 9}
USER_ID: Final = 1
CREATION_TIME: Final = 9
GROUP_SEQUENCE: Final = 11

FIELD_PLACES: Final = {**TEXT_FIELDS, **ID_TYPES, **TIMES, "userId": USER_ID, "groupSequence": GROUP_SEQUENCE}
"""All columns that are made of fields of the properties section."""
PLAIN_PARTS: Final = {"body": 0, "offset": 1, "bodyType": 6, "bodyEncoded": 7}
"""Columns that are parts of messages as they are, with their places among these."""

MICROSECONDS: Final = 1000
"""Microseconds in a millisecond: AMQP counts in the latter, Spark in the former."""
TIME_MS_MAX: Final = 253_402_300_799_999
"""9999-12-31, the last day that Spark shows. Later times, and times as far before 1970, become null."""


def wanted_parts(names: Iterable[str]) -> Wanted:
    """The parts of messages of which these columns are made."""
    asked = set(names)
    return Wanted(
        header=not asked.isdisjoint(HEADER_PLACES),
        annotations=not asked.isdisjoint(("annotations", "enqueued")),
        fields=not asked.isdisjoint((*FIELD_PLACES, "enqueued")),
        properties="properties" in asked,
        footer="footer" in asked,
    )


def header_column(name: str, headers: Sequence[HeaderFields], kind: pa.DataType) -> pa.Array:
    """A column that is a field of the header."""
    place = HEADER_PLACES[name]
    return pa.array([header[place] for header in headers], kind)


def field_column(name: str, fields: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """A column that is a field of the properties, or the type of one. ``fields`` are encoded."""
    if fields.count(None) == len(fields):
        return pa.nulls(len(fields), kind)
    if name in TEXT_FIELDS:
        return pa.array(
            [
                None if each is None else str(each[2:], "utf-8") if each[0] in _SHORT_TEXTS else text_of(each)
                for each in fields
            ],
            kind,
        )
    if name in ID_TYPES:
        return pa.array([None if each is None or each == NULL else TYPES[each[0]] for each in fields], kind)
    if name in TIMES:
        return pa.array(list(map(_time, fields)), kind)
    return pa.array(list(map(_binary if name == "userId" else _number, fields)), kind)


def enqueued_column(
    stamps: Sequence[bytes | None], creation_times: Sequence[bytes | None], kind: pa.DataType
) -> pa.Array:
    """The times that a broker stamped; where it stamped none, the creation-time."""
    return pa.array(
        [
            _time(created if stamp is None or stamp[0] != code.TIMESTAMP else stamp)
            for stamp, created in zip(stamps, creation_times, strict=True)
        ],
        kind,
    )


def map_column(maps: Sequence[Items | None], kind: pa.DataType) -> pa.Array:
    """A column of maps."""
    keys: list[bytes] = []
    values: list[bytes] = []
    offsets: list[int | None] = []
    at = 0
    for items in maps:
        if items is None:
            offsets.append(None)
            continue
        offsets.append(at)
        keys += items
        values += items.values()
        at += len(items)
    offsets.append(at)
    texts = pa.array(
        [str(value[2:], "utf-8") if value[0] in _SHORT_TEXTS else text_of(value) for value in values], pa.string()
    )
    if pa.types.is_struct(kind.item_type):
        codes = pa.array(bytes(map(_FIRST, values)), pa.uint8())
        types = _TYPE_NAMES.take(codes)
        items_array: Any = pa.StructArray.from_arrays(
            [types, texts, pa.array(values, pa.binary())], fields=list(kind.item_type)
        )
    else:
        items_array = texts
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys, pa.binary()).cast(pa.string()), items_array, type=kind
    )


_SHORT_TEXTS: Final = frozenset({code.STRING_8, code.SYMBOL_8})
_FIRST: Final = itemgetter(0)
_TYPE_NAMES: Final = pa.array([TYPES.get(each) for each in range(256)], pa.string())
"""The names of types by format code."""


def _binary(field: bytes | None) -> bytes | None:
    if field is None or field == NULL:
        return None
    return field[2:] if field[0] == code.BINARY_8 else field[5:]


def _number(field: bytes | None) -> int | None:
    return None if field is None or field == NULL else int.from_bytes(field[1:], "big")


def _time(field: bytes | None) -> int | None:
    if field is None or field == NULL:
        return None
    time_ms = int.from_bytes(field[1:], "big", signed=True)
    return None if abs(time_ms) > TIME_MS_MAX else time_ms * MICROSECONDS
