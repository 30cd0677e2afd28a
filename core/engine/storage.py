"""The storage of the engine: the parts of the store, which are opened and passed in when the broker starts.

A broker without storage keeps everything in memory, and refuses queue types that need a data folder.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from core.engine.options.arguments import queue_type
from core.engine.options.policies import PolicyRecorder
from core.engine.quorum.groups import QuorumGroups
from core.engine.quorum.queues import QuorumQueues
from core.engine.routing.recorder import DefinitionsRecorder
from core.store.damage import refusal
from core.store.definitions import Definitions
from core.store.store import Store
from core.store.stream_chunk import ChunkCache
from core.store.stream_log import StreamLog
from core.store.stream_segment import Damage
from core.work import Work

STREAM_CACHE_BYTES = 16 * 2**20
"""Bytes of stream chunks cached in memory, for all streams together. It is enough for readers at the tail of a few busy
streams."""
PASSED_OVER_MAX = 1000
"""Log lines that wait to be written. A stream adds 16 at most, and they are written ten times a second."""


class Recorder(DefinitionsRecorder, PolicyRecorder, Protocol):
    """Records definitions and policies on disk."""


class HostKeeper(Protocol):
    """Keeps the virtual hosts of a broker, and their settings. Each method raises PreconditionFailed if it fails, and
    has no effect then."""

    @property
    def found(self) -> "Mapping[str, Storage]":
        """The virtual hosts from before the start, without the default one."""

    @property
    def settings(self) -> Mapping[str, Mapping[str, object]]:
        """The settings of those that have any."""

    def add(self, name: str) -> "Storage | None":
        """Keep a new virtual host. Returns the storage of its names; None if they are in memory."""

    def remove(self, name: str) -> None:
        """Remove a virtual host without queues."""

    def set_settings(self, name: str, settings: Mapping[str, object]) -> None:
        """Keep the settings of a virtual host."""


@dataclass(slots=True, kw_only=True)
class Storage:
    """One open data folder, for the names of one virtual host."""

    found: Definitions
    """The definitions from before the start."""
    recorder: Recorder
    """Records changes of durable definitions."""
    store: Store
    """The lanes; queue indexes and the message store of classic queues."""
    quorum: QuorumQueues
    groups: QuorumGroups | None = None
    """The groups of a node in a cluster: then all quorum queues are in them, and none in ``quorum``."""
    work: Work = field(default_factory=Work)
    """Counts the work of the recorder, and later of the whole engine."""
    salvage: bool = False
    forgotten: Callable[[int], None] = lambda number: None
    """Called with the number of each deleted queue that outlived the broker."""
    passed_over: deque[str] = field(default_factory=lambda: deque(maxlen=PASSED_OVER_MAX))
    """Damage found in streams that was not logged yet. Each entry becomes a line of the log."""
    stream_cache: ChunkCache = field(default_factory=lambda: ChunkCache(STREAM_CACHE_BYTES))

    @property
    def streams_found(self) -> frozenset[int]:
        """The numbers of the streams that existed before the start."""
        return frozenset(queue.id for queue in self.found.queues if queue_type(queue.declaration.arguments) == "stream")

    def stream_damaged(self, damage: Damage) -> None:
        """A stream has found damage and skips it."""
        self.passed_over.append(f"{damage}; passed over, with the messages that it had")

    def check_stream(self, log: StreamLog) -> None:
        """Raises StoreDamaged if synced records of a stream are damaged, unless the start is to salvage."""
        known = self.store.streams_synced
        for path, damaged in log.damage:
            # Streams keep records torn by a crash, so if the marks name files, only the marks say what was synced.
            synced = damaged.offset < known.files.get(path, 0) if known.number else known.proves(path, damaged)
            if synced and not self.salvage:
                raise refusal(path, damaged)
