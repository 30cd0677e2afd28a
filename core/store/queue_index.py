"""The queue index: the messages of one priority level of a queue that are on disk, and their places.

Each published run is one record; all settlements of a batch in one segment are one record. A segment has 16384 sequence
numbers and is one file. Memory holds only a summary of each segment, so that a backlog costs 250 bytes for 16384
messages. :meth:`QueueIndex.load` reads which messages of a segment are live.

Invariants:

- Records of a file are appended and never changed. The live messages follow from its records in their order, and from
  the settlements since the last batch.
- A file is removed when all messages in it are settled, except the newest file, which keeps the numbering. Before the
  removal one record settles the whole segment, so that a file that a power cut restores contains no live message.
- The publishing ids in a file outlive it: when it is removed, those that are still remembered are written to the newest
  file. All its messages are settled then, so an id never outlives a message that is not.
- A sequence number is never used twice: see :attr:`QueueIndex.next_sequence_floor`. After an unclean stop 65,536
  segments are skipped (:mod:`core.store.recovery`), so nothing has to be written or synced for this.
  :meth:`QueueIndex.reserve` covers the numbers of messages that are never in the index.

The index trusts its queue to settle only live messages, and each only once.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from core.message import Attributes, Route, RunPart
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
from core.store.record import Damaged, RecordKind, record_bytes
from core.store.segment_replay import SegmentReplay, SegmentSearch
from core.store.staging import READ_BYTES_MAX, Staging
from core.taken_numbers import Packed, TakenNumbers, packed

RECORD_MESSAGES_MAX = 1024
RECORD_BYTES_MAX = 256 * 1024
"""The most messages and bytes of bodies in one record, which bounds the loss by a damaged record. A single larger
message is possible."""

FREE_SEGMENTS = 65_536
"""Segments that are skipped for numbers that a start may have used and lost: 2^30 messages, which is 9 minutes at 2
million a second. At most some 200 ms of messages are not synced, unless the disk hangs. Numbers of 63 bits last for
2^33 starts."""

RESERVED_SEGMENTS = FREE_SEGMENTS // 2
"""How many segments the numbers of messages outside of the index may be ahead of the newest file. The other half of the
segments that recovery skips is for messages that are not synced."""


@dataclass(slots=True)
class IndexState:
    """The state of an index at a start: new, from a clean shutdown, or recovered."""

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
        """``durable``: durable messages outlive the process. ``salvage``: skip damaged records."""
        state = state or IndexState()
        self.next_sequence_floor = state.next_sequence_floor
        """Numbers below it must not be used. Before the checkpoint the queue raises it above all numbers that it has
        used."""
        self.delivered_below = state.delivered_below
        """Messages below it may have been delivered. The queue raises it; a clean shutdown saves it."""
        self.redelivered_below = state.delivered_below
        """The value of ``delivered_below`` at the start."""
        self.index_reads = 0
        """How many times a segment, or a part of one, was loaded."""
        self.body_reads = 0
        """How many reads of bodies were made; adjoining bodies take one read."""
        self.taken: TakenNumbers | None = None
        """The publishing ids that are remembered; None until :meth:`remember` was called."""
        self.kept = BodiesKept()
        """All indexes of a queue may share this object."""
        self._folder = folder
        self._staging = staging
        self._bodies = bodies
        self._embed_below = embed_below
        self._durable = durable
        self.salvage = salvage
        self._segments = state.segments
        self._end = state.next_sequence_floor
        """The number after the last published one."""
        self._newest = -1
        self._newest_path = ""
        if state.segments:
            self._newest = max(state.segments)
            self._newest_path = self._path(self._newest)
        self._late_files = 0
        """How many files were made for segments older than the newest."""
        self._touched: set[int] = set()
        """Segments with settlements to be staged, or with a file that may be removed."""
        for number, segment in state.segments.items():
            if segment.settled is not None or (not segment.live and number != self._newest):
                self._touch(number)

    @property
    def segments(self) -> Mapping[int, SegmentSummary]:
        """The summary of each segment that has a file. The caller must not change it."""
        return self._segments

    def state(self) -> IndexState:
        """Return the state for a clean shutdown to save."""
        return IndexState(max(self.next_sequence_floor, self._end), self.delivered_below, self._segments)

    # --- publishing

    def publish(self, first: int, run_part: RunPart) -> tuple[int, int]:
        """Stage consecutive messages from sequence number ``first`` on.

        Returns the position to wait for, and the offset of the first message's record in its file: see :meth:`find`.
        """
        staged: list[tuple[int, int]] = []
        for part, attributes, route, expiry in run_part.alike():
            staged.append(self._publish_alike(first, part, attributes, route, expiry))
            first += len(part)
        return staged[-1][0], staged[0][1]

    def _publish_alike(
        self, first: int, run_part: RunPart, attributes: Attributes, route: Route | None, expires_at: float | None
    ) -> tuple[int, int]:
        """Stage messages that have the same attributes, route and expiry."""
        entries = run_part.entries
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
                transient = not (self._durable and attributes.durable)
                names = None if transient or run_part.names is None else packed(run_part.names)
                head = encode_head(first, count, attributes, transient, expires_at, route, names)
                payload = (head + encode_numbers(array("I", map(len, entries))), body)
                return self._append(RecordKind.PUBLISH, first, count, payload, size, transient, names)
        staged = [
            self._publish_piece(first + start, run_part, start, stop, attributes, route, expires_at, stored=stored)
            for start, stop, stored in _pieces(first, entries, embed_below)
        ]
        return staged[-1][0], staged[0][1]

    def _publish_piece(
        self, first: int, run_part: RunPart, start: int, stop: int, attributes: Attributes, route: Route | None,
        expires_at: float | None, *, stored: bool,
    ) -> tuple[int, int]:  # fmt: skip
        """Stage messages that fit into one record. ``start`` and ``stop`` count from the beginning of the part."""
        run = run_part.run
        transient = not (self._durable and attributes.durable)
        names = None if transient or run_part.names is None else packed(run_part.names[start:stop])
        start += run_part.start
        stop += run_part.start
        entries = run.entries[start:stop]
        sizes = array("I", map(len, entries))
        head = encode_head(first, stop - start, attributes, transient, expires_at, route, names)
        head += encode_numbers(sizes)
        if not stored:
            payload = (head, b"".join(entries))
            return self._append(RecordKind.PUBLISH, first, stop - start, payload, sum(sizes), transient, names)
        ids = self._bodies.keep(run, start, stop, transient)
        self.kept.count += stop - start
        payload = (head, encode_numbers(ids))
        number = first >> SEGMENT_BITS
        known = self._ids(number, self._segments.get(number) or self._begin(number))
        staged = self._append(RecordKind.PUBLISH_STORED, first, stop - start, payload, sum(sizes), transient, names)
        known.update(zip(range(first, first + stop - start), ids, strict=True))
        return staged

    def reserve(self, upto: int) -> None:
        """Reserve the numbers below ``upto`` for messages that are never in the index: none of them is used again after
        a start.

        Mostly this writes nothing, because the newest file covers the next ``RESERVED_SEGMENTS``.
        """
        if upto >> SEGMENT_BITS >= self._newest + RESERVED_SEGMENTS:
            self._append(
                RecordKind.PUBLISH, upto, 0, (encode_head(upto, 0, Attributes(), False, None, None),), 0, False
            )

    def _append(
        self, kind: RecordKind, first: int, count: int, payload: Sequence[bytes], size: int, transient: bool,
        names: Packed | None = None,
    ) -> tuple[int, int]:  # fmt: skip
        """Stage a record that publishes. Returns its position and its offset."""
        number = first >> SEGMENT_BITS
        segment = self._segments.get(number)
        if segment is None:
            segment = self._begin(number)
        if first < self._end:
            segment.late = True
            if segment.settled is not None:
                self._stage_settled(number, segment)  # later records prevail: earlier settlements must come first
        segment.published += count
        segment.live += count
        segment.live_bytes += size
        if transient:
            segment.mixed = True
        if names:
            segment.taken = segment.taken or TakenNumbers()
            segment.taken.merge(names)
        if first + count > self._end:
            self._end = first + count
        offset = segment.file_bytes
        segment.file_bytes = offset + record_bytes(sum(map(len, payload)))
        path = self._newest_path if number == self._newest else self._path(number)
        return self._staging.append(path, offset, kind, payload), offset

    def _begin(self, number: int) -> SegmentSummary:
        """Begin the file of a segment."""
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
            backlog.ids = None  # it will be loaded before its first settlement
        return segment

    # --- settling

    def settle(self, sequences: Sequence[int]) -> None:
        """Settle messages for good, with the next batch. ``sequences``: ascending, live, and settled only once."""
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

    def purge(self, start: int = 0) -> None:
        """Settle all messages from this sequence number on."""
        for number, segment in list(self._segments.items()):
            base = number << SEGMENT_BITS
            if base < start:
                if start < base + SEGMENT_MESSAGES and (
                    gone := [at for run in self._live(number) for at in run.sequences if at >= start]
                ):
                    self.settle(gone)
            elif segment.live:
                if segment.stored:
                    self._release(number, segment, list(self._ids(number, segment)))
                segment.live = segment.live_bytes = 0
                segment.settled = [range(base, min(base + SEGMENT_MESSAGES, self._end))]
                self._touch(number)

    def write_now(self) -> None:
        """Have all staged records written before the answers of this turn are sent."""
        self._staging.lane.want_written()

    def delete(self) -> None:
        """The queue is deleted: release its bodies, and stage nothing more. No method may be called afterwards. Its
        files go with the folder of the queue, in one removal for all levels: see ``forget_queue`` of the store."""
        for number, segment in self._segments.items():
            if segment.stored:
                self._release(number, segment, list(self._ids(number, segment)))
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
        self._staging.append(self._path(number), offset, RecordKind.SETTLE, (payload,))

    def remember(self, ranges_max: int) -> TakenNumbers:
        """Remember publishing ids from now on, at first those in the files. Returns them: add what is taken on."""
        if self.taken is None:
            self.taken = TakenNumbers(ranges_max)
            for number in sorted(self._segments):
                of_file = self._segments[number].taken
                if of_file is not None:
                    self.taken.merge(of_file.packed())
        return self.taken

    def _carry(self, taken: TakenNumbers) -> None:
        """Write publishing ids of a file that is to be removed to the newest one."""
        if self.taken is not None:
            taken = taken.still_in(self.taken)
        if not taken.ranges:
            return
        newest = self._segments[self._newest]
        newest.taken = newest.taken or TakenNumbers()
        names = taken.packed()
        newest.taken.merge(names)
        head = encode_head(self._newest << SEGMENT_BITS, 0, Attributes(), False, None, None, names)
        offset = newest.file_bytes
        newest.file_bytes = offset + record_bytes(len(head))
        self._staging.append(self._newest_path, offset, RecordKind.PUBLISH, (head,))

    def _remove(self, number: int, segment: SegmentSummary) -> None:
        if segment.taken is not None:
            self._carry(segment.taken)
        base = number << SEGMENT_BITS
        segment.settled = [range(base, base + SEGMENT_MESSAGES)]
        self._stage_settled(number, segment)
        self._staging.lane.remove(self._path(number))
        del self._segments[number]

    # --- reading

    def load(self, segment: int) -> list[StoredRun]:
        """Return the live messages of a segment, ascending, without their bodies. Raises StoreDamaged, StoreFailure."""
        self.index_reads += 1
        return self._live(segment)

    def is_in_order(self, segment: int) -> bool:
        """Return whether :meth:`find` finds all messages of a segment in one pass through its file, and no load is
        needed for other reasons."""
        known = self._segments[segment]
        return not known.late and (not known.stored or known.ids is not None)

    def find(self, numbers: range, at: int, enough: int) -> tuple[list[StoredRun], int]:
        """Find the places of messages of one segment. All messages with these numbers in the file must be live.

        None of them may be in the file before ``at``. The search stops with ``enough`` messages or slightly more.
        Returns them, ascending, and the offset at which to continue, or 0 at the end. Raises StoreDamaged,
        StoreFailure.
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
        """Read the bodies of a run. Raises StoreDamaged, StoreFailure."""
        place = run.place
        if isinstance(place, Stored):
            bodies, reads = self._bodies.read(place.ids)
        else:
            bodies, reads = self._staging.read(place.path, place.offsets, run.sizes)
        self.body_reads += reads
        return bodies

    def will_need(self, run: StoredRun) -> None:
        """Hint to the system that the bodies of this run will be read next."""
        place = run.place
        if isinstance(place, Embedded):
            start = place.offsets[0]
            self._staging.will_need(place.path, start, min(place.offsets[-1] + run.sizes[-1] - start, READ_BYTES_MAX))

    def read_sequences(self, sequences: Sequence[int]) -> list[bytes]:
        """Read the bodies of live messages by sequence number, ascending."""
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
        """Return runs with all live messages of a segment, and possibly some that were settled meanwhile."""
        segment = self._segments[number]
        loaded = self._staging.loaded
        if loaded is None or loaded.segment is not segment or loaded.published != segment.published:
            loaded = self._staging.loaded = Loaded(segment, segment.published, self.load(number))
        return loaded.runs

    def _live(self, number: int) -> list[StoredRun]:
        """Return the live messages of a segment, and make its summary exact.

        Messages lost by damage stay counted, so that the file is not removed before the next start: it is unknown which
        of them are settled later.
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
        """Return the ids of the segment's live messages whose bodies are in the message store."""
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
    """Cut messages into pieces that fit into one record each. Yields start, stop, and whether the bodies go to the
    message store."""
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
    """Yield the sequence numbers, cut at the boundaries of segments."""
    start = 0
    while start < len(sequences):
        after = ((sequences[start] >> SEGMENT_BITS) + 1) << SEGMENT_BITS
        stop = bisect_left(sequences, after, start)
        yield sequences[start:stop]
        start = stop
