"""The length limit of a queue, in ready messages and in their bytes, and what happens at the limit.

- drop-head: messages beyond the limit are dropped from the front, after consumers have been served;
- reject-publish: messages without room are rejected; a run is split at the exact message;
- reject-publish-dlx: the same, and a copy of each rejected message is dead-lettered;
- block: publishers get no more link credit while the queue is full. Messages that are already on their way are taken
  on.

If both limits are set, the one that is reached first applies.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from core.engine.options.in_force import Overflow, QueueOptions
from core.errors import LimitReached
from core.interface import Publisher, PublisherBlocked

QUEUE_FULL = "queue-full"
"""A reason in ``PublisherBlocked``, of docs/flow-reasons."""


class LengthLimit:
    """The limit of one queue, from its options."""

    __slots__ = ("_bytes", "_messages", "blocks", "copies", "drops", "error", "rejects")

    def __init__(self, queue: str, options: QueueOptions) -> None:
        self._messages = options.max_length
        self._bytes = options.max_length_bytes
        limited = self._messages is not None or self._bytes is not None
        self.drops = limited and options.overflow is Overflow.DROP_HEAD
        self.rejects = limited and options.overflow in (Overflow.REJECT_PUBLISH, Overflow.REJECT_PUBLISH_DLX)
        self.copies = limited and options.overflow is Overflow.REJECT_PUBLISH_DLX
        """Whether copies of rejected messages are dead-lettered."""
        self.blocks = limited and options.overflow is Overflow.BLOCK
        self.error = LimitReached(
            f"queue '{queue}' is full: its limit is {_limits(options)} ready; consume from it or raise the limit"
        )
        """The error for rejected messages. It is always the same object, so that adjoining answers can be joined."""

    def room(self, entries: Sequence[bytes], ready: int, ready_bytes: int) -> int:
        """Return how many of these entries, from the first on, have room beside the ready messages."""
        room = len(entries)
        if self._messages is not None:
            room = min(room, max(0, self._messages - ready))
        if self._bytes is not None and ready_bytes + sum(map(len, entries)) > self._bytes:
            room = min(room, bisect_right(list(accumulate(map(len, entries))), self._bytes - ready_bytes))
        return room

    def full(self, ready: int, ready_bytes: int) -> bool:
        """Return whether no further message has room."""
        return (self._messages is not None and ready >= self._messages) or (
            self._bytes is not None and ready_bytes >= self._bytes
        )

    def excess(self, ready: int, ready_bytes: int) -> int:
        """Return how many messages to drop. While only the bytes are beyond the limit, this is 1 with each call."""
        over = 0 if self._messages is None else max(0, ready - self._messages)
        return max(over, int(self._bytes is not None and ready_bytes > self._bytes and ready > 0))


class BlockedPublishers:
    """The publishers of one queue that have been told to wait."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[Publisher, str] = {}
        """With the reason."""

    def tell(self, publishers: Iterable[Publisher], full: bool, reason: str = QUEUE_FULL) -> None:
        """Tell each publisher once that the queue is full, or has no leader, and once that this has ended."""
        if full:
            for publisher in publishers:
                if self._told.get(publisher) != reason:
                    publisher.mailbox.put(PublisherBlocked(publisher, reason))
            self._told = dict.fromkeys(publishers, reason)
        elif self._told:
            for publisher in publishers:
                if publisher in self._told:
                    publisher.mailbox.put(PublisherBlocked(publisher, None))
            self._told.clear()


def _limits(options: QueueOptions) -> str:
    limits = []
    if options.max_length is not None:
        limits.append(f"{options.max_length} messages (max-length)")
    if options.max_length_bytes is not None:
        limits.append(f"{options.max_length_bytes} bytes (max-length-bytes)")
    return " or ".join(limits)
