"""The fast path for incoming messages: several publishes of one channel at once, in runs of like ones.

A publish is three frames: the method basic.publish, the content header, and the body in one frame [0-9-1 4.2.6]. The
publishes of many programs repeat each other: only body size and body change. Such a message is taken because its frames
*equal* those of the message before everywhere else, without being decoded. Where sizes are equal too, many messages are
compared together, column by column, at C speed (``bench/micro/runs091.py``). A message that differs from the one before
is parsed field by field, and begins another run.

    | method frame, content header up to the weight | body size | properties .. body frame's channel | size | body | end
      `lead`, the same in all                         8 bytes     `middle`, the same in all            4 bytes

A message without a body has no body frame: a run of such messages repeats the same bytes.

Invariants:

- Only what the generic codec would accept, with the same result, is accepted: every size and end byte of each message
  is checked, or equals one that was.
- Bytes that are not fully understood are declined (None), never an error: the generic path handles them.
- A run has one exchange, routing key, mandatory bit and properties; all runs of a call have one channel. They hold
  whole messages only; an incomplete message stays in the buffer.
- The work is linear in the bytes accepted: how many messages are compared at once doubles with success and falls back
  without it.

This module must not know channels' states, nor what a property means.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from struct import Struct, iter_unpack

from core.amqp091.content import BASIC_CLASS_ID, PROPERTIES_AT
from core.amqp091.framing import FRAME_END, FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FrameType
from core.amqp091.properties import BasicProperties

RUNS_MAX = 64
"""The most runs that one call takes: at 20 µs for a run of one message until it is in its queue, little more than a
millisecond passes before other connections can get their turn."""
PROPERTY_BYTES_MAX = 4096
"""Once so many bytes of property lists have been read, a call ends: to decode a long table takes milliseconds."""
_SHAPES_MAX = 64
"""Shapes that a connection remembers, and property lists whose decoded form it remembers."""
_SHAPE_BYTES_MAX = 2048
"""Larger shapes, with long header tables, are not remembered. Larger property lists are decoded each time."""
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
_FRAME = Struct(">BHI")
"""Frame type, channel, size."""
_BODY_LEAD_BYTES = 3
"""Frame type and channel of the body's frame, which are the same in like messages."""
_CONTENT_HEADER_SIZE_MIN = 14
_BODY_SIZE_AT = 4
"""The place of the body size, from the beginning of the content header's payload."""
_CONTENT_HEADER_BYTES_MIN = FRAME_OVERHEAD_BYTES + _CONTENT_HEADER_SIZE_MIN
_MESSAGE_BYTES_MIN = _PUBLISH.size + len(b"\x00\x00\xce") + _CONTENT_HEADER_BYTES_MIN
"""The shortest message: empty names, no property, no body."""


@dataclass(slots=True)
class PublishRun:
    """Messages that follow each other on one channel, alike in everything but their bodies."""

    exchange: str
    routing_key: str
    mandatory: bool
    properties: bytes
    """Property flags and list of each of them, as received. They can be decoded."""
    decoded: BasicProperties | None
    """The same properties, decoded, where that was done already."""
    entries: list[bytes]
    """Content header and body of each message (``core/amqp091/content.py``)."""

    def like(self, other: "PublishRun") -> bool:
        """Return whether both may be one run."""
        return (
            self.routing_key == other.routing_key
            and self.properties == other.properties
            and self.exchange == other.exchange
            and self.mandatory is other.mandatory
        )


@dataclass(slots=True, eq=False)
class _Shape:
    """The shape of like messages, learned from one of them: the bytes that are the same in all."""

    model: PublishRun
    """What the messages have in common, as a run without entries."""
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

    __slots__ = ("_body_max", "_decode", "_decoded", "_latest_lead", "_latest_properties", "_payload_max", "_shapes")

    def __init__(self, *, frame_max: int, body_max: int, decode: Callable[[bytes], BasicProperties | None]) -> None:
        """``frame_max`` is the agreed size in bytes, never the 0 that means no limit; ``body_max`` is in bytes.

        ``decode`` returns the generic codec's result for property flags and list; None where the codec does not accept
        them.
        """
        self._payload_max = frame_max - FRAME_OVERHEAD_BYTES
        self._body_max = min(self._payload_max, body_max)
        self._decode = decode
        self._shapes: dict[bytes, _Shape] = {}
        self._decoded: dict[bytes, BasicProperties] = {}
        self._latest_lead = self._latest_properties = b""
        """Those of the message that was parsed field by field last. When the next one has the same, a shape is learned;
        where no two messages in succession are alike, a shape would never be used."""

    def parse(
        self, data: bytes, position: int, stop: int, publishes_max: int, runs_max: int = RUNS_MAX
    ) -> tuple[list[PublishRun], int]:
        """Return the runs that begin at ``position``, on one channel, and the position behind them.

        They are at most ``publishes_max`` messages in at most ``runs_max`` runs, fewer if their property lists are
        long. There are none where the first message is incomplete or not understood. Received data ends at ``stop``.
        """
        runs: list[PublishRun] = []
        channel = data[position + 1 : position + 3]
        bytes_left = PROPERTY_BYTES_MAX
        while (
            publishes_max > 0
            and bytes_left > 0
            and len(runs) < runs_max
            and data[position + 1 : position + 3] == channel
        ):
            run, end = self._take(data, position, stop, publishes_max)
            if run is None:
                break
            publishes_max -= len(run.entries)
            bytes_left -= len(run.properties)
            position = end
            if runs and run.like(runs[-1]):
                runs[-1].entries += run.entries
            else:
                runs.append(run)
        return runs, position

    def _take(self, data: bytes, position: int, stop: int, publishes_max: int) -> tuple[PublishRun | None, int]:
        """Take the run at ``position``; None when its first message is incomplete or not understood."""
        method_size = int.from_bytes(data[position + 3 : position + FRAME_HEADER_BYTES], "big")
        if stop - position < _MESSAGE_BYTES_MIN or method_size > _PUBLISH_SIZE_MAX:
            return None, position
        lead = data[position : position + method_size + FRAME_OVERHEAD_BYTES + FRAME_HEADER_BYTES + _BODY_SIZE_AT]
        shape = self._shapes.get(lead)
        if shape is not None:
            run, end = self._like(shape, data, position, stop, publishes_max)
            if run is not None:
                return run, end
        run, end = self._single(data, position, stop)
        if run is not None:
            if lead == self._latest_lead and run.properties == self._latest_properties:
                self._learn(run, lead, data, position)
            self._latest_lead, self._latest_properties = lead, run.properties
        return run, end

    def _like(
        self, shape: _Shape, data: bytes, position: int, stop: int, publishes_max: int
    ) -> tuple[PublishRun | None, int]:
        """Take the run of messages that equal the shape."""
        if shape.empty:
            entries, end = _take_empty(shape, data, position, stop, publishes_max)
        else:
            entries, end = _take_bodies(shape, data, position, stop, publishes_max, self._body_max)
        if not entries:
            return None, position
        model = shape.model
        run = PublishRun(model.exchange, model.routing_key, model.mandatory, model.properties, model.decoded, entries)
        return run, end

    def _learn(self, model: PublishRun, lead: bytes, data: bytes, position: int) -> None:
        """Learn the shape of the message at ``position``."""
        header_at = len(lead) - _BODY_SIZE_AT
        header_end = header_at + PROPERTIES_AT + len(model.properties)
        empty = len(model.entries[0]) == PROPERTIES_AT + len(model.properties)
        middle_end = position + header_end + 1 + (0 if empty else _BODY_LEAD_BYTES)
        middle = data[position + header_at + PROPERTIES_AT : middle_end]
        shape = _Shape(replace(model, entries=[]), lead, middle, header_at, header_end, empty)
        if len(shape.lead) + len(shape.middle) <= _SHAPE_BYTES_MAX:
            self._shapes.pop(lead, None)
            if len(self._shapes) >= _SHAPES_MAX:
                del self._shapes[next(iter(self._shapes))]
            self._shapes[lead] = shape

    def _single(self, data: bytes, position: int, stop: int) -> tuple[PublishRun | None, int]:
        """Take the message at ``position``, field by field; None when it is incomplete or not understood."""
        nothing = None, position
        frame_type, channel, size, method, exchange_bytes = _PUBLISH.unpack_from(data, position)
        if frame_type != _METHOD_FRAME or method != _BASIC_PUBLISH or channel == 0:
            return nothing
        method_end = position + FRAME_HEADER_BYTES + size
        key_at = position + _PUBLISH.size + exchange_bytes
        if size > self._payload_max or stop - method_end < 1 + _CONTENT_HEADER_BYTES_MIN or key_at >= method_end:
            return nothing
        bits_at = key_at + 1 + data[key_at]
        if bits_at + 1 != method_end or data[bits_at] > _MANDATORY or data[method_end] != FRAME_END:
            return nothing
        header_end = self._content_header_end(data, method_end + 1, stop, channel)
        if header_end is None:
            return nothing
        header_at = method_end + 1 + FRAME_HEADER_BYTES
        body_size = int.from_bytes(data[header_at + _BODY_SIZE_AT : header_at + PROPERTIES_AT], "big")
        end = header_end + 1
        entry = data[header_at:header_end]
        if body_size:
            body_at = end + FRAME_HEADER_BYTES
            if body_size > self._body_max or stop <= body_at + body_size:
                return nothing
            end = body_at + body_size + 1
            if (
                data[header_end + 1 : body_at] != _FRAME.pack(_BODY_FRAME, channel, body_size)
                or data[end - 1] != FRAME_END
            ):
                return nothing
            entry += data[body_at : end - 1]
        properties = data[header_at + PROPERTIES_AT : header_end]
        decoded = self._decoded.get(properties) or self._decode_anew(properties)
        if decoded is None:
            return nothing
        try:
            exchange = str(data[position + _PUBLISH.size : key_at], "utf-8")
            routing_key = str(data[key_at + 1 : bits_at], "utf-8")
        except UnicodeDecodeError:
            return nothing
        return PublishRun(exchange, routing_key, data[bits_at] == _MANDATORY, properties, decoded, [entry]), end

    def _decode_anew(self, properties: bytes) -> BasicProperties | None:
        decoded = self._decode(properties)
        if decoded is not None and len(properties) <= _SHAPE_BYTES_MAX:
            if len(self._decoded) >= _SHAPES_MAX:
                self._decoded.clear()
            self._decoded[properties] = decoded
        return decoded

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
