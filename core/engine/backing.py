"""Where a queue's ready messages are kept, and the backing that keeps them in memory.

A backing is a first-in first-out list of runs. It hands messages out once: what comes back from a consumer is the
queue's affair (``returned.py``), because it goes back in front of everything that is still here.

The memory backing keeps the encoded entries and, beside them, one record for each run: first sequence number,
arrival time, attributes. Single publishes that follow each other closely share a record, so that a backlog of
them costs no more than a backlog of runs: the ``bytes`` object and one pointer, about 63 bytes for a 12-byte
message.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from core.clock import Now
from core.engine.stretch import Stretch
from core.message import Attributes, Portion, Route

ARRIVAL_GRAIN = 0.010
"""Seconds. Messages that arrive within this time may share one arrival time: far finer than any
time-to-live."""

RECORD_ENTRIES_MAX = 1024
"""Cutting the front off a record moves the rest of its list: 8 KiB at most, 0.2 µs."""


class Backing(Protocol):
    """A queue's ready messages in order of publication, in runs.

    Sequence numbers are the queue's: it gives them with each portion, ascending. A position is one of the backing's
    lane: the message is safe, as its queue type promises, when the lane has reached it.
    """

    @property
    def depth(self) -> int:
        """How many messages are here."""

    @property
    def ready_bytes(self) -> int:
        """How many bytes of entries are here."""

    @property
    def head_sequence(self) -> int | None:
        """A sequence number that the oldest message here has, or that is a little lower; None when there is none."""

    @property
    def head_expires_at(self) -> float | None:
        """When the oldest message here expires (wall-clock seconds); None for never, and when there is none."""

    def publish_run(self, portion: Portion, first: int, now: Now) -> int | None:
        """Append messages that are alike, with sequence numbers from ``first`` up.

        Returns the position to wait for, or None when there is nothing to wait for.
        """

    @property
    def passes(self) -> bool:
        """Whether messages may go straight to a consumer, before they are as safe as the queue promises."""

    def pass_run(self, portion: Portion, first: int, now: Now) -> tuple[Stretch, int | None]:
        """Messages on their way straight to a consumer that waits: they never stand here. Only while nothing does."""

    def fetch(self, n: int) -> Stretch | None:
        """Take the oldest messages, ``n`` (at least 1) at most, as far as they are alike. None: there are none."""

    def settle(self, stretch: Stretch) -> None:
        """Messages that were fetched or passed are gone for good: accepted, dropped, expired, dead-lettered."""

    def give_back(self, stretch: Stretch) -> None:
        """Messages that were handed out came back and wait among the queue's returned ones (a matter of counting)."""

    def restore(self, stretch: Stretch) -> None:
        """Read the entries of a paged stretch back into it."""

    def purge(self) -> int:
        """Drop all messages; returns how many."""

    def delete(self) -> None:
        """The queue is deleted: keep nothing of it, also not of what was handed out."""

    def counts(self) -> Mapping[str, int]:
        """Messages and bytes by state, and what reading has cost, to be shown."""


@runtime_checkable
class Pages(Protocol):
    """What a queue asks of a backing that pages, besides what it asks of every backing."""

    @property
    def acks_to_page(self) -> int:
        """How many of the messages that were handed out are to leave memory; 0 most of the time."""

    def page_out(self, stretches: Iterable[Stretch]) -> int:
        """Empty as many of these as ``acks_to_page`` asks for: all that were handed out and are not settled, with
        those that came back, in any order. Returns the messages paged out."""

    def reduce_memory_use(self, now: Now) -> bool:
        """Page one batch, as far as there is need. True: there is more to do, so touch the queue again."""

    def set_lazy(self, lazy: bool) -> None:
        """Another queue mode is in force."""

    def conclude(self, next_sequence: int) -> None:
        """The broker stops in order: what the next start has to know is written down."""


@runtime_checkable
class KeepsDiscards(Protocol):
    """What a queue asks of a backing that remembers over a start which messages are being dead-lettered."""

    def discard(self, stretch: Stretch, reason: str) -> None:
        """Messages that were fetched are being dead-lettered; as any, they are settled in the end."""

    def discards(self) -> Iterable[tuple[Stretch, str]]:
        """After a start: those that were and are not settled, paged out. They are handed out with this."""


@dataclass(eq=False, slots=True)
class _Record:
    first: int
    arrival: float
    attributes: Attributes
    entries: list[bytes]
    expires_at: float | None
    route: Route | None


class MemoryBacking:
    """Messages that live and die with the process."""

    __slots__ = ("_records", "depth", "ready_bytes")

    def __init__(self) -> None:
        self.depth = 0
        self.ready_bytes = 0
        self._records: deque[_Record] = deque()

    @property
    def passes(self) -> bool:
        """See :class:`Backing`, also for the methods below."""
        return True

    @property
    def head_sequence(self) -> int | None:
        return self._records[0].first if self._records else None

    @property
    def head_expires_at(self) -> float | None:
        return self._records[0].expires_at if self._records else None

    def publish_run(self, portion: Portion, first: int, now: Now) -> None:
        entries = portion.entries
        if not self._extend_last(entries, portion, first, now):
            attributes = portion.run.attributes
            for start in range(0, len(entries), RECORD_ENTRIES_MAX):
                part = entries[start : start + RECORD_ENTRIES_MAX]
                record = _Record(first + start, now.monotonic, attributes, part, portion.expires_at, portion.route)
                self._records.append(record)
        self.depth += len(entries)
        self.ready_bytes += sum(map(len, entries))

    def pass_run(self, portion: Portion, first: int, now: Now) -> tuple[Stretch, None]:
        assert not self.depth
        entries = portion.entries.copy()
        return self._stretch(
            first, entries, portion.run.attributes, expires_at=portion.expires_at, route=portion.route
        ), None

    def fetch(self, n: int) -> Stretch | None:
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
        self.depth -= len(entries)
        self.ready_bytes -= sum(map(len, entries))
        return self._stretch(first, entries, record.attributes, expires_at=record.expires_at, route=record.route)

    def settle(self, stretch: Stretch) -> None:
        pass

    def give_back(self, stretch: Stretch) -> None:
        pass

    def restore(self, stretch: Stretch) -> None:
        raise AssertionError("nothing is paged out of a memory backing")

    def purge(self) -> int:
        dropped = self.depth
        self._records.clear()
        self.depth = self.ready_bytes = 0
        return dropped

    def delete(self) -> None:
        self.purge()

    def counts(self) -> Mapping[str, int]:
        return {"alpha": self.depth, "ram_messages": self.depth, "ram_bytes": self.ready_bytes}

    @staticmethod
    def _stretch(
        first: int, entries: list[bytes], attributes: Attributes, *, expires_at: float | None, route: Route | None
    ) -> Stretch:
        return Stretch(range(first, first + len(entries)), entries, attributes, expires_at=expires_at, route=route)

    def _extend_last(self, entries: list[bytes], portion: Portion, first: int, now: Now) -> bool:
        if not self._records:
            return False
        last = self._records[-1]
        attributes = portion.run.attributes
        if (
            len(last.entries) + len(entries) > RECORD_ENTRIES_MAX
            or now.monotonic - last.arrival > ARRIVAL_GRAIN
            or last.first + len(last.entries) != first
            or last.expires_at != portion.expires_at
            or (last.attributes is not attributes and last.attributes != attributes)
            or (last.route is not portion.route and last.route != portion.route)
        ):
            return False
        last.entries.extend(entries)
        return True
