"""The backing of classic queues with a store: as much in memory as its share of it allows, the rest on disk.

A ready message is in one of four states:

=====  ======================  ======================================================================================
alpha  body and index in RAM   a durable one of a durable queue is on disk as well, from the moment it is published
beta   body on disk only       transient, paged out under pressure
gamma  body on disk only       durable: paging it out means letting go of the copy in memory
delta  on disk                 in memory there are only two numbers to look between, and a count
=====  ======================  ======================================================================================

"Index in RAM" is a record for each run: number, length, attributes, expiry. Small bodies stand in the record of the
queue index itself, so a paged transient message has its index on disk too; it counts as beta all the same. Nothing here
is an object for one message.

The messages stand in five places, oldest first: q4 (alphas), q3 (betas and gammas), delta, q2 (betas and gammas), q1
(alphas). They are published to q4 while nothing is in q3 and delta, to q1 otherwise; and fetched from q4, then from q3.
Between them:

- When q3 runs empty, delta is read into it, one segment or a portion of it at a time and never before a fetch;
  behind the last of delta comes q2. With no delta, what is in q1 becomes q4.
- Memory pressure moves alphas of q1 to q2 (to q3 without a delta), those at the rear of q4 to the front of q3; and
  betas, in full batches, from the rear of q3 and the front of q2 into delta.

Invariants: with q3 empty, q1 is; with delta empty, q2 is; with q3 empty, delta is; counts and bytes are never negative
and add up. A *lazy* queue writes everything to delta as it comes: q1, q2 and q4 are empty, and delta may be there
without q3. That is also what a queue looks like after a start, until a consumer comes to it. Once one has, messages
go straight to q3 while there is no delta and q3 is not full: else a short backlog would be read back from delta over
and over. When the mode changes, the queue gets there and back gradually, in batches.

Where damage is passed over (``store.salvage``), messages may turn out not to be there when they are fetched.
They are counted as lost; the rest keeps its order.

What leaves memory leaves it at once, also when its lane has not written it yet: the queue index answers from what is
staged. So what the lane has staged, for which it has a bound, is all that may stay for a moment longer.

This module knows neither consumers nor lanes, and no clock.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import inf

from core.clock import Now
from core.engine.residency import (
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
from core.engine.stretch import Stretch
from core.engine.variable_acks import HandedOut, write
from core.engine.variable_alphas import NOBODY, Alphas
from core.engine.variable_betas import Betas, Delta, Unplaced, between, next_boundary
from core.engine.variable_q3 import Q3
from core.message import Portion
from core.store.places import SEGMENT_BITS, SEGMENT_MESSAGES, StoredRun
from core.store.queue_index import QueueIndex


class VariableQueue:
    """The ready messages of one priority level: a :class:`core.engine.backing.Backing` that pages."""

    __slots__ = (
        "_delta", "_direct", "_disk_bytes", "_durable", "_estimates", "_found_end", "_index", "_lazy", "_moved", "_out",
        "_paging", "_pressed", "_purged", "_q1", "_q2", "_q3", "_q4", "_ram_before", "_rates", "_rates_at",
        "_reserve_at", "_taken_before", "acks_to_page", "depth", "lost", "ready_bytes", "target",
    )  # fmt: skip

    def __init__(
        self, index: QueueIndex, *, durable: bool, lazy: bool = False, paging: Paging | None = None, now: float = 0.0
    ) -> None:
        """``durable``: the queue's durable messages are to be on disk. ``now``: monotonic seconds."""
        self._index = index
        self._durable = durable
        self._paging = paging or Paging()
        self._lazy = lazy
        self._pressed = lazy
        """There may be something to page."""
        self._q1 = Alphas(durable=durable)
        self._q2 = Betas()
        self._delta = _found_at_start(index)
        self._q3 = Q3(index, self._paging)
        self._q4 = Alphas(durable=durable)
        self._out = HandedOut(index)
        self.depth = self._delta.count
        self._found_end = self._delta.end
        self._estimates = {number: segment.live_bytes for number, segment in index.segments.items() if segment.live}
        """Bytes of the segments found at the start, as long as they were not read."""
        self.ready_bytes = sum(self._estimates.values())
        self._disk_bytes = self.ready_bytes
        """Of q2, q3 and delta."""
        self._reserve_at = 0 if durable else inf
        """The sequence number at which the index is told about numbers again."""
        self.target = inf
        """How many messages may be in memory; infinity is any number."""
        self.acks_to_page = 0
        self.lost = 0
        """Messages that were gone when they were fetched."""
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
        """Everything is in q3 and delta, as in a lazy queue, and after a start."""
        return not (self._q4.count or self._q1.count or self._q2.count)

    @property
    def ram_messages(self) -> int:
        """Ready messages whose bodies are in memory."""
        return self._alphas + self._q3.ahead

    @property
    def ram_bytes(self) -> int:
        """Their bytes."""
        return self.ready_bytes - self._disk_bytes + self._q3.ahead_bytes

    @property
    def ram_acks(self) -> int:
        """Messages in memory that were handed out and are not settled, with those that came back."""
        return self._out.in_ram

    @property
    def head_sequence(self) -> int | None:
        """See :class:`core.engine.backing.Backing`, also for the methods below. Nothing is read from disk for it."""
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

    def publish_run(self, portion: Portion, first: int, now: Now) -> int | None:
        entries = portion.entries
        count = len(entries)
        size = sum(map(len, entries))
        position = None
        at = 0
        if self._durable and portion.run.attributes.durable:
            position, at = self._index.publish(first, portion)
        elif first >= self._reserve_at:
            self._reserve(first + count)
        if self.depth == self._q4.count and not self._lazy:
            self._q4.append(entries, portion, first, now.monotonic, at)
        elif self._lazy and self._on_disk_only:
            if position is None:
                _, at = self._index.publish(first, portion)
            self._publish_to_disk(portion, first, at)
            self._disk_bytes += size
        else:
            self._publish_behind(entries, portion, first, now, at)
        self.depth += count
        self.ready_bytes += size
        if self._pressed:
            self.reduce_memory_use(now)
        if self.depth != self._q4.count:
            self._check()
        return position

    def _publish_to_disk(self, portion: Portion, first: int, at: int) -> None:
        """Messages of a lazy queue: they are on disk already."""
        count = len(portion)
        if self._delta.count or not self._out.taken or self._q3.count >= self._paging.betas_min:
            self._delta.append(first, count, expiring=portion.expires_at is not None, at=at)
            return
        run = Unplaced(first, count, portion.run.attributes, portion.expires_at, portion.route, at)
        for part in run.by_segments():
            self._q3.betas.append(part)

    def _publish_behind(self, entries: list[bytes], portion: Portion, first: int, now: Now, at: int) -> None:
        """Where something is in q3 or delta, or a lazy queue still has alphas."""
        if self._delta.count and not self._q3.count:
            self._deltas_to_betas()
        behind = self._q4 if self.depth == self._q4.count else self._q1
        behind.append(entries, portion, first, now.monotonic, at)

    @property
    def passes(self) -> bool:
        """See :class:`core.engine.backing.Backing`."""
        return True

    def pass_run(self, portion: Portion, first: int, now: Now) -> tuple[Stretch, int | None]:
        assert not self.depth
        entries = portion.entries.copy()
        count = len(entries)
        attributes = portion.run.attributes
        stored = self._durable and attributes.durable
        position = None
        if stored:
            position, _ = self._index.publish(first, portion)
        elif first >= self._reserve_at:
            self._reserve(first + count)
        stretch = Stretch(
            range(first, first + count), entries, attributes, 0, True, None, NOBODY,
            portion.expires_at, portion.route, 0, stored,
        )  # fmt: skip
        self._direct += count
        self._out.take(stretch, count, sum(map(len, entries)))
        return stretch, position

    def _reserve(self, upto: int) -> None:
        """Numbers of messages that never come to the index are not to be used again after a start."""
        self._index.reserve(upto)
        self._reserve_at = upto + SEGMENT_MESSAGES

    # --- fetching

    def fetch(self, n: int) -> Stretch | None:
        if self._q4.count:
            stretch = self._q4.take_first(n)
            entries = stretch.entries
            size = sum(map(len, entries))
        elif self.depth:
            from_disk = self._fetch_from_q3(n)
            if from_disk is None:
                return self.fetch(n)
            stretch = from_disk
            entries = stretch.entries
            size = sum(map(len, entries))
            self._disk_bytes -= size
        else:
            return None
        count = len(entries)
        self.depth -= count
        self.ready_bytes -= size
        if self.lost:
            self._forget_lost_bytes()
        self._out.take(stretch, count, size)
        if self.depth != self._q4.count:
            self._check()
        return stretch

    def _fetch_from_q3(self, n: int) -> Stretch | None:
        """None: what was to come next is lost."""
        if not self._q3.count:
            self._deltas_to_betas()
        stretch = self._q3.fetch(n)
        if self._q3.lost:
            self._lose()
        if not self._q3.count:
            assert not self._q4.count, "q4 is before q3"
            if not self._delta.count:
                self._q1_to_q4()
            elif not (self._lazy and self._on_disk_only):
                self._deltas_to_betas()
        return stretch

    def _q1_to_q4(self) -> None:
        """Nothing is between them."""
        assert not self._q2.count, "no delta, so no q2"
        self._q1, self._q4 = self._q4, self._q1

    def _deltas_to_betas(self) -> None:
        """Read the index of the next portion of delta in which something is; behind the last one comes q2."""
        delta = self._delta
        runs = self._q3.load_next(delta, self._found_end)
        if self._q3.lost:
            self._lose()
        if runs and self._estimates:
            self._count_exactly(runs)
        if not delta.count:
            self._q3.betas.take_all(self._q2)

    def _count_exactly(self, runs: list[StoredRun]) -> None:
        """Messages of before the start are read for the first time: so far their bytes were an estimate."""
        number = runs[0].first >> SEGMENT_BITS
        if number not in self._estimates:
            return
        found = between(runs, range(self._found_end))
        self._estimates[number] -= sum(sum(run.sizes) for run in found)
        if not self._delta.count or self._delta.start >> SEGMENT_BITS > number:
            error = self._estimates.pop(number)
            self.ready_bytes -= error
            self._disk_bytes -= error

    def _lose(self) -> None:
        """Messages were not there. Their bytes, which are not known, go with the last one on disk."""
        lost, self._q3.lost = self._q3.lost, 0
        self.lost += lost
        self.depth -= lost
        self._forget_lost_bytes()

    def _forget_lost_bytes(self) -> None:
        if self.depth == self._alphas:
            self.ready_bytes -= self._disk_bytes
            self._disk_bytes = 0

    # --- what was handed out

    def settle(self, stretch: Stretch) -> None:
        self._out.settle(stretch)

    def give_back(self, stretch: Stretch) -> None:
        """Nothing changes: it counts as handed out until it is settled, wherever it waits."""

    def restore(self, stretch: Stretch) -> None:
        self._out.restore(stretch)

    def page_out(self, stretches: Iterable[Stretch]) -> int:
        """See :class:`core.engine.backing.Pages`, also for the methods below."""
        wanted, self.acks_to_page = self.acks_to_page, 0
        return self._out.page_out(stretches, wanted)

    # --- paging

    def set_lazy(self, lazy: bool) -> None:
        self._lazy = lazy
        self._pressed = lazy or self.target != inf

    def reduce_memory_use(self, now: Now) -> bool:
        if not self._pressed:
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
        """What grows faster first; the other gets what is left of the quota. Returns how many alphas were paged."""
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
        """Page alphas: from the front of q1, then from the rear of q4. Returns what is left of the quota."""
        while quota and self._q1.count:
            at = self._q1.first_at
            stretch = self._q1.take_first(quota)
            quota -= len(stretch)
            betas = self._q2 if self._delta.count else self._q3.betas
            for run in self._paged(stretch, at):
                betas.append(run)
        while quota and self._q4.count:
            at = self._q4.last_at
            stretch = self._q4.take_last(quota)
            quota -= len(stretch)
            for run in reversed(self._paged(stretch, at)):
                self._q3.prepend(run)
        return quota

    def _paged(self, stretch: Stretch, at: int) -> list[Unplaced]:
        """The alphas of a stretch as betas or gammas: one run, or two at the boundary of a segment."""
        self._disk_bytes += sum(map(len, stretch.entries))
        first, count = stretch.sequences[0], len(stretch)
        runs = Unplaced(first, count, stretch.attributes, stretch.expires_at, stretch.route, at).by_segments()
        if not stretch.stored:
            for run in runs:
                run.at = write(self._index, stretch, run.first - first, run.first - first + run.length)
        return runs

    def _push_q3_to_delta(self, quota: int) -> int:
        """Forget betas and gammas at the rear, down to the first boundary. Returns what is left of the quota."""
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
        """Forget betas and gammas at the front. Returns what is left of the quota."""
        while quota and self._q2.count:
            run = self._q2.take_first(quota)
            quota -= len(run)
            self._delta.append(run.first, len(run), expiring=run.expires_at is not None)
        return quota

    # --- rates and target

    def report(self, now: float) -> float:
        """See :class:`core.engine.residency.Resident`, also for the method below."""
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
        self._pressed = self._lazy or self.target != inf
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

    def purge(self) -> int:
        """See :class:`core.engine.backing.Backing`."""
        dropped = self.depth
        if dropped:
            self._index.purge(self._stored_and_handed_out())
        self._index.write_now()
        self._clear()
        self._purged += dropped
        return dropped

    def _stored_and_handed_out(self) -> list[int]:
        """Sequence numbers of what is on disk and not ready: everything live before the oldest ready message."""
        if not self._out.on_disk:
            return []
        head = self._head
        return [
            sequence
            for number, segment in sorted(self._index.segments.items())
            if segment.live and number << SEGMENT_BITS < head
            for run in between(self._index.load(number), range(head))
            for sequence in run.sequences
        ]

    @property
    def _head(self) -> int:
        """A sequence number before which no ready message is, and everything else; there has to be a ready one."""
        if self._q4.count:
            return self._q4.first
        return self._q3.first if self._q3.count else self._delta.start

    def conclude(self, next_sequence: int) -> None:
        """See :class:`core.engine.backing.Pages`. What was ever handed out is below the oldest ready message."""
        index = self._index
        index.delivered_below = max(index.delivered_below, self._head if self.depth else next_sequence)
        index.next_sequence_floor = max(index.next_sequence_floor, next_sequence)

    def delete(self) -> None:
        """See :class:`core.engine.backing.Backing`."""
        self._clear()
        self._index.delete()

    def _clear(self) -> None:
        for part in (self._q1, self._q2, self._delta, self._q3, self._q4):
            part.clear()
        self._estimates.clear()
        self.depth = self.ready_bytes = self._disk_bytes = 0

    # --- invariants

    def _check(self) -> None:
        """What can be checked whatever the depth. Called after each operation that concerns more than q4."""
        q1, q2, q3, q4, delta = self._q1.count, self._q2.count, self._q3.count, self._q4.count, self._delta
        assert q1 + q2 + delta.count + q3 + q4 == self.depth, "the parts add up"
        assert q3 or not q1, "q1 is behind q3"
        assert delta.count or not q2, "q2 is behind delta"
        assert q3 or not delta.count or self._on_disk_only, "delta is behind q3"
        assert delta.count >= 0, "delta counts messages"
        assert delta.start + delta.count <= delta.end or not delta.count, "delta has room for its messages"
        assert 0 <= self._disk_bytes <= self.ready_bytes, "bytes on disk are bytes of ready messages"

    def check(self) -> None:
        """All invariants, run by run; for tests."""
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


def _found_at_start(index: QueueIndex) -> Delta:
    """Everything that the index knows."""
    numbers = [number for number, segment in index.segments.items() if segment.live]
    if not numbers:
        return Delta()
    return Delta(
        start=min(numbers) << SEGMENT_BITS,
        count=sum(segment.live for segment in index.segments.values()),
        end=min((max(numbers) + 1) << SEGMENT_BITS, index.next_sequence_floor),
        expiring=True,
    )
