"""How much has been done in the event loop, in units: what a peer's turn is bounded by.

A unit is what takes about a microsecond: a binding that is looked at, a place of a tree that is visited, a message that
goes into a queue. Code whose work a client can multiply adds it to this count, and the pumps and front ends end a turn
by it. Units are counted, not measured, so the same input always ends its turn at the same place.
"""

AMPLE = 2**62


class Work:
    """The count of one process. It only grows."""

    __slots__ = ("allowance", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self.allowance = AMPLE
        """What one peer may do in its turn at most, whatever is configured: little while many want a turn at once."""
