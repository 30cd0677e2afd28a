"""What a stream's queue needs of the log of the stream.

There are two implementations. :class:`core.store.stream_log.StreamLog` is the log of a broker alone: segments on its
disk. :class:`core.engine.stream.group_stream.GroupStream` is a stream of a cluster: its chunks are commands of a group.
"""

from collections.abc import Sequence
from typing import Protocol

from core.message import Attributes, Route
from core.store.stream_chunk import Chunk
from core.store.stream_log import Kept


class ChunkLog(Protocol):
    """An append-only log of chunks with any number of readers. See :class:`core.store.stream_log.StreamLog` for what is
    not said here."""

    segment_bytes: int

    @property
    def next(self) -> int:
        """The offset of the next message."""

    @property
    def committed(self) -> int:
        """The offset after the last message that readers may see."""

    @property
    def first(self) -> int: ...

    @property
    def last_chunk(self) -> int: ...

    @property
    def messages(self) -> int: ...

    @property
    def file_bytes(self) -> int: ...

    @property
    def segments(self) -> int: ...

    @property
    def damaged(self) -> int: ...

    @property
    def overdrawn(self) -> bool: ...

    def messages_between(self, start: int, stop: int) -> int: ...

    def append(
        self,
        entries: list[bytes],
        attributes: Attributes,
        *,
        stamp_ms: int,
        filter_values: Sequence[str | None] | None = None,
        route: Route | None = None,
    ) -> int:
        """Stage messages that are alike. Returns the position to wait for; that of
        :data:`core.store.command_log.NOWHERE` if they were refused."""

    def commit(self, *, synced: bool) -> None: ...

    def chunk(self, offset: int, hint: int) -> Chunk | None: ...

    def offset_at(self, stamp_ms: int) -> int: ...

    def exceeds(self, kept: Kept) -> bool: ...

    def retain(self, kept: Kept, now_ms: int) -> int: ...

    def delete(self) -> None: ...
