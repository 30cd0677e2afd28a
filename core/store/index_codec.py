"""Encoding of the payloads of records in a queue index.

``PUBLISH``: a head of 32 bytes, the route, the sizes of the bodies (u32 each), the bodies.
``PUBLISH_STORED``: the same with the bodies' message store ids (u64 each) in place of the bodies.
``SETTLE``: pairs of u16, first and last number of settled messages, counted from the beginning of the segment.

======  =====  ====================================================================
offset  type   the head
======  =====  ====================================================================
0       u64    sequence number of the first message
8       u32    how many messages; 0: the numbers below are in use
12      u32    time-to-live in ms, when flag 4 is set
16      f64    wall-clock seconds of the expiry, when flag 8 is set
24      u32    bytes of the route: CBOR of exchange and routing keys; 0: none. With flag 64
               CBOR of two values: the route or null, and the publishing ids
28      u8     flags: 1 durable, 2 transient, 4 time-to-live, 8 expires, 16 AMQP 0-9-1,
               32 redelivered, 64 publishing ids
29      u8     priority
30      u16    0
======  =====  ====================================================================

All little-endian. A *transient* message was only paged out: the next start drops it, whatever its durable flag is. A
pair of u16 outside of the segment has no meaning; recovery fills holes with such pairs.
"""

import sys
from array import array
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple, TypeAlias

from core.message import Attributes, Origin, Route
from core.store.places import SEGMENT_MESSAGES
from core.store.record import HEADER_BYTES, RecordKind
from core.store.route_codec import decode_route, decode_route_and_taken, encode_route, encode_route_and_taken
from core.taken_numbers import Packed

_HEAD = Struct("<QIIdIBB2x")
_DURABLE, _TRANSIENT, _TTL, _EXPIRES, _AMQP091, _REDELIVERED, _NAMED = 1, 2, 4, 8, 16, 32, 64
_BIG_ENDIAN = sys.byteorder == "big"

NOTHING = b"\xff"
"""A byte that fills a ``SETTLE`` payload without settling any message."""


KnownAttributes: TypeAlias = dict[tuple[int, int, int], Attributes]
"""By flags, priority and time-to-live, as encoded on disk."""


class Published(NamedTuple):
    """The contents of a ``PUBLISH`` or ``PUBLISH_STORED`` record."""

    first: int
    sizes: "array[int]"
    attributes: Attributes
    transient: bool
    expires_at: float | None
    route: Route | None
    bodies_at: int
    """The offset of the first body in the file."""
    ids: "array[int] | None"
    """Ids in the message store; None if the record has the bodies."""
    taken: Packed | None = None
    """The publishing ids that this record says were taken on."""


def encode_head(
    first: int,
    count: int,
    attributes: Attributes,
    transient: bool,
    expires_at: float | None,
    route: Route | None,
    taken: Packed | None = None,
) -> bytes:
    """Encode head, route and publishing ids of a record that publishes."""
    flags = (
        (_DURABLE if attributes.durable else 0)
        | (_TRANSIENT if transient else 0)
        | (_TTL if attributes.ttl_ms is not None else 0)
        | (_EXPIRES if expires_at is not None else 0)
        | (_AMQP091 if attributes.origin is Origin.AMQP091 else 0)
        | (_REDELIVERED if attributes.redelivered else 0)
        | (_NAMED if taken is not None else 0)
    )
    if taken is not None:
        way = encode_route_and_taken(route, taken)
    else:
        way = b"" if route is None else encode_route(route)
    head = _HEAD.pack(first, count, attributes.ttl_ms or 0, expires_at or 0.0, len(way), flags, attributes.priority)
    return head + way


def encode_numbers(numbers: "array[int]") -> bytes:
    """Encode a table of numbers, little-endian."""
    if _BIG_ENDIAN:
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def decode_published(kind: RecordKind, offset: int, payload: bytes, known: KnownAttributes) -> Published:
    """Decode the payload of a record at ``offset``. ``known`` makes equal attributes share one object, which saves
    memory."""
    first, count, ttl_ms, expires_at, way_bytes, flags, priority = _HEAD.unpack_from(payload)
    sizes_at = _HEAD.size + way_bytes
    bodies_at = sizes_at + 4 * count
    key = (flags, priority, ttl_ms)
    attributes = known.get(key)
    if attributes is None:
        origin = Origin.AMQP091 if flags & _AMQP091 else Origin.AMQP10
        attributes = Attributes(
            origin,
            bool(flags & _DURABLE),
            priority,
            ttl_ms if flags & _TTL else None,
            bool(flags & _REDELIVERED),
        )
        known[key] = attributes
    route, taken = None, None
    if flags & _NAMED:
        route, taken = decode_route_and_taken(payload[_HEAD.size : sizes_at])
    elif way_bytes:
        route = decode_route(payload[_HEAD.size : sizes_at])
    return Published(
        first,
        _numbers("I", payload[sizes_at:bodies_at]),
        attributes,
        bool(flags & _TRANSIENT),
        expires_at if flags & _EXPIRES else None,
        route,
        offset + HEADER_BYTES + bodies_at,
        _numbers("Q", payload[bodies_at : bodies_at + 8 * count]) if kind is RecordKind.PUBLISH_STORED else None,
        taken,
    )


def encode_settled(base: int, settled: Iterable["range | list[int]"]) -> bytes:
    """Encode settled messages of the segment that begins at ``base``; they may be in any order."""
    marks = bytearray(SEGMENT_MESSAGES)
    for sequences in settled:
        if isinstance(sequences, range):
            marks[sequences.start - base : sequences[-1] - base + 1 : sequences.step] = b"\x01" * len(sequences)
        else:
            for sequence in sequences:
                marks[sequence - base] = 1
    pairs = array("H")
    stop = 0
    while (start := marks.find(1, stop)) >= 0:
        stop = marks.find(0, start)
        if stop < 0:
            stop = SEGMENT_MESSAGES
        pairs.append(start)
        pairs.append(stop - 1)
    return encode_numbers(pairs)


def decode_settled(payload: bytes) -> Iterator[tuple[int, int]]:
    """Decode first and last number of settled messages, counted from the beginning of the segment."""
    pairs = iter(_numbers("H", payload[: len(payload) & ~3]))
    return ((first, last) for first, last in zip(pairs, pairs, strict=True) if first <= last < SEGMENT_MESSAGES)


def _numbers(code: str, data: bytes) -> "array[int]":
    numbers: array[int] = array(code)
    numbers.frombytes(data)
    if _BIG_ENDIAN:
        numbers.byteswap()
    return numbers
