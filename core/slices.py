"""Long work in slices. A walk is a generator that yields wherever other tasks may run: None if it can go on at once,
or a function that takes what is to be called when it can go on.

A walk returns its result. In the event loop :func:`core.admin.slices.conclusion` runs one, a slice at a time; a
command, in which no other task waits, runs one without a pause.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from heapq import merge
from typing import Any, TypeVar

Found = TypeVar("Found")

WhenOver = Callable[[Callable[[], None]], None]
"""Takes a function, and calls it when there is nothing left to wait for."""
Walk = Generator[WhenOver | None, None, Found]

RUN_ITEMS = 200
"""Items sorted in one slice: a fraction of a millisecond, keys included."""


def run_at_once(walk: Walk[Found]) -> Found:
    """Run a walk without a pause and return its result, where no other task waits."""
    while True:
        try:
            next(walk)
        except StopIteration as end:
            found: Found = end.value
            return found


def gathered(items: Iterable[Found]) -> Walk[list[Found]]:
    """Return the items as a list, yielding after each."""
    found = []
    for item in items:
        found.append(item)
        yield
    return found


def in_order(items: Sequence[Found], *, key: Callable[[Found], Any], reverse: bool = False) -> Walk[list[Found]]:
    """Return the items as ``sorted`` would: short runs are sorted first, then merged item by item."""
    runs = []
    for start in range(0, len(items), RUN_ITEMS):
        runs.append(sorted(items[start : start + RUN_ITEMS], key=key, reverse=reverse))
        yield
    return (yield from gathered(merge(*runs, key=key, reverse=reverse)))
