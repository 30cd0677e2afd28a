"""Two ends of a stream of bytes in memory, for asyncio and Trio: what a socket is for a program, without one.

What is sent can be received at once, and as much as one likes waits in between.
"""

import anyio
import anyio.lowlevel


class MemoryStream:
    """One end. It has the methods of :class:`anyio.abc.ByteStream`."""

    def __init__(self) -> None:
        self.other: MemoryStream = self
        self._arrived = b""
        self._eof = False
        self._broken = False
        self._closed = False
        self._changed = anyio.Event()
        self.takes_all = True
        """False: a send waits for ever."""

    async def send(self, item: bytes) -> None:
        """Send bytes. Raises ClosedResourceError after a close of this end, BrokenResourceError after one of the
        other."""
        await anyio.lowlevel.checkpoint()
        if self._closed:
            raise anyio.ClosedResourceError
        if self._broken:
            raise anyio.BrokenResourceError
        if not self.takes_all:
            await anyio.sleep_forever()
        self.other._arrived += item
        self.other._tell()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive what has arrived. Raises EndOfStream when the other end is closed."""
        await anyio.lowlevel.checkpoint()
        while not self._arrived:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._eof:
                raise anyio.EndOfStream
            await self._changed.wait()
        taken, self._arrived = self._arrived[:max_bytes], self._arrived[max_bytes:]
        return taken

    async def send_eof(self) -> None:
        """Nothing more will be sent."""
        await anyio.lowlevel.checkpoint()
        self.other._eof = True
        self.other._tell()

    async def aclose(self) -> None:
        """Close this end."""
        self._closed = True
        self._tell()
        self.other._eof = self.other._broken = True
        self.other._tell()
        await anyio.lowlevel.checkpoint()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def stream_pair() -> tuple[MemoryStream, MemoryStream]:
    """Both ends of a stream."""
    near, far = MemoryStream(), MemoryStream()
    near.other, far.other = far, near
    return near, far
