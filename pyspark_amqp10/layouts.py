"""Cuts many messages of one layout at once: Arrow columns from their bytes, without a Python object for each value.

A layout is learned from one message: its sections, the fields and keys that they have, and the format code of each
value. Other messages have the same layout when only the bytes and the sizes of their values differ. Then all of them
are walked together: each step reads the next bytes of every message, by numpy. A step costs some nanoseconds a message,
where a message by itself costs microseconds. Messages of other layouts may be among them: the walk tells which ones are
of this one.

The result is the same as that of :mod:`pyspark_amqp10.parts`. What is not a usual message has no layout here, and what
differs from the layout, or is wrong, is left to that module.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.lib.stride_tricks import sliding_window_view

from amqp10.wire.codec import format_codes as code
from pyspark_amqp10.columns import (
    CREATION_TIME,
    FIELD_PLACES,
    HEADER_PLACES,
    ID_TYPES,
    MICROSECONDS,
    TEXT_FIELDS,
    TIME_MS_MAX,
    TIMES,
    field_column,
)
from pyspark_amqp10.parts import (
    BODY_TYPES,
    ENQUEUED_ANNOTATION,
    NO_FIELDS,
    NUMBER_KEYS,
    NUMBER_LEADS,
    NUMBER_MAX,
    WIDTHS,
    Parts,
    Wanted,
)
from pyspark_amqp10.values import SIGNED, TYPES, UNSIGNED, text_of

SAME_MAX: Final = 512
"""The most bytes that are compared in one step; longer ones are compared in several."""
SPARE_MAX: Final = 4
"""Values of different sizes are copied as if all were as long as the longest, by numpy, while these are at most so many
times their bytes; otherwise value by value, by Python."""
TEXTS: Final = frozenset({code.STRING_8, code.SYMBOL_8})
SHORTS: Final = TEXTS | {code.BINARY_8}
IS_SHORT: Final = np.isin(np.arange(256), list(SHORTS))
IS_TEXT: Final = np.isin(np.arange(256), list(TEXTS))
VALUE_BYTES: Final = np.array(WIDTHS, np.int64) - 1
"""Bytes behind the format code of values that have always as many."""
IS_SCALAR: Final = IS_SHORT | (VALUE_BYTES >= 0)
IS_SIGNED: Final = np.isin(np.arange(256), list(SIGNED))
IS_WHOLE: Final = IS_SIGNED | np.isin(np.arange(256), [*UNSIGNED, code.UINT_0, code.ULONG_0])
"""Numbers whose text has decimal digits only, and maybe a sign."""
_ENQUEUED: Final = ENQUEUED_ANNOTATION.encode()
_FIELDS_MAX: Final = len(NO_FIELDS)

_TYPE_NAMES: Final = pa.array([TYPES.get(each) for each in range(256)], pa.string())

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Codes = np.ndarray[Any, np.dtype[np.uint8]]
Key = tuple[str, int]
"""Where a value stands: ``field``, ``annotation`` or ``property``, and its place there; or ``body``."""
BODY: Final[Key] = ("body", 0)


class LayoutStep(NamedTuple):
    """One step of the walk through all messages."""

    kind: str
    """``same``: these bytes; ``number``: eight bytes of the number; ``size``: one byte, the size of a section;
    ``over``: the end of that section; ``skip``: go to it; ``short``: one byte with a size, and a value; ``long``: four
    such bytes; ``fixed``: a value of ``width`` bytes; ``any``: a format code, and a value of a scalar type."""
    same: bytes = b""
    key: Key = BODY
    width: int = 0


class Slices(NamedTuple):
    """Where the values of one place are in the joined bytes."""

    at: Numbers
    sizes: Numbers


class NoLayout(Exception):
    """A message that has no layout, or messages whose values are wrong. It stays in this module."""


class Layout:
    """What messages of one layout have in common. Raises :class:`NoLayout`."""

    def __init__(self, entry: bytes, parts: Parts, wanted: Wanted) -> None:
        """``parts`` are those of ``entry``, which are right."""
        self.parts = parts
        self.steps: list[LayoutStep] = []
        self.codes: dict[Key, int] = {}
        """The format code of each field, and of the body. Values of maps have codes of their own in each message."""
        self.keys: dict[str, list[bytes]] = {"annotation": [], "property": []}
        self.numbered = False
        self._entry = entry
        self._at = 0
        self._wanted = wanted
        try:
            self._learn()
        except IndexError:
            raise NoLayout from None

    def _learn(self) -> None:
        entry = self._entry
        if entry[:4] == b"\x00\x53\x70\xc0":
            self._same(5 + entry[4])
        elif entry[:4] == b"\x00\x53\x70\x45":
            self._same(4)
        lead = entry[self._at : self._at + 4]
        if lead == b"\x00\x53\x72\xc1":
            end = self._section(lead)
            self._number(end)
            self._pairs("annotation", code.SYMBOL_8, end)
            lead = entry[self._at : self._at + 4]
        if lead == b"\x00\x53\x73\xc0":
            end = self._section(lead)
            place = 0
            while self._wanted.fields and self._at < end:
                self._value(("field", place))
                place += 1
            self._section_end(end, skipped=not self._wanted.fields)
            if place > _FIELDS_MAX:
                raise NoLayout
            lead = entry[self._at : self._at + 4]
        elif lead == b"\x00\x53\x73\x45":
            self._same(4)
            lead = entry[self._at : self._at + 4]
        if lead == b"\x00\x53\x74\xc1":
            end = self._section(lead)
            if self._wanted.properties:
                self._pairs("property", code.STRING_8, end)
                if not self.keys["property"]:
                    raise NoLayout  # an empty map is not the same as none
            else:
                self._section_end(end, skipped=True)
            lead = entry[self._at : self._at + 4]
        if lead not in BODY_TYPES:
            raise NoLayout
        self._same(4)
        self.steps.append(LayoutStep("long" if lead[3] & 0x10 else "short", key=BODY))
        self.codes[BODY] = lead[3]

    def _same(self, size: int) -> None:
        same = self._entry[self._at : self._at + size]
        self._at += size
        if self.steps and self.steps[-1].kind == "same":
            same = self.steps.pop().same + same
        while len(same) > SAME_MAX:
            self.steps.append(LayoutStep("same", same[:SAME_MAX]))
            same = same[SAME_MAX:]
        self.steps.append(LayoutStep("same", same))

    def _section(self, lead: bytes) -> int:
        """Begin a section with a size in one byte; returns where it ends."""
        self._same(len(lead))
        end = self._at + 1 + self._entry[self._at]
        self.steps.append(LayoutStep("size"))
        self._at += 1
        self._same(1)  # how many there are
        return end

    def _section_end(self, end: int, *, skipped: bool) -> None:
        if not skipped and self._at != end:
            raise NoLayout
        self._at = end
        self.steps.append(LayoutStep("skip" if skipped else "over"))

    def _number(self, end: int) -> None:
        for lead, _ in NUMBER_LEADS:
            if self._entry.startswith(lead, self._at) and self._at + len(lead) + 8 <= end:
                self._same(len(lead))
                self.steps.append(LayoutStep("number"))
                self._at += 8
                self.numbered = True
                break

    def _pairs(self, kind: str, key_code: int, end: int) -> None:
        entry, keys = self._entry, self.keys[kind]
        while self._at < end:
            behind = self._at + 2 + entry[self._at + 1]
            key = entry[self._at + 2 : behind]
            if entry[self._at] != key_code or not key.isascii() or key in keys or key in NUMBER_KEYS:
                raise NoLayout
            self._same(behind - self._at)
            if not IS_SCALAR[entry[self._at]]:
                raise NoLayout
            self.steps.append(LayoutStep("any", key=(kind, len(keys))))
            self._at += WIDTHS[entry[self._at]] or 2 + entry[self._at + 1]
            keys.append(key)
        self._section_end(end, skipped=False)

    def _value(self, key: Key) -> None:
        format_code = self.codes[key] = self._entry[self._at]
        width = WIDTHS[format_code]
        if not width and format_code not in SHORTS:
            raise NoLayout
        self._same(1)
        if not width:
            self.steps.append(LayoutStep("short", key=key))
            self._at += 1 + self._entry[self._at]
        elif width > 1:
            self.steps.append(LayoutStep("fixed", key=key, width=width - 1))
            self._at += width - 1


class Walk:
    """The walk through messages. It finds those that have this layout, and where their values are."""

    def __init__(self, entries: Sequence[bytes], layout: Layout) -> None:
        sizes = np.fromiter(map(len, entries), np.int64, len(entries))
        self.joined = b"".join(entries)
        self._over = len(self.joined) + 1
        """Where a step ends that leads out of the bytes: never the end of a message."""
        self.bytes = np.frombuffer(self.joined + bytes(SAME_MAX + 1), np.uint8)
        """With some bytes behind the last message, so that each step may look ahead."""
        ends = np.cumsum(sizes)
        self._at: Numbers = ends - sizes
        self._good = np.ones(len(entries), np.bool_)
        self.numbers: Numbers | None = None
        self.slices: dict[Key, Slices] = {}
        self.codes: dict[Key, Codes] = {}
        section_end = ends
        for step in layout.steps:
            match step.kind:
                case "same":
                    found = self._ahead(len(step.same))
                    if found.tobytes() != step.same * len(entries):  # nearly always they are the same in all
                        self._good &= (found == np.frombuffer(step.same, np.uint8)).all(axis=1)
                    self._move(len(step.same))
                case "number":
                    self.numbers = self._integers(8)
                    self._good &= self.numbers >= 0
                    self._move(8)
                case "size":
                    section_end = self._at + 1 + self.bytes[self._at]
                    self._move(1)
                case "over":
                    self._good &= self._at == section_end
                case "skip":
                    self._good &= self._at <= section_end
                    self._at = section_end
                    self._move(0)
                case "short":
                    self._take(step.key, self.bytes[self._at].astype(np.int64), 1)
                case "long":
                    self._take(step.key, self._integers(4), 4)
                case "any":
                    codes = self.codes[step.key] = self.bytes[self._at]
                    first = codes[0]
                    if IS_SHORT[first] and codes.tobytes() == codes[:1].tobytes() * len(codes):  # nearly always
                        self._take(step.key, self.bytes[self._at + 1].astype(np.int64), 2)
                        continue
                    short = IS_SHORT[codes]
                    self._good &= IS_SCALAR[codes]
                    sizes_of = np.where(short, self.bytes[self._at + 1], np.maximum(VALUE_BYTES[codes], 0))
                    self._take(step.key, sizes_of, 1 + short)
                case _:
                    self._take(step.key, np.full(len(entries), step.width, np.int64), 0)
        self._good &= self._at == ends
        self.places: Numbers | None = None
        """Which of the messages have this layout; None when all have it."""
        self.rows = len(entries)
        """How many messages have this layout. What else is here is of these only, once the walk is over."""
        if not self._good.all():
            self._leave_out_others()

    def _leave_out_others(self) -> None:
        places = self.places = np.flatnonzero(self._good)
        self.rows = len(places)
        self.slices = {key: Slices(at[places], sizes[places]) for key, (at, sizes) in self.slices.items()}
        self.codes = {key: codes[places] for key, codes in self.codes.items()}
        if self.numbers is not None:
            self.numbers = self.numbers[places]

    def _take(self, key: Key, sizes: Numbers, lead: "int | Numbers") -> None:
        self._move(lead)
        self.slices[key] = Slices(self._at, sizes)
        self._move(sizes)

    def _move(self, by: "int | Numbers") -> None:
        self._at = np.minimum(self._at + by, self._over)  # a wrong size must not lead out of the bytes

    def _ahead(self, size: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
        return sliding_window_view(self.bytes, size)[self._at]

    def _integers(self, size: int) -> Numbers:
        found: Numbers = np.ascontiguousarray(self._ahead(size)).view(f">i{size}" if size == 8 else f">u{size}")
        return found.ravel().astype(np.int64)


class LayoutBlock:
    """The columns of messages of one layout."""

    def __init__(self, layout: Layout, walk: Walk, address: str, schema: pa.Schema) -> None:
        """Raises :class:`NoLayout` when a value is wrong, such as a text that is no UTF-8."""
        self.rows = walk.rows
        self.places = walk.places
        """As those of the walk."""
        self.numbers: list[int | None] = [None] * walk.rows if walk.numbers is None else walk.numbers.tolist()
        self._layout, self._walk = layout, walk
        self._address = address
        self._known: dict[tuple[Key, ...], pa.Array] = {}
        """Values of places that are text, once they are checked."""
        properties = tuple(key for key in walk.slices if key[0] == "property")
        try:
            together = properties if properties and self._are_texts(*properties) else ()
            if together:
                self._texts(*together)
            for key in walk.slices:
                if key != BODY and key not in together and self._are_texts(key):
                    self._texts(key)
            self.columns = [self._column(field.name, field.type) for field in schema]
        except (pa.ArrowInvalid, UnicodeDecodeError):
            raise NoLayout from None

    def _column(self, name: str, kind: pa.DataType) -> pa.Array:
        layout, rows = self._layout, self.rows
        if name == "body":
            if layout.parts[6] == "string":
                self._values(BODY).cast(pa.string())  # it must be UTF-8
            return self._values(BODY)
        if name == "offset":
            walked = self._walk.numbers
            return pa.nulls(rows, kind) if walked is None else pa.array(walked, kind)
        if name in ("bodyType", "address"):
            return pa.repeat(pa.scalar(self._address if name == "address" else layout.parts[6], kind), rows)
        if name in HEADER_PLACES:
            return pa.repeat(pa.scalar(layout.parts[2][HEADER_PLACES[name]], kind), rows)
        if name == "enqueued":
            keys = layout.keys["annotation"]
            stamped = _ENQUEUED in keys
            return self._times(("annotation", keys.index(_ENQUEUED)) if stamped else ("field", CREATION_TIME), kind)
        if name == "annotations":
            return self._map("annotation", kind)
        if name == "properties":
            return self._map("property", kind)
        if name in FIELD_PLACES:
            return self._field(name, ("field", FIELD_PLACES[name]), kind)
        return pa.nulls(rows, kind)  # bodyEncoded and footer

    def _field(self, name: str, key: Key, kind: pa.DataType) -> pa.Array:
        format_code = self._layout.codes.get(key, code.NULL)
        if format_code == code.NULL:
            return pa.nulls(self.rows, kind)
        if name in TEXT_FIELDS and format_code in TEXTS:
            return self._texts(key)
        if name in ID_TYPES:
            return pa.repeat(pa.scalar(TYPES[format_code], kind), self.rows)
        if name in TIMES:
            return self._times(key, kind)
        return field_column(name, self._encoded(key), kind)

    def _times(self, key: Key, kind: pa.DataType) -> pa.Array:
        if key not in self._walk.slices:
            return pa.nulls(self.rows, kind)
        if (self._codes(key) != code.TIMESTAMP).any():
            raise NoLayout
        at = self._walk.slices[key].at
        times_ms = np.ascontiguousarray(sliding_window_view(self._walk.bytes, 8)[at]).view(">i8").ravel()
        shown = (times_ms <= TIME_MS_MAX) & (times_ms >= -TIME_MS_MAX)
        times = np.where(shown, times_ms, 0).astype(np.int64) * MICROSECONDS
        return pa.array(times, pa.int64(), mask=~shown).cast(kind)

    def _map(self, of: str, kind: pa.DataType) -> pa.Array:
        keys = [(place, key) for place, key in enumerate(self._layout.keys[of]) if key != _ENQUEUED or of == "property"]
        if not keys:
            return pa.nulls(self.rows, kind)
        pairs = [(of, place) for place, _ in keys]
        count, rows = len(keys), self.rows
        order = np.arange(count * rows).reshape(count, rows).T.ravel()  # by message instead of by place
        if self._are_texts(*pairs):
            items = self._texts(*pairs)
        else:
            items = pa.concat_arrays([self._text_column(pair) for pair in pairs]).take(pa.array(order))
        if pa.types.is_struct(kind.item_type):
            types = _TYPE_NAMES.take(pa.array(np.concatenate([self._codes(pair) for pair in pairs])[order]))
            encoded = pa.concat_arrays([pa.array(self._encoded(pair), pa.binary()) for pair in pairs])
            items = pa.StructArray.from_arrays(
                [types, items, encoded.take(pa.array(order))], fields=list(kind.item_type)
            )
        ends = np.cumsum(np.tile([len(key) for _, key in keys], rows), dtype=np.int32)
        names = pa.py_buffer(b"".join([key for _, key in keys]) * rows)
        return pa.MapArray.from_arrays(
            pa.array(np.arange(rows + 1) * count, pa.int32()),
            pa.Array.from_buffers(
                pa.string(), count * rows, [None, pa.py_buffer(np.concatenate(([np.int32(0)], ends))), names]
            ),
            items,
            type=kind,
        )

    def _text_column(self, key: Key) -> pa.Array:
        if self._are_texts(key):
            return self._texts(key)
        if IS_WHOLE[self._codes(key)].all() and (numbers := self._whole_numbers(key)) is not None:
            return pa.array(numbers, pa.int64()).cast(pa.string())
        return pa.array([text_of(each) for each in self._encoded(key)], pa.string())

    def _whole_numbers(self, key: Key) -> Numbers | None:
        """The values of one place that are whole numbers; None when one has more than 63 bits."""
        codes, at = self._codes(key), self._walk.slices[key].at
        numbers = np.zeros(self.rows, np.int64)
        for format_code in np.unique(codes).tolist():
            width = int(VALUE_BYTES[format_code])
            if width:
                places = np.flatnonzero(codes == format_code)
                found = np.ascontiguousarray(sliding_window_view(self._walk.bytes, width)[at[places]])
                numbers[places] = found.view(f">{'i' if IS_SIGNED[format_code] else 'u'}{width}").ravel()
                if not IS_SIGNED[format_code] and (numbers[places] < 0).any():
                    return None
        return numbers

    def _are_texts(self, *keys: Key) -> bool:
        return all(IS_TEXT[self._codes(key)].all() for key in keys)

    def _texts(self, *keys: Key) -> pa.Array:
        """The values of some places that are texts, as :meth:`_values` orders them."""
        texts = self._known.get(keys)
        if texts is None:
            texts = self._known[keys] = self._values(*keys).cast(pa.string())
            symbols = any((self._codes(key) == code.SYMBOL_8).any() for key in keys)
            if symbols and not compute.all(compute.string_is_ascii(texts)).as_py():
                raise NoLayout
        return texts

    def _codes(self, key: Key) -> Codes:
        """The format code of each value of one place."""
        codes = self._walk.codes.get(key)
        if codes is None:
            codes = self._walk.codes[key] = np.full(self.rows, self._layout.codes[key], np.uint8)
        return codes

    def _encoded(self, key: Key) -> list[bytes]:
        """The values of one place with their format codes."""
        codes, found = self._codes(key), self._walk.slices.get(key)
        if found is None:
            return [codes[:1].tobytes()] * self.rows
        at, sizes = found
        begins, ends = at - np.where(IS_SHORT[codes], 2, 1), at + sizes
        joined = self._walk.joined
        return [joined[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]

    def _values(self, *keys: Key) -> pa.Array:
        """The values of some places as binaries: those of the first message, then those of the second, and so on."""
        walk, rows = self._walk, self.rows * len(keys)
        at, sizes = (np.stack(each, axis=1).ravel() for each in zip(*(walk.slices[key] for key in keys), strict=True))
        ends = np.cumsum(sizes)
        total, most = int(ends[-1]), int(sizes.max())
        if most * rows <= total * SPARE_MAX and (most == 0 or int(at.max()) + most <= len(walk.bytes)):
            found = sliding_window_view(walk.bytes, most)[at] if most else walk.bytes[:0]
            data = found.tobytes() if most * rows == total else found[np.arange(most) < sizes[:, None]].tobytes()
        else:
            data = b"".join(
                [walk.joined[begin:end] for begin, end in zip(at.tolist(), (at + sizes).tolist(), strict=True)]
            )
        offsets = np.zeros(rows + 1, np.int32)
        offsets[1:] = ends
        return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def take_at_once(
    entries: Sequence[bytes], layout: Layout, address: str, schema: pa.Schema, *, least: int
) -> LayoutBlock | None:
    """The columns of those messages that have this layout; None for fewer than ``least``."""
    walk = Walk(entries, layout)
    if walk.rows < least:
        return None
    try:
        return LayoutBlock(layout, walk, address, schema)
    except NoLayout:
        return None


def layout_of(entry: bytes, parts: Parts, wanted: Wanted) -> Layout | None:
    """The layout of a message with these parts; None when it has none."""
    number = parts[1]
    try:
        layout = Layout(entry, parts, wanted)
    except NoLayout:
        return None
    if (number is not None) != layout.numbered or (number or 0) > NUMBER_MAX:
        return None
    return layout
