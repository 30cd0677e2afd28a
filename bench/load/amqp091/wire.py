"""The small part of AMQP 0.9.1 that a load generator uses.

Written for this folder alone, like the module for AMQP 1.0. Methods at the beginning and end of a run are assembled
from single values; those within a run (publish, deliver, ack) come from stencils and fixed layouts. A frame is type,
channel, size, payload and 0xCE [0-9-1 4.2.3].
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from bench.load.wire import WireError

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME, HEADER_FRAME, BODY_FRAME, HEARTBEAT_FRAME = 1, 2, 3, 8
FRAME_END: Final = 0xCE
FRAME_HEAD: Final = struct.Struct(">BHI")
"""Type, channel, size of the payload."""
FRAME_EXTRA: Final = FRAME_HEAD.size + 1
"""How many bytes longer a frame is than its payload."""
HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

CONNECTION_START, CONNECTION_START_OK = (10, 10), (10, 11)
CONNECTION_TUNE, CONNECTION_TUNE_OK = (10, 30), (10, 31)
CONNECTION_OPEN, CONNECTION_OPEN_OK = (10, 40), (10, 41)
CONNECTION_CLOSE, CONNECTION_CLOSE_OK = (10, 50), (10, 51)
CONNECTION_BLOCKED, CONNECTION_UNBLOCKED = (10, 60), (10, 61)
CHANNEL_OPEN, CHANNEL_OPEN_OK = (20, 10), (20, 11)
CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (20, 40), (20, 41)
BASIC_QOS, BASIC_QOS_OK = (60, 10), (60, 11)
BASIC_CONSUME, BASIC_CONSUME_OK = (60, 20), (60, 21)
BASIC_PUBLISH, BASIC_DELIVER = (60, 40), (60, 60)
BASIC_ACK, BASIC_NACK = (60, 80), (60, 120)
CONFIRM_SELECT, CONFIRM_SELECT_OK = (85, 10), (85, 11)

DELIVERY_MODE: Final = 0x1000
"""The flag of the property delivery-mode; its value 2 is persistent."""
_FIXED_WIDTHS: Final = {
    "t": ">?", "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q", "T": ">Q",
    "f": ">f", "d": ">d",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame; `method` has class and method id of a method frame, otherwise (0, 0)."""

    kind: int
    channel: int
    method: tuple[int, int]
    payload: bytes


# Encoding


def short_string(text: str) -> bytes:
    raw = text.encode()
    return bytes((len(raw),)) + raw


def long_string(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def table(entries: dict[str, bytes]) -> bytes:
    """Encode a field table; its values are encoded already, with their type octets [0-9-1 4.2.5.5]."""
    return long_string(b"".join(short_string(name) + value for name, value in entries.items()))


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return FRAME_HEAD.pack(kind, channel, len(payload)) + payload + b"\xce"


def method(channel: int, ids: tuple[int, int], arguments: bytes = b"") -> bytes:
    return frame(METHOD_FRAME, channel, struct.pack(">HH", *ids) + arguments)


def qos(channel: int, prefetch_count: int) -> bytes:
    """Encode the prefetch count for each later consumer on the channel."""
    return method(channel, BASIC_QOS, struct.pack(">IHB", 0, prefetch_count, 0))


def consume(channel: int, queue: str, *, no_ack: bool) -> bytes:
    """Encode basic.consume with the consumer tag "c"."""
    flags = 2 if no_ack else 0
    arguments = struct.pack(">H", 0) + short_string(queue) + short_string("c") + bytes((flags,)) + table({})
    return method(channel, BASIC_CONSUME, arguments)


def ack(channel: int, delivery_tag: int, *, multiple: bool) -> bytes:
    return method(channel, BASIC_ACK, struct.pack(">QB", delivery_tag, multiple))


def publish(channel: int, queue: str, body: bytes, *, durable: bool, frame_max: int) -> tuple[bytes, int]:
    """A whole publish to a queue through the default exchange, and where its body begins."""
    head = method(channel, BASIC_PUBLISH, struct.pack(">H", 0) + short_string("") + short_string(queue) + b"\0")
    properties = struct.pack(">HB", DELIVERY_MODE, 2) if durable else struct.pack(">H", 0)
    head += frame(HEADER_FRAME, channel, struct.pack(">HHQ", 60, 0, len(body)) + properties)
    room = frame_max - FRAME_EXTRA
    bodies = [frame(BODY_FRAME, channel, body[at : at + room]) for at in range(0, len(body), room)]
    return head + b"".join(bodies), len(head) + FRAME_HEAD.size


# Decoding


def frame_at(data: bytes, at: int) -> tuple[Frame, int] | None:
    """The frame at `at` and the position after it; None when it is incomplete."""
    if len(data) - at < FRAME_EXTRA:
        return None
    kind, channel, size = FRAME_HEAD.unpack_from(data, at)
    start = at + FRAME_HEAD.size
    end = start + size
    if len(data) <= end:
        return None
    if data[end] != FRAME_END:
        raise WireError(f"a frame of type {kind} ends with {data[end]:#04x}")
    ids = struct.unpack_from(">HH", data, start) if kind == METHOD_FRAME else (0, 0)
    return Frame(kind, channel, (ids[0], ids[1]), bytes(data[start:end])), end + 1


def closing_reason(closed: Frame) -> str:
    """Why the broker closed a channel or the connection: its own text."""
    code, length = struct.unpack_from(">HB", closed.payload, 4)
    text = closed.payload[7 : 7 + length].decode(errors="replace")
    what = "the connection" if closed.method == CONNECTION_CLOSE else f"channel {closed.channel}"
    return f"the broker closed {what}: {code} {text}"


def texts(data: bytes, at: int) -> dict[str, str]:
    """The entries of the table at `at` whose values are long strings; other entries are skipped."""
    end = at + 4 + int(struct.unpack_from(">I", data, at)[0])
    at += 4
    found = {}
    while at < end:
        name_end = at + 1 + data[at]
        name, kind = data[at + 1 : name_end].decode(), chr(data[name_end])
        at = name_end + 1
        if kind in "SFAx":
            length = int(struct.unpack_from(">I", data, at)[0])
            if kind == "S":
                found[name] = data[at + 4 : at + 4 + length].decode(errors="replace")
            at += 4 + length
        elif kind in _FIXED_WIDTHS:
            at += struct.calcsize(_FIXED_WIDTHS[kind])
        elif kind != "V":
            raise WireError(f"a field of type {kind!r} in a table of the broker's")
    return found
