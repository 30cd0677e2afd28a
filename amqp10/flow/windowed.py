"""The best of what was measured lately: filters over time, for estimates that may become outdated."""

from collections.abc import Callable


class Windowed:
    """The least or the most of what was added within about ``seconds``: of the present and of the last half of them."""

    __slots__ = ("_best", "_half", "_halves", "_last", "_now")

    def __init__(self, best: Callable[[float, float], float], seconds: float) -> None:
        self._best = best
        self._half = seconds / 2
        self._halves = -2.0
        """The present half, counted from time 0."""
        self._last = self._now = 0.0

    def add(self, now: float, value: float) -> float:
        """Add a value; return the best of those that count."""
        passed = now // self._half - self._halves
        if passed:
            self._last = self._now if passed == 1 else value
            self._now = value
            self._halves += passed
        self._now = self._best(self._now, value)
        return self._best(self._last, self._now)
