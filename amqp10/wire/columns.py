"""Bytes that stand at the same places in many frames of one size, compared and written a whole column at a time.

A slice with a step takes one byte of each frame at C speed. So the work for 30 fixed bytes is that of 30 slices,
however many frames there are, and no object is made for a frame. Below :data:`COLUMNS_MIN` frames, a step for each
frame is less work (``bench/micro/transfer_run.py``).
"""

from collections.abc import Sequence
from struct import Struct

from amqp10.wire.serial import MASK

COLUMNS_MIN = 40
"""The least frames that are handled by columns: about 30 slices cost as much as 40 frames one by one, both to compare
and to write them."""
JOINED_BYTES_MAX = 2048
"""Entries up to this length are copied behind one another, as it would be done for the socket (core/server/peer.py)."""
_LAST_BYTES = bytes(range(256))
_unpack_size = Struct(">I").unpack_from


def counted(first: int, n: int, width: int) -> list[bytearray]:
    """The columns of the ``n`` integers from ``first`` up, each in so many bytes, 4 or 8, in network byte order. Only
    their last bytes differ up to the next multiple of 256, so no integer is made."""
    columns = [bytearray() for _ in range(width)]
    number, end = first, first + n
    while number < end:
        stop = min(end, (number | 0xFF) + 1)
        columns[-1] += _LAST_BYTES[number & 0xFF : (stop - 1 & 0xFF) + 1]
        for column, byte in zip(columns, (number >> 8).to_bytes(width - 1), strict=False):
            column += bytes((byte,)) * (stop - number)
        number = stop
    return columns


def alike(data: bytes, at: int, size: int, n: int, places: Sequence[int]) -> bool:
    """Whether the ``n`` frames from ``at`` on have the bytes of the frame before them at these places. All frames have
    this ``size``."""
    end, before = at + n * size, at - size
    there = [data[at + place : end : size] for place in places]
    return there == [bytes((data[before + place],)) * n for place in places]


def counts_up(data: bytes, at: int, size: int, n: int, place: int, first: int) -> bool:
    """Whether the ``n`` frames of this ``size`` from ``at`` on have the integers from ``first`` up, in four bytes at
    this place. False when they would wrap."""
    if first + n > MASK:
        return False
    end = at + n * size
    return [data[at + place + byte : end : size] for byte in range(4)] == counted(first, n, 4)


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
    """Frames with these entries, which are equally long, behind one another: the frame's size, ``head``, a delivery-id,
    ``tag_lead``, a number of as many bytes as that says, ``tail``, and an entry. Ids and numbers count up.

    None if the entries are few or long, or if the ids would wrap."""
    n = len(entries)
    if n < COLUMNS_MIN or delivery_id + n > MASK:
        return None
    length = len(entries[0])
    if length > JOINED_BYTES_MAX:
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
    for at, column in enumerate(counted(first, n, width), place):
        frames[at::size] = column
