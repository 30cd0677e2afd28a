"""The sections of an encoded message [3.2]: where they are, and how to decode the few that a broker reads.

A message is a sequence of described values: header, delivery-annotations, message-annotations, properties,
application-properties, body, footer, each at most once and in this order. Only a body of data or of amqp-sequence may
be several sections of one kind. The sections from the properties to the footer are the bare message, which the broker
passes on unchanged.

:func:`scan` finds the sections and decodes none. It checks all that can be checked without decoding them: order,
cardinality, the type of each section, and that sizes add up. A section that passes may still fail to decode. A message
without a body is against the letter of [3.2] and common in practice, so it passes.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from amqp10.errors import DecodeError, quote
from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.composite import (
    ANY,
    BINARY,
    BOOLEAN,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UBYTE,
    UINT,
    Composite,
    FieldKind,
    invalid_field,
    read_descriptor,
)
from amqp10.wire.codec.decode import DEPTH_MAX, decode_value, skip_value
from amqp10.wire.codec.encode import encode_ulong, encode_value
from amqp10.wire.types import Symbol, ULong

HEADER = 0x70
DELIVERY_ANNOTATIONS = 0x71
MESSAGE_ANNOTATIONS = 0x72
PROPERTIES = 0x73
APPLICATION_PROPERTIES = 0x74
DATA = 0x75
AMQP_SEQUENCE = 0x76
AMQP_VALUE = 0x77
FOOTER = 0x78

_SYMBOLS = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": AMQP_SEQUENCE,
    "amqp:amqp-value:*": AMQP_VALUE,
    "amqp:footer:map": FOOTER,
}

_LIST = frozenset({code.LIST_0, code.LIST_8, code.LIST_32})
_MAP = frozenset({code.MAP_8, code.MAP_32})
_BINARY = frozenset({code.BINARY_8, code.BINARY_32})
_FORMAT_CODES = {
    HEADER: _LIST,
    DELIVERY_ANNOTATIONS: _MAP,
    MESSAGE_ANNOTATIONS: _MAP,
    PROPERTIES: _LIST,
    APPLICATION_PROPERTIES: _MAP,
    DATA: _BINARY,
    AMQP_SEQUENCE: _LIST,
    AMQP_VALUE: frozenset(range(256)),
    FOOTER: _MAP,
}
"""The format codes with which the value of a section may start. ``skip_value`` checks those of an amqp-value."""

_BODY_PLACE = 5
_PLACES = {
    HEADER: 0,
    DELIVERY_ANNOTATIONS: 1,
    MESSAGE_ANNOTATIONS: 2,
    PROPERTIES: 3,
    APPLICATION_PROPERTIES: 4,
    DATA: _BODY_PLACE,
    AMQP_SEQUENCE: _BODY_PLACE,
    AMQP_VALUE: _BODY_PLACE,
    FOOTER: 6,
}

BODY_SECTIONS_MAX = 16_384
"""Sections of one body: a message of 16 MiB in pieces of 1 KiB. Finding them takes 1 µs each, while others wait."""

_SMALL_DATA = bytes((code.DESCRIBED, code.SMALL_ULONG, DATA, code.BINARY_8))

_SHORT_LEADS = {
    bytes((code.DESCRIBED, code.SMALL_ULONG, section, format_code)): (section, format_code in (code.LIST_8, code.MAP_8))
    for section, format_codes in _FORMAT_CODES.items()
    for format_code in format_codes & {code.LIST_8, code.MAP_8, code.BINARY_8, code.STRING_8}
}
"""The first bytes of sections of less than 256 bytes, as all clients encode them, with the section's code and whether a
count follows the size."""
_SHORT_LEAD_BYTES = 6
"""Descriptor, format code, size, and the count where there is one."""

Bounds = tuple[int, int]
"""Where a section starts, with its descriptor, and where it ends."""


class SectionBounds(NamedTuple):
    """Where the sections of a message are; None for those that it does not have."""

    header: Bounds | None = None
    delivery_annotations: Bounds | None = None
    message_annotations: Bounds | None = None
    properties: Bounds | None = None
    application_properties: Bounds | None = None
    body: Bounds | None = None
    """All sections of the body."""
    footer: Bounds | None = None
    body_code: int | None = None
    """DATA, AMQP_SEQUENCE or AMQP_VALUE."""


def scan(payload: bytes, depth_left: int = DEPTH_MAX, *, ordered: bool = True) -> SectionBounds:
    """Find the sections of a whole message. Raises DecodeError only.

    ``ordered`` False allows sections in any order, for callers that read a message and do not pass it on.
    """
    end = len(payload)
    if payload.startswith(_SMALL_DATA) and end > 4 and end == 5 + payload[4]:
        # By far the most frequent message: one data section of up to 255 bytes, and nothing else.
        return SectionBounds(body=(0, end), body_code=DATA)
    found: list[Bounds | None] = [None] * 7
    last_place = -1
    body_code = None
    body_sections = 1
    position = 0
    while position < end:
        start = position
        section, position = _next_section(payload, start, end, depth_left)
        place = _PLACES[section]
        if found[place] is None and (place > last_place or not ordered):
            found[place] = (start, position)
            if place == _BODY_PLACE:
                body_code = section
        elif place == last_place == _BODY_PLACE and section == body_code != AMQP_VALUE:
            body = found[place]
            found[place] = (body[0] if body else start, position)
            body_sections += 1
            if body_sections > BODY_SECTIONS_MAX:
                raise DecodeError(f"a body of more than {BODY_SECTIONS_MAX} sections")
        else:
            raise DecodeError(f"section 0x{section:02x} at offset {start} is there twice or out of order")
        last_place = place
    return SectionBounds._make((*found, body_code))


def _next_section(payload: bytes, start: int, end: int, depth_left: int) -> tuple[int, int]:
    """The numeric descriptor of the section at ``start``, and where the section ends."""
    known = _SHORT_LEADS.get(payload[start : start + 4])
    if known is not None and end - start >= _SHORT_LEAD_BYTES and depth_left > 0:
        section, counted = known
        size = payload[start + 4]
        stop = start + 5 + size
        if stop <= end and not (counted and payload[start + 5] >= size):  # the size covers the count's byte too
            return section, stop
    section, position = _section_code(payload, start, end, depth_left)
    return section, _skip_section(payload, position, section, depth_left)


def _section_code(payload: bytes, position: int, end: int, depth_left: int) -> tuple[int, int]:
    """The numeric descriptor of the section at ``position``, and where its value starts."""
    try:
        descriptor, behind = read_descriptor(payload, position, end, depth_left)
    except IndexError:
        raise DecodeError(f"a section is cut at offset {end}") from None
    section = _SYMBOLS.get(descriptor) if isinstance(descriptor, str) else descriptor
    if section not in _PLACES:
        raise DecodeError(f"descriptor {quote(descriptor)} at offset {position} is that of no section")
    return section, behind


def _skip_section(payload: bytes, position: int, section: int, depth_left: int) -> int:
    end = len(payload)
    if position < end and payload[position] not in _FORMAT_CODES[section]:
        format_code = payload[position]
        raise DecodeError(f"format code 0x{format_code:02x} at offset {position} in section 0x{section:02x}")
    return skip_value(payload, position, end, depth_left)


WITHOUT_ANNOTATIONS = (b"\x00\x53\x73", b"\x00\x53\x79")
"""Messages without header that begin with properties, application-properties or a body lie between these two as bytes.
Because sections have an order, such messages have no annotations. The comparison costs 60 ns a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """How to deliver a message, and its delivery history [3.2.1]. ``ttl`` is in milliseconds."""

    durable: bool = False
    priority: int = 4
    ttl: int | None = None
    first_acquirer: bool = False
    delivery_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """The immutable properties of a message [3.2.4].

    ``message_id`` and ``correlation_id`` are a ULong, uuid.UUID, bytes or str. The two times are in milliseconds since
    the Unix epoch.
    """

    message_id: object = None
    user_id: bytes | None = None
    to: object = None
    subject: str | None = None
    reply_to: object = None
    correlation_id: object = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


class PropertyFields(NamedTuple):
    """The fields of :class:`Properties` as a plain tuple, at a fifth of the cost: for callers that read many
    messages."""

    message_id: object = None
    user_id: bytes | None = None
    to: object = None
    subject: str | None = None
    reply_to: object = None
    correlation_id: object = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


def _read_message_id(buffer: bytes, position: int, end: int, depth_left: int) -> tuple[object, int]:
    value, behind = decode_value(buffer, position, end, depth_left)
    if not isinstance(value, (ULong, uuid.UUID, bytes, str)):
        raise invalid_field(f"{quote(value)} at offset {position} is no message-id")
    return value, behind


_MESSAGE_ID = FieldKind(_read_message_id, encode_value)

_HEADER = Composite(Header, HEADER, "amqp:header:list", (BOOLEAN, UBYTE, UINT, BOOLEAN, UINT))
_PROPERTIES = Composite(
    Properties,
    PROPERTIES,
    "amqp:properties:list",
    (
        _MESSAGE_ID,
        BINARY,
        ANY,
        STRING,
        ANY,
        _MESSAGE_ID,
        SYMBOL,
        SYMBOL,
        TIMESTAMP,
        TIMESTAMP,
        STRING,
        UINT,
        STRING,
    ),
)


def decode_header(payload: bytes, start: int, end: int) -> Header:
    """The header section at these bounds. Raises DecodeError only."""
    position = _open_section(payload, start, end, HEADER)
    header, position = _HEADER.decode_list(payload, position, end, DEPTH_MAX)
    _check_section_end(position, end)
    return header


def encode_header(header: Header) -> bytes:
    """The header section, without the fields at their default. Raises EncodeError for values out of range."""
    return _HEADER.encode(header)


def decode_properties(payload: bytes, start: int, end: int) -> Properties:
    """The properties section at these bounds. Raises DecodeError only."""
    position = _open_section(payload, start, end, PROPERTIES)
    properties, position = _PROPERTIES.decode_list(payload, position, end, DEPTH_MAX)
    _check_section_end(position, end)
    return properties


def decode_property_fields(payload: bytes, start: int, end: int) -> PropertyFields:
    """The same fields as :func:`decode_properties`, quicker where all are short texts. Raises DecodeError only."""
    fields = _short_fields(payload, start, end)
    if fields is None:
        properties = decode_properties(payload, start, end)
        return PropertyFields._make([getattr(properties, name) for name in PropertyFields._fields])
    return PropertyFields(*fields)


_TEXT = {code.STRING_8: "utf-8"}
_TEXT_OR_BINARY = {code.STRING_8: "utf-8", code.BINARY_8: ""}
_SHORT_FIELDS: tuple[dict[int, str], ...] = (
    _TEXT_OR_BINARY,
    {code.BINARY_8: ""},
    _TEXT,
    _TEXT,
    _TEXT,
    _TEXT_OR_BINARY,
    {code.SYMBOL_8: "ascii"},
    {code.SYMBOL_8: "ascii"},
    {},
    {},
    _TEXT,
    {},
    _TEXT,
)
"""The format codes besides null that are understood in each field of the properties, with the encoding of the text
behind them, or "" for binary [3.2.4]. All of them have a size of one byte."""
_SHORT_PROPERTIES = bytes((code.DESCRIBED, code.SMALL_ULONG, PROPERTIES, code.LIST_8))


def _short_fields(payload: bytes, start: int, end: int) -> list[Any] | None:
    """The fields of the properties section at these bounds. None if the generic decoder has to read it, because a field
    is not in the table or is wrong."""
    fields: list[Any] = []
    try:
        if not payload.startswith(_SHORT_PROPERTIES, start) or payload[start + 4] != end - start - 5:
            return None
        if payload[start + 5] > len(_SHORT_FIELDS):
            return None
        position = start + _SHORT_LEAD_BYTES
        for understood in _SHORT_FIELDS[: payload[start + 5]]:
            format_code = payload[position]
            if format_code == code.NULL:
                fields.append(None)
                position += 1
                continue
            text = understood.get(format_code)
            if text is None:
                return None
            begin, position = position + 2, position + 2 + payload[position + 1]
            content = payload[begin:position]
            fields.append(str(content, text) if text else content)
    except (IndexError, UnicodeDecodeError):
        return None
    return fields if position == end else None  # a read beyond the end has moved the position beyond it


def encode_properties(properties: Properties) -> bytes:
    """The properties section. Raises EncodeError for a value of another type or out of range."""
    return _PROPERTIES.encode(properties)


def decode_map_section(payload: bytes, start: int, end: int) -> dict[object, object]:
    """The map of annotations, application-properties or footer at these bounds. Raises DecodeError only."""
    _, position = _section_code(payload, start, end, DEPTH_MAX)
    items, position = decode_value(payload, position, end, DEPTH_MAX)
    if not isinstance(items, dict):
        raise DecodeError(f"the section at offset {start} holds {quote(items)} instead of a map")
    _check_section_end(position, end)
    return items


_SHORT_ANNOTATIONS = bytes((code.DESCRIBED, code.SMALL_ULONG, MESSAGE_ANNOTATIONS, code.MAP_8))
_SIZED = frozenset({code.STRING_8, code.SYMBOL_8})
SCALAR_WIDTHS = {
    format_code: width
    for width, format_codes in (
        (0, (code.NULL, code.BOOLEAN_TRUE, code.BOOLEAN_FALSE, code.UINT_0, code.ULONG_0)),
        (1, (code.UBYTE, code.BYTE, code.SMALL_UINT, code.SMALL_ULONG, code.SMALL_INT, code.SMALL_LONG)),
        (4, (code.UINT, code.INT)),
        (8, (code.ULONG, code.LONG, code.TIMESTAMP)),
    )
    for format_code in format_codes
}
"""Format codes of scalars for which any bytes are valid, with the width of the value."""


def are_plain_annotations(payload: bytes, start: int, end: int, *, without: bytes) -> bool:
    """True for message annotations that surely decode, pass :func:`check_annotations` and do not have the key
    ``without``.

    Only short sections with symbols as keys and scalars as values are recognized, in a quarter of the time that
    decoding takes. False means that the section must be decoded.
    """
    if not payload.startswith(_SHORT_ANNOTATIONS, start) or payload[start + 4] != end - start - 5:
        return False
    position = start + _SHORT_LEAD_BYTES
    keys = set()
    try:
        for _ in range(payload[start + 5] >> 1):
            if payload[position] != code.SYMBOL_8:
                return False
            behind = position + 2 + payload[position + 1]
            key = payload[position + 2 : behind]
            keys.add(key)
            format_code = payload[behind]
            if format_code in _SIZED:
                position = behind + 2 + payload[behind + 1]
                plain = payload[behind + 2 : position].isascii()
            else:
                position = behind + 1 + SCALAR_WIDTHS[format_code]
                plain = True
            if not (plain and key.startswith(b"x-") and key.isascii() and key != without):
                return False
    except (IndexError, KeyError):
        return False
    return position == end and len(keys) * 2 == payload[start + 5]


def encode_section(section: int, value: object) -> bytes:
    """One section with this value, for maps and bodies. Raises EncodeError for a value without an encoding."""
    return b"\x00" + encode_ulong(section) + encode_value(value)


def check_annotations(keys: Iterable[object]) -> None:
    """Raise DecodeError for reserved annotation keys [3.2.10].

    A key is a symbol or a ulong, and symbols that do not begin with ``x-`` belong to the specification.
    """
    for key in keys:
        if isinstance(key, Symbol):
            if not key.value.startswith("x-"):
                raise DecodeError(f'the annotation key {quote(key.value)} is reserved: it does not begin with "x-"')
        elif not isinstance(key, ULong):
            raise DecodeError(f"{quote(key)} is no annotation key: a symbol or a ulong is")


def _open_section(payload: bytes, start: int, end: int, expected: int) -> int:
    section, position = _section_code(payload, start, end, DEPTH_MAX)
    if section != expected:
        raise DecodeError(f"section 0x{section:02x} at offset {start} where 0x{expected:02x} is expected")
    return position


def _check_section_end(position: int, end: int) -> None:
    if position != end:
        raise DecodeError(f"a section ends at offset {position}, its bounds say {end}")
