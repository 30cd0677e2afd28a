"""Converts messages between the protocols: AMQP 1.0 entries for 0.9.1 consumers, and 0.9.1 entries for AMQP 1.0 ones.

The mapping is RabbitMQ's. docs/protocol/conversion.md describes all of it, with what a conversion loses and the few
differences. In short: properties become properties. Headers become application-properties, or message-annotations
where their name begins with ``x-``. A body of data sections becomes the body; any other body stays encoded, and the
type of the 0.9.1 message is then ``amqp-1.0``. The fields of the AMQP 1.0 header section are in
:class:`core.message.Attributes`; those of 0.9.1 are in the properties of the entry.

Nothing here raises, because an accepted message must be delivered. A section that cannot be decoded is left out. A
value becomes void if the other protocol has no type for it. A name or a text that is too long for the other protocol is
left out. A message whose sections cannot even be found becomes, as a whole, a body of the type ``amqp-1.0``.

Each message is rendered on its own, but consecutive messages are mostly alike in everything except the body. So the
bytes before the body are remembered: a small message like the one before takes less than a microsecond either way.
"""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from amqp10.addresses import AddressError, queue_address
from amqp10.conversion.deaths import DEATHS, UINT_MAX
from amqp10.errors import DecodeError
from amqp10.targets import parse_target
from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.composite import read_descriptor
from amqp10.wire.codec.decode import DEPTH_MAX
from amqp10.wire.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
    Bounds,
    Properties,
    SectionBounds,
    decode_map_section,
    decode_properties,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import (
    Array,
    Byte,
    Char,
    Described,
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
from core.amqp091 import deaths as deaths_091
from core.amqp091 import properties as basic
from core.amqp091 import table
from core.amqp091.content import PROPERTIES_AT, entry_of, header_length
from core.amqp091.errors import SHORT_STRING_BYTES_MAX, Amqp091ConnectionFault, Amqp091EncodeError
from core.amqp091.properties import PERSISTENT, TRANSIENT, BasicProperties
from core.amqp091.table import FieldTable, FieldValue, OpaqueString
from core.interface import QueueTarget
from core.message import DEFAULT_PRIORITY, Attributes

AMQP10_TYPE = "amqp-1.0"
"""The type of a 0.9.1 message whose body is AMQP 1.0 sections. RabbitMQ's."""

APPLICATION_BYTES_MAX = 65_536
"""Size of the largest application-properties that are converted: decoding them takes 13 ms, while others wait."""

HEADER_BYTES_MAX = 131_072 - 8
"""Size of the largest properties in 0.9.1. A content header is one frame; this is the usual frame_max without the
frame's own bytes."""

LEADS_MAX = 256
"""How many :class:`_Lead` are kept, by encoded properties. More on one broker mean that the properties hold something
like a message-id, and then it is no use to keep them."""

LEAD_BYTES_MAX = 512
"""Size of the largest properties whose lead is kept: 256 leads with their properties stay within half a MiB."""

INT64_MAX = 2**63 - 1

_TYPE = Symbol("x-basic-type")
_CC = Symbol("x-cc")
_INTERNAL = ("x-basic-", "x-routing-key", "x-exchange", "x-death")
"""Annotations that 0.9.1 carries elsewhere, or that only a broker may set."""

_DEATH_FIELDS = {
    "count": "count",
    "reason": "reason",
    "queue": "queue",
    "first-time": "time",
    "exchange": "exchange",
    "routing-keys": "routing-keys",
    "ttl": "original-expiration",
}
"""Keys of the maps in x-opt-deaths, with their names in the tables of x-death."""

_SMALL_DATA = bytes((code.DESCRIBED, code.SMALL_ULONG, DATA, code.BINARY_8))
_LARGE_DATA = bytes((code.DESCRIBED, code.SMALL_ULONG, DATA, code.BINARY_32))
_SMALL_SIZES = tuple(bytes((size,)) for size in range(256))

_UUID_URN = "urn:uuid:"


class _Lead(NamedTuple):
    """The bytes before the body of a 0.9.1 message that is rendered in AMQP 1.0."""

    sections: bytes
    typed: bytes | None
    """The same for a body that consists of AMQP 1.0 sections already; None unless the type is ``amqp-1.0``."""


class Rendering:
    """Renders entries in the other protocol's encoding. All its state is a cache."""

    __slots__ = ("_attributes", "_before_body", "_leads", "_properties", "_properties_alone")

    def __init__(self) -> None:
        self._leads: dict[bytes, _Lead] = {}
        self._before_body = self._properties = b""
        """The sections before the body of the last message with a body of data, and the 0.9.1 properties made of
        them."""
        self._know(Attributes())

    def as_091(self, entry: bytes, attributes: Attributes) -> bytes:
        """An AMQP 1.0 message as a 0.9.1 one."""
        if attributes is not self._attributes:  # runs share the object, which costs less to compare than the value
            self._know(attributes)
        at = len(self._before_body)
        if entry.startswith(self._before_body) and entry.startswith(_SMALL_DATA, at):
            size_at = at + len(_SMALL_DATA)
            if size_at < len(entry) == size_at + 1 + entry[size_at]:  # one data section, and nothing behind it
                return entry_of(self._properties, entry[size_at + 1 :])
        try:
            bounds = scan(entry)
            body, type_of_body = _body_091(entry, bounds)
        except DecodeError:
            return entry_of(_encoded(replace(self._properties_alone, type=AMQP10_TYPE)), entry)
        before_body = entry[: bounds.body[0]] if bounds.body else entry
        if type_of_body is None and before_body == self._before_body:
            return entry_of(self._properties, body)
        properties = _encoded(_basic_properties(entry, bounds, self._properties_alone, type_of_body))
        if type_of_body is None and len(before_body) <= LEAD_BYTES_MAX:
            self._before_body, self._properties = before_body, properties
        return entry_of(properties, body)

    def as_10(self, entry: bytes) -> bytes:
        """A 0.9.1 message as an AMQP 1.0 one, without header section."""
        body_at = header_length(entry)
        properties = entry[PROPERTIES_AT:body_at]
        lead = self._leads.get(properties)
        if lead is None:
            lead = _lead(properties)
            if len(properties) <= LEAD_BYTES_MAX:
                if len(self._leads) >= LEADS_MAX:
                    self._leads.clear()
                self._leads[properties] = lead
        size = len(entry) - body_at
        if lead.typed is not None and _is_body(entry[body_at:]):
            return lead.typed + entry[body_at:]
        if size < 256:
            return b"".join((lead.sections, _SMALL_DATA, _SMALL_SIZES[size], entry[body_at:]))
        return b"".join((lead.sections, _LARGE_DATA, size.to_bytes(4, "big"), entry[body_at:]))

    def _know(self, attributes: Attributes) -> None:
        """Remember the attributes, and the properties that follow from them alone."""
        self._attributes = attributes
        self._properties_alone = BasicProperties(
            delivery_mode=PERSISTENT if attributes.durable else TRANSIENT,
            priority=None if attributes.priority == DEFAULT_PRIORITY else attributes.priority,
            expiration=None if attributes.ttl_ms is None else str(attributes.ttl_ms),
        )
        self._before_body = b""
        self._properties = _encoded(self._properties_alone)


# --- AMQP 1.0 as 0.9.1 -----------------------------------------------------------------------------------------------


def headers_of(annotations: Mapping[object, object]) -> dict[str, FieldValue]:
    """Message annotations as headers: those whose key is a symbol or a string that begins with ``x-``."""
    headers: dict[str, FieldValue] = {}
    for key, value in annotations.items():
        name = key.value if isinstance(key, Symbol) else key
        if not isinstance(name, str) or not name.startswith("x-"):
            continue
        if name == DEATHS.value:
            if told := _deaths_091(value):
                headers[deaths_091.DEATHS] = told
        elif name == _CC.value:
            headers["CC"] = field_value(value)
        elif not name.startswith(_INTERNAL) and _short(name) is not None:
            headers[name] = field_value(value)
    return headers


def field_value(value: object, depth_left: int = table.DEPTH_MAX - 1) -> FieldValue:
    """An AMQP 1.0 value as a table field; void for a value without an equivalent there, or nested too deeply."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case UByte() | UShort() | UInt() | Byte() | Short() | Int() | Float() | Char() | Symbol():
            return value.value
        case ULong():
            return value.value if value.value <= INT64_MAX else str(value.value)
        case Timestamp():
            return table.Amqp091Timestamp(value.value // 1000) if value.value >= 0 else None
        case uuid.UUID():
            return value.urn
        case Described():
            return field_value(value.value, depth_left)
        case list() if depth_left > 0:
            return [field_value(item, depth_left - 1) for item in value]
        case Array() if depth_left > 0:
            return [field_value(item, depth_left - 1) for item in value.items]
        case dict() if depth_left > 0:
            named = ((_short(str(plain(key))), item) for key, item in value.items())
            return {name: field_value(item, depth_left - 1) for name, item in named if name is not None}
    return None


def _body_091(entry: bytes, bounds: SectionBounds) -> tuple[bytes, str | None]:
    """The body, and ``amqp-1.0`` if it is not plain data, else None. Raises DecodeError."""
    if bounds.body is None:
        return b"", None
    start, end = bounds.body
    if bounds.body_code != DATA:
        return entry[start : bounds.footer[1] if bounds.footer else end], AMQP10_TYPE
    pieces = []
    while start < end:
        _, start = read_descriptor(entry, start, end, DEPTH_MAX)
        size_bytes = 1 if entry[start] == code.BINARY_8 else 4
        data_at = start + 1 + size_bytes
        start = data_at + int.from_bytes(entry[start + 1 : data_at], "big")
        pieces.append(entry[data_at:start])
    return b"".join(pieces), None


def _basic_properties(
    entry: bytes, bounds: SectionBounds, known: BasicProperties, type_of_body: str | None
) -> BasicProperties:
    properties = _properties(entry, bounds.properties)
    annotations = _map(entry, bounds.message_annotations)
    headers: dict[str, FieldValue] = {}
    for key, value in _map(entry, bounds.application_properties, APPLICATION_BYTES_MAX).items():
        if isinstance(key, str) and _short(key) is not None:
            headers[key] = field_value(value)
    message_id = _id_091(properties.message_id, "x-message-id", headers)
    correlation_id = _id_091(properties.correlation_id, "x-correlation-id", headers)
    headers |= headers_of(annotations)
    created = properties.creation_time
    return replace(
        known,
        content_type=_short(properties.content_type),
        content_encoding=_short(properties.content_encoding),
        headers=headers or None,
        correlation_id=correlation_id,
        reply_to=_reply_to_name(properties.reply_to),
        message_id=message_id,
        timestamp=created // 1000 if created is not None and created >= 0 else None,
        type=type_of_body or _short(annotations.get(_TYPE)),
        user_id=_user_id(properties.user_id),
        app_id=_short(properties.group_id),
    )


def _properties(entry: bytes, bounds: Bounds | None) -> Properties:
    try:
        return decode_properties(entry, *bounds) if bounds else Properties()
    except DecodeError:
        return Properties()


def _map(entry: bytes, bounds: Bounds | None, bytes_max: int | None = None) -> Mapping[object, object]:
    if bounds is None or (bytes_max is not None and bounds[1] - bounds[0] > bytes_max):
        return {}
    try:
        return decode_map_section(entry, *bounds)
    except DecodeError:
        return {}


def _id_091(value: object, header: str, headers: dict[str, FieldValue]) -> str | None:
    """A message-id as a short string; one that does not fit goes into a header."""
    match value:
        case uuid.UUID():
            return value.urn
        case ULong():
            return str(value.value)
        case str() | bytes():
            short = _short(value)
            if short is None:
                headers[header] = value
            return short
    return None


def _reply_to_name(address: object) -> str | None:
    """The queue's name, if the address names a queue: a 0.9.1 client answers through the default exchange."""
    try:
        target = parse_target(address)
    except AddressError:
        return _short(address)
    return target.queue if isinstance(target, QueueTarget) else _short(address)


def _user_id(value: bytes | None) -> str | None:
    try:
        return _short(value.decode()) if value is not None else None
    except UnicodeDecodeError:
        return None


def _short(value: object) -> str | None:
    """The text of a string or symbol if it fits a short string, else None; RabbitMQ forbids zero bytes in one."""
    text = value.value if isinstance(value, Symbol) else value
    if not isinstance(text, str) or "\0" in text or len(text.encode()) > SHORT_STRING_BYTES_MAX:
        return None
    return text


def _deaths_091(value: object) -> list[FieldValue]:
    items = value.items if isinstance(value, Array) else value
    if not isinstance(items, list | tuple):
        return []
    tables: list[FieldValue] = [_death_091(item) for item in items if isinstance(item, dict)]
    return [*deaths_091.records({deaths_091.DEATHS: tables})]


def _death_091(record: Mapping[object, object]) -> FieldValue:
    table: dict[str, FieldValue] = {}
    for key, value in record.items():
        if isinstance(key, Symbol) and key.value in _DEATH_FIELDS:
            table[_DEATH_FIELDS[key.value]] = str(plain(value)) if key.value == "ttl" else field_value(value)
    return table


def _encoded(properties: BasicProperties) -> bytes:
    """The encoded property flags and property list; without the headers if they are too large for a frame."""
    try:
        encoded = basic.encode_properties(properties)
    except Amqp091EncodeError:
        encoded = b""
    if not encoded or len(encoded) > HEADER_BYTES_MAX:
        return basic.encode_properties(replace(properties, headers=None))
    return encoded


# --- 0.9.1 as AMQP 1.0 -----------------------------------------------------------------------------------------------


def amqp_value(value: FieldValue) -> object:
    """A table field as an AMQP 1.0 value; null for a time that is too late for a timestamp."""
    match value:
        case table.Amqp091Timestamp():
            return Timestamp(value.seconds * 1000) if value.seconds * 1000 <= INT64_MAX else None
        case OpaqueString():
            return value.value
        case Decimal():
            return str(value)
        case list():
            return [amqp_value(item) for item in value]
        case dict():
            return {Symbol(name) if name.isascii() else name: amqp_value(item) for name, item in value.items()}
    return value


def _lead(encoded: bytes) -> _Lead:
    try:
        properties = basic.decode_properties(encoded, 0, len(encoded))
    except Amqp091ConnectionFault:
        return _Lead(b"", None)
    annotations, application = _sorted_out(properties.headers or {})
    rest = _section_10(APPLICATION_PROPERTIES, application)
    told = _properties_10(properties)
    if told != Properties():
        rest = encode_properties(told) + rest
    typed = _section_10(MESSAGE_ANNOTATIONS, annotations) + rest if properties.type == AMQP10_TYPE else None
    if properties.type is not None:
        annotations[_TYPE] = properties.type
    return _Lead(_section_10(MESSAGE_ANNOTATIONS, annotations) + rest, typed)


def _sorted_out(headers: FieldTable) -> tuple[dict[object, object], dict[object, object]]:
    """Headers as message-annotations and as application-properties, which hold simple values only [3.2.5]."""
    annotations: dict[object, object] = {}
    application: dict[object, object] = {}
    for name, value in headers.items():
        if name == deaths_091.DEATHS:
            if told := deaths_091.records(headers):
                annotations[DEATHS] = Array(code.MAP_32, tuple(map(_death_10, told)))
        elif name == "CC" and isinstance(value, list):
            annotations[_CC] = amqp_value(value)
        elif name.startswith("x-") and name.isascii():
            annotations[Symbol(name)] = amqp_value(value)
        elif not isinstance(value, list | dict):
            application[name] = amqp_value(value)
    return annotations, application


def _death_10(record: deaths_091.Record) -> dict[object, object]:
    """One map of x-opt-deaths. 0.9.1 does not tell the time of the last death, so the time of the first stands for
    it."""
    death: dict[object, object] = {
        Symbol("queue"): record["queue"],
        Symbol("reason"): Symbol(str(record["reason"])),
        Symbol("count"): ULong(int(str(record["count"]))),
    }
    time = amqp_value(record.get("time"))
    if isinstance(time, Timestamp):
        death |= {Symbol("first-time"): time, Symbol("last-time"): time}
    exchange, keys, ttl = (record.get(name) for name in ("exchange", "routing-keys", "original-expiration"))
    if isinstance(exchange, str):
        death[Symbol("exchange")] = exchange
    if isinstance(keys, list):
        death[Symbol("routing-keys")] = Array(code.STRING_32, tuple(key for key in keys if isinstance(key, str)))
    if isinstance(ttl, str) and ttl.isascii() and ttl.isdecimal():
        death[Symbol("ttl")] = UInt(min(int(ttl[:20]), UINT_MAX))
    return death


def _properties_10(properties: BasicProperties) -> Properties:
    created = None if properties.timestamp is None else properties.timestamp * 1000
    return Properties(
        message_id=_id_10(properties.message_id),
        user_id=None if properties.user_id is None else properties.user_id.encode(),
        reply_to=_reply_address(properties.reply_to),
        correlation_id=_id_10(properties.correlation_id),
        content_type=_ascii(properties.content_type),
        content_encoding=_ascii(properties.content_encoding),
        creation_time=created if created is not None and created <= INT64_MAX else None,
        group_id=properties.app_id,
    )


def _id_10(value: str | None) -> object:
    """A UUID if the text is the URN of one, else the text itself."""
    if value is None or not value.startswith(_UUID_URN):
        return value
    try:
        read = uuid.UUID(value)
    except ValueError:
        return value
    return read if read.urn == value.lower() else value


def _reply_address(name: str | None) -> str | None:
    """The address of the queue that a 0.9.1 client names; a text that is an address already stays as it is."""
    if not name:
        return None
    try:
        parse_target(name)
    except AddressError:
        return queue_address(name)
    return name


def _ascii(text: str | None) -> str | None:
    return text if text is None or text.isascii() else None


def _section_10(section: int, items: dict[object, object]) -> bytes:
    return encode_section(section, items) if items else b""


def _is_body(payload: bytes) -> bool:
    """True for the sections of one body, perhaps with a footer, and nothing before them."""
    try:
        bounds = scan(payload)
    except DecodeError:
        return False
    return bounds.body is not None and bounds.body[0] == 0
