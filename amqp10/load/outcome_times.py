"""How long messages wait for their outcome, measured at their publisher."""

from __future__ import annotations

from collections import deque

from hdrh.histogram import HdrHistogram

from amqp10.load.checks import LATENCY_MICROSECONDS_MAX, latency_histogram

RECENT_MAX = 1000
"""Different times that are not in the histogram yet; to take so many over needs 3 ms. A second with a steady load has
fewer."""


class OutcomeTimes:
    """The times from sending messages to their outcomes, as if these came in order."""

    __slots__ = ("_bursts", "_histogram", "_recent", "_timed")

    def __init__(self) -> None:
        self._histogram = latency_histogram()
        self._recent: dict[int, int] = {}
        """Messages by microseconds that are not in the histogram yet: to count one there takes as long as to take a
        confirm and to send the next message, which would wait for it."""
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
            self._recent[microseconds] = self._recent.get(microseconds, 0) + upto - self._timed
            self._timed = upto
            if upto == behind:
                self._bursts.popleft()
        if len(self._recent) > RECENT_MAX:
            self._record()

    @property
    def latency(self) -> HdrHistogram:
        """All times so far in microseconds."""
        self._record()
        return self._histogram

    def _record(self) -> None:
        for microseconds, count in self._recent.items():
            self._histogram.record_value(microseconds, count)
        self._recent.clear()
