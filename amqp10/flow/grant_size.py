"""How many messages a queue hands over for one consumer at a time: as many as the consumer settles meanwhile.

A batch of the same size for every consumer is too large for a slow one: of 500 ready messages it takes 256, and the
others find nothing. So with adaptive flow control a batch has twice what the consumer settles in the time that a
message takes from its delivery to its settlement, or in :data:`TURN_SECONDS` if that is longer. This bounds no link
credit: a consumer that has link credit left gets its next batch as soon as this one is written. But a quick consumer
gets as many messages as its rate is higher in the same time.

Of a run of deliveries at a time, the first and the last are timed. Only the least time ever counts as the way to the
client and back, because a client with many messages lets each of them wait behind the others, and a batch that followed
that wait would grow with it. A consumer whose timed run is late gets small batches until it has settled that run.
"""

from collections.abc import Callable, Sequence
from math import inf

from amqp10.flow.windowed import Windowed

TURN_SECONDS = 0.05
"""A batch lasts so long at least, at the rate at which its consumer settles: as long as the event loop may be busy."""
RATE_SECONDS = 3.0
"""How long the highest rate of settling counts."""
LATE = 4
"""A timed run is late after so many times what its batch was made for."""
MEAN_FALLS = 0.1
"""The share of a smaller mean size in the new one."""
SECONDS_MIN = 1e-4
"""The shortest time for which a rate is computed; less is within one turn of the event loop."""


class GrantSize:
    """The size of one consumer's batches, in messages, between two bounds, and no more bytes than a third one."""

    __slots__ = (
        "_at",
        "_bytes_max",
        "_clock",
        "_first",
        "_last",
        "_least",
        "_most",
        "_rates",
        "_seconds",
        "_settled",
        "_size",
        "message_bytes",
        "rate",
    )

    def __init__(self, *, least: int, most: int, bytes_max: int, clock: Callable[[], float]) -> None:
        """``clock`` has the time of the present turn, in seconds. The first batches have ``least`` messages."""
        self._least, self._most, self._bytes_max = least, max(least, most), bytes_max
        self._clock = clock
        self._size = least
        self._first = self._last = -1
        """The numbers of the first and the last delivery of the timed run; -1 when they are settled."""
        self._at = 0.0
        self._settled = 0
        """Messages that were settled since then."""
        self._seconds = inf
        """The least time from a delivery to its settlement."""
        self._rates = Windowed(max, RATE_SECONDS)
        self.rate = 0.0
        """Messages a second that the consumer settles; 0 before the first."""
        self.message_bytes = 0.0
        """The size of a message: rises at once to the mean of the timed run, and falls by tenths."""

    @property
    def size(self) -> int:
        """How many messages to ask for now, at least 1."""
        size = self._least if self._is_late() else self._size
        return max(1, min(size, int(self._bytes_max / max(1.0, self.message_bytes))))

    def delivered(self, first: int, entries: Sequence[bytes]) -> None:
        """Messages with numbers from ``first`` up go to the consumer."""
        if self._last >= 0:
            return
        self._first, self._last, self._at, self._settled = first, first + len(entries) - 1, self._clock(), 0
        mean = sum(map(len, entries)) / len(entries)
        self.message_bytes = max(mean, self.message_bytes + MEAN_FALLS * (mean - self.message_bytes))

    def settled(self, first: int, last: int, messages: int) -> None:
        """The consumer has settled ``messages`` deliveries with numbers from ``first`` to ``last``."""
        self._settled += messages
        if first <= self._first <= last:
            self._first = -1
            self._seconds = min(self._seconds, self._clock() - self._at)
        if first <= self._last <= last:
            self._last = self._first = -1
            now = self._clock()
            self.rate = self._rates.add(now, self._settled / max(SECONDS_MIN, now - self._at))
            self._size = max(self._least, min(int(2 * self.rate * self._lasts), self._most))

    def returned(self, first: int, last: int) -> None:
        """Deliveries with these numbers went back to the queue before they were sent, which says nothing of the
        consumer."""
        if first <= self._last and last >= self._first:
            self._first = self._last = -1

    @property
    def _lasts(self) -> float:
        """For how many seconds of settling a batch is made."""
        return max(TURN_SECONDS, self._seconds) if self._seconds < inf else TURN_SECONDS

    def _is_late(self) -> bool:
        return self._last >= 0 and self._clock() - self._at > LATE * self._lasts
