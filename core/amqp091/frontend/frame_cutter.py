"""Finding the frames of AMQP 0.9.1 in one direction's bytes, for who looks at a connection [0-9-1 4.2.3].

Of a frame its header is kept, and of a method which one it is: its arguments may prove who somebody is, and what is in
header and body frames is a message.
"""

from collections.abc import Iterator

from core.amqp091.framing import FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, PROTOCOL_HEADER, FrameType
from core.server.frame_tap import Cut

KEPT_BYTES_MAX = FRAME_HEADER_BYTES + 4
"""Up to class id and method id."""


class FrameCutter:
    """One direction, from the beginning of a frame or of the connection on."""

    __slots__ = ("_rest", "_skip")

    def __init__(self) -> None:
        self._rest = b""
        """The beginning of a frame that is not enough to tell it: below :data:`KEPT_BYTES_MAX`."""
        self._skip = 0
        """Bytes still to come of a frame that has been told. Then there is no rest."""

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
    """How many bytes of a frame are kept, and how many it has."""
    if data.startswith(b"AMQP", start):
        return len(PROTOCOL_HEADER), len(PROTOCOL_HEADER)
    payload = int.from_bytes(data[start + 3 : start + FRAME_HEADER_BYTES], "big")
    size = payload + FRAME_OVERHEAD_BYTES
    return min(size, KEPT_BYTES_MAX) if data[start] == FrameType.METHOD else FRAME_HEADER_BYTES, size
