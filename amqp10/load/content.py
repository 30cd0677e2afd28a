"""The values that make a message unlike the others: functions of its publisher and its number.

    message-id      16 hexadecimal digits: the publisher, and the message's number
    content-type    application/octet-stream, in each message
    order           a long: 2^32 plus the number
    trace           8 hexadecimal digits: the number's four bytes, the last one first
    account         an int: the number
    priority        the number % 10
    key             the routing key with the number % `PlannedTraffic.keys`

order, trace and account are application-properties, headers in AMQP 0.9.1. `PlannedTraffic.content` says which values a
message has. All values have a fixed width, so that they are columns in a `Stencil`: a publisher writes them, and a
consumer compares them, for many messages at a time. `UnlikeValue.raw` is the value of one message.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from amqp10.load.plan import PlannedTraffic, routing_key
from amqp10.load.stencil import packed

CONTENT_TYPE = b"application/octet-stream"
ORDER_BASE = 2**32
"""Makes an order a number of eight bytes, however an encoder shortens small ones."""
PRIORITIES = 10
DEFAULT_PRIORITY = b"\x04"
"""The priority of a message without one [3.2.1]; a broker may leave it out."""
SEQUENCES = 2**32
"""Sequence numbers are below this number."""
_KEY_DIGITS = 5
_AHEAD = 8192
"""Entries of a table of turns behind the first turn: more than a run of messages, so that a run is one slice."""

Buffer = bytes | bytearray
Pack = Callable[[Sequence[int]], bytes]


class ValueSpan(NamedTuple):
    """Where the bytes of a value begin and end; the constructor or type octet is not among them."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Column:
    """Bytes of a value: at this position within it, so many. `pack` makes them for many numbers, side by side; the
    numbers are the messages', or those of their publishers."""

    at: int
    width: int
    pack: Pack
    of_publisher: bool = False


@dataclass(frozen=True, slots=True)
class UnlikeValue:
    """A value by publisher and number. `default`: the value of a message that arrives without it; empty: it must
    not."""

    raw: Callable[[int, int], bytes]
    columns: tuple[Column, ...] = ()
    is_number: bool = False
    default: bytes = b""

    def equals(self, arrived: Buffer, publisher: int, number: int) -> bool:
        """Whether this is the value; numbers may have another width."""
        expected = self.raw(publisher, number)
        if self.is_number:
            return int.from_bytes(arrived, "big") == int.from_bytes(expected, "big")
        return arrived == expected


def _low(numbers: Sequence[int]) -> bytes:
    return packed(numbers, width=4)


def _digits(numbers: Sequence[int]) -> bytes:
    return packed(numbers, width=4).hex().encode()


def _backward(numbers: Sequence[int]) -> bytes:
    column = array("I", numbers)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes().hex().encode()


def _in_turn(entries: Sequence[bytes]) -> Pack:
    """The entry with the number % their count, for each number."""
    turn, width = len(entries), len(entries[0])
    table = b"".join(entries) * (1 + -(-_AHEAD // turn))

    def pack(numbers: Sequence[int]) -> bytes:
        if isinstance(numbers, range) and numbers.step == 1 and len(numbers) <= _AHEAD:
            first = numbers.start % turn
            return table[first * width : (first + len(numbers)) * width]
        return b"".join([entries[number % turn] for number in numbers])

    return pack


_IDS: Mapping[str, UnlikeValue] = {
    "message_id": UnlikeValue(
        lambda publisher, number: b"%08x%08x" % (publisher, number),
        (Column(0, 8, _digits, of_publisher=True), Column(8, 8, _digits)),
    ),
    "content_type": UnlikeValue(lambda publisher, number: CONTENT_TYPE),
}
_PROPERTIES: Mapping[str, UnlikeValue] = {
    "order": UnlikeValue(
        lambda publisher, number: (ORDER_BASE + number).to_bytes(8, "big"), (Column(4, 4, _low),), True
    ),
    "trace": UnlikeValue(
        lambda publisher, number: number.to_bytes(4, "little").hex().encode(), (Column(0, 8, _backward),)
    ),
    "account": UnlikeValue(lambda publisher, number: number.to_bytes(4, "big"), (Column(0, 4, _low),), True),
}


def values_of(traffic: PlannedTraffic) -> dict[str, UnlikeValue]:
    """The values of this traffic's messages that its consumers check, by name."""
    values: dict[str, UnlikeValue] = {}
    if traffic.content != "alike":
        values |= _IDS
    if traffic.content in ("properties", "priorities"):
        values |= _PROPERTIES
    if traffic.content == "priorities":
        each = [bytes((priority,)) for priority in range(PRIORITIES)]
        priority = UnlikeValue(
            lambda publisher, number: each[number % PRIORITIES],
            (Column(0, 1, _in_turn(each)),),
            default=DEFAULT_PRIORITY,
        )
        values["priority"] = priority
    if traffic.keys > 1:
        values["key"] = _key(traffic.keys)
    return values


def _key(count: int) -> UnlikeValue:
    keys = [routing_key(number).encode() for number in range(count)]
    digits = [key[-_KEY_DIGITS:] for key in keys]
    column = Column(len(keys[0]) - _KEY_DIGITS, _KEY_DIGITS, _in_turn(digits))
    return UnlikeValue(lambda publisher, number: keys[number % count], (column,))
