"""A shelf: the ready messages of one priority level of a queue.

Returned messages (``returned.py``) come before messages that were not delivered yet (the backing). A queue has one
shelf for each of its priority levels.

A paged-out stretch is read back when it is taken from the shelf. So other modules see paged-out stretches only when
messages that consumers hold are settled.
"""

from collections.abc import Iterable

from core.engine.ready.backing import Backing, KeepsDiscards, Pages
from core.engine.ready.returned import Returned
from core.engine.ready.stretch import Stretch

ANYBODY = object()
"""Stands for a consumer for which no message is barred."""


class Shelf:
    """A backing and the returned messages in front of it. Callers may read both parts, but take messages through the
    shelf only."""

    __slots__ = ("backing", "discards", "level", "pages", "returned")

    def __init__(self, level: int, backing: Backing) -> None:
        self.level = level
        self.backing = backing
        self.returned = Returned()
        self.pages = backing if isinstance(backing, Pages) else None
        """The backing, if it can page out; else None."""
        self.discards = backing if isinstance(backing, KeepsDiscards) else None
        """The backing, if it records which messages are being dead-lettered; else None."""

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

    def fetch(self, n: int) -> Stretch | None:
        """Take up to ``n`` of the first messages that are alike. Only while no returned message is barred for a
        consumer."""
        stretch = self.returned.fetch(n) if self.returned.count else self.backing.fetch(n)
        if stretch is not None:
            stretch.level = self.level
            if stretch.paged:
                self.backing.restore(stretch)
        return stretch

    def fetch_for(self, consumer: object) -> Stretch | None:
        """Take the first message that is not barred for this consumer."""
        stretch = self.returned.fetch_for(consumer, 1) or self.backing.fetch(1)
        if stretch is not None:
            stretch.level = self.level
            if stretch.paged:
                self.backing.restore(stretch)
        return stretch

    def fetch_head(self, n: int) -> Stretch | None:
        """Take up to ``n`` of the first messages that are alike, for no particular consumer."""
        return self.fetch_for(ANYBODY) if self.returned.has_barred else self.fetch(n)

    def put_back(self, stretch: Stretch) -> None:
        """Return messages to their positions."""
        self.returned.add(stretch)
        self.backing.give_back(stretch)

    def restore(self, stretch: Stretch) -> None:
        """Read the entries of a stretch back if it is paged out."""
        if stretch.paged:
            self.backing.restore(stretch)


def oldest(shelves: Iterable[Shelf]) -> int | None:
    """The lowest position of all ready messages; None if there are none."""
    return min((head for shelf in shelves if (head := shelf.head_sequence) is not None), default=None)
