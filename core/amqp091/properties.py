"""The properties of class basic [0-9-1 4.2.6.1]: facts about a message beside its body.

On the wire: flags, one bit for each property from the highest down, then the values of the properties that are present.
The lowest bit of a flag word says that another follows; class basic has fourteen properties and needs one word. For any
bytes, decoding raises only Amqp091ConnectionFault with SYNTAX_ERROR.
"""

import struct
from dataclasses import dataclass

from core.amqp091.codec import DOMAINS, UNENCODABLE, domains_of
from core.amqp091.content import BASIC_CLASS_ID
from core.amqp091.domains import Octet, ShortString, Table, Timestamp
from core.amqp091.errors import Amqp091ConnectionFault, Amqp091EncodeError, ReplyCode

TRANSIENT = 1
PERSISTENT = 2
"""A value of ``delivery_mode``."""
TTL_MS_MAX = 2**32 - 1
"""RabbitMQ's limit of a time-to-live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicProperties:
    """The properties in the order of the specification; None is one that is absent."""

    content_type: ShortString | None = None
    content_encoding: ShortString | None = None
    headers: Table | None = None
    delivery_mode: Octet | None = None
    priority: Octet | None = None
    correlation_id: ShortString | None = None
    reply_to: ShortString | None = None
    expiration: ShortString | None = None
    """The time-to-live in milliseconds, in decimal digits."""
    message_id: ShortString | None = None
    timestamp: Timestamp | None = None
    """Seconds since 1970."""
    type: ShortString | None = None
    user_id: ShortString | None = None
    app_id: ShortString | None = None
    cluster_id: ShortString | None = None
    """From AMQP 0.8, without meaning."""


_CONTINUED = 1
_FIELDS = tuple(
    (name, 1 << 15 - index, *DOMAINS[domain]) for index, (name, domain) in enumerate(domains_of(BasicProperties))
)
_UNKNOWN = 0xFFFF & ~_CONTINUED & ~sum(flag for _, flag, _, _ in _FIELDS)
_parse_flags = struct.Struct(">H").unpack_from
_pack_flags = struct.Struct(">H").pack


def decode_properties(data: bytes, start: int, stop: int) -> BasicProperties:
    """Decode the properties whose flags are at ``start`` and whose values end at ``stop``."""
    data = data[start:stop]
    values: dict[str, object] = {}
    name = "flags"
    try:
        flags, position = _decode_flags(data)
        for name, flag, read, _ in _FIELDS:
            if flags & flag:
                values[name], position = read(data, position)
    except (IndexError, struct.error):
        raise _fault(f"{name}: cut at offset {len(data)} of the properties") from None
    except Amqp091ConnectionFault as fault:
        raise _fault(f"{name}: {fault.text}") from None
    if position != len(data):
        raise _fault(f"their values end at offset {position}, the content header at {len(data)}")
    return BasicProperties(**values)  # type: ignore[arg-type]


def encode_properties(properties: BasicProperties) -> bytes:
    """Encode flags and values. Raises Amqp091EncodeError, which names a property that cannot be encoded."""
    flags = 0
    out = bytearray(2)
    for name, flag, _, write in _FIELDS:
        value = getattr(properties, name)
        if value is not None:
            flags |= flag
            try:
                write(out, value)
            except (Amqp091EncodeError, *UNENCODABLE) as fault:
                raise Amqp091EncodeError(f"basic properties, {name}: {fault}") from None
    out[:2] = _pack_flags(flags)
    return bytes(out)


def _decode_flags(data: bytes) -> tuple[int, int]:
    """Return the first flag word, and the position behind the last. Class basic has no properties for later words."""
    first = word = _parse_flags(data)[0]
    position = 2
    unknown = word & _UNKNOWN
    while word & _CONTINUED and not unknown:
        word = _parse_flags(data, position)[0]
        position += 2
        unknown = word & ~_CONTINUED
    if unknown:
        raise _fault(f"flags {word:#06x} at offset {position - 2} stand for what class {BASIC_CLASS_ID} does not have")
    return first, position


def _fault(text: str) -> Amqp091ConnectionFault:
    return Amqp091ConnectionFault(ReplyCode.SYNTAX_ERROR, f"basic properties, {text}", BASIC_CLASS_ID)
