"""Frames are found however the bytes come, at a cost that grows with their size only, and bad headers end the
connection."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.errors import ConnectionFault, ErrorCondition
from amqp10.wire.framing import (
    AMQP_FRAME,
    EMPTY_FRAME,
    MIN_MAX_FRAME_SIZE,
    PROTOCOL_HEADER_AMQP,
    PROTOCOL_HEADER_SASL,
    PROTOCOL_HEADER_TLS,
    SASL_FRAME,
    FrameBounds,
    ProtocolId,
    ReceiveBuffer,
    encode_frame,
    parse_protocol_header,
    piece_of,
)

MAX = 4096

frames = st.lists(
    st.tuples(st.integers(0, 65535), st.binary(max_size=40), st.sampled_from([AMQP_FRAME, SASL_FRAME])), max_size=8
)


def pieces_of(stream: bytes, data: st.DataObject) -> list[bytes]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    return [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def taken(buffer: ReceiveBuffer, max_frame_size: int = MAX) -> list[tuple[int, bytes, int]]:
    found = []
    while (frame := buffer.next_frame(max_frame_size)) is not None:
        found.append((frame.channel, buffer.data[frame.body_start : frame.body_end], frame.frame_type))
    return found


@given(frames, st.data())
def test_any_pieces_give_the_same_frames(expected, data):
    stream = b"".join(encode_frame(channel, body, frame_type=type_) for channel, body, type_ in expected)
    buffer = ReceiveBuffer()
    found = []
    for piece in pieces_of(stream, data):
        buffer.feed(piece)
        found += taken(buffer)
    assert found == expected
    assert len(buffer) == 0


@given(frames, st.data())
def test_frames_may_wait_in_the_buffer(expected, data):
    stream = b"".join(encode_frame(channel, body, frame_type=type_) for channel, body, type_ in expected)
    buffer = ReceiveBuffer()
    for piece in pieces_of(stream, data):
        buffer.feed(piece)
    assert len(buffer) == len(stream)
    assert taken(buffer) == expected


@given(st.binary(max_size=80), st.data())
def test_garbage_raises_nothing_but_framing_errors_however_it_is_cut(stream, data):
    def outcome(pieces: list[bytes]) -> tuple[list[tuple[int, bytes, int]], str]:
        buffer = ReceiveBuffer()
        found: list[tuple[int, bytes, int]] = []
        try:
            for piece in pieces:
                buffer.feed(piece)
                found += taken(buffer)
        except ConnectionFault as fault:
            return found, str(fault)
        return found, f"{len(buffer)} bytes wait"

    whole = outcome([stream])
    assert outcome([stream[i : i + 1] for i in range(len(stream))])[1] == whole[1]
    assert outcome(pieces_of(stream, data))[1] == whole[1]
    if "amqp:" in whole[1]:
        assert whole[1].startswith("amqp:connection:framing-error")


def header(size: int, data_offset: int = 2, frame_type: int = 0, channel: int = 0) -> bytes:
    return size.to_bytes(4) + bytes((data_offset, frame_type)) + channel.to_bytes(2)


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (header(7), "frame size 7 is below 8"),
        (header(0), "frame size 0 is below 8"),
        (header(MAX + 1), f"frame size {MAX + 1} is above the max-frame-size of {MAX}"),
        (header(2**32 - 1), f"frame size {2**32 - 1} is above"),
        (header(8, data_offset=0), "data offset 0 is below 2"),
        (header(8, data_offset=1), "data offset 1 is below 2"),
        (header(8, data_offset=3), "data offset 3 puts the body behind the end of a frame of size 8"),
        (header(1000, data_offset=251), "data offset 251 puts the body behind"),
        (header(8, frame_type=2), "frame type 2 is unknown"),
        (b"HTTP/1.1", "above the max-frame-size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_headers(encoded, text):
    buffer = ReceiveBuffer()
    buffer.feed(encode_frame(3, b"before") + encoded)
    assert buffer.next_frame(MAX) == FrameBounds(3, AMQP_FRAME, 8, 14)
    for _ in range(2):
        with pytest.raises(ConnectionFault, match=text) as caught:
            buffer.next_frame(MAX)
        assert caught.value.condition == ErrorCondition.FRAMING_ERROR


def test_a_frame_as_large_as_allowed():
    buffer = ReceiveBuffer()
    buffer.feed(encode_frame(0, b"x" * (MIN_MAX_FRAME_SIZE - 8)))
    assert buffer.next_frame(MIN_MAX_FRAME_SIZE) == FrameBounds(0, AMQP_FRAME, 8, MIN_MAX_FRAME_SIZE)


def test_extended_headers_are_skipped():
    buffer = ReceiveBuffer()
    buffer.feed(header(20, data_offset=4, channel=7) + b"extended" + b"body" + EMPTY_FRAME)
    assert buffer.next_frame(MAX) == FrameBounds(7, AMQP_FRAME, 16, 20)
    empty = buffer.next_frame(MAX)
    assert empty is not None
    assert empty.body_start == empty.body_end


def test_heartbeat_and_payload():
    assert encode_frame(0, b"") == EMPTY_FRAME
    assert encode_frame(258, b"body", b"payload") == header(19, channel=258) + b"bodypayload"


def test_a_fast_path_may_move_the_position():
    buffer = ReceiveBuffer()
    first, second = encode_frame(1, b"first"), encode_frame(2, b"second")
    buffer.feed(first + second[:5])
    assert buffer.data.startswith(first, buffer.position)
    buffer.position += len(first)
    buffer.feed(second[5:])
    assert taken(buffer) == [(2, b"second", AMQP_FRAME)]


def test_bounds_stay_good_until_the_next_feed():
    buffer = ReceiveBuffer()
    buffer.feed(encode_frame(0, b"one") + encode_frame(0, b"two") + b"\x00")
    one, two = buffer.next_frame(MAX), buffer.next_frame(MAX)
    assert one is not None
    assert two is not None
    assert buffer.next_frame(MAX) is None
    assert buffer.data[one.body_start : one.body_end] + buffer.data[two.body_start : two.body_end] == b"onetwo"


def test_a_frame_that_trickles_in_is_copied_once():
    """The bytes come one at a time. The buffer in use stays the same object until the frame is whole."""
    size = 50_000
    stream = encode_frame(0, b"x" * (size - 8))
    buffer = ReceiveBuffer()
    buffers_seen = set()
    tracemalloc.start()
    try:
        for index in range(size):
            buffer.feed(stream[index : index + 1])
            buffers_seen.add(id(buffer.data))
            frame = buffer.next_frame(size)
            assert (frame is None) == (index < size - 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(buffers_seen) < 20
    assert peak < 5 * size


LARGE = 400_000
large_frames = st.lists(st.sampled_from((0, 100, 20_000, 131_064, 131_072, 250_000, LARGE - 8)), max_size=6)
reads = st.lists(st.sampled_from((1, 1_500, 1_600, 5_000, 70_000, 262_144, 2**20)), min_size=1, max_size=5)


def body_of(size: int, number: int) -> bytes:
    """A body in which no two parts are alike."""
    return b"".join((number * 2**20 + at).to_bytes(4) for at in range(0, size, 4))[:size]


@pytest.mark.parametrize("in_parts", [True, False])
@settings(max_examples=settings.default.max_examples // 4)
@given(sizes=large_frames, read_sizes=reads)
def test_large_frames_come_whole_in_reads_of_any_size(in_parts, sizes, read_sizes):
    bodies = [body_of(size, number) for number, size in enumerate(sizes)]
    stream = b"".join(encode_frame(7, body) for body in bodies)
    buffer = ReceiveBuffer()
    found, at, turn = [], 0, 0
    while at < len(stream):
        size = max(read_sizes[turn % len(read_sizes)], len(stream) // 100)
        buffer.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
        while (frame := buffer.next_frame(LARGE, in_parts=in_parts)) is not None:
            assert in_parts or frame.body_end <= len(buffer.data)
            found.append(b"".join((buffer.data[frame.body_start : frame.body_end], *buffer.take_parts())))
        assert buffer.rest() == stream[len(stream) - len(buffer) - len(stream[at:]) : at]
    assert found == bodies
    assert len(buffer) == 0


def test_the_rest_of_a_large_frame_is_not_copied():
    stream = encode_frame(0, body_of(300_000, 1)) + encode_frame(0, body_of(50_000, 2))
    first, second, third = stream[:100_000], stream[100_000:200_000], stream[200_000:]
    buffer = ReceiveBuffer()
    for read in (first, second, third):
        assert buffer.next_frame(LARGE, in_parts=True) is None
        buffer.feed(read)
    frame = buffer.next_frame(LARGE, in_parts=True)
    assert frame == FrameBounds(0, AMQP_FRAME, 8, 300_008)
    assert buffer.data is first
    middle, last = buffer.take_parts()
    assert middle is second
    assert isinstance(last, memoryview)
    assert last.obj is third
    assert buffer.go_on()
    assert buffer.data is third
    assert buffer.next_frame(LARGE, in_parts=True) == FrameBounds(0, AMQP_FRAME, 100_016, 150_016, 100_008)


def test_much_input_behind_a_frame_is_not_copied():
    frame = encode_frame(0, b"x" * 12)
    first, second = frame * 10 + frame[:9], frame[9:] + frame * 5000
    buffer = ReceiveBuffer()
    buffer.feed(first)
    assert len(taken(buffer)) == 10
    buffer.feed(second)
    assert buffer.data == frame
    assert len(taken(buffer)) == 5001
    assert buffer.data is second


@pytest.mark.parametrize(("size", "viewed"), [(4_096, True), (4_095, False)])
def test_a_small_piece_is_a_copy(size, viewed):
    data = bytes(4 * size)
    assert isinstance(piece_of(data, 10, 10 + size), memoryview) is viewed


def test_take_waits_for_its_bytes():
    buffer = ReceiveBuffer()
    for byte in PROTOCOL_HEADER_SASL:
        assert buffer.take(8) is None
        buffer.feed(bytes((byte,)))
    buffer.feed(EMPTY_FRAME)
    assert buffer.take(8) == PROTOCOL_HEADER_SASL
    assert taken(buffer) == [(0, b"", AMQP_FRAME)]


def test_protocol_headers():
    assert parse_protocol_header(PROTOCOL_HEADER_AMQP) is ProtocolId.AMQP
    assert parse_protocol_header(PROTOCOL_HEADER_TLS) is ProtocolId.TLS
    assert parse_protocol_header(PROTOCOL_HEADER_SASL) is ProtocolId.SASL
    for other in (b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x00", b"AMQP\x00\x01\x00\x01", b"GET / HT", b"", b"AMQP"):
        assert parse_protocol_header(other) is None
