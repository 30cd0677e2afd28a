"""The frames of a stream of bytes, and the places of single values in them.

This module is written for this folder alone and imports nothing of the broker: a mistake of the broker's codec must not
be hidden by the same mistake here. It reads enough of AMQP 1.0 and AMQP 0.9.1 to find the values that
``tests.recorded.masks`` names, and no more. A frame that cannot be read has no such place.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from amqp10.load import wire

Path = tuple[int | str, ...]
"""The way to a value: indexes of fields in a list, or of arguments of a method, and keys in a map or table."""

UNREADABLE = (wire.WireError, struct.error, IndexError, ValueError, KeyError, RecursionError)
"""What reading raises for bytes that are no frame. Many zeros are descriptors within each other, without end."""
PROTOCOL_HEADER_BYTES = 8
HEADER_OF_091 = b"AMQP\x00\x00\x09\x01"
FRAME_END = 0xCE
METHOD_FRAME, HEADER_FRAME = 1, 2
SIZE_OF_091 = ((3, 4),)
"""The size field of a frame [0-9-1 4.2.3]."""


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
    """The descriptor of a frame's performative; None for a header, an empty frame and what is no frame of AMQP 1.0."""
    if len(frame) < 11 or frame[0] != 0:  # a frame of 16 MiB or more is not recorded
        return None
    body = 4 * frame[4]
    if frame[body : body + 2] != b"\x00\x53" or body + 2 >= len(frame):
        return None
    return frame[body + 2]


def place_of_field(frame: bytes, path: Path) -> Place | None:
    """The place of a field of the performative, or of a value in it."""
    try:
        return _place(frame, *_constructor(frame, 4 * frame[4]), path, FRAME_SIZE)
    except UNREADABLE:
        return None


def place_in_section(frame: bytes, section: int, path: Path) -> Place | None:
    """The place of a value in a section of the message that begins in this transfer [3.2]."""
    try:
        at = wire.skip(frame, 4 * frame[4])
        while (code := _section_code(frame, at)) is not None and code != section:
            at = wire.skip(frame, at)
        return _place(frame, *_constructor(frame, at), path, FRAME_SIZE) if code is not None else None
    except UNREADABLE:
        return None


def _section_code(data: bytes, at: int) -> int | None:
    """The descriptor of the section that begins here; None where none does, as within a body of several frames."""
    if data[at : at + 2] == b"\x00\x53" and at + 2 < len(data) and data[at + 2] in SECTIONS:
        return data[at + 2]
    return None


SECTIONS = range(0x70, 0x79)
FRAME_SIZE = ((0, 4),)
WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
"""Bytes of a value of fixed width, by the first digit of its format code [1.2]."""


def _constructor(data: bytes, at: int) -> tuple[int, int]:
    """The format code of the value at ``at``, and where the value begins behind it."""
    if data[at] == 0x00:
        at = wire.skip(data, at + 1)
    return data[at], at + 1


def _place(data: bytes, code: int, at: int, path: Path, sizes: tuple[tuple[int, int], ...]) -> Place | None:
    category = code >> 4
    width = 4 if category & 1 else 1
    inside = (*sizes, (at, width))
    if category in WIDTHS:
        return None if path else Place(at, at + WIDTHS[category], sizes)
    if not path:
        return Place(at + width, _end(data, code, at), inside)
    items = list(_items(data, code, at))
    if code & 0x0F == 1 and category in (0xC, 0xD):  # a map
        keys = [wire.decode(data, start - 1)[0] for _, start in items[::2]]
        return _place(data, *items[2 * keys.index(path[0]) + 1], path[1:], inside) if path[0] in keys else None
    index = path[0]
    return _place(data, *items[index], path[1:], inside) if isinstance(index, int) and index < len(items) else None


def _items(data: bytes, code: int, at: int) -> Iterator[tuple[int, int]]:
    """Format code and begin of each item of a list, map or array."""
    category = code >> 4
    width = 4 if category & 1 else 1
    count = int.from_bytes(data[at + width : at + 2 * width], "big")
    at += 2 * width
    if category in (0xE, 0xF):  # one constructor for all items [1.6.24]
        item_code, at = _constructor(data, at)
        for _ in range(count):
            yield item_code, at
            at = _end(data, item_code, at)
    elif category in (0xC, 0xD):
        for _ in range(count):
            item_code, start = _constructor(data, at)
            yield item_code, start
            at = _end(data, item_code, start)


def _end(data: bytes, code: int, at: int) -> int:
    category = code >> 4
    if category in WIDTHS:
        return at + WIDTHS[category]
    width = 4 if category & 1 else 1
    return at + width + int.from_bytes(data[at : at + width], "big")


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


def is_content_header(frame: bytes) -> bool:
    """Whether this is a content header of AMQP 0.9.1."""
    return len(frame) >= 22 and frame[0] == HEADER_FRAME and frame[-1] == FRAME_END


def place_of_argument(frame: bytes, layout: Sequence[str], path: Path) -> Place | None:
    """The place of an argument of a method, or of a value in a table. ``layout`` has the arguments' types in order:
    ``octet``, ``short string``, ``long string``, ``table``."""
    try:
        at = 11
        for kind in layout[: int(path[0])]:
            at = _end_of_argument(frame, at, kind)
        kind = layout[int(path[0])]
        if kind == "table":
            return _place_in_table(frame, at, path[1:], SIZE_OF_091)
        width = 1 if kind == "short string" else 4
        return Place(at + width, _end_of_argument(frame, at, kind), (*SIZE_OF_091, (at, width)))
    except UNREADABLE:
        return None


def _end_of_argument(data: bytes, at: int, kind: str) -> int:
    match kind:
        case "octet":
            return at + 1
        case "short string":
            return at + 1 + data[at]
        case _:
            return at + 4 + int(struct.unpack_from(">I", data, at)[0])


CONTENT_TYPE, CONTENT_ENCODING, HEADERS = 0x8000, 0x4000, 0x2000
DELIVERY_MODE, PRIORITY, CORRELATION_ID, REPLY_TO = 0x1000, 0x0800, 0x0400, 0x0200


def place_of_header(frame: bytes, path: Path) -> Place | None:
    """The place of a value in the property ``headers`` of a content header, or of the property ``reply_to``.

    ``path`` begins with the name of the property [0-9-1 4.2.6.1].
    """
    try:
        flags: int = struct.unpack_from(">H", frame, 19)[0]
        at = 21
        for flag in (CONTENT_TYPE, CONTENT_ENCODING):
            at = _end_of_argument(frame, at, "short string") if flags & flag else at
        if path[0] == "headers":
            return _place_in_table(frame, at, path[1:], SIZE_OF_091) if flags & HEADERS else None
        at = _end_of_argument(frame, at, "table") if flags & HEADERS else at
        at += bool(flags & DELIVERY_MODE) + bool(flags & PRIORITY)
        at = _end_of_argument(frame, at, "short string") if flags & CORRELATION_ID else at
        if not flags & REPLY_TO:
            return None
        return Place(at + 1, _end_of_argument(frame, at, "short string"), (*SIZE_OF_091, (at, 1)))
    except UNREADABLE:
        return None


def _place_in_table(data: bytes, at: int, path: Path, sizes: tuple[tuple[int, int], ...]) -> Place | None:
    """``at`` is where the size of the table stands."""
    inside = (*sizes, (at, 4))
    end = _end_of_argument(data, at, "table")
    at += 4
    while at < end:
        key = data[at + 1 : at + 1 + data[at]].decode()
        at += 1 + data[at]
        if key == path[0]:
            return _place_of_value(data, at, path[1:], inside)
        at = _end_of_value(data, at)
    return None


def _place_of_value(data: bytes, at: int, path: Path, sizes: tuple[tuple[int, int], ...]) -> Place | None:
    """``at`` is where the letter of the value's type stands."""
    letter = chr(data[at])
    if letter == "F" and path:
        return _place_in_table(data, at + 1, path, sizes)
    if letter == "A" and path:
        item, inside = at + 5, (*sizes, (at + 1, 4))
        for _ in range(int(path[0])):
            item = _end_of_value(data, item)
        return _place_of_value(data, item, path[1:], inside)
    end = _end_of_value(data, at)
    return Place(at + 1, end, sizes) if letter in FIXED_WIDTHS else Place(at + 5, end, (*sizes, (at + 1, 4)))


def _end_of_value(data: bytes, at: int) -> int:
    letter = chr(data[at])
    return at + 1 + FIXED_WIDTHS[letter] if letter in FIXED_WIDTHS else _end_of_argument(data, at + 1, "table")
