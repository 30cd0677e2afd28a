"""Answers the engine's questions about entries in AMQP 0.9.1 encoding, and adds facts to their headers.

It implements :class:`core.interface.Converter`. A broker for 0.9.1 alone uses this class as it is; one that speaks AMQP
1.0 too passes it the entries of ``Origin.AMQP091`` (``amqp10/conversion/converter.py``).

The properties of an entry were checked when it was published. If they fail to decode all the same, the message counts
as having no headers, and nothing is added to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import cast

from core.amqp091 import deaths
from core.amqp091.content import PROPERTIES_AT, body_of, entry_of, header_length
from core.amqp091.errors import Amqp091ConnectionFault, Amqp091EncodeError
from core.amqp091.properties import BasicProperties, decode_properties, encode_properties
from core.amqp091.table import Amqp091Timestamp, FieldTable, FieldValue, OpaqueString
from core.interface import Death, DeathReason, Snapshot
from core.message import Attributes, Origin
from core.taken_numbers import ENCODED_KEYS, PublishingId, check_size, publishing_id

PREVIEW_BYTES = 256
"""Bytes of a body that are shown."""

FILTER_VALUE = "x-stream-filter-value"
SEARCHED_BYTES_MAX = 4096
"""Up to this length entries are joined and searched for the name of the filter value as a whole: 70 ns for one of 300
bytes. In longer ones only the headers or annotations are searched."""

_HEADERS_FLAG = 0x20
"""The flag of the third property, in the first byte of the flags [0-9-1 4.2.6.1]."""
_ENCODED_FILTER_VALUE = FILTER_VALUE.encode()


class Inspection:
    """Reads entries in AMQP 0.9.1 encoding; entries of another origin count as having no headers."""

    def routing_headers(self, entry: bytes, origin: Origin) -> Mapping[str, object]:
        """All headers, as plain values."""
        return {name: plain(value) for name, value in _headers(entry, origin).items()}

    def render(self, entry: bytes, attributes: Attributes, wanted: Origin) -> bytes:
        """The message as it is: this class knows no other protocol."""
        assert attributes.origin is wanted
        return entry

    def annotated(self, entry: bytes, origin: Origin, annotations: Mapping[object, object]) -> bytes:
        """See :class:`core.interface.Converter`, also below. Annotations become names and values of a table."""
        properties = _properties(entry, origin)
        if properties is None:
            return entry
        added = {str(name): value for name, value in annotations.items()}
        return _with_headers(entry, properties, {**(properties.headers or {}), **added})

    def describe(self, entry: bytes, origin: Origin) -> Snapshot:
        described: Snapshot = {"message_id": None, "deaths": [], "body": b""}
        if origin is not Origin.AMQP091:
            return described
        start = header_length(entry)
        described["body"] = entry[start : start + PREVIEW_BYTES]
        properties = _properties(entry, origin)
        if properties is not None:
            described["message_id"] = properties.message_id
            described["deaths"] = deaths.listed(properties.headers or {})
        return described

    def dead_lettered(self, entry: bytes, origin: Origin, death: Death) -> bytes:
        """Add the death. A dead letter loses its own time-to-live, which the death keeps."""
        properties = _properties(entry, origin)
        if properties is None:
            return entry
        return _with_headers(entry, replace(properties, expiration=None), deaths.enter(properties.headers or {}, death))

    def deaths(self, entry: bytes, origin: Origin) -> Sequence[tuple[str, DeathReason]]:
        return deaths.told(_headers(entry, origin))

    def filter_values(self, entries: Sequence[bytes], origin: Origin) -> Sequence[str | None] | None:
        return filter_values(entries, _filter_value) if origin is Origin.AMQP091 else None

    def publishing_id(self, entry: bytes, origin: Origin) -> PublishingId | None:
        if origin is not Origin.AMQP091:
            return None
        size = header_length(entry)
        if all(entry.find(key, 0, size) < 0 for key in ENCODED_KEYS):
            return None
        check_size(size)
        return publishing_id(self.routing_headers(entry, origin))


def filter_values(entries: Sequence[bytes], value_of: Callable[[bytes], str | None]) -> Sequence[str | None] | None:
    """See :meth:`core.interface.Converter.filter_values`, for entries of either protocol: the name is in the bytes of
    each that has a value. ``value_of`` returns the value of one."""
    if max(map(len, entries)) <= SEARCHED_BYTES_MAX and _ENCODED_FILTER_VALUE not in b"".join(entries):
        return None
    values = [value_of(entry) for entry in entries]
    return None if values.count(None) == len(values) else values


def _filter_value(entry: bytes) -> str | None:
    if entry.find(_ENCODED_FILTER_VALUE, 0, header_length(entry)) < 0:
        return None
    value = _headers(entry, Origin.AMQP091).get(FILTER_VALUE)
    return value if isinstance(value, str) and value else None


def plain(value: FieldValue) -> object:
    """The value without its 0.9.1 type, for decisions and for display. A timestamp becomes ms, as in AMQP 1.0."""
    match value:
        case Amqp091Timestamp():
            return value.seconds * 1000
        case OpaqueString():
            return value.value
        case Decimal():
            return float(value)
        case list():
            return [plain(item) for item in value]
        case dict():
            return {name: plain(item) for name, item in value.items()}
    return value


def _headers(entry: bytes, origin: Origin) -> FieldTable:
    if origin is not Origin.AMQP091 or not entry[PROPERTIES_AT] & _HEADERS_FLAG:
        return {}
    properties = _properties(entry, origin)
    return properties.headers or {} if properties is not None else {}


def _properties(entry: bytes, origin: Origin) -> BasicProperties | None:
    """The properties; None for a message that cannot be decoded here."""
    if origin is not Origin.AMQP091:
        return None
    try:
        return decode_properties(entry, PROPERTIES_AT, header_length(entry))
    except Amqp091ConnectionFault:
        return None


def _with_headers(entry: bytes, properties: BasicProperties, headers: Mapping[str, object]) -> bytes:
    """The message with these headers in its properties; unchanged where a header cannot be encoded."""
    try:
        return entry_of(encode_properties(replace(properties, headers=cast("FieldTable", headers))), body_of(entry))
    except Amqp091EncodeError:
        return entry
