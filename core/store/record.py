"""One record of the store: a header with a checksum of its own, the payload, zeros up to a multiple of 8 bytes.

=======  ======  ===========================================================
offset   type    what
=======  ======  ===========================================================
0        u32     magic
4        u8      kind, see :class:`Kind`
5        u8      flags, 0
6        u16     reserved, 0
8        u32     generation: the count of starts of this store
12       u32     bytes of the payload
16       u64     the lane's write batch, counted from 1 in each generation
24       u32     CRC-32 of bytes 0 to 23
28       u32     CRC-32 of bytes 0 to 23 and the payload
=======  ======  ===========================================================

All little-endian. The header's own checksum makes its length worth believing, so that a record with a damaged payload
can be named and skipped. The second checksum goes on from the value of the first; over the first's bytes too, it would
be the same for every header (a checksum followed by itself leaves a constant) and bind no payload to its header.

Records of a file adjoin, from offset 0. Whoever goes on writing a file cuts it off behind its last sound record first.

This module knows no file: it makes bytes, and reads through a function.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum, unique
from struct import Struct
from typing import NamedTuple
from zlib import crc32

HEADER_BYTES = 32
PAYLOAD_BYTES_MAX = 2**32 - 1
READ_BYTES = 1 << 20
"""One read of a scan: large enough that a system call costs nothing beside parsing it, small enough to forget."""

JOIN_BELOW = 65_536
"""Payloads below this are copied behind their header: one chunk to write. Above, a copy costs more than it saves."""

_MAGIC = 0xD1A6C05E
_MAGIC_BYTES = _MAGIC.to_bytes(4, "little")
_FACTS = Struct("<IBBHIIQ")
"""What the first checksum covers."""
_CHECKSUMS = Struct("<II")
_HEADER = Struct("<IBBHIIQII")
_COVERED = _FACTS.size
_PADDING = tuple(bytes(-length % 8) for length in range(8))
"""Zeros that follow a payload, by its length modulo 8."""


@unique
class Kind(IntEnum):
    """What a payload is. The numbers are on disk: none is changed or used again."""

    PUBLISH = 1
    """Queue index: consecutive messages with their bodies."""
    PUBLISH_STORED = 2
    """Queue index: consecutive messages whose bodies are in the message store."""
    SETTLE = 3
    """Queue index: messages that are gone for good."""
    BODY = 4
    """Message store: a body with its id."""
    SYNCED = 5
    """Marks of a lane in format 1: the write batch up to which everything is synced."""
    COMMAND = 6
    """Command log: commands of quorum queues in their order."""
    SNAPSHOT = 7
    """Command log: the state of a quorum queue at an index."""
    STREAM_CHUNK = 8
    """Stream log: consecutive messages of a stream."""
    CARRIED = 9
    """What compaction copied behind newer records, from a file that it removes."""
    MARK = 10
    """Marks of a lane: how far it was synced, and which files there must be."""
    DESCRIPTION = 11
    """A queue's folder: what its queue was declared as."""


_KINDS: tuple[Kind | None, ...] = tuple(Kind(number) if number in set(Kind) else None for number in range(256))


class Header(NamedTuple):
    """What a sound header says of a record."""

    kind: int
    generation: int
    batch: int
    payload_bytes: int


class Found(NamedTuple):
    """A sound record."""

    kind: Kind
    generation: int
    batch: int
    offset: int
    """Where its header begins; the payload begins :data:`HEADER_BYTES` later."""
    payload: bytes
    end: int
    """Where the next record begins."""


class Damaged(NamedTuple):
    """Bytes that are no sound record, up to before ``end``."""

    offset: int
    end: int
    header: Header | None
    """The record it was; None where not even the header is sound, and then it may have been several records."""
    why: str


def record_bytes(payload_bytes: int) -> int:
    """How much of a file a record takes."""
    return HEADER_BYTES + payload_bytes + (-payload_bytes & 7)


def encode(kind: int, payload: Sequence[bytes], generation: int, batch: int) -> list[bytes]:
    """The record as chunks to be written one behind the other."""
    if len(payload) == 1:
        length = len(payload[0])
    else:
        length = sum(map(len, payload))
        if length < JOIN_BELOW:
            payload = (b"".join(payload),)
    assert length <= PAYLOAD_BYTES_MAX, f"a payload of {length} bytes does not fit a record"
    facts = _FACTS.pack(_MAGIC, kind, 0, 0, generation, length, batch)
    check = first_check = crc32(facts)
    for chunk in payload:
        check = crc32(chunk, check)
    header = facts + _CHECKSUMS.pack(first_check, check)
    if length < JOIN_BELOW:
        return [b"".join((header, *payload, _PADDING[length & 7]))]
    return [header, *payload, _PADDING[length & 7]]


def parse_header(data: bytes, at: int = 0) -> Header | None:
    """The header at ``at``; None when it is not sound or not there."""
    if len(data) < at + HEADER_BYTES:
        return None
    magic, kind, _, _, generation, length, batch, first_check, _ = _HEADER.unpack_from(data, at)
    if magic != _MAGIC or crc32(data[at : at + _COVERED]) != first_check:
        return None
    return Header(kind, generation, batch, length)


def scan(read: Callable[[int, int], bytes], size: int, start: int = 0) -> Iterator[Found | Damaged]:
    """Everything from ``start``, where a record begins, to ``size``: what is yielded adjoins and leaves nothing out.

    ``read(offset, length)`` gives bytes of the file, fewer where it ends. Memory: a read and its records, or one record
    where that is more. Raises what ``read`` raises.
    """
    assert not start & 7, "records begin at multiples of 8"
    at = start
    while at < size:
        data = read(at, min(READ_BYTES, size - at))
        records = _sound_records(data, at)
        if records:
            yield from records
            at = records[-1].end
            continue
        header = parse_header(data)
        if header is not None:  # damaged, or longer than a read
            judged = _judge(read, size, at, header)
        else:
            judged = Damaged(at, _next_sound(read, size, at), None, "no sound header")
        yield judged
        at = judged.end


def _sound_records(data: bytes, base: int) -> list[Found]:
    """The records at the beginning of ``data``, which lies at ``base``, up to the first that is damaged or cut off."""
    records = []
    at = 0
    last_header = len(data) - HEADER_BYTES
    while at <= last_header:
        magic, kind_number, _, _, generation, length, batch, first_check, check = _HEADER.unpack_from(data, at)
        if magic != _MAGIC or crc32(data[at : at + _COVERED]) != first_check:
            break
        begin = at + HEADER_BYTES
        stop = begin + length
        end = stop + (-length & 7)
        if end > len(data):
            break
        payload = data[begin:stop]
        kind = _KINDS[kind_number]
        if crc32(payload, first_check) != check or data[stop:end] != _PADDING[length & 7] or kind is None:
            break
        records.append(Found(kind, generation, batch, base + at, payload, base + end))
        at = end
    return records


def _judge(read: Callable[[int, int], bytes], size: int, at: int, header: Header) -> Found | Damaged:
    """The record with this sound header, read as a whole."""
    end = at + record_bytes(header.payload_bytes)
    if end > size:
        return Damaged(at, size, header, f"cut off: a record of {end - at} bytes, {size - at} of them there")
    data = read(at, end - at)
    records = _sound_records(data, at)
    if records:
        return records[0]
    stop = HEADER_BYTES + header.payload_bytes
    if len(data) < end - at:
        why = "cut off while it was read"
    elif _KINDS[header.kind] is None:
        why = f"unknown kind {header.kind}"
    elif any(data[stop:]):
        why = "its padding is not zero"
    else:
        why = "its payload does not fit its checksum"
    return Damaged(at, end, header, why)


def _next_sound(read: Callable[[int, int], bytes], size: int, at: int) -> int:
    """Where the next sound record behind ``at`` begins, or ``size``."""
    position = at + 8
    while position < size:
        data = read(position, min(READ_BYTES, size - position))
        found = data.find(_MAGIC_BYTES)
        while found >= 0:
            header = None if found & 7 else parse_header(data, found)
            if header is not None and isinstance(_judge(read, size, position + found, header), Found):
                return position + found
            found = data.find(_MAGIC_BYTES, found + 1)
        if len(data) < READ_BYTES:
            break
        position += READ_BYTES - HEADER_BYTES + 8  # a header that this read cut through is whole in the next
    return size
