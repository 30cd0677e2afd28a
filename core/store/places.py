"""The places of a queue's messages on disk: file names, and the summaries that are kept in memory.

A queue index numbers messages as its queue does. ``SEGMENT_MESSAGES`` consecutive numbers are a *segment* and share a
file, ``queues/<id>/<level>/<n>.idx``. A :class:`SegmentSummary` is kept in memory for each segment; a
:class:`StoredRun` describes messages whose bodies are on disk.

This module does no I/O.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from core.message import Attributes, Route
from core.taken_numbers import TakenNumbers

SEGMENT_BITS = 14
SEGMENT_MESSAGES = 1 << SEGMENT_BITS
"""Sequence numbers in one file of a queue index: 16384, as in the documents (row 4.4)."""

QUEUES = "queues"
PERSISTENT = "msg_store_persistent"
TRANSIENT = "msg_store_transient"
CHECKPOINT = "checkpoint"


class Embedded(NamedTuple):
    """Bodies in a file of the queue index."""

    path: str
    offsets: "array[int]"
    """Offsets of the bodies in the file, ascending."""


class Stored(NamedTuple):
    """Bodies in the message store."""

    ids: "array[int]"


@dataclass(slots=True)
class BodiesKept:
    """How many bodies queue indexes have put into the message store since the counter was last reset."""

    count: int = 0


@dataclass(eq=False, slots=True)
class StoredRun:
    """Consecutive messages of a queue that are alike, without their bodies: 12 to 16 bytes of memory for each."""

    first: int
    sizes: "array[int]"
    """Bytes of each body."""
    attributes: Attributes
    expires_at: float | None
    """Wall-clock seconds."""
    route: Route | None
    redelivered: bool
    """Whether they are from before this start and may have been delivered before."""
    place: Embedded | Stored

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def sequences(self) -> range:
        """The sequence numbers of the messages."""
        return range(self.first, self.first + len(self.sizes))

    def part(self, start: int, stop: int) -> "StoredRun":
        """Return the messages from ``start`` (inclusive) to ``stop`` (exclusive), counted from the first."""
        place = self.place
        return StoredRun(
            self.first + start,
            self.sizes[start:stop],
            self.attributes,
            self.expires_at,
            self.route,
            self.redelivered,
            Stored(place.ids[start:stop])
            if isinstance(place, Stored)
            else Embedded(place.path, place.offsets[start:stop]),
        )


@dataclass(eq=False, slots=True)
class SegmentSummary:
    """The summary of one segment of a queue index in memory. It takes about 250 bytes; a backlog has hundreds of
    segments."""

    published: int = 0
    """How many messages were ever written to it."""
    live: int = 0
    """How many of them are not settled."""
    live_bytes: int = 0
    """Bytes of their bodies. Exact after a start and after a load; in between, settled messages are subtracted with the
    mean size."""
    file_bytes: int = 0
    incarnation: int = 0
    """Distinguishes files of the same segment: not 0 if the file was made after a newer segment had begun."""
    mixed: bool = False
    """Whether some of its messages may be transient, so that the next start drops them."""
    stored: bool = False
    """Whether some of its messages may have their bodies in the message store."""
    ids: dict[int, int] | None = None
    """Their ids in the message store by sequence number; None if the ids have to be read from the file first."""
    settled: list["range | list[int]"] | None = field(default=None)
    """Sequence numbers settled since the last batch and not staged yet; each element is ascending."""
    late: bool = False
    """Whether messages were appended to its file after newer ones. These are transient, so it is False at a start."""
    taken: TakenNumbers | None = None
    """The publishing ids in its file: those of its durable messages, and those of files that were removed. None for
    none. Of each publisher it takes some 200 bytes."""


class Loaded(NamedTuple):
    """The contents of the segment that was read last."""

    segment: SegmentSummary
    published: int
    """How many messages had been written to it at that time."""
    runs: Sequence[StoredRun]


def index_folder(queue_id: str, level: int) -> str:
    """Return the folder of the index of one priority level of a queue."""
    return f"{QUEUES}/{queue_id}/{level}"


def segment_name(segment: int, incarnation: int) -> str:
    """Return the name of a segment's file in the folder of its index."""
    return f"{segment}-{incarnation}.idx" if incarnation else f"{segment}.idx"


def numbered(name: str, suffix: str) -> int | None:
    """Return the number in a file name ``<n><suffix>``; None for any other name."""
    stem = name.removesuffix(suffix)
    return int(stem) if stem != name and stem.isascii() and stem.isdigit() else None


def store_file(folder: str, number: int) -> str:
    """Return the path of a file of a message store."""
    return f"{folder}/{number}.rdq"
