"""The small part of AMQP 1.0 that a load generator uses.

This module is written for this folder alone and imports nothing of the broker, so that a mistake in the broker's codec
cannot be hidden by the same mistake in the load generator.

Encoding: each function returns the bytes of one value; composites are assembled from such bytes. Decoding: one
recursive function over the constructor table [1.2], which trusts the peer's widths: a broken frame raises `WireError`
or `struct.error`, and the run is void. Hot paths do not use this module; see `stencil`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | dict[str, Value] | DescribedValue | None"

SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SASL_MECHANISMS, SASL_INIT, SASL_CHALLENGE, SASL_RESPONSE, SASL_OUTCOME = range(0x40, 0x45)
SOURCE, TARGET = 0x28, 0x29
ACCEPTED: Final = 0x24
HEADER, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES, DATA, AMQP_VALUE = 0x70, 0x72, 0x73, 0x74, 0x75, 0x77

AMQP_FRAME, SASL_FRAME = 0, 1
ROLE_SENDER, ROLE_RECEIVER = False, True
SETTLE_MODE_UNSETTLED, SETTLE_MODE_SETTLED = 0, 1

SERIAL_MASK: Final = 0xFFFFFFFF
NULL: Final = b"\x40"
EMPTY_FRAME: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"
ACCEPTED_STATE: Final = b"\x00\x53\x24\x45"


class WireError(Exception):
    """The peer sent bytes that this generator does not understand, or that the protocol forbids."""


@dataclass(frozen=True, slots=True)
class DescribedValue:
    """A described value [1.1.2]; the descriptor is a number or a symbol."""

    descriptor: Value
    value: Value


@dataclass(frozen=True, slots=True)
class Amqp10Frame:
    """One frame: its performative's code and fields, and its payload."""

    code: int
    fields: list[Value]
    payload: bytes

    def field(self, index: int) -> Value:
        """The field at `index`, None when the list is shorter: trailing nulls may be left out [1.4]."""
        return self.fields[index] if index < len(self.fields) else None

    def number(self, index: int, default: int = 0) -> int:
        """An integer field, or `default` when it is absent."""
        value = self.field(index)
        return value if isinstance(value, int) else default


def serial_difference(a: int, b: int) -> int:
    """a − b for 32-bit serial numbers, between −2^31 and 2^31 − 1 [RFC 1982]."""
    return ((a - b + 0x80000000) & SERIAL_MASK) - 0x80000000


# Encoding


def boolean(value: bool) -> bytes:
    return b"\x41" if value else b"\x42"


def ubyte(value: int) -> bytes:
    return bytes((0x50, value))


def ushort(value: int) -> bytes:
    return struct.pack(">BH", 0x60, value)


def uint(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    return bytes((0x52, value)) if value < 256 else struct.pack(">BI", 0x70, value)


def ulong(value: int) -> bytes:
    if value == 0:
        return b"\x44"
    return bytes((0x53, value)) if value < 256 else struct.pack(">BQ", 0x80, value)


def _variable(code: int, content: bytes) -> bytes:
    if len(content) < 256:
        return bytes((code, len(content))) + content
    return struct.pack(">BI", code | 0x10, len(content)) + content


def binary(content: bytes) -> bytes:
    return _variable(0xA0, content)


def string(text: str) -> bytes:
    return _variable(0xA1, text.encode())


def symbol(text: str) -> bytes:
    return _variable(0xA3, text.encode("ascii"))


def _compound(code: int, items: tuple[bytes, ...]) -> bytes:
    content = b"".join(items)
    if len(content) < 255 and len(items) < 256:
        return bytes((code, len(content) + 1, len(items))) + content
    return struct.pack(">BII", code | 0x10, len(content) + 4, len(items)) + content


def list_of(*items: bytes) -> bytes:
    return _compound(0xC0, items)


def map_of(*keys_and_values: bytes) -> bytes:
    return _compound(0xC1, keys_and_values)


def described(code: int, value: bytes) -> bytes:
    return b"\x00" + ulong(code) + value


def composite(code: int, *fields: bytes) -> bytes:
    """A described list without its trailing nulls."""
    kept = len(fields)
    while kept and fields[kept - 1] == NULL:
        kept -= 1
    return described(code, list_of(*fields[:kept]))


def frame(body: bytes, *, kind: int = AMQP_FRAME, channel: int = 0) -> bytes:
    """A frame [2.3]."""
    return struct.pack(">IBBH", len(body) + 8, 2, kind, channel) + body


def disposition(first: int, last: int, *, role: bool, channel: int = 0) -> bytes:
    """Settle a range of deliveries as accepted [2.7.6]."""
    settling = composite(DISPOSITION, boolean(role), uint(first), uint(last), b"\x41", ACCEPTED_STATE)
    return frame(settling, channel=channel)


# Decoding

_FIXED: Final = {
    0x50: (">B", 1), 0x51: (">b", 1), 0x52: (">B", 1), 0x53: (">B", 1), 0x54: (">b", 1), 0x55: (">b", 1),
    0x60: (">H", 2), 0x61: (">h", 2), 0x70: (">I", 4), 0x71: (">i", 4), 0x72: (">f", 4), 0x73: (">I", 4),
    0x80: (">Q", 8), 0x81: (">q", 8), 0x82: (">d", 8), 0x83: (">q", 8),
}  # fmt: skip
_CONSTANT: Final[dict[int, Value]] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}
_WIDTH: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}


def decode(data: bytes, at: int) -> tuple[Value, int]:
    """The value that begins at `at`, and the position after it."""
    code = data[at]
    if code == 0x00:
        descriptor, at = decode(data, at + 1)
        value, at = decode(data, at)
        return DescribedValue(descriptor, value), at
    return _decode_as(code, data, at + 1)


def _decode_as(code: int, data: bytes, at: int) -> tuple[Value, int]:
    if code in _FIXED:
        layout, width = _FIXED[code]
        return struct.unpack_from(layout, data, at)[0], at + width
    if code in _CONSTANT:
        return _CONSTANT[code], at
    if code == 0x45:
        return [], at
    if code == 0x56:
        return data[at] == 1, at + 1
    category = code >> 4
    if category in (0x7, 0x8, 0x9):  # decimals and uuids stay bytes
        return bytes(data[at : at + _WIDTH[category]]), at + _WIDTH[category]
    if category in (0xA, 0xB):
        start, end = _content(data, at, wide=category == 0xB)
        content = bytes(data[start:end])
        return (content if code & 0x0F == 0 else content.decode()), end
    if category in (0xC, 0xD):
        return _decode_compound(code, data, at)
    if category in (0xE, 0xF):
        return _decode_array(data, at, wide=category == 0xF)
    raise WireError(f"constructor 0x{code:02x} is not one of AMQP 1.0")


def _content(data: bytes | bytearray, at: int, *, wide: bool) -> tuple[int, int]:
    """Where the bytes behind a size field begin and end."""
    start = at + (4 if wide else 1)
    size: int = struct.unpack_from(">I", data, at)[0] if wide else data[at]
    if start + size > len(data):
        raise WireError(f"a value of {size} bytes reaches beyond its frame")
    return start, start + size


def _decode_compound(code: int, data: bytes, at: int) -> tuple[Value, int]:
    wide = code >> 4 == 0xD
    at, end = _content(data, at, wide=wide)
    count = struct.unpack_from(">I", data, at)[0] if wide else data[at]
    at += 4 if wide else 1
    items: list[Value] = []
    for _ in range(count):
        item, at = decode(data, at)
        items.append(item)
    if code & 0x0F == 0:
        return items, end
    return {str(key): value for key, value in zip(items[::2], items[1::2], strict=True)}, end


def _decode_array(data: bytes, at: int, *, wide: bool) -> tuple[Value, int]:
    at, end = _content(data, at, wide=wide)
    count = struct.unpack_from(">I", data, at)[0] if wide else data[at]
    at += 4 if wide else 1
    code = data[at]
    if code == 0x00:
        raise WireError("arrays of described values are not expected from a broker")
    at += 1
    items: list[Value] = []
    for _ in range(count):
        item, at = _decode_as(code, data, at)
        items.append(item)
    return items, end


def decode_frame(data: bytes, at: int, size: int) -> Amqp10Frame | None:
    """The frame of `size` bytes at `at`; None for an empty frame, which is a heartbeat [2.4.5]."""
    body = at + 4 * data[at + 4]
    if body == at + size:
        return None
    performative, payload_at = decode(data, body)
    match performative:
        case DescribedValue(descriptor=int(code), value=list(fields)):
            return Amqp10Frame(code, fields, bytes(data[payload_at : at + size]))
    raise WireError(f"a frame without a performative: {performative!r}")


def skip(data: bytes | bytearray, at: int) -> int:
    """The position after the value at `at`, without decoding it."""
    code = data[at]
    if code == 0x00:
        return skip(data, skip(data, at + 1))
    category = code >> 4
    if category in _WIDTH:
        return at + 1 + _WIDTH[category]
    return _content(data, at + 1, wide=bool(category & 1))[1]


def list_spans(data: bytes | bytearray, at: int) -> list[tuple[int, int]]:
    """Where each item of the list at `at` begins and ends; keys and values are the items of a map."""
    code = data[at]
    if code == 0x45:
        return []
    if code not in (0xC0, 0xD0, 0xC1, 0xD1):
        raise WireError(f"a list or map was expected, not constructor 0x{code:02x}")
    wide = code >> 4 == 0xD
    count = struct.unpack_from(">I", data, at + 5)[0] if wide else data[at + 2]
    at += 9 if wide else 3
    spans = []
    for _ in range(count):
        end = skip(data, at)
        spans.append((at, end))
        at = end
    return spans


def content_span(data: bytes | bytearray, span: tuple[int, int]) -> tuple[int, int]:
    """Where the value with this span begins behind its constructor, and its size if it has one."""
    category = data[span[0]] >> 4
    return span[0] + {0xA: 2, 0xB: 5}.get(category, 1), span[1]
