"""Long work that is cut: a walk is a generator that gives None wherever others may have their turn.

A walk returns what it has found. In the event loop :func:`core.admin.slices.conclusion` runs one, a slice at a time; a
command, which has no others to wait for it, runs one at a stretch.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from heapq import merge
from typing import Any, TypeVar

Found = TypeVar("Found")

Walk = Generator[None, None, Found]

RUN_ITEMS = 200
"""Sorted at once: a fraction of a millisecond, keys included."""


def at_a_stretch(walk: Walk[Found]) -> Found:
    """What a walk finds, for who need not let others work."""
    while True:
        try:
            next(walk)
        except StopIteration as end:
            found: Found = end.value
            return found


def gathered(items: Iterable[Found]) -> Walk[list[Found]]:
    """A list of them, with a pause possible behind each."""
    found = []
    for item in items:
        found.append(item)
        yield
    return found


def in_order(items: Sequence[Found], *, key: Callable[[Found], Any], reverse: bool = False) -> Walk[list[Found]]:
    """The same as ``sorted``: runs are sorted by themselves, then merged item by item."""
    runs = []
    for start in range(0, len(items), RUN_ITEMS):
        runs.append(sorted(items[start : start + RUN_ITEMS], key=key, reverse=reverse))
        yield
    return (yield from gathered(merge(*runs, key=key, reverse=reverse)))
