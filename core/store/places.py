"""Where messages of a queue are on disk: file names, and what is known of them without reading them again.

A queue index numbers messages as its queue does. ``SEGMENT_MESSAGES`` consecutive numbers are a *segment* and share a
file, ``queues/<id>/<level>/<n>.idx``. What is known of a segment while nothing of it is in memory is a
:class:`SegmentSummary`; what is known of messages whose bodies are on disk is a :class:`StoredRun`.

Nothing here reads or writes.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from core.message import Attributes, Route

SEGMENT_BITS = 14
SEGMENT_MESSAGES = 1 << SEGMENT_BITS
"""Sequence numbers in one file of a queue index: 16384, as in the documents (row 4.4)."""

QUEUES = "queues"
PERSISTENT = "msg_store_persistent"
TRANSIENT = "msg_store_transient"
CHECKPOINT = "checkpoint"


class Embedded(NamedTuple):
    """Bodies that lie in a file of the queue index."""

    path: str
    offsets: "array[int]"
    """Where in the file each body begins; ascending."""


class Stored(NamedTuple):
    """Bodies that lie in the message store."""

    ids: "array[int]"


@dataclass(slots=True)
class BodiesKept:
    """How many bodies indexes have had the message store keep, since somebody last took note."""

    count: int = 0


@dataclass(eq=False, slots=True)
class StoredRun:
    """Consecutive messages of a queue that are alike, with everything but their bodies: 12 to 16 bytes for each."""

    first: int
    sizes: "array[int]"
    """Bytes of each body."""
    attributes: Attributes
    expires_at: float | None
    """Wall-clock seconds."""
    route: Route | None
    redelivered: bool
    """They were here before this start and may have been delivered then."""
    place: Embedded | Stored

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def sequences(self) -> range:
        """The messages' numbers."""
        return range(self.first, self.first + len(self.sizes))

    def part(self, start: int, stop: int) -> "StoredRun":
        """The messages from ``start`` up to before ``stop``, counted from the first."""
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
    """What is known of one segment of a queue index. About 250 bytes: a backlog has hundreds of them."""

    published: int = 0
    """Messages that were ever written into it."""
    live: int = 0
    """Those of them that are not settled."""
    live_bytes: int = 0
    """Of their bodies. Exact after a start and after a load; in between settled messages count with the mean size."""
    file_bytes: int = 0
    incarnation: int = 0
    """Tells files of one segment apart: not 0 where messages came after the segment's number had been passed."""
    mixed: bool = False
    """Some of its messages may be transient, and gone after the next start."""
    stored: bool = False
    """Some of its messages may have their bodies in the message store."""
    ids: dict[int, int] | None = None
    """Sequence number to message store id of those; None when that is to be read from the file first."""
    settled: list["range | list[int]"] | None = field(default=None)
    """Settled since the last batch, ascending in themselves, not staged yet."""
    late: bool = False
    """Messages came to its file behind newer ones: transient ones, so not at a start."""


class Loaded(NamedTuple):
    """What was last read of a segment."""

    segment: SegmentSummary
    published: int
    """Messages ever written into it, at that time."""
    runs: Sequence[StoredRun]


def index_folder(queue_id: str, level: int) -> str:
    """The folder of the index of one priority level of a queue."""
    return f"{QUEUES}/{queue_id}/{level}"


def segment_name(segment: int, incarnation: int) -> str:
    """The file of a segment, within the folder of its index."""
    return f"{segment}-{incarnation}.idx" if incarnation else f"{segment}.idx"


def numbered(name: str, suffix: str) -> int | None:
    """The number in a file name ``<n><suffix>``; None for every other name."""
    stem = name.removesuffix(suffix)
    return int(stem) if stem != name and stem.isascii() and stem.isdigit() else None


def store_file(folder: str, number: int) -> str:
    """A file of a message store."""
    return f"{folder}/{number}.rdq"
