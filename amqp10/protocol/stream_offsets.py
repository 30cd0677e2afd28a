"""Where a link stands in a stream: the names by which broker and client tell it, and how it is read from a message.

A consumer says in a filter where it begins, the broker answers with the offset that this is, and each message has its
own offset as an annotation. The broker puts that annotation first, and so reading it takes the first bytes only.
"""

from amqp10.errors import DecodeError
from amqp10.wire.codec.decode import DEPTH_MAX, decode_value
from amqp10.wire.types import ULong

OFFSET_SPEC = "rabbitmq:stream-offset-spec"
"""The filter: ``first``, ``last`` (the newest chunk), ``next``, an offset, a timestamp, or an age such as ``5m``."""
BEGINS_AT_KEY = "headgate:begins-at"
"""A property of the attach that answers a consumer of a stream, a ulong: the offset at which the link begins to read. A
node that forwards and has not heard it from the leader yet leaves it out."""
_OFFSET_KEY = b"\xa3\x0fx-stream-offset"
"""The key of the annotation, a symbol of 15 bytes, as each broker encodes it."""


def offset_of(head: bytes) -> int | None:
    """The offset in the first bytes of a message; None if they have none."""
    at = head.find(_OFFSET_KEY)
    if at < 0:
        return None
    try:
        value, _ = decode_value(head, at + len(_OFFSET_KEY), len(head), DEPTH_MAX)
    except DecodeError:  # it is cut off, or the key is part of something else
        return None
    return value.value if isinstance(value, ULong) else None
