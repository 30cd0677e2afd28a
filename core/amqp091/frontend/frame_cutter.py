"""Finds the frames of AMQP 0.9.1 in one direction's bytes, for a frame trace [0-9-1 4.2.3].

The header of a frame is kept, and for a method its class id and method id. The arguments are not kept, as they may hold
a password; nor are header and body frames' contents, which are a message.
"""

from collections.abc import Iterator

from core.amqp091.framing import FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, PROTOCOL_HEADER, FrameType
from core.server.frame_tap import Cut

KEPT_BYTES_MAX = FRAME_HEADER_BYTES + 4
"""The frame header with class id and method id."""


class Amqp091FrameCutter:
    """Cuts one direction, from the beginning of a frame or of the connection on."""

    __slots__ = ("_rest", "_skip")

    def __init__(self) -> None:
        self._rest = b""
        """The beginning of a frame that is too short to be reported: less than :data:`KEPT_BYTES_MAX`."""
        self._skip = 0
        """Bytes still to come of a frame that was reported. Then there is no rest."""

    def cut(self, data: bytes) -> Iterator[Cut]:
        """See :class:`core.server.frame_tap.FrameCutter`."""
        if len(data) < self._skip:
            self._skip -= len(data)
            return
        position, data = self._skip, self._rest + data
        while len(data) - position >= FRAME_HEADER_BYTES:
            kept, size = _extent(data, position)
            if position + kept > len(data):
                break
            yield Cut(size, data[position : position + kept])
            position += size
        self._skip = max(0, position - len(data))
        self._rest = data[position:]


def _extent(data: bytes, start: int) -> tuple[int, int]:
    """How many bytes of a frame are kept, and how many bytes it has."""
    if data.startswith(b"AMQP", start):
        return len(PROTOCOL_HEADER), len(PROTOCOL_HEADER)
    payload = int.from_bytes(data[start + 3 : start + FRAME_HEADER_BYTES], "big")
    size = payload + FRAME_OVERHEAD_BYTES
    return min(size, KEPT_BYTES_MAX) if data[start] == FrameType.METHOD else FRAME_HEADER_BYTES, size
