"""Times of small functions: the best of several repeats, because every disturbance only adds time."""

import timeit
from collections.abc import Callable

REPEATS = 7
REPEAT_SECONDS = 0.05
"""Long compared with the clock's resolution, short enough that some repeat is not disturbed."""


def best_ns(work: Callable[[], object], *, items: int = 1) -> float:
    """Nanoseconds for each of the items that one call of ``work`` processes."""
    timer = timeit.Timer(work)
    calls, seconds = timer.autorange()
    number = max(1, round(calls * REPEAT_SECONDS / seconds))
    return min(timer.repeat(REPEATS, number)) / number / items * 1e9


def show(name: str, work: Callable[[], object], *, items: int = 1) -> None:
    """Print one line of a table: the name and the time for each item."""
    print(f"{name:58} {best_ns(work, items=items):9.0f} ns")
