"""Where a queue's ready messages are kept, and the backing that keeps them in memory.

A backing is a first-in first-out list of runs. It gives each message its sequence number, and hands messages
out once: what comes back from a consumer is the queue's affair (``returned.py``), because it goes back in
front of everything that is still here.

The memory backing keeps the encoded entries and, beside them, one record for each run: first sequence number,
arrival time, attributes. Single publishes that follow each other closely share a record, so that a backlog of
them costs no more than a backlog of runs: the ``bytes`` object and one pointer, about 63 bytes for a 12-byte
message.
"""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from core.clock import Now
from core.engine.stretch import Stretch
from core.message import Attributes

ARRIVAL_GRAIN = 0.010
"""Seconds. Messages that arrive within this time may share one arrival time: far finer than any
time-to-live."""

RECORD_ENTRIES_MAX = 1024
"""Cutting the front off a record moves the rest of its list: 8 KiB at most, 0.2 µs."""


class Backing(Protocol):
    """A queue's ready messages in order of publication, in runs."""

    @property
    def depth(self) -> int:
        """How many messages are here."""

    def publish_run(self, entries: list[bytes], attributes: Attributes, now: Now) -> None:
        """Append messages that are alike, with the next sequence numbers. The list stays the caller's."""

    def fetch(self, n: int) -> Stretch | None:
        """Take the oldest messages, ``n`` (at least 1) at most, as far as they are alike.

        None when none is at hand. That does not mean none is here: a backing that has to read first says so
        by its ``depth``, and has the queue dispatched again when it has read.
        """

    def purge(self) -> int:
        """Drop all messages; returns how many."""


@dataclass(eq=False, slots=True)
class _Record:
    first: int
    arrival: float
    attributes: Attributes
    entries: list[bytes]


class MemoryBacking:
    """Messages that live and die with the process."""

    __slots__ = ("_next_sequence", "_records", "depth")

    def __init__(self) -> None:
        self.depth = 0
        self._next_sequence = 0
        self._records: deque[_Record] = deque()

    def publish_run(self, entries: list[bytes], attributes: Attributes, now: Now) -> None:
        """See :class:`Backing`."""
        count = len(entries)
        if not self._extend_last(entries, attributes, now):
            first = self._next_sequence
            for start in range(0, count, RECORD_ENTRIES_MAX):
                part = entries[start : start + RECORD_ENTRIES_MAX]
                self._records.append(_Record(first + start, now.monotonic, attributes, part))
        self._next_sequence += count
        self.depth += count

    def fetch(self, n: int) -> Stretch | None:
        """See :class:`Backing`."""
        if not self._records:
            return None
        record = self._records[0]
        first = record.first
        entries = record.entries
        if n >= len(entries):
            self._records.popleft()
        else:
            entries = entries[:n]
            del record.entries[:n]
            record.first += n
        count = len(entries)
        self.depth -= count
        return Stretch(range(first, first + count), entries, record.attributes)

    def purge(self) -> int:
        """See :class:`Backing`."""
        dropped = self.depth
        self._records.clear()
        self.depth = 0
        return dropped

    def _extend_last(self, entries: list[bytes], attributes: Attributes, now: Now) -> bool:
        if not self._records:
            return False
        last = self._records[-1]
        if (
            len(last.entries) + len(entries) > RECORD_ENTRIES_MAX
            or now.monotonic - last.arrival > ARRIVAL_GRAIN
            or (last.attributes is not attributes and last.attributes != attributes)
        ):
            return False
        last.entries.extend(entries)
        return True
