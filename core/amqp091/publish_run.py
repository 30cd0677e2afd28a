"""The fast path for incoming messages: several publishes of one channel at once, in runs of like ones.

A publish is three frames: the method basic.publish, the content header, and the body in one frame [0-9-1 4.2.6]. The
publishes of many programs repeat each other: only body size and body change. Such a message is taken because its frames
*equal* those of the message before everywhere else, without being decoded. Where sizes are equal too, many messages are
compared together, column by column, at C speed (``bench/micro/runs091.py``). Messages that differ from the one before
are taken one by one: method frames are remembered with the names in them, and what the broker needs of the property
list is found without decoding it. Where they differ in values only, which are in the same places in each, they are
compared together in columns too.

    | method frame, content header up to the weight | body size | properties .. body frame's channel | size | body | end
      `lead`, the same in all                         8 bytes     `middle`, the same in all            4 bytes

A message without a body has no body frame: a run of such messages repeats the same bytes.

Invariants:

- Only what the generic codec would accept, with the same result, is accepted: every size and end byte of each message
  is checked, or equals one that was.
- Bytes that are not fully understood are declined (None), never an error: the generic path handles them.
- A run has one exchange and mandatory bit; all runs of a call have one channel. They hold whole messages only; an
  incomplete message stays in the buffer.
- The work is linear in the bytes accepted: how many messages are compared at once doubles with success and falls back
  without it.

This module must not know channels' states, nor what a property means.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice, takewhile
from struct import Struct, iter_unpack
from typing import NamedTuple

from core.amqp091.content import BASIC_CLASS_ID, BODY_SIZE_AT, PROPERTIES_AT
from core.amqp091.framing import FRAME_END, FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FrameType
from core.amqp091.property_layout import ANY, FIXED, NEEDED, TEXT, PropertyLayout, PropertyLists, columns_of
from core.message import joined, part_of

SINGLES_MAX = 256
"""The most messages that one call takes one by one. At 3 µs for each, less than a millisecond passes before other
connections can get their turn."""
IN_COLUMNS = 4
"""Messages taken in columns that cost as much as one that is taken by itself."""
SINGLE_WORK, DECODED_BYTES_A_UNIT = 3, 8
"""The cost of a message that is taken by itself, and the bytes of a property list that are decoded, and encoded as far
as they are needed, for one unit of :mod:`core.work`."""
PROPERTY_BYTES_MAX = 4096
"""Once so many bytes of property lists have been decoded, a call ends: to decode a long table takes milliseconds."""
_SHAPES_MAX = 64
"""Shapes that a connection remembers."""
_METHODS_MAX = 2048
"""Method frames that a connection remembers, with the names in them."""
_SHAPE_BYTES_MAX = 2048
"""Larger shapes, with long header tables, are not remembered."""
COLUMNS_WAIT = 32
"""Messages that are taken one by one where columns were of no use: so that those cost a tenth of the time at most."""
LOOK_AHEAD_MAX = 1024
"""The most messages that are unpacked into columns at once."""
_KEY = -1
"""The kind of a routing key's bytes, beside those of a property list."""
_LOOK_AHEAD_MIN = 4
"""Messages compared at once after no success: enough to begin a run, and about 1 µs if none matches."""

_METHOD_FRAME, _HEADER_FRAME, _BODY_FRAME = int(FrameType.METHOD), int(FrameType.HEADER), int(FrameType.BODY)
_BASIC_PUBLISH = BASIC_CLASS_ID << 16 | 40
_BASIC_WITHOUT_WEIGHT = BASIC_CLASS_ID << 16
_PUBLISH_SIZE_MAX = 4 + 2 + 256 + 256 + 1
"""The largest payload of basic.publish: class and method id, reserved-1, two short strings, bits."""
_MANDATORY = 1
"""The bit of basic.publish that is understood; the other one, immediate, is 2."""
_UNUSUAL_FLAGS = 0b11
"""Flags that are not understood: more flags follow, and the bit without a property [0-9-1 4.2.6.1]."""

_PUBLISH = Struct(">BHII2xB")
"""Frame type, channel, size; class id and method id; reserved-1; length of exchange."""
_CONTENT_HEADER = Struct(">BHIIQH")
"""Frame type, channel, size; class id and weight; body size; property flags."""
_END_AND_FRAME = Struct(">BBHI")
"""The end of a frame, then the beginning of another."""
_BODY_LEAD_BYTES = 3
"""Frame type and channel of the body's frame, which are the same in like messages."""
_CONTENT_HEADER_SIZE_MIN = 14
_CONTENT_HEADER_BYTES_MIN = FRAME_OVERHEAD_BYTES + _CONTENT_HEADER_SIZE_MIN
_MESSAGE_BYTES_MIN = _PUBLISH.size + len(b"\x00\x00\xce") + _CONTENT_HEADER_BYTES_MIN
"""The shortest message: empty names, no property, no body."""


@dataclass(slots=True)
class PublishRun:
    """Messages that follow each other on one channel, to one exchange.

    Routing key and needed properties are one value if they are the same for all messages, else a list.
    """

    exchange: str
    routing_key: str | list[str]
    mandatory: bool
    needed: bytes | list[bytes]
    """What the broker needs of the properties (``core/amqp091/property_layout.py``)."""
    entries: list[bytes]
    """Content header and body of each message (``core/amqp091/content.py``)."""

    def part(self, start: int, stop: int) -> "PublishRun":
        """Return the messages from ``start`` (inclusive) to ``stop`` (exclusive)."""
        keys, needed = part_of(self.routing_key, start, stop), part_of(self.needed, start, stop)
        return PublishRun(self.exchange, keys, self.mandatory, needed, self.entries[start:stop])

    def take(self, other: "PublishRun") -> bool:
        """Append the messages of another run. Returns False if both cannot be one run."""
        if self.exchange != other.exchange or self.mandatory is not other.mandatory:
            return False
        count, further = len(self.entries), len(other.entries)
        self.routing_key = joined(self.routing_key, count, other.routing_key, further)
        self.needed = joined(self.needed, count, other.needed, further)
        self.entries += other.entries
        return True


class _Publish(NamedTuple):
    """What is in the frame of a basic.publish."""

    exchange: str
    routing_key: str
    mandatory: bool
    channel: int


@dataclass(slots=True, eq=False)
class _Shape:
    """The shape of like messages, learned from one of them: the bytes that are the same in all."""

    publish: _Publish
    needed: bytes
    lead: bytes
    middle: bytes
    header_at: int
    """Where the content header's payload begins, from the beginning of a message."""
    header_end: int
    empty: bool
    """Whether the messages have no body. Their middle ends with their content header frame."""
    template: Struct = field(init=False)
    """One message without its body."""
    look_ahead: int = field(init=False, default=_LOOK_AHEAD_MIN)

    def __post_init__(self) -> None:
        self.template = Struct(f">{len(self.lead)}sQ{len(self.middle)}sI")


class _Columns:
    """The columns of messages of one size whose property lists have one layout, and whose method frames are equal or
    differ in the routing key only. Learned from one of them."""

    __slots__ = ("_body_bytes", "_entry_form", "_form", "_kinds", "_model", "layout", "look_ahead", "publish", "size")

    def __init__(
        self,
        publish: _Publish,
        layout: PropertyLayout,
        message: bytes,
        properties_at: int,
        header_end: int,
        *,
        by_keys: bool,
    ) -> None:
        """``properties_at`` and ``header_end`` are places in the message. ``by_keys``: the routing keys may differ."""
        self.publish = publish
        self.layout = layout
        self.size = len(message)
        self.look_ahead = _LOOK_AHEAD_MIN
        body_bytes = max(0, self.size - header_end - 1 - FRAME_OVERHEAD_BYTES)
        body_lead = 1 + FRAME_HEADER_BYTES if body_bytes else 0
        key_at = _PUBLISH.size + len(publish.exchange.encode()) + 1
        key_bytes = message[key_at - 1] if by_keys else 0
        lead = [(FIXED, key_at), (_KEY, key_bytes), (FIXED, properties_at - key_at - key_bytes)]
        spans = [*lead, *layout.spans, (FIXED, body_lead), (ANY, body_bytes), (FIXED, 1)]
        self._form, self._kinds = columns_of(spans)
        self._model = Struct(self._form).unpack(message)
        header_at = properties_at - PROPERTIES_AT
        self._entry_form = f"{header_at}x{header_end - header_at}s{body_lead}x{body_bytes}sx"

    def take(self, data: bytes, position: int, n: int) -> PublishRun | None:
        """Take those of ``n`` messages, which would be complete, that fit these columns; None if the first does not."""
        columns = zip(*iter_unpack(self._form, memoryview(data)[position : position + n * self.size]), strict=True)
        count = n
        values: list[tuple[bytes, ...]] = []
        keys: tuple[bytes, ...] = ()
        alike = True
        for kind, column, piece in zip(self._kinds, columns, self._model, strict=True):
            if kind == FIXED:
                if column.count(piece) != n:
                    count = min(count, next(place for place, other in enumerate(column) if other != piece))
            elif kind == NEEDED:
                values.append(column)
                alike = alike and column.count(column[0]) == n
            elif not b"".join(column).isascii():
                assert kind in (TEXT, _KEY), "other values have no column"
                count = min(count, next(place for place, text in enumerate(column) if not text.isascii()))
            if kind == _KEY:
                keys = column
        known = self.layout.known
        needed: bytes | list[bytes] | None
        each: Iterable[object] = values[0] if len(values) == 1 else zip(*values, strict=True)
        if alike:
            needed = known.get(next(iter(each), None))
            count = 0 if needed is None else count
        else:
            needed = [part for part in takewhile(_is_known, map(known.get, islice(each, count))) if part is not None]
            count = len(needed)
        if not count or needed is None:
            return None
        view = memoryview(data)[position : position + count * self.size]
        entries = [header + body for header, body in iter_unpack(self._entry_form, view)]
        publish = self.publish
        routing_key = [str(key, "ascii") for key in keys[:count]] if keys else publish.routing_key
        return PublishRun(publish.exchange, routing_key, publish.mandatory, needed, entries)


def _is_known(needed: bytes | None) -> bool:
    return needed is not None


class PublishRunParser:
    """Parses runs in a receive buffer. There is one per connection, because it remembers shapes."""

    __slots__ = (
        "_body_max", "_columns", "_columns_wait", "_latest", "_latest_layout", "_latest_properties", "_latest_size",
        "_lists", "_methods", "_payload_max", "_shapes", "work_done",
    )  # fmt: skip

    def __init__(self, *, frame_max: int, body_max: int) -> None:
        """``frame_max`` is the agreed size in bytes, never the 0 that means no limit; ``body_max`` is in bytes."""
        self._payload_max = frame_max - FRAME_OVERHEAD_BYTES
        self._body_max = min(self._payload_max, body_max)
        self._lists = PropertyLists()
        self._methods: dict[bytes, _Publish] = {}
        self._shapes: dict[bytes, _Shape] = {}
        self._latest: _Publish | None = None
        self._latest_properties = b""
        """Those of the message that was taken by itself last. When the next one has the same, a shape is learned;
        where no two messages in succession are alike, a shape would never be used."""
        self._latest_layout: PropertyLayout | None = None
        self._latest_size = 0
        """The layout of its property list, and its size. When the next one has the same, columns are learned."""
        self._columns: _Columns | None = None
        self._columns_wait = 0
        """How many messages are taken one by one before columns are learned again, because the last ones were of no
        use."""
        self.work_done = 0
        """What messages that are not like the one before them have cost so far, in units of :mod:`core.work`."""

    def parse(
        self, data: bytes, position: int, stop: int, publishes_max: int, singles_max: int = SINGLES_MAX
    ) -> tuple[list[PublishRun], int]:
        """Return the runs that begin at ``position``, on one channel, and the position behind them.

        They are at most ``publishes_max`` messages, of which at most ``singles_max`` are not like the one before them,
        fewer if their property lists are long. There are none where the first message is incomplete or not understood.
        Received data ends at ``stop``.
        """
        runs: list[PublishRun] = []
        channel = data[position + 1 : position + 3]
        decoded_before, singles_left = self._lists.decoded_bytes, singles_max
        decoded_bytes_max = decoded_before + PROPERTY_BYTES_MAX
        while (
            publishes_max > 0
            and singles_left > 0
            and self._lists.decoded_bytes < decoded_bytes_max
            and data[position + 1 : position + 3] == channel
        ):
            run, end = self._alike(data, position, stop, publishes_max)
            if run is None and self._columns is not None:
                columns_max = min(publishes_max, IN_COLUMNS * singles_left)
                run, end = self._in_columns(self._columns, data, position, stop, columns_max)
                if run is not None:
                    singles_left -= -(-len(run.entries) // IN_COLUMNS)
            if run is None:
                run, end = self._singly(data, position, stop, min(publishes_max, singles_left), decoded_bytes_max)
                if run is None:
                    break
                singles_left -= len(run.entries)
            publishes_max -= len(run.entries)
            position = end
            if not (runs and runs[-1].take(run)):
                runs.append(run)
        decoded_bytes = self._lists.decoded_bytes - decoded_before
        self.work_done += SINGLE_WORK * (singles_max - singles_left) + decoded_bytes // DECODED_BYTES_A_UNIT
        return runs, position

    def _alike(self, data: bytes, position: int, stop: int, publishes_max: int) -> tuple[PublishRun | None, int]:
        """Take the messages that equal a shape; None if the first one does not."""
        method_size = int.from_bytes(data[position + 3 : position + FRAME_HEADER_BYTES], "big")
        if stop - position < _MESSAGE_BYTES_MIN or method_size > _PUBLISH_SIZE_MAX:
            return None, position
        lead = data[position : position + method_size + FRAME_OVERHEAD_BYTES + FRAME_HEADER_BYTES + BODY_SIZE_AT]
        shape = self._shapes.get(lead)
        if shape is None:
            return None, position
        if shape.empty:
            entries, end = _take_empty(shape, data, position, stop, publishes_max)
        else:
            entries, end = _take_bodies(shape, data, position, stop, publishes_max, self._body_max)
        if not entries:
            return None, position
        publish = shape.publish
        return PublishRun(publish.exchange, publish.routing_key, publish.mandatory, shape.needed, entries), end

    def _in_columns(
        self, columns: _Columns, data: bytes, position: int, stop: int, publishes_max: int
    ) -> tuple[PublishRun | None, int]:
        """Take messages that fit the columns of the one before; None if the first one does not."""
        n = min(columns.look_ahead, publishes_max, (stop - position) // columns.size)
        if not n:
            return None, position
        run = columns.take(data, position, n)
        count = 0 if run is None else len(run.entries)
        if count < n:
            if columns.look_ahead == _LOOK_AHEAD_MIN:
                self._columns_wait = COLUMNS_WAIT
            self._columns = None
        else:
            columns.look_ahead = min(2 * columns.look_ahead, LOOK_AHEAD_MAX)
        return run, position + count * columns.size

    def _singly(
        self, data: bytes, position: int, stop: int, count_max: int, decoded_bytes_max: int
    ) -> tuple[PublishRun | None, int]:
        """Take messages to one exchange one by one, up to the second of two in succession that are alike, or have their
        values in the same places, or to one that is not understood. None if that is the first one."""
        methods, lists = self._methods, self._lists
        entries: list[bytes] = []
        keys: list[str] = []
        all_needed: list[bytes] = []
        first: _Publish | None = None
        first_needed = b""
        unlike_keys = unlike_needed = False
        at = position
        while len(entries) < count_max and stop - at >= _MESSAGE_BYTES_MIN:
            method_size = int.from_bytes(data[at + 3 : at + FRAME_HEADER_BYTES], "big")
            header_at = at + method_size + FRAME_OVERHEAD_BYTES + FRAME_HEADER_BYTES
            if method_size > _PUBLISH_SIZE_MAX or header_at + _CONTENT_HEADER_SIZE_MIN > stop:
                break
            method = data[at : header_at - FRAME_HEADER_BYTES]
            publish = methods.get(method) or self._method_anew(method)
            if publish is None:
                break
            content = self._content(data, header_at, stop, publish.channel)
            if content is None:
                break
            properties, entry, end = content
            needed = lists.needed(properties)
            if needed is None:
                break
            if first is None:
                first, first_needed = publish, needed
            elif publish is not first:
                if (
                    publish.exchange != first.exchange
                    or publish.mandatory is not first.mandatory
                    or publish.channel != first.channel
                ):
                    break
                unlike_keys = True
            if needed is not first_needed:
                unlike_needed = True
            entries.append(entry)
            keys.append(publish.routing_key)
            all_needed.append(needed)
            is_known = self._learn(publish, needed, data, at, header_at, end, properties)
            self._latest, self._latest_properties = publish, properties
            self._latest_layout, self._latest_size = lists.layout, end - at
            self._columns_wait -= 1
            at = end
            if is_known:
                break
            if lists.decoded_bytes >= decoded_bytes_max:
                break
        if first is None:
            return None, position
        run = PublishRun(
            first.exchange,
            keys if unlike_keys else first.routing_key,
            first.mandatory,
            all_needed if unlike_needed else first_needed,
            entries,
        )
        return run, at

    def _content(self, data: bytes, header_at: int, stop: int, channel: int) -> tuple[bytes, bytes, int] | None:
        """Return the properties, the entry, and the position behind a message whose content header's payload begins at
        ``header_at``; None when it is incomplete or not understood."""
        frame_type, its_channel, size, basic, body_size, flags = _CONTENT_HEADER.unpack_from(
            data, header_at - FRAME_HEADER_BYTES
        )
        header_end = header_at + size
        if (
            frame_type != _HEADER_FRAME
            or its_channel != channel
            or basic != _BASIC_WITHOUT_WEIGHT
            or flags & _UNUSUAL_FLAGS
            or not _CONTENT_HEADER_SIZE_MIN <= size <= self._payload_max
            or header_end >= stop
        ):
            return None
        properties = data[header_at + PROPERTIES_AT : header_end]
        if not body_size:
            if data[header_end] != FRAME_END:
                return None
            return properties, data[header_at:header_end], header_end + 1
        body_at = header_end + 1 + FRAME_HEADER_BYTES
        end = body_at + body_size
        if (
            body_size > self._body_max
            or end >= stop
            or data[end] != FRAME_END
            or data[header_end:body_at] != _END_AND_FRAME.pack(FRAME_END, _BODY_FRAME, channel, body_size)
        ):
            return None
        return properties, data[header_at:header_end] + data[body_at:end], end + 1

    def _method_anew(self, method: bytes) -> _Publish | None:
        """Read the frame of a basic.publish, which may be cut; None when it is not understood."""
        if len(method) < _PUBLISH.size + len(b"\x00\x00\xce"):
            return None
        frame_type, channel, size, method_id, exchange_bytes = _PUBLISH.unpack_from(method)
        if frame_type != _METHOD_FRAME or method_id != _BASIC_PUBLISH or channel == 0 or size > self._payload_max:
            return None
        end = FRAME_HEADER_BYTES + size
        key_at = _PUBLISH.size + exchange_bytes
        if key_at >= end:
            return None
        bits_at = key_at + 1 + method[key_at]
        if bits_at + 1 != end or method[bits_at] > _MANDATORY or method[end] != FRAME_END:
            return None
        try:
            exchange = str(method[_PUBLISH.size : key_at], "utf-8")
            routing_key = str(method[key_at + 1 : bits_at], "utf-8")
        except UnicodeDecodeError:
            return None
        publish = _Publish(exchange, routing_key, method[bits_at] == _MANDATORY, channel)
        if len(self._methods) >= _METHODS_MAX:
            self._methods.clear()
        self._methods[method] = publish
        return publish

    def _learn(
        self, publish: _Publish, needed: bytes, data: bytes, position: int, header_at: int, end: int, properties: bytes
    ) -> bool:
        """Learn the shape or the columns of the message from ``position`` to ``end``. Returns False if the one before
        has neither."""
        alike = publish is self._latest
        if alike and properties == self._latest_properties:
            lead = data[position : header_at + BODY_SIZE_AT]
            header_end = header_at + PROPERTIES_AT + len(properties)
            empty = end == header_end + 1
            middle = data[header_at + PROPERTIES_AT : header_end + 1 + (0 if empty else _BODY_LEAD_BYTES)]
            if len(lead) + len(middle) <= _SHAPE_BYTES_MAX:
                self._shapes.pop(lead, None)
                if len(self._shapes) >= _SHAPES_MAX:
                    del self._shapes[next(iter(self._shapes))]
                self._shapes[lead] = _Shape(
                    publish, needed, lead, middle, header_at - position, header_end - position, empty
                )
            return True
        layout = self._lists.layout
        if end - position != self._latest_size or layout is None or layout is not self._latest_layout:
            return False
        if self._columns_wait > 0:
            return False
        properties_at = header_at + PROPERTIES_AT - position
        header_end = properties_at + len(properties)
        self._columns = _Columns(publish, layout, data[position:end], properties_at, header_end, by_keys=not alike)
        return True


def _take_empty(shape: _Shape, data: bytes, position: int, stop: int, publishes_max: int) -> tuple[list[bytes], int]:
    """Take the messages without a body; return them, and the position behind them."""
    message = b"".join((shape.lead, bytes(8), shape.middle))
    n = 0
    at = position
    while n < publishes_max and data.startswith(message, at, stop):
        n += 1
        at += len(message)
    return [message[shape.header_at : shape.header_end]] * n, at


def _take_bodies(
    shape: _Shape, data: bytes, position: int, stop: int, publishes_max: int, body_max: int
) -> tuple[list[bytes], int]:
    """Take the messages that equal the shape, one by one or, behind two of the same size, together. Returns them and
    the position behind them."""
    unpack = shape.template.unpack_from
    fixed_bytes = shape.template.size
    lead, middle, header_at, header_end = shape.lead, shape.middle, shape.header_at, shape.header_end
    entries: list[bytes] = []
    at = position
    previous_size = 0
    while len(entries) < publishes_max and stop - at > fixed_bytes:
        its_lead, body_size, its_middle, size = unpack(data, at)
        if its_lead != lead or its_middle != middle or size != body_size or not 0 < size <= body_max:
            break
        end = at + fixed_bytes + size
        if end >= stop or data[end] != FRAME_END:
            break
        header = data[at + header_at : at + header_end]
        entries.append(header + data[at + fixed_bytes : end])
        at = end + 1
        if size == previous_size:
            message_bytes = fixed_bytes + size + 1
            n = min(shape.look_ahead, publishes_max - len(entries), (stop - at) // message_bytes)
            if n:
                bodies = _bodies_alike(data, at, n, fixed_bytes, size)
                entries += [header + body for body in bodies]
                at += len(bodies) * message_bytes
                if len(bodies) < n or n == shape.look_ahead:
                    shape.look_ahead = max(2 * len(bodies), _LOOK_AHEAD_MIN)
        previous_size = size
    return entries, at


def _bodies_alike(data: bytes, at: int, n: int, fixed_bytes: int, body_bytes: int) -> tuple[bytes, ...]:
    """The bodies of the messages at ``at`` that equal the one before, of ``n`` that would be complete.

    The sizes are among the bytes compared, so each equal message proves where the next one begins. The end byte of a
    body is compared together with the bytes behind it; the last one's by itself.
    """
    message_bytes = fixed_bytes + body_bytes + 1
    begin = at - 1
    fixed = data[begin - message_bytes : begin - body_bytes]
    view = memoryview(data)[begin : begin + n * message_bytes]
    columns, bodies = zip(*iter_unpack(f"{len(fixed)}s{body_bytes}s", view), strict=True)
    alike = n if columns.count(fixed) == n else next(i for i, column in enumerate(columns) if column != fixed)
    if alike and data[begin + alike * message_bytes] != FRAME_END:
        alike -= 1
    return bodies if alike == n else bodies[:alike]
