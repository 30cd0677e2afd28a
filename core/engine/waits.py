"""What waits for a lane to have written or synced it, in the order of positions.

The backing of a queue stages a message's record and gets a position; the message is confirmed, or becomes
ready, when the lane has come that far. Positions only grow, so one list for all queues of a lane does, and
reaching a position costs as much as what it releases.

Invariants: positions in the list never fall from front to back; a waiter is reached once or never.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

WaitingT = TypeVar("WaitingT")


class Waits(Generic[WaitingT]):
    """Entries that wait for one lane's written, or synced, position."""

    __slots__ = ("_hurry", "_position", "entries")

    def __init__(self, position: Callable[[], int], *, hurry: Callable[[], None] | None = None) -> None:
        """``position`` tells how far the lane has come. ``hurry`` is called at each new wait: a lane does
        not sync at once by itself."""
        self._position = position
        self._hurry = hurry
        self.entries: deque[tuple[int, WaitingT]] = deque()
        """Who waits for which position. To be looked at only: it spares a call to see that there is none."""

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, position: int, waiting: WaitingT) -> None:
        """Release this one when the position is reached. It may have been already: the next look finds it."""
        assert not self.entries or position >= self.entries[-1][0]
        self.entries.append((position, waiting))
        if self._hurry is not None:
            self._hurry()

    def reached(self) -> list[WaitingT]:
        """Take out, in order, whatever waits for positions that have been reached."""
        position = self._position()
        entries = self.entries
        released = []
        while entries and entries[0][0] <= position:
            released.append(entries.popleft()[1])
        return released

    def withdraw(self, predicate: Callable[[WaitingT], bool]) -> list[WaitingT]:
        """Take out, in order, what this picks: it waits no longer. Costs a look at everything that waits."""
        withdrawn = [waiting for _, waiting in self.entries if predicate(waiting)]
        if withdrawn:
            self.entries = deque(entry for entry in self.entries if not predicate(entry[1]))
        return withdrawn
