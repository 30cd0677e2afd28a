"""The commands of quorum queues, and their encoding in the command log.

The state of a queue results from the sequence of its commands. Each command names messages by sequence number, so
applying it again changes nothing. No command depends on the time: the broker decides which messages have expired, and
writes that they are settled or discarded.

All payloads begin with a type (u8), the priority level (u8) and the queue's number (u64); little-endian.

``ENQUEUE`` and ``CARRIED``: origin, flags (1 durable, 2 redelivered), priority (u8 each), time-to-live in ms (i64, -1:
none), the counts of spans and messages and the bytes of the facts (u32 each); then of the spans the first sequence
numbers (u64 each), the counts (u32 each) and the expiries (f64 each, wall-clock seconds, infinity: never); the bodies'
sizes (u32 each); the facts (CBOR); the bodies. A span is consecutive messages with one expiry. ``ENQUEUE`` has one span
of new messages. ``CARRIED`` repeats live messages from a file that is to be removed, with their histories and discards.

The commands of streams are ``CHUNK``, followed by the chunk as :mod:`core.store.stream_chunk` encodes it;
``STREAM_CUT``, followed by the offset (u64) before which all messages go; and ``STREAM_END``: the stream was deleted.

Every other type is followed by CBOR.

Annotations are opaque bytes here: only the protocol of the message can decode them.
"""

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum, unique
from itertools import accumulate
from math import inf
from struct import Struct
from typing import NamedTuple, TypeAlias, TypeVar

import cbor2

from core.message import Attributes, Origin, Route
from core.taken_numbers import Packed

_LEAD = Struct("<BBQ")
_HEAD = Struct("<BBQBBBqIII")
_ONE_SPAN = Struct("<BBQBBBqIIIQId")
"""The head, and one span's first sequence number, count and expiry, as in nearly every command."""
_OFFSET = Struct("<Q")
_BIG_ENDIAN = sys.byteorder == "big"
TableT = TypeVar("TableT", int, float)
_ORIGINS = (Origin.AMQP10, Origin.AMQP091)
"""The index is the number on disk."""
_DURABLE, _REDELIVERED = 1, 2


@unique
class CommandType(IntEnum):
    """Types of commands. The numbers are on disk: none may be changed or used again."""

    ENQUEUE = 1
    CARRIED = 2
    SETTLE = 3
    RETURN = 4
    DISCARD = 5
    DELETE = 6
    COUNTERS = 7
    # 8 to 11 are records of whole batches and of copies: core/engine/quorum/batches.py
    CHUNK = 12
    STREAM_CUT = 13
    STREAM_END = 14


class QueueKey(NamedTuple):
    """One priority level of a quorum queue. A queue's number is never used twice."""

    queue: int
    level: int = 0


class History(NamedTuple):
    """The history of a message that a consumer returned."""

    delivery_count: int
    """Failed deliveries."""
    annotations: bytes = b""
    """Encoded annotations that consumers have added; empty for none."""


class TakenIds(NamedTuple):
    """Publishing ids that were taken on. The log has the bound too: what is remembered follows from the log alone."""

    ranges_max: int
    names: Packed


@dataclass(slots=True)
class Messages:
    """New messages, or messages carried to another place in the log. They have the same attributes and route."""

    attributes: Attributes
    route: Route | None
    firsts: "array[int]"
    """First sequence number of each span; spans are ascending."""
    counts: "array[int]"
    expiries: "array[float]"
    sizes: "array[int]"
    """Bytes of each body, over all spans."""
    bodies_at: int = 0
    """The offset of the bodies in the payload."""
    carried: bool = False
    histories: dict[int, History] = field(default_factory=dict)
    """Histories by sequence number; only for carried messages."""
    discards: dict[int, str] = field(default_factory=dict)
    """Reasons of discarded messages by sequence number; only for carried messages."""
    taken: "TakenIds | None" = None
    """Their publishing ids; only for new messages."""
    times: "array[int] | None" = None
    """When the messages of each span came, in milliseconds since the epoch; only for carried messages of a queue that
    notes it. New messages have the time in their route."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Messages are settled: accepted, dropped, purged, expired, or dead-lettered and confirmed by the target."""

    ranges: Sequence[range]


@dataclass(frozen=True, slots=True)
class ReturnedRecord:
    """Messages were returned with this history, which replaces their earlier one."""

    ranges: Sequence[range]
    history: History


@dataclass(frozen=True, slots=True)
class Discard:
    """Messages are being dead-lettered. They are kept until they are settled, but never become ready again."""

    ranges: Sequence[range]
    reason: str


@dataclass(frozen=True, slots=True)
class Delete:
    """The queue was deleted with all its messages."""


@dataclass(frozen=True, slots=True)
class CountersRecord:
    """Counters that outlive the messages. They are written again before the file with their latest value is removed."""

    next_sequence: int
    """All sequence numbers below this may have been used."""
    taken: TakenIds | None = None
    """All publishing ids that are remembered."""


Command: TypeAlias = Messages | Settle | ReturnedRecord | Discard | Delete | CountersRecord


def enqueue_head(
    key: QueueKey, first: int, sizes: "array[int]", attributes: Attributes, expires_at: float | None, facts: bytes
) -> bytes:
    """Encode the payload of an ``ENQUEUE`` up to the bodies."""
    ttl = attributes.ttl_ms
    count = len(sizes)
    head = _ONE_SPAN.pack(
        CommandType.ENQUEUE, key[1], key[0],
        attributes.origin is not Origin.AMQP10, _flags(attributes), attributes.priority, -1 if ttl is None else ttl,
        1, count, len(facts),
        first, count, inf if expires_at is None else expires_at,
    )  # fmt: skip
    return head + stored(sizes) + facts


def carried_head(key: QueueKey, messages: Messages) -> bytes:
    """Encode the payload of a ``CARRIED`` up to the bodies."""
    facts = encode_facts(messages.route, messages.histories, messages.discards, times=messages.times)
    head = _HEAD.pack(
        CommandType.CARRIED, key.level, key.queue, *packed_attributes(messages.attributes),
        len(messages.firsts), len(messages.sizes), len(facts),
    )  # fmt: skip
    spans = stored(messages.firsts) + stored(messages.counts) + stored(messages.expiries)
    return head + spans + stored(messages.sizes) + facts


def encode_facts(
    route: Route | None,
    histories: dict[int, History] | None = None,
    discards: dict[int, str] | None = None,
    taken: TakenIds | None = None,
    times: "array[int] | None" = None,
) -> bytes:
    """Encode what only some messages have: route, histories, discards, publishing ids, and the times of spans. Empty
    without any of them."""
    if route is None and not histories and not discards and taken is None:
        return b""
    known = [[sequence, *history] for sequence, history in (histories or {}).items()]
    more: tuple[object, ...] = () if taken is None else (list(taken),)
    if times is not None:
        more = (None if taken is None else list(taken), stored(times))
    return cbor2.dumps([packed_route(route), known, list((discards or {}).items()), *more])


def encode(key: QueueKey, command: Settle | ReturnedRecord | Discard | Delete | CountersRecord) -> bytes:
    """Encode the payload of a command without bodies."""
    match command:
        case Settle(ranges):
            kind, said = CommandType.SETTLE, cbor2.dumps(_bounds(ranges))
        case ReturnedRecord(ranges, history):
            kind, said = CommandType.RETURN, cbor2.dumps([_bounds(ranges), *history])
        case Discard(ranges, reason):
            kind, said = CommandType.DISCARD, cbor2.dumps([_bounds(ranges), reason])
        case Delete():
            kind, said = CommandType.DELETE, b""
        case CountersRecord(next_sequence, taken):
            said = cbor2.dumps(next_sequence if taken is None else [next_sequence, *taken])
            kind = CommandType.COUNTERS
    return _LEAD.pack(kind, key.level, key.queue) + said


_OF_STREAMS = frozenset({CommandType.CHUNK, CommandType.STREAM_CUT, CommandType.STREAM_END})
CHUNK_AT = _LEAD.size
"""The offset of the chunk in a command that has one."""


def stream_command(kind: CommandType, stream: int, rest: Sequence[bytes] = ()) -> list[bytes]:
    """Encode the payload of a command of a stream."""
    return [_LEAD.pack(kind, 0, stream), *rest]


def cut_command(stream: int, offset: int) -> list[bytes]:
    """Encode the payload of a command that removes the messages of a stream before this offset."""
    return stream_command(CommandType.STREAM_CUT, stream, (_OFFSET.pack(offset),))


def cut_offset(payload: bytes) -> int:
    """Return before which offset a ``STREAM_CUT`` removes messages."""
    (offset,) = _OFFSET.unpack_from(payload, _LEAD.size)
    assert isinstance(offset, int)
    return offset


def is_of_stream(payload: bytes) -> bool:
    """Return whether a command is one of a stream."""
    return payload[0] in _OF_STREAMS


def rekeyed(payload: bytes, queue: int) -> bytes:
    """Return the payload as a command of another queue."""
    kind, level, _ = _LEAD.unpack_from(payload)
    return _LEAD.pack(kind, level, queue) + payload[_LEAD.size :]


def key_of(payload: bytes) -> QueueKey:
    """Return which queue and level a command is about."""
    _, level, queue = _LEAD.unpack_from(payload)
    return QueueKey(queue, level)


def decode(payload: bytes) -> tuple[QueueKey, Command]:
    """Decode a payload. Its checksum was verified, so a payload that cannot be decoded is a bug of the writer."""
    kind, level, queue = _LEAD.unpack_from(payload)
    return QueueKey(queue, level), _decoded(CommandType(kind), payload)


def _decoded(kind: CommandType, payload: bytes) -> Command:
    if kind is CommandType.ENQUEUE or kind is CommandType.CARRIED:
        return _decode_messages(payload)
    if kind is CommandType.DELETE:
        return Delete()
    said = cbor2.loads(payload[_LEAD.size :])
    if kind is CommandType.COUNTERS:
        return CountersRecord(said) if isinstance(said, int) else CountersRecord(said[0], TakenIds(*said[1:]))
    if kind is CommandType.SETTLE:
        return Settle(_ranges(said))
    if kind is CommandType.RETURN:
        bounds, delivery_count, annotations = said
        return ReturnedRecord(_ranges(bounds), History(delivery_count, annotations))
    bounds, reason = said
    return Discard(_ranges(bounds), reason)


def _decode_messages(payload: bytes) -> Messages:
    kind, _, _, *attributes, spans, count, facts_bytes = _HEAD.unpack_from(payload)
    layout = (8 * spans, 4 * spans, 8 * spans, 4 * count, facts_bytes)
    _, counts_at, expiries_at, sizes_at, facts_at, bodies_at = accumulate(layout, initial=_HEAD.size)
    route, histories, discards, taken, times = _decode_facts(payload[facts_at:bodies_at])
    return Messages(
        unpacked_attributes(attributes),
        route,
        loaded(array("Q", payload[_HEAD.size : counts_at])),
        loaded(array("I", payload[counts_at:expiries_at])),
        loaded(array("d", payload[expiries_at:sizes_at])),
        loaded(array("I", payload[sizes_at:facts_at])),
        bodies_at,
        kind == CommandType.CARRIED,
        histories,
        discards,
        taken,
        times,
    )


def _decode_facts(
    facts: bytes,
) -> "tuple[Route | None, dict[int, History], dict[int, str], TakenIds | None, array[int] | None]":
    if not facts:
        return None, {}, {}, None, None
    path, histories, discards, *more = cbor2.loads(facts)
    known = {sequence: History(*history) for sequence, *history in histories}
    taken = TakenIds(*more[0]) if more and more[0] is not None else None
    times = loaded(array("q", more[1])) if len(more) > 1 else None
    return unpacked_route(path), known, dict(discards), taken, times


def as_ranges(positions: Sequence[int]) -> list[range]:
    """Return ascending positions as ranges of step 1 or more: few ranges if the positions are regular."""
    if isinstance(positions, range):
        return [positions]
    ranges: list[range] = []
    first = last = positions[0]
    step = 0
    for position in positions[1:]:
        gap = position - last
        if gap != step and step:
            ranges.append(range(first, last + 1, step))
            first, step = position, 0
        else:
            step = gap
        last = position
    ranges.append(range(first, last + 1, step or 1))
    return ranges


def _bounds(ranges: Sequence[range]) -> list[int]:
    """Return first, last and step of each range, in one flat list."""
    return [bound for each in ranges for bound in (each[0], each[-1], each.step)]


def _ranges(bounds: list[int]) -> list[range]:
    triples = iter(bounds)
    return [range(first, last + 1, step) for first, last, step in zip(triples, triples, triples, strict=True)]


def packed_attributes(attributes: Attributes) -> list[int]:
    """Return origin, flags, priority and time-to-live as numbers."""
    ttl = attributes.ttl_ms
    return [_ORIGINS.index(attributes.origin), _flags(attributes), attributes.priority, -1 if ttl is None else ttl]


def unpacked_attributes(values: Sequence[int]) -> Attributes:
    """Return the attributes of these numbers."""
    origin, flags, priority, ttl = values
    durable, redelivered = bool(flags & _DURABLE), bool(flags & _REDELIVERED)
    return Attributes(_ORIGINS[origin], durable, priority, None if ttl < 0 else ttl, redelivered)


def _flags(attributes: Attributes) -> int:
    return _DURABLE * attributes.durable + _REDELIVERED * attributes.redelivered


def packed_route(route: Route | None) -> list[str | int] | None:
    """Return exchange and routing keys in one list, and at its end the time at which the messages came, if it is
    noted."""
    if route is None:
        return None
    time = () if route.enqueued_ms is None else (route.enqueued_ms,)
    return [route.exchange, *route.routing_keys, *time]


def unpacked_route(values: Sequence[str | int] | None) -> Route | None:
    """Return the route of these values."""
    if values is None:
        return None
    exchange, *keys = (value for value in values if isinstance(value, str))
    return Route(exchange, tuple(keys), values[-1] if isinstance(values[-1], int) else None)


def stored(table: "array[TableT]") -> bytes:
    """Return a table's bytes, little-endian."""
    if _BIG_ENDIAN:
        table = table[:]
        table.byteswap()
    return table.tobytes()


def loaded(table: "array[TableT]") -> "array[TableT]":
    """Return a table that was made of such bytes, in this machine's byte order."""
    if _BIG_ENDIAN:
        table.byteswap()
    return table
