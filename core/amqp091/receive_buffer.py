"""The received bytes of one connection that are not parsed yet.

The unparsed bytes are in ``data`` from ``position`` on, in one piece, so a fast path may look at the head and move
``position`` behind the bytes that it took. Both change with the next ``feed`` and no earlier.

While a frame is known to be incomplete (``wait_for``), further bytes are gathered beside ``data`` and joined once, when
they suffice: a frame that arrives byte by byte costs no more than its size. The buffer grows only by the bytes fed to
it; it stays below one frame and one read when everything whole is taken before every ``feed``.
"""


class Amqp091ReceiveBuffer:
    """The unparsed bytes; see the module."""

    __slots__ = ("_gathered", "_wanted", "data", "position")

    def __init__(self) -> None:
        self.data = b""
        self.position = 0
        self._gathered = bytearray()
        self._wanted = 0
        """Bytes from ``position`` on that are needed to parse anything; 0 when that is not known."""

    def __len__(self) -> int:
        """Bytes that have not been taken."""
        return len(self.data) - self.position + len(self._gathered)

    def feed(self, data: bytes) -> None:
        """Append bytes from the socket."""
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
        """Return a copy of the bytes that have not been taken."""
        return self.data[self.position :] + self._gathered

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
        self.data, self.position = b"", 0
        self._gathered = bytearray()
        self._wanted = 0
