"""A stage: a list of runs that wait for their turn, with a budget of messages per turn.

A broker is a chain of stages. Runs beyond the budget wait in the list, and their sender gets no acknowledgement: so the
stages before a slow one slow down too. With a budget of 0 a stage stands still. Tests and benchmarks slow a stage only
by its budget.

The list needs no limit of its own. Every message in it is unconfirmed, and front ends give a publisher no more link
credit while too many of its messages are unconfirmed.

Invariants: runs leave in the order in which they were put; a run may leave in adjoining parts; ``waiting`` is the
number of messages that have not left.

This module does not know the contents of a run; the caller passes its number of messages.
"""

from collections import deque
from itertools import chain, repeat
from typing import Generic, TypeVar

RunT = TypeVar("RunT")

RUNS_PER_TURN = 250
"""The most runs in one turn, however few messages they have: a run of one message takes 10 to 20 µs if no two are
alike."""


class Stage(Generic[RunT]):
    """Runs in arrival order. ``messages_per_turn`` may be changed at any time; None means no limit."""

    __slots__ = ("_head_start", "_runs", "messages_per_turn", "runs", "waiting")

    def __init__(self, messages_per_turn: int | None) -> None:
        self.messages_per_turn = messages_per_turn
        self.waiting = 0
        self.runs = 0
        """How many runs have not left completely."""
        self._runs: deque[tuple[RunT, int]] = deque()
        self._head_start = 0
        """How many messages of the first run have left already."""

    def put(self, run: RunT, count: int) -> None:
        """Append a run of ``count`` messages."""
        self._runs.append((run, count))
        self.runs += 1
        self.waiting += count

    def take_turn(self) -> list[tuple[RunT, int, int]]:
        """Take the runs of one turn, as ``(run, start, stop)``: the messages from ``start`` (inclusive) to ``stop``
        (exclusive)."""
        limit = self.messages_per_turn
        budget = self.waiting if limit is None else min(limit, self.waiting)
        parts: list[tuple[RunT, int, int]] = []
        self.waiting -= budget
        while budget and len(parts) < RUNS_PER_TURN:
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

    def take_all(self) -> list[tuple[RunT, int, int]]:
        """Take all runs, whatever the budget, when the stage is removed."""
        starts = chain((self._head_start,), repeat(0))
        parts = [(run, start, count) for (run, count), start in zip(self._runs, starts, strict=False)]
        self._runs.clear()
        self.waiting = self.runs = self._head_start = 0
        return parts

    @property
    def stalled(self) -> bool:
        """Whether the budget is 0, so that no turn takes anything."""
        return self.messages_per_turn == 0
