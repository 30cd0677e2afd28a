"""How large the messages are that publishers send: counts by size, and the sum of all sizes."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
"""Upper bounds in bytes: those of RabbitMQ 4.1, so that its histogram and ours can be added up."""


class MessageSizes:
    """A histogram of sizes in bytes. Front ends add to both attributes themselves where a whole run has one size."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SIZES) + 1)
        """For each bound, the messages that are not larger, but larger than the bound before; last, the others."""
        self.total = 0
        """The sum of all sizes."""

    def add(self, entries: Sequence[bytes], more: int = 0) -> None:
        """Count messages, at least one, each with ``more`` bytes beside its entry."""
        sizes = list(map(len, entries))
        self.total += sum(sizes) + len(sizes) * more
        place = bisect_left(SIZES, min(sizes) + more)
        if place == bisect_left(SIZES, max(sizes) + more):  # the rule; a quarter of the cost of counting them by size
            self.counts[place] += len(sizes)
            return
        for size, count in Counter(sizes).items():
            self.counts[bisect_left(SIZES, size + more)] += count
