"""A chunk: consecutive messages of a stream that are alike, in one record; and a cache of chunks in memory.

A chunk is appended, read and skipped as a whole. The facts by which a reader decides to skip it (offsets, time, filter
values of its messages) come before the bodies, so that a skipped chunk is never split into messages.

The payload of its record, little-endian::

    tag u8 = 1 | origin u8 | flags u8 | priority u8 | ttl_ms u32 | first offset u64 | stamp_ms u64
    messages u32 | bytes of the filter part u32
    filter part: distinct values u16, each as length u32 and UTF-8, then one u16 for each message (0: none)
    if flag 8 is set: bytes of the route u32 | route
    size u32 of each message | bodies

This module does not know files or lanes.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from struct import Struct, unpack_from
from typing import NamedTuple

from core.message import Attributes, Origin, Route
from core.store.route_codec import decode_route, encode_route

TAG = 1
"""The first byte of the payload; the head of a segment has a different one."""
MESSAGES_MAX = 1024
"""The most messages of one chunk. A reader takes 256 at a time, and a chunk that is not in the cache is read as a whole
each time."""
BODY_BYTES_MAX = 256 * 1024
"""The most bytes of bodies in one chunk, unless a single message is larger: a quarter of what one reader gets in a
turn."""
JOINED_BYTES_MAX = 1024
"""Messages are joined for the record if they have fewer bytes on the average: a copy and one checksum take 80 ns for a
message of 330 bytes, a checksum of each 160 ns. From 1 KiB on both take as long."""
ENTRY_OVERHEAD_BYTES = 49
"""The memory of a ``bytes`` object beside its contents (33), its place in a list (8), and the mean of what the
allocator adds to reach a multiple of 16 (8)."""
CHUNK_OVERHEAD_BYTES = 680
"""The memory of a chunk without messages in the cache: the object (112), its list (64), five numbers (160), two tuples
(128), and its places in an ordered dictionary and a set (up to 216, by how full their tables are)."""
FILTERS_OVERHEAD_BYTES = 200
"""The memory of the filter values' two tuples and array, beside their contents."""
FILTER_VALUE_OVERHEAD_BYTES = 65
"""The memory of one filter value beside its characters: a text (49), its place (8), and the mean of what is added."""

KNOWN_MAX = 256
"""The most attributes, and routes, that a reader remembers. If there are more different ones, they contain a value that
varies, like a time-to-live or a routing key, and would not be found again."""

_FIXED = Struct("<BBBBIQQII")
_ATTRIBUTES = slice(1, 8)
"""The slice of the fixed part that has the attributes."""
_DURABLE, _HAS_TTL, _REDELIVERED, _HAS_ROUTE = 1, 2, 4, 8
_ROUTE_SIZE = Struct("<I")
_ORIGINS = (Origin.AMQP10, Origin.AMQP091)
"""The index is the number on disk."""


@dataclass(frozen=True, slots=True)
class Known:
    """Attributes and routes of chunks by their encoded bytes, so that chunks share the objects. A stream has few
    different ones."""

    attributes: dict[bytes, Attributes] = field(default_factory=dict)
    routes: dict[bytes, Route] = field(default_factory=dict)


class Filters(NamedTuple):
    """The filter values of a chunk's messages."""

    values: tuple[str, ...]
    """The distinct values."""
    of: Sequence[int]
    """For each message the position of its value in ``values``, counted from 1; 0 for a message without one."""

    @classmethod
    def of_messages(cls, given: Sequence[str | None]) -> "Filters | None":
        """Make them from each message's value. Returns None if no message has one."""
        places: dict[str, int] = {}
        of = array("H", (0 if value is None else places.setdefault(value, len(places) + 1) for value in given))
        return cls(tuple(places), of) if places else None


class Chunk:
    """The messages with offsets from ``first`` (inclusive) to ``next`` (exclusive)."""

    __slots__ = (
        "_entries", "_payload", "attributes", "count", "filters", "first", "next", "route", "size",
        "stamp_ms",
    )  # fmt: skip

    def __init__(
        self,
        first: int,
        entries: list[bytes],
        attributes: Attributes,
        *,
        stamp_ms: int,
        filters: Filters | None = None,
        route: Route | None = None,
    ) -> None:
        self.first = first
        self.count = len(entries)
        self.next = first + self.count
        self.attributes = attributes
        self.stamp_ms = stamp_ms
        """When it was appended, in milliseconds since the epoch; never lower than in an earlier chunk."""
        self.filters = filters
        self.route = route
        """The exchange and routing keys of its messages; None if they were published straight to the stream, or before
        routes were recorded."""
        self.size = sum(map(len, entries))
        """Bytes of its messages; if the chunk was read from disk, of the record's payload."""
        self._entries: list[bytes] | None = entries
        self._payload: tuple[bytes, int] | None = None
        """The record's payload, and the offset of the sizes in it, until the messages are requested."""

    @property
    def entries(self) -> list[bytes]:
        """The messages. The caller must not change the list, because other readers get the same one."""
        if self._entries is None:
            assert self._payload is not None
            payload, at = self._payload
            sizes = unpack_from(f"<{self.count}I", payload, at)
            bounds = accumulate(sizes, initial=at + 4 * self.count)
            self._entries = [payload[start:stop] for start, stop in pairwise(bounds)]
            self._payload = None
        return self._entries

    @property
    def memory_bytes(self) -> int:
        """The approximate memory that the chunk takes in the cache."""
        size = self.size + self.count * ENTRY_OVERHEAD_BYTES + CHUNK_OVERHEAD_BYTES
        if self.filters is not None:
            values = self.filters.values
            size += FILTERS_OVERHEAD_BYTES + 2 * self.count
            size += len(values) * FILTER_VALUE_OVERHEAD_BYTES + sum(map(len, values))
        return size

    def matching(self, start: int, values: frozenset[str], *, unfiltered: bool) -> list[int]:
        """Return the indexes, from ``start`` on, of messages with one of the values, and with ``unfiltered`` also of
        messages without one."""
        if self.filters is None:
            return list(range(start, self.count)) if unfiltered else []
        wanted = {place for place, value in enumerate(self.filters.values, 1) if value in values}
        if unfiltered:
            wanted.add(0)
        if not wanted:
            return []
        of = self.filters.of
        return [place for place in range(start, self.count) if of[place] in wanted]


def encode(chunk: Chunk) -> list[bytes]:
    """Encode the payload of the chunk's record."""
    attributes = chunk.attributes
    entries = chunk.entries
    filters = b"" if chunk.filters is None else _encode_filters(chunk.filters)
    flags = _DURABLE * attributes.durable + _HAS_TTL * (attributes.ttl_ms is not None)
    flags += _REDELIVERED * attributes.redelivered + _HAS_ROUTE * (chunk.route is not None)
    way = b""
    if chunk.route is not None:
        route = encode_route(chunk.route)
        way = _ROUTE_SIZE.pack(len(route)) + route
    fixed = _FIXED.pack(
        TAG, _ORIGINS.index(attributes.origin), flags, attributes.priority, attributes.ttl_ms or 0,
        chunk.first, chunk.stamp_ms, chunk.count, len(filters),
    )  # fmt: skip
    sizes = Struct(f"<{chunk.count}I").pack(*map(len, entries))
    if chunk.size < chunk.count * JOINED_BYTES_MAX:
        return [fixed, filters, way, sizes, b"".join(entries)]
    return [fixed, filters, way, sizes, *entries]


class ChunkFacts(NamedTuple):
    """What a payload says of its chunk, without its messages."""

    first: int
    messages: int
    stamp_ms: int


def facts_of(payload: bytes, at: int = 0) -> ChunkFacts:
    """Return the facts of the chunk whose payload begins at this offset."""
    _, _, _, _, _, first, stamp_ms, count, _ = _FIXED.unpack_from(payload, at)
    return ChunkFacts(first, count, stamp_ms)


def decode(payload: bytes, known: Known | None = None) -> Chunk:
    """Decode the chunk in a sound record's payload. The messages are only split when they are requested.

    A caller that decodes many chunks passes ``known``, so that they share attributes and routes.
    """
    known = known or Known()
    _, origin, flags, priority, ttl_ms, first, stamp_ms, count, filter_bytes = _FIXED.unpack_from(payload)
    attributes = known.attributes.get(payload[_ATTRIBUTES])
    if attributes is None:
        attributes = Attributes(
            _ORIGINS[origin],
            bool(flags & _DURABLE),
            priority,
            ttl_ms if flags & _HAS_TTL else None,
            bool(flags & _REDELIVERED),
        )
        if len(known.attributes) < KNOWN_MAX:
            known.attributes[payload[_ATTRIBUTES]] = attributes
    sizes_at = _FIXED.size + filter_bytes
    route = None
    if flags & _HAS_ROUTE:
        (route_bytes,) = _ROUTE_SIZE.unpack_from(payload, sizes_at)
        sizes_at += _ROUTE_SIZE.size + route_bytes
        route = _route(payload[sizes_at - route_bytes : sizes_at], known.routes)
    chunk = Chunk(first, [], attributes, stamp_ms=stamp_ms, route=route)
    chunk.count = count
    chunk.next = first + count
    chunk.size = len(payload)
    if filter_bytes:
        chunk.filters = _decode_filters(payload, _FIXED.size, count)
    chunk._entries = None
    chunk._payload = (payload, sizes_at)
    return chunk


def _route(encoded: bytes, known: dict[bytes, Route]) -> Route:
    route = known.get(encoded)
    if route is None:
        route = decode_route(encoded)
        if len(known) < KNOWN_MAX:
            known[encoded] = route
    return route


def _encode_filters(filters: Filters) -> bytes:
    parts = [len(filters.values).to_bytes(2, "little")]
    for value in filters.values:
        encoded = value.encode()
        parts += (len(encoded).to_bytes(4, "little"), encoded)
    parts.append(Struct(f"<{len(filters.of)}H").pack(*filters.of))
    return b"".join(parts)


def _decode_filters(payload: bytes, at: int, count: int) -> Filters:
    distinct = int.from_bytes(payload[at : at + 2], "little")
    at += 2
    values = []
    for _ in range(distinct):
        length = int.from_bytes(payload[at : at + 4], "little")
        values.append(payload[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return Filters(tuple(values), unpack_from(f"<{count}H", payload, at))


class ChunkCache:
    """A cache of the most recently used chunks of all streams, bounded in bytes.

    A reader at the tail of a stream finds new chunks here, so it never reads the disk.
    """

    __slots__ = ("_chunks", "_firsts", "bytes", "bytes_max", "hits", "misses")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._chunks: OrderedDict[tuple[str, int], tuple[Chunk, int]] = OrderedDict()
        """By stream and first offset, with the counted bytes of each chunk; the most recently used one is last."""
        self._firsts: dict[str, set[int]] = {}
        """The first offsets of each stream's cached chunks."""

    def put(self, stream: str, chunk: Chunk) -> None:
        """Add a chunk, and drop the least recently used ones. A chunk that exceeds the limit alone is not added."""
        size = chunk.memory_bytes
        if (stream, chunk.first) in self._chunks:
            self._drop(stream, chunk.first)
        if size > self.bytes_max:
            return
        self._chunks[stream, chunk.first] = (chunk, size)
        self._firsts.setdefault(stream, set()).add(chunk.first)
        self.bytes += size
        while self.bytes > self.bytes_max:
            self._drop(*next(iter(self._chunks)))

    def get(self, stream: str, first: int) -> Chunk | None:
        """Return the chunk that begins at this offset, or None."""
        found = self._chunks.get((stream, first))
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._chunks.move_to_end((stream, first))
        return found[0]

    def forget(self, stream: str) -> None:
        """Drop all chunks of a deleted stream."""
        for first in list(self._firsts.get(stream, ())):
            self._drop(stream, first)

    def _drop(self, stream: str, first: int) -> None:
        _, size = self._chunks.pop((stream, first))
        self.bytes -= size
        firsts = self._firsts[stream]
        firsts.discard(first)
        if not firsts:
            del self._firsts[stream]
