"""What the engine keeps things with: the parts of the store, opened and handed in where the broker is started.

A broker without it keeps everything in memory, and refuses the queue types that promise more.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from core.engine.arguments import queue_type
from core.engine.policies import PolicyRecorder
from core.engine.quorum.queues import QuorumQueues
from core.engine.topology import DefinitionsRecorder
from core.store.damage import refusal
from core.store.definitions import Definitions
from core.store.store import Store
from core.store.stream_chunk import ChunkCache
from core.store.stream_log import StreamLog
from core.store.stream_segment import Damage
from core.work import Work

STREAM_CACHE_BYTES = 16 * 2**20
"""Chunks of all streams kept in memory: readers at the tail of a few busy streams stay within it."""
PASSED_OVER_MAX = 1000
"""Lines that wait to be written: 16 of a stream at most, and they are written ten times a second."""


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
    work: Work = field(default_factory=Work)
    """Where the recorder counts what it does, and the engine then everything else."""
    salvage: bool = False
    passed_over: deque[str] = field(default_factory=lambda: deque(maxlen=PASSED_OVER_MAX))
    """What is damaged in streams and was not told yet: each becomes a line of the log."""
    stream_cache: ChunkCache = field(default_factory=lambda: ChunkCache(STREAM_CACHE_BYTES))

    @property
    def streams_found(self) -> frozenset[int]:
        """The numbers of the streams that were there before the start."""
        return frozenset(queue.id for queue in self.found.queues if queue_type(queue.declaration.arguments) == "stream")

    def stream_damaged(self, damage: Damage) -> None:
        """A stream has come upon damage, and passes it over."""
        self.passed_over.append(f"{damage}; passed over, with the messages that it had")

    def check_stream(self, log: StreamLog) -> None:
        """Raises StoreDamaged for records of a stream that were synced and are damaged now, unless they may be lost."""
        known = self.store.streams_synced
        for path, damaged in log.damage:
            # Streams keep what a crash has torn, so a record's batch proves nothing where the marks name files.
            synced = damaged.offset < known.files.get(path, 0) if known.number else known.proves(path, damaged)
            if synced and not self.salvage:
                raise refusal(path, damaged)
