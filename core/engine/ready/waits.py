"""A list of entries that wait until a lane has written or synced up to their position.

The backing of a queue stages a message's record in a lane and gets a position. When the lane has reached the position,
the message is confirmed or becomes ready. Positions are ascending, so one list serves all queues of a lane, and the
cost of reaching a position depends only on the number of entries released.

Invariants: positions in the list never decrease from front to back; each entry is released at most once.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Generic, TypeVar

WaitingT = TypeVar("WaitingT")


class Waits(Generic[WaitingT]):
    """Entries that wait for one lane's written, or synced, position."""

    __slots__ = ("_hurry", "_position", "entries")

    def __init__(self, position: Callable[[], int], *, hurry: Callable[[], None] | None = None) -> None:
        """``position`` returns the position that the lane has reached. ``hurry`` is called with each new wait, because
        a lane does not sync at once by itself."""
        self._position = position
        self._hurry = hurry
        self.entries: deque[tuple[int, WaitingT]] = deque()
        """The positions with the entries that wait for them. Callers may read it, to save a call when it is empty."""

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, position: int, waiting: WaitingT) -> None:
        """Add an entry to be released when the position is reached. If it is reached already, the next ``reached``
        releases it."""
        assert not self.entries or position >= self.entries[-1][0]
        self.entries.append((position, waiting))
        if self._hurry is not None:
            self._hurry()

    def reached(self, most: float = inf) -> list[WaitingT]:
        """Remove and return, in order, the entries whose positions have been reached; not more than ``most``."""
        position = self._position()
        entries = self.entries
        released: list[WaitingT] = []
        while entries and entries[0][0] <= position and len(released) < most:
            released.append(entries.popleft()[1])
        return released

    def take(self, first: int, last: int) -> list[WaitingT]:
        """Remove and return, in order, the entries from position ``first`` to ``last``: nothing will reach them."""
        taken = [waiting for position, waiting in self.entries if first <= position <= last]
        if taken:
            self.entries = deque(entry for entry in self.entries if not first <= entry[0] <= last)
        return taken

    def withdraw(self, predicate: Callable[[WaitingT], bool]) -> list[WaitingT]:
        """Remove and return, in order, the entries for which the predicate is true. This reads the whole list."""
        withdrawn = [waiting for _, waiting in self.entries if predicate(waiting)]
        if withdrawn:
            self.entries = deque(entry for entry in self.entries if not predicate(entry[1]))
        return withdrawn
