"""The log of one stream: append-only segments with any number of readers. Old segments are removed as a whole.

Messages are appended in chunks, on a lane; they are *committed* when the lane has written them (or synced, if the
stream asks for that), and readers see only committed messages. A segment is sealed when it has reached its size. The
next segment begins with a head that describes it (:mod:`core.store.stream_segment`).

Offsets count messages and are never used twice, even if a power cut has removed messages that readers had seen. The
loss is bounded: at most :data:`UNSYNCED_MAX` offsets may be unsynced; then the log accepts nothing until the next sync.
A start after which the tail may be incomplete continues above all offsets that may have been used: it leaps by
:data:`LEAP` offsets for each start since the newest existing record was written.

Invariants: segments are in ascending order and do not overlap; between two of them offsets may be missing, within one
only because of damage; the newest segment is never removed; ``committed`` and ``next`` never decrease.
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
from core.store.record import RecordKind, record_bytes
from core.store.stream_chunk import BODY_BYTES_MAX, MESSAGES_MAX, Chunk, ChunkCache, Filters, encode
from core.store.stream_segment import Damage, Segment, SegmentReader, SparseIndex, head_payload

UNSYNCED_MAX = 2**23
"""The most offsets beyond the last synced one: 4 s at 2 million messages a second, with a sync every 200 ms."""
LEAP = 2**24
"""More than ``UNSYNCED_MAX`` and a chunk. Offsets of 63 bits last for 2^39 unclean starts."""
SYNC_STEP = 2**16
"""The precision, in offsets, with which the synced offset is known. Noting every chunk would cost more than that
gains."""
INDEXES_MAX = 64
"""The most sparse indexes of sealed segments in memory: 6 MiB."""
READINGS_MAX = 256
"""The most readers whose position is remembered, so that they continue without a search. Any other reader searches by
the sparse index, and reads slightly more."""
SEGMENT_SUFFIX = ".seg"
_DIGITS = 20


class _Staged(NamedTuple):
    """A chunk that is not committed yet."""

    position: int
    """The position of the lane."""
    first: int
    next: int
    segment: Segment
    end: int
    """The end of the chunk's record in the segment's file."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The retention of a stream. None means no limit."""

    age_s: int | None = None
    file_bytes: int | None = None
    """The most bytes of segment files. The newest segment is kept whatever its size."""


class StreamLog:
    """One stream on disk. Used by the event loop only; reads are short."""

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
        """The log of a stream in its own folder, which need not exist. ``segment_bytes``: the size at which a segment
        is sealed.

        ``damaged`` is called with damage that is found by any read.
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
        """The offset after the last message that readers may see."""
        self._segments: list[Segment] = []
        self._firsts: list[int] = []
        """The first offset of each segment."""
        self._ordinals: list[int] = []
        """How many messages there were before each segment. These counts are contiguous even where offsets leap."""
        self._file_bytes = 0
        """Bytes of the segments' files."""
        self._last_chunk = 0
        """First offset of the last committed chunk."""
        self._staged: deque[_Staged] = deque()
        self._sync_marks: deque[tuple[int, int]] = deque()
        """Positions of the lane, each with the offset after the messages up to it."""
        self._synced = 0
        """All messages before this offset are synced."""
        self._read_up_to: dict[tuple[int, int], int] = {}
        """The positions in segments at which reads ended, by the segment's first offset and the next offset to read."""
        self._indexed: dict[Segment, None] = {}
        """Sealed segments whose index is in memory; the most recently used one is last."""

    # --- what it holds

    @property
    def first(self) -> int:
        """The offset of the oldest message; ``next`` if there is none."""
        return self._firsts[0] if self._firsts else self.next

    @property
    def last_chunk(self) -> int:
        """The first offset of the newest chunk that readers may see."""
        return max(self._last_chunk, self.first)

    @property
    def messages(self) -> int:
        """How many committed messages are kept."""
        return self.messages_between(self.first, self.committed)

    @property
    def file_bytes(self) -> int:
        """Bytes of segment files, with staged chunks."""
        return self._file_bytes

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return len(self._segments)

    @property
    def damaged(self) -> int:
        """How often damage was found."""
        return self._reader.damaged

    @property
    def damage(self) -> Sequence[Damage]:
        """The damage found so far, up to a maximum number of entries."""
        return self._reader.damage

    def messages_between(self, start: int, stop: int) -> int:
        """Return how many messages have offsets from ``start`` (inclusive) to ``stop`` (exclusive). It is exact except
        for damage."""
        return max(0, self._ordinal(stop) - self._ordinal(start)) if self._segments else 0

    def _ordinal(self, offset: int) -> int:
        """Return how many messages are before this offset, counted from the oldest that this process has known."""
        at = max(0, bisect_right(self._firsts, offset) - 1)
        segment = self._segments[at]
        return self._ordinals[at] + max(0, min(offset, segment.next) - segment.first)

    # --- appending

    @property
    def overdrawn(self) -> bool:
        """Whether too many offsets are unsynced, so that nothing may be appended until the next sync. If so, the lane
        is asked for a sync."""
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
        """Stage messages that are alike, in one or more chunks. Returns the position to wait for.

        The log takes over the list. ``filter_values`` has one value for each message; None if no message has one.
        """
        assert entries
        assert not self.overdrawn
        position = 0
        for start, stop in pieces(entries):
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
        position = self._lane.append(segment.path, segment.end, RecordKind.STREAM_CHUNK, payload)
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
        self._lane.append(segment.path, 0, RecordKind.STREAM_CHUNK, payload)
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
            segment.stamp_ms = max(segment.stamp_ms, before.stamp_ms)  # searching needs the order
        self._segments.append(segment)
        self._firsts.append(segment.first)
        self._file_bytes += segment.end

    def commit(self, *, synced: bool) -> None:
        """Let readers see all messages that the lane has written, or synced if ``synced``, by now."""
        staged = self._staged
        position = self._lane.synced if synced else self._lane.written
        while staged and staged[0].position <= position:
            chunk = staged.popleft()
            chunk.segment.readable = chunk.end
            self._last_chunk = chunk.first
            self.committed = max(self.committed, chunk.next)  # retention may have removed it already

    # --- reading

    def chunk(self, offset: int, hint: int) -> Chunk | None:
        """Return the committed chunk with this offset, or the first one after it; None if there is none.

        ``hint`` is the first offset of the chunk that the reader read last.
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
                for chunk in reversed(wanted):  # the first one is needed next
                    self._cache.put(self._folder, chunk)
                if wanted:
                    self._note_reading((segment.first, wanted[-1].next), position)
                    return wanted[0]
        return None

    def _note_reading(self, place: tuple[int, int], position: int) -> None:
        """Remember the position in a segment at which a reader will continue."""
        self._read_up_to[place] = position
        if len(self._read_up_to) > READINGS_MAX:
            del self._read_up_to[next(iter(self._read_up_to))]

    def offset_at(self, stamp_ms: int) -> int:
        """Return the first offset of the first chunk not before this time; ``committed`` if there is none."""
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
        """Note that an index was used, and drop the least recently used one if there are too many."""
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
        """Return whether the log has too many bytes and more than one segment."""
        return kept.file_bytes is not None and self._file_bytes > kept.file_bytes and len(self._segments) > 1

    def retain(self, kept: Kept, now_ms: int) -> int:
        """Remove segments, oldest first, that are too old or exceed the size. Returns how many were removed."""
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
        """Remove a deleted stream from disk. The log must not be used afterwards."""
        self._cache.forget(self._folder)
        self._lane.remove_folder(self._folder)

    # --- a start

    def recover(self, *, intact: bool) -> None:
        """Load the segments on disk, before anything is appended. Blocks; raises StoreFailure.

        ``intact``: no written record can have been lost since (a clean stop, or the same boot of the machine).
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
            # Without this sync a power cut could later remove records that the leap below counts on.
            self._sync([segment.path for segment in found])
            self._leap(generation)
        self._synced = self.next
        full = [segment for segment in self._segments if segment.next > segment.first]
        self.committed = full[-1].next if full else self.next
        if last_chunk is None and full:
            last_chunk = self.offset_at(full[-1].stamp_ms)
        self._last_chunk = last_chunk or 0

    def _prove(self, segment: Segment, *, intact: bool) -> None:
        """Let the marks name the sound part of a sealed segment. Later starts still treat a torn part as torn.

        The segment is read to find its sound part after a crash while it was the newest, or after a power cut has
        restored it. A segment from before there were marks of files is taken as it is."""
        lane = self._lane
        known = lane.marks.proven(segment.path)
        if segment.end <= known or (intact and known >= 0):
            return
        end = segment.end
        if not intact or lane.last_start is not None:
            end = SegmentReader(self._disk).find(Segment(self._folder, segment.first)).sound_end
        lane.prove(segment.path, end)

    def _leap(self, generation: int) -> None:
        """Continue above all offsets that may have been used since the newest record, which is of this generation, was
        written.

        A segment is begun at once, so that the leap is on disk after a clean stop even if nothing was appended.
        """
        self.next += LEAP * max(1, self._lane.generation - generation)
        segments = self._segments
        empties = []
        while segments and segments[-1].next == segments[-1].first:  # an empty segment of a leap, or all of it was torn
            if len(segments) > 1:
                self._index(len(segments) - 2)
            empties.append(segments.pop())
            del self._firsts[-1], self._ordinals[-1]
            self._file_bytes -= empties[-1].end
        self._roll(self.next)
        for empty in empties:  # after the new one is synced, so that a torn one is never the newest again
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


def pieces(entries: list[bytes]) -> list[tuple[int, int]]:
    """Return start and stop of each chunk's messages."""
    total = len(entries)
    if total <= MESSAGES_MAX and sum(map(len, entries)) <= BODY_BYTES_MAX:
        return [(0, total)]
    found = []
    start = size = 0
    for at, entry in enumerate(entries):
        if at > start and (at - start == MESSAGES_MAX or size + len(entry) > BODY_BYTES_MAX):
            found.append((start, at))
            start, size = at, 0
        size += len(entry)
    found.append((start, total))
    return found


def _is_segment(name: str) -> bool:
    digits = name.removesuffix(SEGMENT_SUFFIX)
    return digits != name and len(digits) == _DIGITS and digits.isdigit()
