"""Where a consuming link stands in a stream, so that it can go on there when another node leads the stream.

Offsets are the same at each node. The link goes on with the first message that it has not begun to send; those that it
has sent are with its client, which cannot return them to a stream. The offset is read when the leader is lost, from the
annotation that each message begins with, because the link may have got the message from another node.
"""

from amqp10.protocol.stream_offsets import offset_of
from core.interface import Consumer, StreamPosition
from core.leader_losses import begin_anew

HEAD_BYTES = 64
"""How much is kept of the last message: the offset is the first of its annotations (``annotations.py``), behind at most
14 bytes of the section and of the key's type, and takes 9 bytes."""


class StreamPlace:
    """The place of one link. The link sets ``head`` for each run."""

    __slots__ = ("_offset", "head")

    def __init__(self) -> None:
        self.head = b""
        """The first bytes of the last message that was handed to the link."""
        self._offset: int | None = None

    def withdrawn(self, entry: bytes | None) -> None:
        """The link sends this message not, and none behind it; None if there is no such message."""
        if entry is not None:
            self.head, self._offset = b"", offset_of(entry[:HEAD_BYTES])

    def next_offset(self, consumer: Consumer) -> StreamPosition | float | None:
        """Where the link goes on whose consumer this was. None if only the leader knew that: the link has had no
        message, and its leader was lost before it had said where the link begins."""
        if self.head:
            before = offset_of(self.head)
            return None if before is None else before + 1
        if self._offset is not None:
            return self._offset
        return begin_anew(consumer)
