"""What is live in one segment of a queue index: its records, replayed in the order of the file.

A message is live when it was published and not settled after that. Normally it is published once; a transient message
that was paged out, read back, settled on disk and paged out again stands in the file twice, and the last word counts.

Transient messages of earlier starts are not there. Nothing here reads a file.
"""

from array import array
from collections.abc import Iterable, Iterator

from core.store.index_codec import KnownAttributes, Published, decode_published, decode_settled
from core.store.places import SEGMENT_BITS, SEGMENT_MESSAGES, Embedded, Stored, StoredRun
from core.store.record import Kind

RUN_MESSAGES_MAX = 1024
"""Single messages that follow each other are put together up to here: taking parts off a run copies its tables."""


class SegmentReplay:
    """The state of one segment, as far as its records were replayed. Memory: 64 KiB and the tables of its messages."""

    def __init__(self, segment: int, *, path: str, generation: int) -> None:
        self.segment = segment
        self.published = 0
        self.stored = False
        """There are bodies in the message store."""
        self.passed_over = 0
        """Transient messages of earlier starts, settled or not."""
        self._base = segment << SEGMENT_BITS
        self._path = path
        self._generation = generation
        self._records: list[Published] = []
        self._owner = array("I", bytes(4 * SEGMENT_MESSAGES))
        """For each message the record, counted from 1, that published it last; 0 when it is not live."""
        self._known: KnownAttributes = {}

    def add(self, kind: Kind, generation: int, offset: int, payload: bytes) -> None:
        """Replay the next record of the file."""
        if kind is Kind.SETTLE:
            for first, last in decode_settled(payload):
                self._owner[first : last + 1] = array("I", bytes(4 * (last + 1 - first)))
            return
        assert kind in (Kind.PUBLISH, Kind.PUBLISH_STORED), f"a record of kind {kind!r} in a queue index"
        record = decode_published(kind, offset, payload, self._known)
        count = len(record.sizes)
        start = record.first - self._base
        assert 0 <= start <= SEGMENT_MESSAGES - count, f"{self._path} at {offset}: not of this segment"
        if record.transient and generation != self._generation:
            self.passed_over += count
            return
        if not count:
            return
        self._records.append(record)
        self.published += count
        if record.ids is not None:
            self.stored = True
        if count == 1:  # a backlog of single messages has thousands of these
            self._owner[start] = len(self._records)
        else:
            self._owner[start : start + count] = array("I", [len(self._records)]) * count

    def settle(self, settled: Iterable["range | list[int]"]) -> None:
        """Messages that are settled, though the file does not say so yet."""
        for sequences in settled:
            for sequence in sequences:
                self._owner[sequence - self._base] = 0

    @property
    def live(self) -> int:
        """Messages that are not settled."""
        return SEGMENT_MESSAGES - self._owner.count(0)

    def live_bytes(self) -> int:
        """Of their bodies."""
        if self.live == self.published:
            return sum(sum(record.sizes) for record in self._records)
        return sum(sum(record.sizes[start:stop]) for record, start, stop in self._stretches(0))

    def stored_ids(self) -> Iterator[tuple[int, int]]:
        """Sequence number and id of live messages whose bodies are in the message store."""
        for record, start, stop in self._stretches(0):
            if record.ids is not None:
                yield from zip(range(record.first + start, record.first + stop), record.ids[start:stop], strict=True)

    def runs(self, redelivered_below: int) -> list[StoredRun]:
        """The live messages, ascending."""
        runs: list[StoredRun] = []
        for record, start, stop in self._stretches(redelivered_below):
            redelivered = record.first + start < redelivered_below
            if not runs or not self._extend(runs[-1], record, start, stop, redelivered):
                runs.append(self._run(record, start, stop, redelivered))
        return runs

    def _stretches(self, boundary: int) -> Iterator[tuple[Published, int, int]]:
        """Live messages that adjoin in one record, none on both sides of the boundary."""
        numbered = sorted(enumerate(self._records, 1), key=lambda item: item[1].first)
        for number, record in numbered:
            count = len(record.sizes)
            base = record.first - self._base
            if count == 1:
                if self._owner[base] == number:
                    yield record, 0, 1
                continue
            cut = boundary - record.first
            for start, stop in _equal_to(number, self._owner[base : base + count]):
                if start < cut < stop:
                    yield record, start, cut
                    yield record, cut, stop
                else:
                    yield record, start, stop

    def _run(self, record: Published, start: int, stop: int, redelivered: bool) -> StoredRun:
        return StoredRun(
            record.first + start,
            record.sizes[start:stop],
            record.attributes,
            record.expires_at,
            record.route,
            redelivered,
            Stored(record.ids[start:stop])
            if record.ids is not None
            else Embedded(self._path, _offsets(record, start, stop)),
        )

    def _extend(self, run: StoredRun, record: Published, start: int, stop: int, redelivered: bool) -> bool:
        """Put the messages behind a run that they are like and adjoin."""
        place = run.place
        if (
            run.first + len(run) != record.first + start
            or run.attributes is not record.attributes
            or run.expires_at != record.expires_at
            or run.route != record.route
            or run.redelivered is not redelivered
            or len(run) + stop - start > RUN_MESSAGES_MAX
        ):
            return False
        if isinstance(place, Stored):
            if record.ids is None:
                return False
            place.ids.extend(record.ids[start:stop])
        else:
            if record.ids is not None or place.offsets[-1] > record.bodies_at:
                return False
            place.offsets.extend(_offsets(record, start, stop))
        run.sizes.extend(record.sizes[start:stop])
        return True


def _equal_to(number: int, owners: "array[int]") -> Iterator[tuple[int, int]]:
    """Start and stop of each stretch in which all are ``number``."""
    count = len(owners)
    if owners.count(number) == count:  # nearly always
        yield 0, count
        return
    start = 0
    while start < count:
        stop = start
        while stop < count and owners[stop] == number:
            stop += 1
        if stop > start:
            yield start, stop
        start = stop + 1


def _offsets(record: Published, start: int, stop: int) -> "array[int]":
    """Where in the file the bodies begin."""
    if len(record.sizes) == 1:
        return array("Q", (record.bodies_at,))
    offset = record.bodies_at + sum(record.sizes[:start])
    offsets = array("Q")
    for size in record.sizes[start:stop]:
        offsets.append(offset)
        offset += size
    return offsets
