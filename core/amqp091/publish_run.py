"""The fast path for incoming messages: runs of like publishes, compared as bytes instead of decoded.

A publish is three frames: the method basic.publish, the content header, and the body in one frame [0-9-1 4.2.6]. The
publishes of a program repeat each other: only body size and body change. The first one is parsed field by field; each
later message is taken because its frames *equal* the first one's everywhere else. Where sizes are equal too, many
messages are compared together, column by column, at C speed (``bench/micro/runs091.py``).

    | method frame, content header up to the weight | body size | properties .. body frame's channel | size | body | end
      `lead`, the same in all                         8 bytes     `middle`, the same in all            4 bytes

A message without a body has no body frame: a run of such messages repeats the same bytes.

Invariants:

- Only what the generic codec would accept, with the same result, is accepted: every size and end byte of each message
  is checked, or equals one that was.
- Bytes that are not fully understood are declined (None), never an error: the generic path handles them.
- A run has one channel, exchange, routing key, mandatory bit and properties. It holds whole messages only; an
  incomplete message stays in the buffer.
- The work is linear in the bytes accepted: how many messages are compared at once doubles with success and falls back
  without it.

This module must not know channels' states, nor what a property means.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct, iter_unpack

from core.amqp091.content import BASIC_CLASS_ID, PROPERTIES_AT
from core.amqp091.framing import FRAME_END, FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FrameType
from core.amqp091.properties import BasicProperties

_SHAPES_MAX = 64
"""Shapes that a connection remembers: one for each of the targets to which a program publishes in turn."""
_SHAPE_BYTES_MAX = 2048
"""Larger shapes, with long header tables, are learned each time."""
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
_CONTENT_HEADER_SIZE_MIN = 14
_BODY_SIZE_AT = 4
"""The place of the body size, from the beginning of the content header's payload."""
_CONTENT_HEADER_BYTES_MIN = FRAME_OVERHEAD_BYTES + _CONTENT_HEADER_SIZE_MIN
_MESSAGE_BYTES_MIN = _PUBLISH.size + len(b"\x00\x00\xce") + _CONTENT_HEADER_BYTES_MIN
"""The shortest message: empty names, no property, no body."""


@dataclass(slots=True)
class PublishRun:
    """Whole messages of one channel, alike in everything but their bodies."""

    channel: int
    exchange: str
    routing_key: str
    mandatory: bool
    properties: bytes
    """Property flags and list of each of them, as received."""
    decoded: BasicProperties
    """The same properties, decoded."""
    entries: list[bytes]
    """The content header frame's payload and the body, for each message."""
    end_position: int
    """Where the run ends in the buffer."""


@dataclass(slots=True, eq=False)
class _Shape:
    """The shape of like messages, learned from one of them: the bytes that are the same in all."""

    channel: int
    exchange: str
    routing_key: str
    mandatory: bool
    properties: bytes
    decoded: BasicProperties
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


class PublishRunParser:
    """Parses runs in a receive buffer. There is one per connection, because it remembers shapes."""

    __slots__ = ("_body_max", "_decode", "_payload_max", "_shapes")

    def __init__(self, *, frame_max: int, body_max: int, decode: Callable[[bytes], BasicProperties | None]) -> None:
        """``frame_max`` is the agreed size in bytes, never the 0 that means no limit; ``body_max`` is in bytes.

        ``decode`` returns the generic codec's result for property flags and list; None where the codec does not accept
        them.
        """
        self._payload_max = frame_max - FRAME_OVERHEAD_BYTES
        self._body_max = min(self._payload_max, body_max)
        self._decode = decode
        self._shapes: dict[bytes, _Shape] = {}

    def parse(self, data: bytes, position: int, stop: int, publishes_max: int) -> PublishRun | None:
        """Return the longest run that begins at ``position``, at most ``publishes_max`` messages; None for anything
        else.

        Received data ends at ``stop``.
        """
        method_size = int.from_bytes(data[position + 3 : position + FRAME_HEADER_BYTES], "big")
        if stop - position < _MESSAGE_BYTES_MIN or method_size > _PUBLISH_SIZE_MAX:
            return None
        lead_end = position + method_size + FRAME_OVERHEAD_BYTES + FRAME_HEADER_BYTES + _BODY_SIZE_AT
        shape = self._shapes.get(data[position:lead_end])
        run = None if shape is None else self._take(shape, data, position, stop, publishes_max)
        if run is None:
            shape = self._learn(data, position, stop)
            if shape is None:
                return None
            run = self._take(shape, data, position, stop, publishes_max)
            if run is not None:
                self._keep(shape)
        return run

    def _keep(self, shape: _Shape) -> None:
        if len(shape.lead) + len(shape.middle) > _SHAPE_BYTES_MAX:
            return
        self._shapes.pop(shape.lead, None)
        if len(self._shapes) >= _SHAPES_MAX:
            del self._shapes[next(iter(self._shapes))]
        self._shapes[shape.lead] = shape

    def _take(self, shape: _Shape, data: bytes, position: int, stop: int, publishes_max: int) -> PublishRun | None:
        """Take the run of messages that equal the shape."""
        if shape.empty:
            entries, end = _take_empty(shape, data, position, stop, publishes_max)
        else:
            entries, end = _take_bodies(shape, data, position, stop, publishes_max, self._body_max)
        if not entries:
            return None
        return PublishRun(
            shape.channel,
            shape.exchange,
            shape.routing_key,
            shape.mandatory,
            shape.properties,
            shape.decoded,
            entries,
            end,
        )

    def _learn(self, data: bytes, position: int, stop: int) -> _Shape | None:
        """Learn the shape of the message at ``position``; None when its first two frames are incomplete or not
        understood."""
        frame_type, channel, size, method, exchange_bytes = _PUBLISH.unpack_from(data, position)
        if frame_type != _METHOD_FRAME or method != _BASIC_PUBLISH or channel == 0:
            return None
        method_end = position + FRAME_HEADER_BYTES + size
        exchange_at = position + _PUBLISH.size
        key_at = exchange_at + exchange_bytes
        if size > self._payload_max or stop - method_end < 1 + _CONTENT_HEADER_BYTES_MIN or key_at >= method_end:
            return None
        bits_at = key_at + 1 + data[key_at]
        if bits_at + 1 != method_end or data[bits_at] > _MANDATORY or data[method_end] != FRAME_END:
            return None
        header_end = self._content_header_end(data, method_end + 1, stop, channel)
        if header_end is None:
            return None
        header_at = method_end + 1 + FRAME_HEADER_BYTES
        properties = data[header_at + PROPERTIES_AT : header_end]
        names = data[exchange_at:key_at], data[key_at + 1 : bits_at]
        decoded = self._decode(properties)
        if decoded is None:
            return None
        try:
            exchange, routing_key = (str(name, "utf-8") for name in names)
        except UnicodeDecodeError:
            return None
        empty = not any(data[header_at + _BODY_SIZE_AT : header_at + PROPERTIES_AT])
        body_frame_lead = b"" if empty else bytes((_BODY_FRAME,)) + channel.to_bytes(2, "big")
        return _Shape(
            channel=channel,
            exchange=exchange,
            routing_key=routing_key,
            mandatory=data[bits_at] == _MANDATORY,
            properties=properties,
            decoded=decoded,
            lead=data[position : header_at + _BODY_SIZE_AT],
            middle=data[header_at + PROPERTIES_AT : header_end + 1] + body_frame_lead,
            header_at=header_at - position,
            header_end=header_end - position,
            empty=empty,
        )

    def _content_header_end(self, data: bytes, at: int, stop: int, channel: int) -> int | None:
        """Where the payload of the content header frame at ``at`` ends; None when it is not understood."""
        frame_type, its_channel, size, basic, _, flags = _CONTENT_HEADER.unpack_from(data, at)
        if frame_type != _HEADER_FRAME or its_channel != channel or basic != _BASIC_WITHOUT_WEIGHT:
            return None
        end: int = at + FRAME_HEADER_BYTES + size
        if not _CONTENT_HEADER_SIZE_MIN <= size <= self._payload_max or flags & _UNUSUAL_FLAGS:
            return None
        return end if end < stop and data[end] == FRAME_END else None


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
