"""Frames and the protocol header [0-9-1 4.2.2, 4.2.3]: the received bytes, a frame in them, and encoding one.

A frame is a header of seven bytes (type, channel, size), a payload, and the octet 0xCE. ``frame_max`` counts all of
these bytes, and is never 0 here: the negotiation replaces 0 by a number.

An invalid frame ends the connection, because the start of the next one cannot be known: FRAME_ERROR, as soon as the
header has arrived, with the numbers in its text.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from core.amqp091.codec import encode_method
from core.amqp091.content import header_length
from core.amqp091.errors import Amqp091ConnectionFault, ReplyCode
from core.amqp091.methods import Method

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
"""A client sends this first. A server answers any other header with it, then closes the socket [0-9-1 4.2.2]."""

FRAME_HEADER_BYTES = 7
FRAME_END = 0xCE
FRAME_OVERHEAD_BYTES = FRAME_HEADER_BYTES + 1
"""By how many bytes a frame is longer than its payload."""
FRAME_MIN_SIZE = 4096
"""The frame size that every peer must accept; no frame before connection.tune-ok may be larger [0-9-1 4.2.3]."""


BEHIND_BYTES_MIN = 65_536
"""So many bytes behind a frame that several reads brought are not copied to join them with it. The copy takes 10 to 20
us; the messages in them are then a run of their own, which takes about as long."""
GATHERED_PIECE_BYTES_MIN = 4_096
"""Smaller pieces of an incomplete frame or body are copied together. A piece of its own costs 33 bytes for the object
and 8 for its place in the list: 1 % at this size."""
PIECE_BYTES_MIN = 8_192
"""From this size on, a message goes to the socket as a piece of its own. Smaller ones are copied into one piece with
their frames (docs/design/large-messages.md)."""


class FrameType(IntEnum):
    """The type of a frame [0-9-1 4.2.3]."""

    METHOD = 1
    HEADER = 2
    BODY = 3
    HEARTBEAT = 8


HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
"""[0-9-1 4.2.7]"""


class Amqp091Frame(NamedTuple):
    """One whole frame; ``end`` is the offset behind it."""

    frame_type: FrameType
    channel: int
    payload: bytes
    end: int


class Amqp091ReceiveBuffer:
    """The received bytes of one connection that are not parsed yet.

    They are in ``data`` from ``position`` on, in one piece, so a fast path may look at the head and move ``position``
    behind the bytes that it took. Both change with the next ``feed`` and no earlier.

    While a frame is known to be incomplete (``wait_for``), further bytes are gathered beside ``data`` and joined once,
    when they suffice: a frame that arrives byte by byte costs no more than its size. Many bytes behind such a frame are
    not copied: they become ``data`` when the frame has been taken (``go_on``). The buffer grows only by the bytes fed
    to it; it stays below one frame and one read when everything whole is taken before every ``feed``.
    """

    __slots__ = ("_behind", "_gathered", "_gathered_bytes", "_wanted", "data", "position")

    def __init__(self) -> None:
        self.data = b""
        self.position = 0
        self._behind: tuple[bytes, int] | None = None
        """Bytes, and where in them the input behind ``data`` begins."""
        self._gathered: list[bytes | bytearray] = []
        """Input behind ``data`` that does not suffice for a frame yet. While there is any, ``_behind`` is None."""
        self._gathered_bytes = 0
        self._wanted = 0
        """Bytes from ``position`` on that are needed to parse anything; 0 when that is not known."""

    def __len__(self) -> int:
        """Bytes that have not been taken."""
        behind = 0 if self._behind is None else len(self._behind[0]) - self._behind[1]
        return len(self.data) - self.position + behind + self._gathered_bytes

    def feed(self, data: bytes) -> None:
        """Append bytes from the socket."""
        if self._behind is not None:
            self.data, self.position, self._behind = self.rest(), 0, None
        if self.position == len(self.data) and not self._gathered:
            self.data, self.position = data, 0
            self._wanted = 0
            return
        gather(self._gathered, data)
        self._gathered_bytes += len(data)
        if len(self) >= self._wanted:
            self._join()

    def _join(self) -> None:
        """Make ``data`` of what is gathered; leave what is behind the first frame apart if it is much."""
        *gathered, last = map(bytes, self._gathered)  # copies no bytes objects
        begun = memoryview(self.data)[self.position :]
        end = len(last) - (len(self) - self._wanted)
        if self._wanted > FRAME_HEADER_BYTES and len(last) - end >= BEHIND_BYTES_MIN:
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
        """Return a copy of the bytes that have not been taken."""
        behind = b"" if self._behind is None else self._behind[0][self._behind[1] :]
        return b"".join((memoryview(self.data)[self.position :], behind, *self._gathered))

    def wait_for(self, size: int) -> None:
        """Note that nothing can be parsed before ``size`` bytes have arrived, from ``position`` on."""
        self._wanted = size

    def take(self, size: int) -> bytes | None:
        """Take the next ``size`` bytes; None while they have not arrived."""
        stop = self.position + size
        if stop > len(self.data):
            self.wait_for(size)
            return None
        taken = self.data[self.position : stop]
        self.position = stop
        return taken

    def clear(self) -> None:
        """Drop all bytes: they will not be parsed."""
        self.data, self.position, self._behind = b"", 0, None
        self._gathered, self._gathered_bytes, self._wanted = [], 0, 0


def gather(gathered: list[bytes | bytearray], data: bytes) -> None:
    """Append bytes to those that are gathered. Small pieces are copied together: an object of its own for each would
    take many times the memory of the bytes."""
    if len(data) >= GATHERED_PIECE_BYTES_MIN:
        gathered.append(data)
    elif gathered and isinstance(gathered[-1], bytearray):
        gathered[-1] += data
    else:
        gathered.append(bytearray(data))


def read_frame(buffer: bytes, offset: int, frame_max: int) -> Amqp091Frame | None:
    """Return the frame at an offset; None while it is incomplete. Raises Amqp091ConnectionFault only."""
    if len(buffer) - offset < FRAME_HEADER_BYTES:
        return None
    frame_type, channel, size = _parse_header(buffer, offset)
    known = _FRAME_TYPES.get(frame_type)
    if known is None or size > frame_max - FRAME_OVERHEAD_BYTES or (known is FrameType.HEARTBEAT and (channel or size)):
        raise Amqp091ConnectionFault(ReplyCode.FRAME_ERROR, _header_fault(frame_type, channel, size, frame_max))
    start = offset + FRAME_HEADER_BYTES
    stop = start + size
    if stop >= len(buffer):
        return None
    if buffer[stop] != FRAME_END:
        text = f"a frame of {size} bytes on channel {channel} ends with {buffer[stop]:#04x}, not with {FRAME_END:#04x}"
        raise Amqp091ConnectionFault(ReplyCode.FRAME_ERROR, text)
    return Amqp091Frame(known, channel, buffer[start:stop], stop + 1)


def encode_frame(frame_type: FrameType, channel: int, payload: bytes) -> bytes:
    """Encode one frame. The caller must check that the peer accepts its size."""
    return b"".join((_pack_header(frame_type, channel, len(payload)), payload, _FRAME_END_BYTES))


def method_frame(channel: int, method: Method) -> bytes:
    """Encode a method, always in one frame [0-9-1 4.2.4]. Raises Amqp091EncodeError for a field that cannot be
    encoded."""
    return encode_frame(FrameType.METHOD, channel, encode_method(method))


def content_frames(channel: int, entry: bytes, frame_max: int) -> bytes:
    """Encode the content header frame and the body frames of an entry; an empty body has none [0-9-1 4.2.6].

    A body is split by ``frame_max``. A content header cannot be split: it is sent whole even if it is larger, as by
    RabbitMQ.
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
