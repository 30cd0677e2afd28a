"""Finding the frames of AMQP 1.0 in one direction's bytes, for who looks at a connection [2.3].

Of a frame its header and its performative are kept, :data:`KEPT_BYTES_MAX` at most; of what stands behind the
performative, which is a message or a part of one, nothing is. Of SASL frames only the header is kept.
"""

import struct
from collections.abc import Iterator

from amqp10.codec import format_codes as code
from amqp10.framing import AMQP_FRAME, FRAME_HEADER_BYTES
from core.server.frame_tap import Cut

KEPT_BYTES_MAX = 1024
"""An attach with long names and a few filters is below that."""
_DESCRIPTOR_BYTES = {code.SMALL_ULONG: 2, code.ULONG: 9}
"""Of smallulong and ulong: the constructor and the value."""


class FrameCutter:
    """One direction, from the beginning of a frame or of the connection on."""

    __slots__ = ("_lost", "_rest", "_skip")

    def __init__(self) -> None:
        self._rest = b""
        """The beginning of a frame that is not enough to tell it: below :data:`KEPT_BYTES_MAX`."""
        self._skip = 0
        """Bytes still to come of a frame that has been told. Then there is no rest."""
        self._lost = False
        """What came cannot be frames; nobody can tell where the next one would begin."""

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
    """Where header and performative of a frame end, if they do so within what is kept."""
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
