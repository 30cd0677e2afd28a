"""The backing of classic queues with a store: messages in memory up to the queue's share of memory, the rest on disk.

A ready message is in one of four states:

=====  ======================  ======================================================================================
alpha  body and index in RAM   a durable one of a durable queue is on disk as well, from the moment it is published
beta   body on disk only       transient, paged out when memory is short
gamma  body on disk only       durable: paging it out only drops the copy in memory
delta  on disk                 memory has only a range of sequence numbers and a count
=====  ======================  ======================================================================================

"Index in RAM" is a record for each run: number, length, attributes, expiry. No object is kept for a single message.
Small bodies are stored in the record of the queue index itself, so a paged transient message also has its index on
disk; it still counts as beta.

The messages are in five lists, oldest first: q4 (alphas), q3 (betas and gammas), delta, q2 (betas and gammas), q1
(alphas). Messages are published to q4 while q3 and delta are empty, else to q1. They are fetched from q4, then from q3.
Between the lists they move as follows:

- When q3 becomes empty, a fetch reads the next part of delta into it, at most one segment. After the last part of
  delta, q2 moves to q3. If delta is empty, q1 becomes q4.
- When memory is short, alphas of q1 move to q2 (to q3 if delta is empty), and alphas at the rear of q4 to the front of
  q3. Betas move in full batches from the rear of q3 and the front of q2 to delta.

Invariants: if q3 is empty, q1 and delta are empty; if delta is empty, q2 is empty; counts and bytes are never negative
and add up. A *lazy* queue publishes to delta: q1, q2 and q4 are empty, and q3 may be empty although delta is not. A
queue is in the same state after a start until its first fetch. After the first fetch, a lazy queue publishes to q3
while delta is empty and q3 is not full; otherwise a short backlog would be read back from delta again and again. When
the mode changes, the messages move gradually, in batches.

With ``store.salvage`` damaged records are skipped, so messages may turn out to be missing when they are fetched. They
are counted as lost; the others keep their order.

A message that is paged out leaves this module's memory at once, even if its lane has not written it yet: until then the
queue index reads it from the records that the lane has staged, whose size the lane bounds.

This module knows neither consumers nor lanes, and no clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf

from core.clock import Now
from core.engine.classic.acks import HandedOut, write
from core.engine.classic.alphas import Alphas
from core.engine.classic.betas import Betas, Unplaced, between, found_at_start, next_boundary, unplaced
from core.engine.classic.q3 import Q3
from core.engine.classic.residency import (
    RATES_MESSAGES,
    Moved,
    Paging,
    Rates,
    acks_first,
    averaged,
    chunk_size,
    permitted_betas,
    queue_duration,
    target_ram_count,
)
from core.engine.ready.batch import Batch
from core.engine.ready.remains import LetGo
from core.engine.ready.returned import NO_CONSUMER
from core.message import RunPart, first_of
from core.store.places import SEGMENT_BITS, SEGMENT_MESSAGES, StoredRun
from core.store.queue_index import QueueIndex
from core.taken_numbers import PublishingId, TakenNumbers, packed


class VariableQueue:
    """The ready messages of one priority level: a :class:`core.engine.ready.backing.Backing` that pages."""

    __slots__ = (
        "_delta", "_direct", "_disk_bytes", "_durable", "_estimates", "_index", "_lazy", "_moved", "_new_from", "_out",
        "_paging", "_purged", "_q1", "_q2", "_q3", "_q4", "_ram_before", "_rates", "_rates_at",
        "_reserve_at", "_taken_before", "acks_to_page", "depth", "lost", "pressed", "ready_bytes", "settle",
        "target",
    )  # fmt: skip

    def __init__(
        self, index: QueueIndex, *, durable: bool, lazy: bool = False, paging: Paging | None = None, now: float = 0.0
    ) -> None:
        """``durable``: the queue's durable messages are to be on disk. ``now``: monotonic seconds."""
        self._index = index
        self._durable = durable
        self._paging = paging or Paging()
        self._lazy = lazy
        self.pressed = lazy
        """Whether messages may have to be paged out."""
        self._q1 = Alphas()
        self._q2 = Betas()
        self._delta = found_at_start(index)
        self._q3 = Q3(index, self._paging)
        self._q4 = Alphas()
        self._out = HandedOut(index)
        self.settle = self._out.settle
        """See :class:`core.engine.ready.backing.Backing`; without a method, a call less for each run."""
        self.depth = self._delta.count
        self._new_from = index.next_sequence_floor
        """Messages below it are from before the start, and may be settled: the newest segment keeps its file."""
        self._estimates = {number: segment.live_bytes for number, segment in index.segments.items() if segment.live}
        """Estimated bytes of each segment that the start found, until it is read."""
        self.ready_bytes = sum(self._estimates.values())
        self._disk_bytes = self.ready_bytes
        """Bytes of messages in q2, q3 and delta."""
        self._reserve_at = 0 if durable else inf
        """The sequence number at which to reserve further numbers in the index."""
        self.target = inf
        """How many messages may be in memory; infinity for no limit."""
        self.acks_to_page = 0
        self.lost = 0
        """Messages that turned out to be lost when they were to be fetched."""
        self._purged = 0
        self._direct = 0
        self._rates = Rates()
        self._rates_at = now
        self._moved = self._moved_so_far()
        self._ram_before = 0
        self._taken_before = 0

    # --- how much is where

    @property
    def _alphas(self) -> int:
        return self._q1.count + self._q4.count

    @property
    def _on_disk_only(self) -> bool:
        """Whether all messages are in q3 and delta, as in a lazy queue and after a start."""
        return not (self._q4.count or self._q1.count or self._q2.count)

    @property
    def ram_messages(self) -> int:
        """How many ready messages have their bodies in memory."""
        return self._alphas + self._q3.ahead

    @property
    def ram_bytes(self) -> int:
        """How many bytes these bodies have."""
        return self.ready_bytes - self._disk_bytes + self._q3.ahead_bytes

    @property
    def ram_acks(self) -> int:
        """How many messages in memory were handed out and are not settled, with returned ones."""
        return self._out.in_ram

    @property
    def head_sequence(self) -> int | None:
        """See :class:`core.engine.ready.backing.Backing`, also for the methods below. It is found without reading from
        disk."""
        if self._q4.count:
            return self._q4.first
        if self._q3.count:
            return self._q3.first
        if self._delta.count:
            return self._delta.start
        return self._q1.first if self._q1.count else None

    @property
    def head_expires_at(self) -> float | None:
        if self._q4.count:
            return self._q4.head_expires_at
        if not self.depth:
            return None
        if not self._q3.count:
            if not self._delta.expiring:
                return None
            self._deltas_to_betas()
            if not self._q3.count:
                self._q1_to_q4()
                return self.head_expires_at
        return self._q3.head_expires_at

    def counts(self) -> Mapping[str, int]:
        paged = (*self._q3.runs(), *self._q2)
        gamma = sum(len(run) for run in paged if self._durable and run.attributes.durable)
        delta = self._delta.count
        counts = {
            "alpha": self._alphas,
            "beta": self.depth - self._alphas - delta - gamma,
            "gamma": gamma,
            "delta": delta,
            "q1": self._q1.count,
            "q2": self._q2.count,
            "q3": self._q3.count,
            "q4": self._q4.count,
            "ram_messages": self.ram_messages,
            "ram_bytes": self.ram_bytes,
            "ram_acks": self.ram_acks,
            "ram_ack_bytes": self._out.bytes,
            "paged_acks": self._out.paged,
            "index_reads": self._index.index_reads,
            "place_reads": self._q3.place_reads,
            "body_reads": self._index.body_reads,
            "lost": self.lost,
            "direct": self._direct,
        }
        if self.target != inf:
            counts["target_ram_count"] = int(self.target)
        return counts

    # --- publishing

    def publish_run(self, run_part: RunPart, first: int, now: Now) -> int | None:
        entries = run_part.entries
        count = len(entries)
        size = sum(map(len, entries))
        position = None
        at = 0
        stored = self._durable and first_of(run_part.run.attributes, run_part.start).durable
        if stored:
            position, at = self._index.publish(first, run_part)
        elif first >= self._reserve_at:
            self._reserve(first + count)
        if self.depth == self._q4.count and not self._lazy:
            self._q4.append(entries, run_part, first, now.monotonic, stored=stored, at=at)
        elif self._lazy and self._on_disk_only:
            if position is None:
                _, at = self._index.publish(first, run_part)
            self._publish_to_disk(run_part, first, at)
            self._disk_bytes += size
        else:
            self._publish_behind(entries, run_part, first, now, stored=stored, at=at)
        self.depth += count
        self.ready_bytes += size
        if self.pressed:
            self.reduce_memory_use(now)
        if self.depth != self._q4.count:
            self._check()
        return position

    def _publish_to_disk(self, run_part: RunPart, first: int, at: int) -> None:
        """Add messages of a lazy queue, which are on disk already."""
        count = len(run_part)
        if self._delta.count or not self._out.taken or self._q3.count >= self._paging.betas_min:
            self._delta.append(first, count, expiring=run_part.expires_at is not None, at=at)
            return
        for run in unplaced(first, count, run_part.attributes, run_part.expires_at, at):
            self._q3.betas.append(run)

    def _publish_behind(
        self, entries: list[bytes], run_part: RunPart, first: int, now: Now, *, stored: bool, at: int
    ) -> None:
        """Add messages to q1, because q3 or delta is not empty, or a lazy queue still has alphas."""
        if self._delta.count and not self._q3.count:
            self._deltas_to_betas()
        behind = self._q4 if self.depth == self._q4.count else self._q1
        behind.append(entries, run_part, first, now.monotonic, stored=stored, at=at)

    @property
    def keeps_durable(self) -> bool:
        """See :class:`core.engine.ready.backing.Backing`, also for the next method."""
        return self._durable

    @property
    def passes(self) -> bool:
        return True

    def pass_run(self, run_part: RunPart, first: int, now: Now) -> tuple[Batch, int | None]:
        assert not self.depth
        entries, attributes = run_part.entries.copy(), run_part.attributes
        count = len(entries)
        stored = self._durable and (attributes[0] if isinstance(attributes, list) else attributes).durable
        position = None
        if stored:
            position, _ = self._index.publish(first, run_part)
        elif first >= self._reserve_at:
            self._reserve(first + count)
        batch = Batch(
            range(first, first + count), entries, attributes, 0, True, None, NO_CONSUMER,
            run_part.expires_at, run_part.routes, 0, stored,
        )  # fmt: skip
        self._direct += count
        self._out.take(batch, count, sum(map(len, entries)))
        return batch, position

    def taken_names(self, ranges_max: int) -> TakenNumbers:
        return self._index.remember(ranges_max)

    def took(self, names: Sequence[PublishingId | None]) -> None:
        if self._index.taken is not None:
            self._index.taken.merge(packed(names))

    def _reserve(self, upto: int) -> None:
        """Reserve the sequence numbers of messages that never go to the index, so that they are not used again after a
        start."""
        self._index.reserve(upto)
        self._reserve_at = upto + SEGMENT_MESSAGES

    # --- fetching

    def fetch(self, n: int) -> Batch | None:
        if self._q4.count:
            batch = self._q4.take_first(n)
            entries = batch.entries
            size = sum(map(len, entries))
        elif self.depth:
            from_disk = self._fetch_from_q3(n)
            if from_disk is None:
                return self.fetch(n)
            batch = from_disk
            entries = batch.entries
            size = sum(map(len, entries))
            self._disk_bytes -= size
        else:
            return None
        count = len(entries)
        self.depth -= count
        self.ready_bytes -= size
        if self.lost:
            self._forget_lost_bytes()
        self._out.take(batch, count, size)
        if self.depth != self._q4.count:
            self._check()
        return batch

    def _fetch_from_q3(self, n: int) -> Batch | None:
        """Returns None if the next messages are lost."""
        if not self._q3.count:
            self._deltas_to_betas()
        batch = self._q3.fetch(n)
        if self._q3.lost:
            self._lose()
        if not self._q3.count:
            assert not self._q4.count, "q4 is before q3"
            if not self._delta.count:
                self._q1_to_q4()
            elif not (self._lazy and self._on_disk_only):
                self._deltas_to_betas()
        return batch

    def _q1_to_q4(self) -> None:
        """Make q1 the new q4: nothing is between them."""
        assert not self._q2.count, "no delta, so no q2"
        self._q1, self._q4 = self._q4, self._q1

    def _deltas_to_betas(self) -> None:
        """Read the next part of delta that has messages into q3. After the last part, q2 is appended to q3."""
        delta = self._delta
        runs = self._q3.load_next(delta, self._new_from)
        if self._q3.lost:
            self._lose()
        if runs and self._estimates:
            self._count_exactly(runs)
        if not delta.count:
            self._q3.betas.take_all(self._q2)

    def _count_exactly(self, runs: list[StoredRun]) -> None:
        """Correct the bytes of messages from before the start, which were estimated until they were read."""
        number = runs[0].first >> SEGMENT_BITS
        if number not in self._estimates:
            return
        found = between(runs, range(self._new_from))
        self._estimates[number] -= sum(sum(run.sizes) for run in found)
        if not self._delta.count or self._delta.start >> SEGMENT_BITS > number:
            error = self._estimates.pop(number)
            self.ready_bytes -= error
            self._disk_bytes -= error

    def _lose(self) -> None:
        """Count lost messages. Their bytes are unknown, and are subtracted when no message is left on disk."""
        lost, self._q3.lost = self._q3.lost, 0
        self.lost += lost
        self.depth -= lost
        self._forget_lost_bytes()

    def _forget_lost_bytes(self) -> None:
        if self.depth == self._alphas:
            self.ready_bytes -= self._disk_bytes
            self._disk_bytes = 0

    # --- what was handed out

    def give_back(self, batch: Batch) -> None:
        """Does nothing: a returned message counts as handed out until it is settled."""

    def restore(self, batch: Batch) -> None:
        self._out.restore(batch)

    def page_out(self, batches: Iterable[Batch]) -> int:
        """See :class:`core.engine.ready.backing.Pages`, also for the methods below."""
        wanted, self.acks_to_page = self.acks_to_page, 0
        return self._out.page_out(batches, wanted)

    # --- paging

    def set_lazy(self, lazy: bool) -> None:
        self._lazy = lazy
        self.pressed = lazy or self.target != inf

    def reduce_memory_use(self, now: Now) -> bool:
        if not self.pressed:
            return False
        if sum(self._moved_so_far()) - sum(self._moved) > RATES_MESSAGES:
            self._take_rates(now.monotonic)
        batch = self._paging.io_batch_size
        if self._lazy:
            self._push_alphas_to_betas(batch)
            if not self._alphas:
                self._push_q2_to_delta(self._q2.count)
            self.acks_to_page = chunk_size(self.ram_acks, self.target, batch)
            return not self._on_disk_only
        quota = chunk_size(self._alphas + self.ram_acks, self.target, batch)
        paged = self._reduce_acks_and_alphas(quota)
        if chunk_size(self._q2.count + self._q3.count, self._permitted_betas, batch) == batch:
            paged += batch - self._push_q2_to_delta(self._push_q3_to_delta(batch))
        return paged >= batch

    def _reduce_acks_and_alphas(self, quota: int) -> int:
        """Page out handed-out messages or alphas, whichever grows faster; the other gets the rest of the quota. Returns
        how many alphas were paged out."""
        if acks_first(self._rates):
            self.acks_to_page = min(quota, self.ram_acks)
            quota -= self.acks_to_page
            return quota - self._push_alphas_to_betas(quota)
        left = self._push_alphas_to_betas(quota)
        self.acks_to_page = min(left, self.ram_acks)
        return quota - left

    @property
    def _permitted_betas(self) -> float:
        return permitted_betas(
            depth=self.depth,
            alphas=self._alphas,
            q3=self._q3.count,
            target=self.target,
            betas_min=self._paging.betas_min,
        )

    def _push_alphas_to_betas(self, quota: int) -> int:
        """Page out alphas: from the front of q1, then from the rear of q4. Returns the rest of the quota."""
        while quota and self._q1.count:
            at = self._q1.first_at
            batch = self._q1.take_first(quota)
            quota -= len(batch)
            betas = self._q2 if self._delta.count else self._q3.betas
            for run in self._paged(batch, at):
                betas.append(run)
        while quota and self._q4.count:
            at = self._q4.last_at
            batch = self._q4.take_last(quota)
            quota -= len(batch)
            for run in reversed(self._paged(batch, at)):
                self._q3.prepend(run)
        return quota

    def _paged(self, batch: Batch, at: int) -> list[Unplaced]:
        """Turn the alphas of a batch into betas or gammas, in one run or more: see :func:`unplaced`."""
        self._disk_bytes += sum(map(len, batch.entries))
        first, count = batch.sequences[0], len(batch)
        runs = unplaced(first, count, batch.attributes, batch.expires_at, at)
        if not batch.stored:
            for run in runs:
                run.at = write(self._index, batch, run.first - first, run.first - first + run.length)
        return runs

    def _push_q3_to_delta(self, quota: int) -> int:
        """Move betas and gammas from the rear of q3 to delta, but none of the first segment. Returns the rest of the
        quota."""
        if not self._q3.count:
            return quota
        kept_below = next_boundary(self._q3.first)
        betas = self._q3.betas
        while quota and betas.count and (beyond := betas.end - kept_below) > 0:
            run = betas.take_last(min(quota, beyond))
            quota -= len(run)
            self._delta.prepend(run.first, len(run), expiring=run.expires_at is not None)
        return quota

    def _push_q2_to_delta(self, quota: int) -> int:
        """Move betas and gammas from the front of q2 to delta. Returns the rest of the quota."""
        while quota and self._q2.count:
            run = self._q2.take_first(quota)
            quota -= len(run)
            self._delta.append(run.first, len(run), expiring=run.expires_at is not None)
        return quota

    # --- rates and target

    def report(self, now: float) -> float:
        """See :class:`core.engine.classic.residency.Resident`, also for the method below."""
        self._take_rates(now)
        if self._out.taken == self._taken_before:
            self._q3.forget_ahead()
        self._taken_before = self._out.taken
        in_ram = self.ram_messages + self.ram_acks
        duration = queue_duration(in_ram, self._ram_before, self._rates)
        self._ram_before = in_ram
        return duration

    def set_duration_target(self, target_s: float) -> bool:
        self.target = target_ram_count(target_s, self._rates)
        self.pressed = self._lazy or self.target != inf
        if self.target == inf:
            self.acks_to_page = 0
        if self._lazy:
            return self._alphas > 0 or self.ram_acks > self.target
        return self._alphas + self.ram_acks > self.target

    def _moved_so_far(self) -> Moved:
        taken = self._out.taken
        return Moved(self.depth + self.lost + self._purged + taken, taken, taken, self._out.settled)

    def _take_rates(self, now: float) -> None:
        elapsed_s = now - self._rates_at
        if elapsed_s > 0:
            moved = self._moved_so_far()
            grown = [new - old for new, old in zip(moved, self._moved, strict=True)]
            self._rates = averaged(self._rates, grown, elapsed_s)
            self._rates_at = now
            self._moved = moved

    # --- the end

    def discard(self, batch: Batch, reason: str) -> None:
        """See :class:`core.engine.ready.backing.Backing`. A classic queue keeps no record of it: after a start such
        messages are ready again."""

    def discards(self) -> tuple[()]:
        """See :class:`core.engine.ready.backing.Backing`."""
        return ()

    def purge(self, let_go: LetGo) -> int:
        """See :class:`core.engine.ready.backing.Backing`. What was handed out stays: it is before ``_head``."""
        dropped = self.depth
        if dropped:
            self._index.purge(self._head)
        self._clear(let_go)
        self._purged += dropped
        return dropped

    def write_now(self) -> None:
        """See :class:`core.engine.ready.backing.Backing`."""
        self._index.write_now()

    @property
    def _head(self) -> int:
        """A sequence number that separates messages handed out (below) from ready ones. There must be a ready
        message."""
        if self._q4.count:
            return self._q4.first
        return self._q3.first if self._q3.count else self._delta.start

    def conclude(self, next_sequence: int) -> None:
        """See :class:`core.engine.ready.backing.Pages`. All messages ever handed out are below the oldest ready one."""
        index = self._index
        index.delivered_below = max(index.delivered_below, self._head if self.depth else next_sequence)
        index.next_sequence_floor = max(index.next_sequence_floor, next_sequence)

    def delete(self, let_go: LetGo) -> None:
        """See :class:`core.engine.ready.backing.Backing`."""
        self._clear(let_go)
        self._index.delete()

    def _clear(self, let_go: LetGo) -> None:
        for part in (self._q1, self._q2, self._q3, self._q4):
            let_go(part.clear())
        self._delta.clear()
        self._estimates.clear()
        self.depth = self.ready_bytes = self._disk_bytes = 0

    # --- invariants

    def _check(self) -> None:
        """Check the invariants that cost constant time. Called after each operation that concerns more than q4."""
        q1, q2, q3, q4, delta = self._q1.count, self._q2.count, self._q3.count, self._q4.count, self._delta
        assert q1 + q2 + delta.count + q3 + q4 == self.depth, "the parts add up"
        assert q3 or not q1, "q1 is behind q3"
        assert delta.count or not q2, "q2 is behind delta"
        assert q3 or not delta.count or self._on_disk_only, "delta is behind q3"
        assert delta.count >= 0, "delta counts messages"
        assert delta.start + delta.count <= delta.end or not delta.count, "delta has room for its messages"
        assert 0 <= self._disk_bytes <= self.ready_bytes, "bytes on disk are bytes of ready messages"

    def check(self) -> None:
        """Check all invariants, run by run; for tests."""
        self._check()
        delta = self._delta
        on_disk = [range(run.first, run.first + len(run)) for run in self._q3.runs()]
        tail = [range(run.first, run.first + len(run)) for run in self._q2]
        in_ram = [*self._q4.runs(), *self._q1.runs()]
        between_them = [range(delta.start, delta.end)] if delta.count else []
        order = [*self._q4.runs(), *on_disk, *between_them, *tail, *self._q1.runs()]
        assert all(order), "no run is empty"
        assert all(left[-1] < right[0] for left, right in pairwise(order)), "runs are in order"
        assert all(run[-1] < next_boundary(run[0]) for run in (*on_disk, *tail)), "runs stay within a segment"
        assert sum(map(len, in_ram)) == self._alphas
        assert sum(map(len, on_disk)) == self._q3.count
        assert sum(map(len, tail)) == self._q2.count
        assert self.ram_messages <= self.depth
        assert self.ram_bytes <= self.ready_bytes
        assert 0 <= self._out.paged <= self._out.on_disk
        assert self.ram_acks > 0 or self.ram_acks == 0 == self._out.bytes
        live = sum(segment.live for segment in self._index.segments.values())
        durable_alphas = self._q1.stored + self._q4.stored
        assert live == self.depth - self._alphas + durable_alphas + self._out.on_disk + self.lost, "the rest is on disk"
