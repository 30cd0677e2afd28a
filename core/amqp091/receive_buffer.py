"""Bytes of one connection that have come and are not parsed yet.

``data`` from ``position`` on is what is there, in one piece, so a fast path may look at the head and move ``position``
behind what it took. Both change with the next ``feed`` and no earlier.

While something is known to be incomplete (``wait_for``), further bytes are gathered beside ``data`` and joined once,
when they suffice: a frame that trickles in byte by byte costs no more than its size. The buffer grows by what is fed
and no faster; it stays below one frame and one read when everything whole is taken before every ``feed``.
"""


class ReceiveBuffer:
    """What has come; see above."""

    __slots__ = ("_gathered", "_wanted", "data", "position")

    def __init__(self) -> None:
        self.data = b""
        self.position = 0
        self._gathered = bytearray()
        self._wanted = 0
        """Bytes from ``position`` on without which nothing can be parsed; 0 when that is not known."""

    def __len__(self) -> int:
        """Bytes that are here and not taken."""
        return len(self.data) - self.position + len(self._gathered)

    def feed(self, data: bytes) -> None:
        """Append what the socket brought."""
        if self.position == len(self.data) and not self._gathered:
            self.data, self.position = data, 0
            self._wanted = 0
            return
        self._gathered += data
        if len(self) >= self._wanted:
            self.data = self.data[self.position :] + self._gathered
            self.position = 0
            self._gathered = bytearray()
            self._wanted = 0

    def rest(self) -> bytes:
        """A copy of what is here and not taken."""
        return self.data[self.position :] + self._gathered

    def wait_for(self, size: int) -> None:
        """Nothing can be parsed before ``size`` bytes are there from ``position`` on."""
        self._wanted = size

    def take(self, size: int) -> bytes | None:
        """The next ``size`` bytes; None while they are not there."""
        stop = self.position + size
        if stop > len(self.data):
            self.wait_for(size)
            return None
        taken = self.data[self.position : stop]
        self.position = stop
        return taken

    def clear(self) -> None:
        """Forget everything: it will not be looked at."""
        self.data, self.position = b"", 0
        self._gathered = bytearray()
        self._wanted = 0
