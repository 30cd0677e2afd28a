"""The output of one connection that has not been taken yet."""

from core.amqp091.framing import method_frame
from core.amqp091.methods import Method


class Output:
    """Frames in the order in which they are sent. The owner of the connection bounds it by ``size``."""

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0
        """In bytes."""

    def write(self, frames: bytes) -> None:
        """Append encoded frames."""
        self._pieces.append(frames)
        self.size += len(frames)

    def write_method(self, channel: int, method: Method) -> None:
        """Append a method on a channel."""
        self.write(method_frame(channel, method))

    def take(self) -> bytes:
        """Return all output, joined, and empty it."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        return taken
