"""The content that follows basic.publish, put together from its frames: one content header, then bodies [0-9-1 4.2.6].

The header announces how many bytes of body will come; frames may cut them as they like, and empty ones bring nothing.
Whatever is no header where one is due, or no body, is an unexpected frame; more body than announced is a frame error.

What is held is one bytearray that grows with what has come, never with what was announced: many tiny frames cost no
more than their bytes, and a large announcement costs nothing.

This module must not know channels, limits over several contents, or what a property means.
"""

from struct import Struct

from core.amqp091.content import BASIC_CLASS_ID, PROPERTIES_AT
from core.amqp091.errors import ChannelFault, ConnectionFault, ReplyCode
from core.amqp091.methods import BasicPublish
from core.amqp091.properties import decode_properties

_HEADER = Struct(">HHQ")
_HEADER_BYTES_MIN = PROPERTIES_AT + 2
"""A content header without properties: their flags are there even so."""


class ContentAssembly:
    """The content of one basic.publish."""

    __slots__ = ("_body", "_header", "_left", "publish")

    def __init__(self, publish: BasicPublish) -> None:
        self.publish = publish
        self._header = b""
        """The payload of the content header frame; b"" before it has come."""
        self._body = bytearray()
        self._left = 0
        """Bytes of body that are still to come."""

    @property
    def complete(self) -> bool:
        """The header and all of the body are there."""
        return bool(self._header) and self._left == 0

    @property
    def held_bytes(self) -> int:
        """Of the body, so far."""
        return len(self._body)

    def header_received(self, payload: bytes, max_message_size: int) -> None:
        """Take the content header. Raises ConnectionFault, and ChannelFault for a body that is announced too large."""
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
        """Take some of the body. Raises ConnectionFault."""
        if not self._header:
            raise self.unexpected("a content body")
        if len(payload) > self._left:
            raise ConnectionFault(
                ReplyCode.FRAME_ERROR,
                f"a content body of {len(payload)} bytes, where {self._left} are left of what its header announced",
                *BasicPublish.ID,
            )
        self._body += payload
        self._left -= len(payload)

    def entry(self) -> bytes:
        """The message as the broker keeps it. Only when ``complete``."""
        return self._header + self._body

    @property
    def properties(self) -> bytes:
        """Flags and list, as they came."""
        return self._header[PROPERTIES_AT:]

    def unexpected(self, came: str) -> ConnectionFault:
        """What came instead of the frame that is due."""
        due = "body" if self._header else "header"
        return ConnectionFault(
            ReplyCode.UNEXPECTED_FRAME, f"a content {due} is expected, and {came} came", *BasicPublish.ID
        )


def body_size_of(header: bytes) -> int:
    """The size of the body that a content header announces. Raises ConnectionFault for one that is not of basic.

    The properties are not looked at. UNEXPECTED_FRAME for another class is RabbitMQ's choice.
    """
    if len(header) < _HEADER_BYTES_MIN:
        text = f"a content header of {len(header)} bytes is below the minimum of {_HEADER_BYTES_MIN}"
        raise ConnectionFault(ReplyCode.SYNTAX_ERROR, text)
    class_id, weight, body_size = _HEADER.unpack_from(header)
    if class_id != BASIC_CLASS_ID:
        text = f"expected a content header of class {BASIC_CLASS_ID}, not of {class_id}"
        raise ConnectionFault(ReplyCode.UNEXPECTED_FRAME, text)
    if weight:
        raise ConnectionFault(ReplyCode.FRAME_ERROR, f"a content header has weight {weight}, which must be 0")
    return int(body_size)
