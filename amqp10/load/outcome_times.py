"""How long messages wait for their outcome, measured at their publisher."""

from __future__ import annotations

from collections import deque

from hdrh.histogram import HdrHistogram

from amqp10.load.checks import LATENCY_MICROSECONDS_MAX, latency_histogram


class OutcomeTimes:
    """The times from sending messages to their outcomes, as if these came in order. `latency` has them in
    microseconds."""

    __slots__ = ("_bursts", "_timed", "latency")

    def __init__(self) -> None:
        self.latency: HdrHistogram = latency_histogram()
        self._bursts: deque[tuple[int, int]] = deque()
        """Messages without an outcome: the number behind the last one of a burst, and when it was to be sent."""
        self._timed = 0
        """Messages whose outcome has been timed."""

    def sent(self, behind: int, at_ns: int) -> None:
        """Note that all messages below this number that were not noted yet are sent at this time."""
        self._bursts.append((behind, at_ns))

    def settled(self, count: int, now_ns: int) -> None:
        """Note that so many messages have an outcome in all."""
        while self._bursts and self._timed < count:
            behind, sent_ns = self._bursts[0]
            microseconds = min(max(1, (now_ns - sent_ns) // 1000), LATENCY_MICROSECONDS_MAX)
            upto = min(behind, count)
            self.latency.record_value(microseconds, upto - self._timed)
            self._timed = upto
            if upto == behind:
                self._bursts.popleft()
