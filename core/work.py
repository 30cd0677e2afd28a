"""A count of the work done in the event loop, in units; a peer's turn is bounded by it.

A unit is work of about a microsecond: looking at a binding, visiting a node of a tree, putting a message into a queue.
Code whose work a client can multiply adds it to this count, and the pumps and front ends end a turn by it. Units are
counted, not measured, so the same input always ends its turn at the same place.
"""

from collections.abc import Iterator

AMPLE = 2**62

SEARCHED_MAX = 2
"""Messages to one exchange that a front end hands to the engine together although the route of each is searched, as it
is where headers decide. A search may take 5 ms, with thousands of bindings; a call of its own for each message would
cost 10 µs more."""


class Work:
    """The count of one process. ``spent`` only grows."""

    __slots__ = ("allowance", "bytes_read", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self.bytes_read = 0
        """Bytes that were read from sockets; it only grows."""
        self.allowance = AMPLE
        """The most that one peer may do in its turn, whatever is configured; small while many peers want a turn at
        once."""

    def take_steps(self, steps: Iterator[object], *, until: int, cost: int) -> bool:
        """Take steps, which count as ``cost`` each beside what they add themselves, until ``spent`` reaches ``until``.
        Returns whether none is left."""
        while self.spent < until:
            self.spent += cost
            if next(steps, self) is self:
                return True
        return False
