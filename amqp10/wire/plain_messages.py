"""Most messages, read in one pass: where the header section ends, and the address in ``to``.

A message is *plain* if its sections are those that clients write for most messages, and if everything in the properties
surely decodes. Lists and maps may have their short or their long encoding: some clients write the short one where it
fits, others always the long one. The fields of the properties are compared with one regular expression, at C
speed: 0.5 µs, where decoding them takes 2 to 12 µs. A text is plain up to ``TEXT_BYTES_MAX`` ASCII characters.

A message that is not plain is not wrong: the caller has it scanned and decoded section by section
(:mod:`amqp10.wire.sections`), which also finds the errors and words them.
"""

import re
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from amqp10.wire.codec import format_codes as codes
from amqp10.wire.columns import COLUMNS_MIN, JOINED_BYTES_MAX
from amqp10.wire.sections import AMQP_VALUE, DATA, MESSAGE_ANNOTATIONS, PROPERTIES, SCALAR_WIDTHS, are_plain_annotations

TEXT_BYTES_MAX = 48
"""The longest text in the properties that is compared: a UUID has 36 characters. Each length is a branch of the
expression, which takes 20 ms to compile."""
_LAYOUTS_MAX = 32
"""Layouts that a link remembers, of 2 KiB each: messages of so many lengths in turn are compared."""
_COLUMN_LENGTHS_MAX = 4
"""So many lengths are compared in columns, the others one by one: to pick out the messages of a length takes 20 ns for
each, and to compare one 0.4 us."""
_READ_FIRST = 3
"""So many messages of a length that come together are read before the layout of the last one is learned, which takes
8 us. A layout is learned once at the most for messages that came together, however many have another one."""
NOT_PLAIN = -1
NULL_FIELD = b"\x40"
"""An encoded field without a value [1.6.1]."""

_HEADER, _LONG_HEADER, _NO_HEADER_FIELDS = b"\x00\x53\x70\xc0", b"\x00\x53\x70\xd0", b"\x00\x53\x70\x45"
_MESSAGE_ANNOTATIONS = b"\x00\x53\x72\xc1"
_PROPERTIES, _LONG_PROPERTIES, _NO_PROPERTIES = b"\x00\x53\x73\xc0", b"\x00\x53\x73\xd0", b"\x00\x53\x73\x45"
_APPLICATION_PROPERTIES, _LONG_APPLICATION_PROPERTIES = b"\x00\x53\x74\xc1", b"\x00\x53\x74\xd1"
_BODIES = frozenset({b"\x00\x53\x75\xa0", b"\x00\x53\x77\xa0", b"\x00\x53\x77\xa1"})
_LONG_BODIES = frozenset({b"\x00\x53\x75\xb0", b"\x00\x53\x77\xb0", b"\x00\x53\x77\xb1"})
"""The first bytes of sections: descriptor and format code [3.2]. A body is data, or an amqp-value of binary or
string; the size of a long one has four bytes."""
_LONG_SIZE_AND_COUNT = struct.Struct(">II")
"""What is behind the first bytes of a long list or map. The size counts the count, too [1.6.22, 1.6.23]."""
_OTHER = NOT_PLAIN, NULL_FIELD
_SIZED = frozenset({codes.BINARY_8, codes.STRING_8, codes.SYMBOL_8})
_FIXED_FIELDS = frozenset({2, 3})
"""The numbers of user-id and to."""
_TEXTS = frozenset({codes.STRING_8, codes.SYMBOL_8})
_VALUE_AT = {
    codes.LIST_0: 4,
    codes.LIST_8: 6,
    codes.MAP_8: 6,
    codes.LIST_32: 12,
    codes.MAP_32: 12,
    codes.BINARY_8: 5,
    codes.STRING_8: 5,
    codes.BINARY_32: 8,
    codes.STRING_32: 8,
}
"""Where the content of a section begins, behind its descriptor, format code, size, and the count of a list or map."""


@cache
def property_fields() -> re.Pattern[bytes]:
    """The fields of a properties list, as many as there are; group i is the encoded field i, counted from 1 [3.2.4].

    A string or binary is a branch for each length, so that the expression ends where the length says.
    """

    def sized(code: bytes, content: bytes) -> bytes:
        lengths = (re.escape(bytes((n,))) + content + b"{%d}" % n for n in range(TEXT_BYTES_MAX + 1))
        return code + b"(?:" + b"|".join(lengths) + b")"

    binary = sized(rb"\xa0", b".")
    string = sized(rb"\xa1", rb"[\x00-\x7f]")
    symbol = sized(rb"\xa3", rb"[\x00-\x7f]")
    ulong, uuid = rb"\x44|\x53.|\x80.{8}", rb"\x98.{16}"
    uint, timestamp = rb"\x43|\x52.|\x70.{4}", rb"\x83.{8}"
    message_id = b"|".join((string, binary, ulong, uuid))
    fields = (
        message_id,
        binary,
        string,
        string,
        string,
        message_id,
        symbol,
        symbol,
        timestamp,
        timestamp,
        string,
        uint,
        string,
    )
    expression = b""
    for field in reversed(fields):
        expression = rb"(?:|(\x40|" + field + b")" + expression + b")"
    return re.compile(expression, re.DOTALL)


class PlainMessageReader:
    """Reads messages of one link. It remembers the *layout* of messages of one length: which of their bytes may be
    anything, or any ASCII, in a plain message, and what the others are. A message that has the layout of an earlier one
    is compared with it in two steps, at C speed: 0.5 us, where reading it takes 1.5 us.

    What is remembered changes how fast a message is read, and never what is found.
    """

    __slots__ = ("_key", "_layouts", "_user_ids")

    def __init__(self, user_ids: tuple[bytes | None, ...], key: bytes) -> None:
        """``user_ids`` are the encoded user-ids that a plain message may have, with None if it may have properties that
        end before it. A message with the message annotation ``key`` is not plain."""
        self._user_ids = user_ids
        self._key = key
        self._layouts: dict[int, _Layout] = {}
        """By the length of the message."""

    def read(self, messages: Sequence[bytes]) -> tuple[list[int], list[bytes]]:
        """Return where the header section of each message ends, 0 if it has none and ``NOT_PLAIN`` if the message is
        not plain, and the encoded ``to`` of each."""
        (header_end, address), left = self._in_columns(messages)
        header_ends = [header_end] * len(messages)
        addresses = [address] * len(messages)
        known = self._layouts.get
        read: dict[int, int] = {}
        for index in left:
            message = messages[index]
            layout = known(len(message))
            if layout is not None:
                unpack, fixed, unpack_texts, header_end, address, _, _ = layout
                if unpack(message) == fixed and b"".join(unpack_texts(message)).isascii():
                    header_ends[index], addresses[index] = header_end, address
                    continue
            header_end, address = _read(message, self._user_ids, self._key)
            header_ends[index], addresses[index] = header_end, address
            if header_end != NOT_PLAIN:
                count = read[len(message)] = read.get(len(message), 0) + 1
                if count == _READ_FIRST:
                    self._learn(message, header_end, address)
        return header_ends, addresses

    def _in_columns(self, messages: Sequence[bytes]) -> tuple[tuple[int, bytes], Sequence[int]]:
        """Return where the header section ends, and the ``to``, of most messages, and the places of the others, which
        have to be read. Short messages of the most frequent lengths are compared together, one slice for each byte of
        their layout: 0.2 us for a message."""
        lengths = list(map(len, messages))
        found, done = _OTHER, set[int]()
        for length, count in Counter(lengths).most_common(_COLUMN_LENGTHS_MAX) if len(lengths) >= COLUMNS_MIN else ():
            layout = self._layouts.get(length) if count >= COLUMNS_MIN and length <= JOINED_BYTES_MAX else None
            if layout is None or (done and found != (layout.header_end, layout.address)):
                continue
            if layout.is_in_all(b"".join([one for one in messages if len(one) == length]), length):
                found = layout.header_end, layout.address
                done.add(length)
        return found, [index for index, length in enumerate(lengths) if length not in done]

    def _learn(self, message: bytes, header_end: int, address: bytes) -> None:
        if len(self._layouts) >= _LAYOUTS_MAX:
            self._layouts.clear()
        self._layouts[len(message)] = _layout_of(message, header_end, address)


class _Layout(NamedTuple):
    """What plain messages of one length have in common."""

    unpack: Callable[[bytes], tuple[bytes, ...]]
    """Takes the bytes that are fixed out of a message."""
    fixed: tuple[bytes, ...]
    unpack_texts: Callable[[bytes], tuple[bytes, ...]]
    """Takes the texts out of a message, which may be any ASCII."""
    header_end: int
    address: bytes
    fixed_places: Sequence[int]
    """The places of the bytes in ``fixed``."""
    text_places: Sequence[int]
    """The places of the bytes of the texts."""

    def is_in_all(self, joined: bytes, length: int) -> bool:
        """Whether all messages of this length, which are joined, have the layout."""
        n = len(joined) // length
        due = [bytes((value,)) * n for value in b"".join(self.fixed)]
        if [joined[at::length] for at in self.fixed_places] != due:
            return False
        return b"".join([joined[at::length] for at in self.text_places]).isascii()


def _read(message: bytes, user_ids: tuple[bytes | None, ...], key: bytes) -> tuple[int, bytes]:
    """The same as :meth:`PlainMessageReader.read`, for one message."""
    size_and_count = _LONG_SIZE_AND_COUNT.unpack_from
    to = NULL_FIELD
    try:
        at = header_end = 0
        lead = message[:4]
        if lead == _HEADER:
            if message[5] >= message[4]:
                return _OTHER  # more fields than there is room for
            at = header_end = 5 + message[4]
            lead = message[at : at + 4]
        elif lead == _LONG_HEADER:
            size, count = size_and_count(message, 4)
            if count > size - 4:
                return _OTHER
            at = header_end = 8 + size
            lead = message[at : at + 4]
        elif lead == _NO_HEADER_FIELDS:
            at = header_end = 4
            lead = message[4:8]
        if lead == _MESSAGE_ANNOTATIONS:
            start, at = at, at + 5 + message[at + 4]
            if not are_plain_annotations(message, start, at, without=key):
                return _OTHER
            lead = message[at : at + 4]
        fields_at = 0
        if lead == _PROPERTIES:
            fields_at, count = at + 6, message[at + 5]
            at += 5 + message[at + 4]
        elif lead == _LONG_PROPERTIES:
            fields_at = at + 12
            size, count = size_and_count(message, at + 4)
            at += 8 + size
        elif lead == _NO_PROPERTIES:
            at += 4
            lead = message[at : at + 4]
        if fields_at:
            fields = property_fields().fullmatch(message, fields_at, at)
            if fields is None or (fields.lastindex or 0) != count or fields[2] not in user_ids:
                return _OTHER
            to = fields[3] or NULL_FIELD
            lead = message[at : at + 4]
        if lead == _APPLICATION_PROPERTIES:
            size = message[at + 4]
            if message[at + 5] >= size:
                return _OTHER
            at += 5 + size
            lead = message[at : at + 4]
        elif lead == _LONG_APPLICATION_PROPERTIES:
            size, count = size_and_count(message, at + 4)
            if count > size - 4:
                return _OTHER
            at += 8 + size
            lead = message[at : at + 4]
        if lead in _BODIES:
            end = at + 5 + message[at + 4]
        elif lead in _LONG_BODIES:
            end = at + 8 + int.from_bytes(message[at + 4 : at + 8])
        else:
            return _OTHER
    except (IndexError, struct.error):
        return _OTHER  # the message ends within a section
    return (header_end, to) if end == len(message) else _OTHER


def _layout_of(message: bytes, header_end: int, address: bytes) -> _Layout:
    """The layout of a plain message."""
    free: list[tuple[int, int, bool]] = []
    at = 0
    while at < len(message):
        section, code = message[at + 2], message[at + 3]
        value_at = at + _VALUE_AT[code]
        if section in (DATA, AMQP_VALUE):
            end = len(message)
        elif code == codes.LIST_0:
            end = value_at
        else:
            long = code in (codes.LIST_32, codes.MAP_32)
            end = at + 8 + int.from_bytes(message[at + 4 : at + 8]) if long else at + 5 + message[at + 4]
        if section == MESSAGE_ANNOTATIONS:
            free += _free_in_annotations(message, value_at, end)
        elif section == PROPERTIES and code != codes.LIST_0:
            free += _free_in_fields(message, value_at, end)
        else:
            free.append((value_at, end, False))
        at = end
    bounds, texts, place = "", "", 0
    fixed_places, text_places = array("I"), array("I")
    for start, stop, text in free:
        fixed_places.extend(range(place, start))
        text_places.extend(range(start, stop) if text else ())
        bounds += f"{start - place}s{stop - start}x"
        texts += f"{start - place}x{stop - start}{'s' if text else 'x'}"
        place = stop
    unpack = struct.Struct(f"{bounds}{len(message) - place}s").unpack
    unpack_texts = struct.Struct(f"{texts}{len(message) - place}x").unpack
    fixed_places.extend(range(place, len(message)))
    return _Layout(unpack, unpack(message), unpack_texts, header_end, address, fixed_places, text_places)


def _free_in_annotations(message: bytes, at: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Where the values of the message annotations are, and whether they are texts. The keys stay as they are."""
    while at < end:
        at += 2 + message[at + 1]
        text = message[at] in _TEXTS
        start = at + (2 if text else 1)
        at = start + (message[at + 1] if text else SCALAR_WIDTHS[message[at]])
        yield start, at, text


def _free_in_fields(message: bytes, at: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Where the values of the properties are that may be others of the same length, and whether they are texts. The
    user-id and the address have to stay as they are."""
    fields = property_fields().fullmatch(message, at, end)
    assert fields is not None, "the message is plain"
    for number in range(1, (fields.lastindex or 0) + 1):
        if number not in _FIXED_FIELDS:
            start, stop = fields.span(number)
            code = message[start]
            yield start + (2 if code in _SIZED else 1), stop, code in _TEXTS
