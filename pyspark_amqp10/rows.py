"""Turns encoded messages into rows: Arrow columns are made for many messages at once, without decoding each.

Messages of one sender have the same sections, fields and keys: many of them at once become columns by their *layout*
(:mod:`pyspark_amqp10.layouts`), at a part of a microsecond each, one layout after the other; in the end the rows are
put into the order of their messages. Where there are only a few messages of one layout, those that differ in nothing
but body and number need two slices each: about 1 µs. All others are cut into their parts
(:mod:`pyspark_amqp10.parts`), and columns are made of these (:mod:`pyspark_amqp10.columns`), both only as far as the
query asks for them.

A message that cannot become a row is a :class:`BadRow`, never an exception: an option of the query says what happens to
it.

This module must not know Spark or a connection.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from amqp10.errors import DecodeError
from amqp10.wire.sections import scan
from pyspark_amqp10.columns import (
    CREATION_TIME,
    FIELD_PLACES,
    HEADER_PLACES,
    PLAIN_PARTS,
    enqueued_column,
    field_column,
    header_column,
    map_column,
    wanted_parts,
)
from pyspark_amqp10.layouts import Layout, LayoutBlock, Numbers, layout_of, take_at_once
from pyspark_amqp10.parts import NO_FIELDS, NUMBER_MAX, Parts, PartsReader, no_row, number_place

IN_VAIN_MAX: Final = 16
"""After so many consecutive frames that no other message had, only one of every so many messages is learned: each
message has a part of its own, such as an id, and learning every one would cost a tenth more."""


PARTS: Final = 10
"""The parts of a message."""
AT_ONCE_MIN: Final = 128
"""The fewest messages of one layout that are cut at once: the walk through them has about a hundred calls, whatever
their number."""
WALKS_IN_VAIN_MAX: Final = 3
"""After so many consecutive walks that found too few messages of a layout, each learned from another message, the rest
is taken one by one. One message may happen to have a rare layout; three seldom do where some layout is usual."""
PASSED_OVER: Final = 8
"""After these walks, so many times as many messages are taken one by one without a walk. Three walks cost about 1 µs a
message, and a message by itself about 8: walking in vain costs a fiftieth of all."""


class BadRow(NamedTuple):
    """A message that cannot become a row."""

    place: int
    """Its place among the messages that were taken."""
    reason: str


@dataclass(frozen=True, slots=True)
class AlikeFrame:
    """What messages share that differ in number and body only: ``prefix | number | middle | length | body``."""

    prefix: bytes
    middle: bytes
    """The bytes between the number and the length of the body; without a number they are part of the prefix, and this
    is empty."""
    middle_at: int
    length_bytes: int
    """The size of the length of the body: 1 or 4."""
    body_at: int
    parts: Parts
    """Those of the message from which the frame was learned."""


class MessageRows:
    """Takes messages and returns the columns of a schema, which are some of
    :data:`~pyspark_amqp10.columns.SCHEMA`. One for each address and batch."""

    def __init__(self, address: str, schema: pa.Schema, *, at_once_min: int = AT_ONCE_MIN) -> None:
        """``at_once_min``: the fewest messages of one layout that are cut at once."""
        self.address = address
        self.numbers: list[int | None] = []
        self.bad: list[BadRow] = []
        self._schema = schema
        self._at_once_min = at_once_min
        self._reader = PartsReader(wanted_parts(schema.names))
        self._parts: list[Parts] = []
        self._frame: AlikeFrame | None = None
        self._layout: Layout | None = None
        self._done: list[LayoutBlock | list[Parts]] = []
        """The messages before ``_parts``."""
        self._order: list[Numbers] = []
        """The places of the messages, in the order of ``_done`` and ``_parts``."""
        self._pass_over = 0
        """How many more messages are taken one by one."""
        self._in_vain = 0
        """Consecutive frames that no other message had."""

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, entries: Sequence[bytes]) -> None:
        """Take encoded messages. Those that cannot be decoded become rows of nulls with their bytes, and are listed in
        ``bad``."""
        first = len(self)
        self.numbers += [None] * len(entries)
        places = np.arange(first, first + len(entries))
        some, places = self._take_at_once(entries, places)
        if some:
            self._order.append(places)
            self._take_each(some, places.tolist())

    def _take_at_once(self, entries: Sequence[bytes], places: Numbers) -> tuple[Sequence[bytes], Numbers]:
        """Take the messages of each layout that enough of them have. Returns the others, with their places."""
        layout, in_vain, rare = self._layout, 0, 0
        while len(entries) >= self._at_once_min and not self._pass_over:
            known = layout is not None
            if layout is None:  # not from a message again whose layout was rare
                layout = self._learned(entries[len(entries) * (rare % WALKS_IN_VAIN_MAX) // WALKS_IN_VAIN_MAX])
            block = None if layout is None else self._block(layout, entries)
            if block is not None:
                self._layout, in_vain = layout, 0
                entries, places = self._add(block, entries, places)
            elif not known:
                in_vain, rare = in_vain + 1, rare + 1
                if in_vain == WALKS_IN_VAIN_MAX:
                    self._pass_over = PASSED_OVER * len(entries)
            layout = None
        self._pass_over = max(0, self._pass_over - len(entries))
        return entries, places

    def _add(self, block: LayoutBlock, entries: Sequence[bytes], places: Numbers) -> tuple[Sequence[bytes], Numbers]:
        """Add a block of these messages. Returns those that are not in it, with their places."""
        if self._parts:
            self._done.append(self._parts)
            self._parts = []
        self._done.append(block)
        chosen = np.arange(len(entries)) if block.places is None else block.places
        taken = places[chosen]
        self._order.append(taken)
        for place, number in zip(taken.tolist(), block.numbers, strict=True):
            self.numbers[place] = number
        left = np.delete(np.arange(len(entries)), chosen)
        return [entries[place] for place in left.tolist()], places[left]

    def _block(self, layout: Layout, entries: Sequence[bytes]) -> LayoutBlock | None:
        return take_at_once(entries, layout, self.address, self._schema, least=self._at_once_min)

    def _learned(self, entry: bytes) -> Layout | None:
        """The layout of a message; None when it has none."""
        try:
            return layout_of(entry, self._reader.read(entry), self._reader.wanted)
        except DecodeError:
            return None

    def _take_each(self, entries: Sequence[bytes], places: Sequence[int]) -> None:
        """Take messages of any kind, which have these places."""
        at, end = 0, len(entries)
        before = len(self._parts)
        while at < end:
            if self._frame is not None:
                alike = self._take_alike(self._frame, entries, at)
                at += alike
                self._in_vain = 0 if alike else self._in_vain + 1
            if at < end:
                self._take_one(entries[at], places[at], learn=True)
                at += 1
            if self._in_vain >= IN_VAIN_MAX:
                quick, add = self._reader.quick, self._parts.append
                for place, entry in enumerate(entries[at : at + IN_VAIN_MAX], at):
                    parts = quick(entry)
                    if parts is None:
                        self._take_one(entry, places[place], learn=False)
                    else:
                        add(parts)
                at += IN_VAIN_MAX
        for place, parts in zip(places, self._parts[before:], strict=True):
            self.numbers[place] = parts[1]

    def columns(self, *, left_out: Collection[int] = ()) -> pa.RecordBatch:
        """The rows without those at some places."""
        done = [one.columns if isinstance(one, LayoutBlock) else self._columns(one) for one in self._done]
        if self._parts or not done:
            done.append(self._columns(self._parts))
        columns = done[0] if len(done) == 1 else [pa.concat_arrays(each) for each in zip(*done, strict=True)]
        order = np.concatenate(self._order) if self._order else np.arange(0)
        if left_out or (order[1:] < order[:-1]).any():
            rows = pa.array(np.delete(np.argsort(order), list(left_out)), pa.int64())
            columns = [
                column.slice(0, len(rows)) if column.null_count == len(column) else column.take(rows)
                for column in columns
            ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _columns(self, parts: Sequence[Parts]) -> list[pa.Array]:
        """The columns of messages that were cut one by one."""
        by_part = tuple(zip(*parts, strict=True)) or ((),) * PARTS
        by_field: Sequence[Sequence[Any]] = (
            tuple(zip(*by_part[4], strict=True)) if by_part[4] else ((),) * len(NO_FIELDS)
        )
        return [self._column(field, by_part, by_field, len(parts)) for field in self._schema]

    def _column(
        self, field: pa.Field, by_part: Sequence[Sequence[Any]], by_field: Sequence[Sequence[Any]], rows: int
    ) -> pa.Array:
        name, kind = field.name, field.type
        if name in PLAIN_PARTS:
            return pa.array(by_part[PLAIN_PARTS[name]], kind)
        if name == "address":
            return pa.repeat(pa.scalar(self.address, kind), rows)
        if name == "enqueued":
            return enqueued_column(by_part[9], by_field[CREATION_TIME], kind)
        if name == "annotations":
            return map_column(by_part[3], kind)
        if name == "properties":
            return map_column(by_part[5], kind)
        if name == "footer":
            return map_column(by_part[8], kind)
        if name in HEADER_PLACES:
            return header_column(name, by_part[2], kind)
        return field_column(name, by_field[FIELD_PLACES[name]], kind)

    def _take_alike(self, frame: AlikeFrame, entries: Sequence[bytes], at: int) -> int:
        """Take messages with this frame from ``at`` on. Returns how many were taken."""
        prefix, middle, middle_at, body_at = frame.prefix, frame.middle, frame.middle_at, frame.body_at
        length_at, number_at = body_at - frame.length_bytes, len(prefix)
        _, numbered, *others = frame.parts
        bodies, numbers = [], []
        if not entries[at].startswith(prefix):
            return 0
        for entry in entries[at:] if at else entries:
            if not (
                entry.startswith(prefix)
                and entry.startswith(middle, middle_at)
                and int.from_bytes(entry[length_at:body_at], "big") == len(entry) - body_at
                and len(entry) >= body_at
            ):
                break
            bodies.append(entry[body_at:])
            if numbered is not None:
                numbers.append(int.from_bytes(entry[number_at:middle_at], "big"))
        if numbers and max(numbers) > NUMBER_MAX:
            return 0  # not a queue's number: they are cut one by one
        if frame.parts[6] == "string" and not _are_texts(bodies):
            return 0
        self._parts += zip(bodies, numbers or repeat(None), *map(repeat, others), strict=False)
        return len(bodies)

    def _take_one(self, entry: bytes, place: int, *, learn: bool) -> None:
        try:
            parts = self._reader.read(entry)
        except DecodeError as error:
            self.bad.append(BadRow(place, error.description))
            self._parts.append(no_row(entry))
            return
        self._parts.append(parts)
        if learn:
            self._frame = _frame(entry, parts) or self._frame


def _are_texts(bodies: list[bytes]) -> bool:
    """Whether all are UTF-8. A zero between them keeps the end of one from completing the next."""
    try:
        b"\x00".join(bodies).decode()
    except UnicodeDecodeError:
        return False
    return True


def _frame(entry: bytes, parts: Parts) -> AlikeFrame | None:
    """The frame of messages like this one, if their bytes alone can identify it: the message ends with the only
    section of its body, and its number is where brokers write it."""
    body, number, *_, body_encoded, _, _ = parts
    if body is None or body_encoded is not None:
        return None
    try:
        bounds = scan(entry, ordered=False)
    except DecodeError:  # in a part that no column needs
        return None
    if bounds.body is None or bounds.body[1] != len(entry):
        return None
    start = bounds.body[0]
    length_bytes = len(entry) - len(body) - start - 4
    if length_bytes not in (1, 4) or entry[start : start + 2] != b"\x00\x53":
        return None
    length_at, body_at = start + 4, start + 4 + length_bytes
    if number is None:
        return AlikeFrame(entry[:length_at], b"", length_at, length_bytes, body_at, parts)
    number_at = None if bounds.message_annotations is None else number_place(entry, *bounds.message_annotations)
    if number_at is None:
        return None
    middle_at = number_at + 8
    return AlikeFrame(entry[:number_at], entry[middle_at:length_at], middle_at, length_bytes, body_at, parts)
