"""The fast path for settlement: dispositions whose ranges adjoin become one; the frequent ones are encoded at
once.

Many clients settle every message with a disposition of its own: the same frame again and again, with the next
delivery-id in it. As in ``transfer_run``, the first frame of a kind is parsed once into a *shape*. The frames
behind it are unpacked together and compared with the shape column by column. The run takes as many of them as have
ranges that adjoin.

The states accepted and released, and no state, are understood. The parser declines everything else (it returns None),
and the generic codec reads it, or refuses it. A run never wraps: its ``first`` is at most its ``last``, and ids
behind the wrap begin the next run.

This module must not know sessions, or what the deliveries are.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import compress, count
from operator import gt
from struct import Struct
from typing import NamedTuple

from amqp10.wire import columns
from amqp10.wire.codec import format_codes as codes
from amqp10.wire.messaging import ACCEPTED, RELEASED, Accepted, Released
from amqp10.wire.run_shapes import (
    AMQP_FRAME,
    BOOLEAN,
    BOOLEAN_BYTES,
    FIELDS_AT,
    FRAME_HEADER_BYTES,
    ID_FORMAT,
    TRUE,
    UINT_BYTES,
    leading_equal,
    leading_pairs,
    list_bounds,
)

SimpleState = Accepted | Released | None
"""The states that are understood here; None is no state."""

_SHAPES_MAX = 16
"""Shapes kept per connection: a client has one or two, for each session and width of its delivery-ids."""
_LOOK_AHEAD_MIN = 2
"""Frames compared together where the last run was short."""

_UINT_BYTES = 4
"""Of an id behind its format code, in the longest encoding."""
_DISPOSITION = b"\x00\x53\x15"
_EMPTY_LIST = rb"(?:\x45|\xc0\x01\x00|\xd0\x00\x00\x00\x04\x00\x00\x00\x00)"
_AFTER_FIRST = re.compile(
    rb"(?:(?P<last>\x40|\x52.|\x70.{4})"
    rb"(?:(?P<settled>\x40|\x41|\x42|\x56[\x00\x01])"
    rb"(?:(?P<state>\x40|\x00\x53[\x24\x26]" + _EMPTY_LIST + rb")"
    rb"(?P<batchable>\x40|\x41|\x42|\x56[\x00\x01])?)?)?)?",
    re.DOTALL,
)
"""The fields behind ``first`` as far as they are understood; the list may end behind each of them [2.7.6]."""
_ACCEPTED_LEAD = b"\x00\x53\x24"
_RELEASED_LEAD = b"\x00\x53\x26"


@dataclass(slots=True)
class DispositionRun:
    """The same state for a range of deliveries, from one frame or several."""

    channel: int
    role: bool
    """True from a receiver of the deliveries, False from their sender [2.8.1]."""
    first: int
    last: int
    """Delivery-ids as on the wire, both inclusive; ``first <= last``."""
    settled: bool
    state: SimpleState
    end_position: int
    """Where the run ends in the buffer."""
    frame_count: int


@dataclass(slots=True, eq=False)
class _Shape:
    """Frames of one kind: ``head | first | tail``, or ``head | first | between | last | tail``.

    Head, between and tail are the same in all frames, and so is the size, which is in the head.
    """

    head: bytes
    between: bytes
    """The format code of ``last``; b"" when it is absent or null and so the same as ``first``."""
    tail: bytes
    template: Struct
    role: bool
    settled: bool
    state: SimpleState
    look_ahead: int = field(init=False, default=_LOOK_AHEAD_MIN)
    """Frames to compare together: those of the last run. A run that the end of the buffer has cut does not lower
    it."""


class DispositionRunParser:
    """Parses runs at the head of a receive buffer. One per connection, because it remembers shapes."""

    __slots__ = ("_max_frame_size", "_shapes")

    def __init__(self, *, max_frame_size: int) -> None:
        """``max_frame_size`` is what we announced, in bytes; larger frames are declined."""
        self._max_frame_size = max_frame_size
        self._shapes: dict[bytes, _Shape] = {}

    def parse(self, data: bytes, position: int, *, limit: int) -> DispositionRun | None:
        """The longest run that begins at ``position``, at most ``limit`` frames; None if a run cannot be parsed
        there."""
        head_end = _head_end(data, position)
        if head_end is None:
            return None
        head = data[position:head_end]
        shape = self._shapes.get(head)
        run = None if shape is None else _take(shape, data, position, limit)
        if run is None:
            shape = _learn(data, position, head)
            if shape is None or shape.template.size > self._max_frame_size:
                return None
            run = _take(shape, data, position, limit)
            if run is not None:
                self._keep(shape)
        return run

    def _keep(self, shape: _Shape) -> None:
        self._shapes.pop(shape.head, None)
        if len(self._shapes) >= _SHAPES_MAX:
            del self._shapes[next(iter(self._shapes))]
        self._shapes[shape.head] = shape


def _take(shape: _Shape, data: bytes, position: int, limit: int) -> DispositionRun | None:
    """The run of frames that equal the shape and whose ranges adjoin: the first frame, then blocks of many."""
    size = shape.template.size
    frames = min(limit, (len(data) - position) // size)
    if frames < 1:
        return None
    _, first, between, last, tail = shape.template.unpack_from(data, position)
    if between != shape.between or tail != shape.tail:
        return None
    if not between:
        last = first
    if first > last:
        return None
    taken, ahead = 1, shape.look_ahead
    while taken < frames:
        ahead = min(ahead, frames - taken)
        at = position + taken * size
        alike, last = _adjoining(shape, data, at, ahead, last)
        taken += alike
        if alike < ahead:
            break
        ahead *= 2
    shape.look_ahead = max(taken, _LOOK_AHEAD_MIN if taken < frames else shape.look_ahead)
    channel = data[position + 6] << 8 | data[position + 7]
    end = position + taken * size
    return DispositionRun(channel, shape.role, first, last, shape.settled, shape.state, end, taken)


def _adjoining(shape: _Shape, data: bytes, at: int, n: int, last: int) -> tuple[int, int]:
    """How many of the ``n`` frames at ``at``, from the first on, equal the shape and adjoin ``last`` in order, and the
    last id of these. The frame before them equals the shape."""
    size, first_at = shape.template.size, len(shape.head)
    if n >= columns.COLUMNS_MIN and size == first_at + _UINT_BYTES + len(shape.tail):  # each names one delivery
        fixed = (*range(first_at), *range(first_at + _UINT_BYTES, size))
        if columns.counts_up(data, at, size, n, first_at, last + 1) and columns.alike(data, at, size, n, fixed):
            return n, last + n
    block = memoryview(data)[at : at + n * size]
    heads, firsts, betweens, lasts, tails = zip(*shape.template.iter_unpack(block), strict=True)
    if not shape.between:
        lasts, n = firsts, len(firsts)
        if heads.count(shape.head) == betweens.count(b"") == tails.count(shape.tail) == n and firsts == tuple(
            range(last + 1, last + 1 + n)
        ):
            return n, last + n
    alike = min(
        leading_equal(heads, shape.head),
        leading_equal(betweens, shape.between),
        leading_equal(tails, shape.tail),
        leading_pairs(firsts, (last + 1, *map((1).__add__, lasts[:-1]))),
        next(compress(count(), map(gt, firsts, lasts)), len(lasts)),
    )
    return alike, lasts[alike - 1] if alike else last


# --- learning a shape ---------------------------------------------------------------------------------------


def _head_end(data: bytes, position: int) -> int | None:
    """Where the value of ``first`` begins, which is where the shape's head ends; None if this is no disposition."""
    if data[position + 8 : position + 11] != _DISPOSITION:
        return None
    try:
        role_at = position + FIELDS_AT[data[position + 11]]
        return role_at + BOOLEAN_BYTES[data[role_at]] + 1
    except (IndexError, KeyError):
        return None


def _learn(data: bytes, position: int, head: bytes) -> _Shape | None:
    """The shape of the frame at ``position``; None when it is incomplete or not understood."""
    size = int.from_bytes(data[position : position + 4])
    if size > len(data) - position or head[4:6] != AMQP_FRAME:
        return None
    try:
        return _walk_frame(data[position : position + size], head)
    except (IndexError, KeyError):
        return None  # the frame ends inside its performative, or holds a format code that is not understood


def _walk_frame(frame: bytes, head: bytes) -> _Shape | None:
    """The shape of a complete frame; may also raise IndexError or KeyError instead of returning None."""
    fields_at, fields_end, field_count = list_bounds(frame, FRAME_HEADER_BYTES + len(_DISPOSITION))
    role, first_code = frame[fields_at : len(head) - 1], head[-1]
    first_end = len(head) - 1 + UINT_BYTES[first_code]
    if role not in BOOLEAN or not first_end <= fields_end == len(frame):
        return None
    fields = _AFTER_FIRST.fullmatch(frame, first_end)
    if fields is None or field_count != 2 + _present(fields):
        return None
    between, last_format, tail_at = b"", "0s", first_end
    if fields["last"] not in (None, b"\x40"):
        between, tail_at = fields["last"][:1], fields.end("last")
        last_format = ID_FORMAT[between[0]]
    tail = frame[tail_at:]
    template = Struct(f">{len(head)}s{ID_FORMAT[first_code]}{len(between)}s{last_format}{len(tail)}s")
    return _Shape(
        head=head,
        between=between,
        tail=tail,
        template=template,
        role=role in TRUE,
        settled=fields["settled"] in TRUE,
        state=_state(fields["state"]),
    )


def _present(fields: re.Match[bytes]) -> int:
    return sum(value is not None for value in fields.groups())


def _state(encoded: bytes | None) -> SimpleState:
    if encoded is None or encoded == b"\x40":
        return None
    return ACCEPTED if encoded.startswith(_ACCEPTED_LEAD) else RELEASED


# --- encoding -----------------------------------------------------------------------------------------------

_STATE_FIELD: dict[SimpleState, bytes] = {
    None: b"",
    ACCEPTED: _ACCEPTED_LEAD + b"\x45",
    RELEASED: _RELEASED_LEAD + b"\x45",
}
_BOOLEAN_FIELD = {False: b"\x42", True: b"\x41"}


class _Template(NamedTuple):
    pack: Callable[..., bytes]
    size: int
    head: bytes
    tail: bytes


def _template(role: bool, settled: bool, state: SimpleState, *, ranged: bool) -> _Template:
    """``size | 2, 0 | channel | head | first | null | tail``, or ``… | first | code | last | tail``."""
    fields = _BOOLEAN_FIELD[settled] + _STATE_FIELD[state]
    list_size = 1 + 1 + 5 + (5 if ranged else 1) + len(fields)
    field_count = 4 if state is None else 5
    list_lead = bytes((codes.LIST_8, list_size, field_count))
    head = _DISPOSITION + list_lead + _BOOLEAN_FIELD[role] + bytes((codes.UINT,))
    template = Struct(f">I2sH{len(head)}sI{'cI' if ranged else 'c'}{len(fields)}s")
    return _Template(template.pack, template.size, head, fields)


_KINDS = [(role, settled, state) for role in (False, True) for settled in (False, True) for state in _STATE_FIELD]
_SINGLE = {
    (role, settled, type(state)): _template(role, settled, state, ranged=False) for role, settled, state in _KINDS
}
_RANGED = {
    (role, settled, type(state)): _template(role, settled, state, ranged=True) for role, settled, state in _KINDS
}
_NO_LAST = b"\x40"
_UINT_LAST = b"\x70"


def encode_disposition(*, channel: int, role: bool, first: int, last: int, settled: bool, state: SimpleState) -> bytes:
    """One disposition frame for deliveries ``first`` to ``last``, wire numbers and both inclusive [2.7.6].

    The range may wrap. A range of one leaves ``last`` null.
    """
    if first == last:
        pack, size, head, tail = _SINGLE[role, settled, type(state)]
        return pack(size, AMQP_FRAME, channel, head, first, _NO_LAST, tail)
    pack, size, head, tail = _RANGED[role, settled, type(state)]
    return pack(size, AMQP_FRAME, channel, head, first, _UINT_LAST, last, tail)
