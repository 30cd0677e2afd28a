"""The queue index: which messages of a queue are on disk, and where, for one priority level.

One record for each run that is published, one for all that a batch settles in a segment. A segment, 16384 sequence
numbers, is a file; in memory there is a summary of each and nothing of its messages, so that a backlog costs 250 bytes
for 16384 messages. :meth:`QueueIndex.load` finds out what is live in one segment.

Invariants:

- Records of a file are appended and never changed. What is live is what its records say in their order, and what is
  settled since the last batch.
- A file goes when all that was published in it is settled, except the newest: it keeps the numbering. Before it goes
  one record settles all of it, so that a file that a power cut brings back brings back no message.
- A sequence number is never used twice, by :attr:`QueueIndex.next_sequence_floor`. An unclean stop leaves
  65,536 segments free (:mod:`core.store.recovery`), so nothing has to be written or synced for it; messages that never
  come here are accounted for with :meth:`QueueIndex.reserve`.

The index trusts its queue: what is settled is live and is settled once.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from core.message import Attributes, Portion
from core.store.damage import refusal
from core.store.errors import StoreDamaged
from core.store.index_codec import (
    encode_head,
    encode_numbers,
    encode_settled,
)
from core.store.message_store import MessageStores
from core.store.places import (
    SEGMENT_BITS,
    SEGMENT_MESSAGES,
    BodiesKept,
    Embedded,
    Loaded,
    SegmentSummary,
    Stored,
    StoredRun,
    segment_name,
)
from core.store.record import Damaged, Kind, record_bytes
from core.store.segment_replay import SegmentReplay, SegmentSearch
from core.store.staging import READ_BYTES_MAX, Staging

RECORD_MESSAGES_MAX = 1024
RECORD_BYTES_MAX = 256 * 1024
"""Of bodies in one record: what a damaged record may cost, unless one message is larger."""

FREE_SEGMENTS = 65_536
"""Segments for the numbers that one start may have given out and lost: 2^30 messages, 9 minutes of 2 million a second.
At most some 200 ms of them are not synced, unless the disk is stuck. Numbers of 63 bits last for 2^33 starts."""

RESERVED_SEGMENTS = FREE_SEGMENTS // 2
"""Segments that numbers without messages here may be ahead of the newest file: the
other half of what recovery leaves free is for what is not synced."""


@dataclass(slots=True)
class IndexState:
    """What a start knows of an index: a new one, one that was shut down cleanly, or one that was recovered."""

    next_sequence_floor: int = 0
    delivered_below: int = 0
    segments: dict[int, SegmentSummary] = field(default_factory=dict)


class QueueIndex:
    """The index of one priority level of one queue."""

    def __init__(
        self,
        folder: str,
        *,
        staging: Staging,
        bodies: MessageStores,
        embed_below: int,
        durable: bool,
        salvage: bool = False,
        state: IndexState | None = None,
    ) -> None:
        """``durable``: durable messages outlive the process. ``salvage``: go on without damaged records."""
        state = state or IndexState()
        self.next_sequence_floor = state.next_sequence_floor
        """No number below it may be given out. The queue raises it before the checkpoint to what it gave out."""
        self.delivered_below = state.delivered_below
        """Messages below it may have been delivered. The queue's to raise; kept by a clean shutdown."""
        self.redelivered_below = state.delivered_below
        """The same at the start."""
        self.index_reads = 0
        """Segments that were loaded, as a whole or by portions: each portion counts."""
        self.body_reads = 0
        """Reads of bodies, each of as many as adjoin."""
        self.kept = BodiesKept()
        """May be one for all indexes of a queue."""
        self._folder = folder
        self._staging = staging
        self._bodies = bodies
        self._embed_below = embed_below
        self._durable = durable
        self.salvage = salvage
        self._segments = state.segments
        self._end = state.next_sequence_floor
        """Behind the last number that was published."""
        self._newest = -1
        self._newest_path = ""
        if state.segments:
            self._newest = max(state.segments)
            self._newest_path = self._path(self._newest)
        self._late_files = 0
        """Files made for segments that were passed already."""
        self._touched: set[int] = set()
        """Segments with settlements to be staged, or with a file that may go."""
        for number, segment in state.segments.items():
            if segment.settled is not None or (not segment.live and number != self._newest):
                self._touch(number)

    @property
    def segments(self) -> Mapping[int, SegmentSummary]:
        """What is known of each segment that has a file. To be looked at only."""
        return self._segments

    def state(self) -> IndexState:
        """What a clean shutdown keeps."""
        return IndexState(max(self.next_sequence_floor, self._end), self.delivered_below, self._segments)

    # --- publishing

    def publish(self, first: int, portion: Portion) -> tuple[int, int]:
        """Stage consecutive messages from sequence number ``first`` on.

        Returns the position to wait for, and where in the first message's file its record begins: see :meth:`find`.
        """
        run = portion.run
        entries = portion.entries
        count = len(entries)
        embed_below = self._embed_below
        if count <= RECORD_MESSAGES_MAX and len(entries[0]) < embed_below:
            body = b"".join(entries)
            size = len(body)
            if (
                size <= RECORD_BYTES_MAX
                and first >> SEGMENT_BITS == (first + count - 1) >> SEGMENT_BITS
                and (size < embed_below or len(max(entries, key=len)) < embed_below)
            ):
                transient = not (self._durable and run.attributes.durable)
                head = encode_head(first, count, run.attributes, transient, portion.expires_at, portion.route)
                payload = (head + encode_numbers(array("I", map(len, entries))), body)
                return self._append(Kind.PUBLISH, first, count, payload, size, transient)
        staged = [
            self._publish_piece(first + start, portion, start, stop, stored)
            for start, stop, stored in _pieces(first, entries, embed_below)
        ]
        return staged[-1][0], staged[0][1]

    def _publish_piece(self, first: int, portion: Portion, start: int, stop: int, stored: bool) -> tuple[int, int]:
        """Messages that fit one record, counted from the beginning of the portion."""
        run = portion.run
        start += portion.start
        stop += portion.start
        entries = run.entries[start:stop]
        transient = not (self._durable and run.attributes.durable)
        sizes = array("I", map(len, entries))
        head = encode_head(first, stop - start, run.attributes, transient, portion.expires_at, portion.route)
        head += encode_numbers(sizes)
        if not stored:
            payload = (head, b"".join(entries))
            return self._append(Kind.PUBLISH, first, stop - start, payload, sum(sizes), transient)
        ids = self._bodies.keep(run, start, stop, transient)
        self.kept.count += stop - start
        payload = (head, encode_numbers(ids))
        number = first >> SEGMENT_BITS
        known = self._ids(number, self._segments.get(number) or self._begin(number))
        staged = self._append(Kind.PUBLISH_STORED, first, stop - start, payload, sum(sizes), transient)
        known.update(zip(range(first, first + stop - start), ids, strict=True))
        return staged

    def reserve(self, upto: int) -> None:
        """Numbers below ``upto`` may be given out to messages that never come here: none is used again after a start.

        Costs nothing most of the time: the newest file speaks for half of what recovery leaves free.
        """
        if upto >> SEGMENT_BITS >= self._newest + RESERVED_SEGMENTS:
            self._append(Kind.PUBLISH, upto, 0, (encode_head(upto, 0, Attributes(), False, None, None),), 0, False)

    def _append(
        self, kind: Kind, first: int, count: int, payload: Sequence[bytes], size: int, transient: bool
    ) -> tuple[int, int]:
        """Stage a record that publishes. Returns its position, and its offset."""
        number = first >> SEGMENT_BITS
        segment = self._segments.get(number)
        if segment is None:
            segment = self._begin(number)
        if first < self._end:
            segment.late = True
            if segment.settled is not None:
                self._stage_settled(number, segment)  # the last word counts: what was settled before is said before
        segment.published += count
        segment.live += count
        segment.live_bytes += size
        if transient:
            segment.mixed = True
        if first + count > self._end:
            self._end = first + count
        offset = segment.file_bytes
        segment.file_bytes = offset + record_bytes(sum(map(len, payload)))
        path = self._newest_path if number == self._newest else self._path(number)
        return self._staging.append(path, offset, kind, payload), offset

    def _begin(self, number: int) -> SegmentSummary:
        """The file of a segment that has none."""
        segment = self._segments[number] = SegmentSummary()
        if number < self._newest:
            self._late_files += 1
            segment.incarnation = self._late_files
            return segment
        passed, self._newest = self._newest, number
        self._newest_path = self._path(number)
        if passed >= 0 and not self._segments[passed].live:
            self._touch(passed)
        backlog = self._segments.get(number - 2)
        if backlog is not None and backlog.live == backlog.published:
            backlog.ids = None  # it will be loaded before anything of it is settled
        return segment

    # --- settling

    def settle(self, sequences: Sequence[int]) -> None:
        """These messages are gone for good. Ascending; each is here and is settled once. Staged with the next batch."""
        number = sequences[0] >> SEGMENT_BITS
        if sequences[-1] >> SEGMENT_BITS != number:
            for part in _by_segment(sequences):
                self.settle(part)
            return
        segment = self._segments[number]
        if segment.stored:
            self._release(number, segment, sequences)
        count = len(sequences)
        live = segment.live
        assert count <= live, f"{count} settled of {live} live messages in segment {number} of {self._folder}"
        segment.live_bytes -= segment.live_bytes * count // live
        segment.live = live - count
        if not isinstance(sequences, range):
            sequences = list(sequences)
        if segment.settled is None:
            segment.settled = [sequences]
            self._touch(number)
        else:
            segment.settled.append(sequences)

    def purge(self, keep: Sequence[int] = ()) -> None:
        """All messages but those of ``keep`` are gone for good. ``keep``: ascending; all of them are here."""
        for number, segment in list(self._segments.items()):
            base = number << SEGMENT_BITS
            kept = keep[bisect_left(keep, base) : bisect_left(keep, base + SEGMENT_MESSAGES)]
            if kept:
                stay = frozenset(kept)
                live = (sequence for run in self._live(number) for sequence in run.sequences)
                if gone := [sequence for sequence in live if sequence not in stay]:
                    self.settle(gone)
            elif segment.live:
                if segment.stored:
                    self._release(number, segment, list(self._ids(number, segment)))
                segment.live = segment.live_bytes = 0
                segment.settled = [range(base, min(base + SEGMENT_MESSAGES, self._end))]
                self._touch(number)

    def write_now(self) -> None:
        """Have it written before the answer that everything is gone."""
        self._staging.lane.want_written()

    def delete(self) -> None:
        """The queue is deleted: its files go, whatever is staged for them. Nothing may be called after it."""
        for number, segment in self._segments.items():
            if segment.stored:
                self._release(number, segment, list(self._ids(number, segment)))
        if self._segments:  # else there is no folder
            self._staging.lane.remove_folder(self._folder)
        self._segments = {}
        self._touched.clear()

    def stage(self) -> None:
        """See :class:`core.store.staging.Stager`."""
        for number in sorted(self._touched):
            segment = self._segments[number]
            if not segment.live and number != self._newest:
                self._remove(number, segment)
            elif segment.settled is not None:
                self._stage_settled(number, segment)
        self._touched.clear()

    def _touch(self, number: int) -> None:
        if not self._touched:
            self._staging.later(self)
        self._touched.add(number)

    def _stage_settled(self, number: int, segment: SegmentSummary) -> None:
        assert segment.settled is not None
        payload = encode_settled(number << SEGMENT_BITS, segment.settled)
        segment.settled = None
        offset = segment.file_bytes
        segment.file_bytes = offset + record_bytes(len(payload))
        self._staging.append(self._path(number), offset, Kind.SETTLE, (payload,))

    def _remove(self, number: int, segment: SegmentSummary) -> None:
        base = number << SEGMENT_BITS
        segment.settled = [range(base, base + SEGMENT_MESSAGES)]
        self._stage_settled(number, segment)
        self._staging.lane.remove(self._path(number))
        del self._segments[number]

    # --- reading

    def load(self, segment: int) -> list[StoredRun]:
        """The live messages of a segment, ascending, without their bodies. Raises StoreDamaged, StoreFailure."""
        self.index_reads += 1
        return self._live(segment)

    def is_in_order(self, segment: int) -> bool:
        """Whether :meth:`find` finds all of a segment in one go through its file, and nothing else needs a load."""
        known = self._segments[segment]
        return not known.late and (not known.stored or known.ids is not None)

    def find(self, numbers: range, at: int, enough: int) -> tuple[list[StoredRun], int]:
        """Where messages of one segment are, for who knows that all of these numbers that the file names are live.

        None of them is in the file before ``at``. Stops when it has ``enough`` of them, or somewhat more. Returns them,
        ascending, and where to go on; 0 when there is no more. Raises StoreDamaged, StoreFailure.
        """
        number = numbers.start >> SEGMENT_BITS
        segment = self._segments[number]
        path = self._path(number)
        search = SegmentSearch(
            numbers,
            path=path,
            generation=self._staging.lane.generation,
            redelivered_below=self.redelivered_below,
        )
        go_on = 0
        for record in self._staging.records_from(path, at, segment.file_bytes):
            if isinstance(record, Damaged):
                if not self.salvage:
                    raise refusal(path, record)
                continue
            search.add(record.kind, record.generation, record.offset, record.payload)
            if search.found >= enough:
                go_on = record.offset if search.cut else record.end
                break
            if search.next == numbers.stop and not segment.late:
                break
        runs = sorted(search.runs, key=_first) if segment.late else search.runs
        return runs, 0 if go_on == segment.file_bytes else go_on

    def read(self, run: StoredRun) -> list[bytes]:
        """The bodies. Raises StoreDamaged, StoreFailure."""
        place = run.place
        if isinstance(place, Stored):
            bodies, reads = self._bodies.read(place.ids)
        else:
            bodies, reads = self._staging.read(place.path, place.offsets, run.sizes)
        self.body_reads += reads
        return bodies

    def will_need(self, run: StoredRun) -> None:
        """The bodies will be read next: a hint to the system, which may read them ahead."""
        place = run.place
        if isinstance(place, Embedded):
            start = place.offsets[0]
            self._staging.will_need(place.path, start, min(place.offsets[-1] + run.sizes[-1] - start, READ_BYTES_MAX))

    def read_sequences(self, sequences: Sequence[int]) -> list[bytes]:
        """The bodies of live messages whose run is not at hand; ascending."""
        bodies = []
        for wanted in _by_segment(sequences):
            runs = self._known_runs(wanted[0] >> SEGMENT_BITS)
            for run in islice(runs, max(0, bisect_right(runs, wanted[0], key=_first) - 1), None):
                if run.first > wanted[-1]:
                    break
                start = bisect_left(wanted, run.first)
                stop = bisect_left(wanted, run.first + len(run))
                if start < stop:
                    here = run.part(wanted[start] - run.first, wanted[stop - 1] - run.first + 1)
                    read = self.read(here)
                    bodies += [read[sequence - here.first] for sequence in wanted[start:stop]]
        if len(bodies) < len(sequences):
            raise StoreDamaged(f"{self._folder}: {len(sequences) - len(bodies)} messages are lost that were handed out")
        return bodies

    def _known_runs(self, number: int) -> Sequence[StoredRun]:
        """Runs with all live messages of a segment, and some that were settled meanwhile."""
        segment = self._segments[number]
        loaded = self._staging.loaded
        if loaded is None or loaded.segment is not segment or loaded.published != segment.published:
            loaded = self._staging.loaded = Loaded(segment, segment.published, self.load(number))
        return loaded.runs

    def _live(self, number: int) -> list[StoredRun]:
        """The live messages of a segment; what is known of it becomes exact.

        Those that damage has taken stay counted, so that what is left of the segment never goes before the next start:
        nobody can tell which of them are settled later.
        """
        segment = self._segments[number]
        replay = self._replay(number, segment)
        runs = replay.runs(self.redelivered_below)
        live = sum(map(len, runs))
        assert live == segment.live or self.salvage, f"{live} messages of {segment.live} in {self._path(number)}"
        segment.live_bytes = sum(sum(run.sizes) for run in runs)
        if segment.stored:
            segment.ids = {
                sequence: body_id
                for run in runs
                if isinstance(run.place, Stored)
                for sequence, body_id in zip(run.sequences, run.place.ids, strict=True)
            }
        return runs

    def _replay(self, number: int, segment: SegmentSummary) -> SegmentReplay:
        path = self._path(number)
        replay = SegmentReplay(number, path=path, generation=self._staging.lane.generation)
        for record in self._staging.records(path, segment.file_bytes):
            if not isinstance(record, Damaged):
                replay.add(record.kind, record.generation, record.offset, record.payload)
            elif not self.salvage:
                raise refusal(path, record)
        if segment.settled is not None:
            replay.settle(segment.settled)
        return replay

    # --- the message store's part

    def _ids(self, number: int, segment: SegmentSummary) -> dict[int, int]:
        """The ids of the segment's live messages that are in the message store."""
        if not segment.stored:
            segment.stored = True
            segment.ids = {}
        if segment.ids is None:
            self._live(number)
            assert segment.ids is not None
        return segment.ids

    def _release(self, number: int, segment: SegmentSummary, sequences: Sequence[int]) -> None:
        ids = self._ids(number, segment)
        for sequence in sequences:
            body_id = ids.pop(sequence, None)
            if body_id is not None:
                self._bodies.release(body_id)

    def _path(self, number: int) -> str:
        return f"{self._folder}/{segment_name(number, self._segments[number].incarnation)}"


def _pieces(first: int, entries: Sequence[bytes], embed_below: int) -> Iterator[tuple[int, int, bool]]:
    """Cut messages into what fits a record each: start, stop, whether the bodies belong into the message store."""
    start = 0
    size = 0
    stored = len(entries[0]) >= embed_below
    for at, entry in enumerate(entries):
        here = len(entry) >= embed_below
        if at > start and (
            here is not stored
            or not (first + at) & (SEGMENT_MESSAGES - 1)
            or at - start >= RECORD_MESSAGES_MAX
            or (not here and size + len(entry) > RECORD_BYTES_MAX)
        ):
            yield start, at, stored
            start, size, stored = at, 0, here
        size += len(entry)
    yield start, len(entries), stored


def _first(run: StoredRun) -> int:
    return run.first


def _by_segment(sequences: Sequence[int]) -> Iterator[Sequence[int]]:
    """The same messages, cut at the boundaries of segments."""
    start = 0
    while start < len(sequences):
        after = ((sequences[start] >> SEGMENT_BITS) + 1) << SEGMENT_BITS
        stop = bisect_left(sequences, after, start)
        yield sequences[start:stop]
        start = stop
