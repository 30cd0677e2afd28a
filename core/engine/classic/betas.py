"""Ready messages whose bodies are on disk only: q2 and q3 of a variable queue, and delta.

A run that was read from the queue index is a :class:`core.store.places.StoredRun`, which has the place of each body.
Messages that were written since the start are kept as :class:`Unplaced` runs, which only have the offset in the file
from which to search, and so need no memory for each message. Places are looked up in batches when the first body is to
be read, so that each part of a file is nearly always searched only once.

No run crosses the boundary of a segment.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from core.engine.ready.remains import Objects
from core.message import Attributes, Expiries, RunAttributes, like_ranges
from core.store.places import SEGMENT_BITS, StoredRun
from core.store.queue_index import QueueIndex

NEAR_BYTES = 65_536
"""Runs whose search offsets are further apart than this are looked up separately."""


def next_boundary(sequence: int) -> int:
    """Return the first sequence number of the segment after the one with this number."""
    return ((sequence >> SEGMENT_BITS) + 1) << SEGMENT_BITS


@dataclass(eq=False, slots=True)
class Unplaced:
    """Consecutive messages that are alike, whose bodies have not been located on disk yet."""

    first: int
    length: int
    attributes: Attributes
    expires_at: float | None
    at: int
    """The messages are in order in the file of their segment, none of them before this offset."""

    def __len__(self) -> int:
        return self.length

    def part(self, start: int, stop: int) -> "Unplaced":
        """Return the messages from ``start`` (inclusive) to ``stop`` (exclusive), counted from the first."""
        return Unplaced(self.first + start, stop - start, self.attributes, self.expires_at, self.at)

    def continued_by(self, later: "Unplaced") -> bool:
        """Return whether the messages of ``later`` follow, are alike, and come in order in the file of the same
        segment."""
        return (
            self.first + self.length == later.first
            and self.at <= later.at
            and self.first >> SEGMENT_BITS == later.first >> SEGMENT_BITS
            and self.expires_at == later.expires_at
            and self.attributes == later.attributes
        )


def unplaced(first: int, count: int, attributes: RunAttributes, expires_at: Expiries, at: int) -> list[Unplaced]:
    """Make runs of messages with sequence numbers from ``first`` up, cut where they are not alike and at segment
    boundaries. ``at`` is the search offset in the segment of ``first``; it is 0 in the segments behind."""
    runs: list[Unplaced] = []
    for start, stop, one, _, expiry in like_ranges(count, attributes, None, expires_at):
        number, end = first + start, first + stop
        while number < end:
            behind = min(end, next_boundary(number))
            here = at if number >> SEGMENT_BITS == first >> SEGMENT_BITS else 0
            runs.append(Unplaced(number, behind - number, one, expiry, here))
            number = behind
    return runs


DiskRun: TypeAlias = StoredRun | Unplaced


class Betas:
    """A list of runs on disk, oldest first, with everything but the bodies in memory."""

    __slots__ = ("_runs", "count")

    def __init__(self) -> None:
        self.count = 0
        self._runs: deque[DiskRun] = deque()

    def __iter__(self) -> Iterator[DiskRun]:
        return iter(self._runs)

    @property
    def head(self) -> DiskRun:
        """The oldest run. The list must not be empty."""
        return self._runs[0]

    @property
    def end(self) -> int:
        """The sequence number after the newest message. The list must not be empty."""
        last = self._runs[-1]
        return last.first + len(last)

    def append(self, run: DiskRun) -> None:
        """Add messages newer than all others."""
        self.count += len(run)
        if self._runs and isinstance(run, Unplaced):
            last = self._runs[-1]
            if isinstance(last, Unplaced) and last.continued_by(run):
                last.length += run.length
                return
        self._runs.append(run)

    def prepend(self, run: DiskRun) -> None:
        """Add messages older than all others."""
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
        """Take up to ``n`` (at least 1) of the oldest messages, as far as they are in one run. The list must not be
        empty."""
        run = self._runs.popleft()
        if n < len(run):
            self._runs.appendleft(run.part(n, len(run)))
            run = run.part(0, n)
        self.count -= len(run)
        return run

    def take_last(self, n: int) -> DiskRun:
        """Take up to ``n`` (at least 1) of the newest messages, as far as they are in one run. The list must not be
        empty."""
        run = self._runs.pop()
        kept = len(run) - n
        if kept > 0:
            self._runs.append(run.part(0, kept))
            run = run.part(kept, len(run))
        self.count -= len(run)
        return run

    def take_unplaced(self, n: int) -> list[Unplaced]:
        """Take the oldest unplaced runs, with ``n`` (at least 1) messages or slightly more, as far as one search of a
        file finds them. The first run must be unplaced."""
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
        """Move all messages of the other list to the end of this one."""
        self._runs += other._runs
        self.count += other.count
        other.clear()

    def clear(self) -> Objects:
        """Drop all messages. Returns the objects that are to be freed."""
        runs, self._runs = self._runs, deque()
        self.count = 0
        return runs


def _near(run: Unplaced, later: Unplaced) -> bool:
    """Return whether a search for the first run soon reaches the second one. This is so for unlike messages published
    one by one."""
    return run.first >> SEGMENT_BITS == later.first >> SEGMENT_BITS and 0 <= later.at - run.at <= NEAR_BYTES


def between(runs: Iterable[StoredRun], numbers: range) -> list[StoredRun]:
    """Return the messages of the runs whose sequence numbers are in the range."""
    found = []
    for run in runs:
        start = max(0, numbers.start - run.first)
        stop = min(len(run), numbers.stop - run.first)
        if start < stop:
            found.append(run if stop - start == len(run) else run.part(start, stop))
    return found


@dataclass(slots=True)
class Delta:
    """Messages of which only the number between two sequence numbers is in memory.

    They are all live messages of the queue index from ``start`` (inclusive) to ``end`` (exclusive). ``start + count <=
    end``. None of them is before the offset ``at`` in the file of the segment of ``start``. If ``at`` is not 0, all
    messages with these numbers in the file are live.
    """

    start: int = 0
    count: int = 0
    end: int = 0
    at: int = 0
    expiring: bool = False
    """Whether some of the messages may expire."""

    def append(self, first: int, count: int, *, expiring: bool, at: int = 0) -> None:
        """Add messages newer than all others."""
        if not self.count:
            self.start = first
            self.at = at
        self.count += count
        self.end = first + count
        self.expiring |= expiring

    def prepend(self, first: int, count: int, *, expiring: bool) -> None:
        """Add messages older than all others."""
        if not self.count:
            self.end = first + count
        self.start = first
        self.at = 0
        self.count += count
        self.expiring |= expiring

    def advance(self, start: int, count: int, at: int) -> int:
        """Remove ``count`` messages, all below ``start``, which were read from the index. Returns how many other
        messages were found to be lost: those that do not fit between the remaining numbers."""
        self.start = start
        self.at = at
        self.count -= count
        lost = max(0, self.count - max(0, self.end - start))
        self.count -= lost
        if not self.count:
            self.clear()
        return lost

    def clear(self) -> None:
        """Drop all messages."""
        self.start = self.count = self.end = self.at = 0
        self.expiring = False


def found_at_start(index: QueueIndex) -> Delta:
    """Put all live messages of the index into a delta."""
    numbers = [number for number, segment in index.segments.items() if segment.live]
    if not numbers:
        return Delta()
    return Delta(
        start=min(numbers) << SEGMENT_BITS,
        count=sum(segment.live for segment in index.segments.values()),
        end=min((max(numbers) + 1) << SEGMENT_BITS, index.next_sequence_floor),
        expiring=True,
    )
