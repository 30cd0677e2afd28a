"""The frames of a stream of bytes, and the places of single values in them.

This module is written for this folder alone and imports nothing of the broker: a mistake of the broker's codec must not
be hidden by the same mistake here. It reads enough of AMQP 1.0 and AMQP 0.9.1 to find the values that
``tests.recorded.masks`` names, and no more. A frame that cannot be read has no such place.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.load import wire

Path = tuple[int | str, ...]
"""The way to a value: indexes of fields in a list, or of arguments of a method, and keys in a map or table."""

PROTOCOL_HEADER_BYTES = 8
HEADER_OF_091 = b"AMQP\x00\x00\x09\x01"
FRAME_END = 0xCE
METHOD_FRAME = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where the content of a value begins and ends, and the size fields that count its bytes."""

    start: int
    end: int
    sizes: tuple[tuple[int, int], ...]
    """Offset and width of each size field around the value, its own included."""


def split_frames(data: bytes, *, is_091: bool) -> tuple[list[bytes], bytes]:
    """The whole frames in ``data``, and what is left behind them. A protocol header counts as a frame."""
    frames = []
    at = 0
    while (size := _frame_size(data, at, is_091=is_091)) is not None and at + size <= len(data):
        frames.append(data[at : at + size])
        at += size
    return frames, data[at:]


def _frame_size(data: bytes, at: int, *, is_091: bool) -> int | None:
    if len(data) - at < PROTOCOL_HEADER_BYTES:
        return None
    if data[at : at + 4] == b"AMQP":
        return PROTOCOL_HEADER_BYTES
    if is_091:
        size: int = struct.unpack_from(">I", data, at + 3)[0]
        return size + 8
    return max(PROTOCOL_HEADER_BYTES, struct.unpack_from(">I", data, at)[0])


# --- AMQP 1.0 --------------------------------------------------------------------------------------------------------


def performative_code(frame: bytes) -> int | None:
    """The descriptor of a frame's performative; None for a header, an empty frame and what is no frame."""
    if frame[:4] == b"AMQP" or len(frame) < 11:
        return None
    body = 4 * frame[4]
    if frame[body : body + 2] != b"\x00\x53" or body + 2 >= len(frame):
        return None
    return frame[body + 2]


def place_of_field(frame: bytes, path: Path) -> Place | None:
    """The place of a field of the performative, or of a value in it."""
    try:
        return _place(frame, 4 * frame[4], path, ((0, 4),))
    except (IndexError, ValueError, struct.error, wire.WireError):
        return None


def _place(data: bytes, at: int, path: Path, sizes: tuple[tuple[int, int], ...]) -> Place | None:
    if data[at] == 0x00:
        at = wire.skip(data, at + 1)
    category = data[at] >> 4
    width = 4 if category & 1 else 1
    if not path:
        end = wire.skip(data, at)
        if category in (0xA, 0xB):
            return Place(at + 1 + width, end, (*sizes, (at + 1, width)))
        return Place(at + 1, end, sizes)
    if category not in (0xC, 0xD):
        return None
    inside = (*sizes, (at + 1, width))
    items = list(_items(data, at, width))
    if data[at] & 0x0F == 1:  # a map
        keys = [wire.decode(data, key)[0] for key in items[::2]]
        return _place(data, items[2 * keys.index(path[0]) + 1], path[1:], inside) if path[0] in keys else None
    index = path[0]
    return _place(data, items[index], path[1:], inside) if isinstance(index, int) and index < len(items) else None


def _items(data: bytes, at: int, width: int) -> Iterator[int]:
    """Where each item of a list or map begins."""
    count = int.from_bytes(data[at + 1 + width : at + 1 + 2 * width], "big")
    at += 1 + 2 * width
    for _ in range(count):
        yield at
        at = wire.skip(data, at)


# --- AMQP 0.9.1 ------------------------------------------------------------------------------------------------------

FIXED_WIDTHS = {
    "t": 1, "b": 1, "B": 1, "s": 2, "u": 2, "I": 4, "i": 4, "f": 4, "D": 5, "l": 8, "L": 8, "d": 8, "T": 8, "V": 0,
}  # fmt: skip
"""Bytes of the values of a table, by their letter, as RabbitMQ reads and writes them."""


def method_of(frame: bytes) -> tuple[int, int] | None:
    """Class and method of a method frame; None for other frames."""
    if len(frame) < 12 or frame[0] != METHOD_FRAME or frame[-1] != FRAME_END:
        return None
    class_id, method_id = struct.unpack_from(">HH", frame, 7)
    return class_id, method_id


def place_of_argument(frame: bytes, layout: Sequence[str], path: Path) -> Place | None:
    """The place of an argument of a method, or of a value in a table. ``layout`` has the arguments' types in order:
    ``octet``, ``short string``, ``long string``, ``table``."""
    try:
        at = 11
        for kind in layout[: int(path[0])]:
            at = _end_of_argument(frame, at, kind)
        kind = layout[int(path[0])]
        sizes = ((3, 4),)
        if kind == "table":
            return _place_in_table(frame, at, path[1:], sizes)
        width = 1 if kind == "short string" else 4
        return Place(at + width, _end_of_argument(frame, at, kind), (*sizes, (at, width)))
    except (IndexError, ValueError, KeyError, struct.error):
        return None


def _end_of_argument(data: bytes, at: int, kind: str) -> int:
    match kind:
        case "octet":
            return at + 1
        case "short string":
            return at + 1 + data[at]
        case _:
            return at + 4 + int(struct.unpack_from(">I", data, at)[0])


def _place_in_table(data: bytes, at: int, path: Path, sizes: tuple[tuple[int, int], ...]) -> Place | None:
    end = _end_of_argument(data, at, "table")
    inside = (*sizes, (at, 4))
    at += 4
    while at < end:
        key = data[at + 1 : at + 1 + data[at]].decode()
        at += 1 + data[at]
        letter = chr(data[at])
        at += 1
        after = at + FIXED_WIDTHS[letter] if letter in FIXED_WIDTHS else _end_of_argument(data, at, "table")
        if key == path[0]:
            if letter == "F" and path[1:]:
                return _place_in_table(data, at, path[1:], inside)
            if letter in FIXED_WIDTHS:
                return Place(at, after, inside)
            return Place(at + 4, after, (*inside, (at, 4)))
        at = after
    return None
