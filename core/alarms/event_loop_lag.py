"""The notice that the event loop is late: all work of the broker is delayed by as much.

A single late wake-up is over too soon to be seen. So the notice stays on until ``REMEMBERED`` wake-ups in a row were in
time. Its figure is the longest lag of these wake-ups.
"""

from collections import deque

from core.alarms.registry import AlarmRegistry

REMEMBERED = 20
"""How many wake-ups count: those of 10 to 20 seconds, with one or two a second."""


class LagNotice:
    """The lags of the last wake-ups of one task."""

    def __init__(self, registry: AlarmRegistry, *, limit_s: float) -> None:
        self._registry = registry
        self._limit_s = limit_s
        self._lags: deque[float] = deque(maxlen=REMEMBERED)

    def sample(self, lag_s: float) -> None:
        """Note that the task was woken ``lag_s`` seconds late, and raise or clear the notice."""
        self._lags.append(lag_s)
        worst = max(self._lags)
        self._registry.measured("event-loop-lag", {"limit_s": self._limit_s, "worst_s": round(worst, 6)})
        cause = f"the event loop was late by {worst:.3f} s, the limit is {self._limit_s:g} s"
        self._registry.notice("event-loop-lag", worst > self._limit_s, cause)
