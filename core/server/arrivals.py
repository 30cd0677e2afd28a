"""When each unanswered message of a publisher arrived: how long answers take, and how old the oldest unanswered one is.

Each run is stamped with the time of the turn in which it arrived; neighbouring runs of one turn share a stamp. Answers
mostly come in order, and then an answer looks at one stamp only. Message numbers are the publisher's own and only grow.

Bound: :data:`STAMPS_MAX` stamps. While that many messages wait unanswered, later ones share the newest stamp.
"""

from collections.abc import Mapping

from core.counters.flow_totals import Durations

STAMPS_MAX = 512
"""A link of AMQP 1.0 has 255 unanswered messages at most. A channel may have more, from as many turns of some
milliseconds each: this is a second or more of them."""


class _Stamp:
    """Messages that arrived at one time, numbered ``first`` to ``last``, both inclusive."""

    __slots__ = ("at", "durable", "first", "last", "left")

    def __init__(self, first: int, last: int, durable: bool, at: float) -> None:
        self.first = first
        self.last = last
        self.left = last - first + 1
        """How many of them are not answered."""
        self.durable = durable
        self.at = at


class UnansweredArrivals:
    """The arrival times of one publisher's unanswered messages."""

    __slots__ = ("_durations", "_stamps")

    def __init__(self, durations: Mapping[bool, Durations]) -> None:
        """``durations`` has a histogram for durable messages and one for others; each answer is entered there."""
        self._durations = durations
        self._stamps: list[_Stamp] = []
        """A list, since most publishers have none or few: an empty deque takes ten times as much memory."""

    def came(self, first: int, n: int, *, durable: bool, now: float) -> None:
        """Note the arrival of ``n`` messages. Their numbers must be higher than all before."""
        stamps = self._stamps
        if stamps:
            newest = stamps[-1]
            alike = newest.at == now and newest.last + 1 == first and newest.durable is durable
            if alike or len(stamps) >= STAMPS_MAX:
                newest.last = first + n - 1
                newest.left += n
                return
        stamps.append(_Stamp(first, first + n - 1, durable, now))

    def answered(self, first: int, last: int, now: float) -> None:
        """Note that these messages are answered, each for the first time. Numbers without a stamp are ignored."""
        stamps = self._stamps
        for stamp in stamps:
            if stamp.first > last:
                break
            low = max(stamp.first, first)
            high = min(stamp.last, last)
            if low <= high:
                stamp.left -= high - low + 1
                self._durations[stamp.durable].observe(now - stamp.at, high - low + 1)
        while stamps and not stamps[0].left:
            del stamps[0]

    @property
    def oldest(self) -> float | None:
        """When the oldest unanswered message arrived (monotonic seconds); None when all are answered."""
        return self._stamps[0].at if self._stamps else None
