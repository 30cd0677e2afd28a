"""The bytes of a publisher's messages, made many at a time from stencils, in either protocol.

A `MessageUnit` is one message with the places of the bytes that change from message to message. Bodies of several sizes
in turn have a unit each; a burst of them is joined from the stencils' pieces.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from amqp10.load.content import SEQUENCES, ValueSpan, values_of
from amqp10.load.plan import PlannedTraffic
from amqp10.load.stencil import Stencil, packed

BURST_BYTES_MAX = 128 * 1024
"""Bytes that a bulk client passes to one system call; the figure of the reference measurements."""
BURST_FRAMES_MAX = 16
"""Frames that an unbatched client sends, each by its own call, before it reads its input."""
MADE_AHEAD: Final = 64
"""Messages that are made ahead. A larger number would hardly make one message cheaper, and one turn in many would
last longer: 1,800 messages fit into the largest burst."""

_SEQUENCE_LOW = 8  # the low half of the sequence number within a body
_STAMP = 12


def body_of(publisher: int, traffic: PlannedTraffic, turn: int = 0) -> bytes:
    """The body of a publisher's message with this number; its sequence number and time are 0 still."""
    return struct.pack(">IQ", publisher, 0) + bytes(traffic.numbers_bytes - _STAMP) + traffic.padding(turn)


@dataclass(frozen=True, slots=True)
class MessageUnit:
    """The bytes of one message, with the places of what changes.

    frame_ends: the ends of the parts that an unbatched client writes with a system call each. id_offsets, tag_offsets:
    the low halves of delivery-ids and delivery-tags in AMQP 1.0.
    """

    data: bytes
    frame_ends: tuple[int, ...]
    body_at: int
    id_offsets: tuple[int, ...] = ()
    tag_offsets: tuple[int, ...] = ()
    places: tuple[ValueSpan, ...] = ()

    @property
    def count_offsets(self) -> tuple[int, ...]:
        """The places of the low half of the sequence number: in every delivery-tag, and in the body."""
        return (*self.tag_offsets, self.body_at + _SEQUENCE_LOW)

    def part_spans(self) -> list[tuple[int, int]]:
        return list(zip((0, *self.frame_ends[:-1]), self.frame_ends, strict=True))


class NumberedMessages:
    """The messages of one publisher, numbered from 0. `units`: one for each of `PlannedTraffic.sizes_in_turn`.

    at_once_max: messages in one burst; 0 for as many as fit into 128 KiB.

    Messages whose bytes follow from their numbers alone are made ahead: a publisher with few messages in flight then
    has the next ones ready when a confirm comes. Those with a time in them, and those of several sizes in turn, are
    made for each burst.
    """

    def __init__(self, units: Sequence[MessageUnit], traffic: PlannedTraffic, *, at_once_max: int = 0) -> None:
        self._units = units
        self._stamped = traffic.stamped
        self._bulk = traffic.shape == "bulk"
        fitting = max(1, BURST_BYTES_MAX * len(units) // sum(len(unit.data) for unit in units))
        self.capacity = min(at_once_max or fitting, fitting)
        self._stencils = [Stencil(unit.data, -(-self.capacity // len(units))) for unit in units]
        values = values_of(traffic)
        self._columns = [
            [
                (place.start + column.at, column)
                for place in unit.places
                for column in values[place.name].columns
                if not column.of_publisher
            ]
            for unit in units
        ]
        self.frames_max = max(len(unit.frame_ends) for unit in units)
        """The most frames of one message."""
        self._made = range(0)
        """With bodies of one size, the messages that the stencil holds."""
        self._made_id_lead = 0
        """How much larger than their numbers their delivery-ids are."""
        self._made_parts: list[memoryview] = []
        """The parts for a system call each of all messages for which the stencil has room."""
        if len(units) == 1 and not self._bulk:
            self._made_parts = self._parts(units[0], self._stencils[0].take(self.capacity))

    def frames(self, numbers: range) -> int:
        """How many frames these messages have."""
        if len(self._units) == 1:
            return len(numbers) * self.frames_max
        return sum(len(self._units[number % len(self._units)].frame_ends) for number in numbers)

    def write(
        self, numbers: range, intended_ns: Callable[[int], int], *, first_id: int = 0
    ) -> list[bytes | memoryview]:
        """The bytes of these messages, one item per system call; valid until the next call.

        first_id: the delivery-id of the first one.
        """
        turns = len(self._units)
        id_lead = first_id - numbers.start
        if turns > 1:
            for turn in range(turns):
                if own := numbers[(turn - numbers.start) % turns :: turns]:
                    self._write_unit(turn, own, intended_ns, id_lead)
            return self._in_turn(numbers)
        unit = self._units[0]
        if not unit.id_offsets:
            id_lead = 0
        if numbers.start not in self._made or numbers.stop > self._made.stop or id_lead != self._made_id_lead:
            self._make(numbers, intended_ns, id_lead)
        first = numbers.start - self._made.start
        if self._bulk:
            return [self._stencils[0].take(len(numbers), first=first)]
        parts = len(unit.frame_ends)
        return [*self._made_parts[first * parts : (first + len(numbers)) * parts]]

    def _make(self, numbers: range, intended_ns: Callable[[int], int], id_lead: int) -> None:
        """Write these messages into the one stencil, and those behind them if their bytes are known already. Where
        links share a session, the delivery-ids of the next ones are not."""
        stop = numbers.stop
        if not self._stamped and id_lead == self._made_id_lead:
            stop = max(stop, min(numbers.start + min(self.capacity, MADE_AHEAD), SEQUENCES))
        self._made, self._made_id_lead = range(numbers.start, stop), id_lead
        self._write_unit(0, self._made, intended_ns, id_lead)

    def _write_unit(self, turn: int, own: range, intended_ns: Callable[[int], int], id_lead: int) -> None:
        unit, stencil = self._units[turn], self._stencils[turn]
        low = packed(own, width=4)
        stencil.put(unit.count_offsets, low, width=4)
        if unit.id_offsets:
            ids = packed(range(own.start + id_lead, own.stop + id_lead, own.step), width=4) if id_lead else low
            stencil.put(unit.id_offsets, ids, width=4)
        for at, column in self._columns[turn]:
            stencil.put((at,), column.pack(own), width=column.width)
        if self._stamped:
            stencil.write((unit.body_at + _STAMP,), [intended_ns(number) for number in own], width=8)

    def _in_turn(self, numbers: range) -> list[bytes | memoryview]:
        turns = len(self._units)
        views = [stencil.take(stencil.capacity) for stencil in self._stencils]
        pieces: list[bytes | memoryview] = []
        for place, number in enumerate(numbers):
            unit, at = self._units[number % turns], place // turns * self._stencils[number % turns].stride
            message = views[number % turns][at : at + len(unit.data)]
            pieces += [message] if self._bulk else self._parts(unit, message)
        return [b"".join(pieces)] if self._bulk else pieces

    @staticmethod
    def _parts(unit: MessageUnit, view: memoryview) -> list[memoryview]:
        size, spans = len(unit.data), unit.part_spans()
        return [view[at + a : at + b] for at in range(0, len(view), size) for a, b in spans]
