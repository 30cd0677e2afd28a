"""The content that follows basic.publish, put together from its frames: one content header, then bodies [0-9-1 4.2.6].

The header announces the size of the body in bytes. Body frames may divide it in any way, and may be empty. Any other
frame where a header or a body is due is an unexpected frame; more body than announced is a frame error.

The assembly holds the bytes that have arrived, and joins them once: many tiny frames cost no more than their bytes, and
a large announcement costs nothing.

This module must not know channels, limits over several contents, or what a property means.
"""

from struct import Struct

from core.amqp091.content import BASIC_CLASS_ID, PROPERTIES_AT
from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ReplyCode
from core.amqp091.framing import gather
from core.amqp091.methods import BasicPublish
from core.amqp091.properties import decode_properties

_HEADER = Struct(">HHQ")
_HEADER_BYTES_MIN = PROPERTIES_AT + 2
"""The size of a content header without properties: it has property flags in any case."""


class ContentAssembly:
    """The content of one basic.publish."""

    __slots__ = ("_body", "_body_bytes", "_header", "_left", "publish")

    def __init__(self, publish: BasicPublish) -> None:
        self.publish = publish
        self._header = b""
        """The payload of the content header frame; b"" before it has arrived."""
        self._body: list[bytes | bytearray] = []
        self._body_bytes = 0
        self._left = 0
        """Bytes of the body that have not arrived yet."""

    @property
    def complete(self) -> bool:
        """Whether the header and the whole body have arrived."""
        return bool(self._header) and self._left == 0

    @property
    def held_bytes(self) -> int:
        """Bytes of the body that have arrived."""
        return self._body_bytes

    def header_received(self, payload: bytes, max_message_size: int) -> None:
        """Take the content header. Raises Amqp091ConnectionFault, and ChannelFault when the announced body is too
        large."""
        if self._header:
            raise self.unexpected("a content header")
        body_size = body_size_of(payload)
        if body_size > max_message_size:
            raise ChannelFault(
                ReplyCode.PRECONDITION_FAILED,
                f"message size {body_size} is larger than configured max size {max_message_size}",
                *BasicPublish.ID,
            )
        decode_properties(payload, PROPERTIES_AT, len(payload))
        self._header = payload
        self._left = body_size

    def body_received(self, payload: bytes) -> None:
        """Take a part of the body. Raises Amqp091ConnectionFault."""
        if not self._header:
            raise self.unexpected("a content body")
        if len(payload) > self._left:
            raise Amqp091ConnectionFault(
                ReplyCode.FRAME_ERROR,
                f"a content body of {len(payload)} bytes, where {self._left} are left of what its header announced",
                *BasicPublish.ID,
            )
        gather(self._body, payload)
        self._body_bytes += len(payload)
        self._left -= len(payload)

    def entry(self) -> bytes:
        """The message as the broker keeps it. Only valid when ``complete``."""
        return b"".join((self._header, *self._body))

    @property
    def properties(self) -> bytes:
        """Property flags and list, as received."""
        return self._header[PROPERTIES_AT:]

    def unexpected(self, came: str) -> Amqp091ConnectionFault:
        """Return the fault for a frame ``came`` that is not the one that is due."""
        due = "body" if self._header else "header"
        return Amqp091ConnectionFault(
            ReplyCode.UNEXPECTED_FRAME, f"a content {due} is expected, and {came} came", *BasicPublish.ID
        )


def body_size_of(header: bytes) -> int:
    """The size of the body that a content header announces. Raises Amqp091ConnectionFault for a header of another class
    than basic.

    The properties are not decoded. UNEXPECTED_FRAME for another class is RabbitMQ's choice.
    """
    if len(header) < _HEADER_BYTES_MIN:
        text = f"a content header of {len(header)} bytes is below the minimum of {_HEADER_BYTES_MIN}"
        raise Amqp091ConnectionFault(ReplyCode.SYNTAX_ERROR, text)
    class_id, weight, body_size = _HEADER.unpack_from(header)
    if class_id != BASIC_CLASS_ID:
        text = f"expected a content header of class {BASIC_CLASS_ID}, not of {class_id}"
        raise Amqp091ConnectionFault(ReplyCode.UNEXPECTED_FRAME, text)
    if weight:
        raise Amqp091ConnectionFault(ReplyCode.FRAME_ERROR, f"a content header has weight {weight}, which must be 0")
    return int(body_size)
