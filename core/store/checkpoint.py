"""The checkpoint: a clean shutdown writes it so that the next start need not read the whole store.

One file, ``checkpoint``: frames, each u32 length, u32 CRC-32 and CBOR. The first frame has version and generation; the
last one has the number of frames between. Between them is one frame for each queue index and one for each 65,536
entries of the message store. The file is written under another name, synced and then renamed.

A start removes the checkpoint, durably, before it changes anything else. So a complete checkpoint describes the current
state, unless a copy of an old file was put back: it is trusted only if it is of the last start, which the marks name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct
from typing import Any
from zlib import crc32

import cbor2

from core.store.disk import Disk
from core.store.message_store import FileSummary, StoreState
from core.store.places import CHECKPOINT, SegmentSummary
from core.store.queue_index import IndexState
from core.taken_numbers import Packed, TakenNumbers

VERSION = 1
_FRAME = Struct("<II")
_UNFINISHED = CHECKPOINT + ".new"
_ENTRIES = 65_536
"""Entries of the message store in one frame: about 1.5 MiB."""
WRITE_BYTES = 1 << 20

IndexKey = tuple[str, int]
"""Queue id and priority level."""


@dataclass(slots=True)
class Checkpoint:
    """The contents: the indexes of all queues, and the persistent message store."""

    indexes: dict[IndexKey, IndexState] = field(default_factory=dict)
    bodies: StoreState = field(default_factory=StoreState)


def write_checkpoint(disk: Disk, checkpoint: Checkpoint, generation: int) -> None:
    """Write the checkpoint atomically. Raises OSError."""
    disk.unlink(_UNFINISHED)
    offset = 0
    gathered: list[bytes] = []
    gathered_bytes = 0
    for item in _items(checkpoint, generation):
        data = cbor2.dumps(item)
        gathered += (_FRAME.pack(len(data), crc32(data)), data)
        gathered_bytes += _FRAME.size + len(data)
        if gathered_bytes >= WRITE_BYTES:
            disk.write(_UNFINISHED, offset, gathered)
            offset += gathered_bytes
            gathered, gathered_bytes = [], 0
    disk.write(_UNFINISHED, offset, gathered)
    disk.sync(_UNFINISHED)
    disk.rename(_UNFINISHED, CHECKPOINT)
    disk.sync_folder("")


def remove_checkpoint(disk: Disk) -> None:
    """Remove the checkpoint; after that the store may change. Raises OSError."""
    disk.unlink(CHECKPOINT)
    disk.unlink(_UNFINISHED)
    disk.sync_folder("")


def read_checkpoint(disk: Disk, *, oldest: int, newest: int) -> Checkpoint | None:
    """Read the checkpoint. Returns None if there is none, it is damaged, or its generation is not from ``oldest`` to
    ``newest``. Raises OSError."""
    try:
        size = disk.size(CHECKPOINT)
    except FileNotFoundError:
        return None
    try:
        return _assemble(_frames(disk, size), range(oldest, newest + 1))
    except (ValueError, TypeError, StopIteration, cbor2.CBORDecodeError):  # damaged, or not written by us
        return None


def _items(checkpoint: Checkpoint, generation: int) -> Iterator[list[object]]:
    yield [VERSION, generation]
    count = 0
    for item in _contents(checkpoint):
        yield item
        count += 1
    yield ["end", count]


def _contents(checkpoint: Checkpoint) -> Iterator[list[object]]:
    for (queue_id, level), index in checkpoint.indexes.items():
        segments = [_segment_numbers(number, segment) for number, segment in index.segments.items()]
        yield ["index", queue_id, level, index.next_sequence_floor, index.delivered_below, segments]
    bodies = checkpoint.bodies
    yield ["files", bodies.current, [[number, file.total, file.live] for number, file in bodies.files.items()]]
    for name, entries in (("places", bodies.places), ("references", bodies.references)):
        left = iter(entries.items())
        while part := list(islice(left, _ENTRIES)):
            yield [name, [key for key, _ in part], [value for _, value in part]]


def _segment_numbers(number: int, segment: SegmentSummary) -> list[object]:
    assert segment.settled is None, "settlements that are not staged"
    flags = segment.mixed | segment.stored << 1
    return [
        number,
        segment.published,
        segment.live,
        segment.live_bytes,
        segment.file_bytes,
        segment.incarnation,
        flags,
        *(() if segment.taken is None else (segment.taken.packed(),)),
    ]


def _segment(
    published: int,
    live: int,
    live_bytes: int,
    file_bytes: int,
    incarnation: int,
    flags: int,
    taken: Packed | None = None,
) -> SegmentSummary:
    segment = SegmentSummary(published, live, live_bytes, file_bytes, incarnation, bool(flags & 1), bool(flags & 2))
    if taken is not None:
        segment.taken = TakenNumbers()
        segment.taken.merge(taken)
    return segment


def _frames(disk: Disk, size: int) -> Iterator[list[object]]:
    """Yield the contents of the frames. Raises ValueError at the first damaged one."""
    offset = 0
    while offset < size:
        header = disk.read(CHECKPOINT, offset, _FRAME.size)
        if len(header) < _FRAME.size:
            raise ValueError("a frame is cut off")
        length, check = _FRAME.unpack(header)
        data = disk.read(CHECKPOINT, offset + _FRAME.size, min(length, size))
        if len(data) < length or crc32(data) != check:
            raise ValueError("a frame is damaged")
        yield cbor2.loads(data)
        offset += _FRAME.size + length


def _assemble(frames: Iterator[list[object]], generations: range) -> Checkpoint | None:
    version, generation = next(frames)
    if version != VERSION or generation not in generations:
        return None
    checkpoint = Checkpoint()
    bodies = checkpoint.bodies
    for count, frame in enumerate(frames):
        name = frame[0]
        values: list[Any] = frame[1:]
        if name == "end":
            return checkpoint if values == [count] else None
        if name == "index":
            queue_id, level, floor, delivered_below, segments = values
            summaries = {number: _segment(*numbers) for number, *numbers in segments}
            checkpoint.indexes[queue_id, level] = IndexState(floor, delivered_below, summaries)
        elif name == "files":
            bodies.current, files = values
            bodies.files.update({number: FileSummary(total, live) for number, total, live in files})
        else:
            entries = bodies.places if name == "places" else bodies.references
            entries.update(zip(*values, strict=True))
    return None
