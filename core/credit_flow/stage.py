"""A stage: a list of runs that wait for their turn, with a budget of messages per turn.

A broker is a chain of stages. What a stage does not get done within its budget waits in its list, and whoever
put it there learns of no progress: that is how slowness travels upstream. A budget of 0 is a stage that
stands still; tests and benchmarks slow a stage by nothing else.

The list needs no limit of its own. Every message in it is one that its publisher has no confirm for, and
front ends give a publisher no more link credit while too many of its messages are not confirmed.

Invariants: runs leave in the order they came; a run may leave in parts, which adjoin; ``waiting`` is the
number of messages that have not left.

This module does not know what a run is made of: it is told how many messages each one counts.
"""

from collections import deque
from typing import Generic, TypeVar

RunT = TypeVar("RunT")

RUNS_PER_TURN = 250
"""However few messages they have: a run of one takes 10 to 20 us where no two are alike."""


class Stage(Generic[RunT]):
    """Runs in arrival order. ``messages_per_turn`` may be changed at any time; None means no limit."""

    __slots__ = ("_head_start", "_runs", "messages_per_turn", "runs", "waiting")

    def __init__(self, messages_per_turn: int | None) -> None:
        self.messages_per_turn = messages_per_turn
        self.waiting = 0
        self.runs = 0
        """How many runs have not left altogether."""
        self._runs: deque[tuple[RunT, int]] = deque()
        self._head_start = 0
        """How much of the first run has left already."""

    def put(self, run: RunT, count: int) -> None:
        """Append a run of ``count`` messages."""
        self._runs.append((run, count))
        self.runs += 1
        self.waiting += count

    def take_turn(self) -> list[tuple[RunT, int, int]]:
        """The runs whose turn it is, as ``(run, start, stop)``: its messages from ``start`` up to before
        ``stop``."""
        return self._take(self.messages_per_turn, RUNS_PER_TURN)

    def take_all(self) -> list[tuple[RunT, int, int]]:
        """Everything, whatever the budget: for a stage that is given up."""
        return self._take(None, len(self._runs))

    @property
    def stalled(self) -> bool:
        """True when no number of turns will ever move anything."""
        return self.messages_per_turn == 0

    def _take(self, limit: int | None, runs: int) -> list[tuple[RunT, int, int]]:
        budget = self.waiting if limit is None else min(limit, self.waiting)
        parts: list[tuple[RunT, int, int]] = []
        self.waiting -= budget
        while budget and len(parts) < runs:
            run, count = self._runs[0]
            start = self._head_start
            stop = min(count, start + budget)
            parts.append((run, start, stop))
            budget -= stop - start
            if stop == count:
                self._runs.popleft()
                self.runs -= 1
                self._head_start = 0
            else:
                self._head_start = stop
        self.waiting += budget
        return parts
