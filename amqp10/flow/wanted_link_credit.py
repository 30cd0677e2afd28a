"""Link credit beyond the configured one, for a publisher that asks for it in its attach.

Each flow of the broker costs a sender a round trip when it waits for it, and both sides a frame. A sender of many small
messages, such as Spark's sink, asks for as much link credit as it can use. It gets that as long as its messages are so
small that the byte budgets have room for all that may be under way; never less than the configured link credit.
"""

from amqp10.flow.byte_budget import ByteBudget

UNDER_WAY = 1.5
"""Messages under way for each of link credit: a top-up at half leaves half of the former link credit unconfirmed."""
SMALLER_STEP = 0.1
"""How far the size that is reckoned with follows smaller messages, at each top-up; it follows larger ones at once."""


class WantedLinkCredit:
    """The link credit of one publisher that asks for more than ``ordinary``. Counts are messages."""

    __slots__ = ("_budget", "_held", "_ordinary", "_received", "_size", "_unconfirmed_limit", "bytes_received", "most")

    def __init__(self, *, ordinary: int, unconfirmed_limit: int, budget: ByteBudget) -> None:
        """``ordinary`` and ``unconfirmed_limit`` are as configured for all publishers."""
        self._ordinary = ordinary
        self._unconfirmed_limit = unconfirmed_limit
        self._budget = budget
        self.bytes_received = 0
        """Since the last top-up; the link counts them."""
        self.most = ordinary
        """The link credit that the next top-up gives. The first is the ordinary one: no size is known yet."""
        self._received = 0
        self._size = 0.0
        self._held = 0

    @property
    def unconfirmed_limit(self) -> int:
        """No more link credit while so many messages are not confirmed."""
        return max(self._unconfirmed_limit, self.most)

    def top_up(self, maximum: int, received: int) -> None:
        """Choose :attr:`most`, up to ``maximum``, after ``received`` messages in all."""
        came, self._received = received - self._received, received
        if came:
            mean, self.bytes_received = self.bytes_received / came, 0
            self._size = max(mean, self._size + SMALLER_STEP * (mean - self._size))
        self.most = min(maximum, self._ordinary)
        if not self._size:
            return
        room, size = self._budget.room(self._held), self._size * UNDER_WAY
        self.most = max(self.most, min(maximum, int(room / size)))
        held = min(room, int(self.most * size))
        self._budget.change(held - self._held)
        self._held = held

    def skip(self, received: int) -> None:
        """So many messages in all came before the link credit followed this."""
        self._received = received

    def close(self) -> None:
        """The link is gone."""
        self._budget.change(-self._held)
        self._held = 0
