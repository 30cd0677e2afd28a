"""Replays the records of one segment of a queue index, in the order of the file, to find its live messages.

A message is live if it was published and not settled after that. Normally it is published once. A transient message
that was paged out, read back, settled on disk and paged out again is in the file twice; the last record prevails.

Transient messages of earlier starts are ignored. This module does not read files.
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate

from core.message import Attributes
from core.store.index_codec import KnownAttributes, Published, decode_published, decode_settled, encode_head
from core.store.places import SEGMENT_BITS, SEGMENT_MESSAGES, Embedded, Stored, StoredRun
from core.store.record import HEADER_BYTES, RecordKind
from core.taken_numbers import TakenNumbers

RUN_MESSAGES_MAX = 1024
"""The most consecutive messages joined into one run, because taking parts of a run copies its tables."""

_NUMBER_BYTES = 8
_HEAD_BYTES = len(encode_head(0, 1, Attributes(), False, None, None))
_SINGLE_BODY_AT = _HEAD_BYTES + 4
"""The offset of the body in a payload with one body and no route: sequence number, rest of the head, size of the body,
body."""


class Runs:
    """The messages of one file, gathered into runs as their records are added."""

    __slots__ = ("_below", "_last_head", "_path", "next", "runs")

    def __init__(self, path: str) -> None:
        self.runs: list[StoredRun] = []
        self._path = path
        self._last_head = b""
        """The head of the last record without the sequence number, if following records may be equal to it; else
        empty."""
        self.next = 0
        """The sequence number after the last message."""
        self._below = 0

    def add(self, record: Published, start: int, stop: int, *, redelivered: bool = False) -> None:
        """Add messages of the next record in the file. They extend the last run, or begin a new one."""
        if not self.runs or not self._extend(self.runs[-1], record, start, stop, redelivered):
            ids = record.ids
            place = Embedded(self._path, _offsets(record, start, stop)) if ids is None else Stored(ids[start:stop])
            self.runs.append(
                StoredRun(
                    record.first + start,
                    record.sizes[start:stop],
                    record.attributes,
                    record.expires_at,
                    record.route,
                    redelivered,
                    place,
                )
            )
        self.next = record.first + stop
        self._last_head = b""

    def expect_like(self, record: Published, payload: bytes, below: int) -> None:
        """Remember the payload of the record that was just added as a whole. Following records with numbers under
        ``below`` may be equal to it."""
        if len(record.sizes) == 1 and record.ids is None and record.route is None and record.taken is None:
            self._last_head = payload[_NUMBER_BYTES:_HEAD_BYTES]
            self._below = below

    def goes_on(self, payload: bytes, offset: int) -> int | None:
        """Add the message of a record if it is a single message that follows the previous one and is like it.

        Returns its sequence number; None if it was not added. A segment may have 16384 such records, and this takes a
        third of the time of decoding them.
        """
        if payload[_NUMBER_BYTES:_HEAD_BYTES] != self._last_head:
            return None
        sequence = int.from_bytes(payload[:_NUMBER_BYTES], "little")
        run = self.runs[-1]
        place = run.place
        if (
            sequence != self.next
            or sequence >= self._below
            or len(run.sizes) >= RUN_MESSAGES_MAX
            or not isinstance(place, Embedded)
        ):
            return None
        run.sizes.append(len(payload) - _SINGLE_BODY_AT)
        place.offsets.append(offset + HEADER_BYTES + _SINGLE_BODY_AT)
        self.next = sequence + 1
        return sequence

    @staticmethod
    def _extend(run: StoredRun, record: Published, start: int, stop: int, redelivered: bool) -> bool:
        place = run.place
        count = len(run.sizes)
        if (
            run.first + count != record.first + start
            or run.attributes is not record.attributes
            or run.expires_at != record.expires_at
            or run.route != record.route
            or run.redelivered is not redelivered
            or count + stop - start > RUN_MESSAGES_MAX
            or isinstance(place, Stored) is (record.ids is None)
        ):
            return False
        if isinstance(place, Embedded):
            place.offsets.extend(_offsets(record, start, stop))
        elif record.ids is not None:
            place.ids.extend(record.ids[start:stop])
        run.sizes.extend(record.sizes[start:stop])
        return True


class SegmentSearch:
    """A search for messages with certain numbers, when all messages with these numbers in the file are live."""

    def __init__(self, numbers: range, *, path: str, generation: int, redelivered_below: int) -> None:
        self.found = 0
        self.cut = False
        """Whether the last record has messages with higher numbers than those searched for."""
        self._numbers = numbers
        self._generation = generation
        self._redelivered_below = redelivered_below
        self._runs = Runs(path)
        self._known: KnownAttributes = {}

    @property
    def runs(self) -> list[StoredRun]:
        """The messages found, in the order of the file."""
        return self._runs.runs

    @property
    def next(self) -> int:
        """The sequence number after the message found last."""
        return self._runs.next

    def add(self, kind: RecordKind, generation: int, offset: int, payload: bytes) -> None:
        """Process the next record of the file."""
        if kind is RecordKind.SETTLE:
            return
        runs = self._runs
        if kind is RecordKind.PUBLISH and runs.goes_on(payload, offset) is not None:
            self.found += 1
            return
        record = decode_published(kind, offset, payload, self._known)
        start = max(0, self._numbers.start - record.first)
        stop = min(len(record.sizes), self._numbers.stop - record.first)
        if start >= stop or (record.transient and generation != self._generation):
            return
        self.found += stop - start
        self.cut = stop < len(record.sizes)
        new = min(max(start, self._redelivered_below - record.first), stop)
        if start < new:
            runs.add(record, start, new, redelivered=True)
        if new < stop:
            runs.add(record, new, stop)
        below = self._numbers.stop if start == new else min(self._redelivered_below, self._numbers.stop)
        runs.expect_like(record, payload, below)


class SegmentReplay:
    """The state of one segment after the records replayed so far. Memory: 64 KiB and the tables of its messages."""

    def __init__(self, segment: int, *, path: str, generation: int) -> None:
        self.segment = segment
        self.published = 0
        self.stored = False
        """Whether messages have their bodies in the message store."""
        self.taken: TakenNumbers | None = None
        """The publishing ids that the records say were taken on; None for none."""
        self.passed_over = 0
        """How many transient messages of earlier starts were ignored, settled or not."""
        self._base = segment << SEGMENT_BITS
        self._path = path
        self._generation = generation
        self._runs = Runs(path)
        self._owner = array("I", bytes(4 * SEGMENT_MESSAGES))
        """For each message the run of its last publication, counted from 1; 0 if the message is not live."""
        self._known: KnownAttributes = {}

    def add(self, kind: RecordKind, generation: int, offset: int, payload: bytes) -> None:
        """Replay the next record of the file."""
        runs = self._runs
        if kind is RecordKind.PUBLISH:  # not of an older start than the record before, so kept like it
            sequence = runs.goes_on(payload, offset)
            if sequence is not None:
                self.published += 1
                self._owner[sequence - self._base] = len(runs.runs)
                return
        elif kind is RecordKind.SETTLE:
            for first, last in decode_settled(payload):
                self._owner[first : last + 1] = array("I", bytes(4 * (last + 1 - first)))
            return
        assert kind in (RecordKind.PUBLISH, RecordKind.PUBLISH_STORED), f"a record of kind {kind!r} in a queue index"
        record = decode_published(kind, offset, payload, self._known)
        count = len(record.sizes)
        start = record.first - self._base
        assert 0 <= start <= SEGMENT_MESSAGES - count, f"{self._path} at {offset}: not of this segment"
        if record.transient and generation != self._generation:
            self.passed_over += count
            return
        if record.taken is not None:
            self.taken = self.taken or TakenNumbers()
            self.taken.merge(record.taken)
        if not count:
            return
        runs.add(record, 0, count)
        self.published += count
        if record.ids is not None:
            self.stored = True
        runs.expect_like(record, payload, self._base + SEGMENT_MESSAGES)
        self._owner[start : start + count] = array("I", [len(runs.runs)]) * count

    def settle(self, settled: Iterable["range | list[int]"]) -> None:
        """Settle messages whose settlement is not in the file yet."""
        for sequences in settled:
            for sequence in sequences:
                self._owner[sequence - self._base] = 0

    @property
    def live(self) -> int:
        """How many messages are live."""
        return SEGMENT_MESSAGES - self._owner.count(0)

    def live_bytes(self) -> int:
        """Return the bytes of the live messages' bodies."""
        if self.live == self.published:
            return sum(sum(run.sizes) for run in self._runs.runs)
        return sum(sum(run.sizes[start:stop]) for run, start, stop in self._runs_at(0))

    def stored_ids(self) -> Iterator[tuple[int, int]]:
        """Yield sequence number and id of live messages whose bodies are in the message store."""
        for run, start, stop in self._runs_at(0):
            if isinstance(run.place, Stored):
                yield from zip(range(run.first + start, run.first + stop), run.place.ids[start:stop], strict=True)

    def runs(self, redelivered_below: int) -> list[StoredRun]:
        """Return the live messages, ascending. This must be the last call, because complete runs are returned without a
        copy."""
        runs: list[StoredRun] = []
        for whole, start, stop in self._runs_at(redelivered_below):
            run = whole if stop - start == len(whole) else whole.part(start, stop)
            run.redelivered = run.first < redelivered_below
            runs.append(run)
        return runs

    def _runs_at(self, boundary: int) -> Iterator[tuple[StoredRun, int, int]]:
        """Yield ranges of adjoining live messages in one run; none of them crosses the boundary."""
        numbered = sorted(enumerate(self._runs.runs, 1), key=lambda item: item[1].first)
        for number, run in numbered:
            base = run.first - self._base
            cut = boundary - run.first
            for start, stop in _equal_to(number, self._owner[base : base + len(run)]):
                if start < cut < stop:
                    yield run, start, cut
                    yield run, cut, stop
                else:
                    yield run, start, stop


def _equal_to(number: int, owners: "array[int]") -> Iterator[tuple[int, int]]:
    """Yield start and stop of each range in which all owners are ``number``."""
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
    """Return the offsets of the bodies in the file."""
    if len(record.sizes) == 1:
        return array("Q", (record.bodies_at,))
    first = record.bodies_at + sum(record.sizes[:start])
    return array("Q", accumulate(record.sizes[start : stop - 1], initial=first))
