"""The log of one stream: append-only segments, any number of readers, whole segments dropped from the front.

Messages are appended in chunks, on a lane; they are *committed* when the lane has written them (synced, where the
stream asks for it), and readers see nothing else. A segment is sealed when it has reached its size; the next one
begins with a head that describes it (:mod:`core.store.stream_segment`).

Offsets count messages and are never used twice, also not after a power cut has taken messages that readers had seen.
What can be lost is bounded: at most :data:`UNSYNCED_MAX` offsets may be beyond what is synced, then the log takes
nothing until a sync has come. A start that cannot be sure of the tail goes on above everything that may have been
given out: a leap of :data:`LEAP` offsets for each start since the newest record that is there was written.

Invariants: segments are in ascending order and do not overlap; between two of them offsets may be missing, within one
only where it is damaged; the newest segment is never removed; ``committed`` and ``next`` never fall.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from core.message import Attributes, Route
from core.store.disk import Disk
from core.store.errors import StoreFailure
from core.store.lane import Lane
from core.store.record import Kind, record_bytes
from core.store.stream_chunk import BODY_BYTES_MAX, MESSAGES_MAX, Chunk, ChunkCache, Filters, encode
from core.store.stream_segment import Damage, Segment, SegmentReader, SparseIndex, head_payload

UNSYNCED_MAX = 2**23
"""Offsets beyond the last synced one: 4 s of 2 million messages a second, and a sync comes every 200 ms."""
LEAP = 2**24
"""Above ``UNSYNCED_MAX`` and a chunk. Offsets of 63 bits last for 2^39 unclean starts."""
SYNC_STEP = 2**16
"""How exactly it is known what is synced; noting every chunk would cost more than the difference."""
INDEXES_MAX = 64
"""Sparse indexes of sealed segments that are kept in memory: 6 MiB."""
READINGS_MAX = 256
"""Readers that go on without a search. A further one finds its place by the sparse index, and reads a little more."""
SEGMENT_SUFFIX = ".seg"
_DIGITS = 20


class _Staged(NamedTuple):
    """A chunk that is not committed."""

    position: int
    """The lane's."""
    first: int
    next: int
    segment: Segment
    end: int
    """Of the chunk's record in the segment's file."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How long a stream keeps messages. None is for ever."""

    age_s: int | None = None
    file_bytes: int | None = None
    """Of segment files. The newest segment stays whatever its size."""


class StreamLog:
    """One stream on disk. Touched by the loop only; reads are short."""

    __slots__ = (
        "_cache", "_disk", "_file_bytes", "_firsts", "_folder", "_indexed", "_lane", "_last_chunk", "_ordinals",
        "_read_up_to", "_reader", "_segments", "_staged", "_sync_marks", "_synced", "committed", "next",
        "segment_bytes",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        lane: Lane,
        folder: str,
        *,
        segment_bytes: int,
        cache: ChunkCache,
        damaged: Callable[[Damage], None] = lambda damage: None,
    ) -> None:
        """A new stream in a folder of its own, which need not exist. ``segment_bytes``: when a segment is sealed.

        ``damaged`` is told what is found damaged, now or whenever it is read.
        """
        self._disk = disk
        self._lane = lane
        self._folder = folder
        self._cache = cache
        self._reader = SegmentReader(disk, damaged)
        self.segment_bytes = segment_bytes
        self.next = 0
        """The offset of the next message."""
        self.committed = 0
        """The offset behind the last message that readers may see."""
        self._segments: list[Segment] = []
        self._firsts: list[int] = []
        """Their first offsets."""
        self._ordinals: list[int] = []
        """How many messages there were before each of them: counts go on where offsets leap."""
        self._file_bytes = 0
        """Of their files."""
        self._last_chunk = 0
        """First offset of the last committed chunk."""
        self._staged: deque[_Staged] = deque()
        self._sync_marks: deque[tuple[int, int]] = deque()
        """Positions of the lane, and the offset behind what they cover."""
        self._synced = 0
        """Everything before this offset is synced, at least."""
        self._read_up_to: dict[tuple[int, int], int] = {}
        """Where reads of the disk ended: the position in a segment, by the segment's first offset and the next one."""
        self._indexed: dict[Segment, None] = {}
        """Sealed segments whose index is in memory; the one used last at the end."""

    # --- what it holds

    @property
    def first(self) -> int:
        """The offset of the oldest message; ``next`` where there is none."""
        return self._firsts[0] if self._firsts else self.next

    @property
    def last_chunk(self) -> int:
        """First offset of the newest chunk that readers may see."""
        return max(self._last_chunk, self.first)

    @property
    def messages(self) -> int:
        """Committed messages that are kept."""
        return self.messages_between(self.first, self.committed)

    @property
    def file_bytes(self) -> int:
        """Of segment files, with what is staged."""
        return self._file_bytes

    @property
    def segments(self) -> int:
        """How many there are."""
        return len(self._segments)

    @property
    def damaged(self) -> int:
        """How often something damaged was met."""
        return self._reader.damaged

    @property
    def damage(self) -> Sequence[Damage]:
        """What was found damaged so far; the first of it, when it is much."""
        return self._reader.damage

    def messages_between(self, start: int, stop: int) -> int:
        """How many messages have offsets from ``start`` up to before ``stop``; exact except where damage took some."""
        return max(0, self._ordinal(stop) - self._ordinal(start)) if self._segments else 0

    def _ordinal(self, offset: int) -> int:
        """How many messages were before this offset, counted from the oldest that this process has known."""
        at = max(0, bisect_right(self._firsts, offset) - 1)
        segment = self._segments[at]
        return self._ordinals[at] + max(0, min(offset, segment.next) - segment.first)

    # --- appending

    @property
    def overdrawn(self) -> bool:
        """Too much is not synced: nothing may be appended until a sync has come. The lane was asked for one."""
        marks = self._sync_marks
        while marks and marks[0][0] <= self._lane.synced:
            self._synced = marks.popleft()[1]
        if self.next - self._synced < UNSYNCED_MAX:
            return False
        self._lane.want_sync()
        return True

    def append(
        self,
        entries: list[bytes],
        attributes: Attributes,
        *,
        stamp_ms: int,
        filter_values: Sequence[str | None] | None = None,
        route: Route | None = None,
    ) -> int:
        """Stage messages that are alike, in as many chunks as they need. Returns the position to wait for.

        The list belongs to the log. ``filter_values`` has one for each message; None when no message has one.
        """
        assert entries
        assert not self.overdrawn
        position = 0
        for start, stop in _pieces(entries):
            given = None if filter_values is None else Filters.of_messages(filter_values[start:stop])
            piece = entries if stop - start == len(entries) else entries[start:stop]
            newest = self._segments[-1].stamp_ms if self._segments else 0
            chunk = Chunk(self.next, piece, attributes, stamp_ms=max(stamp_ms, newest), filters=given, route=route)
            position = self._append(chunk)
        return position

    def _append(self, chunk: Chunk) -> int:
        segments = self._segments
        if not segments or (segments[-1].end >= self.segment_bytes and segments[-1].next > segments[-1].first):
            self._roll(chunk.first)
        segment = segments[-1]
        assert segment.next == chunk.first
        payload = encode(chunk)
        size = record_bytes(sum(map(len, payload)))
        position = self._lane.append(segment.path, segment.end, Kind.STREAM_CHUNK, payload)
        segment.appended(chunk, size)
        self._file_bytes += size
        self.next = chunk.next
        self._staged.append(_Staged(position, chunk.first, chunk.next, segment, segment.end))
        marks = self._sync_marks
        if self.next - (marks[-1][1] if marks else self._synced) >= SYNC_STEP:
            marks.append((position, self.next))
        self._cache.put(self._folder, chunk)
        return position

    def _roll(self, first: int) -> None:
        """Seal the newest segment and begin another."""
        before = self._segments[-1] if self._segments else None
        segment = Segment(self._folder, first)
        payload = head_payload(first, before)
        self._lane.append(segment.path, 0, Kind.STREAM_CHUNK, payload)
        segment.end = record_bytes(sum(map(len, payload)))
        segment.index = SparseIndex(self.segment_bytes)
        self._enter(segment)
        if before is not None:
            self._keep_index(before)

    def _enter(self, segment: Segment) -> None:
        before = self._segments[-1] if self._segments else None
        if before is None:
            self._ordinals.append(0)
        else:
            self._ordinals.append(self._ordinals[-1] + before.next - before.first)
            segment.stamp_ms = max(segment.stamp_ms, before.stamp_ms)  # it may be empty; searching needs the order
        self._segments.append(segment)
        self._firsts.append(segment.first)
        self._file_bytes += segment.end

    def commit(self, *, synced: bool) -> None:
        """Readers may see what the lane has written, or (``synced``) synced, by now."""
        staged = self._staged
        position = self._lane.synced if synced else self._lane.written
        while staged and staged[0].position <= position:
            chunk = staged.popleft()
            chunk.segment.readable = chunk.end
            self._last_chunk = chunk.first
            self.committed = max(self.committed, chunk.next)  # retention may have been quicker

    # --- reading

    def chunk(self, offset: int, hint: int) -> Chunk | None:
        """The committed chunk with this offset, or the first behind it; None where there is none.

        ``hint`` is the first offset of the chunk that the reader had last.
        """
        offset = max(offset, self.first)
        if offset >= self.committed:
            return None
        for first in {hint, offset}:
            chunk = self._cache.get(self._folder, first)
            if chunk is not None and chunk.first <= offset < chunk.next:
                return chunk
        return self._read(offset)

    def _read(self, offset: int) -> Chunk | None:
        for at in range(max(0, bisect_right(self._firsts, offset) - 1), len(self._segments)):
            segment = self._segments[at]
            if segment.next <= offset:
                continue
            position = self._read_up_to.pop((segment.first, offset), None)
            if position is None:
                position = self._index(at).position_of(offset)
            while position < segment.readable:
                chunks, position = self._reader.block(segment, position)
                wanted = [chunk for chunk in chunks if chunk.next > offset]
                for chunk in reversed(wanted):  # the first one is wanted next
                    self._cache.put(self._folder, chunk)
                if wanted:
                    self._note_reading((segment.first, wanted[-1].next), position)
                    return wanted[0]
        return None

    def _note_reading(self, place: tuple[int, int], position: int) -> None:
        """Somebody has read so far in a segment, and will go on there."""
        self._read_up_to[place] = position
        if len(self._read_up_to) > READINGS_MAX:
            del self._read_up_to[next(iter(self._read_up_to))]

    def offset_at(self, stamp_ms: int) -> int:
        """First offset of the first chunk not before this time; ``committed`` where there is none."""
        begin = bisect_left(self._segments, stamp_ms, key=lambda segment: segment.stamp_ms)
        for at in range(begin, len(self._segments)):
            segment = self._segments[at]
            position = self._index(at).position_at(stamp_ms)
            while position < segment.readable:
                chunks, position = self._reader.block(segment, position)
                for chunk in chunks:
                    if chunk.stamp_ms >= stamp_ms:
                        return chunk.first
        return self.committed

    def _index(self, at: int) -> SparseIndex:
        segment = self._segments[at]
        if segment.index is None:
            follower = self._segments[at + 1]  # the newest one always has its index
            head = self._reader.head(follower.path) if follower.readable else None
            if head is not None and head.before_first == segment.first:
                segment.index = head.before_index
            else:
                again = Segment(self._folder, segment.first)
                self._reader.find(again)
                segment.index = again.index
        assert segment.index is not None
        self._keep_index(segment)
        return segment.index

    def _keep_index(self, segment: Segment) -> None:
        """The index was used: forget the one that was not for longest, when there are too many."""
        if segment is self._segments[-1]:
            return
        self._indexed.pop(segment, None)
        self._indexed[segment] = None
        if len(self._indexed) > INDEXES_MAX:
            oldest = next(iter(self._indexed))
            del self._indexed[oldest]
            oldest.index = None

    # --- leaving

    def exceeds(self, kept: Kept) -> bool:
        """True when it holds too many bytes, and not all of them are in the newest segment."""
        return kept.file_bytes is not None and self._file_bytes > kept.file_bytes and len(self._segments) > 1

    def retain(self, kept: Kept, now_ms: int) -> int:
        """Drop whole segments, oldest first, that are too old or too much. Returns how many."""
        dropped = 0
        while len(self._segments) > 1:
            oldest = self._segments[0]
            too_old = kept.age_s is not None and oldest.stamp_ms < now_ms - kept.age_s * 1000
            if not (too_old or self.exceeds(kept)):
                break
            del self._segments[0], self._firsts[0], self._ordinals[0]
            self._indexed.pop(oldest, None)
            self._file_bytes -= oldest.end
            self._lane.remove(oldest.path)
            dropped += 1
        self.committed = max(self.committed, self.first)
        return dropped

    def delete(self) -> None:
        """The stream is gone, and everything of it on disk. The log may not be used any more."""
        self._cache.forget(self._folder)
        self._lane.remove_folder(self._folder)

    # --- a start

    def recover(self, *, intact: bool) -> None:
        """Take up what is on disk, before anything is appended. Blocks; raises StoreFailure.

        ``intact``: nothing that was written can have been lost since (a clean stop, or the same boot of the machine).
        """
        assert not self._segments
        assert not self.next
        names = [name for name in self._disk.names(self._folder) if _is_segment(name)]
        found = [Segment(self._folder, int(name[:_DIGITS])) for name in sorted(names)]
        for segment, follower in pairwise(found):
            self._reader.sealed(segment, follower.path)
            self._enter(segment)
        generation = 0
        last_chunk = None
        if found:
            newest = found[-1]
            generation, last_chunk, sound_end = self._reader.find(newest)
            intact = intact and sound_end == newest.end
            self._enter(newest)
            self._lane.prove(newest.path, sound_end)
            self.next = newest.next
        for segment in self._segments[:-1]:
            self._prove(segment, intact=intact)
        if not intact:
            # What was found stays found: else a second stop, with a power cut, could end below what is given now.
            self._sync([segment.path for segment in found])
            self._leap(generation)
        self._synced = self.next
        full = [segment for segment in self._segments if segment.next > segment.first]
        self.committed = full[-1].next if full else self.next
        if last_chunk is None and full:
            last_chunk = self.offset_at(full[-1].stamp_ms)
        self._last_chunk = last_chunk or 0

    def _prove(self, segment: Segment, *, intact: bool) -> None:
        """Have the marks name all of a sealed segment that is sound. What a crash has torn stays torn to later starts.

        To know what is sound, it is read: after a crash while it was the newest, or when a power cut has brought it
        back. From before there were marks of files it is taken as it is."""
        lane = self._lane
        known = lane.marks.proven(segment.path)
        if segment.end <= known or (intact and known >= 0):
            return
        end = segment.end
        if not intact or lane.last_start is not None:
            end = SegmentReader(self._disk).find(Segment(self._folder, segment.first)).sound_end
        lane.prove(segment.path, end)

    def _leap(self, generation: int) -> None:
        """Go on above all that may have been given out since the newest record, of this generation, was written.

        A segment is begun at once, so that a clean stop leaves word of the leap even if nothing was appended.
        """
        self.next += LEAP * max(1, self._lane.generation - generation)
        segments = self._segments
        empties = []
        while segments and segments[-1].next == segments[-1].first:  # a leap that led nowhere, or all of it was torn
            if len(segments) > 1:
                self._index(len(segments) - 2)
            empties.append(segments.pop())
            del self._firsts[-1], self._ordinals[-1]
            self._file_bytes -= empties[-1].end
        self._roll(self.next)
        for empty in empties:  # when the new one is synced: what a crash has torn before them is never newest again
            self._lane.remove(empty.path)

    def _sync(self, paths: Sequence[str]) -> None:
        folder = self._folder
        try:
            for path in paths:
                self._disk.sync(path)
            while paths and folder:
                self._disk.sync_folder(folder)
                folder = folder.rpartition("/")[0]
        except OSError as error:
            raise StoreFailure("sync", folder, error) from error


def _pieces(entries: list[bytes]) -> list[tuple[int, int]]:
    """Where to cut messages into chunks."""
    total = len(entries)
    if total <= MESSAGES_MAX and sum(map(len, entries)) <= BODY_BYTES_MAX:
        return [(0, total)]
    pieces = []
    start = size = 0
    for at, entry in enumerate(entries):
        if at > start and (at - start == MESSAGES_MAX or size + len(entry) > BODY_BYTES_MAX):
            pieces.append((start, at))
            start, size = at, 0
        size += len(entry)
    pieces.append((start, total))
    return pieces


def _is_segment(name: str) -> bool:
    digits = name.removesuffix(SEGMENT_SUFFIX)
    return digits != name and len(digits) == _DIGITS and digits.isdigit()
