"""Ready messages whose bodies are on disk: q2 and q3 of a variable queue, and delta.

A run that the queue index was asked for comes as a :class:`core.store.places.StoredRun`, which knows where each body
is. Of messages that went to disk in this life of the queue there is an :class:`Unplaced` run, which only knows where in
the file to begin to look, at no cost for each message. Places are looked up a portion at a time, when the first body is
to be read; each part of a file is gone through once, nearly always.

No run reaches over the boundary of a segment.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from core.message import Attributes, Route
from core.store.places import SEGMENT_BITS, StoredRun

NEAR_BYTES = 65_536
"""Runs that begin to be looked for further apart are looked up each on its own."""


def next_boundary(sequence: int) -> int:
    """The first sequence number of the segment behind the one that holds this number."""
    return ((sequence >> SEGMENT_BITS) + 1) << SEGMENT_BITS


@dataclass(eq=False, slots=True)
class Unplaced:
    """Consecutive messages that are alike. Where their bodies are has not been looked up."""

    first: int
    length: int
    attributes: Attributes
    expires_at: float | None
    route: Route | None
    at: int
    """They are in their segment's file in order, and none before this offset."""

    def __len__(self) -> int:
        return self.length

    def part(self, start: int, stop: int) -> "Unplaced":
        """The messages from ``start`` up to before ``stop``, counted from the first."""
        return Unplaced(self.first + start, stop - start, self.attributes, self.expires_at, self.route, self.at)

    def by_segments(self) -> "list[Unplaced]":
        """This run, or two at the boundary of a segment. In the file of the second nothing is known of the place."""
        here = next_boundary(self.first) - self.first
        if here >= self.length:
            return [self]
        rest = self.part(here, self.length)
        rest.at = 0
        return [self.part(0, here), *rest.by_segments()]

    def continued_by(self, later: "Unplaced") -> bool:
        """True when the other's messages adjoin and are alike, and both stand in one segment's file in order."""
        return (
            self.first + self.length == later.first
            and self.at <= later.at
            and self.first >> SEGMENT_BITS == later.first >> SEGMENT_BITS
            and self.expires_at == later.expires_at
            and self.attributes == later.attributes
            and self.route == later.route
        )


DiskRun: TypeAlias = StoredRun | Unplaced


class Betas:
    """A list of runs on disk, oldest first, of which everything but the bodies is known."""

    __slots__ = ("_runs", "count")

    def __init__(self) -> None:
        self.count = 0
        self._runs: deque[DiskRun] = deque()

    def __iter__(self) -> Iterator[DiskRun]:
        return iter(self._runs)

    @property
    def head(self) -> DiskRun:
        """The oldest run; there has to be one."""
        return self._runs[0]

    @property
    def end(self) -> int:
        """The sequence number behind the newest message; there has to be one."""
        last = self._runs[-1]
        return last.first + len(last)

    def append(self, run: DiskRun) -> None:
        """Newer messages than all others."""
        self.count += len(run)
        if self._runs and isinstance(run, Unplaced):
            last = self._runs[-1]
            if isinstance(last, Unplaced) and last.continued_by(run):
                last.length += run.length
                return
        self._runs.append(run)

    def prepend(self, run: DiskRun) -> None:
        """Older messages than all others."""
        self.count += len(run)
        if self._runs and isinstance(run, Unplaced):
            head = self._runs[0]
            if isinstance(head, Unplaced) and run.continued_by(head):
                head.first = run.first
                head.length += run.length
                head.at = run.at
                return
        self._runs.appendleft(run)

    def take_first(self, n: int) -> DiskRun:
        """The oldest messages, ``n`` (at least 1) at most, as far as they stand in one run. There has to be one."""
        run = self._runs.popleft()
        if n < len(run):
            self._runs.appendleft(run.part(n, len(run)))
            run = run.part(0, n)
        self.count -= len(run)
        return run

    def take_last(self, n: int) -> DiskRun:
        """The newest messages, likewise."""
        run = self._runs.pop()
        kept = len(run) - n
        if kept > 0:
            self._runs.append(run.part(0, kept))
            run = run.part(kept, len(run))
        self.count -= len(run)
        return run

    def take_unplaced(self, n: int) -> list[Unplaced]:
        """The oldest runs, ``n`` (at least 1) messages or not many more, as far as one look into a file finds them. The
        first run has to be of this kind."""
        taken: list[Unplaced] = []
        count = 0
        while count < n and self._runs:
            run = self._runs[0]
            if not isinstance(run, Unplaced) or (taken and not _near(taken[-1], run)):
                break
            part = self.take_first(n)
            assert isinstance(part, Unplaced)
            taken.append(part)
            count += part.length
        return taken

    def take_all(self, other: "Betas") -> None:
        """Append all messages of the other list, which is empty then."""
        self._runs += other._runs
        self.count += other.count
        other.clear()

    def clear(self) -> None:
        """Drop all messages."""
        self._runs.clear()
        self.count = 0


def _near(run: Unplaced, later: Unplaced) -> bool:
    """True when who looks for the first run soon comes by the second: messages that differ, published one by one."""
    return run.first >> SEGMENT_BITS == later.first >> SEGMENT_BITS and 0 <= later.at - run.at <= NEAR_BYTES


def between(runs: Iterable[StoredRun], numbers: range) -> list[StoredRun]:
    """The messages of the runs whose sequence numbers lie in the range."""
    found = []
    for run in runs:
        start = max(0, numbers.start - run.first)
        stop = min(len(run), numbers.stop - run.first)
        if start < stop:
            found.append(run if stop - start == len(run) else run.part(start, stop))
    return found


@dataclass(slots=True)
class Delta:
    """Messages of which nothing is known but how many there are between two sequence numbers.

    All live messages of the queue index between ``start`` and before ``end`` are these. ``start + count <= end``. None
    is before the offset ``at`` in the file of the segment of ``start``; where that is not 0, all that the file says of
    these numbers is live.
    """

    start: int = 0
    count: int = 0
    end: int = 0
    at: int = 0
    expiring: bool = False
    """Some may have an expiry."""

    def append(self, first: int, count: int, *, expiring: bool, at: int = 0) -> None:
        """Newer messages than all others."""
        if not self.count:
            self.start = first
            self.at = at
        self.count += count
        self.end = first + count
        self.expiring |= expiring

    def prepend(self, first: int, count: int, *, expiring: bool) -> None:
        """Older messages than all others."""
        if not self.count:
            self.end = first + count
        self.start = first
        self.at = 0
        self.count += count
        self.expiring |= expiring

    def advance(self, start: int, count: int, at: int) -> int:
        """So many messages, all below ``start``, are known now. Returns how many there are not any more: those that
        have no room between the numbers that are left."""
        self.start = start
        self.at = at
        self.count -= count
        lost = max(0, self.count - max(0, self.end - start))
        self.count -= lost
        if not self.count:
            self.clear()
        return lost

    def clear(self) -> None:
        """Nothing is here."""
        self.start = self.count = self.end = self.at = 0
        self.expiring = False
