"""Cutting AMQP 1.0 bytes into frames: the cuts do not depend on how bytes come, and no byte of a message or SASL is
kept."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.frontend.frame_cutter import KEPT_BYTES_MAX, Amqp10FrameCutter
from amqp10.protocol.sasl import SaslInit, encode_sasl_frame
from amqp10.wire.framing import PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL, encode_frame
from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import Attach, Begin, Flow, Open, Performative, Transfer, encode_performative

SECRET = b"SECRET"
HEADER_BYTES = 8


def frame(performative: Performative, payload: bytes = b"") -> bytes:
    return encode_frame(3, encode_performative(performative), payload)


def transfer(payload: bytes) -> bytes:
    return frame(Transfer(handle=0, delivery_id=1, delivery_tag=b"tag"), payload)


def cuts(*pieces: bytes) -> list[tuple[int, bytes]]:
    cutter = Amqp10FrameCutter()
    return [tuple(cut) for piece in pieces for cut in cutter.cut(piece)]


FRAMES = [
    PROTOCOL_HEADER_SASL,
    encode_sasl_frame(SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0" + SECRET)),
    PROTOCOL_HEADER_AMQP,
    frame(Open(container_id="c")),
    frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)),
    frame(Attach(name="link", handle=0, role=False, source=Source(), target=Target(address="/queues/q"))),
    frame(Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1)),
    transfer(SECRET),
    transfer(SECRET * 1000),
    encode_frame(0, b""),
    transfer(b""),
]


def expected(one: bytes) -> tuple[int, bytes]:
    if one.startswith(b"AMQP"):
        return len(one), one
    if one[5] == 1:
        return len(one), one[:HEADER_BYTES]
    return len(one), one.split(SECRET)[0]


@pytest.mark.parametrize("one", FRAMES, ids=range(len(FRAMES)))
def test_a_frame_without_what_must_not_be_kept(one: bytes):
    assert cuts(one) == [expected(one)]


@given(st.lists(st.sampled_from(FRAMES), max_size=8), st.lists(st.integers(0, 8000), max_size=12))
def test_the_frames_do_not_depend_on_how_the_bytes_come(frames: list[bytes], places: list[int]):
    data = b"".join(frames)
    edges = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    pieces = [data[start:stop] for start, stop in pairwise(edges)]
    assert cuts(*pieces) == [expected(one) for one in frames]


@given(st.lists(st.sampled_from(FRAMES), max_size=4))
def test_byte_by_byte(frames: list[bytes]):
    assert cuts(*(bytes([byte]) for byte in b"".join(frames))) == [expected(one) for one in frames]


def test_a_long_performative_is_kept_in_part():
    long = frame(Open(container_id="c" * 3000))
    assert cuts(long, transfer(SECRET)) == [(len(long), long[:KEPT_BYTES_MAX]), expected(transfer(SECRET))]


@pytest.mark.parametrize("descriptor", [b"\x00\x80" + bytes(7) + b"\x14", b"\x00\x53\x14"])
@pytest.mark.parametrize("fields", [b"\x45", b"\xc0\x02\x01\x43", b"\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x43"])
def test_every_way_to_write_a_transfer(descriptor: bytes, fields: bytes):
    body = descriptor + fields
    data = encode_frame(0, body, SECRET)
    assert cuts(data) == [(len(data), data[: HEADER_BYTES + len(body)])]


@pytest.mark.parametrize(
    "body", [SECRET, b"\x00\xa3\x12amqp:transfer:list\x45" + SECRET, b"\x00", b"\x00\x53\x14" + SECRET]
)
def test_of_an_unknown_performative_only_the_header_is_kept(body: bytes):
    data = encode_frame(0, body)
    assert cuts(data) == [(len(data), data[:HEADER_BYTES])]


def test_a_body_offset_is_kept_to():
    body = encode_performative(Transfer(handle=0))
    data = struct.pack(">IBBHI", 12 + len(body) + len(SECRET), 3, 0, 0, 0) + body + SECRET
    assert cuts(data) == [(len(data), data[: 12 + len(body)])]


@pytest.mark.parametrize("size", range(8))
def test_after_what_cannot_be_a_frame_there_are_none(size: int):
    wrong = size.to_bytes(4, "big") + b"\x02\x00\x00\x00"
    assert cuts(transfer(b""), wrong, transfer(SECRET), transfer(SECRET)) == [expected(transfer(b""))]


@given(st.binary(max_size=200), st.integers(1, 50))
def test_of_any_bytes_no_more_is_kept_than_of_a_frame(data: bytes, step: int):
    told = cuts(*(data[start : start + step] for start in range(0, len(data), step)))
    assert all(len(kept) <= max(HEADER_BYTES, size) for size, kept in told)
