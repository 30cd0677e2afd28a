"""Where a queue's ready messages are kept, and the backing that keeps them in memory.

A backing is a first-in first-out list of runs. It hands out each message once. A message that comes back from a
consumer is kept by the queue (``returned.py``), because it goes back in front of everything that is still in the
backing.

The memory backing keeps the encoded entries and, beside them, one record for each run: first sequence number, arrival
time, attributes, expiry, routes. Single publishes that follow each other closely share a record, so that a backlog of
them costs no more than a backlog of runs: the ``bytes`` object and one pointer, about 63 bytes for a 12-byte message.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from core.clock import Now
from core.engine.ready.batch import Batch
from core.engine.ready.remains import LetGo
from core.message import Expiries, Routes, RunAttributes, RunPart, first_of, joined, may_join, part_of
from core.taken_numbers import PublishingId, TakenNumbers, packed

ARRIVAL_GRAIN = 0.010
"""Seconds. Messages that arrive within this time may share one arrival time: far finer than any
time-to-live."""

RECORD_ENTRIES_MAX = 1024
"""Entries in one record. Removing entries from the front moves the rest of the list: 8 KiB at most, 0.2 µs."""


class Backing(Protocol):
    """A queue's ready messages in order of publication, in runs.

    The queue assigns the sequence numbers, in ascending order. A position is a position of the backing's lane: when the
    lane has reached it, the message is as safe as its queue type promises.
    """

    @property
    def depth(self) -> int:
        """How many messages the backing holds."""

    @property
    def ready_bytes(self) -> int:
        """How many bytes the entries of these messages have."""

    @property
    def head_sequence(self) -> int | None:
        """The sequence number of the oldest message, or a number a little lower; None if the backing is empty."""

    @property
    def head_expires_at(self) -> float | None:
        """When the oldest message expires (wall-clock seconds); None if never, and if the backing is empty."""

    def publish_run(self, run_part: RunPart, first: int, now: Now) -> int | None:
        """Append the part's messages, with sequence numbers from ``first`` up.

        Returns the position of the lane to wait for, or None if there is no need to wait.
        """

    @property
    def keeps_durable(self) -> bool:
        """Whether durable messages are on disk and others are not. Then the messages of a part that it gets are all
        durable, or none is."""

    @property
    def passes(self) -> bool:
        """Whether messages may go straight to a consumer, before they are as safe as the queue promises."""

    def pass_run(self, run_part: RunPart, first: int, now: Now) -> tuple[Batch, int | None]:
        """Pass messages straight to a waiting consumer without storing them as ready. Allowed only while the backing is
        empty. Returns the messages, and the position as for ``publish_run``."""

    def taken_names(self, ranges_max: int) -> TakenNumbers:
        """The publishing ids of the messages that were taken on, as far as they are remembered: ``ranges_max`` ranges
        at most. The caller must not change them."""

    def took(self, names: Sequence[PublishingId | None]) -> None:
        """Remember the publishing ids of messages that this backing was just given, with a part that has them."""

    def fetch(self, n: int) -> Batch | None:
        """Take up to ``n`` (at least 1) of the oldest messages, as far as they are alike. Returns None if the backing
        is empty."""

    def settle(self, batch: Batch) -> None:
        """Forget messages that were fetched or passed: they were accepted, dropped, expired or dead-lettered."""

    def give_back(self, batch: Batch) -> None:
        """Count messages that were handed out as returned: they now wait among the queue's returned messages."""

    def restore(self, batch: Batch) -> None:
        """Read the entries of a paged batch back into it."""

    def discard(self, batch: Batch, reason: str) -> None:
        """Record that messages that were fetched are being dead-lettered, if the backing keeps that on disk. The caller
        settles them later, like any others."""

    def discards(self) -> Iterable[tuple[Batch, str]]:
        """Hand out, after a start, the paged-out messages whose dead-lettering was recorded and that are not
        settled, with the reasons."""

    def purge(self, let_go: LetGo) -> int:
        """Drop all messages; returns how many. See ``write_now``."""

    def write_now(self) -> None:
        """Ask for a write of everything that was dropped or settled so far, before the next answers go out."""

    def delete(self, let_go: LetGo) -> None:
        """The queue is deleted: forget all its messages, also those that were handed out."""

    def counts(self) -> Mapping[str, int]:
        """Counters for the queue's snapshot: messages and bytes by state, and the cost of reading."""


@runtime_checkable
class Pages(Protocol):
    """The further methods of a backing that pages messages out to disk."""

    @property
    def pressed(self) -> bool:
        """Whether messages may have to be paged out, so that ``reduce_memory_use`` has to be called."""

    @property
    def acks_to_page(self) -> int:
        """How many messages that were handed out are to be paged out; 0 most of the time."""

    def page_out(self, batches: Iterable[Batch]) -> int:
        """Page out as many messages as ``acks_to_page`` asks for. ``batches`` are, in any order, all that were handed
        out and not settled, and all that were returned. Returns how many messages were paged out."""

    def reduce_memory_use(self, now: Now) -> bool:
        """Page out one batch, if memory has to be freed. Returns True if there is more to page out: touch the queue
        again."""

    def set_lazy(self, lazy: bool) -> None:
        """Set the queue mode: lazy or default."""

    def conclude(self, next_sequence: int) -> None:
        """The broker shuts down cleanly: write what the next start needs."""


@dataclass(eq=False, slots=True)
class _Record:
    first: int
    arrival: float
    attributes: RunAttributes
    entries: list[bytes]
    expires_at: Expiries
    routes: Routes

    def cut_off(self, n: int) -> "_Record":
        """Remove the first ``n`` messages, and return them."""
        attributes, entries, expires_at, routes = self.attributes, self.entries, self.expires_at, self.routes
        cut = _Record(
            self.first, self.arrival, part_of(attributes, 0, n), entries[:n], part_of(expires_at, 0, n),
            part_of(routes, 0, n),
        )  # fmt: skip
        self.first += n
        self.attributes = part_of(attributes, n, len(entries))
        self.expires_at = part_of(expires_at, n, len(entries))
        self.routes = part_of(routes, n, len(entries))
        del entries[:n]
        return cut


class MemoryBacking:
    """A backing in memory: its messages are lost when the process ends."""

    __slots__ = ("_records", "_taken", "depth", "ready_bytes")

    def __init__(self) -> None:
        self._taken = TakenNumbers()
        self.depth = 0
        self.ready_bytes = 0
        self._records: deque[_Record] = deque()

    @property
    def keeps_durable(self) -> bool:
        """See :class:`Backing`, also for the methods below."""
        return False

    @property
    def passes(self) -> bool:
        return True

    @property
    def head_sequence(self) -> int | None:
        return self._records[0].first if self._records else None

    @property
    def head_expires_at(self) -> float | None:
        return first_of(self._records[0].expires_at) if self._records else None

    def publish_run(self, run_part: RunPart, first: int, now: Now) -> None:
        entries = run_part.entries
        if not self._extend_last(entries, run_part, first, now):
            attributes, expires_at, routes = run_part.attributes, run_part.expires_at, run_part.routes
            for start in range(0, len(entries), RECORD_ENTRIES_MAX):
                stop = start + RECORD_ENTRIES_MAX
                record = _Record(
                    first + start, now.monotonic, part_of(attributes, start, stop), entries[start:stop],
                    part_of(expires_at, start, stop), part_of(routes, start, stop),
                )  # fmt: skip
                self._records.append(record)
        self.depth += len(entries)
        self.ready_bytes += sum(map(len, entries))

    def pass_run(self, run_part: RunPart, first: int, now: Now) -> tuple[Batch, None]:
        assert not self.depth
        entries = run_part.entries.copy()
        return _batch(first, entries, run_part.attributes, expires_at=run_part.expires_at, routes=run_part.routes), None

    def taken_names(self, ranges_max: int) -> TakenNumbers:
        self._taken.ranges_max = ranges_max
        return self._taken

    def took(self, names: Sequence[PublishingId | None]) -> None:
        self._taken.merge(packed(names))

    def fetch(self, n: int) -> Batch | None:
        if not self._records:
            return None
        record = self._records[0]
        if n >= len(record.entries):
            self._records.popleft()
        else:
            record = record.cut_off(n)
        entries = record.entries
        self.depth -= len(entries)
        self.ready_bytes -= sum(map(len, entries))
        return _batch(record.first, entries, record.attributes, expires_at=record.expires_at, routes=record.routes)

    def settle(self, batch: Batch) -> None:
        pass

    def give_back(self, batch: Batch) -> None:
        pass

    def restore(self, batch: Batch) -> None:
        raise AssertionError("nothing is paged out of a memory backing")

    def discard(self, batch: Batch, reason: str) -> None:
        pass

    def discards(self) -> tuple[()]:
        return ()

    def purge(self, let_go: LetGo) -> int:
        dropped = self.depth
        let_go(self._records)
        self._records = deque()
        self.depth = self.ready_bytes = 0
        return dropped

    def write_now(self) -> None:
        pass

    def delete(self, let_go: LetGo) -> None:
        self.purge(let_go)

    def counts(self) -> Mapping[str, int]:
        return {"alpha": self.depth, "ram_messages": self.depth, "ram_bytes": self.ready_bytes}

    def _extend_last(self, entries: list[bytes], run_part: RunPart, first: int, now: Now) -> bool:
        if not self._records:
            return False
        last = self._records[-1]
        attributes = run_part.run.attributes
        count, further = len(last.entries), len(entries)
        if (
            count + further > RECORD_ENTRIES_MAX
            or now.monotonic - last.arrival > ARRIVAL_GRAIN
            or last.first + count != first
            or (last.attributes is not attributes and not may_join(last.attributes, attributes))
        ):
            return False
        if last.attributes is not attributes:
            last.attributes = joined(last.attributes, count, run_part.attributes, further)
        if last.expires_at is not run_part.expires_at:
            last.expires_at = joined(last.expires_at, count, run_part.expires_at, further)
        last.routes = joined(last.routes, count, run_part.routes, further)
        last.entries.extend(entries)
        return True


def _batch(
    first: int, entries: list[bytes], attributes: RunAttributes, *, expires_at: Expiries, routes: Routes
) -> Batch:
    return Batch(range(first, first + len(entries)), entries, attributes, expires_at=expires_at, routes=routes)
