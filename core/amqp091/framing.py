"""Frames and the protocol header [0-9-1 4.2.2, 4.2.3]: finding one in a buffer, and writing one.

A frame is a header of seven bytes (type, channel, size), a payload, and the octet 0xCE. ``frame_max`` counts all of it,
and is never 0 here: the negotiation puts a number in its place.

A frame that is wrong ends the connection, because where the next one starts cannot be told: FRAME_ERROR, as soon as
the header is there, with the numbers in its text.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from core.amqp091.codec import encode_method
from core.amqp091.content import header_length
from core.amqp091.errors import ConnectionFault, ReplyCode
from core.amqp091.methods import Method

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
"""What a client sends first, and what a server answers to any other before it closes the socket [0-9-1 4.2.2]."""

FRAME_HEADER_BYTES = 7
FRAME_END = 0xCE
FRAME_OVERHEAD_BYTES = FRAME_HEADER_BYTES + 1
"""What a frame is longer than its payload."""
FRAME_MIN_SIZE = 4096
"""What every peer must be able to take; no frame before connection.tune-ok may be larger [0-9-1 4.2.3]."""


class FrameType(IntEnum):
    """What a payload is [0-9-1 4.2.3]."""

    METHOD = 1
    HEADER = 2
    BODY = 3
    HEARTBEAT = 8


HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
"""[0-9-1 4.2.7]"""


class Frame(NamedTuple):
    """One whole frame; ``end`` is the offset behind it."""

    frame_type: FrameType
    channel: int
    payload: bytes
    end: int


def read_frame(buffer: bytes, offset: int, frame_max: int) -> Frame | None:
    """The frame at an offset; None while it is not whole. Raises ConnectionFault only."""
    if len(buffer) - offset < FRAME_HEADER_BYTES:
        return None
    frame_type, channel, size = _parse_header(buffer, offset)
    known = _FRAME_TYPES.get(frame_type)
    if known is None or size > frame_max - FRAME_OVERHEAD_BYTES or (known is FrameType.HEARTBEAT and (channel or size)):
        raise ConnectionFault(ReplyCode.FRAME_ERROR, _header_fault(frame_type, channel, size, frame_max))
    start = offset + FRAME_HEADER_BYTES
    stop = start + size
    if stop >= len(buffer):
        return None
    if buffer[stop] != FRAME_END:
        text = f"a frame of {size} bytes on channel {channel} ends with {buffer[stop]:#04x}, not with {FRAME_END:#04x}"
        raise ConnectionFault(ReplyCode.FRAME_ERROR, text)
    return Frame(known, channel, buffer[start:stop], stop + 1)


def encode_frame(frame_type: FrameType, channel: int, payload: bytes) -> bytes:
    """One frame. The caller sees to it that the peer takes one so large."""
    return b"".join((_pack_header(frame_type, channel, len(payload)), payload, _FRAME_END_BYTES))


def method_frame(channel: int, method: Method) -> bytes:
    """A method, for which there is always one frame [0-9-1 4.2.4]. Raises EncodeError for a field without encoding."""
    return encode_frame(FrameType.METHOD, channel, encode_method(method))


def content_frames(channel: int, entry: bytes, frame_max: int) -> bytes:
    """The header frame and the body frames of an entry, none for an empty body [0-9-1 4.2.6].

    A body is split as frame_max wants. A content header cannot be split: it goes out whole even where it is larger,
    as RabbitMQ does it.
    """
    start = header_length(entry)
    pieces = [encode_frame(FrameType.HEADER, channel, entry[:start])]
    step = frame_max - FRAME_OVERHEAD_BYTES
    pieces += [
        encode_frame(FrameType.BODY, channel, entry[position : position + step])
        for position in range(start, len(entry), step)
    ]
    return b"".join(pieces)


_FRAME_TYPES = {int(frame_type): frame_type for frame_type in FrameType}
_FRAME_END_BYTES = bytes((FRAME_END,))
_parse_header = struct.Struct(">BHI").unpack_from
_pack_header = struct.Struct(">BHI").pack


def _header_fault(frame_type: int, channel: int, size: int, frame_max: int) -> str:
    if frame_type not in _FRAME_TYPES:
        return f"frame type {frame_type} is unknown: 1 is a method, 2 a header, 3 a body, 8 a heartbeat"
    if size > frame_max - FRAME_OVERHEAD_BYTES:
        return f"a payload of {size} bytes is above {frame_max - FRAME_OVERHEAD_BYTES}, as frame_max is {frame_max}"
    return f"a heartbeat of {size} bytes on channel {channel}: it must be empty and on channel 0"
