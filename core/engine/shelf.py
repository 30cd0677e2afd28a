"""A shelf: the ready messages of one priority level, and how they leave.

What came back from consumers (``returned.py``) stands in front of what they have not seen yet (the backing). A queue
has one shelf, or one for each priority that it tells apart.

A stretch that was paged out is read back when it is taken from the shelf, so no other module meets one, except where
messages that consumers hold are disposed of.
"""

from collections.abc import Iterable

from core.engine.backing import Backing, KeepsDiscards, Pages
from core.engine.returned import Returned
from core.engine.stretch import Stretch

ANYBODY = object()
"""A consumer that nothing is barred for."""


class Shelf:
    """One backing and what came back in front of it. The parts may be read; messages are taken through it."""

    __slots__ = ("backing", "discards", "level", "pages", "returned")

    def __init__(self, level: int, backing: Backing) -> None:
        self.level = level
        self.backing = backing
        self.returned = Returned()
        self.pages = backing if isinstance(backing, Pages) else None
        """The backing, if it is one that pages."""
        self.discards = backing if isinstance(backing, KeepsDiscards) else None
        """The backing, if it remembers what is being dead-lettered."""

    @property
    def ready(self) -> int:
        """Messages that a consumer could get."""
        return self.returned.count + self.backing.depth

    @property
    def ready_bytes(self) -> int:
        """Bytes of their entries, without those that are returned and paged out."""
        return self.returned.bytes + self.backing.ready_bytes

    @property
    def head_sequence(self) -> int | None:
        """The position of the first message, or a little lower; None when there is none."""
        return self.returned.head_sequence if self.returned.count else self.backing.head_sequence

    @property
    def head_expires_at(self) -> float | None:
        """When the first message expires (wall-clock seconds); None for never, and when there is none."""
        return self.returned.head_expires_at if self.returned.count else self.backing.head_expires_at

    def fetch(self, n: int) -> Stretch | None:
        """The first messages, ``n`` at most and alike. Only for when no returned message is barred for a consumer."""
        stretch = self.returned.fetch(n) if self.returned.count else self.backing.fetch(n)
        if stretch is not None:
            stretch.level = self.level
            if stretch.paged:
                self.backing.restore(stretch)
        return stretch

    def fetch_for(self, consumer: object) -> Stretch | None:
        """The first message that this consumer may have."""
        stretch = self.returned.fetch_for(consumer, 1) or self.backing.fetch(1)
        if stretch is not None:
            stretch.level = self.level
            if stretch.paged:
                self.backing.restore(stretch)
        return stretch

    def fetch_head(self, n: int) -> Stretch | None:
        """The first messages, whichever consumer may have them, ``n`` at most and alike."""
        return self.fetch_for(ANYBODY) if self.returned.has_barred else self.fetch(n)

    def put_back(self, stretch: Stretch) -> None:
        """Messages return to their positions."""
        self.returned.add(stretch)
        self.backing.give_back(stretch)

    def restore(self, stretch: Stretch) -> None:
        """Have the entries of a stretch at hand."""
        if stretch.paged:
            self.backing.restore(stretch)

    def purge(self) -> int:
        """Drop all messages; returns how many."""
        for stretch in self.returned.stretches():
            self.backing.settle(stretch)
        return self.returned.purge() + self.backing.purge()


def oldest(shelves: Iterable[Shelf]) -> int | None:
    """The lowest position of all that is ready; None when there is nothing."""
    return min((head for shelf in shelves if (head := shelf.head_sequence) is not None), default=None)
