"""The admin server's share of the event loop: one slice of one answer, then the turns of all other tasks.

Answers that are long are walks (:mod:`core.slices`). However many clients ask at the same time, one walk is on at a
time, and after a slice the next in line goes on; so all of them together hold up messages no longer than one does.
"""

import time
from collections.abc import Callable, Iterator

import trio

from core.slices import Found, Walk

SLICE_S = 0.0025
"""After so much work others have their turn: 10 ms are allowed, and other work may share the processor."""

_TURN = trio.lowlevel.RunVar[trio.Lock]("the walk whose turn it is")


async def conclusion(walk: Walk[Found], monotonic: Callable[[], float] = time.perf_counter) -> Found:
    """What a walk finds. What the walk raises is raised."""
    found: list[Found] = []
    steps = _kept(walk, found)
    while not found:
        async with _turn():
            until = monotonic() + SLICE_S
            for _ in steps:
                if monotonic() >= until:
                    break
    return found[0]


def _kept(walk: Walk[Found], found: list[Found]) -> Iterator[None]:
    found.append((yield from walk))


def _turn() -> trio.Lock:
    """First come, first served; and to take it lets others run."""
    try:
        return _TURN.get()
    except LookupError:
        lock = trio.Lock()
        _TURN.set(lock)
        return lock
