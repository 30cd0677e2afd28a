"""Entries: the message as the engine keeps it, of ``Origin.AMQP091`` [0-9-1 4.2.6.1].

An entry is the payload of the content header frame and the body:

    class-id u16 (60) | weight u16 (0) | body size u64 | property flags and list | body

The body size tells where the body begins, without parsing the properties. Exchange and routing key are not in it.
Entries come from our own code, which has checked the peer's input, so nothing is checked here.
"""

import struct

BASIC_CLASS_ID = 60
BODY_SIZE_AT = 4
"""Where the body size starts, in a content header and in an entry."""
PROPERTIES_AT = 12
"""Where the property flags start, in a content header and in an entry."""

_pack_header = struct.Struct(">HHQ").pack
_parse_body_size = struct.Struct(">4xQ").unpack_from


def entry_of(properties: bytes, body: bytes | bytearray) -> bytes:
    """Make an entry from a body and property flags and list, as received or as ``encode_properties`` makes them."""
    return b"".join((_pack_header(BASIC_CLASS_ID, 0, len(body)), properties, body))


def header_length(entry: bytes) -> int:
    """Where the body of an entry starts; the bytes before are the payload of the content header frame."""
    size: int
    (size,) = _parse_body_size(entry)
    return len(entry) - size


def properties_of(entry: bytes) -> bytes:
    """Property flags and list."""
    return entry[PROPERTIES_AT : header_length(entry)]


def body_of(entry: bytes) -> bytes:
    """The body."""
    return entry[header_length(entry) :]
