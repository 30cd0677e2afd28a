"""What the engine keeps things with: the parts of the store, opened and handed in by whoever starts the broker.

A broker without it keeps everything in memory, and refuses the queue types that promise more.
"""

from dataclasses import dataclass, field
from typing import Protocol

from core.engine.arguments import queue_type
from core.engine.policies import PolicyRecorder
from core.engine.quorum.queues import QuorumQueues
from core.engine.topology import DefinitionsRecorder
from core.store.definitions import Definitions
from core.store.errors import StoreDamaged
from core.store.store import Store
from core.store.stream_chunk import ChunkCache
from core.store.stream_log import StreamLog

STREAM_CACHE_BYTES = 16 * 2**20
"""Chunks of all streams kept in memory: readers at the tail of a few busy streams stay within it."""


class Recorder(DefinitionsRecorder, PolicyRecorder, Protocol):
    """Keeps definitions and policies."""


@dataclass(slots=True, kw_only=True)
class Storage:
    """One open data folder."""

    found: Definitions
    """What was defined before the start."""
    recorder: Recorder
    """Where changes of durable definitions go."""
    store: Store
    """The lanes; queue indexes and the message store of classic queues."""
    quorum: QuorumQueues
    streams_synced: tuple[int, int] = (0, 0)
    """How far the streams' lane was synced when the broker ended: generation and batch."""
    salvage: bool = False
    stream_cache: ChunkCache = field(default_factory=lambda: ChunkCache(STREAM_CACHE_BYTES))

    @property
    def streams_found(self) -> frozenset[int]:
        """The numbers of the streams that were there before the start."""
        return frozenset(queue.id for queue in self.found.queues if queue_type(queue.declaration.arguments) == "stream")

    def check_stream(self, log: StreamLog) -> None:
        """Raises StoreDamaged for records of a stream that were synced and are damaged now, unless they may be lost."""
        for path, damaged in log.damage:
            header = damaged.header
            if header is not None and (header.generation, header.batch) <= self.streams_synced and not self.salvage:
                raise StoreDamaged(
                    f"{path} at {damaged.offset}: a record that was synced is damaged ({damaged.why}); put back a copy,"
                    " or start with store.salvage and lose it"
                )
