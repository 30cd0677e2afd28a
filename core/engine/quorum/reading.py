"""Reads message bodies back from the command log, neighbouring bodies in one read.

Single messages are in separate records, with gaps of about a hundred bytes. Reading the gaps too is far cheaper than
another system call.
"""

from collections.abc import Sequence

from core.engine.quorum.block import SpanPart
from core.engine.quorum.replicated_log import ReplicatedLog

GAP_BYTES_MAX = 512
"""More than the overhead of a record with a route. Copying 4 KiB from the page cache takes as long as a system call."""
READ_BYTES_MAX = 1 << 20
"""The most bytes joined into one read. A single piece may be larger."""


def read_bodies(log: ReplicatedLog, pieces: Sequence[SpanPart]) -> list[list[bytes]]:
    """Return the bodies of each piece, in order. Raises StoreFailure."""
    bodies: list[list[bytes]] = []
    start = 0
    while start < len(pieces):
        piece = pieces[start]
        if piece.held is not None:
            bodies.append(_split(piece.held.bodies, piece.offset - piece.held.offset, piece))
            start += 1
            continue
        stop, end = _joined(pieces, start)
        data = log.read_bytes(piece.file, piece.offset, end - piece.offset)
        bodies += [_split(data, part.offset - piece.offset, part) for part in pieces[start:stop]]
        start = stop
    return bodies


def _joined(pieces: Sequence[SpanPart], start: int) -> tuple[int, int]:
    """Return the end of one read from this piece on: the index after the last piece, and the offset in the file."""
    first = pieces[start]
    end = first.offset + sum(first.sizes)
    stop = start + 1
    while stop < len(pieces):
        piece = pieces[stop]
        piece_end = piece.offset + sum(piece.sizes)
        if (
            piece.file != first.file
            or piece.held is not None
            or not 0 <= piece.offset - end <= GAP_BYTES_MAX
            or piece_end - first.offset > READ_BYTES_MAX
        ):
            break
        end = piece_end
        stop += 1
    return stop, end


def _split(data: bytes, at: int, piece: SpanPart) -> list[bytes]:
    bodies = []
    for size in piece.sizes:
        bodies.append(data[at : at + size])
        at += size
    return bodies
