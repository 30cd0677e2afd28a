"""The length limit of a queue: how much may stand ready in it, in messages and in bytes, and what happens there.

- drop-head: what is beyond the limit leaves at the front, after consumers have been served;
- reject-publish: what has no room is rejected, exactly, also in the middle of a run;
- reject-publish-dlx: as above, and a copy of it is dead-lettered;
- block: publishers get no more link credit while the queue is full. What was on its way is taken on still.

With both limits, the one that is reached first holds.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from core.engine.options import Overflow, QueueOptions
from core.errors import LimitReached
from core.interface import Publisher, PublisherBlocked

QUEUE_FULL = "queue-full"
"""The reason that blocked publishers are told, one of docs/flow-reasons."""


class LengthLimit:
    """The limit of one queue, as its options say."""

    __slots__ = ("_bytes", "_messages", "blocks", "copies", "drops", "error", "rejects")

    def __init__(self, queue: str, options: QueueOptions) -> None:
        self._messages = options.max_length
        self._bytes = options.max_length_bytes
        limited = self._messages is not None or self._bytes is not None
        self.drops = limited and options.overflow is Overflow.DROP_HEAD
        self.rejects = limited and options.overflow in (Overflow.REJECT_PUBLISH, Overflow.REJECT_PUBLISH_DLX)
        self.copies = limited and options.overflow is Overflow.REJECT_PUBLISH_DLX
        """What is rejected is dead-lettered too."""
        self.blocks = limited and options.overflow is Overflow.BLOCK
        self.error = LimitReached(
            f"queue '{queue}' is full: its limit is {_limits(options)} ready; consume from it or raise the limit"
        )
        """For what is rejected; one object, so that answers can be joined."""

    def room(self, entries: Sequence[bytes], ready: int, ready_bytes: int) -> int:
        """How many of these, from the first, may be added to what is ready."""
        room = len(entries)
        if self._messages is not None:
            room = min(room, max(0, self._messages - ready))
        if self._bytes is not None and ready_bytes + sum(map(len, entries)) > self._bytes:
            room = min(room, bisect_right(list(accumulate(map(len, entries))), self._bytes - ready_bytes))
        return room

    def full(self, ready: int, ready_bytes: int) -> bool:
        """True when nothing more has room."""
        return (self._messages is not None and ready >= self._messages) or (
            self._bytes is not None and ready_bytes >= self._bytes
        )

    def excess(self, ready: int, ready_bytes: int) -> int:
        """How many messages are beyond the limit; 1 for as long as there are too many bytes."""
        over = 0 if self._messages is None else max(0, ready - self._messages)
        return max(over, int(self._bytes is not None and ready_bytes > self._bytes and ready > 0))


class Blocked:
    """The publishers of one queue that have been told to wait."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: set[Publisher] = set()

    def tell(self, publishers: Iterable[Publisher], full: bool) -> None:
        """Tell each publisher once that the queue is full, and once that it is so no longer."""
        if full:
            for publisher in publishers:
                if publisher not in self._told:
                    publisher.mailbox.put(PublisherBlocked(publisher, QUEUE_FULL))
            self._told = set(publishers)
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
