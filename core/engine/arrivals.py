"""When the messages of a queue came, without keeping anything for each: marks of a sequence number and a time.

A mark says: this number and those up to the next mark came at this time or a little later. One is set at most every
``GRAIN_S`` seconds, by the queue it is about. Now and then marks are thinned, the older the more, so that an age
that is told is too high by ``GRAIN_S`` or by the share ``AGE_SHARE`` of it, whichever is more, and never too low. The
first mark speaks for all that came before it too, which is what a queue kept over a start: of these the age counts from
the start.

Bound: of those that thinning leaves, each is older than the next but one by more than ``AGE_SHARE``; younger than
``GRAIN_S`` / ``AGE_SHARE`` are 10 at most. So 249 are left after a day and 421 after ten years, at 16 bytes each. Up to
twice as many gather until the next thinning.
"""

from array import array
from bisect import bisect_right

GRAIN_S = 0.1
"""No operator looks at an age more closely, and ten marks a second cost a busy queue nothing."""
AGE_SHARE = 0.1
"""An operator asks whether the oldest message is a minute or an hour old."""
THINNED_FROM = 64
"""So few are not worth it: 1 KiB, six seconds of a busy queue."""


class Arrivals:
    """Of one queue. Times are monotonic seconds."""

    __slots__ = ("_sequences", "_thin_at", "_times", "due")

    def __init__(self) -> None:
        self.due = 0.0
        """From then on the next mark is wanted."""
        self._sequences = array("Q")
        self._times = array("d")
        self._thin_at = THINNED_FROM

    def __len__(self) -> int:
        return len(self._times)

    def mark(self, sequence: int, now: float, *, anew: bool = False) -> None:
        """What is taken on from this number up comes now. ``anew``: nothing is left of what came before."""
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
        """Seconds since this message came; None for no message, and before the first mark."""
        if sequence is None or not self._times:
            return None
        return max(0.0, now - self._times[bisect_right(self._sequences, sequence) - 1])

    def _thin(self, now: float) -> None:
        """Leave out each mark whose messages the one before may speak for: even the last of them came after it by no
        more than a share of its age."""
        times = self._times
        kept = [0]
        for place in range(1, len(times) - 1):
            if times[place + 1] - times[kept[-1]] > AGE_SHARE * (now - times[place + 1]):
                kept.append(place)
        kept.append(len(times) - 1)
        self._sequences = array("Q", [self._sequences[place] for place in kept])
        self._times = array("d", [times[place] for place in kept])
