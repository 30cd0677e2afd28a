"""Finds what the broker needs of the property lists of messages, without decoding each of them.

The property lists of a program mostly have the same properties and headers with other values: ids, times, numbers. Such
lists have the same *layout*: all bytes are equal except those of the values. A layout is learned from one list, which
the generic codec has decoded. Another list of the same size has this layout if its other bytes are equal; then the
generic codec would accept it too, with the same properties and headers in it.

The *needed* part of a property list is a property list itself, which has only delivery-mode, priority, reply-to,
expiration, user-id, and the headers CC and BCC.

Invariants: ``needed`` returns for any list what the generic codec's result leads to. The work for a list is linear in
its size, with a small factor where the layout is known.
"""

from collections.abc import Callable
from operator import itemgetter
from struct import Struct

from core.amqp091.codec import domains_of
from core.amqp091.domains import Domain
from core.amqp091.errors import Amqp091ConnectionFault
from core.amqp091.properties import BasicProperties, decode_properties, encode_properties

LAYOUTS_MAX = 64
"""Layouts that a connection remembers."""
LAYOUTS_OF_A_SIZE_MAX = 4
"""Layouts of lists of one size. Each is tried in turn, in a quarter of a microsecond."""
LIST_BYTES_MAX = 2048
"""No layout is learned from a larger list, with long header tables."""
VALUES_MAX = 256
"""Values of needed properties that a layout remembers, with the needed part that they lead to."""

NEEDED_HEADERS = ("CC", "BCC")
FIXED, TEXT, NEEDED, ANY = range(4)
"""Kinds of bytes: equal in all lists of a layout; a short string, which must be UTF-8; a value that the broker needs;
a value that may be any bytes."""
_FIELDS = tuple((name, 1 << 15 - index, domain) for index, (name, domain) in enumerate(domains_of(BasicProperties)))
_VARYING = ("delivery_mode", "priority", "expiration")
"""The needed properties that may differ in lists of one layout."""
_EQUAL = ("reply_to", "user_id")
"""Needed properties that are equal in all lists of a layout."""
_VALUE_BYTES = {
    ord(letter): size for letter, size in zip("tbBsuIilLfdT", (1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8), strict=True)
}
"""The sizes of values in a table that may be any bytes, by their type letter."""

Spans = list[tuple[int, int]]
"""Consecutive bytes: their kind, and how many."""


class PropertyLists:
    """What the broker needs of the property lists of one connection, which remembers their layouts."""

    __slots__ = ("_latest", "_latest_needed", "_layouts", "_layouts_left", "_parts", "decoded_bytes", "layout")

    def __init__(self) -> None:
        self._layouts: dict[int, list[PropertyLayout]] = {}
        """By the size of the lists."""
        self._layouts_left = LAYOUTS_MAX
        self._parts: dict[bytes, bytes] = {}
        """Needed parts, so that equal ones are one object."""
        self._latest: bytes | None = None
        self._latest_needed = b""
        self.decoded_bytes = 0
        """Bytes of the lists that were decoded by the generic codec so far."""
        self.layout: PropertyLayout | None = None
        """The layout of the latest list; None where none was learned."""

    def needed(self, properties: bytes) -> bytes | None:
        """Return the needed part of property flags and list; None where the generic codec does not accept them. Equal
        parts are mostly the same object."""
        if properties == self._latest:
            return self._latest_needed
        layouts = self._layouts.get(len(properties))
        if layouts is not None:
            for layout in layouts:
                needed = layout.needed(properties)
                if needed is not None:
                    self._latest, self._latest_needed, self.layout = properties, needed, layout
                    return needed
        return self._learn(properties)

    def _learn(self, properties: bytes) -> bytes | None:
        self.decoded_bytes += len(properties)
        needed = needed_of(properties)
        if needed is None:
            return None
        if len(self._parts) >= VALUES_MAX:
            self._parts.clear()
        needed = self._parts.setdefault(needed, needed)
        self._latest, self._latest_needed, self.layout = properties, needed, None
        if len(properties) <= LIST_BYTES_MAX:
            if not self._layouts_left:
                self._layouts.clear()
                self._layouts_left = LAYOUTS_MAX
            layouts = self._layouts.setdefault(len(properties), [])
            if len(layouts) == LAYOUTS_OF_A_SIZE_MAX:
                del layouts[0]
                self._layouts_left += 1
            self.layout = PropertyLayout(properties, needed)
            layouts.append(self.layout)
            self._layouts_left -= 1
        return needed


class PropertyLayout:
    """The layout of property lists, learned from one of them, which the generic codec has decoded."""

    __slots__ = ("_fixed", "_fixed_of", "_texts_of", "_unpack", "_values_of", "known", "spans")

    def __init__(self, properties: bytes, needed: bytes) -> None:
        self.spans = _spans(properties)
        """The kinds of the bytes."""
        form, kinds = columns_of(self.spans)
        self._unpack = Struct(form).unpack
        pieces = self._unpack(properties)
        fixed_of, values_of = _getter(kinds, FIXED), _getter(kinds, NEEDED)
        assert fixed_of is not None, "the flags of a property list are fixed"
        self._fixed_of = fixed_of
        self._fixed = fixed_of(pieces)
        self._texts_of = _getter(kinds, TEXT)
        self._values_of = values_of
        self.known: dict[object, bytes] = {values_of(pieces) if values_of else None: needed}
        """The needed part by the needed values that vary: a tuple if there are several; None without one."""

    def needed(self, properties: bytes) -> bytes | None:
        """Return the needed part of a list of the same size; None if it has another layout, or the generic codec does
        not accept it."""
        pieces = self._unpack(properties)
        if self._fixed_of(pieces) != self._fixed or (self._texts_of and not _are_texts(self._texts_of(pieces))):
            return None
        values = self._values_of(pieces) if self._values_of else None
        known = self.known.get(values)
        if known is None:
            known = needed_of(properties)
            if known is not None:
                if len(self.known) >= VALUES_MAX:
                    self.known.clear()
                self.known[values] = known
        return known


def needed_of(properties: bytes) -> bytes | None:
    """Return the needed part of property flags and list, decoded by the generic codec; None where that does not accept
    them."""
    try:
        decoded = decode_properties(properties, 0, len(properties))
    except Amqp091ConnectionFault:
        return None
    headers = decoded.headers or {}
    return encode_properties(
        BasicProperties(
            headers={name: headers[name] for name in NEEDED_HEADERS if name in headers} or None,
            delivery_mode=decoded.delivery_mode,
            priority=decoded.priority,
            reply_to=decoded.reply_to,
            expiration=decoded.expiration,
            user_id=decoded.user_id,
        )
    )


def _are_texts(values: bytes | tuple[bytes, ...]) -> bool:
    """Whether all of these values, or this one, are UTF-8."""
    for value in (values,) if isinstance(values, bytes) else values:
        if not value.isascii():
            try:
                value.decode()
            except UnicodeDecodeError:
                return False
    return True


def columns_of(spans: Spans) -> tuple[str, list[int]]:
    """Return the format with which these bytes are unpacked into pieces, for ``struct``, and the kinds of the pieces.
    Bytes that may be any have no piece."""
    merged = _merged(spans)
    form = "".join(f"{size}{'x' if kind == ANY else 's'}" for kind, size in merged)
    return form, [kind for kind, _ in merged if kind != ANY]


def _getter(kinds: list[int], wanted: int) -> Callable[[tuple[bytes, ...]], bytes | tuple[bytes, ...]] | None:
    """A function that picks the pieces of this kind; None where there is none."""
    places = [place for place, kind in enumerate(kinds) if kind == wanted]
    return itemgetter(*places) if places else None


def _spans(properties: bytes) -> Spans:
    """Return the kinds of all bytes of flags and list, which the generic codec has decoded."""
    flags = int.from_bytes(properties[:2], "big")
    at = 2
    while properties[at - 1] & 1:  # a further flag word, which is empty
        at += 2
    spans: Spans = [(FIXED, at)]
    for name, flag, domain in _FIELDS:
        if not flags & flag:
            continue
        start = len(spans)
        if domain is Domain.TABLE:
            _add_table(spans, properties, at)
        elif domain is Domain.SHORT_STRING:
            kind = NEEDED if name in _VARYING else FIXED if name in _EQUAL else TEXT
            spans += ((FIXED, 1), (kind, properties[at]))
        elif domain is Domain.OCTET:
            spans.append((NEEDED, 1))
        else:
            spans.append((ANY, 8))
        at += sum(size for _, size in spans[start:])
    return spans


def _add_table(spans: Spans, data: bytes, at: int) -> None:
    """Add the kinds of the bytes of the headers, which begin at this place."""
    stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
    spans.append((FIXED, 4))
    at += 4
    while at < stop:
        value_at = at + 1 + data[at]
        name = data[at + 1 : value_at]
        size, head = _value_size(data, value_at)
        free = name.decode() not in NEEDED_HEADERS and data[value_at] in _FREE
        spans.append((FIXED, value_at + head - at))
        spans.append((ANY if free else FIXED, size - head))
        at = value_at + size


def _value_size(data: bytes, at: int) -> tuple[int, int]:
    """The size of the value of a table with its type letter, which is at this place; and how many of its bytes are in
    front of what may be any bytes."""
    fixed = _VALUE_BYTES.get(data[at])
    if fixed is not None:
        return 1 + fixed, 1
    if data[at] in _LENGTH_FIRST:
        return 5 + int.from_bytes(data[at + 1 : at + 5], "big"), 5
    return _OTHER_BYTES[data[at]], _OTHER_BYTES[data[at]]


_LENGTH_FIRST = frozenset(b"SxAF")
"""Letters of values that begin with their length in four bytes."""
_OTHER_BYTES = {ord("V"): 1, ord("D"): 6}
"""The sizes of other values, with their letter."""
_FREE = frozenset(_VALUE_BYTES) | frozenset(b"Sx")
"""Letters of values that may be any bytes. Arrays and tables within the headers are taken as they are."""


def _merged(spans: Spans) -> Spans:
    """Join neighbours of one kind, and leave out empty spans. Needed values stay apart, so that their borders count."""
    merged: Spans = []
    for kind, size in spans:
        if not size:
            continue
        if merged and merged[-1][0] == kind and kind in (FIXED, ANY):
            merged[-1] = kind, merged[-1][1] + size
        else:
            merged.append((kind, size))
    return merged
