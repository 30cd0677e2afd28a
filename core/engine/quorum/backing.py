"""The backing of a quorum queue: its messages are in the command log, and become ready when they are committed there.

A published message waits in memory until the log has committed it; then it is ready. The oldest ready messages are
*resident*: their bodies are in memory, up to a bound. The messages behind them are *paged*: only the tables of the
machine know them. When no resident message is left, the next batch is read back.

The backing gets no notice of commits. Each call reads the committed position of the log, and the broker touches the
queue when a published message was committed.

Invariants: resident before paged before uncommitted, each ascending; every ready message of the machine is in exactly
one of them, or was handed out. Settlements are gathered and appended when the lane takes its next batch. A settlement
that a crash loses leads to a second delivery, which is marked as such.

In a group that other nodes have copies of, a command has no place when it is appended. The machine then applies it when
it is committed, which is before the backing sees the committed position. A node that has lost its group is told so by
the first command that the log refuses: the backing takes on nothing more, and its messages are never confirmed.

A quorum queue has two priority levels, up to 4 and above. Each level has its own backing on the same log.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from math import inf
from typing import NamedTuple

from core.clock import Now
from core.engine.quorum.annotations import AnnotationCodec
from core.engine.quorum.block import SpanPart
from core.engine.quorum.cleaning import Cleaner
from core.engine.quorum.commands import (
    Delete,
    Discard,
    History,
    ReturnedRecord,
    Settle,
    TakenIds,
    as_ranges,
    encode,
    encode_facts,
    enqueue_head,
)
from core.engine.quorum.machine import QuorumMachine
from core.engine.quorum.reading import read_bodies
from core.engine.quorum.replicated_log import ReplicatedLog
from core.engine.ready.batch import Batch
from core.engine.ready.remains import LetGo
from core.message import Attributes, Route, RunPart
from core.store.command_log import NOWHERE, CommandPlace, LeaseLost
from core.store.record import JOIN_BELOW
from core.taken_numbers import PublishingId, TakenNumbers, packed

RESIDENT_MESSAGES_MAX = 2048
RESIDENT_BYTES_MAX = 4 << 20
"""The most resident messages and bytes of a queue: a few batches of a fast consumer."""
READ_MESSAGES_MAX = 256
BATCH_BYTES_MAX = 1 << 20
"""The most messages and bytes read back at once: a few hundred microseconds from the page cache."""
BATCH_MESSAGES_MAX = 256
"""Single messages are joined into batches up to this length, and longer runs are cut, because taking the front of a
batch copies the rest."""


class _Uncommitted(NamedTuple):
    position: int
    batch: Batch
    size: int


class QuorumBacking:
    """See :class:`core.engine.ready.backing.Backing`."""

    __slots__ = (
        "_annotations", "_cleaner", "_fencing_token", "_log", "_lost", "_machine", "_next_sequence", "_paged",
        "_paged_bytes", "_paged_from", "_resident", "_resident_bytes", "_resident_count", "_route", "_route_facts",
        "_settled", "_taken", "_uncommitted", "reads",
    )  # fmt: skip

    keeps_durable = False
    """All messages are in the command log."""
    passes = False
    """A message must not be delivered before it is committed."""

    def __init__(
        self,
        machine: QuorumMachine,
        log: ReplicatedLog,
        cleaner: Cleaner,
        annotations: AnnotationCodec,
        *,
        fencing_token: int,
        lost: Callable[[], None],
    ) -> None:
        """``lost`` is called when the log refuses a command, because another node leads now."""
        self._machine = machine
        self._lost = lost
        self._next_sequence = machine.next_sequence
        """A sequence number above all that were published."""
        self._log = log
        self._cleaner = cleaner
        self._annotations = annotations
        self._fencing_token = fencing_token
        self._uncommitted: deque[_Uncommitted] = deque()
        self._resident: deque[Batch] = deque()
        self._resident_count = 0
        self._resident_bytes = 0
        self._paged_from = 0
        """The first paged message is the first one left with this sequence number or a higher one."""
        self._paged = machine.live - len(machine.discards)
        self._paged_bytes = machine.live_bytes - sum(sum(piece.sizes) for piece in machine.discarded())
        self._settled: list[Sequence[int]] = []
        self._route: Route | None = None
        self._route_facts = b""
        """The encoded route of the newest run, because the next run usually has the same route."""
        self._taken: TakenNumbers | None = None
        """The publishing ids of the machine and those of commands that are not committed; None while no one asks."""
        self.reads = 0

    # --- what is ready

    @property
    def depth(self) -> int:
        """See :class:`core.engine.ready.backing.Backing`, also for the methods below."""
        if self._uncommitted:
            self._look()
        return self._resident_count + self._paged

    @property
    def ready_bytes(self) -> int:
        if self._uncommitted:
            self._look()
        return self._resident_bytes + self._paged_bytes

    @property
    def head_sequence(self) -> int | None:
        return self.first_undelivered if self.depth else None

    @property
    def head_expires_at(self) -> float | None:
        if self._uncommitted:
            self._look()
        if self._resident:
            return self._resident[0].first_expires_at
        return next(self._machine.ready(self._paged_from)).expires_at if self._paged else None

    @property
    def first_undelivered(self) -> int:
        """The first sequence number that was not handed out yet: all messages before it were handed out or are gone."""
        if self._resident:
            return self._resident[0].sequences[0]
        if self._paged:
            return self._paged_from
        return self._uncommitted[0].batch.sequences[0] if self._uncommitted else self._next_sequence

    def _look(self) -> None:
        """Make the messages ready that the log has committed."""
        committed = self._log.committed
        while self._uncommitted and self._uncommitted[0].position <= committed:
            _, batch, size = self._uncommitted.popleft()
            self._make_ready(batch, size)

    def _make_ready(self, batch: Batch, size: int) -> None:
        if self._paged or (
            self._resident
            and (
                self._resident_count + len(batch) > RESIDENT_MESSAGES_MAX
                or self._resident_bytes + size > RESIDENT_BYTES_MAX
            )
        ):
            if not self._paged:
                self._paged_from = batch.sequences[0]
            self._paged += len(batch)
            self._paged_bytes += size
        else:
            self._make_resident(batch, size)

    def _make_resident(self, batch: Batch, size: int) -> None:
        self._resident_count += len(batch)
        self._resident_bytes += size
        last = self._resident[-1] if self._resident else None
        if last is not None and len(last) + len(batch) <= BATCH_MESSAGES_MAX and last.like(batch):
            last.join(batch)
        elif len(batch) <= BATCH_MESSAGES_MAX:
            self._resident.append(batch)
        else:
            for start in range(0, len(batch), BATCH_MESSAGES_MAX):
                self._resident.append(batch.part(start, start + BATCH_MESSAGES_MAX))

    # --- in and out

    def publish_run(self, run_part: RunPart, first: int, now: Now) -> int:
        position = 0
        for part, attributes, route, expiry in run_part.alike():
            position = self._publish_alike(part, attributes, route, expiry, first)
            first += len(part)
        return position

    def _publish_alike(
        self, run_part: RunPart, attributes: Attributes, route: Route | None, expires_at: float | None, first: int
    ) -> int:
        """Append messages that have the same attributes, route and expiry."""
        entries = run_part.entries
        if route is not self._route:
            self._route = route
            self._route_facts = encode_facts(route)
        taken, facts = None, self._route_facts
        if run_part.names is not None and self._taken is not None and any(run_part.names):
            taken = TakenIds(self._taken.ranges_max, packed(run_part.names))
            facts = encode_facts(route, taken=taken)
        lengths = list(map(len, entries))
        size = sum(lengths)
        sizes = array("I", lengths)
        machine = self._machine
        head = enqueue_head(machine.key, first, sizes, attributes, expires_at, facts)
        head_bytes = len(head)
        payload = (head + b"".join(entries),) if size < JOIN_BELOW else (head, *entries)
        try:
            position, file, offset = self._log.append(payload, head_bytes + size, self._fencing_token, prompt=True)
        except LeaseLost:
            self._lost()
            return NOWHERE.position
        self._next_sequence = first + len(sizes)
        if taken is not None and self._taken is not None:
            self._taken.merge(taken.names)
        if file:
            machine.enqueue(
                first, sizes, attributes, route, expiry=inf if expires_at is None else expires_at,
                file=file, offset=offset + head_bytes, head_bytes=head_bytes, body_bytes=size, taken=taken,
            )  # fmt: skip
        batch = Batch(
            range(first, first + len(sizes)),
            entries.copy(),
            attributes,
            expires_at=expires_at,
            routes=route,
            stored=True,
        )
        self._uncommitted.append(_Uncommitted(position, batch, size))
        return position

    def pass_run(self, run_part: RunPart, first: int, now: Now) -> tuple[Batch, int | None]:
        raise AssertionError("a message of a quorum queue must not be delivered before it is committed")

    def taken_names(self, ranges_max: int) -> TakenNumbers:
        if self._taken is None:
            self._taken = TakenNumbers(ranges_max)
            if self._machine.taken is not None:
                self._taken.merge(self._machine.taken.packed())
        return self._taken

    def took(self, names: Sequence[PublishingId | None]) -> None:
        """See :class:`core.engine.ready.backing.Backing`. They were remembered when their command was appended."""

    def fetch(self, n: int) -> Batch | None:
        if self._uncommitted:
            self._look()
        if not self._resident:
            if not self._paged:
                return None
            self._read_batch()
        batch = self._resident.popleft()
        if n < len(batch):
            self._resident.appendleft(batch.part(n, len(batch)))
            batch = batch.part(0, n)
        self._resident_count -= len(batch)
        self._resident_bytes -= sum(map(len, batch.entries))
        return batch

    def _read_batch(self) -> None:
        """Make the first paged messages resident."""
        pieces = list(self._next_pieces())
        bodies = read_bodies(self._log, pieces)
        self.reads += 1
        start = 0
        while start < len(pieces):
            stop = self._alike_from(pieces, start)
            entries = list(chain.from_iterable(bodies[start:stop]))
            first = pieces[start].sequences[0]
            size = sum(map(len, entries))
            self._paged -= len(entries)
            self._paged_bytes -= size
            self._make_resident(self._batch(pieces[start], range(first, first + len(entries)), entries), size)
            start = stop
        self._paged_from = pieces[-1].sequences[-1] + 1

    def _alike_from(self, pieces: Sequence[SpanPart], start: int) -> int:
        """Return the end of the pieces that adjoin and are alike, from ``start`` on. Single messages mostly are."""
        before = pieces[start]
        machine = self._machine
        boundary = machine.delivered_below
        stop = start + 1
        while stop < len(pieces):
            piece = pieces[stop]
            if (
                piece.sequences[0] != before.sequences[-1] + 1
                or piece.sequences[0] == boundary
                or piece.attributes is not before.attributes
                or piece.route is not before.route
                or piece.expiry != before.expiry
                or machine.histories
            ):
                break
            before = piece
            stop += 1
        return stop

    def _next_pieces(self) -> Iterator[SpanPart]:
        """Yield the messages of the next batch, at least one, cut where messages are not alike."""
        count = min(READ_MESSAGES_MAX, self._paged)
        room = BATCH_BYTES_MAX
        for piece in chain.from_iterable(map(self._alike, self._machine.ready(self._paged_from))):
            fits = _fitting(piece.sizes, count, room)
            yield piece if fits == len(piece.sizes) else piece.part(0, max(fits, 1))
            count -= fits
            room -= sum(piece.sizes[:fits])
            if fits < len(piece.sizes) or not count or room <= 0:
                return

    def _alike(self, piece: SpanPart) -> Iterator[SpanPart]:
        """Yield the piece, cut where the history of its messages changes."""
        machine = self._machine
        first = piece.sequences[0]
        if not machine.histories and not first < machine.delivered_below <= piece.sequences[-1]:
            yield piece
            return
        for _, alike in groupby(piece.sequences, lambda s: (machine.histories.get(s), s < machine.delivered_below)):
            positions = list(alike)
            yield piece.part(positions[0] - first, positions[-1] + 1 - first)

    def _batch(self, piece: SpanPart, sequences: range, entries: list[bytes]) -> Batch:
        """Make the batch of messages that were read back and are like the first one of the piece."""
        first = sequences[0]
        history = self._machine.histories.get(first) if self._machine.histories else None
        added = history.annotations if history is not None else b""
        return Batch(
            sequences,
            entries,
            piece.attributes,
            history.delivery_count if history is not None else 0,
            first_acquirer=first >= self._machine.delivered_below,
            annotations=self._annotations.decode(added, piece.attributes.origin) if added else None,
            expires_at=piece.expires_at,
            routes=piece.route,
            stored=True,
        )

    # --- what became of what was handed out

    def settle(self, batch: Batch) -> None:
        if not self._settled:
            self._log.later(self)
        self._settled.append(batch.sequences)

    def write_late(self) -> None:
        """See :class:`core.store.lane.LateWriter`."""
        if self._settled:
            ranges = _coalesced(self._settled)
            self._settled.clear()
            self._settle(ranges, prompt=False)

    def _settle(self, ranges: list[range], *, prompt: bool) -> None:
        machine = self._machine
        live, live_bytes = machine.live, machine.live_bytes
        if self._append(Settle(ranges), prompt=prompt).file:
            machine.settle(ranges)
            self._cleaner.died(live - machine.live, live_bytes - machine.live_bytes)

    def give_back(self, batch: Batch) -> None:
        """See :class:`core.engine.ready.backing.Backing`. Records delivery counts and annotations in the log."""
        if not batch.delivery_count and not batch.annotations:
            return
        added = batch.annotations
        encoded = self._annotations.encode(added, batch.origin) if added else b""
        history = History(batch.delivery_count, encoded)
        known = self._machine.histories
        if all(known.get(sequence) == history for sequence in batch.sequences):
            return
        ranges = as_ranges(batch.sequences)
        if self._append(ReturnedRecord(ranges, history), prompt=False).file:
            self._machine.returned(ranges, history)

    def discard(self, batch: Batch, reason: str) -> None:
        """Record that messages that were fetched are being dead-lettered. After a start ``discards`` returns them."""
        ranges = as_ranges(batch.sequences)
        if self._append(Discard(ranges, reason), prompt=False).file:
            self._machine.discard(ranges, reason)

    def discards(self) -> Iterator[tuple[Batch, str]]:
        """Hand out, after a start, the paged-out messages that were being dead-lettered, with the reasons."""
        reasons = self._machine.discards
        for piece in chain.from_iterable(map(self._alike, self._machine.discarded())):
            for reason, alike in groupby(piece.sequences, reasons.__getitem__):
                positions = list(alike)
                batch = self._batch(piece, range(positions[0], positions[-1] + 1), [])
                batch.paged = True
                yield batch, reason

    def restore(self, batch: Batch) -> None:
        if batch.paged:
            pieces = self._machine.pieces_of(batch.sequences)
            self.reads += 1
            batch.entries = list(chain.from_iterable(read_bodies(self._log, pieces)))
            batch.paged = False
            assert len(batch.entries) == len(batch.sequences), "messages that are settled already"

    # --- the queue as a whole

    def purge(self, let_go: LetGo) -> int:
        purged = self.depth + sum(len(run.batch) for run in self._uncommitted)
        if not purged:
            return 0
        # uncommitted messages go too: they are in the log before this command, which covers them as well
        self._settle(list(self._without_discards(self.first_undelivered, self._next_sequence)), prompt=True)
        self._clear(let_go)
        return purged

    def _clear(self, let_go: LetGo) -> None:
        for objects in (self._uncommitted, self._resident):
            let_go(objects)
        self._uncommitted, self._resident = deque(), deque()
        self._resident_count = self._resident_bytes = self._paged = self._paged_bytes = 0

    def write_now(self) -> None:
        """See :class:`core.engine.ready.backing.Backing`."""
        self._log.write_now()

    def _without_discards(self, start: int, stop: int) -> Iterator[range]:
        for discarded in sorted(sequence for sequence in self._machine.discards if start <= sequence < stop):
            if start < discarded:
                yield range(start, discarded)
            start = discarded + 1
        if start < stop:
            yield range(start, stop)

    def delete(self, let_go: LetGo) -> None:
        machine = self._machine
        if self._append(Delete(), prompt=True).file:
            self._cleaner.died(machine.live, machine.live_bytes)
            let_go(machine.clear())
        self._settled.clear()
        self._clear(let_go)

    def counts(self) -> Mapping[str, int]:
        depth = self.depth
        return {
            "alpha": self._resident_count,
            "delta": depth - self._resident_count,
            "uncommitted": sum(len(run.batch) for run in self._uncommitted),
            "ram_messages": self._resident_count,
            "ram_bytes": self._resident_bytes,
            "reads": self.reads,
        }

    def _append(self, command: Settle | ReturnedRecord | Discard | Delete, *, prompt: bool) -> CommandPlace:
        """Append a command. If its place has a file, the caller applies it."""
        payload = encode(self._machine.key, command)
        try:
            place = self._log.append((payload,), len(payload), self._fencing_token, prompt=prompt)
        except LeaseLost:
            self._lost()
            return NOWHERE
        if place.file:
            self._cleaner.appended(len(payload))
        return place


def _fitting(sizes: "array[int]", count: int, room: int) -> int:
    """Return how many of the sizes, from the first, fit into ``count`` messages and ``room`` bytes."""
    if len(sizes) <= count and sum(sizes) <= room:
        return len(sizes)
    for number, size in enumerate(sizes[:count]):
        room -= size
        if room < 0:
            return number
    return min(len(sizes), count)


def _coalesced(settled: Sequence[Sequence[int]]) -> list[range]:
    """Return all these positions in as few ranges as possible."""
    ranges: list[range] = []
    for positions in settled:
        if isinstance(positions, range) and positions.step == 1:
            if ranges and ranges[-1].stop == positions.start and ranges[-1].step == 1:
                ranges[-1] = range(ranges[-1].start, positions.stop)
            else:
                ranges.append(positions)
        else:
            ranges += as_ranges(positions)
    if len(ranges) == 1:
        return ranges
    together = as_ranges(sorted(chain.from_iterable(ranges)))
    return min(ranges, together, key=len)
