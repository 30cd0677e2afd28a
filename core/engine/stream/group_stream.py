"""A stream of a cluster, at the node that leads its group: chunks are commands of the group.

The leader gives offsets and times. A chunk is committed when its command is with a majority and is written in the
leader's copy; then readers see it. What is not committed yet when the node ceases to lead is in doubt, as all commands
of a group, until the log has decided. The next leader goes on with the offset after the last committed one, so offsets
have no gap.

What is removed the leader decides too, and says so with a command. It keeps at least the newest segment's worth of
bytes, and the newest chunk.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from core.engine.quorum.commands import CommandType, cut_command, stream_command
from core.engine.quorum.leadership import Leadership
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.stream_chunks import StreamChunks
from core.message import Attributes, Route
from core.store.command_log import NOWHERE
from core.store.stream_chunk import Chunk, ChunkCache, Filters, Known, decode, encode
from core.store.stream_log import Kept


class _Staged(NamedTuple):
    position: int
    next: int


class GroupStream:
    """One stream of a group; see :class:`core.engine.stream.chunk_log.ChunkLog`."""

    __slots__ = (
        "_cache", "_committed", "_cut", "_key", "_known", "_next", "_number", "_queues", "_staged", "_stamp_ms",
        "_term", "segment_bytes",
    )  # fmt: skip

    def __init__(self, queues: QuorumQueues, number: int, *, segment_bytes: int, cache: ChunkCache, key: str) -> None:
        """``number``: that of the stream in the log of the group that has ``queues``. ``key``: of its chunks in the
        cache."""
        self._queues = queues
        self._number = number
        self._key = key
        self._cache = cache
        self._known = Known()
        self.segment_bytes = segment_bytes
        self._term = 0
        self._next = self._committed = self._stamp_ms = self._cut = 0
        self._staged: deque[_Staged] = deque()

    @property
    def leadership(self) -> Leadership:
        """Whether this node leads the group."""
        return self._queues.leadership

    def follow(self) -> None:
        """This node has begun to lead the group, or has ceased to: what was staged is forgotten here, and known again
        when it is applied."""
        self._term = self.leadership.term
        self._staged.clear()
        self._cache.forget(self._key)  # it may have chunks that were never committed
        chunks = self._chunks
        self._next = self._committed = chunks.next
        self._cut = chunks.first
        self._stamp_ms = 0 if chunks.last is None else chunks.last.facts.stamp_ms

    @property
    def _chunks(self) -> StreamChunks:
        return self._queues.stream(self._number)

    # --- what it holds

    @property
    def next(self) -> int:
        """See :class:`core.engine.stream.chunk_log.ChunkLog`, also for the methods below."""
        return self._next if self._term else self._chunks.next

    @property
    def committed(self) -> int:
        return self._committed if self._term else self._chunks.next

    @property
    def first(self) -> int:
        return self._chunks.first

    @property
    def last_chunk(self) -> int:
        place = self._chunks.find(self.committed - 1) if self.committed else None
        return self.first if place is None else place.facts.first

    @property
    def messages(self) -> int:
        return self.messages_between(self.first, self.committed)

    @property
    def file_bytes(self) -> int:
        return self._chunks.bytes

    @property
    def segments(self) -> int:
        """None: a stream of a group has no files of its own."""
        return 0

    @property
    def damaged(self) -> int:
        """Always 0: damage ends the node, and the group is copied from another one."""
        return 0

    @property
    def overdrawn(self) -> bool:
        """Always False: the log of the group bounds what is under way by its own."""
        return False

    def messages_between(self, start: int, stop: int) -> int:
        return max(0, stop - max(start, self.first))

    # --- appending

    def append(
        self,
        entries: list[bytes],
        attributes: Attributes,
        *,
        stamp_ms: int,
        filter_values: Sequence[str | None] | None = None,
        route: Route | None = None,
    ) -> int:
        """Stage messages in one chunk, so that either all of them are committed or none."""
        self._stamp_ms = max(self._stamp_ms, stamp_ms)
        given = None if filter_values is None else Filters.of_messages(filter_values)
        chunk = Chunk(self._next, entries, attributes, stamp_ms=self._stamp_ms, filters=given, route=route)
        command = stream_command(CommandType.CHUNK, self._number, encode(chunk))
        position = self._queues.append(command, prompt=True)
        if position != NOWHERE.position:
            self._next = chunk.next
            self._staged.append(_Staged(position, chunk.next))
            self._cache.put(self._key, chunk)
        return position

    def commit(self, *, synced: bool) -> None:
        staged = self._staged
        if staged:
            position = self._queues.committed
            while staged and staged[0].position <= position:
                self._committed = staged.popleft().next

    # --- reading

    def chunk(self, offset: int, hint: int) -> Chunk | None:
        offset = max(offset, self.first)
        if not self._term or offset >= self._committed:
            return None  # what a node that does not lead has applied may not be written yet
        for first in {hint, offset}:
            chunk = self._cache.get(self._key, first)
            if chunk is not None and chunk.first <= offset < chunk.next:
                return chunk
        place = self._chunks.find(offset)
        if place is None:
            return None
        held = self._chunks.held.get(place.facts.first)
        chunk = decode(self._queues.read_chunk(place) if held is None else held, self._known)
        self._cache.put(self._key, chunk)
        return chunk

    def offset_at(self, stamp_ms: int) -> int:
        return min(self._chunks.since(stamp_ms), self.committed)

    # --- leaving

    def exceeds(self, kept: Kept) -> bool:
        return kept.file_bytes is not None and self._chunks.bytes > kept.file_bytes and not self._waits_for_cut

    @property
    def _waits_for_cut(self) -> bool:
        return self._cut > self._chunks.first

    def retain(self, kept: Kept, now_ms: int) -> int:
        """Have the messages removed that are too old, or too many. Returns how many these are."""
        if self._waits_for_cut:
            return 0
        first = self._chunks.first
        before_ms = None if kept.age_s is None else now_ms - kept.age_s * 1000
        upto = self._chunks.excess(bytes_max=kept.file_bytes, before_ms=before_ms, keep=self.segment_bytes)
        if upto > first and self._queues.append(cut_command(self._number, upto), prompt=False) != NOWHERE.position:
            self._cut = upto
        return upto - first

    def delete(self) -> None:
        self._cache.forget(self._key)
        if self._term:
            self._queues.append(stream_command(CommandType.STREAM_END, self._number), prompt=True)
            self._term = 0
