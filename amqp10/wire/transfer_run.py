"""The fast path for incoming messages: runs of transfer frames, parsed by struct templates.

In the transfers of a publisher, only the frame's size, the delivery-id, the delivery-tag and the message change. The
first performative of a link is parsed by hand once into a *shape*: the bytes that are fixed, and the places of the
others. After that a frame is accepted if its performative *equals* the shape, whatever message it carries. Several
frames of the same size are compared column by column, at C speed: 0.15 µs a message, a twentieth of what the generic
codec takes (``bench/micro/transfer_run.py``).

Messages that are alike up to the content of one opaque body need no check of their own. So the shape is extended by the
header section and the lead of the body (``_like_messages``); frames that equal this longer shape are a run of *checked*
messages. Where only a few messages in succession are alike, they are taken together with those behind them, unchecked.

Invariants:

- The fast path accepts only what the generic codec would accept, with the same result: every size and count is checked
  when a shape is learned, and later frames differ from the shape only in bytes that need no check.
- A frame that is not fully understood is declined (None), never an error: the generic path decides about it.
- A run has one channel, handle and settled flag, and consecutive delivery-ids; if it is checked, also one header
  section. It holds complete single-frame deliveries only; an incomplete frame stays in the buffer.
- What is remembered changes how fast a run is found, and never which run is found.
- The work is linear in the bytes accepted: as many frames are compared at once as the last run of the shape had, and
  twice as many after each success.

This module must not know sessions, links or what a message means. It has no base classes, and no other module patches
it, so it can be compiled.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, pairwise, starmap
from struct import Struct

from amqp10.wire import columns, serial
from amqp10.wire.codec import format_codes as codes
from amqp10.wire.run_shapes import (
    AMQP_FRAME,
    BOOLEAN,
    FALSE,
    FIELDS_AT,
    FRAME_HEADER_BYTES,
    ID_FORMAT,
    NULL,
    TRANSFER,
    TRUE,
    UBYTE,
    UINT,
    UINT_BYTES,
    ZERO,
    leading_equal,
    leading_pairs,
    list_bounds,
    walk_fields,
)

_SHAPES_MAX = 512
"""Entries in a connection's table of shapes: 256 links on a session, which is the default of handle-max, by two. A
publishing link needs one shape, which has two entries and takes 2 KiB with the extended one that it refers to, and 6
KiB with all its layouts. More busy links than entries cost each run of a link 7 µs, to learn its shape again."""
_LAYOUTS_MAX = 8
"""Frame sizes of a shape whose columns are kept. A sender of equal messages has one or two."""
_BLOCK_FRAMES = 8
"""Entries that one step takes from many frames: 23 ns for each, where a step for each takes 55 ns."""
_LOOK_AHEAD_MIN = 4
"""Frames compared at once where the last run was short: enough to begin a run, and about 2 µs if it fails."""
_ALIKE_MIN = 8
"""Messages in succession that must be alike to become a run of their own, when others follow: a run costs as much as a
dozen checks of single messages."""
_DELIVERY_TAG_BYTES_MAX = 32
"""[2.8.7]"""

_HEADER_SECTION = b"\x00\x53\x70"
_LIST_SIZE_AT = 8
"""Where the size of the performative is in the head of a shape, behind frame type, channel, descriptor and format
code. It counts the bytes of the delivery-tag, too."""
_HEADER_BYTES_MAX = 32
"""A header section with all its fields, each in its longest encoding that is understood, has 28 bytes [3.2.1]."""
_NO_LENGTH = "0s"
_LEAD_BYTES = 4
"""A section's descriptor and the format code of its value: enough to tell sections apart."""

_FIELDS_AFTER_TAG = (ZERO, BOOLEAN, FALSE, NULL, NULL, FALSE, FALSE, BOOLEAN)
"""message-format, settled, more, rcv-settle-mode, state, resume, aborted, batchable [2.7.5]."""
_HEADER_FIELDS = (BOOLEAN, UBYTE, UINT, BOOLEAN, UINT)
"""durable, priority, ttl, first-acquirer, delivery-count [3.2.1]."""

_BODY_LENGTH_FORMAT = {
    b"\x00\x53\x75\xa0": "B",
    b"\x00\x53\x75\xb0": "I",
    b"\x00\x53\x77\xa0": "B",
    b"\x00\x53\x77\xb0": "I",
    b"\x00\x53\x77\xa1": "B",
    b"\x00\x53\x77\xb1": "I",
}
"""The struct format of the length behind the lead of a data section of binary or an amqp-value of binary or string
[3.2]."""


@dataclass(slots=True)
class TransferRun:
    """Single-frame deliveries of one link with consecutive delivery-ids."""

    channel: int
    handle: int
    first_delivery_id: int
    """The wire number of the first delivery. The others count up from it and may wrap."""
    settled: bool | None
    """None when the frames leave it out or it is null."""
    entries: list[bytes]
    """Encoded messages: without their header section when ``checked``, else whole."""
    header: bytes
    """The header section that all entries have; b"" when there is none, and when not ``checked``."""
    checked: bool
    """True when every entry is exactly one opaque body section, so that there is nothing left to validate."""
    end_position: int
    """Where the run ends in the buffer."""
    buffer: bytes = field(repr=False, compare=False)
    """The buffer in which the run was found, for values that are rarely needed."""
    start_position: int

    def delivery_tag(self, index: int) -> bytes:
        """The tag of one delivery. It walks over the frames: meant for errors that name a delivery, not for every
        message."""
        at = self.start_position
        for _ in range(index):
            at += int.from_bytes(self.buffer[at : at + 4])
        handle_at = at + FIELDS_AT[self.buffer[at + 11]]
        id_at = handle_at + UINT_BYTES[self.buffer[handle_at]]
        tag_at = id_at + UINT_BYTES[self.buffer[id_at]]
        return self.buffer[tag_at + 2 : tag_at + 2 + self.buffer[tag_at + 1]]

    @property
    def frame_count(self) -> int:
        """Transfer frames taken, which is what the session window counts [2.5.6]."""
        return len(self.entries)


@dataclass(slots=True, eq=False)
class _Shape:
    """The form of frames of one kind: ``size | head | delivery-id | tag_lead | tag | tail | content``.

    The tail is the rest of the performative. If the messages are ``checked``, the header section and the lead of the
    body are part of it, and the body's length, which depends on the frame's size, is between tail and content. Head,
    tag_lead and tail are the same in all frames.
    """

    head: bytes
    id_format: str
    tag_lead: bytes
    tail: bytes
    handle: int
    settled: bool | None
    header: bytes = b""
    length_format: str = _NO_LENGTH
    """How the length is packed, if ``checked``."""
    checked: bool = field(init=False)
    """Whether the messages are a header section or none, and one opaque body section."""
    length: Struct = field(init=False)
    """The length in one frame without its content, if ``checked``."""
    template: Struct = field(init=False)
    """One frame of any size, without its content."""
    tail_at: int = field(init=False)
    entry_at: int = field(init=False)
    """Where entries begin in a frame: behind the header section."""
    layouts: dict[int, tuple[Struct, Struct, Struct]] = field(init=False, default_factory=dict)
    look_ahead: int = field(init=False, default=_LOOK_AHEAD_MIN)
    """Frames to compare at once: those of the last run. A run that the end of the buffer has cut does not lower it."""
    size: int = field(init=False, default=0)
    """Bytes of a frame of those that were last compared together; the next one of this size begins a comparison."""
    uneven: bool = field(init=False, default=False)
    """Whether the frames of the last run had sizes that often differed."""
    like: "_Shape | None" = field(init=False, default=None)
    """This shape, extended by the beginning of the last messages that were alike."""

    def __post_init__(self) -> None:
        self.checked = self.length_format != _NO_LENGTH
        before_tail = f"I{len(self.head)}s{self._variable()}"
        self.template = Struct(f">{before_tail}{len(self.tail)}s{self.length_format}")
        if self.checked:
            length = Struct(f">{self.length_format}")
            self.length = Struct(f">{self.template.size - length.size}x{self.length_format}")
        self.tail_at = Struct(f">{before_tail}").size
        self.entry_at = self.tail_at + len(self.tail) - (_LEAD_BYTES if self.checked else 0)

    def fits(self, data: bytes, position: int) -> bool:
        """Whether a frame with this head has this shape."""
        tag_at = self.tail_at - self.tag_lead[1]
        return data.startswith(self.tag_lead, position + tag_at - 2) and data.startswith(
            self.tail, position + self.tail_at
        )

    def _variable(self) -> str:
        return f"{self.id_format}{len(self.tag_lead)}s{self.tag_lead[1]}x"

    def are_alike(self, data: bytes, at: int, size: int, n: int, delivery_id: int, *, sizes: bool = True) -> bool:
        """Whether all ``n`` frames at ``at`` are as the frame before, which has this shape, and count up from this id;
        without ``sizes``, whatever their sizes and lengths. False also for what columns do not tell: short ids, and
        those that wrap."""
        head, end = 4 + len(self.head), self.template.size if sizes else self.tail_at + len(self.tail)
        if self.id_format != "I" or not columns.counts_up(data, at, size, n, head, delivery_id):
            return False
        fixed = (*range(0 if sizes else 4, head), *range(head + 4, head + 6), *range(self.tail_at, end))
        return columns.alike(data, at, size, n, fixed)

    def leading_alike(self, data: bytes, bounds: list[int], delivery_id: int) -> int:
        """How many frames in succession are as the frame before them, which has this shape, and count up from this id,
        each with the length that its size asks for. ``bounds`` are where the frame before begins, and where it and each
        of the others ends."""
        n, size = len(bounds) - 2, self.template.size
        leads = b"".join([data[at : at + size] for at in bounds[:-1]])
        lengths: Iterable[int] = ()
        if n >= columns.COLUMNS_MIN and self.are_alike(leads, size, size, n, delivery_id, sizes=False):
            alike = n
            if self.checked:
                lengths = chain.from_iterable(self.length.iter_unpack(leads))
        else:
            _, heads, delivery_ids, tag_leads, tails, lengths = zip(*self.template.iter_unpack(leads), strict=True)
            alike = min(
                leading_equal(heads[1:], self.head),
                leading_pairs(delivery_ids[1:], tuple(range(delivery_id, delivery_id + n))),
                leading_equal(tag_leads[1:], self.tag_lead),
                leading_equal(tails[1:], self.tail),
            )
        if self.checked:
            due = tuple([end - at - size for at, end in pairwise(bounds[1:])])
            alike = min(alike, leading_pairs(tuple(lengths)[1:], due))
        return alike

    def layout(self, size: int) -> tuple[Struct, Struct, Struct]:
        """Make structs for frames of this size: for columns that must be equal or count up, for the entry, and for the
        entries of :data:`_BLOCK_FRAMES` frames."""
        head, tail = 4 + len(self.head), self.template.size - self.tail_at
        entry = f"{self.entry_at}x{size - self.entry_at}s"
        fixed = f"{head}s{self._variable()}{tail}s{size - self.template.size}x"
        layout = Struct(f">{fixed}"), Struct(f">{entry}"), Struct(f">{entry * _BLOCK_FRAMES}")
        if len(self.layouts) >= _LAYOUTS_MAX:
            self.layouts.clear()
        self.layouts[size] = layout
        return layout


class TransferRunParser:
    """Parses runs at the head of a receive buffer. One per connection, because it remembers shapes."""

    __slots__ = ("_max_frame_size", "_shapes")

    def __init__(self, *, max_frame_size: int) -> None:
        """``max_frame_size`` is what we announced, in bytes; larger frames are declined."""
        self._max_frame_size = max_frame_size
        self._shapes: dict[bytes, _Shape] = {}
        """By the head, and by head and tail."""

    def parse(self, data: bytes, position: int, *, limit: int) -> TransferRun | None:
        """The longest run that begins at ``position``, at most ``limit`` frames; None if no run can be parsed there."""
        head_end = _head_end(data, position)
        if head_end is None:
            return None
        head = data[position + 4 : head_end]
        shape = self._shapes.get(head)
        like = None if shape is None else shape.like
        if shape is None or like is None or not data.startswith(like.tail, position + shape.tail_at):
            shape = self._shape_of(data, position, head)
            if shape is None:
                return None
            like = _like_messages(shape, data, position)
        run = None if like is None else self._take(like, data, position, limit)
        if run is not None and (len(run.entries) >= min(_ALIKE_MIN, limit) or not self._goes_on(run, head)):
            return run
        unlike = self._take(shape, data, position, limit)
        return run if run is not None and unlike is not None and len(unlike.entries) == len(run.entries) else unlike

    @staticmethod
    def _goes_on(run: TransferRun, head: bytes) -> bool:
        """Whether a run is followed by another message of its link."""
        data, end = run.buffer, run.end_position
        if int.from_bytes(data[end : end + 4]) > len(data) - end or not data.startswith(head[:_LIST_SIZE_AT], end + 4):
            return False
        handle_at = FIELDS_AT[head[_LIST_SIZE_AT - 1]]
        return data.startswith(head[handle_at - 4 : -1], end + handle_at)

    def _shape_of(self, data: bytes, position: int, head: bytes) -> _Shape | None:
        """The shape of the frame at ``position``; None when it is incomplete or not understood."""
        shape = self._shapes.get(head)
        if shape is not None and not shape.fits(data, position):  # the head may have other tails: settled or not
            tail_at = position + shape.tail_at
            shape = self._shapes.get(head + data[tail_at : tail_at + len(shape.tail)])
            if shape is not None and not shape.fits(data, position):
                shape = None
        return shape or self._learn(data, position, head)

    def _learn(self, data: bytes, position: int, head: bytes) -> _Shape | None:
        size = int.from_bytes(data[position : position + 4])
        if size > min(len(data) - position, self._max_frame_size) or not head.startswith(AMQP_FRAME):
            return None
        try:
            shape = _walk_performative(data[position : position + size], head)
        except (IndexError, KeyError):
            return None  # the frame ends inside its performative, or holds a format code that is not understood
        if shape is None:
            return None
        for key in (head, head + shape.tail):
            self._shapes.pop(key, None)
            if len(self._shapes) >= _SHAPES_MAX:
                del self._shapes[next(iter(self._shapes))]
            self._shapes[key] = shape
        return shape

    def _take(self, shape: _Shape, data: bytes, position: int, limit: int) -> TransferRun | None:
        """The run of frames that equal the shape: first one by one, then many together. They are those of one size, or
        once few in succession have one, those of any size."""
        unpack, content_at, entry_at = shape.template.unpack_from, shape.template.size, shape.entry_at
        at, end = position, len(data)
        entries: list[bytes] = []
        first_delivery_id = delivery_id_due = previous_size = like_sizes = 0
        uneven, ahead = shape.uneven, shape.look_ahead - 1  # without the frame that is taken by itself
        while len(entries) < limit and at < end:
            enough = end - at >= content_at
            if enough:
                size, head, delivery_id, tag_lead, tail, length = unpack(data, at)
            if not enough or head != shape.head:
                sibling = None if shape.checked else self._sibling(shape, data, at)
                if sibling is None:
                    break
                shape, previous_size = sibling, 0
                unpack, content_at, entry_at = shape.template.unpack_from, shape.template.size, shape.entry_at
                continue
            if tag_lead != shape.tag_lead or tail != shape.tail or (shape.checked and length != size - content_at):
                break
            if size < content_at or size > end - at or size > self._max_frame_size:
                break
            if not entries:
                first_delivery_id = delivery_id
            elif delivery_id != delivery_id_due:
                break
            entries.append(data[at + entry_at : at + size])
            delivery_id_due = (delivery_id + 1) & serial.MASK
            at += size
            frames = min(ahead, limit - len(entries))
            if size == (previous_size or shape.size) and not uneven and (complete := min(frames, (end - at) // size)):
                like_sizes = _take_alike(shape, data, at, size, complete, delivery_id_due, entries)
                uneven = like_sizes < min(complete, _ALIKE_MIN)
                ahead = max(2 * like_sizes, shape.look_ahead if uneven else _LOOK_AHEAD_MIN)
                delivery_id_due = (delivery_id_due + like_sizes) & serial.MASK
                at += like_sizes * size
            elif frames and (uneven or (previous_size not in (0, size) and like_sizes < _ALIKE_MIN)):
                uneven = True
                taken, at = self._take_uneven(shape, data, at - size, at, frames, delivery_id_due, entries)
                ahead = max(2 * taken, _LOOK_AHEAD_MIN)
                delivery_id_due = (delivery_id_due + taken) & serial.MASK
            previous_size = size
        if not entries:
            return None
        shape.look_ahead = max(len(entries), _LOOK_AHEAD_MIN if at < end else shape.look_ahead)
        shape.size = previous_size if like_sizes else 0
        shape.uneven = uneven and len(set(map(len, entries))) > 1
        channel = data[position + 6] << 8 | data[position + 7]
        return TransferRun(
            channel,
            shape.handle,
            first_delivery_id,
            shape.settled,
            entries,
            shape.header,
            shape.checked,
            at,
            buffer=data,
            start_position=position,
        )

    def _take_uneven(
        self, shape: _Shape, data: bytes, before: int, at: int, frames: int, delivery_id: int, entries: list[bytes]
    ) -> tuple[int, int]:
        """Append the entries of the frames at ``at`` that equal the shape, at most ``frames``, whatever their sizes.
        The frame at ``before``, which ends there, has the shape.

        Returns the number of these frames, and where they end.
        """
        bounds = [before, *columns.bounds(data, at, frames, shape.template.size, self._max_frame_size)]
        alike = shape.leading_alike(data, bounds, delivery_id)
        entry_at = shape.entry_at
        entries += [data[start + entry_at : stop] for start, stop in pairwise(bounds[1 : alike + 2])]
        return alike, bounds[alike + 1]

    def _sibling(self, shape: _Shape, data: bytes, at: int) -> _Shape | None:
        """The shape of the frame at ``at`` if it is another one of the same link, whose delivery-ids or delivery-tags
        have another length, and the frame differs in nothing else. The messages of the shape are not checked."""
        head_end = _head_end(data, at)
        if head_end is None or not data.startswith(shape.head[:_LIST_SIZE_AT], at + 4):
            return None
        sibling = self._shape_of(data, at, data[at + 4 : head_end])
        if sibling is None or sibling is shape or sibling.handle != shape.handle or sibling.tail != shape.tail:
            return None
        return sibling


def _take_alike(
    shape: _Shape, data: bytes, at: int, size: int, frames: int, delivery_id: int, entries: list[bytes]
) -> int:
    """Append the entries of the frames at ``at`` that equal the frame before except in id, tag and content.

    Returns the number of these frames; ``frames`` is the number of complete frames to compare. The size is among the
    bytes compared, so each equal frame proves where the next one begins.
    """
    layout, entry, block = shape.layouts.get(size) or shape.layout(size)
    view = memoryview(data)[at : at + frames * size]
    if frames >= columns.COLUMNS_MIN and shape.are_alike(data, at, size, frames, delivery_id):
        rest = frames // _BLOCK_FRAMES * _BLOCK_FRAMES * size
        for contents in block.iter_unpack(view[:rest]):
            entries += contents
        entries += [content for (content,) in entry.iter_unpack(view[rest:])]
        return frames
    head, _, tag_lead, tail = layout.unpack_from(data, at - size)
    heads, delivery_ids, tag_leads, tails = zip(*layout.iter_unpack(view), strict=True)
    due, alike = tuple(range(delivery_id, delivery_id + frames)), frames
    if delivery_ids != due or not heads.count(head) == tag_leads.count(tag_lead) == tails.count(tail) == frames:
        fixed = ((heads, head), (tag_leads, tag_lead), (tails, tail))
        alike = min(leading_pairs(delivery_ids, due), *starmap(leading_equal, fixed))
    entries += [content for (content,) in entry.iter_unpack(view[: alike * size])]
    return alike


# --- learning a shape ---------------------------------------------------------------------------------------


def _head_end(data: bytes, position: int) -> int | None:
    """Where the value of delivery-id begins, which is where the head of the shape ends; None if this is no transfer."""
    if data[position + 8 : position + 11] != TRANSFER:
        return None
    try:
        handle_at = position + FIELDS_AT[data[position + 11]]
        return handle_at + UINT_BYTES[data[handle_at]] + 1
    except (IndexError, KeyError):
        return None


def _walk_performative(frame: bytes, head: bytes) -> _Shape | None:
    """The shape of a complete frame; may also raise IndexError or KeyError instead of returning None."""
    fields_at, fields_end, field_count = list_bounds(frame, FRAME_HEADER_BYTES + len(TRANSFER))
    handle_end = fields_at + UINT_BYTES[frame[fields_at]]
    id_code = frame[handle_end]
    tag_at = handle_end + UINT_BYTES[id_code]
    tag_code, tag_bytes = frame[tag_at], frame[tag_at + 1]
    tag_end = tag_at + 2 + tag_bytes
    fields = _walk_all(frame, tag_end, fields_end, field_count - 3, _FIELDS_AFTER_TAG)
    if fields is None or tag_code != codes.BINARY_8 or tag_bytes > _DELIVERY_TAG_BYTES_MAX:
        return None
    settled = fields[1] if len(fields) > 1 else b"\x40"
    return _Shape(
        head=head,
        id_format=ID_FORMAT[id_code],
        tag_lead=frame[tag_at : tag_at + 2],
        tail=frame[tag_end:fields_end],
        handle=int.from_bytes(frame[fields_at + 1 : handle_end]),
        settled=None if settled in NULL else settled in TRUE,
    )


def _like_messages(shape: _Shape, data: bytes, position: int) -> _Shape | None:
    """The shape, extended by the beginning of the message of the frame at ``position``; None if this message has to be
    checked. The shape refers to it from then on."""
    at = position + shape.entry_at
    end = position + int.from_bytes(data[position : position + 4])
    header_end = _header_end(data, at, end) if data.startswith(_HEADER_SECTION, at) else at
    body_at = header_end + _LEAD_BYTES
    length_format = _BODY_LENGTH_FORMAT.get(data[header_end:body_at])
    if length_format is None or body_at > end:
        return None
    shape.like = _Shape(
        head=shape.head,
        id_format=shape.id_format,
        tag_lead=shape.tag_lead,
        tail=shape.tail + data[at:body_at],
        handle=shape.handle,
        settled=shape.settled,
        header=data[at:header_end],
        length_format=length_format,
    )
    return shape.like


def _walk_all(
    frame: bytes, at: int, end: int, field_count: int, understood: tuple[frozenset[bytes], ...]
) -> list[bytes] | None:
    """The encoded fields from ``at`` to exactly ``end``; None when there are too many or one is not understood."""
    if not 0 <= field_count <= len(understood):
        return None
    walked = walk_fields(frame, at, understood[:field_count])
    return walked[0] if walked is not None and walked[1] == end else None


def _header_end(data: bytes, at: int, end: int) -> int:
    """The end of the header section at ``at`` in a message that ends at ``end``; ``at`` itself when it is not
    understood."""
    section = data[at : min(end, at + _HEADER_BYTES_MAX)]
    try:
        fields_at, fields_end, field_count = list_bounds(section, len(_HEADER_SECTION))
        fields = _walk_all(section, fields_at, fields_end, field_count, _HEADER_FIELDS)
    except (IndexError, KeyError):
        return at
    return at if fields is None else at + fields_end
