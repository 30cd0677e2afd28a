"""Cuts one encoded message into the parts that columns are made of, without decoding their values.

Nearly all messages have the sections that clients write: a short header, message annotations with symbols as keys, a
short list of properties, a short map of application properties, one data section. These are cut at 0.2 to 0.4 µs for
each property or annotation. A field or a value stays encoded, as a piece of the message, until a column needs it. All
other messages go through the generic decoder, and give the same parts.

Only parts that are asked for are cut and checked. So a message whose annotations cannot be decoded is a row for a query
that does not read annotations.
"""

import struct
from typing import Final, NamedTuple

from amqp10.client_core.message import decode_body
from amqp10.errors import DecodeError
from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.composite import read_descriptor
from amqp10.wire.codec.decode import DEPTH_MAX, skip_value
from amqp10.wire.plain_messages import property_fields
from amqp10.wire.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    DATA,
    MESSAGE_ANNOTATIONS,
    Bounds,
    Header,
    SectionBounds,
    decode_header,
    decode_map_section,
    decode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Symbol, ULong, plain
from pyspark_amqp10.values import TYPES, json_of, text_of

OFFSET_ANNOTATION: Final = "x-stream-offset"
SEQUENCE_ANNOTATION: Final = "x-opt-sequence"
ENQUEUED_ANNOTATION: Final = "x-opt-enqueued-time"
"""The time when a message came to its queue, a timestamp; a broker stamps it."""
NUMBER_MAX: Final = 2**63 - 1
"""The largest offset or sequence number: Spark's long holds no more, and brokers use no more."""

Items = dict[bytes, bytes]
"""Keys as UTF-8, with encoded values."""
Fields = tuple[bytes | None, ...]
"""The fields of the properties section [3.2.4], each encoded; None for a field that is not there."""
HeaderFields = tuple[bool | None, int | None, int | None, bool | None, int | None]
"""durable, priority, ttl in milliseconds, first-acquirer, delivery-count [3.2.1]."""

NO_HEADER: Final[HeaderFields] = (False, 4, None, False, 0)
"""What holds for a message without a header [3.2.1]."""
NO_FIELDS: Final[Fields] = (None,) * 13


class Wanted(NamedTuple):
    """Which parts of messages are needed besides the body and the number."""

    header: bool = True
    annotations: bool = True
    fields: bool = True
    properties: bool = True
    footer: bool = True


Parts = tuple[
    bytes | None,
    int | None,
    HeaderFields,
    Items | None,
    Fields,
    Items | None,
    str | None,
    bytes | None,
    Items | None,
    bytes | None,
]
"""The parts of one message: its body; the offset or sequence number, where the broker stamps one; the header; the
annotations that are no columns of their own; the properties; the application properties; the type of the body, which
is data, string, binary, value, sequence, or None without a body; the encoded sections of a body that is none of the
first three; the footer; the encoded time of arrival. A plain tuple, since many of them become columns at once."""


def no_row(entry: bytes) -> Parts:
    """What stands for a message that cannot become a row: its bytes, and its number if that can be found."""
    return entry, number_in(entry), BAD_HEADER, None, NO_FIELDS, None, None, None, None, None


BAD_HEADER: Final[HeaderFields] = (None, None, None, None, None)

NUMBER_LEADS: Final = tuple(
    (encode_section(MESSAGE_ANNOTATIONS, {Symbol(key): ULong(NUMBER_MAX)})[6:-8], other.encode())
    for key, other in ((SEQUENCE_ANNOTATION, OFFSET_ANNOTATION), (OFFSET_ANNOTATION, SEQUENCE_ANNOTATION))
)
"""The key of the broker's number and its format code, as brokers write them: eight bytes follow. With each, the other
key."""
_ENQUEUED_KEY: Final = ENQUEUED_ANNOTATION.encode()
NUMBER_KEYS: Final = (OFFSET_ANNOTATION.encode(), SEQUENCE_ANNOTATION.encode())
_HEADERS_MAX: Final = 1024
"""Distinct header sections that are remembered; there are few, but a ttl may differ in each."""

WIDTHS: Final = [
    {0x40: 1, 0x50: 2, 0x60: 3, 0x70: 5, 0x80: 9, 0x90: 17}.get(each & 0xF0, 0)
    if each in TYPES and each not in (code.BOOLEAN, code.CHAR)
    else 0
    for each in range(256)
]
"""The whole width of values for which any bytes are valid, by format code; 0 for all others."""
_STRING_KEY: Final = code.STRING_8
_SYMBOL_KEY: Final = code.SYMBOL_8
_HEADER, _NO_HEADER_FIELDS = b"\x00\x53\x70\xc0", b"\x00\x53\x70\x45"
_ANNOTATIONS = b"\x00\x53\x72\xc1"
_PROPERTIES, _LONG_PROPERTIES, _NO_PROPERTIES = b"\x00\x53\x73\xc0", b"\x00\x53\x73\xd0", b"\x00\x53\x73\x45"
_APPLICATION, _LONG_APPLICATION = b"\x00\x53\x74\xc1", b"\x00\x53\x74\xd1"
BODY_TYPES: Final = {
    bytes((code.DESCRIBED, code.SMALL_ULONG, section, format_code)): body_type
    for section, body_type, format_codes in (
        (DATA, "data", (code.BINARY_8, code.BINARY_32)),
        (AMQP_VALUE, "string", (code.STRING_8, code.STRING_32)),
        (AMQP_VALUE, "binary", (code.BINARY_8, code.BINARY_32)),
    )
    for format_code in format_codes
}
"""The first bytes of sections, descriptor and format code [3.2], and the types of bodies by them."""
_fields = property_fields().fullmatch
_uint64 = struct.Struct(">Q").unpack_from
_size_and_count = struct.Struct(">II").unpack_from


class PartsReader:
    """Cuts messages of one query into their parts."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._headers: dict[bytes, HeaderFields] = {}
        self._opening = b"\xff"
        """How the last message without annotations but its number began, up to the number. None begins with this
        byte."""
        self._opening_header = NO_HEADER

    def read(self, entry: bytes) -> Parts:
        """The parts of a message. Raises DecodeError."""
        return self.quick(entry) or read_any(entry, self.wanted)

    def quick(self, entry: bytes) -> Parts | None:
        """The parts of a message with the usual sections; None for others, and for wrong ones."""
        _, _, want_fields, want_properties, _ = self.wanted
        header, number, annotations, fields, properties = NO_HEADER, None, None, NO_FIELDS, None
        try:
            if entry.startswith(self._opening):
                at = len(self._opening) + 8
                header = self._opening_header
                number = _uint64(entry, at - 8)[0]
                if number > NUMBER_MAX:
                    return None
            else:
                header, number, annotations, at = self._begin(entry)
            lead = entry[at : at + 4]
            if lead in (_PROPERTIES, _LONG_PROPERTIES):
                if lead == _PROPERTIES:
                    start, at, count = at + 6, at + 5 + entry[at + 4], entry[at + 5]
                else:
                    size, count = _size_and_count(entry, at + 4)
                    start, at = at + 12, at + 8 + size
                if want_fields:
                    found = _fields(entry, start, at)
                    if found is None or (found.lastindex or 0) != count:
                        return None
                    fields = found.groups()
                lead = entry[at : at + 4]
            elif lead == _NO_PROPERTIES:
                at += 4
                lead = entry[at : at + 4]
            if lead in (_APPLICATION, _LONG_APPLICATION):
                if lead == _APPLICATION:
                    start, at, count = at + 6, at + 5 + entry[at + 4], entry[at + 5]
                else:
                    size, count = _size_and_count(entry, at + 4)
                    start, at = at + 12, at + 8 + size
                if want_properties:
                    properties = _items(entry, start, at, _STRING_KEY)
                    if len(properties) * 2 != count:
                        return None
                lead = entry[at : at + 4]
            body_type = BODY_TYPES.get(lead)
            if body_type is None:
                return None
            if entry[at + 3] & 0x10:
                at, end = at + 8, at + 8 + int.from_bytes(entry[at + 4 : at + 8], "big")
            else:
                at, end = at + 5, at + 5 + entry[at + 4]
            body = entry[at:]
            if end != len(entry) or (body_type == "string" and not body.isascii()):
                return None  # texts with other characters are checked by the generic decoder
        except (IndexError, struct.error, ValueError, DecodeError):
            return None  # the generic decoder finds the error, and its words
        enqueued = annotations.pop(_ENQUEUED_KEY, None) if annotations else None
        return body, number, header, annotations or None, fields, properties, body_type, None, None, enqueued

    def _begin(self, entry: bytes) -> tuple[HeaderFields, int | None, Items | None, int]:
        """Header, number and annotations of a message, and where its next section begins. If there is nothing but the
        number in its annotations, messages that begin alike are not read here again. Raises as :func:`_items` does."""
        at, header, number, annotations = 0, NO_HEADER, None, None
        lead = entry[:4]
        if lead == _HEADER:
            at = 5 + entry[4]
            if self.wanted.header:
                header = self._headers.get(entry[:at]) or self._header(entry[:at])
            lead = entry[at : at + 4]
        elif lead == _NO_HEADER_FIELDS:
            at, lead = 4, entry[4:8]
        if lead == _ANNOTATIONS:
            start, at, count = at + 6, at + 5 + entry[at + 4], entry[at + 5]
            number, start = _number_first(entry, start, at, count)
            if number is not None:
                count -= 2
                if start == at and not count:
                    self._opening, self._opening_header = entry[: at - 8], header
            if self.wanted.annotations and start < at:
                annotations = _items(entry, start, at, _SYMBOL_KEY)
                if len(annotations) * 2 != count:
                    raise ValueError
        return header, number, annotations, at

    def _header(self, section: bytes) -> HeaderFields:
        if len(self._headers) >= _HEADERS_MAX:
            self._headers.clear()
        fields = self._headers[section] = _header_fields(decode_header(section, 0, len(section)))
        return fields


def _number_first(entry: bytes, start: int, end: int, count: int) -> tuple[int | None, int]:
    """The number in message annotations with this content, and where the others begin. Brokers write the number first.
    Raises ValueError if it may stand elsewhere."""
    for pair, other in NUMBER_LEADS:
        if entry.startswith(pair, start):
            behind = start + len(pair) + 8
            number = int.from_bytes(entry[behind - 8 : behind], "big")
            if number > NUMBER_MAX or behind > end or (count > 2 and entry.find(other, behind, end) >= 0):
                raise ValueError
            return number, behind
    if count and any(entry.find(key, start, end) >= 0 for key in NUMBER_KEYS):
        raise ValueError
    return None, start


def number_place(entry: bytes, start: int, end: int) -> int | None:
    """Where the eight bytes of the number are in message annotations between these bounds, if brokers wrote it."""
    if entry[start : start + 4] != b"\x00\x53\x72\xc1":
        return None
    try:
        number, behind = _number_first(entry, start + 6, end, entry[start + 5])
    except ValueError:
        return None
    return None if number is None else behind - 8


def _items(entry: bytes, at: int, end: int, key_code: int) -> Items:
    """The pairs of a map with short keys of this code and with scalars. Raises ValueError and IndexError for any other
    map, and for a wrong one, but for a key that is there twice."""
    items: Items = {}
    widths = WIDTHS
    while at < end:
        behind = at + 2 + entry[at + 1]
        key = entry[at + 2 : behind]
        if entry[at] != key_code or not key.isascii():
            raise ValueError
        format_code = entry[behind]
        width = widths[format_code]
        if width:
            at = behind + width
            items[key] = entry[behind:at]
        else:
            at = behind + 2 + entry[behind + 1]
            items[key] = value = entry[behind:at]
            if format_code == code.STRING_8:
                if not value.isascii():
                    str(value[2:], "utf-8")
            elif format_code != code.BINARY_8 and not (format_code == code.SYMBOL_8 and value[2:].isascii()):
                raise ValueError
    if at != end:
        raise ValueError
    return items


# --- any message ---------------------------------------------------------------------------------------------------


def read_any(entry: bytes, wanted: Wanted) -> Parts:
    """The parts of any message, by the generic decoder. Raises DecodeError."""
    bounds = scan(entry, ordered=False)
    header, fields = NO_HEADER, NO_FIELDS
    if wanted.header and bounds.header is not None:
        header = _header_fields(decode_header(entry, *bounds.header))
    if wanted.fields and bounds.properties is not None:
        decode_properties(entry, *bounds.properties)
        fields = _encoded_fields(entry, *bounds.properties)
    number, annotations = _numbered(entry, bounds.message_annotations, wanted=wanted.annotations)
    enqueued = annotations.pop(_ENQUEUED_KEY, None) if annotations and wanted.annotations else None
    body, body_type, body_encoded = _body(entry, bounds)
    return (
        body,
        number,
        header,
        (annotations or None) if wanted.annotations else None,
        fields,
        _map(entry, bounds.application_properties) if wanted.properties else None,
        body_type,
        body_encoded,
        _map(entry, bounds.footer) if wanted.footer else None,
        enqueued,
    )


def number_in(entry: bytes) -> int | None:
    """The number of a message that may be invalid in other places; None when it cannot be found."""
    try:
        return _numbered(entry, scan(entry, ordered=False).message_annotations, wanted=False)[0]
    except DecodeError:
        pass
    try:  # the end of a section behind the annotations may be wrong
        start = 0
        while start < len(entry):
            section, value_at = read_descriptor(entry, start, len(entry), DEPTH_MAX)
            end = skip_value(entry, value_at, len(entry), DEPTH_MAX)
            if section in _ANNOTATIONS_DESCRIPTORS:
                return _numbered(entry, (start, end), wanted=False)[0]
            start = end
    except (DecodeError, IndexError):
        pass
    return None


_ANNOTATIONS_DESCRIPTORS: Final = (MESSAGE_ANNOTATIONS, "amqp:message-annotations:map")
_NUMBER_CODES: Final = frozenset(
    {code.ULONG_0, code.SMALL_ULONG, code.ULONG, code.SMALL_LONG, code.LONG, code.SMALL_INT, code.INT}
)


def _header_fields(header: Header) -> HeaderFields:
    return header.durable, header.priority, header.ttl, header.first_acquirer, header.delivery_count


def _numbered(entry: bytes, bounds: Bounds | None, *, wanted: bool) -> tuple[int | None, Items | None]:
    """The number, and the other annotations if they are wanted; None where there are no others. Raises DecodeError if
    they are wanted and wrong."""
    if bounds is None:
        return None, None
    try:
        items = _map(entry, bounds) or {}
    except DecodeError:
        if wanted:
            raise
        return None, None
    number = None
    for key in NUMBER_KEYS:
        value = items.get(key)
        if value is not None and value[0] in _NUMBER_CODES and number is None:
            found = int(text_of(value) or 0)
            if 0 <= found <= NUMBER_MAX:
                number = found
    others = {key: value for key, value in items.items() if key not in NUMBER_KEYS}
    return number, others or None


def _map(entry: bytes, bounds: Bounds | None) -> Items | None:
    """A section with a map. Raises DecodeError."""
    if bounds is None:
        return None
    start, end = bounds
    decode_map_section(entry, start, end)  # it checks all that follows
    _, at = read_descriptor(entry, start, end, DEPTH_MAX)
    at += 3 if entry[at] == code.MAP_8 else 9  # code, size, count
    items: Items = {}
    while at < end:
        value_at = skip_value(entry, at, end, DEPTH_MAX)
        key = text_of(entry[at:value_at]) or ""
        at = skip_value(entry, value_at, end, DEPTH_MAX)
        items[key.encode()] = entry[value_at:at]
    return items


def _encoded_fields(entry: bytes, start: int, end: int) -> Fields:
    """The fields of valid properties."""
    _, at = read_descriptor(entry, start, end, DEPTH_MAX)
    at += {code.LIST_0: 1, code.LIST_8: 3}.get(entry[at], 9)
    fields: list[bytes | None] = []
    while at < end:
        behind = skip_value(entry, at, end, DEPTH_MAX)
        fields.append(entry[at:behind])
        at = behind
    return (*fields, *NO_FIELDS[len(fields) :])


def _body(entry: bytes, bounds: SectionBounds) -> tuple[bytes | None, str | None, bytes | None]:
    """The body as bytes, its type, and its sections where these two do not tell all. Raises DecodeError.

    Data sections are joined. A text becomes its UTF-8, a binary its bytes; any other value becomes JSON.
    """
    if bounds.body is None:
        return None, None, None
    start, end = bounds.body
    body = decode_body(entry, bounds.body, bounds.body_code)[0]
    if bounds.body_code == DATA:
        assert isinstance(body, bytes)
        return body, "data", None
    if bounds.body_code == AMQP_VALUE and isinstance(body, str):
        return body.encode(), "string", None
    if bounds.body_code == AMQP_VALUE and isinstance(body, bytes):
        return body, "binary", None
    kind = "sequence" if bounds.body_code == AMQP_SEQUENCE else "value"
    bare = plain(body)
    if not isinstance(bare, bytes):
        bare = (bare if isinstance(bare, str) else json_of(bare)).encode()
    return bare, kind, entry[start:end]
