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

Piece = bytes | memoryview
"""A part of a message or of the output, in bytes that nothing changes any more."""
VIEW_BYTES_MIN = 4_096
"""A piece of received bytes is a view of them if it has so many; a smaller one is a copy, since a view takes 300 bytes.
A view keeps all of the received bytes in memory, so code that keeps one until more bytes come has to look at that."""
PARTS_BYTES_MIN = 131_072
"""A frame of at least this size that several reads bring is not joined, but parsed in parts. A smaller one is joined:
it may be a message of a run, and the fast path needs it in one piece."""
FIRST_PART_BYTES_MIN = 1_536
"""A frame is parsed in parts only if its first part has so many bytes. The frame header has 1,020 at most [2.3.1]; a
transfer with a tag of 32 bytes and all fields has about 80."""
BEHIND_BYTES_MIN = 65_536
"""So many bytes behind a frame that several reads brought are not copied to join them with it. The copy takes 10 to 20
us; the messages in them are then a run of their own, which takes about as long."""
GATHERED_PIECE_BYTES_MIN = 4_096
"""Smaller pieces of an incomplete frame are copied together. A piece of its own costs 33 bytes for the object and 8 for
its place in the list: 1 % at this size."""
PIECE_BYTES_MIN = 8_192
"""From this size on, a message goes to the socket as a piece of its own. Smaller ones are copied into one piece with
their frames: a copy of 4 KiB costs as much as one more piece in a system call, one of 16 KiB costs 15 % more
(docs/design/large-messages.md)."""

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
    start: int = 0
    """Where its header begins."""


def piece_of(data: bytes, start: int, end: int) -> Piece:
    """The bytes from ``start`` to before ``end``, as a view or as a copy: see :data:`VIEW_BYTES_MIN`."""
    return memoryview(data)[start:end] if end - start >= VIEW_BYTES_MIN else data[start:end]


class ReceiveBuffer:
    """Bytes that have been received and are not parsed yet.

    ``data`` from ``position`` on is the next input, in one piece, so a fast path may look at its head and move
    ``position`` behind what it took. The bounds of a frame are valid until the next call.

    While a frame is incomplete, further bytes are gathered beside ``data`` and joined once, when they suffice: a frame
    that arrives byte by byte costs no more than its size. Many bytes behind such a frame are not copied: they become
    ``data`` when the frame has been taken. If every ``feed`` is followed by ``next_frame`` until that returns None, the
    buffer stays below the size of one frame plus one read.
    """

    __slots__ = ("_behind", "_gathered", "_gathered_bytes", "_parts", "_wanted", "data", "position")

    def __init__(self) -> None:
        self.data = b""
        self.position = 0
        self._behind: tuple[bytes, int] | None = None
        """Bytes, and where in them the input behind ``data`` and ``_parts`` begins."""
        self._parts: list[Piece] = []
        """The rest of the frame whose beginning is the end of ``data``."""
        self._gathered: list[bytes | bytearray] = []
        """Input behind ``data`` that does not suffice for a frame yet. While there is any, ``_behind`` is None."""
        self._gathered_bytes = 0
        self._wanted = 0
        """Bytes from ``position`` on that are needed before anything can be parsed; 0 when that is not known."""

    def __len__(self) -> int:
        """Bytes that have been received and not taken."""
        behind = 0 if self._behind is None else len(self._behind[0]) - self._behind[1]
        return len(self.data) - self.position + sum(map(len, self._parts)) + behind + self._gathered_bytes

    def feed(self, data: bytes) -> None:
        """Append the bytes of one read from the socket."""
        if self._behind is not None or self._parts:
            self.data, self.position, self._behind, self._parts = self.rest(), 0, None, []
        if self.position == len(self.data) and not self._gathered:
            self.data, self.position, self._wanted = data, 0, 0
            return
        self._gather(data)
        if len(self) >= self._wanted:
            self._join()

    def _gather(self, data: bytes) -> None:
        """Add bytes to those that are gathered. Small pieces are copied together: an object of its own for each would
        take many times the memory of the bytes."""
        self._gathered_bytes += len(data)
        if len(data) >= GATHERED_PIECE_BYTES_MIN:
            self._gathered.append(data)
        elif self._gathered and isinstance(self._gathered[-1], bytearray):
            self._gathered[-1] += data
        else:
            self._gathered.append(bytearray(data))

    def _join(self) -> None:
        """Make ``data`` of what is gathered. Where that would copy many bytes, the rest of the first frame becomes
        ``_parts``, or what is behind it ``_behind``."""
        *gathered, last = map(bytes, self._gathered)  # copies no bytes objects
        end = len(last) - (len(self) - self._wanted)
        begun = memoryview(self.data)[self.position :]
        if self._wanted >= PARTS_BYTES_MIN and len(begun) >= FIRST_PART_BYTES_MIN:
            self._parts = [*gathered, piece_of(last, 0, end)]
            self._behind = (last, end) if end < len(last) else None
        elif self._wanted > FRAME_HEADER_BYTES and len(last) - end >= BEHIND_BYTES_MIN:
            self.data, self.position = b"".join((begun, *gathered, memoryview(last)[:end])), 0
            self._behind = last, end
        else:
            self.data, self.position = b"".join((begun, *gathered, last)), 0
        self._gathered, self._gathered_bytes, self._wanted = [], 0, 0

    def go_on(self) -> bool:
        """Let go of ``data``, all of which has been taken: what is behind it is the next ``data``. False: there is
        nothing."""
        if self._behind is None:
            self.data, self.position = b"", 0
            return False
        (self.data, self.position), self._behind = self._behind, None
        return True

    def rest(self) -> bytes:
        """A copy of the bytes that have been received and not taken."""
        behind = b"" if self._behind is None else self._behind[0][self._behind[1] :]
        return b"".join((memoryview(self.data)[self.position :], *self._parts, behind, *self._gathered))

    def take(self, size: int) -> bytes | None:
        """The next ``size`` bytes, for protocol headers; None until they have come."""
        stop = self.position + size
        if stop > len(self.data):
            self._wanted = size
            return None
        taken = self.data[self.position : stop]
        self.position = stop
        return taken

    def next_frame(self, max_frame_size: int, *, in_parts: bool = False) -> FrameBounds | None:
        """Step behind the next frame and return where it is; None while it is incomplete.

        With ``in_parts`` the bounds of a large frame may end behind ``data``. The frame header and the first 500 bytes
        of the body or more are in ``data`` then, and the caller gets the rest with :meth:`take_parts`.

        Raises ConnectionFault (framing-error) for an impossible header, as soon as the header is complete; the position
        then stays before it.
        """
        if self._parts and not in_parts:
            self.data, self.position, self._parts = b"".join((self.data[self.position :], *self._parts)), 0, []
        elif self.position == len(self.data) and self._behind is not None:
            self.go_on()
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
        if end > len(data) and not self._parts:
            self._wanted = size
            return None
        self.position = min(end, len(data))
        return FrameBounds(channel, frame_type, body_start, end, start)

    def take_parts(self) -> list[Piece]:
        """The rest of the frame that ``next_frame`` returned last, behind the end of ``data``; [] for nearly all."""
        parts, self._parts = self._parts, []
        return parts


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
