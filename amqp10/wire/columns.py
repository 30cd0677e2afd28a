"""Bytes that stand at the same places in many frames of one size, compared and written a whole column at a time.

A slice with a step takes one byte of each frame at C speed. So the work for 30 fixed bytes is that of 30 slices,
however many frames there are, and no object is made for a frame. Below :data:`COLUMNS_MIN` frames, a step for each
frame is less work (``bench/micro/transfer_run.py``).
"""

import sys
from array import array
from collections.abc import Iterable
from struct import Struct

from amqp10.wire.serial import MASK

COLUMNS_MIN = 40
"""The least frames that are handled by columns: about 30 slices cost as much as 40 frames one by one, both to compare
and to write them."""
JOINED_BYTES_MAX = 2048
"""Entries up to this length are copied behind one another, as it would be done for the socket (core/server/peer.py)."""
_TYPES = {4: "I", 8: "Q"}
_unpack_size = Struct(">I").unpack_from


def counted(first: int, n: int, width: int) -> bytes:
    """The ``n`` integers from ``first`` up, each in so many bytes, 4 or 8, in network byte order."""
    values = array(_TYPES[width], range(first, first + n))
    if sys.byteorder == "little":
        values.byteswap()
    return values.tobytes()


def alike(data: bytes, at: int, size: int, n: int, places: Iterable[int]) -> bool:
    """Whether the ``n`` frames from ``at`` on have the bytes of the frame before them at these places. All frames have
    this ``size``."""
    end, before = at + n * size, at - size
    return all(data[at + place : end : size] == data[before + place : before + place + 1] * n for place in places)


def counts_up(data: bytes, at: int, size: int, n: int, place: int, first: int) -> bool:
    """Whether the ``n`` frames of this ``size`` from ``at`` on have the integers from ``first`` up, in four bytes at
    this place. False when they would wrap."""
    if first + n > MASK:
        return False
    expected, end = counted(first, n, 4), at + n * size
    return all(data[at + place + byte : end : size] == expected[byte::4] for byte in range(4))


def bounds(data: bytes, at: int, n: int, least: int, most: int) -> list[int]:
    """Where the frames at ``at`` begin, and where the last ends: those that are complete and have between ``least`` and
    ``most`` bytes, at most ``n``."""
    found, last, end = [at], len(data) - least, len(data)
    while at <= last and len(found) <= n:
        (size,) = _unpack_size(data, at)
        if not least <= size <= most or size > end - at:
            break
        at += size
        found.append(at)
    return found


def joined(
    head: bytes, delivery_id: int, tag_lead: bytes, number: int, tail: bytes, entries: list[bytes]
) -> bytes | None:
    """Frames with these entries behind one another: the frame's size, ``head``, a delivery-id, ``tag_lead``, a number
    of as many bytes as that says, ``tail``, and an entry. Ids and numbers count up.

    None if the entries are few, long, or not equally long, or if the ids would wrap."""
    n = len(entries)
    if n < COLUMNS_MIN or delivery_id + n > MASK:
        return None
    length = len(entries[0])
    if length > JOINED_BYTES_MAX or set(map(len, entries)) != {length}:
        return None
    width, id_at = tag_lead[1], 4 + len(head)
    size = id_at + 4 + len(tag_lead) + width + len(tail) + length
    lead = b"".join((size.to_bytes(4), head, bytes(4), tag_lead, bytes(width), tail))
    frames = bytearray(lead.join((b"", *entries)))
    _put_counted(frames, size, n, id_at, delivery_id, 4)
    if width:
        _put_counted(frames, size, n, id_at + 4 + len(tag_lead), number, width)
    return bytes(frames)


def _put_counted(frames: bytearray, size: int, n: int, place: int, first: int, width: int) -> None:
    """Write the integers from ``first`` up, each in so many bytes, 4 or 8, at this place of ``n`` frames."""
    values = counted(first, n, width)
    for byte in range(width):
        frames[place + byte :: size] = values[byte::width]
