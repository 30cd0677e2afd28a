"""A sub-queue: the ready messages of one priority level of a queue.

Returned messages (``returned.py``) come before messages that were not delivered yet (the backing). A queue has one
sub-queue for each of its priority levels.

A paged-out batch is read back when it is taken from the sub-queue. So other modules see paged-out batches only when
messages that consumers hold are settled.
"""

from collections.abc import Iterable
from typing import cast

from core.engine.ready.backing import Backing, Pages
from core.engine.ready.batch import Batch
from core.engine.ready.returned import ReturnedMessages

ANY_CONSUMER = object()
"""Stands for a consumer for which no message is barred."""

_PAGING: dict[type[Backing], bool] = {}
"""Whether the backings of a class page out. To look at one takes 21 us in Python 3.11, for each queue."""


class SubQueue:
    """A backing and the returned messages in front of it. Callers may read both parts, but take messages through the
    sub-queue only."""

    __slots__ = ("backing", "level", "pages", "returned")

    def __init__(self, level: int, backing: Backing) -> None:
        self.level = level
        self.backing = backing
        self.returned = ReturnedMessages()
        kind = type(backing)
        if kind not in _PAGING:
            _PAGING[kind] = isinstance(backing, Pages)
        self.pages = cast("Pages", backing) if _PAGING[kind] else None
        """The backing, if it can page out; else None."""

    @property
    def ready(self) -> int:
        """How many messages a consumer could get."""
        return self.returned.count + self.backing.depth

    @property
    def ready_bytes(self) -> int:
        """How many bytes their entries have, without returned messages that are paged out."""
        return self.returned.bytes + self.backing.ready_bytes

    @property
    def head_sequence(self) -> int | None:
        """The position of the first message, or a little lower; None if there is none."""
        return self.returned.head_sequence if self.returned.count else self.backing.head_sequence

    @property
    def head_expires_at(self) -> float | None:
        """When the first message expires (wall-clock seconds); None if never, and if there is none."""
        return self.returned.head_expires_at if self.returned.count else self.backing.head_expires_at

    def fetch(self, n: int) -> Batch | None:
        """Take up to ``n`` of the first messages that are alike. Only while no returned message is barred for a
        consumer."""
        batch = self.returned.fetch(n) if self.returned.count else self.backing.fetch(n)
        if batch is not None:
            batch.level = self.level
            if batch.paged:
                self.backing.restore(batch)
        return batch

    def fetch_for(self, consumer: object) -> Batch | None:
        """Take the first message that is not barred for this consumer."""
        batch = self.returned.fetch_for(consumer, 1) or self.backing.fetch(1)
        if batch is not None:
            batch.level = self.level
            if batch.paged:
                self.backing.restore(batch)
        return batch

    def fetch_head(self, n: int) -> Batch | None:
        """Take up to ``n`` of the first messages that are alike, for no particular consumer."""
        return self.fetch_for(ANY_CONSUMER) if self.returned.has_barred else self.fetch(n)

    def put_back(self, batch: Batch) -> None:
        """Return messages to their positions."""
        self.returned.add(batch)
        self.backing.give_back(batch)

    def restore(self, batch: Batch) -> None:
        """Read the entries of a batch back if it is paged out."""
        if batch.paged:
            self.backing.restore(batch)


def oldest(sub_queues: Iterable[SubQueue]) -> int | None:
    """The lowest position of all ready messages; None if there are none."""
    return min((head for sub_queue in sub_queues if (head := sub_queue.head_sequence) is not None), default=None)
