"""Frames: found in a buffer at any offset, refused as soon as they are wrong, and no larger than the peer's
frame-max."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.amqp091.content import entry_of
from core.amqp091.errors import Amqp091ConnectionFault, Amqp091EncodeError, ReplyCode
from core.amqp091.framing import (
    FRAME_MIN_SIZE,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    Amqp091Frame,
    FrameType,
    content_frames,
    encode_frame,
    method_frame,
    read_frame,
)
from core.amqp091.methods import BasicAck, ChannelCloseOk, ConnectionClose
from tests.kit.wire_vectors import Vector, vectors

any_frame = st.builds(
    encode_frame,
    st.sampled_from([FrameType.METHOD, FrameType.HEADER, FrameType.BODY]),
    st.integers(0, 65535),
    st.binary(max_size=40),
) | st.just(HEARTBEAT_FRAME)


def frames_of(data: bytes, frame_max: int = FRAME_MIN_SIZE) -> list[Amqp091Frame]:
    """All frames of a buffer, which holds whole frames only."""
    found = []
    offset = 0
    while offset < len(data):
        frame = read_frame(data, offset, frame_max)
        assert frame is not None
        found.append(frame)
        offset = frame.end
    return found


@pytest.mark.parametrize("vector", [v for v in vectors("amqp091/frames.txt") if v.section == "whole"], ids=str)
def test_vector(vector: Vector):
    frame_type, channel, payload = (vector.meaning + " ").split(" ")[:3]
    frame = read_frame(vector.encoded, 0, FRAME_MIN_SIZE)
    assert frame == Amqp091Frame(FrameType[frame_type], int(channel), bytes.fromhex(payload), len(vector.encoded))
    assert encode_frame(frame.frame_type, frame.channel, frame.payload) == vector.encoded


@pytest.mark.parametrize("vector", [v for v in vectors("amqp091/frames.txt") if v.section == "faults"], ids=str)
def test_malformed_vector(vector: Vector):
    with pytest.raises(Amqp091ConnectionFault) as caught:
        read_frame(vector.encoded, 0, FRAME_MIN_SIZE)
    assert caught.value.code is ReplyCode.FRAME_ERROR
    assert vector.meaning in caught.value.text


def test_the_constants_of_the_specification():
    assert b"AMQP" + bytes((0, 0, 9, 1)) == PROTOCOL_HEADER
    assert encode_frame(FrameType.HEARTBEAT, 0, b"") == HEARTBEAT_FRAME


@given(any_frame, st.binary(max_size=9), st.binary(max_size=9))
def test_a_frame_at_an_offset(encoded: bytes, before: bytes, behind: bytes):
    frame = read_frame(before + encoded + behind, len(before), FRAME_MIN_SIZE)
    assert frame is not None
    assert encode_frame(frame.frame_type, frame.channel, frame.payload) == encoded
    assert frame.end == len(before) + len(encoded)


@given(any_frame, st.data())
def test_a_part_of_a_frame_is_none_yet(encoded: bytes, data):
    cut = data.draw(st.integers(0, len(encoded) - 1))
    assert read_frame(encoded[:cut], 0, FRAME_MIN_SIZE) is None


@pytest.mark.parametrize("frame_max", [4096, 8192, 131072])
def test_frame_max_counts_the_whole_frame(frame_max: int):
    largest = encode_frame(FrameType.BODY, 1, bytes(frame_max - 8))
    assert len(largest) == frame_max
    frame = read_frame(largest, 0, frame_max)
    assert frame is not None
    assert frame.end == frame_max
    with pytest.raises(Amqp091ConnectionFault, match=f"above {frame_max - 8}, as frame_max is {frame_max}"):
        read_frame(encode_frame(FrameType.BODY, 1, bytes(frame_max - 7)), 0, frame_max)


def test_a_method_is_one_frame():
    assert method_frame(3, ChannelCloseOk()) == bytes.fromhex("01 0003 00000004 0014 0029 ce")
    assert method_frame(1, BasicAck(delivery_tag=7)) == bytes.fromhex(
        "01 0001 0000000d 003c0050 0000000000000007 00 ce"
    )


def test_a_method_that_has_no_encoding():
    with pytest.raises(Amqp091EncodeError, match=r"connection.close, reply_text: "):
        method_frame(0, ConnectionClose(reply_code=541, reply_text="n" * 256))


def test_an_empty_body_has_no_frame():
    entry = entry_of(b"\x00\x00", b"")
    assert content_frames(1, entry, 4096) == encode_frame(FrameType.HEADER, 1, entry)


@given(st.integers(0, 300), st.integers(9, 60))
def test_a_body_is_split_as_frame_max_wants(body_bytes: int, frame_max: int):
    body = bytes(number % 251 for number in range(body_bytes))
    entry = entry_of(b"\x10\x00\x02", body)
    header, *bodies = frames_of(content_frames(9, entry, frame_max))
    assert header[:3] == (FrameType.HEADER, 9, entry[:15])
    assert {(frame.frame_type, frame.channel) for frame in bodies} <= {(FrameType.BODY, 9)}
    assert b"".join(frame.payload for frame in bodies) == body
    sizes = [len(frame.payload) + 8 for frame in bodies]
    assert sizes[:-1] == [frame_max] * (len(sizes) - 1)
    assert all(8 < size <= frame_max for size in sizes)
