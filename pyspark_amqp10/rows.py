"""Turns encoded messages into rows: Arrow columns are made for many messages at once, without decoding each.

Messages of one sender are alike: only the body and the number stamped by the broker change. The first message is
decoded, and its bytes around number and body become a *layout*. A message with the same bytes there needs two slices
and no decoding: about 1 µs. All other parts of a message are a :class:`RowEnvelope`, kept once for all messages of a
layout, and columns of envelopes are made by index.

Messages without a known layout go to the generic decoder, one by one, so both ways give the same rows. A message that
cannot become a row is a :class:`BadRow`, never an exception: an option of the query says what happens to it.

This module must not know Spark or a connection.
"""

import json
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from amqp10.client_core.message import decode_body
from amqp10.errors import DecodeError
from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.composite import read_descriptor
from amqp10.wire.codec.decode import DEPTH_MAX, decode_value, skip_value
from amqp10.wire.sections import (
    DATA,
    MESSAGE_ANNOTATIONS,
    Bounds,
    Header,
    Properties,
    SectionBounds,
    decode_header,
    decode_map_section,
    decode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Symbol, Timestamp, ULong, plain

OFFSET_ANNOTATION: Final = "x-stream-offset"
SEQUENCE_ANNOTATION: Final = "x-opt-sequence"
ENQUEUED_ANNOTATION: Final = "x-opt-enqueued-time"
"""The time when a message came to its queue, a timestamp; some brokers stamp it."""

PRIORITY_MAX: Final = 127
DELIVERY_COUNT_MAX: Final = 2**31 - 1
"""The largest value of Spark's columns; larger values of the wire's ubyte and uint are shown as these."""
NUMBER_MAX: Final = 2**63 - 1
"""The largest offset or sequence number: Spark's long holds no more, and brokers use no more."""
MICROSECONDS: Final = 1000
"""Microseconds in a millisecond: AMQP counts in the latter, Spark in the former."""
TIME_MS_MAX: Final = 253_402_300_799_999
"""9999-12-31, the last day that Spark shows. Later times, and times as far before 1970, become null."""
IN_VAIN_MAX: Final = 16
"""After so many consecutive layouts that no other message had, only one of every so many messages is learned: each
message has a part of its own, such as an id, and learning every one would cost a tenth more."""

_TEXTS: Final = pa.map_(pa.string(), pa.string())
SCHEMA: Final = pa.schema(
    [
        ("body", pa.binary()),
        ("address", pa.string()),
        ("offset", pa.int64()),
        ("enqueued", pa.timestamp("us", tz="UTC")),
        ("messageId", pa.string()),
        ("correlationId", pa.string()),
        ("subject", pa.string()),
        ("groupId", pa.string()),
        ("contentType", pa.string()),
        ("durable", pa.bool_()),
        ("priority", pa.int8()),
        ("deliveryCount", pa.int32()),
        ("properties", _TEXTS),
        ("annotations", _TEXTS),
    ]
)
"""The columns of a source, as an Arrow schema."""
HEADER_COLUMNS: Final = ("properties", "annotations")
"""The columns that are left out with ``includeHeaders`` false."""

Texts = tuple[tuple[str, str | None], ...]


class RowEnvelope(NamedTuple):
    """All parts of a message except its body and its number, as the columns show them, in their order."""

    enqueued: int | None = None
    """Microseconds since the Unix epoch."""
    message_id: str | None = None
    correlation_id: str | None = None
    subject: str | None = None
    group_id: str | None = None
    content_type: str | None = None
    durable: bool | None = False
    priority: int | None = 4
    delivery_count: int | None = 0
    properties: Texts | None = None
    annotations: Texts | None = None


NOTHING: Final = RowEnvelope(durable=None, priority=None, delivery_count=None)
"""The envelope of a message that could not be decoded: all columns null."""


class BadRow(NamedTuple):
    """A message that cannot become a row."""

    place: int
    """Its place among the messages that were taken."""
    reason: str


class Row(NamedTuple):
    """One message, decoded."""

    body: bytes
    number: int | None
    """Its offset or sequence number, where the broker stamps one."""
    envelope: RowEnvelope


@dataclass(frozen=True, slots=True)
class Layout:
    """The bytes that messages of one layout share: ``prefix | number | middle | length | body``."""

    prefix: bytes
    middle: bytes
    """The bytes between the number and the length of the body; without a number they are part of the prefix, and this
    is empty."""
    middle_at: int
    length_bytes: int
    """The size of the data section's length: 1 or 4."""
    body_at: int
    numbered: bool
    envelope: RowEnvelope


class MessageRows:
    """Takes messages and returns their columns. One for each address and batch; ``reader`` is used longer."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.bodies: list[bytes] = []
        self.numbers: list[int | None] = []
        self.bad: list[BadRow] = []
        self._envelopes: list[RowEnvelope] = []
        self._kinds: list[int] = []
        """For each message, the index of its envelope."""
        self._layout: Layout | None = None
        self._known: dict[RowEnvelope, int] = {}
        self._in_vain = 0
        """Consecutive layouts that no other message had."""

    def __len__(self) -> int:
        return len(self.bodies)

    def take(self, entries: Sequence[bytes]) -> None:
        """Take encoded messages. Those that cannot be decoded become rows of nulls with their bytes, and are listed in
        ``bad``."""
        at, end = 0, len(entries)
        while at < end:
            if self._layout is not None:
                alike = self._take_alike(self._layout, entries, at)
                at += alike
                self._in_vain = 0 if alike else self._in_vain + 1
            if at < end:
                self._take_one(entries[at])
                at += 1

    def columns(self, schema: pa.Schema, *, left_out: Collection[int] = ()) -> pa.RecordBatch:
        """The rows without those at some places, in the columns of ``schema``, which are some of :data:`SCHEMA`."""
        n = len(self.bodies)
        kinds = pa.array(self._kinds, pa.int32())
        columns = []
        for field in schema:
            if field.name == "body":
                columns.append(pa.array(self.bodies, pa.binary()))
            elif field.name == "address":
                columns.append(pa.repeat(pa.scalar(self.address, pa.string()), n))
            elif field.name == "offset":
                columns.append(pa.array(self.numbers, pa.int64()))
            else:
                place = _ENVELOPE_PLACES[field.name]
                values = pa.array([envelope[place] for envelope in self._envelopes], field.type)
                columns.append(values.take(kinds) if len(self._envelopes) != 1 else pa.repeat(values[0], n))
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        if not left_out:
            return batch
        return batch.take(pa.array([place for place in range(n) if place not in left_out], pa.int64()))

    def _take_alike(self, layout: Layout, entries: Sequence[bytes], at: int) -> int:
        """Take messages of this layout from ``at`` on. Returns how many were taken."""
        prefix, middle, middle_at, body_at = layout.prefix, layout.middle, layout.middle_at, layout.body_at
        length_at, number_at = body_at - layout.length_bytes, len(prefix)
        bodies, numbers = [], []
        for entry in entries[at:] if at else entries:
            if not (
                entry.startswith(prefix)
                and entry.startswith(middle, middle_at)
                and int.from_bytes(entry[length_at:body_at], "big") == len(entry) - body_at
                and len(entry) >= body_at
            ):
                break
            bodies.append(entry[body_at:])
            if layout.numbered:
                numbers.append(int.from_bytes(entry[number_at:middle_at], "big"))
        if numbers and max(numbers) > NUMBER_MAX:
            return 0  # not a queue's number: the generic decoder takes them one by one
        if bodies:
            self.bodies += bodies
            self.numbers += numbers if layout.numbered else [None] * len(bodies)
            self._kinds += [self._kind(layout.envelope)] * len(bodies)
        return len(bodies)

    def _take_one(self, entry: bytes) -> None:
        try:
            learn = self._in_vain < IN_VAIN_MAX or len(self.bodies) % IN_VAIN_MAX == 0
            row, layout = read_message(entry, learn=learn)
        except DecodeError as error:
            self.bad.append(BadRow(len(self.bodies), error.description))
            row, layout = Row(entry, number_in(entry), NOTHING), None
        self.bodies.append(row.body)
        self.numbers.append(row.number)
        self._kinds.append(self._kind(row.envelope))
        if layout is not None:
            self._layout = layout

    def _kind(self, envelope: RowEnvelope) -> int:
        kind = self._known.get(envelope)
        if kind is None:
            kind = self._known[envelope] = len(self._envelopes)
            self._envelopes.append(envelope)
        return kind


_ENVELOPE_PLACES: Final = {
    name: place for place, name in enumerate(name for name in SCHEMA.names if name not in ("body", "address", "offset"))
}


# --- one message ---------------------------------------------------------------------------------------------------


def read_message(entry: bytes, *, learn: bool = True) -> tuple[Row, Layout | None]:
    """Decode one message with the generic decoder, and with ``learn`` also return its layout. Raises DecodeError."""
    bounds = scan(entry, ordered=False)
    header = decode_header(entry, *bounds.header) if bounds.header else _NO_HEADER
    properties = decode_properties(entry, *bounds.properties) if bounds.properties else _NO_PROPERTIES
    annotations = _annotations(entry, *bounds.message_annotations) if bounds.message_annotations else {}
    application = decode_map_section(entry, *bounds.application_properties) if bounds.application_properties else None
    number = _number(annotations)
    envelope = RowEnvelope(
        enqueued=_enqueued(annotations, properties),
        message_id=_text(properties.message_id),
        correlation_id=_text(properties.correlation_id),
        subject=properties.subject,
        group_id=properties.group_id,
        content_type=properties.content_type,
        durable=header.durable,
        priority=min(header.priority, PRIORITY_MAX),
        delivery_count=min(header.delivery_count, DELIVERY_COUNT_MAX),
        properties=None if application is None else _texts(application.items()),
        annotations=_texts(item for item in annotations.items() if plain(item[0]) not in _IN_COLUMNS) or None,
    )
    body, body_at = _body(entry, bounds)
    layout = _layout(entry, bounds, body_at, number, envelope) if learn and body_at is not None else None
    return Row(body, number, envelope), layout


def number_in(entry: bytes) -> int | None:
    """The number of a message that may be invalid in other places; None when it cannot be found."""
    try:
        bounds = scan(entry, ordered=False)
        return _number(decode_map_section(entry, *bounds.message_annotations)) if bounds.message_annotations else None
    except DecodeError:
        pass
    try:  # the end of a section behind the annotations may be wrong
        start = 0
        while start < len(entry):
            section, value_at = read_descriptor(entry, start, len(entry), DEPTH_MAX)
            end = skip_value(entry, value_at, len(entry), DEPTH_MAX)
            if section in _ANNOTATIONS_DESCRIPTORS:
                return _number(decode_map_section(entry, start, end))
            start = end
    except (DecodeError, IndexError):
        pass
    return None


_ANNOTATIONS_DESCRIPTORS: Final = (0x72, "amqp:message-annotations:map")
_IN_COLUMNS: Final = (OFFSET_ANNOTATION, SEQUENCE_ANNOTATION, ENQUEUED_ANNOTATION)
_NUMBER_KEYS: Final = (Symbol(OFFSET_ANNOTATION), Symbol(SEQUENCE_ANNOTATION))


_NO_HEADER: Final = Header()
_NO_PROPERTIES: Final = Properties()
_ONLY_A_NUMBER: Final = tuple(
    (encode_section(MESSAGE_ANNOTATIONS, {key: ULong(NUMBER_MAX)})[:-8], key) for key in _NUMBER_KEYS
)
"""How annotations begin that hold only the broker's number, in eight bytes: the usual case."""


def _annotations(entry: bytes, start: int, end: int) -> dict[object, object]:
    """The message annotations between these bounds; the usual ones cost one comparison. Raises DecodeError."""
    for lead, key in _ONLY_A_NUMBER:
        if end - start == len(lead) + 8 and entry.startswith(lead, start):
            return {key: ULong(int.from_bytes(entry[end - 8 : end], "big"))}
    return decode_map_section(entry, start, end)


def _number(annotations: dict[object, object]) -> int | None:
    for key in _NUMBER_KEYS:
        value = plain(annotations.get(key))
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= NUMBER_MAX:
            return value
    return None


def _enqueued(annotations: dict[object, object], properties: Properties) -> int | None:
    stamped = annotations.get(Symbol(ENQUEUED_ANNOTATION))
    time_ms = stamped.value if isinstance(stamped, Timestamp) else properties.creation_time
    return None if time_ms is None or abs(time_ms) > TIME_MS_MAX else time_ms * MICROSECONDS


def _texts(items: Iterable[tuple[object, object]]) -> Texts:
    return tuple((_text(key) or "", _text(value)) for key, value in items)


def _text(value: object) -> str | None:
    """A value as a column shows it: text as it is, binary in hexadecimal, lists and maps as JSON."""
    bare = plain(value)
    if bare is None or isinstance(bare, str):
        return bare
    if isinstance(bare, bool):
        return "true" if bare else "false"
    if isinstance(bare, bytes):
        return bare.hex()
    if isinstance(bare, int | float | uuid.UUID):
        return str(bare)
    return _json(bare)


def _json(value: object) -> str:
    return json.dumps(_jsonable(value), ensure_ascii=False, separators=(",", ":"))


def _jsonable(value: object) -> object:
    if isinstance(value, dict):
        return {_text(key) or "": _jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return value if isinstance(value, bool | int | float) or value is None else _text(value)


def _body(entry: bytes, bounds: SectionBounds) -> tuple[bytes, int | None]:
    """The body as bytes, and where it begins if it is one data section. Raises DecodeError.

    Data sections are joined. A text becomes its UTF-8, a binary its bytes; any other value becomes JSON.
    """
    if bounds.body is None:
        return b"", None
    start, end = bounds.body
    if bounds.body_code == DATA and bounds.footer is None:
        _, value_at = read_descriptor(entry, start, end, DEPTH_MAX)
        data, at = decode_value(entry, value_at, end, DEPTH_MAX)
        if at == end and isinstance(data, bytes):
            return data, at - len(data)
    body = plain(decode_body(entry, bounds.body, bounds.body_code)[0])
    if isinstance(body, bytes):
        return body, None
    return (body if isinstance(body, str) else _json(body)).encode(), None


# --- layouts -------------------------------------------------------------------------------------------------------


def _layout(
    entry: bytes, bounds: SectionBounds, body_at: int, number: int | None, envelope: RowEnvelope
) -> Layout | None:
    """The layout of messages like this one, if their bytes alone can identify it."""
    body_bytes = len(entry) - body_at
    length_bytes = 1 if entry[body_at - 2] == code.BINARY_8 and entry[body_at - 1] == body_bytes else 4
    if bounds.body is None or body_at + body_bytes != bounds.body[1] or body_at - length_bytes <= bounds.body[0]:
        return None
    if entry[body_at - length_bytes - 1] != (code.BINARY_8 if length_bytes == 1 else code.BINARY_32):
        return None
    length_at = body_at - length_bytes
    if number is None:
        return Layout(entry[:length_at], b"", length_at, length_bytes, body_at, False, envelope)
    assert bounds.message_annotations is not None
    number_at = _number_at(entry, bounds.message_annotations, number)
    if number_at is None:
        return None
    middle_at = number_at + 8
    return Layout(entry[:number_at], entry[middle_at:length_at], middle_at, length_bytes, body_at, True, envelope)


def _number_at(entry: bytes, annotations: Bounds, number: int) -> int | None:
    """The place of the eight bytes of the number; None when it has another encoding."""
    start, end = annotations
    _, at = read_descriptor(entry, start, end, DEPTH_MAX)
    at += 3 if entry[at] == code.MAP_8 else 9  # code, size, count
    while at < end:
        key, value_at = decode_value(entry, at, end, DEPTH_MAX)
        value, at = decode_value(entry, value_at, end, DEPTH_MAX)
        if key in _NUMBER_KEYS and value == ULong(number):
            return value_at + 1 if entry[value_at] == code.ULONG else None
    return None
