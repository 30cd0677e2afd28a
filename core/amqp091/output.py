"""The output of one connection that has not been taken yet."""

from core.amqp091.framing import method_frame
from core.amqp091.methods import Method


class Output:
    """Frames in the order in which they are sent. The owner of the connection bounds it by ``size``."""

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes | memoryview] = []
        self.size = 0
        """In bytes."""

    def write(self, *pieces: bytes | memoryview) -> None:
        """Append encoded frames, in one piece or more. A view is part of a message that nothing changes any more."""
        self._pieces += pieces
        for piece in pieces:
            self.size += len(piece)

    def write_method(self, channel: int, method: Method) -> None:
        """Append a method on a channel."""
        self.write(method_frame(channel, method))

    def take(self) -> list[bytes | memoryview]:
        """Return all output, the bytes of all pieces one after the other, and empty it."""
        taken, self._pieces, self.size = self._pieces, [], 0
        return taken
