"""The fast path for acknowledgements: a run of basic.ack frames on one channel, as ranges of delivery tags.

A basic.ack frame has 21 bytes; two of them differ only in the delivery tag and the bit ``multiple``. Frames are
compared column by column, at C speed; consecutive tags become one range.

Invariants:

- Applied in their order, the ranges do exactly what the frames would do one by one, faults included.
- Bytes that are not fully understood end the run or are declined (None), never an error: the generic path handles them.
- The work is linear in the bytes accepted: how many frames are compared at once doubles with success.

This module must not know which tags are outstanding.
"""

from dataclasses import dataclass
from struct import Struct

from core.amqp091.framing import FRAME_END

_ACK = Struct(">11sQBB")
"""Frame type, channel, size, class id and method id; delivery tag; bits; frame end."""
_FRAME_START, _FRAME_SIZE_AND_METHOD = b"\x01", b"\x00\x00\x00\x0d\x00\x3c\x00\x50"
_MULTIPLE = 1
RANGES_MAX = 128
"""Ranges of one run. Each may have to be cut out of the middle of a long list, at up to 60 us."""
_LOOK_AHEAD_MIN = 4
"""Frames compared at once in the beginning: about 1 µs if none matches."""


@dataclass(slots=True)
class AckRun:
    """Acknowledgements of one channel, in their order."""

    channel: int
    ranges: list[tuple[int, int]]
    """First and last delivery tag. A first of 0 means every unacknowledged delivery up to the last (``multiple``); if
    the last is 0 too, it means every unacknowledged delivery [0-9-1 basic.ack.multiple]."""
    end_position: int
    """Where the run ends in the buffer."""


def parse(data: bytes, position: int, stop: int) -> AckRun | None:
    """Return the longest run of basic.ack frames that begins at ``position`` and makes no more than ``RANGES_MAX``
    ranges, or a few more; None for anything else.

    Received data ends at ``stop``. An acknowledgement of tag 0 without ``multiple`` is never part of a run: there is no
    such tag, and no range can express it.
    """
    head = data[position : position + 11]
    if head[:1] != _FRAME_START or head[3:] != _FRAME_SIZE_AND_METHOD or head[1:3] == b"\x00\x00":
        return None
    if stop - position < _ACK.size:
        return None
    ranges: list[tuple[int, int]] = []
    if not _extend_by_one(ranges, head, _ACK.unpack_from(data, position)):
        return None
    at = position + _ACK.size
    look_ahead = _LOOK_AHEAD_MIN
    while n := min(look_ahead, (stop - at) // _ACK.size):
        view = memoryview(data)[at : at + n * _ACK.size]
        alike = _extend(ranges, head, list(_ACK.iter_unpack(view)))
        at += alike * _ACK.size
        if alike < n:
            break
        look_ahead *= 2
    return AckRun(data[position + 1] << 8 | data[position + 2], ranges, at)


def _extend(ranges: list[tuple[int, int]], head: bytes, frames: list[tuple[bytes, int, int, int]]) -> int:
    """Append the ranges of the frames, up to the first that is not understood. Returns how many frames were taken."""
    heads, tags, bits, ends = zip(*frames, strict=True)
    n = len(frames)
    first = tags[0]
    single = heads.count(head) == n and not any(bits) and ends.count(FRAME_END) == n
    if single and first and tags == tuple(range(first, first + n)):
        _join(ranges, first, tags[-1])
        return n
    for i, frame in enumerate(frames):
        if len(ranges) >= RANGES_MAX or not _extend_by_one(ranges, head, frame):
            return i
    return n


def _extend_by_one(ranges: list[tuple[int, int]], head: bytes, frame: tuple[bytes, int, int, int]) -> bool:
    """Append the range of one frame. False when the frame is not understood."""
    its_head, tag, bits, end = frame
    if its_head != head or end != FRAME_END:
        return False
    if bits == _MULTIPLE:
        ranges.append((0, tag))
    elif bits == 0 and tag:
        _join(ranges, tag, tag)
    else:
        return False
    return True


def _join(ranges: list[tuple[int, int]], first: int, last: int) -> None:
    """Append tags that were acknowledged one by one. A range that ends just before them is extended."""
    if ranges:
        before_first, before_last = ranges[-1]
        if before_first and before_last + 1 == first:
            ranges[-1] = (before_first, last)
            return
    ranges.append((first, last))
