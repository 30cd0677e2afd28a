"""Frames and protocol headers [2.2, 2.3]: finds where a frame ends in a stream of bytes, and encodes frames.

A frame is a header of eight bytes (size, data offset, type, channel), an extended header that AMQP does not use and
that is skipped, and a body. :class:`ReceiveBuffer` finds frames in the pieces that the socket brings. It checks the
header and leaves the body to its callers. Frames are never copied out: a caller gets the buffer with two offsets.

A wrong frame header ends the connection, because the start of the next frame is then unknown. So the fault is raised
here: amqp:connection:framing-error with the numbers in its text.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from amqp10.errors import ConnectionFault, ErrorCondition

FRAME_HEADER_BYTES = 8
"""[2.3.1]"""
PROTOCOL_HEADER_BYTES = 8
"""[2.2]"""
MIN_MAX_FRAME_SIZE = 512
"""The frame size that every peer must accept, in bytes [2.8.19]; no frame before the open may be larger [2.4.1]."""

AMQP_FRAME = 0
SASL_FRAME = 1

EMPTY_FRAME = b"\x00\x00\x00\x08\x02\x00\x00\x00"
"""A frame without a body on channel 0: the heartbeat [2.4.5]."""


class ProtocolId(IntEnum):
    """The protocol that a protocol header announces [2.2, 5.1]."""

    AMQP = 0
    TLS = 2
    SASL = 3


PROTOCOL_HEADER_AMQP = b"AMQP\x00\x01\x00\x00"
PROTOCOL_HEADER_TLS = b"AMQP\x02\x01\x00\x00"
PROTOCOL_HEADER_SASL = b"AMQP\x03\x01\x00\x00"

_PROTOCOL_HEADERS = {
    PROTOCOL_HEADER_AMQP: ProtocolId.AMQP,
    PROTOCOL_HEADER_TLS: ProtocolId.TLS,
    PROTOCOL_HEADER_SASL: ProtocolId.SASL,
}


def parse_protocol_header(header: bytes) -> ProtocolId | None:
    """Which protocol these eight bytes announce; None when it is no header of version 1.0.0.

    None is no fault to raise: a peer that offers what we cannot speak is answered with a header that we can [2.2].
    """
    return _PROTOCOL_HEADERS.get(header)


class FrameBounds(NamedTuple):
    """One frame in a :class:`ReceiveBuffer`: the body is ``data[body_start:body_end]``, empty for a heartbeat."""

    channel: int
    frame_type: int
    body_start: int
    body_end: int


class ReceiveBuffer:
    """Bytes that have been received and are not parsed yet.

    ``data`` from ``position`` on is the next input, in one piece, so a fast path may look at its head and move
    ``position`` behind what it took. Only ``feed`` replaces ``data``, so the bounds of a frame stay valid until then.

    While a frame is incomplete, further bytes are gathered beside ``data`` and joined once, when they suffice: a frame
    that arrives byte by byte costs no more than its size. If every ``feed`` is followed by ``next_frame`` until that
    returns None, the buffer stays below the size of one frame plus one read.
    """

    __slots__ = ("_gathered", "_wanted", "data", "position")

    def __init__(self) -> None:
        self.data = b""
        self.position = 0
        self._gathered = bytearray()
        self._wanted = 0
        """Bytes from ``position`` on that are needed before anything can be parsed; 0 when that is not known."""

    def __len__(self) -> int:
        """Bytes that have been received and not taken."""
        return len(self.data) - self.position + len(self._gathered)

    def feed(self, data: bytes) -> None:
        """Append the bytes of one read from the socket."""
        if self.position == len(self.data) and not self._gathered:
            self.data = data
            self.position = 0
            return
        self._gathered += data
        if len(self) >= self._wanted:
            self.data = self.data[self.position :] + self._gathered
            self.position = 0
            self._gathered = bytearray()
            self._wanted = 0

    def rest(self) -> bytes:
        """A copy of the bytes that have been received and not taken."""
        return self.data[self.position :] + self._gathered

    def take(self, size: int) -> bytes | None:
        """The next ``size`` bytes, for protocol headers; None until they have come."""
        stop = self.position + size
        if stop > len(self.data):
            self._wanted = size
            return None
        taken = self.data[self.position : stop]
        self.position = stop
        return taken

    def next_frame(self, max_frame_size: int) -> FrameBounds | None:
        """Step behind the next frame and return where it is; None while it is incomplete.

        Raises ConnectionFault (framing-error) for an impossible header, as soon as the header is complete; the position
        then stays before it.
        """
        data = self.data
        start = self.position
        if len(data) - start < FRAME_HEADER_BYTES:
            self._wanted = FRAME_HEADER_BYTES
            return None
        size, data_offset, frame_type, channel = _parse_header(data, start)
        body_start = start + 4 * data_offset
        end = start + size
        if data_offset < 2 or body_start > end or size > max_frame_size or frame_type > SASL_FRAME:
            raise ConnectionFault(
                ErrorCondition.FRAMING_ERROR, _header_fault(size, data_offset, frame_type, max_frame_size)
            )
        if end > len(data):
            self._wanted = size
            return None
        self.position = end
        return FrameBounds(channel, frame_type, body_start, end)


def encode_frame(channel: int, body: bytes, payload: bytes = b"", frame_type: int = AMQP_FRAME) -> bytes:
    """One frame. The caller makes sure that it is not larger than the peer's max-frame-size."""
    size = FRAME_HEADER_BYTES + len(body) + len(payload)
    return b"".join((_pack_header(size, 2, frame_type, channel), body, payload))


_parse_header = struct.Struct(">IBBH").unpack_from
_pack_header = struct.Struct(">IBBH").pack


def _header_fault(size: int, data_offset: int, frame_type: int, max_frame_size: int) -> str:
    if size < FRAME_HEADER_BYTES:
        return f"frame size {size} is below {FRAME_HEADER_BYTES}, the size of a frame header"
    if size > max_frame_size:
        return f"frame size {size} is above the max-frame-size of {max_frame_size}"
    if data_offset < 2:
        return f"data offset {data_offset} is below 2: the body would start inside the frame header"
    if 4 * data_offset > size:
        return f"data offset {data_offset} puts the body behind the end of a frame of size {size}"
    return f"frame type {frame_type} is unknown: 0 is AMQP, 1 is SASL"
