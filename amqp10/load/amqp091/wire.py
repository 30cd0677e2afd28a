"""The small part of AMQP 0.9.1 that a load generator uses.

Written for this folder alone, like the module for AMQP 1.0. Methods at the beginning and end of a run are assembled
from single values; those within a run (publish, deliver, ack) come from stencils and fixed layouts. A frame is type,
channel, size, payload and 0xCE [0-9-1 4.2.3].
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from amqp10.load.content import ValueSpan
from amqp10.load.wire import WireError

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

CONTENT_TYPE, CONTENT_ENCODING, HEADERS, DELIVERY_MODE, PRIORITY = 0x8000, 0x4000, 0x2000, 0x1000, 0x0800
CORRELATION_ID, REPLY_TO, EXPIRATION, MESSAGE_ID = 0x0400, 0x0200, 0x0100, 0x0080
"""The flags of properties, in the order of their values; a delivery-mode of 2 is persistent."""
_PROPERTIES: Final = {
    CONTENT_TYPE: "content_type", CONTENT_ENCODING: "content_encoding", HEADERS: "", DELIVERY_MODE: "delivery_mode",
    PRIORITY: "priority", CORRELATION_ID: "correlation_id", REPLY_TO: "reply_to", EXPIRATION: "expiration",
    MESSAGE_ID: "message_id",
}  # fmt: skip
_FIXED_WIDTHS: Final = {
    "t": ">?", "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q", "T": ">Q",
    "f": ">f", "d": ">d",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChannelFrame:
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


def properties(*, persistent: bool, value: Mapping[str, bytes]) -> bytes:
    """Flags and values of a message's properties [0-9-1 4.2.6.1]: delivery-mode, and the values of unlike messages."""
    flags, encoded = 0, b""
    if "content_type" in value:
        flags, encoded = flags | CONTENT_TYPE, encoded + short_string(value["content_type"].decode())
    if "order" in value:
        headers = table(
            {
                "order": b"l" + value["order"],
                "trace": b"S" + long_string(value["trace"]),
                "account": b"I" + value["account"],
            }
        )
        flags, encoded = flags | HEADERS, encoded + headers
    if persistent:
        flags, encoded = flags | DELIVERY_MODE, encoded + b"\x02"
    if "priority" in value:
        flags, encoded = flags | PRIORITY, encoded + value["priority"]
    if "message_id" in value:
        flags, encoded = flags | MESSAGE_ID, encoded + short_string(value["message_id"].decode())
    return struct.pack(">H", flags) + encoded


def publish(
    channel: int, exchange: str, routing_key: str, body: bytes, *, properties: bytes, frame_max: int
) -> tuple[bytes, int, int]:
    """A whole publish, where its header frame begins, and where its body."""
    arguments = struct.pack(">H", 0) + short_string(exchange) + short_string(routing_key) + b"\0"
    head = method(channel, BASIC_PUBLISH, arguments)
    header_at = len(head)
    head += frame(HEADER_FRAME, channel, struct.pack(">HHQ", 60, 0, len(body)) + properties)
    room = frame_max - FRAME_EXTRA
    bodies = [frame(BODY_FRAME, channel, body[at : at + room]) for at in range(0, len(body), room)]
    return head + b"".join(bodies), header_at, len(head) + FRAME_HEAD.size


# Decoding


def frame_at(data: bytes, at: int) -> tuple[ChannelFrame, int] | None:
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
    return ChannelFrame(kind, channel, (ids[0], ids[1]), bytes(data[start:end])), end + 1


def closing_reason(closed: ChannelFrame) -> str:
    """Why the broker closed a channel or the connection: its own text."""
    code, length = struct.unpack_from(">HB", closed.payload, 4)
    text = closed.payload[7 : 7 + length].decode(errors="replace")
    what = "the connection" if closed.method == CONNECTION_CLOSE else f"channel {closed.channel}"
    return f"the broker closed {what}: {code} {text}"


def table_items(data: bytes, at: int) -> tuple[list[tuple[str, ValueSpan]], int]:
    """The type and place of each value in the table at `at`, and the position after the table."""
    end = at + 4 + int(struct.unpack_from(">I", data, at)[0])
    at += 4
    found = []
    while at < end:
        name_end = at + 1 + data[at]
        name, kind = data[at + 1 : name_end].decode(), chr(data[name_end])
        at = start = name_end + 1
        if kind in "SFAx":
            start = at + 4
            at = start + int(struct.unpack_from(">I", data, at)[0])
        elif kind in _FIXED_WIDTHS:
            at += struct.calcsize(_FIXED_WIDTHS[kind])
        elif kind != "V":
            raise WireError(f"a field of type {kind!r} in a table of the broker's")
        found.append((kind, ValueSpan(name, start, at)))
    return found, end


def texts(data: bytes, at: int) -> dict[str, str]:
    """The entries of the table at `at` whose values are long strings; other entries are skipped."""
    items, _ = table_items(data, at)
    return {name: data[start:end].decode(errors="replace") for kind, (name, start, end) in items if kind == "S"}


def value_places(data: bytes, header_at: int, names: Collection[str]) -> list[ValueSpan]:
    """The places of the values with these names in the publish or delivery in `data`, whose header frame begins at
    `header_at`."""
    if not names:
        return []
    at = FRAME_HEAD.size + 4
    delivered = struct.unpack_from(">HH", data, FRAME_HEAD.size) == BASIC_DELIVER
    at += 1 + data[at] + 8 + 1 if delivered else 2  # consumer tag, delivery-tag and redelivered; or a reserved number
    at += 1 + data[at]
    found = [ValueSpan("key", at + 1, at + 1 + data[at])]
    at = header_at + FRAME_HEAD.size + 14
    flags: int = struct.unpack_from(">H", data, at - 2)[0]
    for flag, name in _PROPERTIES.items():
        if not flags & flag:
            continue
        if flag == HEADERS:
            items, at = table_items(data, at)
            found += [place for _, place in items]
        else:
            start = at if flag in (DELIVERY_MODE, PRIORITY) else at + 1
            end = at + 1 if flag in (DELIVERY_MODE, PRIORITY) else at + 1 + data[at]
            found.append(ValueSpan(name, start, end))
            at = end
    return [place for place in found if place.name in names]
