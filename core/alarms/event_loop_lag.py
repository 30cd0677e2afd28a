"""The notice that the event loop is late: everything that the broker does waits for as long.

One late wake-up is soon over, and nobody would see it. So the notice stays on until a number of wake-ups in a row were
in time, and its figure is the worst of these.
"""

from collections import deque

from core.alarms.registry import AlarmRegistry

REMEMBERED = 20
"""Wake-ups: 10 to 20 seconds, with one or two a second."""


class LagNotice:
    """The last wake-ups of one task: how late they were."""

    def __init__(self, registry: AlarmRegistry, *, limit_s: float) -> None:
        self._registry = registry
        self._limit_s = limit_s
        self._lags: deque[float] = deque(maxlen=REMEMBERED)

    def sample(self, lag_s: float) -> None:
        """A task was woken so late."""
        self._lags.append(lag_s)
        worst = max(self._lags)
        self._registry.measured("event-loop-lag", {"limit_s": self._limit_s, "worst_s": round(worst, 6)})
        cause = f"the event loop was late by {worst:.3f} s, the limit is {self._limit_s:g} s"
        self._registry.notice("event-loop-lag", worst > self._limit_s, cause)
