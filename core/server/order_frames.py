"""What goes between the nodes on one port and the first of them, which keeps the order of changes: CBOR arrays, each
behind its length.

=====================================  ===============================================================================
a node sends                           and gets
=====================================  ===============================================================================
``["put", id, n, data, operations,     ``["put", id]`` if the change is there with the number n; as for ``read`` if
known]``                               another one came first; ``["failed", id, why]`` if the disk has refused it
``["read", id, known]``                ``["read", id, latest, [[n, data], …]]``: the changes after the one known
``["state", id]``                      ``["keys", id, [[key, value, made, put], …]]`` for each page, then
                                       ``["state", id, latest]``
``["made", n]``                        no answer: this node has made the changes up to n
nothing                                ``["order", identity, latest, everywhere]`` first, and when a number changes
=====================================  ===============================================================================
"""

from struct import Struct
from typing import Any, TypeAlias

import cbor2
import trio

SIZE = Struct(">I")
FRAME_BYTES_MAX = 16 << 20
"""More than any page of the state: 200 keys, whose values have at most the 64 KiB of a table of arguments."""
RECEIVED_BYTES = 65_536

Frame: TypeAlias = list[Any]
"""Decoded CBOR."""


class BrokenOff(Exception):
    """The connection has ended, or what came makes no sense."""


def encoded(*frame: object) -> bytes:
    """A frame with its length."""
    data = cbor2.dumps(frame)
    return SIZE.pack(len(data)) + data


class FrameReader:
    """Reads frames from a stream."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._left = bytearray()

    async def next(self) -> Frame:
        """Return the next frame. Raises BrokenOff."""
        size: int | None = None
        while True:
            if size is None and len(self._left) >= SIZE.size:
                (size,) = SIZE.unpack_from(self._left)
                if size > FRAME_BYTES_MAX:
                    raise BrokenOff(f"a frame of {size} bytes; {FRAME_BYTES_MAX} are possible")
            if size is not None and len(self._left) >= SIZE.size + size:
                data = bytes(self._left[SIZE.size : SIZE.size + size])
                del self._left[: SIZE.size + size]
                return self._decoded(data)
            try:
                more = await self._stream.receive_some(RECEIVED_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise BrokenOff(str(error) or "the connection is lost") from None
            if not more:
                raise BrokenOff("the connection is closed")
            self._left += more

    @staticmethod
    def _decoded(data: bytes) -> Frame:
        try:
            frame = cbor2.loads(data)
        except (cbor2.CBORDecodeError, ValueError) as error:
            raise BrokenOff(f"no CBOR: {error}") from None
        if not isinstance(frame, list) or not frame:
            raise BrokenOff("a frame that is no list")
        return frame


class FrameWriter:
    """Frames that wait to be sent on one stream, and the task that sends them."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._waiting = bytearray()
        self._more = trio.Event()

    @property
    def waiting(self) -> int:
        """The bytes that are not sent yet."""
        return len(self._waiting)

    def put(self, *frame: object) -> None:
        """Send a frame."""
        self.send(encoded(*frame))

    def send(self, data: bytes) -> None:
        """Send an encoded frame."""
        self._waiting += data
        self._more.set()

    async def run(self) -> None:
        """Send what waits, until cancelled. Raises BrokenOff."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            data, self._waiting = bytes(self._waiting), bytearray()
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise BrokenOff(str(error) or "the connection is lost") from None
