"""The fast path for acknowledgements: a run of basic.ack frames on one channel, as ranges of delivery tags.

A basic.ack frame has 21 bytes, of which the delivery tag and the bit ``multiple`` differ. Frames are compared column
by column, at C speed; consecutive tags become one range.

Invariants:

- Applied in their order, the ranges do exactly what the frames would do one by one, faults included.
- What is not fully understood ends the run or is declined (None), never an error: the generic path decides what it is.
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
"""Of one run: each may have to be cut out of the middle of a long list, at up to 60 us."""
_LOOK_AHEAD_MIN = 4
"""Frames compared at once in the beginning: about 1 µs when it is in vain."""


@dataclass(slots=True)
class AckRun:
    """Acknowledgements of one channel in the order in which they came."""

    channel: int
    ranges: list[tuple[int, int]]
    """First and last delivery tag. A first of 0 means everything up to the last that is not acknowledged yet
    (``multiple``), and a last of 0 with it everything there is [0-9-1 basic.ack.multiple]."""
    end_position: int
    """Where the run ends in the buffer."""


def parse(data: bytes, position: int, stop: int) -> AckRun | None:
    """The longest run of basic.ack frames that begins at ``position`` and makes no more than ``RANGES_MAX`` ranges, or
    little more; None for anything else.

    What counts as received ends at ``stop``. An acknowledgement of tag 0 alone is no part of a run: no such tag can
    be, and ranges have no word for it.
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
    """Append what the frames acknowledge, up to the first that is not understood. Returns how many that are."""
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
    """Append what one frame acknowledges. False when it is not understood."""
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
    """Append tags one by one acknowledged; behind a range that ends just before them, they prolong it."""
    if ranges:
        before_first, before_last = ranges[-1]
        if before_first and before_last + 1 == first:
            ranges[-1] = (before_first, last)
            return
    ranges.append((first, last))
