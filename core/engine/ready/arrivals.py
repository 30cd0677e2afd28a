"""The approximate arrival times of a queue's messages. No time is kept for each message; a list of marks is kept
instead.

A mark is a sequence number and a time. The message with this number, and all up to the next mark, arrived at this time
or a little later. The queue sets a mark at most every ``GRAIN_S`` seconds. Marks are thinned from time to time, older
ones more than newer ones. So a reported age is never too low; it is too high by at most ``GRAIN_S`` or ``AGE_SHARE`` of
the age, whichever is more. The first mark also stands for all messages before it: these are the messages that the queue
kept over a restart, and their age counts from that restart.

Bound: after thinning, each mark is older than the next but one by more than ``AGE_SHARE``, and at most 10 marks are
younger than ``GRAIN_S`` / ``AGE_SHARE`` (1 second). So 249 marks are left after a day and 421 after ten years, at 16
bytes each. Up to twice as many gather before the next thinning.
"""

from array import array
from bisect import bisect_right

GRAIN_S = 0.1
"""Seconds. Operators need no finer age, and ten marks a second cost a busy queue nothing."""
AGE_SHARE = 0.1
"""A relative error. Operators need to tell a minute from an hour, not more."""
THINNED_FROM = 64
"""Fewer marks are not thinned: they take 1 KiB, and a busy queue sets them in six seconds."""


class ArrivalTimes:
    """The arrival times of one queue's messages. Times are monotonic seconds."""

    __slots__ = ("_sequences", "_thin_at", "_times", "due")

    def __init__(self) -> None:
        self.due = 0.0
        """When the next mark is to be set."""
        self._sequences = array("Q")
        self._times = array("d")
        self._thin_at = THINNED_FROM

    def __len__(self) -> int:
        return len(self._times)

    def mark(self, sequence: int, now: float, *, anew: bool = False) -> None:
        """Record that messages from this sequence number up arrive now. ``anew``: no earlier message is left in the
        queue, so the earlier marks are dropped."""
        if anew:
            del self._sequences[:], self._times[:]
            self._thin_at = THINNED_FROM
        self._sequences.append(sequence if self._times else 0)
        self._times.append(now)
        self.due = now + GRAIN_S
        if len(self._times) >= self._thin_at:
            self._thin(now)
            self._thin_at = max(THINNED_FROM, 2 * len(self._times))

    def age(self, sequence: int | None, now: float) -> float | None:
        """Return the seconds since this message arrived; None if ``sequence`` is None and before the first mark."""
        if sequence is None or not self._times:
            return None
        return max(0.0, now - self._times[bisect_right(self._sequences, sequence) - 1])

    def _thin(self, now: float) -> None:
        """Drop each mark whose messages the mark before it can stand for: the time from that mark to the last of these
        messages is at most ``AGE_SHARE`` of the message's age."""
        times = self._times
        kept = [0]
        for place in range(1, len(times) - 1):
            if times[place + 1] - times[kept[-1]] > AGE_SHARE * (now - times[place + 1]):
                kept.append(place)
        kept.append(len(times) - 1)
        self._sequences = array("Q", [self._sequences[place] for place in kept])
        self._times = array("d", [times[place] for place in kept])
