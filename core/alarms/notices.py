"""What a measurement makes of the two notices: few connections are left, and the event loop is late.

All work of the broker is delayed by as much as the event loop is late. A single late wake-up is over too soon to be
seen. So that notice stays on until ``REMEMBERED`` wake-ups in a row were in time. Its figure is the longest lag of
these wake-ups.
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


class DescriptorNotice:
    """The notice that the broker will soon have to refuse connections."""

    def __init__(self, registry: AlarmRegistry, *, share: float) -> None:
        self._registry = registry
        self._share = share

    def sample(self, *, sockets_used: int, sockets_limit: int) -> None:
        """Raise or clear the notice, given the connections in use and the most that are possible."""
        self._registry.measured("descriptors", {"limit": sockets_limit, "used": sockets_used})
        cause = f"{sockets_used} of {sockets_limit} possible connections are in use"
        self._registry.notice("descriptors", sockets_used > self._share * sockets_limit, cause)
