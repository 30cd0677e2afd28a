"""What the engine keeps things with: the parts of the store, opened and handed in by whoever starts the broker.

A broker without it keeps everything in memory, and refuses the queue types that promise more.
"""

from dataclasses import dataclass, field
from typing import Protocol

from core.engine.policies import PolicyRecorder
from core.engine.quorum.queues import QuorumQueues
from core.engine.topology import DefinitionsRecorder
from core.store.definitions import Definitions
from core.store.store import Store
from core.store.stream_chunk import ChunkCache

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
    stream_cache: ChunkCache = field(default_factory=lambda: ChunkCache(STREAM_CACHE_BYTES))
