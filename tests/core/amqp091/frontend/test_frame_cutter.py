"""Cutting AMQP 0.9.1 bytes into frames: the cuts are the same however the bytes come, and of a method only its kind is
kept."""

from hypothesis import given
from hypothesis import strategies as st

from core.amqp091.framing import HEARTBEAT_FRAME, PROTOCOL_HEADER, method_frame
from core.amqp091.frontend.frame_cutter import Amqp091FrameCutter
from core.amqp091.methods import BasicAck, ConnectionStartOk

START_OK = method_frame(0, ConnectionStartOk(response=b"\0guest\0SECRET"))
ACK = method_frame(1, BasicAck(delivery_tag=1))
BODY = b"\x03\x00\x01\x00\x00\x00\x06SECRET\xce"
FRAMES = {PROTOCOL_HEADER: 8, START_OK: 11, ACK: 11, BODY: 7, HEARTBEAT_FRAME: 7}
"""Each frame, and how many of its bytes are kept."""


@given(st.lists(st.sampled_from(list(FRAMES)), max_size=8), st.integers(1, 100))
def test_the_frames_do_not_depend_on_how_the_bytes_come(frames: list[bytes], step: int):
    data, cutter = b"".join(frames), Amqp091FrameCutter()
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    told = [tuple(cut) for piece in pieces for cut in cutter.cut(piece)]
    assert told == [(len(frame), frame[: FRAMES[frame]]) for frame in frames]


@given(st.binary(max_size=100))
def test_of_any_bytes_no_more_is_kept_than_of_a_method(data: bytes):
    assert all(len(kept) <= 11 for _, kept in Amqp091FrameCutter().cut(data))
