"""A record of the store: a header with its own checksum, the payload, and zeros up to a multiple of 8 bytes.

=======  ======  ===========================================================
offset   type    what
=======  ======  ===========================================================
0        u32     magic
4        u8      kind, see :class:`RecordKind`
5        u8      flags, 0
6        u16     reserved, 0
8        u32     generation: the count of starts of this store
12       u32     bytes of the payload
16       u64     the lane's write batch, counted from 1 in each generation
24       u32     CRC-32 of bytes 0 to 23
28       u32     CRC-32 of bytes 0 to 23 and the payload
=======  ======  ===========================================================

All little-endian. The header's own checksum makes its length reliable, so that a record with a damaged payload can be
named and skipped. The second checksum continues from the value of the first. It does not cover the first checksum's
bytes: otherwise it would be the same for every header (a CRC over data and its own CRC is constant) and would not bind
the payload to its header.

Records of a file adjoin, from offset 0. Before a writer appends to an existing file, it truncates the file after the
last sound record.

This module does not know files: it produces bytes, and reads through a function.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum, unique
from struct import Struct
from typing import NamedTuple
from zlib import crc32

HEADER_BYTES = 32
PAYLOAD_BYTES_MAX = 2**32 - 1
READ_BYTES = 1 << 20
"""Bytes of one read in a scan: large enough that the system call is cheap beside the parsing, small enough not to
matter in memory."""

JOIN_BELOW = 65_536
"""Payloads below this size are copied after their header, into one chunk. Above it, a copy costs more than it saves."""

_MAGIC = 0xD1A6C05E
_MAGIC_PATTERN = re.compile(re.escape(_MAGIC.to_bytes(4, "little")))
"""In zeros, of which a file has many, a pattern is looked for nine times as fast as with bytes.find."""
_FACTS = Struct("<IBBHIIQ")
"""The part of the header that the first checksum covers."""
_CHECKSUMS = Struct("<II")
_HEADER = Struct("<IBBHIIQII")
_COVERED = _FACTS.size
_PADDING = tuple(bytes(-length % 8) for length in range(8))
"""Zeros that follow a payload, by its length modulo 8."""


@unique
class RecordKind(IntEnum):
    """Kinds of records. The numbers are on disk: none may be changed or used again."""

    PUBLISH = 1
    """Queue index: consecutive messages with their bodies."""
    PUBLISH_STORED = 2
    """Queue index: consecutive messages whose bodies are in the message store."""
    SETTLE = 3
    """Queue index: settled messages."""
    BODY = 4
    """Message store: a body with its id."""
    SYNCED = 5
    """Marks of a lane in format 1: the write batch up to which everything is synced."""
    COMMAND = 6
    """Command log: commands of quorum queues in their order."""
    SNAPSHOT = 7
    """Command log, file snapshot: the first record has the place of the first command after the snapshot and the number
    of further records, and these have the state of all quorum queues."""
    STREAM_CHUNK = 8
    """Stream log: consecutive messages of a stream."""
    CARRIED = 9
    """Not written: a compaction of the command log repeats messages as commands, in records of the kind COMMAND. The
    number stays taken."""
    MARK = 10
    """Marks of a lane: how far it was synced, and which files must exist."""
    DESCRIPTION = 11
    """A queue's folder: the declaration of the queue."""


_KINDS: tuple[RecordKind | None, ...] = tuple(
    RecordKind(number) if number in set(RecordKind) else None for number in range(256)
)


class RecordHeader(NamedTuple):
    """The contents of a sound header."""

    kind: int
    generation: int
    batch: int
    payload_bytes: int


class SoundRecord(NamedTuple):
    """An undamaged record."""

    kind: RecordKind
    generation: int
    batch: int
    offset: int
    """The offset of its header; the payload begins :data:`HEADER_BYTES` later."""
    payload: bytes
    end: int
    """The offset of the next record."""


class Damaged(NamedTuple):
    """Bytes that are not a sound record, up to ``end`` (exclusive)."""

    offset: int
    end: int
    header: RecordHeader | None
    """The header of the record; None if the header is damaged too, and then it may have been several records."""
    why: str


def record_bytes(payload_bytes: int) -> int:
    """Return the bytes of a record in a file."""
    return HEADER_BYTES + payload_bytes + (-payload_bytes & 7)


def encode(kind: int, payload: Sequence[bytes], generation: int, batch: int) -> list[bytes]:
    """Encode a record as chunks to be written one after the other."""
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


def parse_header(data: bytes, at: int = 0) -> RecordHeader | None:
    """Parse the header at ``at``; None if it is damaged or incomplete."""
    if len(data) < at + HEADER_BYTES:
        return None
    magic, kind, _, _, generation, length, batch, first_check, _ = _HEADER.unpack_from(data, at)
    if magic != _MAGIC or crc32(data[at : at + _COVERED]) != first_check:
        return None
    return RecordHeader(kind, generation, batch, length)


def scan(read: Callable[[int, int], bytes], size: int, start: int = 0) -> Iterator[SoundRecord | Damaged]:
    """Iterate over everything from ``start``, where a record begins, to ``size``. The results adjoin and leave no gap.

    ``read(offset, length)`` returns bytes of the file, fewer at its end. Memory: one read and its records, or one
    record if that is larger. Raises what ``read`` raises.
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


def _sound_records(data: bytes, base: int) -> list[SoundRecord]:
    """Return the records at the beginning of ``data``, which is at offset ``base``, up to the first damaged or
    incomplete one."""
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
        records.append(SoundRecord(kind, generation, batch, base + at, payload, base + end))
        at = end
    return records


def _judge(read: Callable[[int, int], bytes], size: int, at: int, header: RecordHeader) -> SoundRecord | Damaged:
    """Read the whole record with this sound header, and return it or its damage."""
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
    """Return the offset of the next sound record after ``at``, or ``size``."""
    position = at + 8
    while position < size:
        data = read(position, min(READ_BYTES, size - position))
        for match in _MAGIC_PATTERN.finditer(data):
            found = match.start()
            header = None if found & 7 else parse_header(data, found)
            if header is not None and isinstance(_judge(read, size, position + found, header), SoundRecord):
                return position + found
        if len(data) < READ_BYTES:
            break
        position += READ_BYTES - HEADER_BYTES + 8  # a header cut by this read is complete in the next
    return size
