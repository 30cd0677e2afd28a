"""Finds the frames of AMQP 1.0 in the bytes of one direction, for the trace of a connection [2.3].

Of a frame its header and its performative are kept, :data:`KEPT_BYTES_MAX` at most. The bytes behind the performative,
which are a message or a part of one, are dropped. Of SASL frames only the header is kept.
"""

import struct
from collections.abc import Iterator

from amqp10.wire.codec import format_codes as code
from amqp10.wire.framing import AMQP_FRAME, FRAME_HEADER_BYTES
from core.server.frame_tap import Cut

KEPT_BYTES_MAX = 1024
"""Bytes kept of one frame; an attach with long names and a few filters is smaller."""
_DESCRIPTOR_BYTES = {code.SMALL_ULONG: 2, code.ULONG: 9}
"""Sizes of smallulong and ulong: the constructor and the value."""


class Amqp10FrameCutter:
    """Cuts one direction, beginning at the start of a frame or of the connection."""

    __slots__ = ("_lost", "_rest", "_skip")

    def __init__(self) -> None:
        self._rest = b""
        """The beginning of a frame that is not complete enough to be returned: below :data:`KEPT_BYTES_MAX`."""
        self._skip = 0
        """Bytes still to come of a frame that has been returned. While there are any, ``_rest`` is empty."""
        self._lost = False
        """The bytes cannot be frames, so the beginning of the next frame is unknown."""

    def cut(self, data: bytes) -> Iterator[Cut]:
        """See :class:`core.server.frame_tap.FrameCutter`."""
        if self._lost:
            return
        if len(data) < self._skip:
            self._skip -= len(data)
            return
        position, data = self._skip, self._rest + data
        while len(data) - position >= FRAME_HEADER_BYTES:
            is_header = data.startswith(b"AMQP", position)
            size = FRAME_HEADER_BYTES if is_header else int.from_bytes(data[position : position + 4], "big")
            end = position + min(size, KEPT_BYTES_MAX)
            if end > len(data):
                break
            if size < FRAME_HEADER_BYTES:
                self._lost = True
                return
            yield Cut(size, data[position : end if is_header else min(end, _kept_until(data, position))])
            position += size
        self._skip = max(0, position - len(data))
        self._rest = data[position:]


def _kept_until(data: bytes, start: int) -> int:
    """Where header and performative of a frame end; the end of the header if the performative cannot be read."""
    position = start + 4 * data[start + 4]
    if data[start + 5] != AMQP_FRAME or position < start + FRAME_HEADER_BYTES:
        return start + FRAME_HEADER_BYTES
    try:
        position += 1 + _DESCRIPTOR_BYTES[data[position + 1]]
        match data[position]:
            case code.LIST_8:
                return position + 2 + data[position + 1]
            case code.LIST_32:
                return position + 5 + int(struct.unpack_from(">I", data, position + 1)[0])
            case code.LIST_0:
                return position + 1
    except (IndexError, KeyError, struct.error):
        pass
    return start + FRAME_HEADER_BYTES
