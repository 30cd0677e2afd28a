"""Records: their bytes, and what a scan reads of sound and of damaged files."""

import struct
from collections.abc import Callable
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.store.record import (
    HEADER_BYTES,
    JOIN_BELOW,
    READ_BYTES,
    Damaged,
    RecordHeader,
    RecordKind,
    SoundRecord,
    encode,
    parse_header,
    record_bytes,
    scan,
)

PAYLOADS = st.lists(st.binary(max_size=40), max_size=4)


def record(payload: bytes = b"", *, kind: int = RecordKind.PUBLISH, generation: int = 1, batch: int = 1) -> bytes:
    return b"".join(encode(kind, [payload], generation, batch))


def reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, length: data[offset : offset + length]


def scanned(data: bytes, start: int = 0) -> list[SoundRecord | Damaged]:
    return list(scan(reader(data), len(data), start))


def flipped(data: bytes, bit: int) -> bytes:
    copy = bytearray(data)
    copy[bit // 8] ^= 1 << bit % 8
    return bytes(copy)


# --- the bytes of a record


def test_the_layout_is_the_documented_one():
    data = b"".join(encode(RecordKind.SETTLE, [b"abc", b"de"], 7, 2**40 + 1))
    facts = data[:24]
    magic, kind, flags, reserved, generation, length, batch = struct.unpack("<IBBHIIQ", facts)
    assert (magic, kind, flags, reserved) == (0xD1A6C05E, 3, 0, 0)
    assert (generation, length, batch) == (7, 5, 2**40 + 1)
    assert struct.unpack("<II", data[24:32]) == (crc32(facts), crc32(facts + b"abcde"))
    assert data[32:] == b"abcde\0\0\0"


def test_the_numbers_of_kinds_are_for_ever():
    assert {kind.name: kind.value for kind in RecordKind} == {
        "PUBLISH": 1,
        "PUBLISH_STORED": 2,
        "SETTLE": 3,
        "BODY": 4,
        "SYNCED": 5,
        "COMMAND": 6,
        "SNAPSHOT": 7,
        "STREAM_CHUNK": 8,
        "CARRIED": 9,
        "MARK": 10,
        "DESCRIPTION": 11,
    }


@pytest.mark.parametrize(("payload_bytes", "expected"), [(0, 32), (1, 40), (7, 40), (8, 40), (9, 48)])
def test_a_record_takes_a_multiple_of_eight_bytes(payload_bytes: int, expected: int):
    assert record_bytes(payload_bytes) == expected
    assert len(record(bytes(payload_bytes))) == expected


@given(chunks=PAYLOADS, generation=st.integers(0, 2**32 - 1), batch=st.integers(0, 2**64 - 1))
def test_what_is_encoded_is_found(chunks: list[bytes], generation: int, batch: int):
    data = b"".join(encode(RecordKind.COMMAND, chunks, generation, batch))
    payload = b"".join(chunks)
    assert scanned(data) == [SoundRecord(RecordKind.COMMAND, generation, batch, 0, payload, record_bytes(len(payload)))]
    assert parse_header(data) == RecordHeader(RecordKind.COMMAND, generation, batch, len(payload))


@pytest.mark.parametrize("size", [JOIN_BELOW - 1, JOIN_BELOW, JOIN_BELOW + 1])
@pytest.mark.parametrize("count", [1, 2])
def test_large_payloads_are_not_copied_and_make_the_same_record(size: int, count: int):
    chunks = [b"x" * (size - (count - 1)), *[b"y"] * (count - 1)]
    encoded = encode(RecordKind.BODY, chunks, 1, 1)
    assert (len(encoded) == 1) == (size < JOIN_BELOW)
    assert size < JOIN_BELOW or encoded[1] is chunks[0]
    data = b"".join(encoded)
    assert len(data) == record_bytes(size)
    assert scanned(data) == [SoundRecord(RecordKind.BODY, 1, 1, 0, b"".join(chunks), len(data))]


def test_a_header_is_parsed_where_it_is_and_nowhere_else():
    data = record(b"a") + record(b"bc", generation=2)
    assert parse_header(data, 40) == RecordHeader(RecordKind.PUBLISH, 2, 1, 2)
    assert parse_header(data, 8) is None
    assert parse_header(data, len(data) - 31) is None


# --- scans of sound files


def test_an_empty_file_has_nothing():
    assert scanned(b"") == []


def test_records_adjoin_and_a_scan_may_begin_at_any_of_them():
    parts = [record(bytes([i]) * i, batch=i) for i in range(20)]
    found = scanned(b"".join(parts))
    assert [item.batch for item in found if isinstance(item, SoundRecord)] == list(range(20))
    assert [item.offset for item in found[1:]] == [item.end for item in found[:-1]]
    assert scanned(b"".join(parts), found[7].offset) == found[7:]


def test_a_scan_reads_in_pieces_and_yields_across_them():
    parts = [record(b"p" * 1000, batch=i) for i in range(READ_BYTES // 500)]
    data = b"".join(parts)
    lengths = []

    def read(offset: int, length: int) -> bytes:
        lengths.append(length)
        return data[offset : offset + length]

    found = list(scan(read, len(data)))
    assert [item.batch for item in found if isinstance(item, SoundRecord)] == list(range(len(parts)))
    assert max(lengths) == READ_BYTES


def test_a_record_longer_than_a_read_is_found():
    data = record() + record(b"l" * (READ_BYTES + 5), batch=2) + record(batch=3)
    found = scanned(data)
    assert [item.batch for item in found if isinstance(item, SoundRecord)] == [1, 2, 3]
    assert isinstance(found[1], SoundRecord)
    assert found[1].payload == b"l" * (READ_BYTES + 5)


# --- damage


def test_every_flipped_bit_is_seen_and_costs_its_record_only():
    parts = [record(b"first"), record(b"the second", batch=2), record(b"", batch=3)]
    data = b"".join(parts)
    whole = scanned(data)
    for bit in range(len(data) * 8):
        hit = next(index for index, item in enumerate(whole) if bit // 8 < item.end)
        found = scanned(flipped(data, bit))
        assert found[:hit] + found[hit + 1 :] == whole[:hit] + whole[hit + 1 :]
        damaged = found[hit]
        assert isinstance(damaged, Damaged)
        assert (damaged.offset, damaged.end) == (whole[hit].offset, whole[hit].end)


def test_a_damaged_payload_is_named():
    data = record(b"payload", generation=4, batch=9, kind=RecordKind.SETTLE) + record()
    header = RecordHeader(RecordKind.SETTLE, 4, 9, 7)
    damaged, sound = scanned(flipped(data, 8 * HEADER_BYTES))
    assert damaged == Damaged(0, 40, header, "its payload does not fit its checksum")
    assert isinstance(sound, SoundRecord)
    assert scanned(flipped(data, 8 * 39))[0] == Damaged(0, 40, header, "its padding is not zero")


def test_an_unknown_kind_is_no_record():
    assert scanned(record(kind=200)) == [Damaged(0, 32, RecordHeader(200, 1, 1, 0), "unknown kind 200")]


def test_a_payload_belongs_to_its_own_header():
    mixed = record(b"12345678", batch=1)[:28] + record(b"12345678", batch=2)[28:]
    damaged = scanned(mixed)[0]
    assert isinstance(damaged, Damaged)
    assert damaged.header == RecordHeader(RecordKind.PUBLISH, 1, 1, 8)


@pytest.mark.parametrize("kept", [0, 1, 8, 31])
def test_a_file_that_ends_within_a_header(kept: int):
    data = record(b"a") + record(b"b")[:kept]
    assert scanned(data)[1:] == ([Damaged(40, 40 + kept, None, "no sound header")] if kept else [])


@pytest.mark.parametrize("kept", [32, 33, 39])
def test_a_file_that_ends_within_a_payload(kept: int):
    data = record(b"a") + record(b"b", batch=5)[:kept]
    why = f"cut off: a record of 40 bytes, {kept} of them there"
    assert scanned(data)[1:] == [Damaged(40, 40 + kept, RecordHeader(RecordKind.PUBLISH, 1, 5, 1), why)]


def test_a_claimed_length_allocates_nothing():
    facts = struct.pack("<IBBHIIQ", 0xD1A6C05E, RecordKind.BODY, 0, 0, 1, 2**32 - 1, 1)
    data = facts + struct.pack("<II", crc32(facts), 0) + record()
    lengths = []

    def read(offset: int, length: int) -> bytes:
        lengths.append(length)
        return data[offset : offset + length]

    (damaged,) = scan(read, len(data))
    assert isinstance(damaged, Damaged)
    assert (damaged.end, damaged.header) == (len(data), RecordHeader(RecordKind.BODY, 1, 1, 2**32 - 1))
    assert max(lengths) <= len(data)


def test_zeros_are_one_piece_of_damage():
    data = record() + bytes(4096) + record(batch=2)
    assert [type(item) for item in scanned(data)] == [SoundRecord, Damaged, SoundRecord]
    assert scanned(data)[1] == Damaged(32, 32 + 4096, None, "no sound header")
    assert scanned(bytes(64)) == [Damaged(0, 64, None, "no sound header")]


@pytest.mark.parametrize("before", range(-40, 41, 8))
def test_a_record_behind_damage_is_found_wherever_reads_begin(before: int):
    gap = READ_BYTES + 8 + before
    data = bytes(gap) + record(b"found") + bytes(64)
    assert [(item.offset, type(item)) for item in scanned(data)] == [
        (0, Damaged),
        (gap, SoundRecord),
        (gap + 40, Damaged),
    ]


def test_behind_damage_only_what_is_wholly_sound_and_in_place_counts():
    decoys = [
        b"\0\0\0\0" + record(b"not on a multiple of eight") + b"\0\0\0\0",
        struct.pack("<I", 0xD1A6C05E) + bytes(60),
        flipped(record(b"damaged", batch=3), 8 * HEADER_BYTES),
        record(b"x" * 64)[:32],
    ]
    data = bytes(40) + b"".join(decoys)
    assert scanned(data) == [Damaged(0, len(data), None, "no sound header")]


def test_damage_in_a_long_record_is_named_and_skipped():
    long = record(b"l" * (READ_BYTES + 5), batch=2)
    data = record() + flipped(long, 8 * READ_BYTES) + record(batch=3)
    first, damaged, last = scanned(data)
    assert isinstance(damaged, Damaged)
    assert damaged.header == RecordHeader(RecordKind.PUBLISH, 1, 2, READ_BYTES + 5)
    assert (first.end, damaged.end) == (damaged.offset, last.offset)


def test_a_file_that_shrinks_while_it_is_read_ends_the_scan():
    data = record(b"l" * (READ_BYTES + 5))
    assert list(scan(reader(data[:READ_BYTES]), len(data))) == [
        Damaged(0, len(data), RecordHeader(RecordKind.PUBLISH, 1, 1, READ_BYTES + 5), "cut off while it was read")
    ]
    assert list(scan(reader(b""), 64)) == [Damaged(0, 64, None, "no sound header")]


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=12),
    damage=st.lists(st.tuples(st.integers(0, 1200), st.binary(min_size=1, max_size=60)), max_size=4),
    kept=st.integers(0, 1200),
)
def test_random_damage_costs_what_it_touches_and_invents_nothing(
    sizes: list[int], damage: list[tuple[int, bytes]], kept: int
):
    data = bytearray(b"".join(record(bytes(size), batch=i) for i, size in enumerate(sizes)))
    whole = scanned(bytes(data))
    original = bytes(data)
    for offset, garbage in damage:
        data[offset : offset + len(garbage)] = garbage[: max(0, len(data) - offset)]
    damaged = bytes(data[:kept])
    items = scanned(damaged)
    assert [item.offset for item in items] == [0, *[item.end for item in items]][: len(items)]
    assert not items or items[-1].end == len(damaged)
    untouched = [item for item in whole if damaged[item.offset : item.end] == original[item.offset : item.end]]
    assert [item for item in items if isinstance(item, SoundRecord)] == untouched
