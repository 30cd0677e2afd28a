"""The admin server's share of the event loop: one slice of one answer, then all other tasks have a turn.

Long answers are made by walks (:mod:`core.slices`). Only one walk runs at a time, however many clients send requests,
and after each slice the walk that has waited longest continues. So many requests at once do not delay messages more
than one does. A walk that waits for something, such as the other nodes of a cluster, gets no slice meanwhile.
"""

import time
from collections.abc import Callable, Iterator

import trio

from core.slices import Found, Walk, WhenOver

SLICE_S = 0.0025
"""Seconds after which other tasks have a turn: 10 ms are allowed, and other work may share the processor."""

_TURN = trio.lowlevel.RunVar[trio.Lock]("the walk whose turn it is")


async def conclusion(walk: Walk[Found], monotonic: Callable[[], float] = time.perf_counter) -> Found:
    """Run a walk in slices and return its result. Raises what the walk raises."""
    found: list[Found] = []
    steps = _kept(walk, found)
    while not found:
        async with _turn():
            until = monotonic() + SLICE_S
            for waits_for in steps:
                if waits_for is not None or monotonic() >= until:
                    break
        if not found and waits_for is not None:
            over = trio.Event()
            waits_for(over.set)
            await over.wait()
    return found[0]


def _kept(walk: Walk[Found], found: list[Found]) -> Iterator[WhenOver | None]:
    found.append((yield from walk))


def _turn() -> trio.Lock:
    """Return the lock that a walk holds during a slice. Trio gives it to waiters in their order, and acquiring it lets
    other tasks run."""
    try:
        return _TURN.get()
    except LookupError:
        lock = trio.Lock()
        _TURN.set(lock)
        return lock
